"""What is known of one session of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio

from trio_acp._order import Line
from trio_acp.schema import SessionUpdate

from ._buffers import UpdateStream
from ._replay import Replay
from ._running import RunningTurn
from ._scope import SessionScope
from ._snapshots import SessionState, fold
from ._work import Handlers

if TYPE_CHECKING:
    from ._opening import Opening

__all__ = ["SessionRecord", "StateChanges"]


@final
class SessionRecord:
    """One session, from the moment its id is known."""

    __slots__ = (
        "change",
        "closed",
        "ended",
        "handlers",
        "line",
        "opening",
        "queue",
        "replay",
        "scope",
        "state",
        "turn",
        "updates",
        "version",
    )

    def __init__(self, scope: SessionScope) -> None:
        self.scope: SessionScope = scope
        self.state: SessionState = SessionState()
        self.version: int = 0
        """Grows with every change of the state."""
        self.change: trio.Event | None = None
        """Set, once, at the next change; None while nobody waits for one."""
        self.updates: UpdateStream[SessionUpdate] = UpdateStream()
        """Updates that belong to no turn."""
        self.turn: RunningTurn | None = None
        """The turn that runs; also one that was abandoned, until its late answer."""
        self.opening: Opening | None = None
        """The load or resume that is under way."""
        self.replay: Replay = Replay()
        """What the last load replayed."""
        self.queue: trio.StrictFIFOLock = trio.StrictFIFOLock()
        """Held by a prompt that waits for its turn."""
        self.closed: bool = False
        """It was closed, deleted, or never opened after all."""
        self.ended: bool = False
        """Nothing about it will change any more."""
        self.line: Line = Line()
        self.handlers: Handlers = Handlers(self.line)
        """Handlers that serve this session outside of its turns."""

    @property
    def id(self) -> str:
        """The agent's id of it."""
        return self.scope.id

    @property
    def cwd(self) -> str:
        """Its working directory, absolute."""
        return self.scope.cwd

    @property
    def busy(self) -> bool:
        """A turn, a load or a resume has not been answered."""
        return self.turn is not None or self.opening is not None

    def outside_of_turns(self, update: SessionUpdate, size: int) -> None:
        """Take an update of ``size`` bytes that belongs to no turn. Called in the read loop."""
        if self.opening is not None and self.opening.replays:
            self.opening.put(update, size)
            return
        fold(update, self.state, None)
        self.updates.put(update, size)
        self.changed()

    def changed(self) -> None:
        """The state has changed."""
        self.version += 1
        if self.change is not None:
            self.announce()

    def announce(self) -> None:
        """Wake those who wait for a change."""
        change, self.change = self.change, None
        if change is not None:
            change.set()

    def end(self) -> None:
        """Nothing more will be heard of it."""
        self.ended = True
        self.updates.end()
        self.announce()


@final
class StateChanges:
    """The changes of a session's state, to be iterated over; made by `Session.state_changes`.

    Each iteration gives the state as it is now, after at least one change since the one before. Changes that
    come faster than they are taken are one: nothing is kept, so nothing has to be bounded. The iteration
    ends when the session was closed or the connection has ended. Any number of iterators may be at work.
    """

    def __init__(self, record: SessionRecord) -> None:
        self._record = record
        self._seen = record.version

    def __aiter__(self) -> StateChanges:
        return self

    async def __anext__(self) -> SessionState:
        """Wait for a change since the last one that was given.

        Cancellation: only the waiting ends; a change is not lost by it.
        """
        record = self._record
        await trio.lowlevel.checkpoint()
        while self._seen == record.version:
            if record.ended:
                raise StopAsyncIteration
            if record.change is None:
                record.change = trio.Event()
            await record.change.wait()
        self._seen = record.version
        return record.state

"""A session that is on its way in: a load or a resume, from its request to its answer (S2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, final

import trio

from trio_acp._core import OutboundRequest
from trio_acp._errors import AcpError, InvalidResponse, SessionBusy
from trio_acp._peer import Peer
from trio_acp.schema import LoadSessionResponse, ResumeSessionResponse, SessionUpdate

from ._choices import read_models
from ._record import SessionRecord
from ._replay import Replay
from ._scope import SessionScope
from ._snapshots import SessionState, fold

if TYPE_CHECKING:
    from ._table import SessionTable

__all__ = [
    "LOAD",
    "RESUME",
    "Opening",
    "OpeningHost",
    "busy",
    "check_free",
    "given_up",
    "run_opening",
    "take_setup",
    "wait_until_free",
]

LOAD: Final = "session/load"
RESUME: Final = "session/resume"


class OpeningHost(Protocol):
    """What an opening needs of its connection."""

    def read_result(self, method: str, result_type: Any, raw: Any) -> Any:
        """Decode the result of a method, or raise `InvalidResponse`."""

    def opened(self, opening: Opening) -> SessionRecord:
        """The agent has opened the session: enter it, and return its record."""
        ...

    def not_opened(self, opening: Opening, *, at_agent: bool) -> None:
        """The session is not opened after all, or nobody wants it; ``at_agent``: it is open there."""

    def discard(self, session_id: str) -> None:
        """Forget a session that nobody will use, and have the agent free it where it can."""


def take_setup(state: SessionState, response: Any, *, newest: bool) -> None:
    """Take over what the answer that makes or opens a session says of it.

    Args:
        state: the session's state.
        response: the answer.
        newest: the answer is newer than everything that is known; otherwise it only fills gaps.
    """
    if response.modes is not None and (newest or state.modes is None):
        state.modes = response.modes
    models = read_models(response.extra)
    if models is not None and (newest or state.models is None):
        state.models = models
    if response.config_options is not None and (newest or not state.config_options):
        state.config_options = response.config_options
    state.chosen()


@final
class Opening:
    """A load or a resume while it is under way.

    The state that it brings is collected apart, on top of what is known of the session (but not of the
    conversation), and becomes the session's when the agent says that it is open.

    Args:
        host: the connection.
        record: the session: one that is open already, or a new one that nobody sees yet.
        scope: where the session is to work.
        method: ``session/load`` or ``session/resume``.
    """

    def __init__(
        self, host: OpeningHost, record: SessionRecord, scope: SessionScope, method: str, *, fresh: bool
    ) -> None:
        self._host = host
        self._method = method
        self.record: SessionRecord = record
        self.scope = scope
        self.fresh = fresh
        """The session was not open before."""
        self.replays: bool = method == LOAD
        self.state: SessionState = record.state.without_conversation() if self.replays else record.state
        self.replay: Replay = Replay()
        self.ended: trio.Event = trio.Event()
        """It has been answered, or never will be."""
        self.error: AcpError | None = None
        self.request: OutboundRequest | None = None
        self.over: trio.Event = trio.Event()
        """It has ended, or was given up: there is nobody who waits for it."""
        self.unwanted: bool = False
        """Nobody waits for it any more; the agent may still be at it."""

    def put(self, update: SessionUpdate, size: int) -> None:
        """Take an update that is a part of the replay."""
        fold(update, self.state, None)
        self.replay.put(update, size)

    def answered(self, result: Any, error: AcpError | None) -> None:
        """Take the answer, or the news that there will be none. Called in the read loop."""
        self.record.opening = None
        kind = LoadSessionResponse if self.replays else ResumeSessionResponse
        response: Any = None
        at_agent = error is None
        if error is None:
            try:
                response = self._host.read_result(self._method, kind, result)
            except InvalidResponse as mismatch:
                error = mismatch
        if error is None and not self.unwanted:
            take_setup(self.state, response, newest=True)
            self.record = self._host.opened(self)
        else:
            self._host.not_opened(self, at_agent=at_agent)
        self.error = error
        self.ended.set()
        self.over.set()

    def withdraw(self, peer: Peer) -> None:
        """Nobody waits any more: tell the agent (X4). Its answer still comes here, and frees the session."""
        self.unwanted = True
        self.over.set()
        if not self.ended.is_set():
            assert self.request is not None
            # Not `Peer.give_up`: a refusal that comes late has to be known as well.
            peer.notify_last("$/cancel_request", {"requestId": self.request.id})
        elif self.fresh and self.error is None:
            # The answer came with the cancellation: the session is open, and nobody gets it.
            self._host.discard(self.record.id)


async def run_opening(
    table: SessionTable, peer: Peer, method: str, scope: SessionScope, params: dict[str, Any], patience: float
) -> SessionRecord:
    """Load or resume a session, and return its record.

    Args:
        table: where it is entered.
        peer: asks the agent.
        method: ``session/load`` or ``session/resume``.
        scope: the session, and where it is to work.
        params: what is sent.
        patience: seconds to wait for work of the session that was given up.
    """
    record = table.find(scope.id)
    if record is not None:
        await wait_until_free(record, patience)
    await peer.room()
    record = table.find(scope.id)
    if record is not None:
        check_free(record)
    opening = table.begin_opening(method, scope, params)
    try:
        await opening.ended.wait()
    except BaseException:  # Cancelled, or a KeyboardInterrupt
        opening.withdraw(peer)
        raise
    if opening.error is not None:
        raise opening.error
    return opening.record


def given_up(record: SessionRecord) -> trio.Event | None:
    """Return the end of the work that nobody waits for any more; None if a session has no such work."""
    turn, opening = record.turn, record.opening
    if turn is not None and turn.abandoned:
        return turn.ended
    if opening is not None and opening.unwanted:
        return opening.ended
    return None


async def wait_until_free(record: SessionRecord, patience: float) -> None:
    """Wait for the end of work that was given up, at most so many seconds.

    Raises:
        SessionBusy: it has not ended, or the session is busy with work that somebody waits for.
    """
    ended = given_up(record)
    if ended is not None:
        with trio.move_on_after(patience):
            await ended.wait()
    check_free(record)


def check_free(record: SessionRecord) -> None:
    """Refuse a prompt or a load while the session is at work.

    Raises:
        SessionBusy: it is.
    """
    if record.busy:
        raise busy(record)


def busy(record: SessionRecord) -> SessionBusy:
    """Say what a session is busy with."""
    turn, opening = record.turn, record.opening
    text = None
    if opening is not None:
        text = f"session {record.id!r} is being loaded or resumed; wait for that"
        if opening.unwanted:
            text = (
                f"session {record.id!r} still works on a load that was cancelled; "
                "try again later, or use a new session"
            )
    elif turn is not None and turn.abandoned:
        text = (
            f"session {record.id!r} still works on a turn that was cancelled and abandoned; "
            "try again later, or use a new session"
        )
    return SessionBusy(record.id, text)

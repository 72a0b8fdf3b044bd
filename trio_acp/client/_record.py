"""What a connection keeps about each session."""

from __future__ import annotations

from typing import final

from trio_acp.schema import SessionUpdate

from ._buffers import UpdateStream
from ._running import RunningTurn
from ._scope import SessionScope
from ._snapshots import SessionState
from ._work import Handlers, Line

__all__ = ["SessionRecord"]


@final
class SessionRecord:
    """One session, from the moment its id is known."""

    __slots__ = ("closed", "handlers", "id", "line", "scope", "state", "turn", "updates")

    def __init__(self, scope: SessionScope) -> None:
        self.id = scope.id
        self.scope = scope
        self.state = SessionState()
        self.updates: UpdateStream[SessionUpdate] = UpdateStream()
        """Updates that belong to no turn."""
        self.turn: RunningTurn | None = None
        """The turn that runs; also one that was abandoned, until its late answer."""
        self.closed = False
        self.line = Line()
        self.handlers = Handlers(self.line)
        """Handlers that serve this session outside of its turns."""

    @property
    def cwd(self) -> str:
        """Its working directory, absolute."""
        return self.scope.cwd

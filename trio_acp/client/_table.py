"""The sessions of one connection: how they come into it, and how they leave it (S1 to S4)."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, Final, Protocol, final

import attrs

from trio_acp._errors import AcpError
from trio_acp._peer import Peer
from trio_acp.schema import AgentCapabilities, SessionUpdate

from ._buffers import UpdateStream
from ._opening import Opening
from ._record import SessionRecord
from ._scope import SessionScope
from ._snapshots import fold

__all__ = ["EARLY_BYTES", "EARLY_UPDATES", "SessionTable", "StrayUpdate"]

EARLY_UPDATES: Final = 4096
"""Updates that are kept for sessions whose ids are not known yet (S4)."""

EARLY_BYTES: Final = 16 * 1024 * 1024
"""Bytes, as they were on the wire, of the updates that are kept so."""


@attrs.frozen
class StrayUpdate:
    """An update for a session that this connection does not know.

    Attributes:
        session_id: the session that it names.
        update: the update.
    """

    session_id: str
    update: SessionUpdate


class TableHost(Protocol):
    """What the table needs of the connection that it belongs to."""

    peer: Peer
    capabilities: AgentCapabilities

    def read_result(self, method: str, result_type: Any, raw: Any) -> Any:
        """Decode the result of a method, or raise `InvalidResponse`."""

    def session_ended(self, record: SessionRecord) -> None:
        """A session is no more: services have to know."""


@final
class SessionTable:
    """The sessions that are open on a connection, and those that are about to be.

    Args:
        host: the connection.
    """

    def __init__(self, host: TableHost) -> None:
        self._host = host
        self.open: dict[str, SessionRecord] = {}
        """Sessions that are open; one that was closed stays until its turn has its answer."""
        self.arriving: dict[str, SessionRecord] = {}
        """Sessions that are being loaded or resumed and were not open before."""
        self.strays: UpdateStream[StrayUpdate] = UpdateStream()
        """Updates for sessions that are neither."""
        self.creating: int = 0
        """Requests under way that create a session: their updates may come before their answers."""
        self._token = object()
        """Stands for the connection in the scopes that services get."""
        self._early: deque[tuple[StrayUpdate, int]] = deque()
        self._early_bytes = 0

    @property
    def token(self) -> object:
        """Stands for the connection in the scopes that services get."""
        return self._token

    def find(self, session_id: object) -> SessionRecord | None:
        """Return a session that is open, or about to be."""
        if type(session_id) is not str:
            return None
        assert isinstance(session_id, str)
        return self.open.get(session_id) or self.arriving.get(session_id)

    def scope_of(self, session_id: str, cwd: str, additional_directories: tuple[str, ...]) -> SessionScope:
        """Return what a session is to work in."""
        return SessionScope(session_id, cwd, additional_directories, self._token)

    # New ones ------------------------------------------------------------------------------------------

    def adopt(self, session_id: str, cwd: str, additional_directories: tuple[str, ...] = ()) -> SessionRecord:
        """Enter a session as soon as its id is known, with the updates that came before it (S4)."""
        record = self.open.get(session_id)
        if record is None or record.closed:
            scope = self.scope_of(session_id, cwd, additional_directories)
            record = self.open[session_id] = SessionRecord(scope)
        early, self._early, self._early_bytes = self._early, deque(), 0
        for stray, size in early:
            if stray.session_id == session_id:
                fold(stray.update, record.state, None)
                record.updates.put(stray.update, size)
                record.changed()
            else:
                self._keep_early(stray, size)
        return record

    def creation_over(self) -> None:
        """A request that creates a session has ended, in whatever way."""
        self.creating -= 1
        if self.creating == 0:
            for stray, size in self._early:
                self.strays.put(stray, size)
            self._early.clear()
            self._early_bytes = 0

    def stray(self, stray: StrayUpdate, size: int) -> None:
        """Take an update for a session that is not known, or not yet."""
        if self.creating:
            self._keep_early(stray, size)
        else:
            self.strays.put(stray, size)

    def _keep_early(self, stray: StrayUpdate, size: int) -> None:
        self._early.append((stray, size))
        self._early_bytes += size
        while len(self._early) > EARLY_UPDATES or (self._early_bytes > EARLY_BYTES and len(self._early) > 1):
            _, dropped = self._early.popleft()
            self._early_bytes -= dropped
            self.strays.lost += 1

    # Old ones ------------------------------------------------------------------------------------------

    def begin_opening(self, method: str, scope: SessionScope, params: dict[str, Any]) -> Opening:
        """Ask for a session that the agent has, in one step (S2); it must not be busy."""
        known = self.open.get(scope.id)
        record = SessionRecord(scope) if known is None else known
        opening = Opening(self, record, scope, method, fresh=known is None)
        opening.request = self._host.peer.start_request(method, params, opening.answered)
        record.opening = opening
        if known is None:
            self.arriving[scope.id] = record
        return opening

    def read_result(self, method: str, result_type: Any, raw: Any) -> Any:
        """Decode the result of a method, or raise `InvalidResponse`."""
        return self._host.read_result(method, result_type, raw)

    def opened(self, opening: Opening) -> SessionRecord:
        """The agent has opened the session: enter it, and return its record."""
        record, scope = opening.record, opening.scope
        self.arriving.pop(scope.id, None)
        if record.closed:  # while it was being loaded; now it is open again
            record = SessionRecord(scope)
        self.open[scope.id] = record
        record.scope = scope
        if opening.replays:
            record.replay = opening.replay
            opening.state.history.close_message()
        record.state.become(opening.state)
        record.changed()
        return record

    def not_opened(self, opening: Opening, *, at_agent: bool) -> None:
        """The session is not opened after all, or nobody wants it; ``at_agent``: it is open there."""
        if opening.fresh:
            self.arriving.pop(opening.scope.id, None)
            self._retire(opening.record)
            if at_agent:
                self.free_at_agent(opening.scope.id)

    # Leaving -------------------------------------------------------------------------------------------

    def forget(self, session_id: str) -> None:
        """The session is no more. While a turn of it waits for its answer, its messages are the turn's."""
        record = self.open.get(session_id)
        if record is not None:
            self._retire(record)
            if record.turn is None:
                del self.open[session_id]

    def turn_ended(self, record: SessionRecord) -> None:
        """The last that was open of a session has its answer."""
        if record.closed:
            del self.open[record.id]

    def _retire(self, record: SessionRecord) -> None:
        record.closed = True
        record.end()
        record.handlers.end()
        self._host.session_ended(record)

    def discard(self, session_id: str) -> None:
        """Forget a session that nobody will use, and have the agent free it where it can; nobody waits."""
        self.forget(session_id)
        self.free_at_agent(session_id)

    def free_at_agent(self, session_id: str) -> None:
        """Have the agent free a session where it offers that; nobody waits."""
        host = self._host
        if host.capabilities.session_capabilities.close is not None and host.peer.reason is None:
            with contextlib.suppress(AcpError):  # the input may be ending at this moment
                host.peer.start_request(
                    "session/close", {"sessionId": session_id}, lambda result, error: None
                )

    def end_streams(self) -> None:
        """End the iteration over everything that is not a turn's."""
        for record in self.open.values():
            record.end()
        self.strays.end()

"""Making and opening sessions: what is asked of the agent, and what comes of its answer (S1 to S4)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import attrs

from trio_acp.schema import (
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    McpServer,
    McpServerHttp,
    McpServerSse,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    unstructure,
)

from ._connection import ClientConnection
from ._opening import LOAD, run_opening, take_setup
from ._options import absolute_path
from ._record import SessionRecord
from ._session import Session

__all__ = ["SessionPlace", "list_page", "make_session", "open_session"]


@attrs.frozen
class SessionPlace:
    """Where a session is to work, as the application says it; see `ConnectedAgent.new_session`."""

    cwd: str | os.PathLike[str] | None
    mcp_servers: Sequence[McpServer] | None
    additional_directories: Sequence[str | os.PathLike[str]]
    meta: dict[str, Any] | None

    def servers(self, connection: ClientConnection) -> list[McpServer]:
        """Return the MCP servers, all of kinds that the agent supports (S6)."""
        default = connection.options.mcp_servers
        servers = list(default if self.mcp_servers is None else self.mcp_servers)
        offered = connection.capabilities.mcp_capabilities
        for server in servers:
            if isinstance(server, McpServerHttp):
                connection.require(offered.http, "mcpCapabilities.http")
            elif isinstance(server, McpServerSse):
                connection.require(offered.sse, "mcpCapabilities.sse")
        return servers

    def roots(self, connection: ClientConnection) -> tuple[str, tuple[str, ...]]:
        """Return the working directory and the other roots, absolute (S1)."""
        if self.additional_directories:
            connection.require(
                connection.capabilities.session_capabilities.additional_directories is not None,
                "sessionCapabilities.additionalDirectories",
            )
        where = absolute_path(connection.options.cwd if self.cwd is None else self.cwd)
        return where, tuple(absolute_path(path) for path in self.additional_directories)


async def make_session(connection: ClientConnection, place: SessionPlace) -> Session:
    """Make a new session; see `ConnectedAgent.new_session`."""
    table = connection.table
    servers = place.servers(connection)
    where, others = place.roots(connection)
    request = NewSessionRequest(where, servers, list(others), meta=place.meta)

    adopted: list[str] = []

    def adopt(result: Any) -> SessionRecord:
        # In the read loop: an update right behind the answer must find its session.
        response: NewSessionResponse = connection.read_result("session/new", NewSessionResponse, result)
        if response.session_id not in table.open:
            adopted.append(response.session_id)
        record = table.adopt(response.session_id, where, others)
        take_setup(record.state, response, newest=False)
        return record

    table.creating += 1
    try:
        record: SessionRecord = await connection.peer.request(
            "session/new",
            unstructure(request),
            on_late=partial(_close_late, connection, adopted),
            convert=adopt,
        )
    finally:
        table.creation_over()
    return Session(connection, record)


def _close_late(connection: ClientConnection, adopted: list[str], result: Any) -> None:
    """Nobody waits for this new session any more: have the agent free it, where it can.

    Args:
        connection: where it was asked for.
        adopted: the session, if the answer was taken before the waiting ended.
        result: the answer.
    """
    session_id: Any = cast("dict[str, Any]", result).get("sessionId") if isinstance(result, dict) else None
    if not isinstance(session_id, str):
        return
    # An answer with the id of a session that is in use must not cost that one.
    if session_id in adopted or connection.table.find(session_id) is None:
        connection.table.discard(session_id)


async def open_session(
    connection: ClientConnection, method: str, session_id: str, place: SessionPlace
) -> Session:
    """Load or resume a session; see `ConnectedAgent.load_session`."""
    capabilities = connection.capabilities
    if method == LOAD:
        connection.require(capabilities.load_session, "loadSession")
    else:
        resume = capabilities.session_capabilities.resume
        connection.require(resume is not None, "sessionCapabilities.resume")
    servers = place.servers(connection)
    where, others = place.roots(connection)
    kind = LoadSessionRequest if method == LOAD else ResumeSessionRequest
    record = await run_opening(
        connection.table,
        connection.peer,
        method,
        connection.table.scope_of(session_id, where, others),
        unstructure(kind(session_id, where, servers, list(others), meta=place.meta)),
        connection.options.cancel_grace,
    )
    return Session(connection, record)


async def list_page(
    connection: ClientConnection, cwd: str | None, cursor: str | None
) -> ListSessionsResponse:
    """Return one page of the agent's list of sessions (S3)."""
    answer: ListSessionsResponse = await connection.peer.request(
        "session/list",
        unstructure(ListSessionsRequest(cwd, cursor)),
        convert=partial(connection.read_result, "session/list", ListSessionsResponse),
    )
    return answer

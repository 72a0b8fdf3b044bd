"""An agent that is connected and has introduced itself, as the application holds it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast, final

import attrs
import trio

from trio_acp._errors import AcpError, LocalProtocolError
from trio_acp.schema import (
    AgentCapabilities,
    AuthMethod,
    AuthMethodTerminal,
    Implementation,
    InitializeResponse,
    Leniency,
    McpServer,
    McpServerHttp,
    McpServerSse,
    NewSessionRequest,
    NewSessionResponse,
    UnknownVariant,
    unstructure,
)

from ._buffers import UpdateStream
from ._connection import ClientConnection, StrayUpdate
from ._generate import Conversations, GenerateStream
from ._messages import Messages
from ._options import absolute_path
from ._record import SessionRecord
from ._session import Session

__all__ = ["AgentStatistics", "ConnectedAgent"]


@attrs.frozen
class AgentStatistics:
    """Counters of a connection, for logs and tests.

    Attributes:
        messages_received: well-formed messages that the agent has sent.
        junk_lines: lines of its that were no messages.
        updates_dropped: updates that did not fit the schema.
        leniencies: values that did not fit and were read as their default, or dropped from a list.
        open_requests: requests of ours that wait for an answer, running prompts among them.
        open_agent_requests: requests of the agent that wait for an answer.
        outbox_bytes: bytes that wait to be written.
    """

    messages_received: int
    junk_lines: int
    updates_dropped: int
    leniencies: int
    open_requests: int
    open_agent_requests: int
    outbox_bytes: int


@final
class ConnectedAgent:
    """A coding agent at the other end of a connection; made by `open_acp` and `connect_acp`."""

    def __init__(
        self,
        connection: ClientConnection,
        introduction: InitializeResponse,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._close = close
        self._introduction = introduction
        self._conversations = Conversations(
            self.new_session, introduction.agent_capabilities.prompt_capabilities
        )

    def __repr__(self) -> str:
        name = "unnamed" if self.info is None else f"{self.info.name} {self.info.version}"
        return f"<ConnectedAgent {name}>"

    # What is known -------------------------------------------------------------------------------------

    @property
    def info(self) -> Implementation | None:
        """Name and version of the agent; None where it does not tell."""
        return self._introduction.agent_info

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the agent offers (I3)."""
        return self._introduction.agent_capabilities

    @property
    def auth_methods(self) -> Sequence[AuthMethod]:
        """Ways to authenticate, in the agent's order (U1)."""
        return self._introduction.auth_methods

    @property
    def protocol_version(self) -> int:
        """The version of ACP that both sides speak (I2)."""
        return self._introduction.protocol_version

    @property
    def meta(self) -> dict[str, Any] | None:
        """The ``_meta`` of the agent's introduction."""
        return self._introduction.meta

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions that are open on this connection, by id."""
        connection = self._connection
        return {id: Session(connection, record) for id, record in connection.sessions.items()}

    @property
    def closed(self) -> bool:
        """Calls cannot be made any more; ``closed_reason`` says why."""
        return self._connection.peer.reason is not None

    @property
    def closed_reason(self) -> AcpError | None:
        """What calls raise now: None while they can be made."""
        return self._connection.peer.reason

    @property
    def leniencies(self) -> Sequence[Leniency]:
        """The newest values of the agent that did not fit and were read as a default, or left out (W9)."""
        return tuple(self._connection.leniencies)

    def statistics(self) -> AgentStatistics:
        """Return the counters of the connection as they are now."""
        connection = self._connection
        core = connection.peer.core
        return AgentStatistics(
            messages_received=core.messages_received,
            junk_lines=core.junk_lines,
            updates_dropped=connection.updates_dropped,
            leniencies=connection.leniencies_total,
            open_requests=core.outbound_count,
            open_agent_requests=core.inbound_count,
            outbox_bytes=connection.peer.outbox_bytes,
        )

    async def wait_lost(self) -> AcpError | None:
        """Wait until the agent has gone, and return why; for supervisors.

        Cancellation: only the waiting ends.
        """
        await self._connection.peer.input_ended.wait()
        return self.closed_reason

    async def aclose(self) -> None:
        """Close the connection, as leaving the ``open_acp`` block does. Idempotent.

        Turns are cancelled, open requests answered, what is queued is written; then the stream is closed, or
        the process ended. Shielded against cancellation, and bounded by ``cancel_grace`` and
        ``shutdown_grace``.
        """
        await self._close()

    # Sessions ------------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        mcp_servers: Sequence[McpServer] | None = None,
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        meta: dict[str, Any] | None = None,
    ) -> Session:
        """Begin a conversation (``session/new``, S1).

        Updates that the agent sends for it before its answer are kept and delivered (S4).

        Cancellation: withdraws the request; a session that the agent makes all the same is closed where it
        offers that.

        Args:
            cwd: working directory of the session; by default that of the options. Made absolute.
            mcp_servers: MCP servers for the agent to use; by default those of the options.
            additional_directories: more roots that the session may touch.
            meta: ``_meta`` of the request.

        Raises:
            CapabilityError: additional roots, or a kind of MCP server, that the agent does not support;
                nothing was sent.
            AuthRequired: the agent wants `authenticate` first.
            RequestError: the agent refused.
            InvalidResponse: its answer does not fit the schema.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        connection = self._connection
        servers = list(connection.options.mcp_servers if mcp_servers is None else mcp_servers)
        self._check_servers(servers)
        if additional_directories:
            connection.require(
                self.capabilities.session_capabilities.additional_directories is not None,
                "sessionCapabilities.additionalDirectories",
            )
        where = absolute_path(connection.options.cwd if cwd is None else cwd)
        others = tuple(absolute_path(path) for path in additional_directories)
        params = unstructure(
            NewSessionRequest(
                cwd=where,
                mcp_servers=servers,
                additional_directories=list(others),
                meta=meta,
            )
        )

        adopted: list[str] = []

        def adopt(result: Any) -> SessionRecord:
            # In the read loop: an update right behind the answer must find its session.
            response: NewSessionResponse = connection.read_result("session/new", NewSessionResponse, result)
            if response.session_id not in connection.sessions:
                adopted.append(response.session_id)
            record = connection.adopt(response.session_id, where, others)
            if record.state.modes is None:
                record.state.modes = response.modes
            if not record.state.config_options:
                record.state.config_options = response.config_options or []
            return record

        connection.creating += 1
        try:
            record: SessionRecord = await connection.peer.request(
                "session/new", params, on_late=partial(self._close_late, adopted), convert=adopt
            )
        finally:
            connection.creation_over()
        return Session(connection, record)

    def _close_late(self, adopted: list[str], result: Any) -> None:
        """Nobody waits for this new session any more: have the agent free it, where it can.

        Args:
            adopted: the session, if the answer was taken before the waiting ended.
            result: the answer.
        """
        session_id: Any = (
            cast("dict[str, Any]", result).get("sessionId") if isinstance(result, dict) else None
        )
        if not isinstance(session_id, str):
            return
        # An answer with the id of a session that is in use must not cost that one.
        if session_id in adopted or session_id not in self._connection.sessions:
            self._connection.discard(session_id)

    def _check_servers(self, servers: Sequence[McpServer]) -> None:
        offered = self.capabilities.mcp_capabilities
        for server in servers:
            if isinstance(server, McpServerHttp):
                self._connection.require(offered.http, "mcpCapabilities.http")
            elif isinstance(server, McpServerSse):
                self._connection.require(offered.sse, "mcpCapabilities.sse")

    def updates(self) -> UpdateStream[StrayUpdate]:
        """Return the stream of updates for sessions that this connection does not know.

        The same stream at every call; see `UpdateStream`.
        """
        return self._connection.strays

    # Authentication ------------------------------------------------------------------------------------

    async def authenticate(self, method_id: str) -> None:
        """Authenticate by one of the agent's own methods (``authenticate``, U1).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            method_id: id of one of ``auth_methods`` that is not of the terminal kind.

        Raises:
            LocalProtocolError: the agent offers no such method, or it has to be run in a terminal;
                nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        known = [method for method in self.auth_methods if not isinstance(method, UnknownVariant)]
        method = next((method for method in known if method.id == method_id), None)
        if method is None:
            ids = [method.id for method in known]
            raise LocalProtocolError(f"the agent offers no method {method_id!r}; it offers {ids or 'none'}")
        if isinstance(method, AuthMethodTerminal):
            raise LocalProtocolError(
                f"{method_id!r} is a terminal method: run the agent's command interactively, "
                "then connect again"
            )
        await self._connection.peer.request("authenticate", {"methodId": method_id})

    async def logout(self) -> None:
        """Have the agent forget who the user is (``logout``, U3).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Raises:
            CapabilityError: the agent does not offer it; nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        self._connection.require(self.capabilities.auth.logout is not None, "agentCapabilities.auth.logout")
        await self._connection.peer.request("logout", {})

    # Extensions ----------------------------------------------------------------------------------------

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call an extension method of the agent and return its result as JSON values (N1).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            method: its name, with the leading underscore; it travels unchanged.
            params: its parameters as JSON values.

        Raises:
            LocalProtocolError: the name has no leading underscore, or the parameters are no JSON.
            RequestError: the agent refused; `MethodNotFound` when it does not know the method.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        _check_extension(method)
        return await self._connection.peer.request(method, dict(params or {}))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send an extension notification to the agent (N1). Whole or not at all, if cancelled.

        Args:
            method: its name, with the leading underscore; it travels unchanged.
            params: its parameters as JSON values.

        Raises:
            LocalProtocolError: the name has no leading underscore, or the parameters are no JSON.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        _check_extension(method)
        await self._connection.peer.notify(method, dict(params or {}))

    # The agent as a model ------------------------------------------------------------------------------

    async def generate(
        self, messages: Messages, *, conversation: str | None = None, cancel: trio.Event | None = None
    ) -> str:
        """Have the agent answer, and return its message text: no thoughts, no tool output.

        A next message (a text, a content block, a list of these) continues the conversation. A list of
        (role, content) pairs is a whole history: only what the session has not seen is sent where the history
        continues that; else a fresh session gets the history once, as a transcript, and the old session is
        closed where the agent can do that.

        Calls of one conversation take turns, different conversations run at the same time. Of too many
        conversations (256, the default one not counted) the one that was idle longest is given up, and begins
        anew if it is used again.

        Cancellation: sends ``session/cancel``, waits for the end of the turn for at most ``cancel_grace``
        seconds, and leaves the session warm.

        Args:
            messages: the next message or the whole history, see `Messages`. The last message of a history
                is a user's or a tool's.
            conversation: id of the conversation, of your choice; None is the default one. Each has a session
                of its own, made on first use.
            cancel: a token that stops this call when it is set, also while it waits in line.

        Raises:
            TurnCancelled: `cancel` was called, or the token was set.
            LocalProtocolError: the messages are none, or ask nothing; nothing was sent.
            CapabilityError: there is content that the agent does not take; nothing was sent.
            SessionBusy: called from a handler of the very turn that it would have to wait for.
            Exception: whatever `Turn` and `new_session` raise.
        """
        return await self._conversations.generate(messages, conversation, cancel)

    def generate_stream(
        self, messages: Messages, *, conversation: str | None = None, cancel: trio.Event | None = None
    ) -> GenerateStream:
        """Have the agent answer, and return what it says and does as a stream of events.

        The messages are treated as by `generate`. See `GenerateStream` for how to use the stream, and for
        what it raises.

        Args:
            messages: the next message or the whole history, see `Messages`.
            conversation: id of the conversation; None is the default one.
            cancel: a token that stops the reply when it is set.
        """
        return GenerateStream(self._conversations, messages, conversation, cancel)

    def cancel(self, conversation: str | None = None) -> None:
        """Stop the running `generate` or `generate_stream` of a conversation; its session stays warm.

        Synchronous. Nothing happens when nothing runs; calls that wait in line are not touched.

        Args:
            conversation: its id; None is the default one.

        Raises:
            RuntimeError: called from another thread; use `trio.from_thread.run_sync`.
        """
        self._connection.check_here()
        self._conversations.cancel(conversation)


def _check_extension(method: str) -> None:
    if not method.startswith("_"):
        raise LocalProtocolError(
            f"extension methods start with an underscore, {method!r} does not; "
            "use the methods of this class for those of the protocol"
        )

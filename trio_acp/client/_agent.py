"""An agent that is connected and has introduced itself, as the application holds it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, final, overload

import trio

from trio_acp._errors import AcpError, InvalidResponse, LocalProtocolError, RequestError
from trio_acp._extension_values import ExtensionParams, check_type, decode_result, encode_params
from trio_acp._extensions import check_extension_name
from trio_acp.schema import (
    AgentCapabilities,
    AuthMethod,
    AuthMethodTerminal,
    Implementation,
    InitializeResponse,
    Leniency,
    ListSessionsResponse,
    McpServer,
)
from trio_acp.transports import build_environment

from ._auth import Authenticator, find_method, log_in_at_terminal, terminal_login
from ._buffers import UpdateStream
from ._connection import ClientConnection
from ._generate import Conversations, GenerateStream
from ._life import RecoveredSession, SessionList, recover
from ._making import SessionPlace, list_page, make_session, open_session
from ._messages import Messages
from ._opening import LOAD, RESUME
from ._options import absolute_path
from ._session import Session
from ._statistics import AgentStatistics, statistics_of
from ._table import StrayUpdate

__all__ = ["AgentStatistics", "ConnectedAgent"]

R = TypeVar("R")


@final
class ConnectedAgent:
    """A coding agent at the other end of a connection; made by `open_acp` and `connect_acp`."""

    def __init__(
        self,
        connection: ClientConnection,
        introduction: InitializeResponse,
        close: Callable[[], Awaitable[None]],
        restart: Callable[[], Awaitable[tuple[ClientConnection, InitializeResponse]]] | None = None,
    ) -> None:
        self._connection: ClientConnection = connection
        self._close = close
        self._restart = restart
        self._restarting = trio.Lock()
        self._introduction: InitializeResponse = introduction
        self._conversations = self._new_conversations()
        self._authenticator = Authenticator(
            connection.options.auth, lambda: self.auth_methods, self.authenticate
        )

    def _new_conversations(self) -> Conversations:
        return Conversations(self.new_session, self.capabilities.prompt_capabilities)

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
        return {id: Session(connection, record) for id, record in connection.table.open.items()}

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
        return statistics_of(self._connection)

    async def wait_lost(self) -> AcpError | None:
        """Wait until the agent has gone, and return why; for supervisors. A `restart` is no loss.

        Cancellation: only the waiting ends.
        """
        while True:
            connection = self._connection
            await connection.peer.input_ended.wait()
            await self.wait_ready()
            if connection is self._connection:
                return self.closed_reason

    async def wait_ready(self) -> bool:
        """Wait for the end of a `restart` that is under way, and tell whether calls can be made.

        Cancellation: only the waiting ends.
        """
        async with self._restarting:
            return not self.closed

    async def aclose(self) -> None:
        """Close the connection, as leaving the ``open_acp`` block does. Idempotent.

        Turns are cancelled, open requests answered, what is queued is written; then the stream is closed, or
        the process ended. Shielded against cancellation, and bounded by ``cancel_grace`` and
        ``shutdown_grace``.
        """
        await self._close()

    async def restart(self) -> None:
        """End the agent's process and start it again, for a login that it takes notice of only so (M3).

        All sessions of the connection end, as they do in `aclose`; `recover_session` opens those again that
        the agent has saved. Works for an agent that has exited, too. This object stays the one to use.

        Cancellation: the agent is ended, and this object stays closed, unless it is restarted again.

        Raises:
            LocalProtocolError: the connection was made by `connect_acp`: connect anew with a stream.
            AgentStartError, UnsupportedProtocolVersion: see `open_acp`; it can be tried again.
        """
        self._connection.check_here()
        if self._restart is None:
            raise LocalProtocolError(
                "only an agent that open_acp started can be restarted; connect again with a new stream"
            )
        async with self._restarting:
            self._connection, self._introduction = await self._restart()
            self._conversations = self._new_conversations()

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
        place = SessionPlace(cwd, mcp_servers, additional_directories, meta)
        return await self._authenticator.run(lambda: make_session(self._connection, place))

    async def load_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str] | None = None,
        *,
        mcp_servers: Sequence[McpServer] | None = None,
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        meta: dict[str, Any] | None = None,
    ) -> Session:
        """Go on with a saved session; the agent replays the conversation first (``session/load``, S2).

        What is replayed is collected apart, as `Session.replay`; none of it is in `Session.updates` or in a
        turn, but ``on_update`` sees it. Its conversation, and what it says of modes, options, title, commands
        and usage, becomes the session's state when the agent has answered, however much it replayed.

        A session that is open already may be loaded: its objects stay good. If the load fails, its state is
        as it was.

        Cancellation: withdraws the request; a session that the agent opens all the same is closed where
        it offers that, unless it was open before.

        Args:
            session_id: the agent's id of the session, from `list_sessions` or `Session.id`.
            cwd: as for `new_session`; always sent.
            mcp_servers: as for `new_session`; always sent.
            additional_directories: as for `new_session`.
            meta: as for `new_session`.

        Raises:
            CapabilityError: the agent does not offer it (``loadSession``); nothing was sent.
            SessionBusy: a turn or another load of that session is under way; nothing was sent.
            RequestError: the agent refused; `no_such_session` tells whether it does not have the session.
            Exception: what else `new_session` raises.
        """
        place = SessionPlace(cwd, mcp_servers, additional_directories, meta)
        return await self._authenticator.run(lambda: open_session(self._connection, LOAD, session_id, place))

    async def resume_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str] | None = None,
        *,
        mcp_servers: Sequence[McpServer] | None = None,
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        meta: dict[str, Any] | None = None,
    ) -> Session:
        """Go on with a session that the agent has saved, without a replay (``session/resume``, S2).

        Cancellation: as for `load_session`.

        Args:
            session_id: the agent's id of the session, from `list_sessions` or `Session.id`.
            cwd: as for `new_session`; always sent.
            mcp_servers: as for `new_session`; always sent.
            additional_directories: as for `new_session`.
            meta: as for `new_session`.

        Raises:
            CapabilityError: the agent does not offer it (``sessionCapabilities.resume``); nothing was sent.
            Exception: what else `load_session` raises.
        """
        place = SessionPlace(cwd, mcp_servers, additional_directories, meta)
        return await self._authenticator.run(
            lambda: open_session(self._connection, RESUME, session_id, place)
        )

    async def recover_session(
        self,
        session_id: str,
        cwd: str | os.PathLike[str] | None = None,
        *,
        mcp_servers: Sequence[McpServer] | None = None,
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        meta: dict[str, Any] | None = None,
    ) -> RecoveredSession:
        """Go on with a session in the best way that the agent offers, and say which it was.

        Resumes it; else loads it; and makes a new one only if the agent offers neither, or does not have the
        session: by its error (`no_such_session`), or because it lists its sessions and not this one. Many
        agents do not have one that never had a prompt.

        Cancellation: as for the call that is under way.

        Args:
            session_id: the agent's id of the session.
            cwd: as for `new_session`.
            mcp_servers: as for `new_session`.
            additional_directories: as for `new_session`.
            meta: as for `new_session`.

        Returns:
            The session and ``"resumed"``, ``"loaded"`` or ``"replaced"``.

        Raises:
            RequestError: the agent has failed otherwise; there is no new session then.
            Exception: what else `load_session` and `new_session` raise.
        """
        where: dict[str, Any] = {
            "mcp_servers": mcp_servers,
            "additional_directories": additional_directories,
            "meta": meta,
        }
        capabilities = self.capabilities
        resumable = capabilities.session_capabilities.resume is not None
        return await recover(
            partial(self.resume_session, session_id, cwd, **where) if resumable else None,
            partial(self.load_session, session_id, cwd, **where) if capabilities.load_session else None,
            partial(self.new_session, cwd, **where),
            partial(self._does_not_list, session_id),
        )

    async def _does_not_list(self, session_id: str) -> bool:
        """Tell whether the agent lists its sessions, and not this one. Some say so in no other way."""
        if self.capabilities.session_capabilities.list is None:
            return False
        try:
            async for info in self.list_sessions():
                if info.session_id == session_id:
                    return False
        except (RequestError, InvalidResponse):
            return False
        return True

    def list_sessions(self, cwd: str | os.PathLike[str] | None = None) -> SessionList:
        """Return the sessions that the agent has, to be iterated over (``session/list``, S3).

        Args:
            cwd: only sessions with this working directory; by default all.

        Raises:
            CapabilityError: the agent does not offer it; nothing was sent.
        """
        connection = self._connection
        connection.require(
            self.capabilities.session_capabilities.list is not None, "sessionCapabilities.list"
        )
        where = None if cwd is None else absolute_path(cwd)

        async def fetch(cursor: str | None) -> ListSessionsResponse:
            return await self._authenticator.run(lambda: list_page(self._connection, where, cursor))

        return SessionList(fetch)

    async def delete_session(self, session_id: str) -> None:
        """Have the agent delete a session for good (``session/delete``, S3).

        It is no error if there is no such session. One that is open here is closed by it, and its turn
        cancelled. Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            session_id: the agent's id of the session.

        Raises:
            CapabilityError: the agent does not offer it; nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        connection = self._connection
        connection.require(
            self.capabilities.session_capabilities.delete is not None, "sessionCapabilities.delete"
        )
        record = connection.table.open.get(session_id)
        if record is not None and record.turn is not None:
            record.turn.ask_cancel()

        def deleted(result: Any) -> None:
            # In the read loop, so that what comes behind the answer is not taken for the session's.
            connection.table.forget(session_id)

        await connection.peer.request(
            "session/delete", {"sessionId": session_id}, on_late=deleted, convert=deleted
        )

    def updates(self) -> UpdateStream[StrayUpdate]:
        """Return the stream of updates for sessions that this connection does not know.

        The same stream at every call; see `UpdateStream`.
        """
        return self._connection.table.strays

    # Authentication ------------------------------------------------------------------------------------

    async def authenticate(self, method_id: str) -> None:
        """Log in by one of the agent's methods.

        Its own methods are asked for by ``authenticate`` (U1), and with ``AcpOptions.auth_restart`` the agent
        is restarted then. For methods of the terminal kind the agent's program is run by
        ``AcpOptions.auth_terminal``, and after its success the agent is restarted (U2).

        With ``AcpOptions.auth``, this happens by itself when the agent asks for it.

        Cancellation: withdraws the request with ``$/cancel_request``, or ends the login's program; see
        `restart` for the rest.

        Args:
            method_id: id of one of ``auth_methods``.

        Raises:
            LocalProtocolError: the agent offers no such method, or it has to be run in a terminal and there
                is no ``auth_terminal``, or no program to run; nothing was sent.
            AuthenticationFailed: the program that was run in a terminal did not succeed.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
            Exception: what `restart` or ``auth_terminal`` raises.
        """
        method = find_method(self.auth_methods, method_id)
        if isinstance(method, AuthMethodTerminal):
            await self._authenticate_at_terminal(method)
            return
        await self._connection.peer.request("authenticate", {"methodId": method_id})
        if self._connection.options.auth_restart:
            await self.restart()

    async def _authenticate_at_terminal(self, method: AuthMethodTerminal) -> None:
        options = self._connection.options
        if options.auth_terminal is None or options.command is None or self._restart is None:
            raise LocalProtocolError(
                f"{method.id!r} is a terminal method: set AcpOptions.auth_terminal for an agent that "
                "open_acp starts, or run the agent's command interactively and connect again"
            )
        env = build_environment(options.env, options.inherit_env)
        login = terminal_login(method, [options.command, *options.args], env, options.cwd)
        await log_in_at_terminal(login, options.auth_terminal)
        await self.restart()

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

    # Elicitation ---------------------------------------------------------------------------------------

    async def elicitation_completed(self, elicitation_id: str) -> bool:
        """Wait until the agent tells that what an address was opened for is over (E3).

        For whoever shows the person that the agent waits for them. The consent to open the address has been
        answered long before. See also ``AcpOptions.on_elicitation_complete``.

        Cancellation: only the waiting ends.

        Args:
            elicitation_id: the ``elicitation_id`` of the request that ``elicit_url`` got.

        Returns:
            True: it is over. False: nothing can be heard of it any more, since it was not accepted, was
            withdrawn, was never there, or its session or the agent has ended.
        """
        return await self._connection.elicitations.wait(elicitation_id)

    # Extensions ----------------------------------------------------------------------------------------

    @overload
    async def request(self, method: str, params: ExtensionParams = None) -> Any: ...
    @overload
    async def request(self, method: str, params: ExtensionParams = None, *, result: type[R]) -> R: ...
    async def request(
        self, method: str, params: ExtensionParams = None, *, result: type[Any] | None = None
    ) -> Any:
        """Call an extension method of the agent and return its result (N1).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            method: its name; it travels unchanged. One without a leading underscore is warned of.
            params: its parameters; see `ExtensionParams`.
            result: type of the result, as in an `Extensions` registry; None for JSON values.

        Raises:
            LocalProtocolError: it is a method of the protocol, or the parameters are no JSON.
            RequestError: the agent refused; `MethodNotFound` when it does not know the method.
            InvalidResponse: the result does not fit its type.
            TypeError: that type cannot travel; nothing was sent.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        check_extension_name(method, LocalProtocolError)
        check_type(result)
        raw = await self._connection.peer.request(method, encode_params(params))
        return decode_result(result, method, raw)

    async def notify(self, method: str, params: ExtensionParams = None) -> None:
        """Send an extension notification to the agent (N1). Whole or not at all, if cancelled.

        Args:
            method: its name; it travels unchanged. One without a leading underscore is warned of.
            params: its parameters; see `ExtensionParams`.

        Raises:
            LocalProtocolError: it is a method of the protocol, or the parameters are no JSON.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        check_extension_name(method, LocalProtocolError)
        await self._connection.peer.notify(method, encode_params(params))

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

"""An agent as its author writes it: `AgentApp`."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, final

import trio

from trio_acp._cancellation import LoggedErrors
from trio_acp._core import DEFAULT_MAX_MESSAGE_BYTES
from trio_acp._extension_values import check_type
from trio_acp._extensions import Extension, ExtensionHandler, as_extension, check_extension_name
from trio_acp._peer import OnWire
from trio_acp.schema import (
    AuthMethod,
    AuthMethodAgent,
    AvailableCommand,
    Implementation,
    McpCapabilities,
    PromptCapabilities,
    UnstructuredCommandInput,
)
from trio_acp.transports import MemoryStream, open_memory_pair, open_stdio

from ._connection import AgentConnection
from ._handlers import (
    COMMAND,
    HANDLER_KINDS,
    BoundHandler,
    Handler,
    bind,
    bind_extension,
    bind_registered,
)
from ._spec import AppSpec, OverlappingPrompts
from ._store import SessionStore

__all__ = ["DEFAULT_CANCEL_GRACE", "AgentApp"]

logger = logging.getLogger("trio_acp")

DEFAULT_CANCEL_GRACE: Final = 3.0
"""Seconds that a cancelled handler has before it is answered for: less than the 5 s that hosts wait."""

Listener = TypeVar("Listener", bound="trio.abc.Listener[Any]")


@final
class AgentApp:
    """An agent: register what it does, then serve it.

    Handlers are plain async functions. Each takes what it names among what its method has to give, for
    example ``ctx`` or anything annotated `PromptContext` for a prompt handler; what cannot be given is an
    error when it is registered. What is registered decides what is advertised to clients, and that decides
    what is accepted from them (I3, I5).

    One app can serve many clients at a time. Register everything before it serves the first one.

    Args:
        name: the agent's name for programs.
        version: its version, free-form.
        title: its name for people; None for the same.
        store: keeps sessions; with one they can be listed, loaded, resumed, closed and deleted without a
            handler.
        prompt_capabilities: what prompts may hold besides text and links; None for nothing.
        mcp_capabilities: over what, besides stdio, the agent reaches MCP servers; None for nothing.
        auth_methods: the ways to log in; those of the agent's own need `on_authenticate`.
        additional_directories: sessions may have more roots than their working directory (S1).
        extensions: handlers of extension requests and notifications, by method name (N1), with the session
            of ``params["sessionId"]``: an `Extensions` for handlers with types. See also `on_ext_request`.
        overlapping_prompts: what becomes of a prompt that comes during a turn of its session: ``"reject"``
            answers with an error, ``"queue"`` lets it wait.
        cancel_grace: seconds that a cancelled prompt handler has before it is answered for.
        max_message_bytes: longest message accepted, in bytes.
        on_wire: sees every message in both directions; called in the read loop, must not wait.
        redact_wire: give ``on_wire`` copies in which the values of environments and headers are masked.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        name: str,
        version: str,
        title: str | None = None,
        *,
        store: SessionStore | None = None,
        prompt_capabilities: PromptCapabilities | None = None,
        mcp_capabilities: McpCapabilities | None = None,
        auth_methods: Sequence[AuthMethod] = (),
        additional_directories: bool = False,
        extensions: Mapping[str, Extension | ExtensionHandler] | None = None,
        overlapping_prompts: OverlappingPrompts = "reject",
        cancel_grace: float = DEFAULT_CANCEL_GRACE,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        on_wire: OnWire | None = None,
        redact_wire: bool = True,
    ) -> None:
        if overlapping_prompts not in ("reject", "queue"):
            raise ValueError(f"overlapping_prompts is 'reject' or 'queue', not {overlapping_prompts!r}")
        if not cancel_grace >= 0:
            raise ValueError("cancel_grace must not be negative")
        if max_message_bytes < 1:
            raise ValueError("max_message_bytes must be at least 1")
        ids = [method.id for method in auth_methods if isinstance(method, AuthMethodAgent)]
        if len(set(ids)) < len(ids):
            raise ValueError("two auth_methods have the same id")
        for method in extensions or ():
            check_extension_name(method, ValueError)
        self._info = Implementation(name, version, title)
        self._store = store
        self._prompt_capabilities = prompt_capabilities or PromptCapabilities()
        self._mcp_capabilities = mcp_capabilities or McpCapabilities()
        self._auth_methods = list(auth_methods)
        self._additional_directories = additional_directories
        self._overlapping_prompts: OverlappingPrompts = overlapping_prompts
        self._cancel_grace = cancel_grace
        self._max_message_bytes = max_message_bytes
        self._on_wire = on_wire
        self._redact_wire = redact_wire
        self._handlers: dict[str, BoundHandler] = {}
        self._extensions = extensions or {}
        self._ext_requests: dict[str, Extension] = {}
        self._ext_notifications: dict[str, Extension] = {}
        self._commands: dict[str, tuple[AvailableCommand, BoundHandler]] = {}
        self._spec: AppSpec | None = None

    @classmethod
    def from_object(cls, handlers: object, name: str, version: str, *args: Any, **kwargs: Any) -> AgentApp:
        """Make an app whose handlers are the methods of an object: those whose names begin with ``on_``.

        Args:
            handlers: the object; ``on_prompt`` and so on are registered, other methods are left alone.
            name: see the class.
            version: see the class.
            args: further arguments of the class.
            kwargs: further arguments of the class.

        Raises:
            TypeError: it has an ``on_…`` method that is no handler by name, or that takes what cannot be
                given.
        """
        app = cls(name, version, *args, **kwargs)
        for attribute in dir(handlers):
            if not attribute.startswith("on_"):
                continue
            if attribute not in HANDLER_KINDS:
                near = difflib.get_close_matches(attribute, HANDLER_KINDS, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise TypeError(f"{type(handlers).__name__}.{attribute} is the name of no handler{hint}")
            app._register(attribute, getattr(handlers, attribute))
        return app

    def __repr__(self) -> str:
        """Name the agent."""
        return f"<AgentApp {self._info.name} {self._info.version}>"

    # Handlers ----------------------------------------------------------------------------------------

    def on_initialize(self, handler: Handler) -> Handler:
        """Register what has a say when a client connects (I2).

        It may take ``request`` (`InitializeRequest`), ``response`` (the `InitializeResponse` to be sent, to
        change or to return another one), ``client``; it returns None or an `InitializeResponse`.
        """
        return self._register("on_initialize", handler)

    def on_authenticate(self, handler: Handler) -> Handler:
        """Register what logs the user in (U1); called only with ids of ``auth_methods``.

        It may take ``method_id``, ``request``, ``client``; it returns None, or raises `trio_acp.AuthRequired`
        or another `trio_acp.RequestError`.
        """
        return self._register("on_authenticate", handler)

    def on_logout(self, handler: Handler) -> Handler:
        """Register what logs the user out (U3); makes ``logout`` advertised.

        It may take ``request``, ``client``; it returns None.
        """
        return self._register("on_logout", handler)

    def on_new_session(self, handler: Handler) -> Handler:
        """Register what sets up a new session (S1).

        It may take ``session``, ``cwd``, ``mcp_servers``, ``additional_directories``, ``client``,
        ``request``. Set ``session.state``, ``session.modes`` and ``session.config_options`` here. It returns
        None, or a `NewSessionResponse`, whose id becomes the session's. Updates that it sends go out after
        the answer.
        """
        return self._register("on_new_session", handler)

    def on_load_session(self, handler: Handler) -> Handler:
        """Register what sets up a session that is loaded (S2); makes ``session/load`` advertised.

        It may take what `on_new_session` handlers may, and ``transcript``, the conversation in the store.
        With a store it runs before the replay. Without one the replay is its task: the messages, tool calls
        and plans that it sends go out before the answer. It returns None or a `LoadSessionResponse`, or
        raises `trio_acp.ResourceNotFound`.
        """
        return self._register("on_load_session", handler)

    def on_resume_session(self, handler: Handler) -> Handler:
        """Register what sets up a session that is resumed (S2); makes ``session/resume`` advertised.

        As for `on_load_session`, but nothing is replayed: what it sends goes out after the answer.
        """
        return self._register("on_resume_session", handler)

    def on_list_sessions(self, handler: Handler) -> Handler:
        """Register what lists sessions, in place of the store (S3); makes ``session/list`` advertised.

        It may take ``cwd``, ``cursor``, ``client``, ``request``; it returns a list of `SessionInfo`, or
        a `ListSessionsResponse`.
        """
        return self._register("on_list_sessions", handler)

    def on_close_session(self, handler: Handler) -> Handler:
        """Register what frees a session's resources (S3); makes ``session/close`` advertised.

        It may take ``session``, ``client``, ``request``; it returns None. Its turn has ended by then. Called
        once for each session: also for one that is deleted while it is open, before `on_delete_session`
        handlers, and, for at most 2 seconds in all, for those that are open when the client goes. What it
        raises is answered only to ``session/close``, else logged.
        """
        return self._register("on_close_session", handler)

    def on_delete_session(self, handler: Handler) -> Handler:
        """Register what deletes a session, besides the store (S3); makes ``session/delete`` advertised.

        It may take ``session_id``, ``client``, ``request``; it returns None, also for unknown ids.
        """
        return self._register("on_delete_session", handler)

    def on_prompt(self, handler: Handler) -> Handler:
        """Register what answers prompts: the agent itself. Required.

        It may take ``ctx`` (`PromptContext`), ``prompt`` (the content blocks), ``text``, ``session``,
        ``client``, ``request``. It returns None (end of turn), a string (the last message), a `StopReason`,
        or a `PromptResponse`. An exception is answered as an error, and the session goes on;
        `trio_acp.RequestError` as it is.

        Cancellation: when the client cancels the turn, the handler is cancelled, and the turn is answered
        ``cancelled`` whatever the handler does then (X2).
        """
        return self._register("on_prompt", handler)

    def on_set_mode(self, handler: Handler) -> Handler:
        """Register what happens when the client sets a mode (S7); a session with ``modes`` works without.

        It may take ``session``, ``mode_id``, ``client``, ``request``; it returns None.
        """
        return self._register("on_set_mode", handler)

    def on_set_config_option(self, handler: Handler) -> Handler:
        """Register what happens when the client sets a config option (S7).

        A session with ``config_options`` works without a handler. It may take ``session``, ``config_id``,
        ``value``, ``client``, ``request``; it returns None if only that option changes, or the list of all
        options.
        """
        return self._register("on_set_config_option", handler)

    def on_ext_request(
        self, method: str, params: type[Any] | None = None, result: type[Any] | None = None
    ) -> Callable[[Handler], Handler]:
        """Register what answers an extension request (N1).

        It may take ``params``, ``method``, ``session`` (of ``params["sessionId"]``, else None), ``client``.
        Parameters and result are JSON values, or of classes of your own, as in an `Extensions` registry.
        Parameters that do not fit are answered with -32602, which names the field.

        Args:
            method: its name on the wire; it travels unchanged. One without a leading underscore is warned of.
            params: type of the parameters; None for what ``params`` is annotated with, JSON values if that
                says nothing else.
            result: type that the result has to have; None for whatever can travel.

        Raises:
            ValueError: a method of the protocol, or registered already.
            TypeError: a type cannot travel, or the annotation cannot be resolved.
        """
        return self._extension(method, self._ext_requests, params, result)

    def on_ext_notification(
        self, method: str, params: type[Any] | None = None
    ) -> Callable[[Handler], Handler]:
        """Register what happens on an extension notification (N1); as `on_ext_request`, without a result.

        One with parameters that do not fit is dropped, with a line in the log (W5).

        Args:
            method: its name on the wire.
            params: type of the parameters, see `on_ext_request`.
        """
        return self._extension(method, self._ext_notifications, params, None)

    def command(self, name: str, description: str, hint: str | None = None) -> Callable[[Handler], Handler]:
        """Register a slash command: advertised in every session, and called for prompts that begin with it.

        It may take what `on_prompt` handlers may, and ``arguments``, the text behind the command's name; it
        returns what they may.

        Args:
            name: its name, without the slash.
            description: what it does, for people.
            hint: what people see while they have not typed any arguments; None if it takes none.

        Raises:
            ValueError: a name that cannot be typed, or is taken.
        """
        if not name or name.startswith("/") or len(name.split()) != 1 or name != name.strip():
            raise ValueError(f"{name!r} is no name for a command: one word, without the slash")
        if name in self._commands:
            raise ValueError(f"there is a command {name!r} already")

        def register(handler: Handler) -> Handler:
            self._check_registering()
            told = AvailableCommand(
                name, description, None if hint is None else UnstructuredCommandInput(hint)
            )
            self._commands[name] = (told, bind(COMMAND, handler))
            return handler

        return register

    def _register(self, name: str, handler: Handler) -> Handler:
        self._check_registering()
        if name in self._handlers:
            raise ValueError(f"there is an {name} handler already")
        self._handlers[name] = bind(HANDLER_KINDS[name], handler)
        return handler

    def _extension(
        self, method: str, table: dict[str, Extension], params: Any, result: Any
    ) -> Callable[[Handler], Handler]:
        check_extension_name(method, ValueError, stacklevel=4)
        check_type(params)
        check_type(result)
        if method in table:
            raise ValueError(f"there is a handler for {method} already")

        def register(handler: Handler) -> Handler:
            self._check_registering()
            table[method] = bind_extension(handler, params, result)
            return handler

        return register

    def _check_registering(self) -> None:
        if self._spec is not None:
            raise RuntimeError("this app serves clients already; register handlers before that")

    def _build(self) -> AppSpec:
        """Check that the app is whole, and fix what it can do.

        Raises:
            ValueError: something that belongs together is not there together.
        """
        if self._spec is None:
            if "on_prompt" not in self._handlers:
                raise ValueError("an agent needs an on_prompt handler")
            own = [method for method in self._auth_methods if isinstance(method, AuthMethodAgent)]
            if own and "on_authenticate" not in self._handlers:
                raise ValueError("auth_methods of the agent's own need an on_authenticate handler")
            if not own and "on_authenticate" in self._handlers:
                raise ValueError("an on_authenticate handler needs auth_methods of the agent's own")
            registered = {
                method: bind_registered(as_extension(handler)) for method, handler in self._extensions.items()
            }
            for method in registered.keys() & (self._ext_requests.keys() | self._ext_notifications.keys()):
                raise ValueError(f"there are two handlers for {method}: one is among the extensions")
            self._spec = AppSpec(
                info=self._info,
                handlers=self._handlers,
                ext_requests={**registered, **self._ext_requests},
                ext_notifications={**registered, **self._ext_notifications},
                commands=self._commands,
                store=self._store,
                prompt_capabilities=self._prompt_capabilities,
                mcp_capabilities=self._mcp_capabilities,
                auth_methods=self._auth_methods,
                additional_directories=self._additional_directories,
                overlapping_prompts=self._overlapping_prompts,
                cancel_grace=self._cancel_grace,
                max_message_bytes=self._max_message_bytes,
                on_wire=self._on_wire,
                redact_wire=self._redact_wire,
            )
        return self._spec

    # Serving -----------------------------------------------------------------------------------------

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one client over a stream, until the client goes; the stream is closed then.

        That is the normal end. The turns that run are cancelled, running requests have a second to be
        answered, the sessions two to be saved and closed. A handler that shields itself from cancellation is
        waited for.

        Cancellation: turns are answered ``cancelled``; then as above.

        Args:
            stream: any way to the client.

        Raises:
            ValueError: the app is not whole, for example lacks an `on_prompt` handler.
            RemoteProtocolError: the client sent what cannot be read on, such as a message that is too
                large, or did not read.
        """
        await AgentConnection(self._build(), stream).serve()

    async def serve_stdio(self) -> None:
        """Serve the client that started this program, over stdin and stdout, until it closes stdin (W2).

        Meanwhile ``print`` and everything else that writes to stdout ends up on stderr; child processes
        do not inherit the connection. Meant for ``trio.run(app.serve_stdio)``.

        Raises:
            trio.BusyResourceError: stdin and stdout are being served already.
            OSError: stdin or stdout is closed.
            ValueError, RemoteProtocolError: see `serve`.
        """
        spec = self._build()
        stream = open_stdio()
        try:
            await AgentConnection(spec, stream).serve()
        finally:
            stream.close()

    async def serve_listeners(  # noqa: ASYNC128 - passed on
        self,
        listeners: Sequence[Listener],
        *,
        handler_nursery: trio.Nursery | None = None,
        task_status: trio.TaskStatus[Sequence[Listener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve every client that connects, each over a connection of its own; see `trio.serve_listeners`.

        What ends one connection is logged, and the others go on.

        Args:
            listeners: where clients connect, for example from `trio.open_tcp_listeners`.
            handler_nursery: where the connections run; None for a nursery of this call.
            task_status: for ``nursery.start``; started with the listeners when they listen.
        """
        spec = self._build()

        async def serve_one(stream: trio.abc.Stream) -> None:
            with LoggedErrors(logger, "a connection of %s ended", self._info.name):
                await AgentConnection(spec, stream).serve()

        await trio.serve_listeners(
            serve_one, list(listeners), handler_nursery=handler_nursery, task_status=task_status
        )

    def connect_in_memory(self, nursery: trio.Nursery) -> MemoryStream:
        """Serve a client in the same program, and return the client's end of the stream.

        Args:
            nursery: where the agent runs; what `serve` raises ends up there.
        """
        spec = self._build()
        client_end, agent_end = open_memory_pair()
        nursery.start_soon(AgentConnection(spec, agent_end).serve)
        return client_end

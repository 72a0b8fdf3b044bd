"""What an agent does about each method: called in the read loop, so that order and cancellation are exact."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trio_acp._errors import InvalidParams, InvalidRequest, MethodNotFound
from trio_acp._extensions import serve_extension, tell_extension
from trio_acp._order import Ticket
from trio_acp.schema import (
    PROTOCOL_VERSION,
    AuthenticateRequest,
    CancelNotification,
    InitializeRequest,
    InitializeResponse,
    LogoutRequest,
    PromptRequest,
    TextContent,
    structure,
    unstructure,
)

from ._handlers import BoundHandler, Invocation, call, to_wire
from ._live import MAX_QUEUED_PROMPTS
from ._sessions import AgentSession
from ._setup import (
    close_session,
    delete_session,
    find_session,
    list_sessions,
    load_session,
    new_session,
    required_handler,
    resume_session,
    set_config_option,
    set_mode,
)
from ._turns import Turn

if TYPE_CHECKING:
    from trio_acp._peer import IncomingRequest

    from ._connection import AgentConnection
    from ._spec import AppSpec

__all__ = ["take_notification", "take_request"]

logger = logging.getLogger("trio_acp")

MAX_NOTIFICATION_TASKS: Final = 1000
"""Extension notifications that may be worked on at a time; more are dropped with a log line."""


def take_request(connection: AgentConnection, request: IncomingRequest) -> None:
    """Answer a request, or start the task that does.

    Raises:
        RequestError: what to answer instead.
        SchemaError: its parameters do not fit.
    """
    method = request.method
    if method == "initialize":
        initialize(connection, request)
        return
    if not connection.initialized:
        raise InvalidRequest("initialize first, and wait for its answer")
    take = METHODS.get(method)
    if take is not None:
        take(connection, request)
    elif method in connection.spec.ext_requests:
        _extension_request(connection, request)
    else:
        raise MethodNotFound(f"this agent does not offer {method}")


def take_notification(connection: AgentConnection, method: str, params: dict[str, Any]) -> None:
    """Act on a notification; unknown ones are ignored (W5)."""
    if method == "session/cancel":
        live = connection.sessions.get(structure(CancelNotification, params).session_id)
        # A cancellation where nothing runs is ignored (X3).
        if live is not None:
            live.cancel()
        return
    extension = connection.spec.ext_notifications.get(method)
    if extension is None or not connection.initialized:
        return
    if connection.notification_tasks >= MAX_NOTIFICATION_TASKS:
        raise InvalidRequest("too many notifications wait for their handlers")
    invocation, ticket = _invocation(connection, method, params)
    connection.start_notification(
        ticket, method, partial(tell_extension, logger, extension, method, params, invocation)
    )


def initialize(connection: AgentConnection, request: IncomingRequest) -> None:
    """Answer ``initialize`` (I2, I4): at once, unless there is a handler that has a say."""
    if connection.initialize_received:
        raise InvalidRequest("this connection is initialized already")
    params = structure(InitializeRequest, request.params)
    connection.initialize_received = True
    connection.link.introduce(params.client_capabilities, params.client_info)
    spec = connection.spec
    response = InitializeResponse(
        # Ours in any case: it is the only one, so it is both what was asked for and our newest.
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=spec.capabilities(),
        auth_methods=spec.auth_methods_for(terminal=connection.client.offers("auth.terminal")),
        agent_info=spec.info,
    )
    handler = spec.handlers.get("on_initialize")
    if handler is None:
        connection.initialized = True
        request.answer(unstructure(response))
        return

    async def work() -> Any:
        result = await call(handler, Invocation(connection.client, request=params, response=response))
        if result is not None and not isinstance(result, InitializeResponse):
            raise TypeError(
                f"on_initialize returned {result!r:.100}; it may return None or an InitializeResponse"
            )
        return to_wire(response if result is None else result)

    def after(succeeded: bool) -> None:
        # A client whose initialize was refused may try again.
        connection.initialized = connection.initialize_received = succeeded

    connection.serve_request(request, None, work, after)


def authenticate(connection: AgentConnection, request: IncomingRequest) -> None:
    """Answer ``authenticate`` (U1)."""
    handler = required_handler(connection.spec, "on_authenticate", request)
    params = structure(AuthenticateRequest, request.params)
    if not connection.spec.authenticates(params.method_id):
        raise InvalidParams(
            f"authenticate params: methodId: {params.method_id!r} is no method to call this with"
        )
    _plain(connection, request, handler, params)


def logout(connection: AgentConnection, request: IncomingRequest) -> None:
    """Answer ``logout`` (U3)."""
    handler = required_handler(connection.spec, "on_logout", request)
    _plain(connection, request, handler, structure(LogoutRequest, request.params))


def _plain(connection: AgentConnection, request: IncomingRequest, handler: BoundHandler, params: Any) -> None:
    """Have a handler answer whose result says nothing."""

    async def work() -> Any:
        result = await call(handler, Invocation(connection.client, request=params))
        return {} if result is None else to_wire(result)

    connection.serve_request(request, None, work)


def prompt(connection: AgentConnection, request: IncomingRequest) -> None:
    """Start a turn, or put it in line; from this moment on it can be cancelled (T1)."""
    params = structure(PromptRequest, request.params)
    live = find_session(connection, params.session_id)
    for number, block in enumerate(params.prompt):
        why_not = connection.spec.refuses_content(block)
        if why_not is not None:
            raise InvalidParams(f"session/prompt params: prompt[{number}]: {why_not}")
    spec = connection.spec
    waits = live.turn is not None
    if waits and spec.overlapping_prompts == "reject":
        raise InvalidRequest(
            "a turn is running in this session; wait for its end, or cancel it with session/cancel first"
        )
    if waits and len(live.queue) >= MAX_QUEUED_PROMPTS:
        raise InvalidRequest(f"{MAX_QUEUED_PROMPTS} prompts wait in this session already")
    handler, arguments = _prompt_handler(spec, params)
    turn = Turn(
        connection,
        live,
        request,
        params,
        handler,
        arguments,
        connection.lines.take(live.id),
        spec.cancel_grace,
    )
    if waits:
        turn.wait_in_line()
    else:
        turn.start()
    request.when_cancelled(turn.cancel)


def _prompt_handler(spec: AppSpec, params: PromptRequest) -> tuple[BoundHandler, str]:
    """Return the handler of a prompt: a command's if it begins with one, else the app's."""
    if spec.commands and params.prompt and isinstance(params.prompt[0], TextContent):
        word, *rest = params.prompt[0].text.split(maxsplit=1) or [""]
        if word.startswith("/") and word[1:] in spec.commands:
            return spec.commands[word[1:]][1], rest[0].strip() if rest else ""
    return spec.handlers["on_prompt"], ""


def _extension_request(connection: AgentConnection, request: IncomingRequest) -> None:
    """Have an extension's handler answer (N1)."""
    method, params = request.method, request.params
    extension = connection.spec.ext_requests[method]
    invocation, ticket = _invocation(connection, method, params)
    connection.serve_request(request, ticket, partial(serve_extension, extension, method, params, invocation))


def _invocation(
    connection: AgentConnection, method: str, params: Mapping[str, Any]
) -> tuple[Invocation, Ticket]:
    """Return what an extension's handler may ask for, and its place among what its session is asked."""
    session_id = params.get("sessionId")
    live = connection.sessions.get(session_id) if isinstance(session_id, str) else None
    session: AgentSession[Any] | None = None if live is None else AgentSession(live)
    ticket = connection.lines.take("" if live is None else live.id)
    return Invocation(connection.client, session=session, method=method), ticket


METHODS: Final[Mapping[str, Callable[[AgentConnection, IncomingRequest], None]]] = {
    "authenticate": authenticate,
    "logout": logout,
    "session/new": new_session,
    "session/load": load_session,
    "session/resume": resume_session,
    "session/list": list_sessions,
    "session/close": close_session,
    "session/delete": delete_session,
    "session/prompt": prompt,
    "session/set_mode": set_mode,
    "session/set_config_option": set_config_option,
}
"""What is done about each request of the protocol but ``initialize``."""

"""How an author's functions become handlers: each takes what it names, checked when it is registered."""

from __future__ import annotations

import inspect
import operator
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from trio_acp._errors import AcpError, SchemaError
from trio_acp._extension_values import annotated_type, check_type
from trio_acp._extensions import Extension, is_async
from trio_acp.schema import (
    AuthenticateRequest,
    CloseSessionRequest,
    DeleteSessionRequest,
    InitializeRequest,
    ListSessionsRequest,
    LoadSessionRequest,
    LogoutRequest,
    NewSessionRequest,
    PromptRequest,
    ResumeSessionRequest,
    SetSessionConfigOptionBooleanRequest,
    SetSessionConfigOptionValueRequest,
    SetSessionModeRequest,
    unstructure,
)

if TYPE_CHECKING:
    from trio_acp.schema import InitializeResponse, SessionUpdate

    from ._client import ConnectedClient
    from ._sessions import AgentSession
    from ._turns import Turn

__all__ = [
    "COMMAND",
    "HANDLER_KINDS",
    "BoundHandler",
    "Handler",
    "HandlerError",
    "HandlerKind",
    "Invocation",
    "bind",
    "bind_extension",
    "bind_registered",
    "call",
    "to_wire",
]

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[object]])


@attrs.define(eq=False)
class Invocation:
    """Everything that one call of a handler may ask for; for that of a prompt, the `Turn` is this itself."""

    client: ConnectedClient
    request: Any = None
    session: AgentSession[Any] | None = None
    response: InitializeResponse | None = None
    transcript: list[SessionUpdate] = attrs.field(factory=list["SessionUpdate"])
    method: str = ""
    params: Any = None


Getter: TypeAlias = Callable[[Any], Any]
BoundHandler: TypeAlias = Callable[["Invocation | Turn"], Awaitable[Any]]
"""A handler as the library calls it."""


@attrs.frozen
class HandlerKind:
    """What the handlers of one method may take.

    Attributes:
        name: the decorator's name, for messages.
        by_name: what a parameter of that name gets.
        by_type: what a parameter annotated with a class of that name gets; this comes first.
    """

    name: str
    by_name: Mapping[str, Getter]
    by_type: Mapping[str, Getter]


def _kind(name: str, *request_types: type[Any], fields: str = "", **extra: Getter) -> HandlerKind:
    """Describe one kind of handler: what is there in any case, the request and its fields, and what else."""
    by_name: dict[str, Getter] = {"client": operator.attrgetter("client")}
    by_type: dict[str, Getter] = {"ConnectedClient": operator.attrgetter("client")}
    if request_types:
        by_name["request"] = operator.attrgetter("request")
    for request_type in request_types:
        by_type[request_type.__name__] = operator.attrgetter("request")
        for field in attrs.fields(request_type):
            if field.name != "extra":
                by_name[field.name] = operator.attrgetter(f"request.{field.name}")
    for attribute in fields.split():
        by_name[attribute] = operator.attrgetter(attribute)
    if "session" in by_name:
        by_type["AgentSession"] = operator.attrgetter("session")
    if "ctx" in by_name:
        by_type["PromptContext"] = by_name["context"] = operator.attrgetter("ctx")
    if "response" in by_name:
        by_type["InitializeResponse"] = operator.attrgetter("response")
    by_name.update(extra)
    return HandlerKind(name, by_name, by_type)


def _text(turn: Turn) -> str:
    return turn.ctx.text


HANDLER_KINDS: Final[Mapping[str, HandlerKind]] = {
    kind.name: kind
    for kind in (
        _kind("on_initialize", InitializeRequest, fields="response"),
        _kind("on_authenticate", AuthenticateRequest),
        _kind("on_logout", LogoutRequest),
        _kind("on_new_session", NewSessionRequest, fields="session transcript"),
        _kind("on_load_session", LoadSessionRequest, fields="session transcript"),
        _kind("on_resume_session", ResumeSessionRequest, fields="session transcript"),
        _kind("on_list_sessions", ListSessionsRequest),
        _kind("on_close_session", CloseSessionRequest, fields="session"),
        _kind("on_delete_session", DeleteSessionRequest),
        _kind("on_prompt", PromptRequest, fields="session ctx", text=_text),
        _kind("on_set_mode", SetSessionModeRequest, fields="session"),
        _kind(
            "on_set_config_option",
            SetSessionConfigOptionValueRequest,
            SetSessionConfigOptionBooleanRequest,
            fields="session",
        ),
    )
}
"""The handlers that an app may have, by the name of their decorator."""

COMMAND: Final = _kind("command", PromptRequest, fields="session ctx arguments", text=_text)
EXTENSION: Final = _kind("on_ext_request", fields="session method params")


def bind(kind: HandlerKind, function: Callable[..., Awaitable[object]]) -> BoundHandler:
    """Work out once what a handler takes, and return it in the form in which the library calls it.

    Raises:
        TypeError: it is no async function, or has a parameter that cannot be filled.
    """
    what = f"{kind.name} handler {_name(function)!r}"
    if inspect.isasyncgenfunction(function):
        raise TypeError(f"{what} is an async generator; send what it would yield, and return at the end")
    if not is_async(function):
        raise TypeError(f"{what} is not an async function; write it with 'async def'")
    positional: list[Getter] = []
    keywords: list[tuple[str, Getter]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        getter = _getter(kind, parameter)
        if getter is None:
            if parameter.kind is not parameter.VAR_POSITIONAL and parameter.default is not parameter.empty:
                # An option of the author's own, with a default for when we call; but a later parameter
                # that goes by position only needs it to be there.
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    positional.append(partial(_constant, parameter.default))
                continue
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            raise TypeError(
                f"{what} has a parameter '{star}{parameter.name}' that cannot be filled; it may take "
                f"{', '.join(sorted(kind.by_name))}, or parameters annotated with "
                f"{', '.join(sorted(kind.by_type))}"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(getter)
        else:
            keywords.append((parameter.name, getter))

    def bound(invocation: Invocation | Turn) -> Awaitable[object]:
        return function(
            *[get(invocation) for get in positional], **{name: get(invocation) for name, get in keywords}
        )

    def bound_with_one(invocation: Invocation | Turn) -> Awaitable[object]:
        return function(**{name: get(invocation)})

    if not positional and len(keywords) == 1:
        # Nearly all handlers: without the comprehensions, which are calls of their own.
        ((name, get),) = keywords
        return bound_with_one
    return bound


def bind_extension(function: Callable[..., Awaitable[object]], params: Any, result: Any) -> Extension:
    """Work out once what the handler of an extension method takes; it is called with an `Invocation`.

    Raises:
        TypeError: as `bind`, or a type that cannot travel or be found.
    """
    bound = bind(EXTENSION, function)
    if params is None:
        params = annotated_type(function, inspect.signature(function).parameters.get("params"))
        check_type(params)

    async def handler(params: Any, invocation: Invocation) -> Any:
        return await bound(attrs.evolve(invocation, params=params))

    return Extension(handler, params, result)


def bind_registered(extension: Extension) -> Extension:
    """The same for one of an `Extensions` registry."""

    async def handler(params: Any, invocation: Invocation) -> Any:
        return await extension.handler(params, invocation.session)

    return Extension(handler, extension.params, extension.result)


async def call(handler: BoundHandler, invocation: Invocation | Turn) -> Any:
    """Call a handler of a method of the protocol.

    The parameters fitted, so a value that does not is of the handler's making: the client must not be told
    that its request was wrong.

    Raises:
        HandlerError: the handler made a value that does not fit the protocol.
    """
    try:
        return await handler(invocation)
    except SchemaError as error:
        raise HandlerError(f"the handler made a value that does not fit the protocol: {error}") from error


def to_wire(result: Any) -> Any:
    """Return what a handler returned as JSON values.

    Raises:
        HandlerError: it does not fit the protocol.
    """
    try:
        return unstructure(result)
    except SchemaError as error:
        raise HandlerError(f"the handler returned a value that does not fit the protocol: {error}") from error


class HandlerError(AcpError):
    """A handler did something that cannot be sent. Logged; the client is told of an internal error."""


def _constant(value: Any, invocation: Invocation | Turn) -> Any:
    return value


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _getter(kind: HandlerKind, parameter: inspect.Parameter) -> Getter | None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return None
    for name in _annotated_names(parameter.annotation):
        if name in kind.by_type:
            return kind.by_type[name]
    return kind.by_name.get(parameter.name)


def _annotated_names(annotation: Any) -> list[str]:
    """Return the names of the classes in an annotation, which need not be importable at run time."""
    if annotation is inspect.Parameter.empty:
        return []
    if isinstance(annotation, str):
        # Quotes are there when a quoted annotation is in a module that postpones all of them.
        parts = annotation.strip("'\"").split("|")
        return [part.split("[")[0].split(".")[-1].strip() for part in parts]
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return [name for part in typing.get_args(annotation) for name in _annotated_names(part)]
    return [getattr(origin or annotation, "__name__", "")]

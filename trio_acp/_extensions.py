"""Extension methods that a side serves, with types and with the session that they are about (N1)."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, final, overload

import attrs

from trio_acp._errors import SchemaError
from trio_acp.schema import METHODS

from ._extension_values import annotated_type, check_type, decode, encode_result

__all__ = [
    "Extension",
    "ExtensionHandler",
    "Extensions",
    "as_extension",
    "check_extension_name",
    "is_async",
    "serve_extension",
    "tell_extension",
]

P = TypeVar("P")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])

ExtensionHandler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes the parameters of an extension method; for a request, returns its result as JSON values (N1)."""


class Registration(Protocol[P, R]):
    """Takes the handler of a method, with or without a parameter for the session, and returns it."""

    @overload
    def __call__(self, handler: Callable[[P], Awaitable[R]], /) -> Callable[[P], Awaitable[R]]: ...
    @overload
    def __call__(self, handler: Callable[[P, Any], Awaitable[R]], /) -> Callable[[P, Any], Awaitable[R]]: ...


@attrs.frozen
class Extension:
    """One extension method and its types; made by `Extensions.method`.

    Attributes:
        handler: is called with the parameters, and with the session that their ``sessionId`` names, None
            where it names none that is open on the connection.
        params: type of the parameters; None for JSON values. What does not fit is answered with -32602,
            which names the field.
        result: type of the result; None for whatever can travel.
    """

    handler: Callable[[Any, Any], Awaitable[Any]]
    params: Any = None
    result: Any = None


@final
class Extensions(Mapping[str, Extension]):
    """A registry of extension methods: for ``AcpOptions.extensions`` of a host, and for `AgentApp`::

        extensions = Extensions()

        @extensions.method("_example.com/ask")
        async def ask(question: Question, session: SessionScope | None) -> Answer:
            return Answer(...)

    Parameters and results are JSON values, or of classes of your own: those derived from `WireObject`, those
    made by attrs or `dataclasses`, and TypedDicts. Names travel in camel case, but the keys of a TypedDict as
    they are. Types are strict: nothing is converted but what JSON has no word for, such as enums. Fields that
    a class does not have are ignored; a TypedDict keeps them, and a `WireObject` does in ``extra``.

    The session is a `SessionScope` at a host, an `AgentSession` at an agent. Whether a method is a request or
    a notification is the peer's choice: the result of a notification goes nowhere.
    """

    def __init__(self) -> None:
        self._methods: dict[str, Extension] = {}

    def __getitem__(self, name: str) -> Extension:
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    @overload
    def method(self, name: str) -> Callable[[H], H]: ...
    @overload
    def method(self, name: str, params: type[P]) -> Registration[P, Any]: ...
    @overload
    def method(self, name: str, params: type[P], result: type[R]) -> Registration[P, R]: ...
    @overload
    def method(self, name: str, *, result: type[R]) -> Registration[Any, R]: ...
    def method(self, name: str, params: type[Any] | None = None, result: type[Any] | None = None) -> Any:
        """Register the handler of a method; to be used as a decorator.

        The handler takes the parameters, and the session if it has a second parameter.

        Args:
            name: the method's name on the wire; it travels unchanged. One without a leading underscore is
                warned of.
            params: type of its parameters; None for what the handler's first parameter is annotated with,
                JSON values if that says nothing else.
            result: type that its result has to have; None for whatever can travel.

        Raises:
            ValueError: it is a method of the protocol, or is registered already.
            TypeError: a type cannot travel, an annotation cannot be resolved, or the handler is no async
                function or takes no parameter.
        """
        check_extension_name(name, ValueError)
        if name in self._methods:
            raise ValueError(f"{name!r} is registered already")
        check_type(params)
        check_type(result)

        def register(handler: Callable[..., Awaitable[Any]]) -> Any:
            self._methods[name] = _extension(handler, params, result)
            return handler

        return register


def is_async(function: Any) -> bool:
    """Tell whether a function, or an object that can be called, is written with ``async def``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not whether it can be called, but how
    )


def _extension(handler: Callable[..., Awaitable[Any]], params: Any, result: Any) -> Extension:
    if not is_async(handler):
        name = getattr(handler, "__qualname__", repr(handler))
        raise TypeError(f"the handler {name!r} is not an async function; write it with 'async def'")
    places = [
        parameter
        for parameter in inspect.signature(handler).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if not places:
        raise TypeError(f"{handler!r} has to take the parameters of its method, and may take the session")
    if params is None:
        params = annotated_type(handler, places[0])
        check_type(params)
    if len(places) == 1:
        return Extension(_without_session(handler), params, result)
    return Extension(handler, params, result)


def as_extension(handler: Extension | ExtensionHandler) -> Extension:
    """Return what a registry would hold for a handler that takes its parameters as they came."""
    return handler if isinstance(handler, Extension) else Extension(_without_session(handler))


def _without_session(handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def call(params: Any, session: Any) -> Any:
        return await handler(params)

    return call


async def serve_extension(extension: Extension, name: str, params: dict[str, Any], session: Any) -> Any:
    """Decode, call, encode: what an extension request is answered with.

    All of it may be code of the application, so it is done in a task and not in the read loop.

    Raises:
        SchemaError: the parameters do not fit.
        TypeError: the handler made a value that does not fit.
        Exception: what the handler raises.
    """
    decoded = decode(extension.params, params, f"{name} params")
    try:
        result = await extension.handler(decoded, session)
    except SchemaError as error:
        # The parameters fitted: the peer must not be told that its request was wrong.
        raise TypeError(f"the handler of {name} made a value that does not fit: {error}") from error
    return encode_result(extension.result, result, name)


async def tell_extension(
    logger: logging.Logger, extension: Extension, name: str, params: dict[str, Any], session: Any
) -> None:
    """Call the handler of a notification; one with parameters that do not fit is dropped (W5).

    Raises:
        Exception: what the handler raises.
    """
    try:
        decoded = decode(extension.params, params, f"{name} params")
    except SchemaError as error:
        logger.warning("dropped a %s notification: %s", name, error)
        return
    await extension.handler(decoded, session)


def check_extension_name(method: str, error: Callable[[str], Exception], stacklevel: int = 3) -> None:
    """Refuse the protocol's own names for an extension, and warn of names without an underscore (N1).

    Such names are against the protocol, but both hosts and agents have them, and names travel unchanged.
    """
    if method in METHODS or method.startswith("$/") or not method:
        raise error(
            f"extension methods start with an underscore, {method!r} does not; "
            "it is left to the protocol, which this library speaks by itself"
        )
    if not method.startswith("_"):
        warnings.warn(
            f"{method!r} has no leading underscore: the protocol may use that name for itself one day",
            stacklevel=stacklevel,
        )

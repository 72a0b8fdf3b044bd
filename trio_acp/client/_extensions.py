"""Extension methods that the host serves, with types and with the session that they are about (N1)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast, final, overload

import attrs

from trio_acp._errors import SchemaError
from trio_acp.schema import METHODS, WireObject, structure, unstructure

from ._scope import SessionScope

__all__ = [
    "Extension",
    "ExtensionHandler",
    "Extensions",
    "call_extension",
    "check_extension_name",
    "wire_params",
]

P = TypeVar("P", bound=WireObject)
R = TypeVar("R", bound=WireObject)

ExtensionHandler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes the parameters of an extension method; for a request, returns its result as JSON values (N1)."""

TypedHandler: TypeAlias = Callable[[P, SessionScope | None], Awaitable[R]]
JsonHandler: TypeAlias = Callable[[P, SessionScope | None], Awaitable[Any]]


@attrs.frozen
class Extension:
    """One extension method and its types; made by `Extensions.method`.

    Attributes:
        handler: is called with the parameters, and with the session that their ``sessionId`` names, None
            where it names none that is open on the connection.
        params: class of the parameters. What does not fit is answered with -32602, which names the field.
        result: class of the result; None for plain JSON.
    """

    handler: Callable[[Any, SessionScope | None], Awaitable[Any]]
    params: type[WireObject]
    result: type[WireObject] | None = None

    async def __call__(self, params: dict[str, Any], session: SessionScope | None) -> Any:
        """Decode, call, encode."""
        result = await self.handler(structure(self.params, params), session)
        if self.result is None:
            return unstructure(result) if isinstance(result, WireObject) else result
        if not isinstance(result, self.result):
            raise TypeError(f"the handler must return {self.result.__name__}, not {type(result).__name__}")
        return unstructure(result)


@final
class Extensions(Mapping[str, Extension]):
    """A registry of extension methods, for ``AcpOptions.extensions``::

        extensions = Extensions()

        @extensions.method("_example.com/ask", Question)
        async def ask(question: Question, session: SessionScope | None) -> dict[str, str]:
            return {"answer": ...}

    The classes are derived from `WireObject`, by ``attrs.define``; their names travel in camel case, and
    fields that they do not have are kept in ``extra``. Whether a method is a request or a notification is the
    agent's choice: the result of a notification goes nowhere.
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
    def method(self, name: str, params: type[P]) -> Callable[[JsonHandler[P]], JsonHandler[P]]: ...
    @overload
    def method(
        self, name: str, params: type[P], result: type[R]
    ) -> Callable[[TypedHandler[P, R]], TypedHandler[P, R]]: ...
    def method(self, name: str, params: type[Any], result: type[Any] | None = None) -> Any:
        """Register the handler of a method; to be used as a decorator.

        Args:
            name: the method's name on the wire; it travels unchanged. One without a leading underscore is
                warned of.
            params: class of its parameters, derived from `WireObject`.
            result: class of its result; None for plain JSON.

        Raises:
            ValueError: it is a method of the protocol, or is registered already.
            TypeError: a class is not derived from `WireObject`, or has a field of a type that cannot travel.
        """
        check_extension_name(name, ValueError)
        if name in self._methods:
            raise ValueError(f"{name!r} is registered already")
        for kind in (params, result):
            if kind is not None and not issubclass(kind, WireObject):
                raise TypeError(f"{kind.__name__} has to be derived from trio_acp.schema.WireObject")
            if kind is not None:
                # A field that cannot travel is to be found now, and not at the first call.
                with contextlib.suppress(SchemaError):
                    structure(kind, None)

        def register(handler: Callable[[Any, SessionScope | None], Awaitable[Any]]) -> Any:
            self._methods[name] = Extension(handler, params, result)
            return handler

        return register


async def call_extension(
    handler: Extension | ExtensionHandler, params: dict[str, Any], session: SessionScope | None
) -> Any:
    """Call the handler of an extension method, typed or not."""
    if isinstance(handler, Extension):
        return await handler(params, session)
    return await handler(params)


def check_extension_name(method: str, error: Callable[[str], Exception]) -> None:
    """Refuse the protocol's own names for an extension, and warn of names without an underscore (N1).

    Such names are against the protocol, but agents have them, and names travel unchanged.
    """
    if method in METHODS or method.startswith("$/") or not method:
        raise error(
            f"extension methods start with an underscore, {method!r} does not; "
            "it is left to the protocol, which this library speaks by itself"
        )
    if not method.startswith("_"):
        warnings.warn(
            f"{method!r} has no leading underscore: the protocol may use that name for itself one day",
            stacklevel=3,
        )


def wire_params(params: Mapping[str, Any] | WireObject | None) -> dict[str, Any]:
    """Return the parameters of a call as JSON values."""
    if isinstance(params, WireObject):
        return cast("dict[str, Any]", unstructure(params))
    return dict(params or {})

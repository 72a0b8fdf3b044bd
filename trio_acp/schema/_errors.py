"""The root of the library's error tree, and the error for values that do not fit the schema."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

__all__ = ["AcpError", "SchemaError", "WirePath", "format_path"]

WirePath: TypeAlias = tuple[str | int, ...]
"""Where a value sits in a message: wire names of fields, and indexes of array items."""

E = TypeVar("E", bound=BaseException)


def _rebuild(cls: type[E], args: tuple[Any, ...], state: dict[str, Any]) -> E:
    """Make an exception from its parts, past its ``__init__`` (which may take keywords only)."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class AcpError(Exception):
    """Root of every error that this library raises on its own account.

    Every subclass can be copied and pickled, whatever its constructor takes.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Tracebacks and pickles name the module that applications import the error from: ours are all public
        # in the package that holds the private module.
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("trio_acp."):
            cls.__module__ = cls.__module__.partition("._")[0]

    def __reduce__(self) -> tuple[Any, ...]:
        """Support :mod:`copy` and :mod:`pickle` for subclasses with keyword-only arguments."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


AcpError.__module__ = "trio_acp"


class SchemaError(AcpError, ValueError):
    """A JSON value does not fit the protocol's schema (W4, W9).

    Its text reads ``subject: path: reason``, for example ``session/new params: mcpServers[0].name: expected a
    string, got 5``. It speaks of wire names only, so that it can be shown to the peer.

    Attributes:
        path: where the misfit is, in wire names and list indexes, outermost first; empty for the value
            itself.
        reason: what was expected there and what was found.
        subject: what was decoded or encoded (``session/new params``, ``ContentBlock``); may be empty.
    """

    path: WirePath
    reason: str
    subject: str

    def __init__(self, path: WirePath, reason: str, subject: str = "") -> None:
        self.path = path
        self.reason = reason
        self.subject = subject
        super().__init__(": ".join(part for part in (subject, format_path(path), reason) if part))


def format_path(path: WirePath) -> str:
    """Write a path the way people read one: ``options[2].kind``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text

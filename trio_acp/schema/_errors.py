"""The root of the library's error tree, and the error for values that do not fit the schema."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["AcpError", "SchemaError"]

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

    def __reduce__(self) -> tuple[Any, ...]:
        """Support :mod:`copy` and :mod:`pickle` for subclasses with keyword-only arguments."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


class SchemaError(AcpError, ValueError):
    """A JSON value does not fit the protocol's schema (W4, W9).

    Attributes:
        path: where the misfit is, in wire names and list indexes, outermost first.
        reason: what was expected there and what was found.
    """

    path: tuple[str | int, ...]
    reason: str

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        self.path = path
        self.reason = reason
        where = ".".join(str(part) for part in path)
        super().__init__(f"{where}: {reason}" if where else reason)

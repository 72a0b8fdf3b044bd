"""Strict checks of JSON scalars: nothing is coerced, and true is no number.

A node has three sides. ``take`` decodes what is exactly right and raises `Misfit`, or whatever else comes of
it, otherwise; it is the hot path, and compiled from source that the nodes write. ``read`` decodes slowly,
explains what does not fit, and honours the schema's leniency marks. ``put`` encodes, and refuses what the
peer would refuse. ``take`` and ``put`` are made on first use, with all that they call bound, since most
programs use few of the types, and most of these in one direction only.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

from ._base import IntRange, Leniency, MinLength
from ._errors import SchemaError, WirePath
from ._source import Misfit, Source

__all__ = [
    "ANY",
    "EnumNode",
    "Leaf",
    "Node",
    "Put",
    "Report",
    "Take",
    "describe",
    "leaf_for",
]

MAX_SHOWN = 40
"""How many characters of a string an error message shows: enough to find it, and not the whole of a file."""

Take: TypeAlias = Callable[[Any], Any]
"""Decodes a value."""

Put: TypeAlias = Callable[[Any], Any]
"""Encodes a value."""

Report: TypeAlias = list[Leniency] | None
"""Where leniencies are noted, if anybody wants to know."""


class Node(abc.ABC):
    """How values of one type travel.

    Attributes:
        expected: What a value of this type is, for error messages.
    """

    expected: str

    @cached_property
    def take(self) -> Take:
        """Decode what is exactly right."""
        source = Source()
        self.write(source, 0)
        return source.compiled(self.expected)

    @cached_property
    def put(self) -> Put:
        """Encode, or raise `SchemaError`."""
        return self._make_put()

    @abc.abstractmethod
    def write(self, source: Source, level: int) -> None:
        """Write down how `take` does it, within the decoder of whatever holds the value."""

    @abc.abstractmethod
    def _make_put(self) -> Put: ...

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        """Decode with leniency, noting in ``report`` where it was needed.

        Raises:
            SchemaError: The value does not fit, and leniency does not cover that.
        """
        try:
            return self.take(value)
        except Misfit:
            raise SchemaError(path, f"expected {self.expected}, got {describe(value)}") from None

    def refuse(self, value: Any) -> SchemaError:
        """The error for a value that cannot be encoded."""
        return SchemaError((), f"expected {self.expected}, got {describe(value)}")


class Leaf(Node):
    """A scalar.

    Args:
        expected: What it is.
        fits: What is true of one, in Python; ``{}`` stands for the value. Empty for anything.
        plain: Makes the plain JSON value of one that is almost right, such as a member of an enum.
    """

    def __init__(self, expected: str, fits: str, plain: Put) -> None:
        self.expected = expected
        self._fits = fits
        self._plain = plain

    def write(self, source: Source, level: int) -> None:
        if self._fits:
            source.line(f"if not ({self._fits.replace('{}', f'v{level}')}): raise Misfit")

    def _make_put(self) -> Put:
        take = self.take
        plain = self._plain
        refuse = self.refuse

        def put(value: Any) -> Any:
            try:
                return take(value)
            except Misfit:
                pass
            try:
                return take(plain(value))
            except Misfit:
                raise refuse(value) from None

        return put


class EnumNode(Node):
    """An open set of strings or integers: the known ones become members, the others stay as they are."""

    def __init__(self, kind: type[enum.Enum], base: Node) -> None:
        self.expected = base.expected
        self.kind = kind
        self.base = base
        members: dict[Any, enum.Enum] = {member.value: member for member in kind}
        self.find: Callable[[Any, Any], Any] = members.get

    def write(self, source: Source, level: int) -> None:
        self.base.write(source, level)
        source.line(f"v{level} = {source.bind(self.find)}(v{level}, v{level})")

    def _make_put(self) -> Put:
        return self.base.put


def describe(value: Any) -> str:
    """A short name for a JSON value, for error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value[:MAX_SHOWN] + "…" if len(value) > MAX_SHOWN else str(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        # Python refuses to write out integers of thousands of digits.
        return repr(value) if -(2**64) < value < 2**64 else "an integer of more than 64 bits"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    return f"{type(value).__name__!r}, which is no JSON"


def _plain_str(value: Any) -> Any:
    """Members of string enums, and other subclasses of str, as str itself."""
    return str.__str__(value) if isinstance(value, str) else value


def _plain_int(value: Any) -> Any:
    """Members of integer enums as int itself; true and false stay what they are."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    return value


def _int_leaf(bounds: IntRange) -> Leaf:
    low, high = bounds.minimum, bounds.maximum
    return Leaf(
        f"an integer from {low} to {high}", f"{{}}.__class__ is int and {low} <= {{}} <= {high}", _plain_int
    )


def _min_length_leaf(bound: MinLength) -> Leaf:
    least = bound.minimum
    return Leaf(
        f"a string of at least {least} character",
        f"{{}}.__class__ is str and len({{}}) >= {least}",
        _plain_str,
    )


def leaf_for(kind: Any, bound: Any = None) -> Node | None:
    """The node for a scalar type and the bound that it is annotated with, or None for any other type."""
    if isinstance(bound, IntRange):
        return _int_leaf(bound)
    if isinstance(bound, MinLength):
        return _min_length_leaf(bound)
    return _LEAVES.get(kind)


# An integer stays one, so that it is sent again as it came; it has to fit a double all the same.
_FITS_DOUBLE = (
    "{}.__class__ is float and -inf < {} < inf or {}.__class__ is int and -largest <= {} <= largest"
)

ANY: Node = Leaf("any JSON", "", _plain)
"""What is kept as it is."""

_LEAVES: dict[Any, Node] = {
    str: Leaf("a string", "{}.__class__ is str", _plain_str),
    bool: Leaf("true or false", "{}.__class__ is bool", _plain),
    # For classes of extensions: those of the protocol give their bounds.
    int: _int_leaf(IntRange(-(2**63), 2**64 - 1)),
    float: Leaf("a number", _FITS_DOUBLE, _plain),
    Any: ANY,
    dict[str, Any]: Leaf("an object", "{}.__class__ is dict", _plain),
}

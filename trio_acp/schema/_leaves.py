"""Strict checks of JSON scalars: nothing is coerced, and true is no number.

A node has three sides. ``take`` decodes what is exactly right and raises `Misfit`, or whatever else comes of
it, otherwise; it is the hot path. ``read`` decodes slowly, explains what does not fit, and honours the
schema's leniency marks. ``put`` encodes, and refuses what the peer would refuse. ``take`` and ``put`` are
made on first use, with all that they call bound, since most programs use few of the types, and most of these
in one direction only.
"""

from __future__ import annotations

import abc
import enum
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

from ._base import IntRange, Leniency, MinLength
from ._errors import SchemaError, WirePath

__all__ = [
    "ANY",
    "EnumNode",
    "Leaf",
    "Misfit",
    "Node",
    "Put",
    "Report",
    "Take",
    "describe",
    "leaf_for",
    "take_optional_str",
    "take_str",
]

MAX_SHOWN = 40
"""How many characters of a string an error message shows: enough to find it, and not the whole of a file."""

Take: TypeAlias = Callable[..., Any]
"""Decodes a value. A second argument, the type that cattrs hands in, is ignored."""

Put: TypeAlias = Callable[[Any], Any]
"""Encodes a value."""

Report: TypeAlias = list[Leniency] | None
"""Where leniencies are noted, if anybody wants to know."""


class Misfit(Exception):
    """The fast path met something that the slow path has to look at. Never leaves this package."""


class Node(abc.ABC):
    """How values of one type travel.

    Attributes:
        expected: What a value of this type is, for error messages.
    """

    expected: str

    @cached_property
    def take(self) -> Take:
        """Decode what is exactly right."""
        return self._make_take()

    @cached_property
    def put(self) -> Put:
        """Encode, or raise `SchemaError`."""
        return self._make_put()

    @abc.abstractmethod
    def _make_take(self) -> Take: ...

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
        take: How it is decoded.
        plain: Makes the plain JSON value of one that is almost right, such as a member of an enum.
    """

    def __init__(self, expected: str, take: Take, plain: Put) -> None:
        self.expected = expected
        self._take = take
        self._plain = plain

    def _make_take(self) -> Take:
        return self._take

    def _make_put(self) -> Put:
        take = self._take
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

    def _make_take(self) -> Take:
        find = self.find
        check = self.base.take

        def take(value: Any, _: Any = None) -> Any:
            return find(check(value), value)

        return take

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


def take_str(value: Any, _: Any = None) -> Any:
    """Decode a string."""
    if value.__class__ is str:
        return value
    raise Misfit


def take_optional_str(value: Any, _: Any = None) -> Any:
    """The same as `take_str`, or None: by far the most frequent of all optional fields."""
    if value is None or value.__class__ is str:
        return value
    raise Misfit


def _take_bool(value: Any, _: Any = None) -> Any:
    if value.__class__ is bool:
        return value
    raise Misfit


def _take_float(value: Any, _: Any = None) -> Any:
    # An integer stays one, so that it is sent again as it came; it has to fit a double all the same.
    if value.__class__ is float:
        if math.isfinite(value):
            return value
    elif value.__class__ is int and -_LARGEST_DOUBLE <= value <= _LARGEST_DOUBLE:
        return value
    raise Misfit


_LARGEST_DOUBLE = int(1.7976931348623157e308)


def _take_object(value: Any, _: Any = None) -> Any:
    if value.__class__ is dict:
        return value
    raise Misfit


def _plain_str(value: Any) -> Any:
    """Members of string enums, and other subclasses of str, as str itself."""
    return str.__str__(value) if isinstance(value, str) else value


def _plain_int(value: Any) -> Any:
    """Members of integer enums as int itself; true and false stay what they are."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(value: Any, _: Any = None) -> Any:
    return value


def _int_leaf(bounds: IntRange) -> Leaf:
    low, high = bounds.minimum, bounds.maximum

    def take(value: Any, _: Any = None) -> Any:
        if value.__class__ is int and low <= value <= high:
            return value
        raise Misfit

    return Leaf(f"an integer from {low} to {high}", take, _plain_int)


def _min_length_leaf(bound: MinLength) -> Leaf:
    least = bound.minimum

    def take(value: Any, _: Any = None) -> Any:
        if value.__class__ is str and len(value) >= least:
            return value
        raise Misfit

    return Leaf(f"a string of at least {least} character", take, _plain_str)


def leaf_for(kind: Any, bound: Any = None) -> Node | None:
    """The node for a scalar type and the bound that it is annotated with, or None for any other type."""
    if isinstance(bound, IntRange):
        return _int_leaf(bound)
    if isinstance(bound, MinLength):
        return _min_length_leaf(bound)
    return _LEAVES.get(kind)


ANY: Node = Leaf("any JSON", _plain, _plain)
"""What is kept as it is."""

_LEAVES: dict[Any, Node] = {
    str: Leaf("a string", take_str, _plain_str),
    bool: Leaf("true or false", _take_bool, _plain),
    # For classes of extensions: those of the protocol give their bounds.
    int: _int_leaf(IntRange(-(2**63), 2**64 - 1)),
    float: Leaf("a number", _take_float, _plain),
    Any: ANY,
    dict[str, Any]: Leaf("an object", _take_object, _plain),
}

"""What every wire type is built from: the base class, the marks on fields, unknown variants, open unions."""

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

import attrs
from attrs import define, field

from ._errors import WirePath

__all__ = [
    "UNSET",
    "AlwaysSent",
    "Float64",
    "Int32",
    "Int64",
    "IntRange",
    "Lenient",
    "LenientItems",
    "Leniency",
    "Mark",
    "Meta",
    "MinLength",
    "NonEmptyStr",
    "NullAsDefault",
    "OpenUnion",
    "UInt16",
    "UInt32",
    "UInt64",
    "UnknownVariant",
    "Unset",
    "WireObject",
    "camel_case",
    "new_dict",
    "new_list",
    "open_union",
    "open_unions",
    "snake_case",
]

T = TypeVar("T")

new_list: Final[Callable[[], list[Any]]] = list
"""Makes the default of an array field. Type checkers cannot tell what `list` alone makes there."""

new_dict: Final[Callable[[], dict[str, Any]]] = dict
"""Makes the default of a map field."""


class Unset(enum.Enum):
    """The type of `UNSET`, for fields in which "left out" and ``null`` mean different things."""

    UNSET = "unset"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""This field was left out, or is to be left out. ``None`` in such a field is an explicit ``null``."""


class Mark(enum.Enum):
    """How a field differs from the plain rules; the marks follow the schema's ``x-deserialize-…`` keys."""

    DEFAULT_ON_ERROR = "default-on-error"
    SKIP_INVALID_ITEMS = "skip-invalid-items"
    DEFAULT_ON_NULL = "default-on-null"
    ALWAYS_SENT = "always-sent"


Lenient = Annotated[T, Mark.DEFAULT_ON_ERROR]
"""A received value that does not fit becomes the field's default."""

LenientItems = Annotated[T, Mark.DEFAULT_ON_ERROR, Mark.SKIP_INVALID_ITEMS]
"""An array: items that do not fit are left out, and anything that is no array becomes the field's default."""

NullAsDefault = Annotated[T, Mark.DEFAULT_ON_NULL]
"""A received ``null`` becomes the field's default."""

AlwaysSent = Annotated[T, Mark.ALWAYS_SENT]
"""Sent even when it equals its default, for peers that are stricter than the schema."""


@attrs.frozen
class IntRange:
    """The inclusive bounds of an integer on the wire."""

    minimum: int
    maximum: int


@attrs.frozen
class MinLength:
    """The least number of characters of a string on the wire."""

    minimum: int


UInt16: TypeAlias = Annotated[int, IntRange(0, 2**16 - 1)]
UInt32: TypeAlias = Annotated[int, IntRange(0, 2**32 - 1)]
UInt64: TypeAlias = Annotated[int, IntRange(0, 2**64 - 1)]
Int32: TypeAlias = Annotated[int, IntRange(-(2**31), 2**31 - 1)]
Int64: TypeAlias = Annotated[int, IntRange(-(2**63), 2**63 - 1)]
Float64: TypeAlias = float
NonEmptyStr: TypeAlias = Annotated[str, MinLength(1)]

Meta: TypeAlias = dict[str, Any]
"""The free-form ``_meta`` object. Keys are for extensions and tracing; nothing may be assumed about them."""


@define(repr=False, eq=False)
class WireObject:
    """The base class of every object that travels on the wire.

    Attributes:
        meta: The ``_meta`` object, kept and re-sent as it came.
        extra: Fields of a received object that this version of the protocol does not name, by their wire
            names, or None. They are sent again; they never override a field that the class has.
    """

    forbidden_fields: ClassVar[frozenset[str]] = frozenset()
    """Wire names that may not stand beside the fields of this class."""

    meta: Lenient[Meta | None] = field(default=None, kw_only=True)
    extra: dict[str, Any] | None = field(default=None, kw_only=True)

    def __eq__(self, other: object) -> bool:
        # Written here once: making one for each class, as attrs would, is a fifth of the import time.
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(
            getattr(self, attribute.name) == getattr(other, attribute.name)
            for attribute in attrs.fields(type(self))
        )

    def __repr__(self) -> str:
        # Most fields of most objects hold their default: showing those would bury the rest.
        shown: list[str] = []
        for attribute in attrs.fields(type(self)):
            value = getattr(self, attribute.name)
            default: Any = attribute.default
            if hasattr(default, "factory"):
                default = default.factory()
            if default is attrs.NOTHING or value != default:
                shown.append(f"{attribute.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


@define
class UnknownVariant:
    """A member of an open union that this version of the protocol does not know.

    Encoding it gives ``payload`` again, unchanged.

    Attributes:
        tag: The value of the union's tag field.
        payload: The whole object as it was received, its tag included.
    """

    tag: str | None
    payload: dict[str, Any]


@attrs.frozen
class Leniency:
    """One place where a received message did not fit, and was accepted because the schema asks for it.

    Attributes:
        path: Where in the message, in wire names.
        reason: What did not fit, and what was done about it.
        value: The value as it was received.
    """

    path: WirePath
    reason: str
    value: Any


@attrs.frozen
class OpenUnion:
    """How the members of a union are told apart on the wire.

    Attributes:
        name: The name of the union in the schema.
        key: The wire name of the tag field.
        members: The class for each tag.
        default: The class that is meant when there is no tag, if there is one.
        default_tags: Tags that also mean the default class. The class does not own its tag: it is kept in
            ``extra``.
        unknown_as_default: Whether an object with an unknown tag is read as the default class where it fits.
        bare: Members that also occur outside the union, where they carry no tag.
        usual: The tag of the member that most values are, if there is one.
    """

    name: str
    key: str
    members: Mapping[str, type[WireObject]]
    default: type[WireObject] | None = None
    default_tags: frozenset[str] = frozenset()
    unknown_as_default: bool = False
    bare: frozenset[type[WireObject]] = frozenset()
    usual: str | None = None


_open_unions: dict[frozenset[Any], OpenUnion] = {}


def open_union(
    alias: Any,
    name: str,
    key: str,
    *,
    default: type[WireObject] | None = None,
    default_tags: tuple[str, ...] = (),
    unknown_as_default: bool = False,
    bare: tuple[type[WireObject], ...] = (),
    usual: str | None = None,
) -> None:
    """Say how the members of a union type are told apart; called once, next to the union's definition.

    The tag of a member is its class variable named like the tag field in snake case.

    Args:
        alias: The union, `UnknownVariant` included.
        name: Its name in the schema.
        key: The wire name of the tag field.
        default: The member that has no tag.
        default_tags: Tags that nevertheless mean ``default``.
        unknown_as_default: Read unknown tags as ``default`` where the object fits it.
        bare: Members that also occur outside the union, without a tag.
        usual: The tag of the member that most values are: it is decoded in place.
    """
    attribute = snake_case(key)
    classes = [member for member in alias.__args__ if member is not UnknownVariant]
    _open_unions[frozenset(alias.__args__)] = OpenUnion(
        name=name,
        key=key,
        members={getattr(member, attribute): member for member in classes if member is not default},
        default=default,
        default_tags=frozenset(default_tags),
        unknown_as_default=unknown_as_default,
        bare=frozenset(bare),
        usual=usual,
    )


def open_unions() -> Mapping[frozenset[Any], OpenUnion]:
    """All unions that `open_union` was told of, by the set of their members."""
    return _open_unions


def snake_case(wire_name: str) -> str:
    """The attribute name for a wire name, reserved words aside: ``sessionId`` gives ``session_id``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in wire_name)


def camel_case(attribute: str) -> str:
    """Return the wire name of an attribute: ``sessionId`` for ``session_id``, ``_meta`` for ``meta``.

    Args:
        attribute: The attribute's name. An underscore at its end, there for Python's sake, is left out.
    """
    if attribute == "meta":
        return "_meta"
    head, *tail = attribute.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in tail)

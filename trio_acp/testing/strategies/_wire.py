"""The wire types: objects of them, the JSON that is right, that leniency covers, and that is wrong."""

from __future__ import annotations

import enum
import functools
import string
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import attrs
from hypothesis import strategies as st

from trio_acp.schema import METHODS, SchemaError, UnknownVariant, Unset, WireObject, structure, unstructure
from trio_acp.testing._shapes import is_array, is_object
from trio_acp.testing._transcript import Party

__all__ = [
    "InvalidPayload",
    "invalid_payloads",
    "json_values",
    "lenient_payloads",
    "messages",
    "objects",
    "payloads",
]

Json = dict[str, Any]

_TEXT = st.text(alphabet=string.ascii_letters + string.digits + " /äß漢😀", max_size=8)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
_MISFITS: tuple[Any, ...] = (5, "x", True, [], {}, 1.5, None, -1, 2**70, "")
"""Values to try where one is wanted that does not fit."""


def json_values(*, max_leaves: int = 5) -> st.SearchStrategy[Any]:
    """Any JSON that every decoder reads alike.

    Args:
        max_leaves: scalars in it at most, about.
    """
    scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _FLOATS | _TEXT
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=max_leaves,
    )


_ANY = json_values()
_OBJECTS = st.dictionaries(_TEXT, _ANY, max_size=2)


# Right --------------------------------------------------------------------------------------------------


def objects(kind: Any) -> st.SearchStrategy[Any]:
    """Instances of a wire type, with all of its fields now and then.

    Args:
        kind: a class of `trio_acp.schema`, or one of its unions.
    """
    return _values(kind)


def payloads(kind: Any) -> st.SearchStrategy[Any]:
    """The JSON of instances of a wire type, as this library sends it: every peer has to take it.

    Args:
        kind: a class of `trio_acp.schema`, or one of its unions.
    """
    return objects(kind).map(lambda value: unstructure(value, kind))


def messages(sender: Party | None = None) -> st.SearchStrategy[Json]:
    """Requests and notifications with valid parameters, and answers to anything.

    Args:
        sender: the side whose calls they are; None for both.
    """
    return _messages(sender)


@functools.cache
def _messages(sender: Party | None) -> st.SearchStrategy[Json]:
    called = {"client": ("agent", "protocol"), "agent": ("client", "protocol"), None: ("agent", "client")}
    calls = [
        st.fixed_dictionaries(
            {
                "jsonrpc": st.just("2.0"),
                **({"id": _IDS} if info.kind == "request" else {}),
                "method": st.just(info.method),
                "params": payloads(info.params),
            }
        )
        for info in METHODS.values()
        if info.side in called[sender]
    ]
    head: dict[str, st.SearchStrategy[Any]] = {"jsonrpc": st.just("2.0"), "id": _IDS}
    error = st.fixed_dictionaries({"code": st.integers(-(2**31), 2**31 - 1), "message": _TEXT})
    return st.one_of(
        *calls,
        st.fixed_dictionaries({**head, "result": _ANY}),
        st.fixed_dictionaries({**head, "error": error}),
    )


_IDS: st.SearchStrategy[Any] = st.integers(0, 20) | st.integers(-(2**63), 2**63 - 1) | _TEXT | st.none()


@functools.cache
def _values(kind: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _make_values(kind))


def _make_values(kind: Any) -> st.SearchStrategy[Any]:
    inner, notes = _without_notes(kind)
    bound = next((note for note in notes if hasattr(note, "minimum")), None)
    if inner is str:
        return _TEXT if bound is None else _TEXT.filter(lambda text: len(text) >= bound.minimum)
    if inner is int:
        assert bound is not None
        return st.integers(0, 9) | st.integers(bound.minimum, bound.maximum)
    if inner is Any:
        return _ANY
    if inner is float:
        return _FLOATS | st.integers(-100, 100)
    if inner is bool:
        return st.booleans()
    if inner is types.NoneType:
        return st.none()
    origin = get_origin(inner)
    if origin in (Union, types.UnionType):
        return st.one_of([_values(member) for member in _known_members(inner)])
    if origin is list:
        return st.lists(_values(get_args(inner)[0]), max_size=2)
    if origin is dict:
        if inner == dict[str, Any]:
            return _OBJECTS
        return st.dictionaries(_TEXT, _values(get_args(inner)[1]), max_size=2)
    if issubclass(inner, enum.Enum):
        return st.sampled_from(inner)
    return _instances(inner)


def _known_members(union: Any) -> list[Any]:
    """The members to make: open enums give their known values first, unknown variants are left out."""
    return [member for member in get_args(union) if member not in (UnknownVariant, Unset)]


def _instances(cls: type[WireObject]) -> st.SearchStrategy[Any]:
    @st.composite
    def instances(draw: st.DrawFn) -> Any:
        given: dict[str, Any] = {}
        for attribute in attrs.fields(cls):
            if attribute.name == "extra":
                continue
            if attribute.default is attrs.NOTHING or draw(st.integers(0, 3)) == 3:
                given[attribute.name] = draw(_values(attribute.type))
        if _needs_scope(cls) and given.get("session_id") is None:
            given["session_id"] = draw(_TEXT)
        return cls(**given)

    return instances()


def _needs_scope(cls: type[WireObject]) -> bool:
    """Elicitations belong to a session or to a request (E1)."""
    names = {attribute.name for attribute in attrs.fields(cls)}
    return {"session_id", "request_id"} <= names and "mode" in get_type_hints(cls)


def _without_notes(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        return inner, tuple(notes)
    return kind, ()


# Wrong, and almost right ----------------------------------------------------------------------------------


@attrs.frozen
class InvalidPayload:
    """JSON that a decoder has to refuse.

    Attributes:
        value: the JSON.
        path: where it is wrong, in wire names.
        reason: what is wrong there, for people.
    """

    value: Any
    path: tuple[str | int, ...]
    reason: str


@attrs.frozen
class _Place:
    """A field of an object within a payload."""

    holder: Json
    path: tuple[str | int, ...]
    attribute: Any

    @property
    def marks(self) -> set[str]:
        return {note.name for note in _without_notes(self.attribute.type)[1] if isinstance(note, enum.Enum)}

    @property
    def required(self) -> bool:
        return self.attribute.default is attrs.NOTHING and not self.marks & {"DEFAULT_ON_ERROR"}


def _wire_name(attribute: str) -> str:
    head, *tail = attribute.rstrip("_").split("_")
    return "_meta" if attribute == "meta" else head + "".join(part.capitalize() for part in tail)


def _places(cls: type[WireObject], payload: Json, path: tuple[str | int, ...] = ()) -> Iterator[_Place]:
    """The fields of an object's class, and those of the objects below that no leniency covers."""
    for attribute in attrs.fields(cls):
        if attribute.name == "extra":
            continue
        here = (*path, _wire_name(attribute.name))
        yield _Place(payload, here, attribute)
        inner, notes = _without_notes(attribute.type)
        below = payload.get(here[-1]) if isinstance(here[-1], str) else None
        if not notes and isinstance(inner, type) and issubclass(inner, WireObject) and is_object(below):
            yield from _places(inner, below, here)


@functools.cache
def _misfit_for(kind: Any) -> tuple[Any, ...]:
    """Values that do not fit a field, whatever leniency does about it."""
    bare = _without_notes(kind)[0]
    bound = [note for note in _without_notes(kind)[1] if hasattr(note, "minimum")]
    strict = Annotated[bare, *bound] if bound else bare
    return tuple(value for value in _MISFITS if not _fits(strict, value))


def _fits(kind: Any, value: Any) -> bool:
    try:
        structure(kind, value)
    except SchemaError:
        return False
    return True


@st.composite
def invalid_payloads(draw: st.DrawFn, kind: Any) -> InvalidPayload:
    """JSON that looks like a wire type and has to be refused, with the place and the reason.

    Args:
        draw: given by Hypothesis.
        kind: a class of `trio_acp.schema`, or one of its unions.
    """
    value = draw(objects(kind))
    payload = unstructure(value, kind)
    wrongs: list[tuple[_Place, Any]] = []
    for place in _places(cast("type[WireObject]", type(value)), payload):
        if place.marks & {"DEFAULT_ON_ERROR"}:
            continue
        if place.required and not place.marks:
            wrongs.append((place, _LEFT_OUT))
        wrongs += [
            (place, misfit)
            for misfit in _misfit_for(place.attribute.type)
            if not (misfit is None and "DEFAULT_ON_NULL" in place.marks)
        ]
    if not wrongs:
        return InvalidPayload(draw(st.sampled_from([5, "x", [], True])), (), "expected an object")
    place, misfit = draw(st.sampled_from(wrongs))
    name = cast(str, place.path[-1])
    if misfit is _LEFT_OUT:
        place.holder.pop(name)
        return InvalidPayload(payload, place.path, "missing")
    place.holder[name] = misfit
    return InvalidPayload(payload, place.path, f"{misfit!r} does not fit")


_LEFT_OUT = object()
_BAD_ITEMS: list[Any] = [5, None, []]


@st.composite
def lenient_payloads(draw: st.DrawFn, kind: Any) -> Any:
    """JSON that a decoder has to take although it is not quite right (W8, W9).

    Fields that nobody knows, values of optional fields that do not fit where the schema says that they
    are dropped, null for a default, items of lists that do not fit.

    Args:
        draw: given by Hypothesis.
        kind: a class of `trio_acp.schema`, or one of its unions.
    """
    value = draw(objects(kind))
    payload: Json = unstructure(value, kind)
    payload.update(draw(st.dictionaries(_TEXT.map(lambda name: f"zz{name}"), _ANY, max_size=2)))
    for place in list(_places(cast("type[WireObject]", type(value)), payload)):
        if not place.marks or draw(st.booleans()):
            continue
        name = cast(str, place.path[-1])
        misfits = _misfit_for(place.attribute.type)
        if "SKIP_INVALID_ITEMS" in place.marks and is_array(place.holder.get(name)):
            place.holder[name].append(draw(st.sampled_from(_BAD_ITEMS)))
        elif "DEFAULT_ON_ERROR" in place.marks and misfits:
            place.holder[name] = draw(st.sampled_from(misfits))
        elif "DEFAULT_ON_NULL" in place.marks:
            place.holder[name] = None
    return payload

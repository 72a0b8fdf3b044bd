"""Decoding and encoding: the doors of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ._base import Leniency, UnknownVariant, WireObject
from ._errors import SchemaError
from ._leaves import Put, Take
from ._nodes import UnionNode, node_for
from .methods import METHODS
from .updates import SessionUpdate

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["get_converter", "structure", "structure_update", "unstructure", "unstructure_update"]

T = TypeVar("T")


class _Takes(dict[Any, Take]):
    """The decoder of each type, found when it is first asked for."""

    def __missing__(self, kind: Any) -> Take:
        take = self[kind] = node_for(kind).take
        return take


class _Puts(dict[Any, Put]):
    """The encoder of each type, found when it is first asked for."""

    def __missing__(self, kind: Any) -> Put:
        put = self[kind] = node_for(kind).put
        return put


_takes = _Takes()
_puts = _Puts()


@overload
def structure(as_type: type[T], raw: object, report: list[Leniency] | None = None) -> T: ...
@overload
def structure(as_type: Any, raw: object, report: list[Leniency] | None = None) -> Any: ...
def structure(as_type: Any, raw: object, report: list[Leniency] | None = None) -> Any:
    """Decode a JSON value as a type of the protocol.

    What the schema allows to be lenient about is put right (W9). Unknown fields, union members and enum
    values are kept (W8). JSON below fields without a type is kept by reference, not copied.

    Args:
        as_type: A class of this package, or one of its unions.
        raw: The JSON value.
        report: Where to note what was put right; it is filled up to 100 entries.

    Raises:
        SchemaError: The value does not fit; the error says where and why.
        TypeError: ``as_type`` is no type of the protocol.
    """
    try:
        return _takes[as_type](raw)
    except Exception:
        # Whatever went wrong, the slow way knows whether it may be, and how to say it.
        return _read(as_type, raw, report)


def _read(as_type: Any, raw: object, report: list[Leniency] | None) -> Any:
    node = node_for(as_type)
    try:
        return node.read(raw, (), report)
    except SchemaError as error:
        raise SchemaError(error.path, error.reason, _subject(as_type)) from None


def unstructure(value: object, as_type: Any = None) -> Any:
    """Encode a value as JSON that a peer accepts.

    Fields that equal their default are left out unless they are required. A class that is a member of one
    union only writes its tag; `ToolCallUpdate`, which also occurs outside of unions, writes it only where it
    is encoded as a `SessionUpdate`.

    Args:
        value: An instance of a class of this package, or a list, or plain JSON.
        as_type: The type to encode it as; None takes it from the value.

    Returns:
        Dictionaries, lists and scalars. JSON below fields without a type is there by reference, not copied.

    Raises:
        SchemaError: The value is not what its type says, and a peer would refuse it.
        TypeError: ``as_type`` is no type of the protocol.
    """
    if as_type is None:
        if isinstance(value, UnknownVariant):
            return dict(value.payload)
        if isinstance(value, list):
            return [unstructure(each) for each in cast("list[object]", value)]
        as_type = type(value) if isinstance(value, WireObject) else Any
    put = _puts[as_type]
    try:
        return put(value)
    except SchemaError as error:
        raise SchemaError(error.path, error.reason, _subject(as_type)) from None


def structure_update(raw: Any, report: list[Leniency] | None = None) -> SessionUpdate:
    """Decode the ``update`` object of a ``session/update``: the fast door for the hot path.

    The arguments and errors are those of `structure`.
    """
    try:
        update: SessionUpdate = _update_takes[raw["sessionUpdate"]](raw)
    except Exception:
        update = _read(SessionUpdate, raw, report)
    return update


def unstructure_update(update: SessionUpdate) -> dict[str, Any]:
    """Encode the ``update`` object of a ``session/update``, its tag included.

    Raises:
        SchemaError: The update is not what its type says, and a peer would refuse it.
    """
    return cast("dict[str, Any]", unstructure(update, SessionUpdate))


_update_node = cast(UnionNode, node_for(SessionUpdate))
_update_takes = _update_node.takes


def get_converter(converter: Converter | None = None) -> Converter:
    """A cattrs converter that knows all types of the protocol, for use in classes of your own.

    Args:
        converter: The converter to teach them to; None for a new one, which is yours to add hooks to.
    """
    if converter is None:
        from cattrs import Converter

        converter = Converter(detailed_validation=False)

    def take_hook(raw: Any, kind: Any) -> Any:
        return structure(kind, raw)

    def put_hook_for(kind: Any) -> Put:
        def put_hook(value: Any) -> Any:
            return unstructure(value, kind)

        return put_hook

    converter.register_structure_hook_func(_is_ours, take_hook)
    converter.register_unstructure_hook_factory(_is_ours, put_hook_for)
    return converter


def _is_ours(kind: Any) -> bool:
    try:
        node_for(kind)
    except TypeError:
        return False
    return True


def _subject(as_type: Any) -> str:
    """What a type is on the wire, for error messages."""
    for info in METHODS.values():
        if info.params is as_type:
            return f"{info.method} params"
        if info.result is as_type:
            return f"{info.method} result"
    return getattr(as_type, "__name__", "")

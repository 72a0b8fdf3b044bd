"""From types to nodes: objects, and unions whose members have tags. Nodes are made once, and kept.

The decoders of objects are generated here, their encoders by cattrs; everything that they call is bound when
they are made.
"""

from __future__ import annotations

import enum
import threading
import types
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from ._base import (
    IntRange,
    Mark,
    MinLength,
    OpenUnion,
    UnknownVariant,
    Unset,
    WireObject,
    camel_case,
    open_unions,
)
from ._containers import (
    MISSING,
    ChoiceNode,
    ListNode,
    MapNode,
    OptionalNode,
    attempt,
    below,
    failure,
    record,
)
from ._decoders import write_object
from ._errors import SchemaError, WirePath
from ._leaves import (
    EnumNode,
    Node,
    Put,
    Report,
    Take,
    describe,
    leaf_for,
)
from ._source import Misfit, Source

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["ObjectNode", "UnionNode", "node_for"]


@cache
def _converter() -> Converter:
    from cattrs import Converter

    return Converter(detailed_validation=False)


_nodes: dict[Any, Node] = {}


@attrs.frozen
class Field:
    """What the nodes know of one field of a class."""

    name: str
    wire: str
    node: Node
    required: bool
    marks: frozenset[Mark]
    default: Callable[[], Any]

    def read(self, raw: dict[str, Any], path: WirePath, report: Report) -> Any:
        if self.wire not in raw:
            if self.required:
                raise SchemaError((*path, self.wire), MISSING)
            return self.default()
        value = raw[self.wire]
        here = (*path, self.wire)
        if value is None and Mark.DEFAULT_ON_NULL in self.marks:
            record(report, here, "got null; the default is used", value)
            return self.default()
        try:
            return self.node.read(value, here, report)
        except SchemaError as error:
            if Mark.DEFAULT_ON_ERROR not in self.marks:
                raise
            record(report, here, f"{below(here, error)}; the default is used", value)
            return self.default()


def _hints(cls: type[WireObject]) -> dict[str, Any]:
    """Return the annotations of a class if texts are in them (``from __future__ import``), else nothing."""
    if any(_has_text(attribute.type) for attribute in attrs.fields(cls)):
        return get_type_hints(cls, include_extras=True)
    return {}


def _has_text(kind: Any) -> bool:
    return isinstance(kind, (str, ForwardRef)) or any(map(_has_text, get_args(kind)))


def _fields(cls: type[WireObject]) -> list[Field]:
    fields: list[Field] = []
    hints = _hints(cls)
    for attribute in attrs.fields(cls):
        if attribute.name == "extra":
            continue
        kind = hints.get(attribute.name, attribute.type)
        _, notes = _strip(kind)
        marks = frozenset(note for note in notes if isinstance(note, Mark))
        node = node_for(kind)
        default: Any = attribute.default
        if not attribute.init or getattr(default, "takes_self", False):
            raise TypeError(
                f"{cls.__name__}.{attribute.name} cannot be read from JSON: give it a default that stands by "
                "itself, and leave it an argument of the constructor"
            )
        required = default is attrs.NOTHING
        if required:
            make: Callable[[], Any] = (
                list  # The required fields that have a default to fall back to are all arrays.
            )
        elif hasattr(default, "factory"):
            make = default.factory
        else:
            make = partial(_same, default)
        fields.append(Field(attribute.name, camel_case(attribute.name), node, required, marks, make))
    return fields


class ObjectNode(Node):
    """A wire class.

    Args:
        cls: The class.
        tag: The tag field and its value, where the class carries one.
        strict_tag: Whether a wrong value in the tag field is still to be refused.
    """

    expected = "an object"

    def __init__(self, cls: type[WireObject], tag: tuple[str, str] | None, strict_tag: bool) -> None:
        self.cls = cls
        self.tag = tag
        self.strict_tag = strict_tag
        self.fields = _fields(cls)
        self.known = frozenset([field.wire for field in self.fields] + ([tag[0]] if tag else []))

    def write(self, source: Source, level: int) -> None:
        if source.is_deep:
            source.line(f"v{level} = {source.bind(self.take)}(v{level})")
            return
        source.depth += 1
        write_object(source, level, self.cls, self.fields, self.tag, self.strict_tag, self._unknown)
        source.depth -= 1

    def _unknown(self, raw: dict[str, Any], path: WirePath) -> dict[str, Any]:
        extra = {key: value for key, value in raw.items() if key not in self.known}
        for key in self.cls.forbidden_fields & extra.keys():
            raise SchemaError((*path, key), "this field may not be here")
        return extra

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        raw: dict[str, Any] = value
        if not isinstance(value, dict):
            raise SchemaError(path, f"expected an object, got {describe(value)}")
        if self.tag is not None and self.strict_tag:
            key, expected = self.tag
            if raw.get(key, expected) != expected:
                raise SchemaError((*path, key), f"expected {expected!r}, got {describe(raw[key])}")
        values = {field.name: field.read(raw, path, report) for field in self.fields}
        try:
            result = self.cls(**values)
        except ValueError as error:
            # Rules over several fields are checked by the classes themselves.
            raise SchemaError(path, str(error)) from None
        result.extra = self._unknown(raw, path) or None
        return result

    def _make_put(self) -> Put:
        # Imported here: 11 ms of each program's start are not spent before there is a message.
        from cattrs.gen import make_dict_unstructure_fn, override

        overrides: dict[str, Any] = {
            field.name: override(
                rename=field.wire,
                unstruct_hook=field.node.put,
                omit_if_default=not field.required and Mark.ALWAYS_SENT not in field.marks,
            )
            for field in self.fields
        }
        overrides["extra"] = override(omit=True)
        generated: Callable[..., dict[str, Any]] = make_dict_unstructure_fn(
            self.cls, _converter(), **overrides
        )
        cls = self.cls
        known = self.known
        fields = self.fields
        tag_key, tag = self.tag or ("", None)

        def put(value: Any) -> Any:
            if not isinstance(value, cls):
                raise self.refuse(value)
            try:
                raw = generated(value)
            except SchemaError as error:
                raise _located_field(error, fields, value) from None
            if tag is not None:
                raw[tag_key] = tag
            extra = value.extra
            if extra:
                for key in extra:
                    if key not in known:
                        raw[key] = extra[key]
            return raw

        return put

    def refuse(self, value: Any) -> SchemaError:
        return SchemaError((), f"expected an instance of {self.cls.__name__}, got {describe(value)}")


class LaterNode(Node):
    """A class within itself, whose node is still being made."""

    expected = "an object"

    def __init__(self, cls: type[WireObject]) -> None:
        self.cls = cls

    def write(self, source: Source, level: int) -> None:
        cls = self.cls

        def take(value: Any) -> Any:
            return object_node(cls).take(value)

        source.line(f"v{level} = {source.bind(take)}(v{level})")

    def _make_put(self) -> Put:
        cls = self.cls
        return lambda value: object_node(cls).put(value)

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        return object_node(self.cls).read(value, path, report)


class _Making(threading.local):
    """The classes whose nodes this thread is making."""

    def __init__(self) -> None:
        self.classes: set[type[WireObject]] = set()


_making = _Making()


class _MemberTakes(dict[Any, Take]):
    """The decoder for each tag of a union, made when it is first asked for."""

    def __init__(self, node: UnionNode) -> None:
        super().__init__()
        self._node = node

    def __missing__(self, tag: Any) -> Take:
        member = self._node.member(tag)
        if member is None:
            # Not kept: peers may send any number of tags.
            return self._node.take_unknown
        take = self[tag] = member.take
        return take


class UnionNode(Node):
    """A union whose members are told apart by a tag, open to members that are not known yet.

    Attributes:
        takes: The decoder of objects with a tag, for each tag that there is.
    """

    def __init__(self, union: OpenUnion) -> None:
        self.union = union
        self.expected = "an object"
        self.takes: Mapping[Any, Take] = _MemberTakes(self)

    def write(self, source: Source, level: int) -> None:
        union = self.union
        value, tag = f"v{level}", f"t{level}"
        found = f"{value}[{union.key!r}]" if union.default is None else f"{value}.get({union.key!r})"
        source.line(f"{tag} = {found}")
        usual = union.usual
        if usual is not None and not source.is_deep:
            with source.block(f"if {tag} == {usual!r}:"):
                object_node(union.members[usual], (union.key, usual)).write(source, level)
            source.line("else:")
            value = f"    {value}"
        source.line(f"{value} = {source.bind(self.takes)}[{tag}](v{level})")

    def _make_put(self) -> Put:
        puts: dict[type[Any], Put] = {}
        find = puts.get

        def put(value: Any) -> Any:
            known = find(value.__class__)
            return put_first(value) if known is None else known(value)

        def put_first(value: Any) -> Any:
            cls: type[Any] = value.__class__
            found = self._put_of(cls)
            if found is None:
                raise self.refuse(value)
            puts[cls] = found
            return found(value)

        return put

    def take_unknown(self, value: Any) -> Any:
        """Decode an object whose tag is not known."""
        tag = value.get(self.union.key)
        if tag.__class__ is not str or value.__class__ is not dict or self.union.unknown_as_default:
            raise Misfit
        return UnknownVariant(tag, value)

    def _put_of(self, cls: type[Any]) -> Put | None:
        """The encoder for an instance of a member, or of a subclass of one."""
        default = self.union.default
        for base in cls.__mro__:
            if base is UnknownVariant:
                return _put_unknown
            if default is not None and base is default:
                return object_node(default).put
            for tag, member in self.union.members.items():
                if base is member:
                    return object_node(member, (self.union.key, tag)).put
        return None

    def refuse(self, value: Any) -> SchemaError:
        return SchemaError((), f"expected a member of {self.union.name}, got {describe(value)}")

    def member(self, tag: Any) -> ObjectNode | None:
        """The node of the member that a tag means, if it is known. No tag is None."""
        union = self.union
        if tag is None or tag in union.default_tags:
            return object_node(union.default) if union.default is not None else None
        cls = union.members.get(tag)
        return object_node(cls, (union.key, tag)) if cls is not None else None

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        raw: dict[str, Any] = value
        if not isinstance(value, dict):
            raise SchemaError(path, f"expected an object, got {describe(value)}")
        key = self.union.key
        tag = raw.get(key)
        if tag is not None and not isinstance(tag, str):
            raise SchemaError((*path, key), f"expected a string, got {describe(tag)}")
        node = self.member(tag)
        if node is not None:
            return node.read(raw, path, report)
        if tag is None:
            raise SchemaError((*path, key), MISSING)
        if self.union.unknown_as_default and self.union.default is not None:
            try:
                return attempt(object_node(self.union.default), raw, path, report)
            except SchemaError:
                pass
        return UnknownVariant(tag, raw)


def _put_unknown(value: UnknownVariant) -> dict[str, Any]:
    return dict(value.payload)


def _located_field(error: SchemaError, fields: list[Field], value: WireObject) -> SchemaError:
    failures = (failure(field.node.put, field.wire, getattr(value, field.name)) for field in fields)
    return next(filter(None, failures), error)


def _same(value: Any) -> Any:
    return value


def self_tag(cls: type[WireObject]) -> tuple[str, str] | None:
    """The tag field and value that a class carries wherever it occurs, if it has one."""
    for union in open_unions().values():
        for tag, member in union.members.items():
            if member is cls and cls not in union.bare:
                return union.key, tag
    version = getattr(cls, "jsonrpc", None)
    return None if version is None else ("jsonrpc", version)


def object_node(cls: type[WireObject], tag: tuple[str, str] | None = None) -> ObjectNode:
    """The node of a class: as a member of a union if a tag is given, else on its own."""
    key = (cls, tag)
    node = _nodes.get(key)
    if node is None:
        node = (
            ObjectNode(cls, self_tag(cls), strict_tag=True)
            if tag is None
            else ObjectNode(cls, tag, strict_tag=False)
        )
        node = _nodes.setdefault(key, node)
    return cast(ObjectNode, node)


def _strip(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its annotations, and these."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        return inner, tuple(notes)
    return kind, ()


def node_for(kind: Any) -> Node:
    """The node of any type that occurs in the schema.

    Raises:
        TypeError: The type is no wire type.
    """
    node = _nodes.get(kind)
    if node is None:
        node = _make_node(*_strip(kind))
        if not isinstance(node, LaterNode):
            # Two threads may make the same node: one of the two is kept, and the other does no harm.
            node = _nodes.setdefault(kind, node)
    return node


def _make_node(kind: Any, notes: tuple[Any, ...]) -> Node:
    bound = next((note for note in notes if isinstance(note, IntRange | MinLength)), None)
    leaf = leaf_for(kind, bound)
    if leaf is not None:
        return leaf
    origin = get_origin(kind)
    skip = Mark.SKIP_INVALID_ITEMS in notes
    if origin in (Union, types.UnionType):
        return _union_node(kind, skip)
    if origin is list:
        return ListNode(node_for(get_args(kind)[0]), skip)
    if origin is dict:
        item = get_args(kind)[1]
        return MapNode(node_for(item))
    if isinstance(kind, type) and issubclass(kind, WireObject):
        if kind in _making.classes:
            return LaterNode(kind)
        _making.classes.add(kind)
        try:
            return object_node(kind)
        finally:
            _making.classes.discard(kind)
    raise TypeError(f"{kind!r} is no type of the protocol")


def _union_node(kind: Any, skip: bool) -> Node:
    members = [member for member in get_args(kind) if member is not Unset]
    union = open_unions().get(frozenset(members) - {types.NoneType})
    optional = types.NoneType in members
    members = [member for member in members if member is not types.NoneType]
    enums = [member for member in members if isinstance(member, type) and issubclass(member, enum.Enum)]
    if union is not None:
        node: Node = UnionNode(union)
    elif enums:
        (base,) = (member for member in members if member is not enums[0])
        node = EnumNode(enums[0], node_for(base))
    elif len(members) == 1:
        node = _make_node(*((members[0], (Mark.SKIP_INVALID_ITEMS,)) if skip else _strip(members[0])))
    else:
        node = ChoiceNode([node_for(member) for member in members])
    return OptionalNode(node) if optional else node

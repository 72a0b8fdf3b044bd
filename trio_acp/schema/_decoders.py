"""How the decoding of an object is written down: its fields, their defaults, and what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import attrs

from ._errors import WirePath
from ._source import Source

if TYPE_CHECKING:
    from ._nodes import Field

__all__ = ["write_object"]


def write_object(
    source: Source,
    level: int,
    cls: type[Any],
    fields: Sequence[Field],
    tag: tuple[str, str] | None,
    strict_tag: bool,
    unknown_of: Callable[[dict[str, Any], WirePath], Any],
) -> None:
    """Write the decoding of objects that are exactly right; for all others it raises any exception.

    Args:
        source: where to write it.
        level: the level of nesting at which the object stands.
        cls: the class of the objects.
        fields: its fields.
        tag: the wire name of the tag beside them and its value, where the class carries one.
        strict_tag: whether the tag may be left out, and is to be checked; else it is known to be right.
        unknown_of: returns the fields of an object that the class does not have.
    """
    raw, made, seen = f"v{level}", f"r{level}", f"n{level}"
    # A call of the constructor takes more than twice as many instructions as filling the slots.
    plain = _is_plain(cls)
    dot = "." if plain else "_"
    of_class = attrs.fields_dict(cls)

    def take(field: Field) -> None:
        source.line(f"v{level + 1} = {raw}[{field.wire!r}]")
        field.node.write(source, level + 1)
        source.line(f"{made}{dot}{field.name} = v{level + 1}")

    def take_if_there(field: Field) -> None:
        with source.block(f"if {field.wire!r} in {raw}:"):
            take(field)
            source.line(f"{seen} += 1")

    def leave_out(field: Field) -> None:
        source.line(f"{made}{dot}{field.name} = {_default(source, of_class[field.name].default)}")

    source.line(f"if {raw}.__class__ is not dict: raise Misfit")
    if plain:
        source.line(f"{made} = new({source.bind(cls)})")
    required = [field for field in fields if field.required]
    for field in required:
        take(field)
    known = len(required) if tag is None or strict_tag else len(required) + 1
    # How many fields there are if nothing is there that may be left out.
    least = str(known)
    if tag is not None and strict_tag:
        least = seen
        source.line(f"{seen} = {known}")
        with source.block(f"if {tag[0]!r} in {raw}:"):
            source.line(f"if {raw}[{tag[0]!r}] != {tag[1]!r}: raise Misfit")
            source.line(f"{seen} += 1")
    source.line(f"{made}{dot}meta = {made}{dot}extra = None")
    (meta,) = (field for field in fields if field.name == "meta")
    optional = [field for field in fields if not field.required and field is not meta]
    # Most objects have nothing but their required fields: one look at the length tells.
    with source.block(f"if len({raw}) != {least}:"):
        if least != seen:
            source.line(f"{seen} = {least}")
        for field in optional:
            take_if_there(field)
            with source.block("else:"):
                leave_out(field)
        # The length tells of the rest, too.
        with source.block(f"if len({raw}) != {seen}:") if optional else nullcontext():
            take_if_there(meta)
            with source.block(f"if len({raw}) != {seen}:"):
                source.line(f"{made}{dot}extra = {source.bind(unknown_of)}({raw}, ())")
    if optional:
        with source.block("else:"):
            for field in optional:
                leave_out(field)
    if not plain:
        given = ", ".join(f"{of_class[field.name].alias}={made}_{field.name}" for field in fields)
        source.line(f"{made} = {source.bind(cls)}({given})")
        source.line(f"{made}.extra = {made}_extra")
    source.line(f"{raw} = {made}")


def _is_plain(cls: Any) -> bool:
    """Whether making an instance is nothing but setting its attributes."""
    code = getattr(cls.__init__, "__code__", None)
    fields = attrs.fields_dict(cls)
    return (
        getattr(code, "co_filename", "").startswith("<attrs generated")
        # It may set more than the fields, such as the place where a hash is kept.
        and all(
            name in fields or name == "NOTHING" or name.startswith("__attr_factory_")
            for name in cls.__init__.__code__.co_names
        )
        and not hasattr(cls, "__attrs_pre_init__")
        and not hasattr(cls, "__attrs_post_init__")
        and cls.__new__ is object.__new__
        # attrs writes one of its own where values are validated, converted or frozen.
        and cls.__setattr__ is object.__setattr__
        and all(each.validator is None and each.converter is None for each in attrs.fields(cls))
    )


def _default(source: Source, default: Any) -> str:
    """Return an expression for what a field holds if it is left out."""
    if default is None:
        return "None"
    factory = getattr(default, "factory", None)
    if factory is None:
        return source.bind(default)
    if factory is list:
        return "[]"
    return f"{source.bind(factory)}()"

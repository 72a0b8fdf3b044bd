"""The decoders of wire classes, written as Python source for each class and compiled.

What a general decoder would look up for each field of each object is in the source: the checks of scalars are
written out, and the constructor is called with positions. A permission request with its eight objects takes
4.7 us instead of 6.4, an update with a diff 1.8 instead of 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from ._containers import OptionalNode
from ._errors import WirePath
from ._leaves import ANY, EnumNode, Misfit, Node, Take, take_str

if TYPE_CHECKING:
    from ._nodes import Field

__all__ = ["make_decoder"]

HEAD: Final = """\
def take(o, _=None):
    if o.__class__ is not dict: raise Misfit
    n = {required}
"""

TAIL: Final = """\
    result = cls({arguments})
    if len(o) != n: result.extra = unknown_of(o, ())
    return result
"""


def make_decoder(
    cls: type[Any],
    fields: Sequence[Field],
    tag_key: str | None,
    unknown_of: Callable[[dict[str, Any], WirePath], Any],
) -> Take:
    """Return the decoder of objects that are exactly right; for all others it raises any exception.

    Args:
        cls: the class of the objects.
        fields: its fields.
        tag_key: the wire name of the tag that may stand beside them.
        unknown_of: returns the fields of an object that the class does not have.
    """
    scope: dict[str, Any] = {"Misfit": Misfit, "cls": cls, "unknown_of": unknown_of}
    lines = [HEAD.format(required=sum(field.required for field in fields))]
    if tag_key is not None:
        lines.append(f"    if {tag_key!r} in o: n += 1\n")
    of_class = {attribute.name: attribute for attribute in attrs.fields(cls)}
    positions: list[str] = []
    keywords: list[str] = []
    for number, field in enumerate(fields):
        name = f"v{number}"
        if field.required:
            lines.append(f"    {name} = o[{field.wire!r}]\n")
            lines += _checked(field.node, name, scope, "    ")
        else:
            scope[f"default_{name}"] = field.default
            default = "None" if of_class[field.name].default is None else f"default_{name}()"
            lines.append(f"    if {field.wire!r} in o:\n        n += 1\n        {name} = o[{field.wire!r}]\n")
            lines += _checked(field.node, name, scope, "        ")
            lines.append(f"    else: {name} = {default}\n")
        attribute = of_class[field.name]
        if attribute.kw_only:
            keywords.append(f"{attribute.alias}={name}")
        else:
            positions.append(name)
    lines.append(TAIL.format(arguments=", ".join([*positions, *keywords])))
    # Nothing in the source is a peer's: names of attributes and wire names of this package, quoted.
    exec(compile("".join(lines), f"<decoder of {cls.__name__}>", "exec"), scope)
    decoder: Take = scope["take"]
    return decoder


def _checked(node: Node, name: str, scope: dict[str, Any], indent: str) -> list[str]:
    """Return the lines that check and decode what is in a variable."""
    if node is ANY:
        return []
    unless_none = ""
    if isinstance(node, OptionalNode):
        unless_none = f"{name} is not None and "
        node = node.inner
    if node.take is take_str:
        return [f"{indent}if {unless_none}{name}.__class__ is not str: raise Misfit\n"]
    if isinstance(node, EnumNode) and node.base.take is take_str:
        # None is no member, and comes out as itself.
        scope[f"find_{name}"] = node.find
        return [
            f"{indent}if {unless_none}{name}.__class__ is not str: raise Misfit\n",
            f"{indent}{name} = find_{name}({name}, {name})\n",
        ]
    scope[f"take_{name}"] = node.take
    condition = f"if {unless_none[:-5]}: " if unless_none else ""
    return [f"{indent}{condition}{name} = take_{name}({name})\n"]

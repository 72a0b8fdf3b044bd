"""Whatever the schema allows is decoded, and what is encoded again is the same and allowed (W7, W8)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trio_acp.schema as acp
from tests.schema._from_schema import DEFINITIONS, definition, needs_schema
from trio_acp.schema._base import WireObject, open_unions
from trio_acp.schema._nodes import node_for

jsonschema = pytest.importorskip("jsonschema")

pytestmark = needs_schema

UNIONS = {union.name: union for union in open_unions().values()}

TAGGED = {
    member.__name__
    for union in UNIONS.values()
    for member in union.members.values()
    if member not in union.bare
}
"""Classes that always carry a tag, which their own definitions do not know: tested as union members."""


def is_whole(name: str) -> bool:
    """Whether a definition is a message or a value of its own, and no scalar and no part of one."""
    kind = getattr(acp, name, None)
    return name in UNIONS or (isinstance(kind, type) and issubclass(kind, WireObject) and name not in TAGGED)


WHOLE = [name for name in DEFINITIONS if is_whole(name)]

OPAQUE = {"_meta", "rawInput", "rawOutput", "data", "params", "result"}
"""Fields whose values are any JSON."""


def is_trivial(value: Any) -> bool:
    """Whether a value is one that fields are left out for: a default, or made of defaults only."""
    if isinstance(value, dict):
        return all(is_trivial(each) for each in value.values())
    return value in (None, False, [], "other", "pending", "object")


def assert_same(sent: Any, again: Any, path: str = "$") -> None:
    """Equal, but for fields that hold their default on one side and are left out on the other."""
    if isinstance(sent, dict) and isinstance(again, dict):
        for key in (sent.keys() | again.keys()) - {"jsonrpc"}:
            where = f"{path}.{key}"
            if key in sent and key in again:
                if key in OPAQUE or key.startswith("zz"):
                    assert again[key] == sent[key], where
                else:
                    assert_same(sent[key], again[key], where)
            else:
                assert key in OPAQUE or not key.startswith("zz"), where
                left = sent.get(key, again.get(key))
                assert left is None if key in OPAQUE else is_trivial(left), where
    elif isinstance(sent, list) and isinstance(again, list):
        assert len(sent) == len(again), path
        for index, pair in enumerate(zip(sent, again, strict=True)):
            assert_same(*pair, f"{path}[{index}]")
    else:
        assert type(sent) is type(again), path
        assert sent == again, path


def is_integer(_: Any, value: Any) -> bool:
    """JSON Schema calls 1.0 an integer; this package and the protocol's reference implementation do not."""
    return isinstance(value, int) and not isinstance(value, bool)


def opened(node: Any) -> Any:
    """The schema with its closed enums opened: unknown values are kept, not refused (W8)."""
    if isinstance(node, list):
        return [opened(part) for part in node]
    if not isinstance(node, dict):
        return node
    parts = node.get("oneOf")
    if isinstance(parts, list) and all(part.get("type") == "string" for part in parts):
        return {"type": "string"}
    return {key: opened(part) for key, part in node.items()}


@functools.cache
def validator(name: str, open_enums: bool = False) -> Any:
    base = jsonschema.Draft202012Validator
    strict = jsonschema.validators.extend(
        base, type_checker=base.TYPE_CHECKER.redefine("integer", is_integer)
    )
    definitions = opened(DEFINITIONS) if open_enums else DEFINITIONS
    return strict({"$ref": f"#/$defs/{name}", "$defs": definitions})


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_the_schema_allows_survives_decoding_and_encoding(name: str, data: st.DataObject) -> None:
    sent = data.draw(definition(name))
    as_type = getattr(acp, name)
    report: list[acp.Leniency] = []

    value = acp.structure(as_type, sent, report)
    again = acp.unstructure(value, as_type)

    assert report == [], "nothing that is allowed needs leniency"
    assert_same(sent, again)
    validator(name).validate(again)
    assert acp.structure(as_type, again) == value
    # The fast and the slow way of decoding are the same way.
    assert node_for(as_type).read(sent, (), None) == value


any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def damaged(draw: st.DrawFn, name: str) -> Any:
    """A message that the schema allows, with one value in it replaced by anything, or left out."""
    message = draw(definition(name))
    place = message
    holder: Any = None
    step: Any = None
    for _ in range(draw(st.integers(1, 6))):
        if not place or not isinstance(place, dict | list):
            break
        steps = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        holder, step = place, draw(st.sampled_from(steps))
        place = place[step]
    if holder is None:
        return draw(any_value)
    if draw(st.booleans()):
        holder[step] = draw(any_value)
    else:
        del holder[step]
    return message


def parts(value: Any) -> Iterator[Any]:
    """A value, and all wire objects in it."""
    yield value
    inner: list[Any] = []
    if isinstance(value, WireObject):
        inner = [getattr(value, attribute.name) for attribute in attrs.fields(type(value))]
    elif isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = list(value.values())
    for each in inner:
        yield from parts(each)


@pytest.mark.parametrize("direction", ["params", "result"])
@given(data=st.data())
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_wrong_is_refused_or_put_right_and_then_allowed(direction: str, data: st.DataObject) -> None:
    names = [name for name in WHOLE if name.endswith("Response") == (direction == "result")]
    name = data.draw(st.sampled_from([name for name in names if "x-method" in DEFINITIONS[name]]))
    message = data.draw(damaged(name))
    as_type = getattr(acp, name)
    report: list[acp.Leniency] = []
    allowed = validator(name, open_enums=True).is_valid(message)
    try:
        value = acp.structure(as_type, message, report)
    except acp.SchemaError:
        if allowed:
            raise
        return
    again = acp.unstructure(value, as_type)
    silent: list[acp.Leniency] = []
    assert acp.structure(as_type, again, silent) == value
    assert silent == []
    if not any(isinstance(part, acp.UnknownVariant) for part in parts(value)):
        validator(name, open_enums=True).validate(again)
        assert report or allowed

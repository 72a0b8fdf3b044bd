"""The classes are what the published schema says, definition by definition, field by field, mark by mark."""

from __future__ import annotations

import enum
from typing import Any

import attrs
import pytest

import trio_acp.schema as acp
from tests.schema._from_schema import BOUNDS, DEFINITIONS, Json, needs_schema, reference
from trio_acp.schema._base import Mark, WireObject, camel_case, open_unions
from trio_acp.schema._containers import ChoiceNode, ListNode, MapNode, OptionalNode
from trio_acp.schema._leaves import EnumNode, Node
from trio_acp.schema._nodes import Field, ObjectNode, UnionNode, node_for, object_node

pytestmark = needs_schema

FLATTENED = {
    "ElicitationFormMode": acp.CreateElicitationFormRequest,
    "ElicitationUrlMode": acp.CreateElicitationUrlRequest,
}
"""Definitions that are only ever a part of another one; their fields are those of these classes."""

CALLS = {"AgentRequest", "ClientRequest", "AgentNotification", "ClientNotification"}
"""What params are depends on the method, which the schema does not say in these: there they are any JSON."""

ANSWERS = {"AgentResponse", "ClientResponse"}

MARKS = {
    "x-deserialize-default-on-error": Mark.DEFAULT_ON_ERROR,
    "x-deserialize-skip-invalid-items": Mark.SKIP_INVALID_ITEMS,
    "x-deserialize-default-on-null": Mark.DEFAULT_ON_NULL,
}

EXPLICIT_DEFAULTS: dict[tuple[str, str], Any] = {
    # The protocol's pages name these defaults; the schema's keywords do not.
    ("ToolCall", "kind"): "other",
    ("ToolCall", "status"): "pending",
}

UNIONS = {union.name: union for union in open_unions().values()}


PARTS = {
    member.__name__
    for union in UNIONS.values()
    for member in union.members.values()
    if DEFINITIONS.get(union.name, {}).get("properties")
}
"""Members of unions that have fields of their own: their definitions say less than the union does of them."""


def definitions(test: Any) -> list[Any]:
    return [pytest.param(name, id=name) for name, node in DEFINITIONS.items() if test(name, node)]


def is_union(name: str, _: Json) -> bool:
    return name in UNIONS


def is_object(name: str, node: Json) -> bool:
    return node.get("type") == "object" and name not in UNIONS and name not in FLATTENED


def has_constants(_: str, node: Json) -> bool:
    return any("const" in part for part in [*node.get("oneOf", []), *node.get("anyOf", [])])


# --- The same words for both sides --------------------------------------------------------------------


def shape_of_definition(name: str) -> str:
    node = DEFINITIONS[name]
    if has_constants(name, node):
        return f"enum {name}"
    if is_union(name, node):
        return f"union {name}"
    if is_object(name, node):
        return f"object {name}"
    return shape_in_schema(node)


def shape_in_schema(node: Json) -> str:
    name = reference(node)
    if name is not None:
        return shape_of_definition(name)
    if "allOf" in node:
        return shape_in_schema(node["allOf"][0])
    if "anyOf" in node:
        return choice([shape_in_schema(part) for part in node["anyOf"]])
    kind = node.get("type")
    if isinstance(kind, list):
        return choice([shape_in_schema({**node, "type": each}) for each in kind])
    match kind:
        case "null":
            return "null"
        case "string" if "minLength" in node:
            return f"a string of at least {node['minLength']} character"
        case "string":
            return "a string"
        case "boolean":
            return "true or false"
        case "number":
            return "a number"
        case "integer":
            low, high = BOUNDS[node["format"]]
            assert node.get("minimum", low) == low
            assert node.get("maximum", high) == high
            return f"an integer from {low} to {high}"
        case "array":
            return f"array of ({shape_in_schema(node['items'])})"
        case "object":
            values = node["additionalProperties"]
            return "an object" if values is True else f"map to ({shape_in_schema(values)})"
        case _:
            return "any JSON"


def shape_of_node(node: Node) -> str:
    match node:
        case OptionalNode():
            inner = node.inner.choices if isinstance(node.inner, ChoiceNode) else [node.inner]
            return choice([*map(shape_of_node, inner), "null"])
        case ListNode():
            return f"array of ({shape_of_node(node.item)})"
        case MapNode():
            return f"map to ({shape_of_node(node.item)})"
        case ChoiceNode():
            return choice([shape_of_node(each) for each in node.choices])
        case EnumNode():
            return f"enum {node.kind.__name__}"
        case ObjectNode():
            return f"object {node.cls.__name__}"
        case UnionNode():
            return f"union {node.union.name}"
        case _:
            return node.expected


def choice(shapes: list[str]) -> str:
    return " | ".join(sorted(shapes))


# --- Objects ------------------------------------------------------------------------------------------


def assert_same_fields(cls: type[WireObject], properties: Json, required: set[str]) -> None:
    fields = {field.wire: field for field in object_node(cls).fields}
    assert fields.keys() - {"_meta"} == properties.keys() - {"_meta"}
    for wire, node in properties.items():
        assert_same_field(cls.__name__, fields[wire], node, wire in required)


def assert_same_field(owner: str, field: Field, node: Json, required: bool) -> None:
    where = f"{owner}.{field.wire}"
    assert shape_of_node(field.node) == shape_in_schema(node), where
    assert field.required == required, where
    marks = {mark for key, mark in MARKS.items() if node.get(key)}
    assert field.marks - {Mark.ALWAYS_SENT} == marks, where
    skips = field.node.inner if isinstance(field.node, OptionalNode) else field.node
    assert (Mark.SKIP_INVALID_ITEMS in marks) == (isinstance(skips, ListNode) and skips.skip_invalid), where
    if required:
        # What a required field falls back to is an empty array, so it must be one.
        assert not marks or isinstance(field.node, ListNode), where
        return
    default = field.default()
    if (owner, field.wire) in EXPLICIT_DEFAULTS:
        assert default == EXPLICIT_DEFAULTS[owner, field.wire], where
    elif "default" in node:
        assert field.node.read(node["default"], (), None) == default, where
    elif default is acp.UNSET:
        assert "null" in shape_in_schema(node).split(" | "), where
    elif default is None:
        assert shape_in_schema(node) == "any JSON" or "null" in shape_in_schema(node).split(" | "), where
    else:
        assert default in ([], {}), where


@pytest.mark.parametrize(
    "name", definitions(lambda name, node: is_object(name, node) and name not in CALLS | PARTS)
)
def test_every_object_has_the_fields_of_its_definition(name: str) -> None:
    cls = getattr(acp, name)
    assert cls.__name__ == name
    node = DEFINITIONS[name]
    assert_same_fields(cls, node.get("properties", {}), set(node.get("required", ())))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_call_envelope_has_the_fields_of_its_definition(name: str) -> None:
    fields = {field.wire: field for field in object_node(getattr(acp, name)).fields if field.wire != "_meta"}
    node = DEFINITIONS[name]
    assert fields.keys() == node["properties"].keys()
    assert {wire for wire, field in fields.items() if field.required} == set(node["required"])
    for wire in fields.keys() - {"params"}:
        assert_same_field(name, fields[wire], node["properties"][wire], wire in node["required"])


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_every_answer_envelope_has_the_fields_of_its_definition(name: str) -> None:
    assert getattr(acp, name) == acp.ResultResponse | acp.ErrorResponse
    result, error = DEFINITIONS[name]["anyOf"]
    properties = {**result["properties"], "result": {}}
    assert_same_fields(acp.ResultResponse, properties, set(result["required"]))
    assert_same_fields(acp.ErrorResponse, error["properties"], set(error["required"]))


def test_every_class_is_a_definition_or_a_member_of_a_union() -> None:
    ours = {name for name, cls in vars(acp).items() if isinstance(cls, type) and issubclass(cls, WireObject)}
    members = {member.__name__ for union in UNIONS.values() for member in union.members.values()}
    members |= {union.default.__name__ for union in UNIONS.values() if union.default}
    assert ours - DEFINITIONS.keys() - members == {"WireObject", "ResultResponse", "ErrorResponse"}


# --- Unions -------------------------------------------------------------------------------------------


def flattened(node: Json) -> tuple[Json, set[str], Json]:
    """Fields and required fields of a union's variant, and the fields of which it has one of several sets."""
    properties: Json = dict(node.get("properties", {}))
    required = set(node.get("required", ()))
    scopes: Json = {}
    for part in node.get("allOf", ()):
        name = reference(part)
        assert name is not None
        inner = flattened(DEFINITIONS[name])
        properties |= inner[0]
        required |= inner[1]
        scopes |= inner[2]
    for part in node.get("anyOf", ()):
        name = reference(part)
        assert name is not None
        scopes |= DEFINITIONS[name]["properties"]
    return properties, required, scopes


@pytest.mark.parametrize("name", definitions(is_union))
def test_every_union_has_the_tags_and_fields_of_its_definition(name: str) -> None:
    node = DEFINITIONS[name]
    union = UNIONS[name]
    base = dict(node.get("properties", {}))
    base_required = set(node.get("required", ()))
    tags: set[str] = set()
    for variant in node.get("oneOf", ()) or node["anyOf"]:
        if variant.get("title") == "other":
            continue
        properties, required, scopes = flattened(variant)
        properties = base | properties
        required |= base_required
        constant = properties.get(union.key, {}).get("const")
        if constant is None:
            cls = union.default
            assert cls is not None
        else:
            tags.add(constant)
            cls = union.members[constant]
            del properties[union.key]
            required.discard(union.key)
        if scopes:
            # One of the scopes has to be there; the class checks that itself (see test_decoding).
            assert scopes.keys() == {"sessionId", "toolCallId", "requestId"}
            scopes["sessionId"] = {"anyOf": [scopes["sessionId"], {"type": "null"}]}
        assert_same_fields(cls, properties | scopes, required)
    assert union.members.keys() == tags
    assert getattr(acp, name) is not None


def test_tag_fields_that_the_schema_names_are_ours() -> None:
    named = {
        name: node["discriminator"]["propertyName"]
        for name, node in DEFINITIONS.items()
        if "discriminator" in node
    }
    assert named
    assert {name: UNIONS[name].key for name in named} == named


# --- The rest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", definitions(has_constants))
def test_every_enum_has_the_values_of_its_definition(name: str) -> None:
    node = DEFINITIONS[name]
    values = {part["const"] for part in [*node.get("oneOf", []), *node.get("anyOf", [])] if "const" in part}
    cls = getattr(acp, name)
    assert issubclass(cls, enum.Enum)
    assert {member.value for member in cls} == values


@pytest.mark.parametrize(
    "name",
    definitions(
        lambda name, node: (
            not (
                is_object(name, node)
                or is_union(name, node)
                or has_constants(name, node)
                or name in FLATTENED
            )
        )
    ),
)
def test_every_other_definition_is_an_alias_of_the_same_shape(name: str) -> None:
    if name in ANSWERS:
        assert shape_of_node(node_for(getattr(acp, name))) == "object ErrorResponse | object ResultResponse"
    else:
        assert shape_of_node(node_for(getattr(acp, name))) == shape_in_schema(DEFINITIONS[name])


def test_no_definition_is_left_out() -> None:
    assert len(DEFINITIONS) > 100
    assert [name for name in DEFINITIONS if name not in FLATTENED and not hasattr(acp, name)] == []


def test_every_method_is_in_the_tables_with_its_types() -> None:
    expected: dict[tuple[str, str], dict[str, Any]] = {}
    for name, node in DEFINITIONS.items():
        if "x-method" in node:
            entry = expected.setdefault((node["x-side"], node["x-method"]), {"result": None})
            if name.endswith("Response"):
                entry["result"] = getattr(acp, name)
            else:
                entry["params"] = getattr(acp, name)
                entry["kind"] = "request" if name.endswith("Request") else "notification"
    assert len(expected) > 20
    ours = {
        (info.side, info.method): {"result": info.result, "params": info.params, "kind": info.kind}
        for info in acp.METHODS.values()
    }
    assert ours == expected


def test_attribute_names_are_the_wire_names_in_snake_case() -> None:
    for name, cls in vars(acp).items():
        if isinstance(cls, type) and issubclass(cls, WireObject):
            for attribute in attrs.fields(cls):
                wire = camel_case(attribute.name)
                if attribute.name not in ("meta", "extra"):
                    expected = "".join(f"_{c.lower()}" if c.isupper() else c for c in wire)
                    assert attribute.name == expected, name

"""The published JSON schema, where it is at hand, and Hypothesis strategies for what it allows."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import string
from typing import Any

import pytest
from hypothesis import strategies as st

Json = dict[str, Any]

_ROOT = pathlib.Path(__file__).parents[2]
_DIRECTORY = pathlib.Path(os.environ.get("TRIO_ACP_SCHEMA_DIR", _ROOT.parent / "shared" / "schema"))
_FILE = _DIRECTORY / "v1" / "schema.json"

DOCUMENT: Json = json.loads(_FILE.read_text(encoding="utf-8")) if _FILE.is_file() else {}
DEFINITIONS: dict[str, Json] = DOCUMENT.get("$defs", {})

needs_schema = pytest.mark.skipif(
    not DEFINITIONS, reason=f"the protocol's JSON schema is not at {_FILE}; set TRIO_ACP_SCHEMA_DIR"
)


def reference(node: Json) -> str | None:
    """The name of the definition that a node stands for, if it does nothing else."""
    while set(node) & {"allOf"} and not set(node) & {"type", "properties", "anyOf", "oneOf"}:
        (node,) = node["allOf"]
    return node["$ref"].rpartition("/")[2] if "$ref" in node else None


BOUNDS = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

_text = st.text(alphabet=string.ascii_letters + string.digits + " /äß漢😀", max_size=8)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, width=32)
    | _text
)
_numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
any_json: st.SearchStrategy[Any] = st.recursive(
    _scalars.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_text, inner, max_size=2),
    max_leaves=4,
)
free_objects = st.dictionaries(_text, any_json, max_size=2)
unknown_fields = st.dictionaries(_text.map(lambda name: f"zz{name}"), any_json, max_size=1)


@functools.cache
def definition(name: str) -> st.SearchStrategy[Any]:
    """Everything that a definition allows, unknown fields and open variants included."""
    return st.deferred(lambda: _values(DEFINITIONS[name]))


def _values(node: Json) -> st.SearchStrategy[Any]:
    if "const" in node:
        return st.just(node["const"])
    if "properties" in node:
        return _objects(node)
    if "$ref" in node:
        return definition(node["$ref"].rpartition("/")[2])
    if "allOf" in node:
        (part,) = node["allOf"]
        return _values(part)
    for key in ("anyOf", "oneOf"):
        if key in node:
            return st.one_of([_values(part) for part in node[key]])
    kinds = node.get("type", "any")
    if isinstance(kinds, list):
        return st.one_of([_values({**node, "type": kind}) for kind in kinds])
    return _of_type(kinds, node)


def _of_type(kind: str, node: Json) -> st.SearchStrategy[Any]:
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "string":
            return _text.filter(lambda text: len(text) >= node.get("minLength", 0))
        case "integer":
            low, high = BOUNDS[node["format"]]
            return st.integers(max(low, node.get("minimum", low)), min(high, node.get("maximum", high)))
        case "number":
            return _numbers
        case "array":
            return st.lists(_values(node["items"]), max_size=2)
        case "object":
            values = node.get("additionalProperties", True)
            if values is True:
                return free_objects
            return st.dictionaries(_text, _values(values), max_size=2)
        case _:
            return any_json


@st.composite
def _objects(draw: st.DrawFn, node: Json) -> Json:
    result: Json = {}
    for part in node.get("allOf", []):
        result.update(draw(_values(part)))
    for key in ("anyOf", "oneOf"):
        if key in node:
            result.update(draw(st.one_of([_values(part) for part in node[key]])))
    if node.get("title") == "other":
        # An open variant: any tag but the known ones, and whatever fields there may be.
        known = _constants(node["not"])
        (tag,) = node["properties"]
        result[tag] = draw(_text.filter(lambda text: text not in known))
        result.update(draw(unknown_fields))
        return result
    for name, part in node.get("properties", {}).items():
        if name in node.get("required", ()) or draw(st.booleans()):
            result[name] = draw(_values(part))
    result.update(draw(unknown_fields))
    return result


def _constants(node: Json) -> set[str]:
    return {part["properties"][name]["const"] for part in node["anyOf"] for name in part["properties"]}

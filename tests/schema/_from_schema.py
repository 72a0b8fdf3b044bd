"""The published JSON schema, where it is at hand, and Hypothesis strategies for what it allows."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import strategies as st

Json = dict[str, Any]

_ROOT = pathlib.Path(__file__).parents[2]
_DIRECTORY = pathlib.Path(os.environ.get("TRIO_ACP_SCHEMA_DIR", _ROOT.parent / "shared" / "schema"))
_FILE = _DIRECTORY / "v1" / "schema.json"

DOCUMENT: Json = json.loads(_FILE.read_text(encoding="utf-8")) if _FILE.is_file() else {}
DEFINITIONS: dict[str, Json] = DOCUMENT.get("$defs", {})

needs_schema = pytest.mark.skipif(
    not DEFINITIONS, reason="the protocol's JSON schema is not at hand; set TRIO_ACP_SCHEMA_DIR"
)

BOUNDS = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def reference(node: Json) -> str | None:
    """The name of the definition that a node stands for, if it does nothing else."""
    while "allOf" in node and not node.keys() & {"type", "properties", "anyOf", "oneOf"}:
        (node,) = node["allOf"]
    return node["$ref"].rpartition("/")[2] if "$ref" in node else None


text = st.text(alphabet=string.ascii_letters + string.digits + " /äß漢😀", max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)


def json_values(nulls: bool) -> st.SearchStrategy[Any]:
    """Any JSON, with or without null in it."""
    scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | text
    return st.recursive(
        scalars | st.none() if nulls else scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
        max_leaves=4,
    )


class Payloads:
    """What the schema allows.

    Args:
        open_ended: Whether to make null, unknown fields and unknown members of open unions, too.
        without: Fields (definition and name) and tags (union and value) to leave out.
    """

    def __init__(self, open_ended: bool = True, without: frozenset[tuple[str, str]] = frozenset()) -> None:
        self.open_ended = open_ended
        self.without = without
        self.any_json = json_values(nulls=open_ended)
        self.free_objects = st.dictionaries(text, self.any_json, max_size=2)
        self.unknown_fields = st.dictionaries(
            text.map(lambda name: f"zz{name}"), self.any_json, max_size=1 if open_ended else 0
        )
        self.definition = functools.cache(self._definition)

    def _definition(self, name: str) -> st.SearchStrategy[Any]:
        """Everything that a definition allows."""
        return st.deferred(lambda: self._values(DEFINITIONS[name], name))

    def _values(self, node: Json, owner: str) -> st.SearchStrategy[Any]:
        if "const" in node:
            return st.just(node["const"])
        if "properties" in node:
            return self._objects(node, owner)
        if "$ref" in node:
            return self.definition(node["$ref"].rpartition("/")[2])
        if "allOf" in node:
            (part,) = node["allOf"]
            return self._values(part, owner)
        for key in ("anyOf", "oneOf"):
            if key in node:
                return self._one_of(node[key], owner)
        kinds = node.get("type", "any")
        if isinstance(kinds, list):
            return self._one_of([{**node, "type": kind} for kind in kinds], owner)
        return self._of_type(kinds, node, owner)

    def _one_of(self, parts: list[Json], owner: str) -> st.SearchStrategy[Any]:
        return st.one_of([self._values(part, owner) for part in parts if self._is_wanted(part, owner)])

    def _is_wanted(self, part: Json, owner: str) -> bool:
        if not self.open_ended and (part.get("title") == "other" or part.get("type") == "null"):
            return False
        constants = {each.get("const") for each in part.get("properties", {}).values()} | {part.get("const")}
        return not any((owner, constant) in self.without for constant in constants)

    def _of_type(self, kind: str, node: Json, owner: str) -> st.SearchStrategy[Any]:
        match kind:
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "string" if node.get("format") == "uri":
                return text.map(lambda each: f"https://example.org/{quote(each)}")
            case "string":
                return text.filter(lambda each: len(each) >= node.get("minLength", 0))
            case "integer":
                low, high = BOUNDS[node["format"]]
                return st.integers(max(low, node.get("minimum", low)), min(high, node.get("maximum", high)))
            case "number":
                return numbers
            case "array":
                return st.lists(self._values(node["items"], owner), max_size=2)
            case "object":
                values = node.get("additionalProperties", True)
                if values is True:
                    return self.free_objects
                return st.dictionaries(text, self._values(values, owner), max_size=2)
            case _:
                return self.any_json

    def _objects(self, node: Json, owner: str) -> st.SearchStrategy[Json]:
        @st.composite
        def objects(draw: st.DrawFn) -> Json:
            result: Json = {}
            for part in node.get("allOf", []):
                result.update(draw(self._values(part, owner)))
            for key in ("anyOf", "oneOf"):
                if key in node:
                    result.update(draw(self._one_of(node[key], owner)))
            if node.get("title") == "other":
                # An open variant: any tag but the known ones, and whatever fields there may be.
                known = _constants(node["not"])
                (tag,) = node["properties"]
                result[tag] = draw(text.filter(lambda each: each not in known))
                result.update(draw(self.unknown_fields))
                return result
            for name, part in node.get("properties", {}).items():
                wanted = name in node.get("required", ()) or draw(st.booleans())
                if wanted and (owner, name) not in self.without:
                    result[name] = draw(self._values(part, owner))
            result.update(draw(self.unknown_fields))
            return result

        return objects()


def _constants(node: Json) -> set[str]:
    return {part["properties"][name]["const"] for part in node["anyOf"] for name in part["properties"]}


definition = Payloads().definition
"""Everything that a definition allows, unknown fields and members of open unions included."""

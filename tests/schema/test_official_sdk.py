"""The official Python SDK reads what this package writes, and this package reads what it writes.

The payloads are those that the schema allows, without what that SDK loses: `KNOWN_LOSSES`, unknown fields,
unknown members of open unions, and every null, in free-form JSON too, since it leaves out whatever is null.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trio_acp.schema as acp
from tests.schema._from_schema import DEFINITIONS, Payloads, needs_schema

official = pytest.importorskip(
    "acp.schema", reason="the official SDK (agent-client-protocol) is not installed"
)
pydantic = pytest.importorskip("pydantic")

pytestmark = [needs_schema, pytest.mark.interop]

KNOWN_LOSSES: frozenset[tuple[str, str]] = frozenset(
    {
        # Its models were made from an older schema, without these fields and variants.
        ("ToolCall", "name"),
        ("ToolCallUpdate", "name"),
        ("SessionUpdate", "notice"),
        ("SessionUpdate", "compaction_update"),
        ("SessionUpdate", "compaction_summary_chunk"),
        ("ClientSessionCapabilities", "compaction"),
        ("ClientSessionCapabilities", "notices"),
    }
)

MESSAGES = [name for name, node in DEFINITIONS.items() if "x-method" in node]

payloads = Payloads(open_ended=False, without=KNOWN_LOSSES)


@functools.cache
def theirs(name: str) -> Any:
    if name == "SetSessionConfigOptionRequest":
        # There are two classes there, and no name for their union.
        return pydantic.TypeAdapter(
            official.SetSessionConfigOptionBooleanRequest | official.SetSessionConfigOptionSelectRequest
        )
    return pydantic.TypeAdapter(getattr(official, name))


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_read_the_same_in_what_the_other_one_writes(name: str, data: st.DataObject) -> None:
    as_type = getattr(acp, name)
    value = acp.structure(as_type, data.draw(payloads.definition(name)))
    ours = acp.unstructure(value, as_type)

    model = theirs(name).validate_python(ours)
    again = theirs(name).dump_python(model, mode="json", by_alias=True, exclude_none=True)
    report: list[acp.Leniency] = []

    read = acp.structure(as_type, again, report)
    for part in wire_objects(read):
        # It writes fields that are not in the protocol yet (mcpCapabilities.acp, for one).
        part.extra = None
    assert read == value
    assert report == []


def wire_objects(value: Any) -> Iterator[acp.WireObject]:
    inner: list[Any] = []
    if isinstance(value, acp.WireObject):
        yield value
        inner = [getattr(value, attribute.name) for attribute in attrs.fields(type(value))]
    elif isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = list(value.values())
    for each in inner:
        yield from wire_objects(each)

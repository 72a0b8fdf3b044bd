"""The strategies make what they promise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from trio_acp.schema import (
    METHODS,
    ContentBlock,
    ElicitationSchema,
    Leniency,
    SchemaError,
    TextContent,
    structure,
    unstructure,
)
from trio_acp.testing import Entry, Referee
from trio_acp.testing.strategies import (
    InvalidPayload,
    chunkings,
    conversations,
    hostile_lines,
    invalid_payloads,
    json_values,
    lenient_payloads,
    messages,
    objects,
    payloads,
)

KINDS: list[Any] = [
    *(info.params for info in METHODS.values()),
    *(info.result for info in METHODS.values() if info.kind == "request"),
]
QUICK = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@QUICK
@given(st.data())
def test_a_valid_payload_is_decoded_without_leniency_and_encoded_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    payload = data.draw(payloads(kind))
    report: list[Leniency] = []
    value = structure(kind, payload, report)
    assert report == []
    assert structure(kind, unstructure(value, kind)) == value


@QUICK
@given(st.data())
def test_w8_w9_a_lenient_payload_is_decoded(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    structure(kind, data.draw(lenient_payloads(kind)))


def test_w9_lenient_payloads_need_leniency_now_and_then() -> None:
    def needs_leniency(payload: Any) -> bool:
        report: list[Leniency] = []
        structure(TextContent, payload, report)
        return bool(report)

    assert find(lenient_payloads(TextContent), needs_leniency, settings=QUICK)["type"] == "text"


@QUICK
@given(st.data())
def test_an_invalid_payload_is_refused_where_it_says(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    invalid = data.draw(invalid_payloads(kind))
    with pytest.raises(SchemaError) as caught:
        structure(kind, invalid.value)
    assert caught.value.path[: len(invalid.path)] == invalid.path
    assert invalid.reason


def test_invalid_payloads_shrink_to_a_missing_field() -> None:
    smallest = find(invalid_payloads(TextContent), lambda invalid: True, settings=QUICK)
    assert smallest == InvalidPayload({"type": "text"}, ("text",), "missing")


@QUICK
@given(objects(ContentBlock), json_values())
def test_objects_of_a_union_are_members_of_it(block: Any, value: Any) -> None:
    assert structure(ContentBlock, unstructure(block, ContentBlock)) == block
    json.dumps(value, allow_nan=False)


def test_forms_have_fields_now_and_then() -> None:
    form = find(objects(ElicitationSchema), lambda form: bool(form.properties), settings=QUICK)
    assert len(form.properties) == 1


def test_terminals_are_made_and_released_in_conversations() -> None:
    often = settings(QUICK, max_examples=2000)
    talk = find(
        conversations(max_steps=20),
        lambda talk: bool(talk.sent_by("agent", "terminal/release")),
        settings=often,
    )
    methods = [entry.message.get("method") for entry in talk]
    assert methods.index("terminal/create") < methods.index("terminal/release")


@QUICK
@given(st.sampled_from(["client", "agent", None]), st.data())
def test_messages_are_calls_of_their_sender_and_answers(sender: Any, data: st.DataObject) -> None:
    message = data.draw(messages(sender))
    if "method" in message:
        info = METHODS[message["method"]]
        assert info.side == "protocol" or sender is None or info.side != sender
        assert ("id" in message) == (info.kind == "request")
        structure(info.params, message["params"])
    else:
        assert ("result" in message) != ("error" in message)


@QUICK
@given(st.binary(max_size=30), st.data())
def test_chunks_are_the_whole_in_pieces(data: bytes, choose: st.DataObject) -> None:
    chunks = choose.draw(chunkings(data))
    assert b"".join(chunks) == data
    assert all(chunks)


@QUICK
@given(st.lists(hostile_lines(), max_size=5))
def test_a_hostile_line_is_one_line_and_no_referee_stumbles_over_it(lines: list[bytes]) -> None:
    referee = Referee()
    for line in lines:
        assert b"\n" not in line
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        referee.see(Entry("client", message))
        referee.see(Entry("agent", message))
    referee.finish()

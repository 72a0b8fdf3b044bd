"""Decoding: strict scalars, unions by tag, and nothing unknown lost (W3, W7, W8)."""

from __future__ import annotations

import copy
import threading
from typing import Any

import attrs
import pytest
from cattrs import Converter

import trio_acp.schema as acp
from tests.schema._misfits import CHUNK, error_of
from trio_acp.schema import (
    AgentMessageChunk,
    ElicitationAcceptAction,
    PermissionOptionKind,
    Plan,
    PlanEntry,
    SchemaError,
    SessionInfoUpdate,
    StopReason,
    TextContent,
    ToolCall,
    ToolKind,
    structure,
    structure_update,
    unstructure,
)

# --- Scalars ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, True, 5, 1.5, ["a"], {"a": 1}, b"a"])
def test_nothing_but_a_string_is_a_string(wrong: object) -> None:
    assert "methodId: expected a string, got " in error_of(acp.AuthenticateRequest, {"methodId": wrong})


@pytest.mark.parametrize("wrong", [None, 0, 1, "true", [], {}])
def test_nothing_but_true_and_false_is_a_boolean(wrong: object) -> None:
    raw = {"output": "", "truncated": wrong}
    assert "truncated: expected true or false, got " in error_of(acp.TerminalOutputResponse, raw)


@pytest.mark.parametrize("wrong", [None, True, False, "1", 1.0, [], -1, 65536, 2**64, [10**5000]])
def test_nothing_but_an_integer_in_range_is_a_protocol_version(wrong: object) -> None:
    message = error_of(acp.InitializeRequest, {"protocolVersion": wrong})
    assert "initialize params: protocolVersion: expected an integer from 0 to 65535, got " in message


@pytest.mark.parametrize("right", [0, 1, 65535])
def test_every_protocol_version_is_read(right: int) -> None:
    assert structure(acp.InitializeRequest, {"protocolVersion": right}).protocol_version == right


@pytest.mark.parametrize(
    ("as_type", "raw", "field", "low", "high"),
    [
        (acp.ReadTextFileRequest, {"sessionId": "s", "path": "/p"}, "line", 0, 2**32 - 1),
        (acp.CreateTerminalRequest, {"sessionId": "s", "command": "c"}, "outputByteLimit", 0, 2**64 - 1),
        (acp.Error, {"message": "m"}, "code", -(2**31), 2**31 - 1),
        (acp.CancelRequestNotification, {}, "requestId", -(2**63), 2**63 - 1),
    ],
)
def test_integers_keep_to_the_range_of_their_format(
    as_type: Any, raw: dict[str, Any], field: str, low: int, high: int
) -> None:
    for right in (low, high):
        assert unstructure(structure(as_type, {**raw, field: right})) == {**raw, field: right}
    for wrong in (low - 1, high + 1):
        assert field in error_of(as_type, {**raw, field: wrong})


@pytest.mark.parametrize("right", [0, -3, 1.5, 2**64, 1.7976931348623157e308])
def test_a_number_may_be_an_integer_and_stays_one(right: float) -> None:
    value = structure(acp.Cost, {"amount": right, "currency": "EUR"})
    assert value.amount == right
    assert type(value.amount) is type(right)


@pytest.mark.parametrize("wrong", [None, True, "1", float("nan"), float("inf"), 10**309])
def test_a_number_is_finite_and_no_boolean(wrong: object) -> None:
    message = error_of(acp.Cost, {"amount": wrong, "currency": "EUR"})
    assert "amount: expected a number, got " in message


@pytest.mark.parametrize("right", ["1", 1, -1, "", None])
def test_request_ids_keep_their_exact_type(right: str | int | None) -> None:
    """W3"""
    value = structure(acp.CancelRequestNotification, {"requestId": right})
    assert value.request_id == right
    assert type(value.request_id) is type(right)
    assert unstructure(value) == {"requestId": right}


@pytest.mark.parametrize("wrong", [True, 1.0, [], {}, 2**63])
def test_other_request_ids_are_refused(wrong: object) -> None:
    """W3"""
    message = error_of(acp.CancelRequestNotification, {"requestId": wrong})
    assert "$/cancel_request params: requestId: expected an integer from " in message


@pytest.mark.parametrize("value", ["text", 5, 1.5, True, ["a", "b"]])
def test_form_values_keep_their_exact_type(value: Any) -> None:
    raw = {"action": "accept", "content": {"field": value}}
    decoded = structure(acp.CreateElicitationResponse, raw)
    assert isinstance(decoded, ElicitationAcceptAction)
    assert decoded.content is not None
    assert decoded.content["field"] == value
    assert type(decoded.content["field"]) is type(value)
    assert unstructure(decoded, acp.CreateElicitationResponse) == raw


# --- Errors say where and why -------------------------------------------------------------------------

OPTION = {"optionId": "o", "name": "n", "kind": "allow_once"}
PERMISSION: dict[str, Any] = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": [OPTION]}


@pytest.mark.parametrize(
    ("as_type", "raw", "message"),
    [
        (
            acp.NewSessionRequest,
            {"cwd": 5, "mcpServers": []},
            "session/new params: cwd: expected a string, got 5",
        ),
        (acp.NewSessionRequest, {"cwd": "/"}, "session/new params: mcpServers: required field is missing"),
        (acp.NewSessionRequest, 7, "session/new params: expected an object, got 7"),
        (acp.NewSessionRequest, [], "session/new params: expected an object, got an array"),
        (
            acp.NewSessionRequest,
            {"cwd": "/", "mcpServers": [{"name": "n", "command": "c", "args": [1], "env": []}]},
            "session/new params: mcpServers[0].args[0]: expected a string, got 1",
        ),
        (
            acp.RequestPermissionRequest,
            {**PERMISSION, "options": [OPTION, {**OPTION, "kind": None}]},
            "session/request_permission params: options[1].kind: expected a string, got null",
        ),
        (
            acp.RequestPermissionRequest,
            {**PERMISSION, "options": {}},
            "session/request_permission params: options: expected an array, got an object",
        ),
        (
            acp.RequestPermissionResponse,
            {"outcome": {"outcome": "selected"}},
            "session/request_permission result: outcome.optionId: required field is missing",
        ),
        (
            acp.RequestPermissionResponse,
            {"outcome": {}},
            "session/request_permission result: outcome.outcome: required field is missing",
        ),
        (
            acp.RequestPermissionResponse,
            {"outcome": "cancelled"},
            "session/request_permission result: outcome: expected an object, got 'cancelled'",
        ),
        (
            acp.PromptRequest,
            {"sessionId": "s", "prompt": [{"type": 5}]},
            "session/prompt params: prompt[0].type: expected a string, got 5",
        ),
        (
            acp.PromptRequest,
            {"sessionId": "s", "prompt": [{"type": ["text"]}]},
            "session/prompt params: prompt[0].type: expected a string, got an array",
        ),
        (
            acp.PromptRequest,
            {"sessionId": "s", "prompt": [{"type": "resource", "resource": {"uri": "u", "text": 5}}]},
            "session/prompt params: prompt[0].resource.text: expected a string, got 5",
        ),
        (
            acp.PromptRequest,
            {"sessionId": "s", "prompt": [{"type": "resource", "resource": {"uri": "u", "blob": 5}}]},
            "session/prompt params: prompt[0].resource.blob: expected a string, got 5",
        ),
        (
            acp.PromptRequest,
            {"sessionId": "s", "prompt": [{"type": "resource", "resource": "r"}]},
            "session/prompt params: prompt[0].resource: expected an object, got 'r'",
        ),
        (
            acp.CreateElicitationResponse,
            {"action": "accept", "content": {"field": None}},
            "elicitation/create result: content.field: expected ",
        ),
        (
            acp.CreateElicitationResponse,
            {"action": "accept", "content": []},
            "elicitation/create result: content: expected an object, got an array",
        ),
        (acp.ContentBlock, {"type": "text"}, "text: required field is missing"),
        (TextContent, {"type": "image", "text": "x"}, "TextContent: type: expected 'text', got 'image'"),
        (acp.Cost, {"amount": "x" * 100, "currency": "E"}, "got '" + "x" * 40 + "…'"),
        (acp.Cost, {"amount": 10**5000, "currency": "E"}, "got an integer of more than 64 bits"),
        (acp.Cost, {"amount": {1}, "currency": "E"}, "got 'set', which is no JSON"),
    ],
)
def test_errors_name_the_place_in_wire_names_and_what_is_wrong_there(
    as_type: Any, raw: object, message: str
) -> None:
    """W4"""
    assert message in error_of(as_type, raw)


def test_types_that_are_not_of_the_protocol_are_a_mistake_of_the_caller() -> None:
    for foreign in (bytes, Converter, dict, list[bytes]):
        with pytest.raises(TypeError, match="is no type of the protocol"):
            structure(foreign, {})
        with pytest.raises(TypeError, match="is no type of the protocol"):
            unstructure(object(), foreign)


# --- Objects ------------------------------------------------------------------------------------------


def test_unknown_fields_are_kept_and_sent_again() -> None:
    """W8"""
    raw = {**CHUNK, "later": {"a": [1]}, "content": {"type": "text", "text": "x", "colour": "red"}}
    update = structure_update(raw)
    assert isinstance(update, AgentMessageChunk)
    assert update.extra == {"later": {"a": [1]}}
    assert isinstance(update.content, TextContent)
    assert update.content.extra == {"colour": "red"}
    assert acp.unstructure_update(update) == raw


def test_attribute_names_are_unknown_fields_on_the_wire() -> None:
    value = structure(acp.AuthenticateRequest, {"methodId": "m", "method_id": "other", "meta": 1})
    assert value == acp.AuthenticateRequest("m", extra={"method_id": "other", "meta": 1})


def test_meta_is_kept_as_it_came() -> None:
    """W7"""
    meta = {"traceparent": "00-1", "vendor": {"deep": [None, False, {}]}}
    value = structure(acp.CancelNotification, {"sessionId": "s", "_meta": meta})
    assert value.meta is meta
    assert unstructure(value) == {"sessionId": "s", "_meta": meta}


def test_objects_are_equal_by_value_and_by_class() -> None:
    one = structure_update(CHUNK)
    assert one == structure_update(copy.deepcopy(CHUNK))
    assert one != structure_update({**CHUNK, "sessionUpdate": "agent_thought_chunk"})
    assert one != structure_update({**CHUNK, "messageId": "m2"})
    assert one != CHUNK
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_the_representation_shows_what_differs_from_the_defaults() -> None:
    assert repr(structure_update(CHUNK)) == (
        "AgentMessageChunk(content=TextContent(text='Hello'), message_id='m1')"
    )
    call = ToolCall("c", "Read", content=[])
    assert repr(call) == "ToolCall(tool_call_id='c', title='Read')"
    assert repr(SessionInfoUpdate(title=None)) == "SessionInfoUpdate(title=None)"


def test_objects_can_be_copied() -> None:
    update = structure_update(CHUNK)
    assert copy.copy(update) == update
    assert copy.deepcopy(update) == update
    assert copy.deepcopy(acp.UNSET) is acp.UNSET


def test_unset_null_and_a_value_are_three_things() -> None:
    """S8"""
    for fields in ({}, {"title": None}, {"title": "t"}, {"updatedAt": None, "title": "t"}):
        raw = {"sessionUpdate": "session_info_update", **fields}
        update = structure_update(raw)
        assert isinstance(update, SessionInfoUpdate)
        assert acp.unstructure_update(update) == raw
    assert SessionInfoUpdate().title is acp.UNSET
    assert not acp.UNSET
    assert repr(acp.UNSET) == "UNSET"


def test_pattern_matching_finds_updates_by_class() -> None:
    match structure_update(CHUNK):
        case AgentMessageChunk(content=TextContent(text=text), message_id="m1"):
            assert text == "Hello"
        case other:
            pytest.fail(f"{other} is not what it is")


# --- Enums --------------------------------------------------------------------------------------------


def test_known_values_become_members_and_unknown_ones_stay() -> None:
    """W8, T3, P2"""
    known = structure(acp.PromptResponse, {"stopReason": "end_turn"})
    assert known.stop_reason is StopReason.END_TURN
    unknown = structure(acp.PromptResponse, {"stopReason": "bored"})
    assert unknown.stop_reason == "bored"
    assert type(unknown.stop_reason) is str
    assert unstructure(unknown) == {"stopReason": "bored"}
    option = structure(acp.PermissionOption, {**OPTION, "kind": "allow"})
    assert option.kind == "allow"
    assert structure(acp.PermissionOption, OPTION).kind is PermissionOptionKind.ALLOW_ONCE


def test_known_error_codes_become_members_and_unknown_ones_stay() -> None:
    """W10"""
    known = structure(acp.Error, {"code": -32602, "message": "m"})
    assert known.code is acp.ErrorCode.INVALID_PARAMS
    unknown = structure(acp.Error, {"code": -31999, "message": "m"})
    assert type(unknown.code) is int
    for value, code in ((known, -32602), (unknown, -31999)):
        raw = unstructure(value)
        assert raw == {"code": code, "message": "m"}
        assert type(raw["code"]) is int


@pytest.mark.parametrize("wrong", [None, 5, True, ["end_turn"], {}])
def test_a_value_of_an_enum_is_a_string(wrong: object) -> None:
    assert "stopReason: expected a string" in error_of(acp.PromptResponse, {"stopReason": wrong})


def test_what_is_left_out_has_the_default_that_the_protocol_names() -> None:
    """T4"""
    call = structure_update({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"})
    assert isinstance(call, ToolCall)
    assert call.kind is ToolKind.OTHER
    assert call.status is acp.ToolCallStatus.PENDING
    assert call.content == call.locations == []
    assert structure(acp.InitializeResponse, {"protocolVersion": 1}) == acp.InitializeResponse(1)


# --- cattrs -------------------------------------------------------------------------------------------


@attrs.define
class Note:
    """A class of a user of the library."""

    seen: list[acp.SessionUpdate]
    by: str


def test_the_converter_takes_the_types_of_the_protocol_and_those_of_its_user() -> None:
    converter = acp.get_converter()
    assert converter is not acp.get_converter()
    update = structure_update(CHUNK)
    union: Any = acp.SessionUpdate
    assert converter.structure(CHUNK, union) == update
    assert converter.unstructure(update, acp.SessionUpdate) == CHUNK
    plans = converter.structure([{"sessionUpdate": "plan", "entries": []}], list[Plan])
    assert plans == [Plan([])]
    note = converter.structure({"seen": [CHUNK], "by": "me"}, Note)
    assert note == Note([update], "me")
    assert converter.unstructure(note) == {"seen": [CHUNK], "by": "me"}
    with pytest.raises(SchemaError):
        converter.structure({"entries": 5, "sessionUpdate": "plant"}, Plan)


def test_types_may_be_used_first_in_several_threads_at_once() -> None:
    raw = {"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "high", "status": "pending"}]}
    results: list[object] = []
    start = threading.Barrier(4)

    def work() -> None:
        from trio_acp.schema._base import open_unions
        from trio_acp.schema._nodes import UnionNode

        start.wait(timeout=10)
        for union in open_unions().values():
            node = UnionNode(union)
            if union.name == "SessionUpdate":
                results.append(node.put(node.take(raw)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert results == [raw] * 4
    assert structure_update(raw) == Plan([PlanEntry("c", "high", "pending")])


PLAIN_CHUNK: dict[str, Any] = {
    "sessionUpdate": "agent_message_chunk",
    "content": {"type": "text", "text": "a"},
}


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN_CHUNK,
        {**PLAIN_CHUNK, "messageId": "m"},
        {**PLAIN_CHUNK, "messageId": None},
        {**PLAIN_CHUNK, "messageId": 5},
        {**PLAIN_CHUNK, "_meta": {"a": 1}},
        {**PLAIN_CHUNK, "messageId": "m", "_meta": {"a": 1}},
        {**PLAIN_CHUNK, "future": 1},
        {**PLAIN_CHUNK, "sessionUpdate": "user_message_chunk"},
        {**PLAIN_CHUNK, "sessionUpdate": "agent_thought_chunk", "messageId": ""},
        {**PLAIN_CHUNK, "content": {"type": "text", "text": "a", "annotations": {"priority": 1}}},
        {**PLAIN_CHUNK, "content": {"type": "text", "annotations": None}},
        {**PLAIN_CHUNK, "content": {"type": "text", "text": 5}},
        {**PLAIN_CHUNK, "content": {"type": "hologram", "text": "a"}},
        {**PLAIN_CHUNK, "content": ["type", "text"]},
        {**PLAIN_CHUNK, "content": {}},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}},
    ],
)
def test_the_short_way_of_a_chunk_of_text_leads_where_the_long_one_does(raw: dict[str, Any]) -> None:
    def both(decode: Any) -> Any:
        notes: list[Any] = []
        try:
            return decode(notes), notes
        except acp.SchemaError as error:
            return str(error), notes

    assert both(lambda notes: acp.structure_update(raw, notes)) == both(
        lambda notes: acp.structure(acp.SessionUpdate, raw, notes)
    )

"""Unions from JSON: which member it is, and what becomes of those that are not known (W8)."""

from __future__ import annotations

from typing import Any

import pytest

import trio_acp.schema as acp
from tests.schema._misfits import CHUNK, error_of
from trio_acp.schema import (
    AgentMessageChunk,
    AuthMethodAgent,
    CancelledPermissionOutcome,
    CreateElicitationFormRequest,
    CreateElicitationUrlRequest,
    ElicitationRequestScope,
    ElicitationSessionScope,
    Leniency,
    McpServerHttp,
    McpServerStdio,
    SchemaError,
    SelectedPermissionOutcome,
    SessionConfigSelect,
    SessionNotification,
    SetSessionConfigOptionBooleanRequest,
    SetSessionConfigOptionValueRequest,
    StringMultiSelectItems,
    TitledMultiSelectItems,
    ToolCall,
    ToolCallUpdate,
    UnknownVariant,
    structure,
    structure_update,
    unstructure,
)

UNION_MEMBERS = [
    (acp.SessionUpdate, CHUNK, AgentMessageChunk),
    (acp.SessionUpdate, {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}, ToolCall),
    (acp.SessionUpdate, {"sessionUpdate": "tool_call_update", "toolCallId": "t"}, ToolCallUpdate),
    (acp.RequestPermissionOutcome, {"outcome": "cancelled"}, CancelledPermissionOutcome),
    (acp.RequestPermissionOutcome, {"outcome": "selected", "optionId": "o"}, SelectedPermissionOutcome),
    (acp.AuthMethod, {"id": "a", "name": "n"}, AuthMethodAgent),
    (acp.AuthMethod, {"type": None, "id": "a", "name": "n"}, AuthMethodAgent),
    (acp.AuthMethod, {"type": "agent", "id": "a", "name": "n"}, AuthMethodAgent),
    (acp.McpServer, {"name": "n", "command": "c", "args": [], "env": []}, McpServerStdio),
    (acp.McpServer, {"type": "stdio", "name": "n", "command": "c", "args": [], "env": []}, McpServerStdio),
    (acp.McpServer, {"type": "http", "name": "n", "url": "u", "headers": []}, McpServerHttp),
    (acp.MultiSelectItems, {"type": "string", "enum": ["a"]}, StringMultiSelectItems),
    (acp.MultiSelectItems, {"anyOf": [{"const": "a", "title": "A"}]}, TitledMultiSelectItems),
    (
        acp.SetSessionConfigOptionRequest,
        {"sessionId": "s", "configId": "c", "value": "v"},
        SetSessionConfigOptionValueRequest,
    ),
    (
        acp.SetSessionConfigOptionRequest,
        {"sessionId": "s", "configId": "c", "type": "later", "value": "v"},
        SetSessionConfigOptionValueRequest,
    ),
    (
        acp.SetSessionConfigOptionRequest,
        {"sessionId": "s", "configId": "c", "type": "boolean", "value": True},
        SetSessionConfigOptionBooleanRequest,
    ),
    (
        acp.SetSessionConfigOptionRequest,
        {"sessionId": "s", "configId": "c", "type": "number", "value": 5, "_meta": 1},
        UnknownVariant,
    ),
    (acp.AgentResponse, {"jsonrpc": "2.0", "id": 1, "result": None}, acp.ResultResponse),
    (
        acp.ClientResponse,
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "m"}},
        acp.ErrorResponse,
    ),
]


@pytest.mark.parametrize(("union", "raw", "cls"), UNION_MEMBERS)
def test_members_of_unions_are_told_apart_and_sent_as_they_came(
    union: Any, raw: dict[str, Any], cls: type
) -> None:
    report: list[Leniency] = []
    value = structure(union, raw, report)
    assert type(value) is cls
    assert report == []
    assert unstructure(value, union) == raw


@pytest.mark.parametrize(
    ("union", "raw"),
    [
        (acp.SessionUpdate, {"sessionUpdate": "dream", "depth": 3}),
        (acp.ContentBlock, {"type": "hologram", "data": [1, {"a": None}]}),
        (acp.ToolCallContent, {"type": "later"}),
        (acp.RequestPermissionOutcome, {"outcome": "deferred", "until": "tomorrow"}),
        (acp.ElicitationPropertySchema, {"type": "colour", "default": "red"}),
        (acp.MultiSelectItems, {"type": "number", "enum": [1]}),
        (acp.AuthMethod, {"type": "env_var", "id": "a", "name": "n", "vars": []}),
        (acp.McpServer, {"type": "acp", "name": "n", "id": "x"}),
        (acp.SessionConfigOption, {"type": "slider", "id": "a", "name": "n", "currentValue": 5}),
        (acp.CreateElicitationRequest, {"mode": "voice", "message": "m", "sessionId": "s"}),
        (acp.CreateElicitationResponse, {"action": "later"}),
    ],
)
def test_unknown_members_are_kept_whole(union: Any, raw: dict[str, Any]) -> None:
    """W8"""
    value = structure(union, raw)
    (tag,) = {key for key in raw if raw[key] == value.tag}
    assert value == UnknownVariant(raw[tag], raw)
    for again in (unstructure(value, union), unstructure(value)):
        assert again == raw
        assert again is not raw


def test_unknown_members_are_kept_wherever_they_stand() -> None:
    """W8"""
    raw = {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "x",
            "content": [{"type": "later", "a": 1}, {"type": "content", "content": {"type": "smell"}}],
        },
    }
    value = structure(SessionNotification, raw)
    assert unstructure(value) == raw
    assert isinstance(value.update, ToolCall)
    assert value.update.content[0] == UnknownVariant("later", {"type": "later", "a": 1})


def test_unknown_members_are_kept_beside_what_needs_leniency() -> None:
    """W8, W9"""
    raw = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": 5, "content": [{"type": "later"}]}
    report: list[Leniency] = []
    update = structure_update(raw, report)
    assert update == ToolCallUpdate("t", content=[UnknownVariant("later", {"type": "later"})])
    assert [leniency.path for leniency in report] == [("title",)]


def test_a_malformed_member_with_a_known_tag_is_an_error() -> None:
    raw = {"sessionUpdate": "plan"}
    wrong: object
    assert error_of(acp.SessionUpdate, raw) == "entries: required field is missing"
    with pytest.raises(SchemaError, match="entries: required field is missing"):
        structure_update(raw)
    for wrong in (None, "text", [], 5):
        with pytest.raises(SchemaError, match="expected an object, got "):
            structure_update(wrong)


@pytest.mark.parametrize("union", [acp.ContentBlock, acp.SessionUpdate, acp.SessionConfigOption])
@pytest.mark.parametrize("raw", [{}, {"type": None, "sessionUpdate": None}, [], None, "text"])
def test_what_has_no_tag_is_an_error_where_no_member_goes_without(union: Any, raw: object) -> None:
    error_of(union, raw)


def test_config_values_are_all_in_groups_or_none() -> None:
    """S7"""
    option = {"type": "select", "id": "i", "name": "n", "currentValue": "a"}
    flat = [{"value": "a", "name": "A"}]
    grouped = [{"group": "g", "name": "G", "options": flat}]
    for options in ([], flat, grouped):
        value = structure(acp.SessionConfigOption, {**option, "options": options})
        assert isinstance(value, SessionConfigSelect)
        assert unstructure(value) == {**option, "options": options}
    assert "options[1].value: required field is missing" in error_of(
        acp.SessionConfigOption, {**option, "options": [*flat, *grouped]}
    )
    assert "options: expected an array, got null" in error_of(
        acp.SessionConfigOption, {**option, "options": None}
    )


def test_an_answer_with_both_a_result_and_an_error_is_refused() -> None:
    """W6"""
    raw = {"jsonrpc": "2.0", "id": 1, "result": 1, "error": {"code": 1, "message": "m"}}
    assert "this field may not be here" in error_of(acp.AgentResponse, raw)
    assert "required field is missing" in error_of(acp.AgentResponse, {"jsonrpc": "2.0", "id": 1})


@pytest.mark.parametrize("other", ["1.0", 2.0, None])
def test_another_version_of_json_rpc_is_refused(other: object) -> None:
    raw = {"jsonrpc": other, "method": "session/cancel"}
    assert "ClientNotification: jsonrpc: expected '2.0', got " in error_of(acp.ClientNotification, raw)


# --- Elicitation scopes -------------------------------------------------------------------------------

FORM: dict[str, Any] = {
    "mode": "form",
    "message": "m",
    "requestedSchema": {"type": "object", "properties": {}},
}
URL: dict[str, Any] = {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://example.org/"}


@pytest.mark.parametrize("request_", [FORM, URL])
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"sessionId": "s"}, ElicitationSessionScope("s")),
        ({"sessionId": "s", "toolCallId": "t"}, ElicitationSessionScope("s", "t")),
        ({"requestId": 5}, ElicitationRequestScope(5)),
        ({"requestId": None}, ElicitationRequestScope(None)),
        ({"requestId": 5, "sessionId": "s"}, ElicitationSessionScope("s")),
    ],
)
def test_an_elicitation_belongs_to_a_session_or_a_request(
    request_: dict[str, Any], scope: dict[str, Any], expected: object
) -> None:
    """E1"""
    value = structure(acp.CreateElicitationRequest, {**request_, **scope})
    assert isinstance(value, CreateElicitationFormRequest | CreateElicitationUrlRequest)
    assert value.scope == expected
    assert unstructure(value) == {**request_, **scope}


@pytest.mark.parametrize("request_", [FORM, URL])
def test_an_elicitation_that_belongs_to_nothing_is_refused(request_: dict[str, Any]) -> None:
    """E1"""
    message = error_of(acp.CreateElicitationRequest, request_)
    assert message == "elicitation/create params: expected a sessionId or a requestId"
    with pytest.raises(ValueError, match="sessionId or a requestId"):
        CreateElicitationUrlRequest("m", "e", "u")


def test_fields_of_a_form_keep_their_order() -> None:
    names = ["z", "a", "m"]
    raw = {"properties": {name: {"type": "boolean"} for name in names}}
    assert list(structure(acp.ElicitationSchema, raw).properties) == names

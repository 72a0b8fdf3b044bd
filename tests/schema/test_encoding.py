"""Encoding: tags, defaults and required fields, and nothing sent that a peer would refuse."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import trio_acp.schema as acp
from trio_acp.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    Content,
    ContentChunk,
    CreateTerminalRequest,
    Diff,
    EnvVariable,
    NewSessionRequest,
    PermissionOption,
    PermissionOptionKind,
    PromptRequest,
    ReadTextFileRequest,
    RequestPermissionRequest,
    SchemaError,
    SessionInfoUpdate,
    SessionNotification,
    TextContent,
    ToolCall,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UnknownVariant,
    UserMessageChunk,
    unstructure,
    unstructure_update,
)

TEXT = TextContent("Hello")
RAW_TEXT = {"type": "text", "text": "Hello"}


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (TEXT, {"type": "text", "text": "Hello"}),
        (
            AgentMessageChunk(TEXT),
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hello"}},
        ),
        (ContentChunk(TEXT, "m"), {"content": {"type": "text", "text": "Hello"}, "messageId": "m"}),
        (
            PromptRequest("s", [TEXT, UnknownVariant("later", {"type": "later", "x": None})]),
            {"sessionId": "s", "prompt": [{"type": "text", "text": "Hello"}, {"type": "later", "x": None}]},
        ),
        (ToolCall("t", "x"), {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}),
        (
            ToolCall(
                "t", "x", ToolKind.READ, ToolCallStatus.COMPLETED, content=[Content(TEXT), Diff("/p", "new")]
            ),
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "t",
                "title": "x",
                "kind": "read",
                "status": "completed",
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "Hello"}},
                    {"type": "diff", "path": "/p", "newText": "new"},
                ],
            },
        ),
        (acp.CancelledPermissionOutcome(), {"outcome": "cancelled"}),
        (acp.SelectedPermissionOutcome("o"), {"outcome": "selected", "optionId": "o"}),
        (acp.AuthMethodAgent("a", "n"), {"id": "a", "name": "n"}),
        (
            acp.AuthMethodTerminal("a", "n", args=["x"]),
            {"type": "terminal", "id": "a", "name": "n", "args": ["x"]},
        ),
        (acp.ResultResponse(5, None), {"jsonrpc": "2.0", "id": 5, "result": None}),
        (acp.Notice("info", "t"), {"sessionUpdate": "notice", "severity": "info", "title": "t"}),
        (
            SessionInfoUpdate(title=UNSET, updated_at=None),
            {"sessionUpdate": "session_info_update", "updatedAt": None},
        ),
    ],
)
def test_classes_write_their_tag_and_leave_out_their_defaults(value: object, raw: dict[str, Any]) -> None:
    assert unstructure(value) == raw


def test_a_tool_call_update_carries_a_tag_only_as_a_session_update() -> None:
    update = ToolCallUpdate("t", title="x")
    bare = {"toolCallId": "t", "title": "x"}
    tagged = {**bare, "sessionUpdate": "tool_call_update"}
    assert unstructure(update) == bare
    assert unstructure_update(update) == tagged
    assert unstructure(update, acp.SessionUpdate) == tagged
    assert unstructure(SessionNotification("s", update)) == {"sessionId": "s", "update": tagged}
    request = RequestPermissionRequest(
        "s", update, [PermissionOption("o", "n", PermissionOptionKind.ALLOW_ONCE)]
    )
    assert unstructure(request) == {
        "sessionId": "s",
        "toolCall": bare,
        "options": [{"optionId": "o", "name": "n", "kind": "allow_once"}],
    }


def test_a_tag_on_a_tool_call_that_should_have_none_is_an_unknown_field() -> None:
    raw = {"toolCallId": "t", "sessionUpdate": "tool_call_update"}
    value = acp.structure(ToolCallUpdate, raw)
    assert value.extra == {"sessionUpdate": "tool_call_update"}
    assert unstructure(value) == unstructure_update(value) == raw


def test_required_fields_are_sent_even_when_they_are_empty() -> None:
    """S1"""
    assert unstructure(NewSessionRequest("/p", [])) == {"cwd": "/p", "mcpServers": []}
    assert unstructure(acp.Plan([])) == {"sessionUpdate": "plan", "entries": []}
    assert unstructure(acp.ResumeSessionRequest("s", "/p")) == {
        "sessionId": "s",
        "cwd": "/p",
        "mcpServers": [],
    }
    assert unstructure(acp.InitializeRequest(1)) == {"protocolVersion": 1, "clientCapabilities": {}}
    assert unstructure(acp.InitializeResponse(1)) == {
        "protocolVersion": 1,
        "agentCapabilities": {},
        "authMethods": [],
    }
    assert unstructure(acp.ElicitationSchema()) == {"type": "object", "properties": {}}


def test_capabilities_are_sent_where_they_are_there() -> None:
    """I3, I5"""
    value = acp.ClientCapabilities(
        fs=acp.FileSystemCapabilities(read_text_file=True),
        session=acp.ClientSessionCapabilities(notices=acp.NoticeCapabilities()),
        elicitation=acp.ElicitationCapabilities(form=acp.ElicitationFormCapabilities()),
    )
    assert unstructure(value) == {
        "fs": {"readTextFile": True},
        "session": {"notices": {}},
        "elicitation": {"form": {}},
    }


def test_extra_fields_never_replace_those_of_the_class() -> None:
    value = TextContent("right", extra={"text": "wrong", "type": "wrong", "annotations": 1, "later": 2})
    assert unstructure(value) == {"type": "text", "text": "right", "later": 2}


def test_lists_scalars_and_plain_json_are_encoded_too() -> None:
    assert unstructure([TEXT, None, {"a": 1}]) == [{"type": "text", "text": "Hello"}, None, {"a": 1}]
    assert unstructure(UnknownVariant("x", {"a": 1})) == {"a": 1}
    assert unstructure(ToolKind.READ, ToolKind | str) == "read"
    assert unstructure((TEXT,), list[acp.ContentBlock]) == [{"type": "text", "text": "Hello"}]


def test_subclasses_of_members_are_encoded_like_these() -> None:
    class Loud(TextContent):
        pass

    assert unstructure(PromptRequest("s", [Loud("x")])) == {
        "sessionId": "s",
        "prompt": [{"type": "text", "text": "x"}],
    }


def test_members_of_enums_are_sent_as_plain_strings_and_integers() -> None:
    class Name(str):
        pass

    raw = unstructure(ReadTextFileRequest(Name("s"), "/p"))
    assert type(raw["sessionId"]) is str
    raw = unstructure(acp.Error(acp.ErrorCode.INTERNAL_ERROR, "m"))
    assert type(raw["code"]) is int
    raw = unstructure(PermissionOption("o", "n", PermissionOptionKind.REJECT_ONCE))
    assert type(raw["kind"]) is str


WRONG: Any = pathlib.Path("/p")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            ReadTextFileRequest("s", WRONG),
            "fs/read_text_file params: path: expected a string, got 'PosixPath', which is no JSON",
        ),
        (
            ReadTextFileRequest("s", "/p", line=-1),
            "fs/read_text_file params: line: expected an integer from 0 to",
        ),
        (
            ReadTextFileRequest("s", "/p", line=True),
            "line: expected an integer from 0 to 4294967295, got true",
        ),
        (NewSessionRequest("/p", WRONG), "session/new params: mcpServers: expected an array"),
        (
            PromptRequest("s", [TEXT, WRONG]),
            "session/prompt params: prompt[1]: expected a member of ContentBlock",
        ),
        (PromptRequest("s", [{"type": "text", "text": "x"}]), "prompt[0]: expected a member of ContentBlock"),  # type: ignore[list-item]
        (PromptRequest("s", [Content(TEXT)]), "prompt[0]: expected a member of ContentBlock"),  # type: ignore[list-item]
        (
            CreateTerminalRequest("s", "c", env=[EnvVariable("A", "1"), EnvVariable("B", WRONG)]),
            "terminal/create params: env[1].value: expected a string",
        ),
        (
            CreateTerminalRequest("s", "c", env=[TEXT]),  # type: ignore[list-item]
            "env[0]: expected an instance of EnvVariable",
        ),
        (
            SessionNotification("s", UserMessageChunk(TextContent(WRONG))),
            "update.content.text: expected a string",
        ),
        (acp.AuthMethodTerminal("a", "n", env={"A": WRONG}), "AuthMethodTerminal: env.A: expected a string"),
        (acp.AuthMethodTerminal("a", "n", env={5: "x"}), "env: expected keys that are strings, got 5"),  # type: ignore[dict-item]
        (acp.AuthMethodTerminal("a", "n", env=WRONG), "env: expected an object"),
        (acp.CancelRequestNotification(WRONG), "$/cancel_request params: requestId: expected an integer"),
        (acp.Cost(float("nan"), "E"), "Cost: amount: expected a number, got nan"),
        (acp.CancelNotification("s", meta=WRONG), "session/cancel params: _meta: expected an object"),
        (acp.ElicitationAcceptAction({"a": WRONG}), "content.a: expected a string or an integer"),
    ],
)
def test_what_a_peer_would_refuse_is_not_sent(value: object, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        unstructure(value)
    assert message in str(caught.value)


def test_an_instance_of_another_class_is_not_sent() -> None:
    with pytest.raises(SchemaError, match="expected an instance of Plan, got"):
        unstructure(TEXT, acp.Plan)
    with pytest.raises(SchemaError, match="expected a member of SessionUpdate"):
        unstructure_update(TEXT)  # type: ignore[arg-type]


def test_a_notice_needs_a_title() -> None:
    with pytest.raises(ValueError, match="title"):
        acp.Notice("info", "")
    with pytest.raises(SchemaError, match="title: expected a string of at least 1 character, got ''"):
        acp.structure(acp.Notice, {"severity": "info", "title": ""})
    notice = acp.Notice(acp.NoticeSeverity.ERROR, "t")
    with pytest.raises(ValueError, match="title"):
        notice.title = ""


def test_every_class_can_be_made_from_its_required_fields_by_position() -> None:
    assert AgentThoughtChunk(TEXT) == AgentThoughtChunk(content=TEXT, message_id=None, meta=None, extra=None)
    assert AgentThoughtChunk(TEXT).session_update == "agent_thought_chunk"

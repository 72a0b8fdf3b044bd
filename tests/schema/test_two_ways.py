"""What is right is decoded by code made for it, everything else by general code, and both agree (W7, W9)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio_acp.schema as acp
from trio_acp.schema._base import open_unions
from trio_acp.schema._nodes import node_for
from trio_acp.testing.strategies import payloads

META = {"_meta": {"trace": 1}}

TEXT = {"type": "text", "text": "go", "annotations": {"audience": ["user"], "priority": 0.5, **META}, **META}

TOOL_CALL: dict[str, Any] = {
    "toolCallId": "c",
    "title": "Edit",
    "kind": "edit",
    "status": "pending",
    "content": [
        {"type": "diff", "path": "/a", "oldText": "a", "newText": "b"},
        {"type": "content", "content": TEXT},
        {"type": "terminal", "terminalId": "t"},
        {"type": "hologram", "depth": 3},
    ],
    "locations": [{"path": "/a", "line": 3}, {"path": "/b"}],
    "rawInput": {"a": 1},
    **META,
}

OPTION = {"type": "select", "id": "i", "name": "n", "currentValue": "a"}

MESSAGES: list[tuple[Any, dict[str, Any]]] = [
    (acp.SessionUpdate, {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m"}),
    (acp.SessionUpdate, {"sessionUpdate": "tool_call", **TOOL_CALL}),
    (acp.SessionUpdate, {"sessionUpdate": "tool_call_update", **TOOL_CALL}),
    (
        acp.SessionUpdate,
        {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "a", "priority": "high", "status": "pending", **META},
                {"content": "b", "priority": "odd", "status": "new"},
            ],
        },
    ),
    (
        acp.SessionUpdate,
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1, "currency": "EUR"}},
    ),
    (
        acp.SessionUpdate,
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"name": "a", "description": "b", "input": {"hint": "c"}},
                {"name": "d", "description": "e"},
            ],
        },
    ),
    (acp.SessionUpdate, {"sessionUpdate": "session_info_update", "title": None, "updatedAt": "now"}),
    (acp.SessionUpdate, {"sessionUpdate": "notice", "severity": "info", "title": "t", "description": "d"}),
    (
        acp.RequestPermissionRequest,
        {
            "sessionId": "s",
            "toolCall": TOOL_CALL,
            "options": [
                {"optionId": "a", "name": "b", "kind": "allow_once", **META},
                {"optionId": "c", "name": "d", "kind": "sometimes"},
            ],
        },
    ),
    (acp.RequestPermissionResponse, {"outcome": {"outcome": "selected", "optionId": "a"}}),
    (acp.PromptRequest, {"sessionId": "s", "prompt": [TEXT, {"type": "image", "data": "", "mimeType": "m"}]}),
    (acp.PromptResponse, {"stopReason": "end_turn", **META}),
    (acp.TextContent, TEXT),
    (
        acp.NewSessionRequest,
        {
            "cwd": "/",
            "mcpServers": [
                {"name": "n", "command": "c", "args": ["a"], "env": [{"name": "a", "value": "b"}]},
                {"type": "http", "name": "n", "url": "u", "headers": [{"name": "a", "value": "b"}]},
            ],
            "additionalDirectories": ["/a"],
        },
    ),
    (
        acp.NewSessionResponse,
        {
            "sessionId": "s",
            "modes": {"currentModeId": "a", "availableModes": [{"id": "a", "name": "b"}]},
            "configOptions": [
                {**OPTION, "options": [{"value": "a", "name": "A"}]},
                {
                    **OPTION,
                    "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
                },
                {"type": "boolean", "id": "b", "name": "n", "currentValue": True},
            ],
        },
    ),
    (
        acp.CreateElicitationRequest,
        {
            "mode": "form",
            "message": "m",
            "sessionId": "s",
            "requestedSchema": {
                "type": "object",
                "properties": {"a": {"type": "boolean"}},
                "required": ["a"],
            },
        },
    ),
    (acp.AgentResponse, {"jsonrpc": "2.0", "id": 1, "result": 1}),
    (acp.AgentResponse, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32700, "message": "m"}}),
]

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    float("inf"),
    "",
    "text",
    [],
    ["text"],
    [None],
    {},
    {"a": 1},
]


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Where there is something below a JSON value."""
    steps: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield (step,)
        for rest in places(value[step]):
            yield (step, *rest)


def changed(message: Any) -> Iterator[Any]:
    """The message, and the message with each part left out, replaced, or beside one that is unknown."""
    yield message
    for path in places(message):
        for value in [*VALUES, ...]:
            other = copy.deepcopy(message)
            place = other
            for step in path[:-1]:
                place = place[step]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield other
        if isinstance(place, dict):
            other = copy.deepcopy(message)
            place = other
            for step in path[:-1]:
                place = place[step]
            place["zz"] = 1
            yield other


def told(decode: Any) -> tuple[Any, ...]:
    report: list[acp.Leniency] = []
    try:
        value = decode(report)
    except acp.SchemaError as error:
        return error.path, error.reason
    return repr(value), shape(value), report


def shape(value: Any) -> Any:
    """What a value is made of, types and unknown fields and all."""
    if isinstance(value, acp.WireObject):
        return type(value), [
            (each.name, shape(getattr(value, each.name))) for each in attrs.fields(type(value))
        ]
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, dict):
        return [(key, shape(each)) for key, each in value.items()]
    return type(value), value


@pytest.mark.parametrize(("kind", "message"), MESSAGES)
def test_both_ways_of_decoding_agree_on_whatever_is_wrong_with_a_message(
    kind: Any, message: dict[str, Any]
) -> None:
    """W7, W8, W9"""
    door = acp.structure_update if kind is acp.SessionUpdate else None
    node = node_for(kind)
    assert told(lambda _: node.take(copy.deepcopy(message)))[-1] == [], "it is right, and fits at once"
    for raw in changed(message):
        before = repr(raw)
        general = told(lambda report, raw=raw: node.read(raw, (), report))
        assert told(lambda report, raw=raw: acp.structure(kind, raw, report)) == general
        if door is not None:
            assert told(lambda report, raw=raw: door(raw, report)) == general
        assert repr(raw) == before, "what was received stays as it was"


KINDS: dict[str, Any] = {
    name: kind
    for name, kind in vars(acp).items()
    if isinstance(kind, type) and issubclass(kind, acp.WireObject) and kind is not acp.WireObject
} | {union.name: getattr(acp, union.name) for union in open_unions().values()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=10)
@given(data=st.data())
def test_both_ways_of_decoding_agree_on_every_type_and_whatever_is_wrong_with_it(
    kind: Any, data: st.DataObject
) -> None:
    """W7, W8, W9"""
    raw = copy.deepcopy(data.draw(payloads(kind)))
    for path in data.draw(st.lists(st.sampled_from([*places(raw)]), max_size=2)) if raw else ():
        place = raw
        try:
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = data.draw(st.sampled_from([*VALUES, "\ud800", 10**400]))
        except (KeyError, IndexError, TypeError):
            pass  # the first change has taken that place away
    if isinstance(raw, dict) and data.draw(st.booleans()):
        raw["zz"] = data.draw(st.sampled_from(VALUES))
    general = told(lambda report: node_for(kind).read(raw, (), report))
    assert told(lambda report: acp.structure(kind, raw, report)) == general


def test_lists_and_maps_are_new_ones_and_any_json_is_kept_by_reference() -> None:
    raw: Any = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "content": [], "rawInput": {}}
    first, second = acp.structure_update(raw), acp.structure_update(raw)
    assert isinstance(first, acp.ToolCall)
    assert isinstance(second, acp.ToolCall)
    assert first.content is not raw["content"]
    assert first.content is not second.content
    assert first.locations == second.locations == []
    assert first.locations is not second.locations
    assert first.raw_input is raw["rawInput"]

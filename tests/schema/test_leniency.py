"""The schema's leniency marks: each is honoured, each use is reported, nothing else is let through (W9)."""

from __future__ import annotations

from typing import Any

import pytest

import trio_acp.schema as acp
from trio_acp.schema import Leniency, SchemaError, WireObject, structure, unstructure
from trio_acp.schema._base import Mark
from trio_acp.schema._containers import MAX_LENIENCIES, ChoiceNode, ListNode, MapNode, OptionalNode
from trio_acp.schema._leaves import EnumNode, Node
from trio_acp.schema._nodes import Field, ObjectNode, UnionNode, object_node

CLASSES: list[type[WireObject]] = [
    cls
    for cls in vars(acp).values()
    if isinstance(cls, type) and issubclass(cls, WireObject) and cls is not WireObject
]


class Alien:
    """No JSON at all: fits nowhere, but where anything does."""


def sample(node: Node) -> Any:
    """Some JSON that fits a node."""
    match node:
        case OptionalNode():
            return sample(node.inner)
        case ListNode():
            return [sample(node.item)]
        case MapNode():
            return {"key": sample(node.item)}
        case ChoiceNode():
            return sample(node.choices[0])
        case EnumNode():
            return next(iter(node.kind)).value
        case ObjectNode():
            return message(node.cls)
        case UnionNode():
            tag, cls = next(iter(node.union.members.items()))
            return {node.union.key: tag, **message(cls)}
        case _:
            return {"a string": "s", "a number": 1.5, "true or false": True, "an object": {}}.get(
                node.expected, "s" if "string" in node.expected else 1
            )


def message(cls: type[WireObject]) -> dict[str, Any]:
    """The least JSON that fits a class."""
    raw = {field.wire: sample(field.node) for field in object_node(cls).fields if field.required}
    if "request_id" in dir(cls) and "mode" in dir(cls):
        raw["requestId"] = 1
    return raw


def takes_anything(field: Field) -> bool:
    return field.node.expected == "any JSON"


def marked(mark: Mark) -> list[Any]:
    return [
        pytest.param(cls, field, id=f"{cls.__name__}.{field.wire}")
        for cls in CLASSES
        for field in object_node(cls).fields
        if mark in field.marks and not takes_anything(field)
    ]


@pytest.mark.parametrize("cls", CLASSES)
def test_what_fits_needs_no_leniency(cls: type[WireObject]) -> None:
    report: list[Leniency] = []
    value = structure(cls, message(cls), report)
    assert report == []
    assert structure(cls, unstructure(value)) == value


@pytest.mark.parametrize(("cls", "field"), marked(Mark.DEFAULT_ON_ERROR))
def test_a_marked_field_that_does_not_fit_becomes_its_default(cls: type[WireObject], field: Field) -> None:
    wrong = Alien()
    report: list[Leniency] = []
    value = structure(cls, {**message(cls), field.wire: wrong}, report)
    assert getattr(value, field.name) == field.default()
    (leniency,) = report
    assert leniency.path == (field.wire,)
    assert leniency.value is wrong
    assert leniency.reason.startswith("expected ")
    assert leniency.reason.endswith("; the default is used")
    assert structure(cls, {**message(cls), field.wire: wrong}) == value


@pytest.mark.parametrize(("cls", "field"), marked(Mark.SKIP_INVALID_ITEMS))
def test_items_that_do_not_fit_are_left_out(cls: type[WireObject], field: Field) -> None:
    (good,) = sample(field.node)
    wrong = Alien()
    report: list[Leniency] = []
    value = structure(cls, {**message(cls), field.wire: [wrong, good, wrong, good]}, report)
    expected = structure(cls, {**message(cls), field.wire: [good, good]})
    assert value == expected
    assert len(getattr(value, field.name)) == 2
    assert [leniency.path for leniency in report] == [(field.wire, 0), (field.wire, 2)]
    assert all(leniency.value is wrong for leniency in report)
    assert all(leniency.reason.endswith("; the item is left out") for leniency in report)


@pytest.mark.parametrize(("cls", "field"), marked(Mark.DEFAULT_ON_NULL))
def test_null_in_a_marked_field_is_its_default(cls: type[WireObject], field: Field) -> None:
    report: list[Leniency] = []
    value = structure(cls, {**message(cls), field.wire: None}, report)
    assert getattr(value, field.name) == field.default()
    assert report == [Leniency((field.wire,), "got null; the default is used", None)]
    with pytest.raises(SchemaError):
        structure(cls, {**message(cls), field.wire: Alien()})


@pytest.mark.parametrize("cls", CLASSES)
def test_no_other_field_is_lenient(cls: type[WireObject]) -> None:
    for field in object_node(cls).fields:
        if Mark.DEFAULT_ON_ERROR not in field.marks and not takes_anything(field):
            with pytest.raises(SchemaError) as caught:
                structure(cls, {**message(cls), field.wire: Alien()})
            assert caught.value.path[0] == field.wire
        if field.required:
            raw = message(cls)
            del raw[field.wire]
            with pytest.raises(SchemaError, match="required field is missing") as caught:
                structure(cls, raw)
            assert caught.value.path == (field.wire,)


def test_the_report_names_places_deep_in_a_message() -> None:
    report: list[Leniency] = []
    raw = {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "x",
            "kind": None,
            "content": [
                {
                    "type": "content",
                    "content": {"type": "text", "text": "a", "annotations": {"priority": "high"}},
                },
                {"type": "diff", "path": "/p"},
            ],
        },
    }
    value = structure(acp.SessionNotification, raw, report)
    assert isinstance(value.update, acp.ToolCall)
    assert len(value.update.content) == 1
    assert {leniency.path: leniency.reason for leniency in report} == {
        ("update", "kind"): "expected a string, got null; the default is used",
        ("update", "content", 0, "content", "annotations", "priority"): (
            "expected a number, got 'high'; the default is used"
        ),
        ("update", "content", 1): "newText: required field is missing; the item is left out",
    }


def test_the_default_of_a_field_is_made_anew_each_time() -> None:
    first, second = (structure(acp.ToolCall, {"toolCallId": "t", "title": "x", "content": 5}) for _ in "12")
    first.content.append(acp.Terminal("id"))
    assert second.content == []


def test_the_report_is_bounded() -> None:
    report: list[Leniency] = []
    raw = {"entries": [None] * (MAX_LENIENCIES + 10)}
    assert structure(acp.Plan, raw, report) == acp.Plan([])
    assert len(report) == MAX_LENIENCIES


def test_what_was_tried_and_given_up_is_not_reported() -> None:
    report: list[Leniency] = []
    raw = {"type": "number", "sessionId": "s", "configId": "c", "value": 5, "_meta": 1}
    assert structure(acp.SetSessionConfigOptionRequest, raw, report) == acp.UnknownVariant("number", raw)
    assert report == []
    raw["value"] = "v"
    value = structure(acp.SetSessionConfigOptionRequest, raw, report)
    assert isinstance(value, acp.SetSessionConfigOptionValueRequest)
    assert [leniency.path for leniency in report] == [("_meta",)]


def test_a_malformed_capability_is_an_absent_one() -> None:
    """I3"""
    raw = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": "yes",
            "promptCapabilities": {"image": None, "audio": True},
            "sessionCapabilities": {"list": {}, "delete": True, "resume": None},
        },
    }
    value = structure(acp.InitializeResponse, raw).agent_capabilities
    assert value == acp.AgentCapabilities(
        prompt_capabilities=acp.PromptCapabilities(audio=True),
        session_capabilities=acp.SessionCapabilities(list=acp.SessionListCapabilities()),
    )

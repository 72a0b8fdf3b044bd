"""Forms: what they start with, what fits them, and what is sent (E2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from trio_acp.schema import (
    CreateElicitationFormRequest,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
    ElicitationSchema,
    structure,
)
from trio_acp.workspace import FormProblem, _forms, check_form, form_defaults, form_handler


def form(required: list[str] | None = None, **properties: dict[str, Any]) -> ElicitationSchema:
    schema: ElicitationSchema = structure(
        ElicitationSchema, {"type": "object", "properties": properties, "required": required}
    )
    return schema


TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
MANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}

FITS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"type": "string"}, ["", "x", "ü\n"], [1, True, ["x"], 1.5]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc", "😀😀"], ["a", "abcd", ""]),
    ({"type": "string", "enum": ["a", "b"]}, ["a", "b"], ["c", "", 1]),
    ({"type": "string", "enum": []}, [], ["a"]),
    ({"type": "string", "oneOf": TITLED}, ["r", "g"], ["Red", "b"]),
    ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["ABC", ""]),
    ({"type": "string", "pattern": "b"}, ["abc"], ["ac"]),
    ({"type": "string", "pattern": "(("}, ["anything"], []),
    (
        {"type": "string", "format": "email"},
        ["a@b.example", "a.b+c@d", "ü@x.example"],
        ["a", "@b", "a@", "a@b@c", "a b@c", "a@b..c", "a@.b", "a@b\n"],
    ),
    (
        {"type": "string", "format": "uri"},
        ["https://a.example/x?y#z", "mailto:a@b", "urn:x"],
        ["a", "//x", "/path", "http://a b", "http://[", ""],
    ),
    (
        {"type": "string", "format": "date"},
        ["2024-02-29"],
        ["2023-02-29", "20240229", "2024-2-9", "2024-W01-1", "x" * 10],
    ),
    (
        {"type": "string", "format": "date-time"},
        ["2024-02-29T23:59:59Z", "2024-02-29t00:00:00.123+02:00", "2024-02-29 10:00:00z"],
        ["2024-02-29", "2024-02-29T10:00:00", "2024-13-29T10:00:00Z", "2024-02-29T25:00:00Z", "now"],
    ),
    ({"type": "string", "format": "hostname"}, ["anything"], []),
    (
        {"type": "number", "minimum": 0.5, "maximum": 2},
        [0.5, 1, 2],
        [0.4, 2.1, True, "1", math.nan, math.inf],
    ),
    ({"type": "number"}, [-1e300, 0], [2**63]),
    ({"type": "integer", "minimum": -1, "maximum": 3}, [-1, 3], [-2, 4, 1.0, True, "1"]),
    ({"type": "integer"}, [2**63 - 1, -(2**63)], [2**63]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    (MANY, [[], ["a"], ["c", "a"]], ["a", [1], ["d"], ["a", "a"]]),
    ({**MANY, "minItems": 1, "maxItems": 2}, [["a"], ["a", "b"]], [[], ["a", "b", "c"]]),
    ({"type": "array", "items": {"anyOf": TITLED}}, [["g", "r"]], [["Green"]]),
    ({"type": "array", "items": {"type": "number"}}, [], [["a"], []]),
    ({"type": "colour"}, [], ["red", 1]),
]


@pytest.mark.parametrize(("field", "good", "bad"), FITS)
async def test_a_value_fits_its_field_or_is_told_not_to(
    field: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    schema = form(f=field)
    for value in good:
        assert await check_form(schema, {"f": value}) == [], value
    for value in bad:
        (problem,) = await check_form(schema, {"f": value})
        assert problem.field == "f", value
        assert problem.message


async def test_several_things_can_be_wrong_with_one_text() -> None:
    schema = form(f={"type": "string", "minLength": 5, "format": "email", "pattern": "z"})
    assert len(await check_form(schema, {"f": "x"})) == 3


async def test_required_fields_have_to_be_there_and_others_must_not() -> None:
    schema = form(["a", "b"], a={"type": "string"}, b={"type": "string"})
    problems = await check_form(schema, {"b": "x", "c": "x"})
    assert problems == [
        FormProblem("a", "has to be filled in"),
        FormProblem("c", "is no field of this form"),
    ]
    assert await check_form(form(), {}) == []


async def test_defaults_are_filled_in_unless_they_do_not_fit_themselves() -> None:
    schema = form(
        a={"type": "string", "default": "x"},
        b={"type": "integer", "default": 5, "maximum": 3},
        c={"type": "boolean", "default": False},
        d={**MANY, "default": ["a", "b"]},
        e={"type": "string", "enum": ["x"], "default": "y"},
        f={"type": "number"},
        g={"type": "colour", "default": "red"},
    )
    defaults = await form_defaults(schema)
    assert defaults == {"a": "x", "c": False, "d": ["a", "b"]}
    defaults["d"].append("c")  # type: ignore[union-attr]
    assert (await form_defaults(schema))["d"] == ["a", "b"]


async def test_a_pattern_that_never_ends_is_not_checked_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent's expressions can take longer than the universe lasts."""
    monkeypatch.setattr(_forms, "PATTERN_TIMEOUT", 0.2)
    schema = form(f={"type": "string", "pattern": "^(a+)+$"})
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.001)
            ticks += 1

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            assert await check_form(schema, {"f": "a" * 50 + "b"}) == []
            nursery.cancel_scope.cancel()
    assert ticks > 10
    assert "takes too long" in caplog.text


def request(schema: ElicitationSchema) -> CreateElicitationFormRequest:
    return CreateElicitationFormRequest("Please", schema, session_id="s1")


async def test_only_what_fits_is_sent_and_the_rest_goes_back_with_what_is_wrong() -> None:
    seen: list[tuple[dict[str, Any], list[str]]] = []

    async def fill(
        asked: CreateElicitationFormRequest, content: dict[str, Any], problems: Sequence[FormProblem]
    ) -> dict[str, Any]:
        seen.append((dict(content), [problem.message for problem in problems]))
        content["n"] = [10, 3][len(seen) - 1]
        return content

    schema = form(["n"], n={"type": "integer", "maximum": 5}, s={"type": "string", "default": "x"})
    answer = await form_handler(fill)(request(schema))
    assert isinstance(answer, ElicitationAcceptAction)
    assert answer.content == {"n": 3, "s": "x"}
    assert seen == [({"s": "x"}, []), ({"s": "x", "n": 10}, ["has to be 5 or less"])]


@pytest.mark.parametrize("action", [ElicitationDeclineAction(), ElicitationCancelAction()])
async def test_decline_and_cancel_are_sent_as_what_they_are(action: Any) -> None:
    async def fill(*_: Any) -> Any:
        return action

    assert await form_handler(fill)(request(form())) is action


async def test_whoever_never_learns_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    times = 0

    async def fill(*_: Any) -> dict[str, Any]:
        nonlocal times
        times += 1
        return {"unknown": 1}

    assert isinstance(await form_handler(fill)(request(form())), ElicitationCancelAction)
    assert times == _forms.MAX_FORM_ATTEMPTS
    assert "given up" in caplog.text


async def test_an_answer_that_comes_when_the_question_is_gone_is_not_sent() -> None:
    """Stale answers are fenced."""
    answers: list[object] = []

    async def fill(*_: Any) -> dict[str, Any]:
        with trio.CancelScope(shield=True):
            scope.cancel()
            await trio.lowlevel.checkpoint()
        return {}

    with trio.CancelScope() as scope:
        answers.append(await form_handler(fill)(request(form())))
    assert answers == []

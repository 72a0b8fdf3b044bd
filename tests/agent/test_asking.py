"""What a prompt handler can ask the user: permission, a choice, a form."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.driving import CANCELLED, OWN, answering, run, select, statuses
from tests.agent.scripted import WireError
from trio_acp import _errors as errors
from trio_acp.agent import PromptContext
from trio_acp.agent._asking import check_answers
from trio_acp.schema import (
    BooleanPropertySchema,
    ElicitationSchema,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    PermissionOption,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    ToolKind,
    UnknownVariant,
)

# Permission (P1, P2) -----------------------------------------------------------------------------------


async def test_options_that_share_an_id_are_refused_before_they_are_sent() -> None:
    """P1: a refusal under the id of a consent would be one."""
    twins = [PermissionOption("x", "Allow", "allow_once"), PermissionOption("x", "Reject", "reject_once")]

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(ValueError, match="the same id"):
            await ctx.ask_permission("Delete it?", options=twins)
        async with ctx.tool_call("t") as call:
            with pytest.raises(ValueError, match="the same id"):
                await call.ask_permission(options=twins)

    _, client = await run(handler)
    assert client.params("session/request_permission") == []


@pytest.mark.parametrize(
    ("answer", "allowed", "end"),
    [
        (select("allow-once"), True, "completed"),
        (select("reject-once"), False, "completed"),
        (CANCELLED, False, "failed"),
    ],
)
async def test_permission_is_asked_about_a_call_of_its_own(
    answer: dict[str, Any], allowed: bool, end: str
) -> None:
    """P1, P2"""

    async def handler(ctx: PromptContext) -> bool:
        return await ctx.ask_permission("Delete it?", kind=ToolKind.DELETE)

    result, client = await run(handler, answering(session__request_permission=answer))
    assert result is allowed
    assert statuses(client) == ["pending", end]
    asked = client.params("session/request_permission")[0]
    assert asked["toolCall"] == {
        "toolCallId": client.updates("tool_call")[0]["toolCallId"],
        "title": "Delete it?",
        "kind": "delete",
        "status": "pending",
    }
    assert [(option["optionId"], option["kind"]) for option in asked["options"]] == [
        ("allow-once", "allow_once"),
        ("reject-once", "reject_once"),
    ]
    # The call is announced before the question about it, and settled after the answer.
    methods = client.methods()
    at = methods.index("session/request_permission")
    assert methods[at - 1 : at + 2] == ["session/update", "session/request_permission", "session/update"]


@pytest.mark.parametrize(("option", "allowed"), [("yes", True), ("yolo", False), ("no", False)])
async def test_only_an_option_of_a_kind_that_allows_is_consent(option: str, allowed: bool) -> None:
    """P2, F5: an unknown kind never is."""

    async def handler(ctx: PromptContext) -> bool:
        return await ctx.ask_permission("?", options=OWN)

    result, _ = await run(handler, answering(session__request_permission=select(option)))
    assert result is allowed


@pytest.mark.parametrize(
    ("answer", "error", "word"),
    [
        (select("other"), errors.InternalError, "'other', which was not offered"),
        ({"outcome": {"outcome": "shrugged"}}, errors.InternalError, "'shrugged'"),
        ({"outcome": {"outcome": "selected"}}, errors.InvalidResponse, "optionId"),
        ({}, errors.InvalidResponse, "outcome"),
        (None, errors.InvalidResponse, "outcome"),
        (WireError(-32800), errors.RequestCancelled, "no"),
    ],
)
async def test_an_answer_that_was_not_offered_is_an_error_that_names_it(
    answer: Any, error: type[Exception], word: str
) -> None:
    """P1, F5"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(error, match=word):
            await ctx.ask_permission("?")
        with pytest.raises(error, match=word):
            await ctx.ask_choice("?", "a")
        async with ctx.tool_call("?", start=False) as call:
            with pytest.raises(error, match=word):
                await call.ask_permission()

    _, client = await run(handler, answering(session__request_permission=answer))
    assert statuses(client) == ["pending", "failed", "pending", "failed", "pending", "completed"]


async def test_a_tool_call_asks_about_itself_and_starts_when_it_may() -> None:
    """P1"""

    async def handler(ctx: PromptContext) -> list[bool]:
        results: list[bool] = []
        async with ctx.tool_call("edit", kind="edit", raw_input=[1], locations=["/f"], start=False) as call:
            await call.add_content("details")
            results.append(await call.ask_permission())
        async with ctx.tool_call("edit", start=True) as call:
            results.append(await call.ask_permission())
        async with ctx.tool_call("edit", start=False) as call:
            results.append(await call.ask_permission())
            await call.complete()
        return results

    script = answering(session__request_permission=[select("allow-once"), CANCELLED, select("reject-once")])
    result, client = await run(handler, script)
    assert result == [True, False, False]
    assert statuses(client) == [
        *("pending", "in_progress", "completed"),
        *("pending", "in_progress", "failed"),
        *("pending", "completed"),
    ]
    asked = client.params("session/request_permission")[0]["toolCall"]
    assert asked["toolCallId"] == client.updates("tool_call")[0]["toolCallId"]
    assert asked["rawInput"] == [1]
    assert asked["locations"] == [{"path": "/f"}]
    assert asked["content"][0]["content"]["text"] == "details"


@pytest.mark.parametrize(("option", "allowed"), [("allow-always", True), ("reject-always", False)])
async def test_always_is_remembered_in_its_session(option: str, allowed: bool) -> None:
    """F14"""

    async def handler(ctx: PromptContext) -> list[bool]:
        results = [await ctx.ask_permission("run ls?", remember="run") for _ in range(2)]
        async with ctx.tool_call("run", start=False) as call:
            results.append(await call.ask_permission(remember="run"))
        results.append(await ctx.ask_permission("other?", remember="other"))
        results.append(await ctx.ask_permission("other?", remember="other"))
        return results

    script = answering(
        session__request_permission=[select(option), select("allow-once"), select("reject-once")]
    )
    result, client = await run(handler, script)
    assert result == [allowed, allowed, allowed, True, False]
    assert [option["optionId"] for option in client.params("session/request_permission")[0]["options"]] == [
        "allow-once",
        "reject-once",
        "allow-always",
        "reject-always",
    ]


async def test_a_permission_request_without_options_is_refused_here() -> None:
    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(ValueError, match="at least one option"):
            await ctx.ask_permission("?", options=[])

    await run(handler)


@pytest.mark.parametrize(
    ("answer", "chosen", "end"), [(select("choice-2"), "XML", "completed"), (CANCELLED, None, "failed")]
)
async def test_a_choice_returns_what_was_chosen(answer: dict[str, Any], chosen: str | None, end: str) -> None:
    """P1"""

    async def handler(ctx: PromptContext) -> Any:
        with pytest.raises(ValueError, match="at least one thing"):
            await ctx.ask_choice("?")
        return await ctx.ask_choice("Which format?", "JSON", "XML", "XML")

    result, client = await run(handler, answering(session__request_permission=answer))
    assert result == chosen
    assert statuses(client) == ["pending", end]
    options = client.params("session/request_permission")[0]["options"]
    assert [option["name"] for option in options] == ["JSON", "XML", "XML"]
    assert len({option["optionId"] for option in options}) == 3


# Elicitation (E1 to E3) --------------------------------------------------------------------------------


async def test_a_form_is_filled_in() -> None:
    """E1, E2"""

    async def handler(ctx: PromptContext) -> Any:
        async with ctx.tool_call("ask") as call:
            first = await ctx.elicit("who?", {"name": StringPropertySchema()}, tool_call=call)
        second = await ctx.elicit("who?", {"name": StringPropertySchema()}, required=[])
        third = await ctx.elicit("who?", ElicitationSchema(title="t"))
        return first, second, third

    script = answering(
        elicitation__create=[
            {"action": "accept", "content": {"name": "me", "more": 1}},
            {"action": "accept"},
            {"action": "accept", "content": None},
        ]
    )
    result, client = await run(handler, script)
    assert result == ({"name": "me"}, {}, {})
    first, second, third = client.params("elicitation/create")
    assert first == {
        "mode": "form",
        "message": "who?",
        "sessionId": first["sessionId"],
        "toolCallId": client.updates("tool_call")[0]["toolCallId"],
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    }
    assert "toolCallId" not in second
    assert third["requestedSchema"]["title"] == "t"


@pytest.mark.parametrize("action", ["decline", "cancel", "_shrug"])
async def test_anything_but_acceptance_of_a_form_is_none(action: str) -> None:
    """E2"""

    async def handler(ctx: PromptContext) -> Any:
        return await ctx.elicit("?", {}), await ctx.elicit_url("?", "https://x")

    result, _ = await run(handler, answering(elicitation__create={"action": action, "content": {"a": 1}}))
    assert result == (None, False)


async def test_a_url_is_opened_on_consent_and_completed_later() -> None:
    """E3"""

    async def handler(ctx: PromptContext) -> Any:
        assert await ctx.elicit_url("log in", "https://a.example/x")
        assert await ctx.elicit_url("log in", "https://a.example/x", elicitation_id="own")
        await ctx.client.complete_elicitation("own")

    _, client = await run(handler, answering(elicitation__create={"action": "accept"}))
    first, second = client.params("elicitation/create")
    assert (first["mode"], first["url"]) == ("url", "https://a.example/x")
    assert second["elicitationId"] == "own" != first["elicitationId"]
    assert client.params("elicitation/complete") == [{"elicitationId": "own"}]


TEXT = StringPropertySchema(min_length=2, max_length=3, pattern="^[a-z]+$")
ENUM = StringPropertySchema(enum=["a", "b"])
ONE_OF = StringPropertySchema(one_of=[EnumOption("a", "A")])
INTEGER = IntegerPropertySchema(minimum=1, maximum=3)
NUMBER = NumberPropertySchema(minimum=0.5, maximum=1.5)
MULTI = MultiSelectPropertySchema(StringMultiSelectItems(["a", "b"]), min_items=1, max_items=2)
TITLED = MultiSelectPropertySchema(TitledMultiSelectItems([EnumOption("a", "A")]))
ODD_ITEMS = MultiSelectPropertySchema(UnknownVariant("odd", {"type": "odd"}))


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (TEXT, ["ab"], [5, "a", "abcd", "AB"]),
        (StringPropertySchema(pattern=r"\p{Letter}"), ["anything"], [5]),
        (ENUM, ["a"], ["c"]),
        (ONE_OF, ["a"], ["b"]),
        (BooleanPropertySchema(), [True], [1, "true"]),
        (INTEGER, [1, 3], [0, 4, True, 1.5, "1"]),
        (IntegerPropertySchema(), [-5], ["x"]),
        (NUMBER, [0.5, 1], [0.4, 2, True, "1"]),
        (MULTI, [["a"], ["a", "b"]], [[], ["c"], ["a", "b", "a"], "a"]),
        (TITLED, [[], ["a"]], [["b"]]),
        (ODD_ITEMS, [["anything"]], ["x"]),
        (UnknownVariant("odd", {"type": "odd"}), ["anything", 5], []),
    ],
)
def test_answers_are_checked_against_the_form(field: Any, good: list[Any], bad: list[Any]) -> None:
    """E2"""
    form = ElicitationSchema(properties={"x": field})
    for value in good:
        assert check_answers(form, {"x": value}) == {"x": value}
    for value in bad:
        with pytest.raises(errors.InvalidResponse, match="'x'"):
            check_answers(form, {"x": value})
    assert check_answers(form, {}) == {}
    with pytest.raises(errors.InvalidResponse, match="lacks 'x'"):
        check_answers(ElicitationSchema(properties={"x": field}, required=["x"]), {})

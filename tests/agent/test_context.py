"""What a prompt handler can tell: updates and tool calls."""

from __future__ import annotations

import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.agent.driving import run, statuses
from trio_acp import _errors as errors
from trio_acp.agent import PromptContext, ToolCallContext
from trio_acp.schema import (
    AgentThoughtChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    CurrentModeUpdate,
    ImageContent,
    SessionInfoUpdate,
    TextContent,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
    UnknownVariant,
)

# Updates (T2, T5) --------------------------------------------------------------------------------------


async def test_pieces_in_a_row_are_one_message_and_what_people_see_between_them_ends_it() -> None:
    """T5, S3: thoughts, tool calls and plans end a message; usage and titles do not."""

    async def handler(ctx: PromptContext) -> None:
        await ctx.send_message("a")
        await ctx.send_message("b")
        await ctx.send_usage(1, 2)
        await ctx.set_title("t")
        await ctx.send_message("c")
        await ctx.send_thought("d")
        await ctx.send_message("e")
        async with ctx.tool_call("t"):
            await ctx.send_message("f")
        await ctx.send_message("g")
        await ctx.send_plan(["p"])
        await ctx.send_message("h")
        ctx.new_message()
        await ctx.send_message("i")
        await ctx.send_message("j", message_id="own")
        await ctx.send_message("k")
        await ctx.send_update(CurrentModeUpdate("m"))
        await ctx.send_message("l", message_id="own")

    _, client = await run(handler)
    groups: dict[str, str] = {}
    for update in client.updates("agent_message_chunk", "agent_thought_chunk"):
        groups.setdefault(update["messageId"], "")
        groups[update["messageId"]] += update["content"]["text"]
    assert list(groups.values()) == ["abc", "d", "e", "f", "g", "h", "i", "jkl"]
    assert groups["own"] == "jkl"


async def test_any_content_block_can_be_a_message() -> None:
    async def handler(ctx: PromptContext) -> None:
        await ctx.send_message(ImageContent("aGk=", "image/png"))
        await ctx.send_thought(TextContent("t", meta={"a": 1}))

    _, client = await run(handler)
    assert [update["content"] for update in client.updates()] == [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "text", "text": "t", "_meta": {"a": 1}},
    ]


async def test_raw_updates_go_out_as_they_are_and_are_remembered() -> None:
    """W8"""

    async def handler(ctx: PromptContext) -> Any:
        await ctx.send_update(AgentThoughtChunk(TextContent("t")))
        await ctx.send_update({"sessionUpdate": "_odd", "x": [1]})
        await ctx.send_update(UnknownVariant("_other", {"sessionUpdate": "_other", "y": 2}))
        await ctx.send_update(SessionInfoUpdate(title="a title"))
        await ctx.send_update(SessionInfoUpdate(updated_at="now"))
        await ctx.send_update(ConfigOptionUpdate([]))
        await ctx.send_update(ToolCallUpdate("x", title="y"))
        for wrong in ({}, {"sessionUpdate": 5}):
            with pytest.raises(ValueError, match="sessionUpdate"):
                await ctx.send_update(wrong)
        return ctx.session.title, ctx.session.config_options

    result, client = await run(handler)
    assert result == ("a title", [])
    assert client.updates()[1:3] == [
        {"sessionUpdate": "_odd", "x": [1]},
        {"sessionUpdate": "_other", "y": 2},
    ]
    assert client.updates()[-1]["sessionUpdate"] == "tool_call_update"


MALFORMED_UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "current_mode_update"},
    {"sessionUpdate": "config_option_update", "configOptions": 5},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}},
    {"sessionUpdate": "tool_call", "toolCallId": 3, "title": "t"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": 5},  # would be read leniently
    {"sessionUpdate": "session_info_update", "title": 5},
]


async def test_raw_updates_that_are_not_what_they_say_are_refused_before_they_are_sent() -> None:
    """W8: sending is strict"""

    async def handler(ctx: PromptContext) -> Any:
        for wrong in MALFORMED_UPDATES:
            with pytest.raises(errors.SchemaError):
                await ctx.send_update(wrong)
        return ctx.session.title

    result, client = await run(handler)
    assert result is None
    assert client.updates() == []


async def test_updates_with_values_of_other_types_are_refused_before_they_are_sent() -> None:
    """What type checkers see, and programs without one do not."""
    odd: Any = 5
    text: Any = "5"
    senders: list[Callable[[PromptContext], Awaitable[Any]]] = [
        lambda ctx: ctx.send_message(odd),
        lambda ctx: ctx.send_message("x", message_id=odd),
        lambda ctx: ctx.send_plan([odd]),
        lambda ctx: ctx.send_usage(1, text),
        lambda ctx: ctx.set_title(odd),
        lambda ctx: ctx.set_commands([odd]),
        lambda ctx: ctx.set_mode(odd),
        lambda ctx: ctx.send_notice("info", "t", odd),
        lambda ctx: ctx.tool_call(odd).__aenter__(),
        lambda ctx: ctx.tool_call("t", name=odd).__aenter__(),
    ]

    async def handler(ctx: PromptContext) -> Any:
        for send in senders:
            with pytest.raises(errors.SchemaError):
                await send(ctx)
        return ctx.session.title

    result, client = await run(handler)
    assert result is None
    assert client.updates() == []


async def test_updates_that_need_a_capability_are_not_sent_without_it() -> None:
    """I3"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(errors.CapabilityError, match=r"session\.notices"):
            await ctx.send_notice("info", "x")
        for tag in ("compaction_update", "compaction_summary_chunk"):
            with pytest.raises(errors.CapabilityError, match=r"session\.compaction"):
                await ctx.send_update({"sessionUpdate": tag})

    _, client = await run(handler, capabilities={"session": {"notices": None}})
    assert client.updates() == []

    async def allowed(ctx: PromptContext) -> None:
        await ctx.send_update(CompactionUpdate("c", "in_progress"))

    _, client = await run(allowed)
    assert client.updates("compaction_update") == [
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}
    ]


# Tool calls (T4) ---------------------------------------------------------------------------------------


async def test_a_tool_call_is_pending_then_in_progress_then_completed() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        call = ctx.tool_call(
            "look",
            kind=ToolKind.READ,
            content=["text", Content(TextContent("block"))],
            locations=["a", ToolCallLocation("/b", 3)],
            raw_input={"q": 1},
            name="look_it_up",
        )
        for attempt in (call.start, lambda: call.add_content("x"), call.ask_permission):
            with pytest.raises(errors.LocalProtocolError, match="not running"):
                await attempt()
        async with call:
            await call.start()
            with pytest.raises(errors.LocalProtocolError, match="entered once"):
                await call.__aenter__()
        with pytest.raises(errors.LocalProtocolError, match="not running"):
            await call.add_content("x")

    _, client = await run(handler)
    start, *_ = client.updates("tool_call")
    assert start == {
        "sessionUpdate": "tool_call",
        "toolCallId": start["toolCallId"],
        "title": "look",
        "name": "look_it_up",
        "kind": "read",
        "status": "pending",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "text"}},
            {"type": "content", "content": {"type": "text", "text": "block"}},
        ],
        "locations": [{"path": "/proj/a"}, {"path": "/b", "line": 3}],
        "rawInput": {"q": 1},
    }
    assert statuses(client) == ["pending", "in_progress", "completed"]


async def test_a_tool_call_tells_its_news_and_lists_are_replaced_whole() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        async with ctx.tool_call("t", start=False) as call:
            await call.add_content("one")
            await call.add_diff(pathlib.PurePosixPath("f"), "new", "old")
            await call.add_terminal("t1")
            await call.add_location("f", 2)
            with pytest.raises(ValueError, match="counted from 1"):
                await call.add_location("f", 0)
            await call.update(title="T", kind=ToolKind.EDIT, raw_input={"a": 1}, raw_output=[2])
            await call.update(content=[], locations=[])
            assert (call.title, call.kind, call.content, call.locations) == ("T", "edit", [], [])

    _, client = await run(handler)
    updates = client.updates("tool_call_update")
    assert [len(update["content"]) for update in updates[:3]] == [1, 2, 3]
    assert updates[2]["content"][1:] == [
        {"type": "diff", "path": "/proj/f", "oldText": "old", "newText": "new"},
        {"type": "terminal", "terminalId": "t1"},
    ]
    assert updates[3]["locations"] == [{"path": "/proj/f", "line": 2}]
    assert updates[4] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": updates[0]["toolCallId"],
        "title": "T",
        "kind": "edit",
        "rawInput": {"a": 1},
        "rawOutput": [2],
    }
    assert (updates[5]["content"], updates[5]["locations"]) == ([], [])
    assert updates[6]["status"] == "completed"


async def test_a_tool_call_that_raises_or_is_told_to_fails() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(ValueError, match="broken"):
            async with ctx.tool_call("a"):
                raise ValueError("broken")
        async with ctx.tool_call("b") as call:
            await call.fail("it did not work")
        async with ctx.tool_call("c") as call:
            await call.fail()
            await call.complete()
        async with ctx.tool_call("d") as call:
            await call.fail()
            await call.complete("it did work")

    _, client = await run(handler)
    assert [status for status in statuses(client) if status not in ("pending", "in_progress")] == [
        "failed",
        "failed",
        "completed",
        "completed",
    ]
    contents = [update["content"][0]["content"]["text"] for update in client.updates() if "content" in update]
    assert contents == ["it did not work", "it did work"]


async def test_a_tool_call_that_is_cancelled_anywhere_is_settled() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        with trio.CancelScope() as scope:
            async with ctx.tool_call("a"):
                scope.cancel()
                await trio.lowlevel.checkpoint()
        with trio.CancelScope() as scope:
            async with ctx.tool_call("b"):
                scope.cancel()
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            scope.cancel()
            async with ctx.tool_call("never announced"):
                pytest.fail("entered in a cancelled scope")

    _, client = await run(handler)
    assert statuses(client) == ["pending", "in_progress", "failed", "pending", "in_progress", "completed"]


async def test_a_tool_call_that_is_cancelled_between_its_two_beginnings_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        with trio.CancelScope() as scope:
            real = ToolCallContext.start

            async def start(call: ToolCallContext) -> None:
                scope.cancel()
                await real(call)

            monkeypatch.setattr(ToolCallContext, "start", start)
            async with ctx.tool_call("a"):
                pytest.fail("entered in a cancelled scope")

    _, client = await run(handler)
    assert statuses(client) == ["pending", "failed"]

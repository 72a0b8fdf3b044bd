"""The agent as a model, event by event: what a stream tells, how it fails, and what leaving it does."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._conversations import WIRE_IMAGE, events_of, reply, wire_text
from tests.client._scripted import Scene, Wire
from trio_acp import (
    AcpOptions,
    InternalError,
    PermissionRequest,
    Selected,
    SessionBusy,
)
from trio_acp.client import (
    Done,
    ErrorEvent,
    ModelReply,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from trio_acp.schema import StopReason, ToolCallStatus, UsageUpdate

Clock = trio.testing.MockClock


async def test_a_stream_tells_texts_tool_calls_results_usage_and_the_whole(autojump_clock: Clock) -> None:
    """T4, T5, S8: one call and one result for each tool call, however many updates it had; no thoughts."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.update("agent_thought_chunk", content=wire_text("hm"))
        await wire.text("")
        await wire.text("Look: ")
        await wire.update("agent_message_chunk", content=WIRE_IMAGE)
        await wire.update("tool_call", toolCallId="t", title="ls", kind="search", status="pending")
        await wire.update("tool_call_update", toolCallId="t", status="in_progress", rawInput={"path": "."})
        content = [{"type": "content", "content": wire_text(text)} for text in ("a.py", "b.py")]
        diff = {"type": "diff", "path": "/a.py", "newText": ""}
        await wire.update("tool_call_update", toolCallId="t", content=[*content, diff], title="List of .")
        await wire.update("tool_call_update", toolCallId="t", status="completed")
        await wire.update("tool_call_update", toolCallId="t", status="completed", title="Listed")
        await wire.update("usage_update", used=5, size=10)
        await wire.update("plan", entries=[])
        await wire.text("two files")
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        events = await events_of(agent.generate_stream("x"))
    arguments = {"path": "."}
    result = ToolResultEvent("t", "ls", arguments, "a.py\nb.py", False, ToolCallStatus.COMPLETED, "acp")
    usage = UsageUpdate(5, 10)
    assert events == [
        TextDelta("Look: "),
        ToolCallEvent("t", "ls", {}, via="acp"),
        result,
        UsageEvent(usage),
        TextDelta("two files"),
        Done(
            ModelReply(
                "Look: two files",
                (ToolCallEvent("t", "ls", arguments, via="acp"),),
                (result,),
                usage=usage,
                stop_reason=StopReason.END_TURN,
            )
        ),
    ]


async def test_every_tool_call_has_a_name_and_a_result(autojump_clock: Clock) -> None:
    """A failed call, one never announced, one that ends as it begins, one that is left unfinished."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.update("tool_call", toolCallId="a", title="T", name="ls", rawOutput=[1], status="failed")
        await wire.update("tool_call_update", toolCallId="b", status="completed")
        await wire.update("tool_call", toolCallId="c", title="", kind="read", status="in_progress")
        await wire.update("tool_call_update", toolCallId="d", kind="read", rawInput="x")
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        *events, done = await events_of(agent.generate_stream("x"))
    assert [(type(event).__name__, event.id, event.name, event.arguments) for event in events] == [
        ("ToolCallEvent", "a", "ls", {}),
        ("ToolResultEvent", "a", "ls", {}),
        ("ToolCallEvent", "b", "tool", {}),
        ("ToolResultEvent", "b", "tool", {}),
        ("ToolCallEvent", "c", "read", {}),
        ("ToolCallEvent", "d", "read", "x"),
        ("ToolResultEvent", "c", "read", {}),
        ("ToolResultEvent", "d", "read", "x"),
    ]
    results = [event for event in events if isinstance(event, ToolResultEvent)]
    assert [(result.output, result.is_error, result.status) for result in results] == [
        ([1], True, "failed"),
        (None, False, "completed"),
        (None, True, "in_progress"),
        (None, True, None),
    ]
    assert list(done.result.tool_results) == results


async def test_a_stream_that_fails_tells_of_it_and_raises(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("a")
        await wire.error(prompt, -32603)
        await reply(wire, "again", "yes")

    async with Scene(script) as (agent, _wire):
        seen: list[Any] = []
        with pytest.raises(InternalError) as caught:
            async with agent.generate_stream("x") as events:
                async for event in events:
                    seen.append(event)
        assert seen == [TextDelta("a"), ErrorEvent(caught.value)]
        assert await agent.generate("again") == "yes"


async def test_leaving_a_stream_early_cancels_the_turn(autojump_clock: Clock) -> None:
    """X1: the session stays warm, and the unanswered message is sent again if repeated."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("a")
        await wire.expect("session/cancel")
        await wire.text("b")
        await wire.end(prompt, "cancelled")
        await reply(wire, "one", "uno")

    async with Scene(script) as (agent, _wire):
        async with agent.generate_stream([("user", "one")]) as events:
            async for event in events:
                assert event == TextDelta("a")
                break
            assert repr(events).startswith("<GenerateStream <Turn")
        assert events.turn.stop_reason == "cancelled"
        assert await agent.generate([("user", "one")]) == "uno"


async def test_leaving_a_stream_that_has_ended_counts_as_answered(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "one", "uno")
        await reply(wire, "two", "dos")
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        async with agent.generate_stream([("user", "one")]) as events:
            await events.turn.wait()
        history: list[Any] = [("user", "one"), ("assistant", "uno"), ("user", "two")]
        assert isinstance((await events_of(agent.generate_stream(history)))[-1], Done)


async def test_a_consumer_of_a_stream_may_be_slow(autojump_clock: Clock) -> None:
    """The bounds are those of a turn: nothing is lost, and other conversations go on meanwhile."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for number in range(300):
            await wire.text(f"{number} ")
        await wire.new_session("s2")
        await reply(wire, "other", "done", "s2")
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        async with agent.generate_stream("x") as events:
            assert await anext(events) == TextDelta("0 ")
            assert await agent.generate("other", conversation="2") == "done"
            await trio.sleep(20)
            rest: list[Any] = [event async for event in events]
    assert len(rest) == 300
    assert rest[-1].result.text == "".join(f"{number} " for number in range(300))


async def test_what_a_handler_raises_leaves_a_stream_as_itself(autojump_clock: Clock) -> None:
    async def on_permission(request: PermissionRequest) -> Selected:
        raise KeyError("mine")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await wire.answer(id)
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await reply(wire, "again", "yes")

    async with Scene(script, AcpOptions(on_permission=on_permission)) as (agent, _wire):
        with pytest.raises(KeyError, match="mine"):
            await events_of(agent.generate_stream("x"))
        assert await agent.generate("again") == "yes"


async def test_an_exception_in_the_body_of_a_stream_leaves_it_as_itself(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")

    async with Scene(script) as (agent, _wire):
        with pytest.raises(KeyError, match="mine"):
            async with agent.generate_stream("x", cancel=trio.Event()):
                raise KeyError("mine")


async def test_the_body_of_a_stream_cannot_wait_for_its_own_end(autojump_clock: Clock) -> None:
    """It is told so at once, while a task that comes later may use the conversation."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "x", "a")
        await reply(wire, "later", "fine")

    later = trio.Event()

    async with Scene(script) as (agent, _wire), trio.open_nursery() as nursery:
        async with agent.generate_stream("x") as events:
            with pytest.raises(SessionBusy, match="body of its stream"):
                await agent.generate("inner")

            @nursery.start_soon
            async def _() -> None:
                await later.wait()
                assert await agent.generate("later") == "fine"

            assert [type(event) async for event in events] == [TextDelta, Done]
        later.set()


async def test_a_stream_is_a_block_that_is_entered_once(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "x", "a")

    async with Scene(script) as (agent, _wire):
        stream = agent.generate_stream("x")
        assert repr(stream) == "<GenerateStream not entered>"
        with pytest.raises(RuntimeError, match="enter the stream first"):
            await anext(stream)
        await events_of(stream)
        with pytest.raises(RuntimeError, match="entered once"):
            await events_of(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

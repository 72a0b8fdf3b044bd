"""Streams of runs: their events, how they fail, and what leaving them does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import trio
import trio.testing

from tests.model._models import ACP_CALL, ACP_RESULT, Model, add, call, collect, scripted, streaming
from trio_acp.model import (
    Done,
    ErrorEvent,
    InProcessClient,
    MemoryConversationStore,
    ModelReply,
    RunEvent,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)

Clock = trio.testing.MockClock


async def test_a_stream_gives_every_event_of_a_run_and_its_result() -> None:
    first = ModelReply("Let me", [ACP_CALL, call(a=1, b=2)], [ACP_RESULT], usage={"tokens": 1})
    _, client = streaming(first, ModelReply("It is 3"), tools=[add])
    *events, done = await collect(client, "x")
    local = ToolResultEvent("c1", "add", {"a": 1, "b": 2}, 3, False, "completed", via="local")
    assert events == [
        TextDelta("Let"),
        TextDelta("me"),
        ACP_CALL,
        call(a=1, b=2),
        ACP_RESULT,
        UsageEvent({"tokens": 1}),
        local,
        TextDelta("It"),
        TextDelta("is"),
        TextDelta("3"),
    ]
    assert isinstance(done, Done)
    assert (done.result.text, done.result.turns) == ("It is 3", 2)
    assert done.result.tool_calls == (ACP_RESULT, local)


async def test_a_run_alone_needs_no_function_for_whole_replies() -> None:
    _, client = streaming(ModelReply("a b"))
    assert (await client.run("x")).text == "a b"


async def test_a_client_without_a_stream_says_what_to_pass() -> None:
    _, client = scripted()
    with pytest.raises(TypeError, match=r"generate_stream=agent\.generate_stream"):
        client.stream("x")


def stream_of(*events: Any) -> Any:
    """A source that gives these events and raises those that are exceptions."""

    @contextlib.asynccontextmanager
    async def generate_stream(messages: Any) -> AsyncGenerator[Any, None]:
        async def each() -> AsyncGenerator[Any, None]:  # noqa: ASYNC900 - no scope in it
            for event in events:
                if isinstance(event, BaseException):
                    raise event
                yield event

        async with contextlib.aclosing(each()) as stream:
            yield stream

    return generate_stream


async def test_a_reply_that_is_not_given_whole_is_put_together() -> None:
    source = stream_of(
        TextDelta("a"), ACP_CALL, ACP_RESULT, UsageEvent({"n": 1}), UsageEvent({"n": 2}), TextDelta("b")
    )
    result = await InProcessClient(generate_stream=source).run("x")
    assert (result.text, result.tool_calls, result.usage) == ("ab", (ACP_RESULT,), {"n": 3})


async def test_a_call_that_only_the_whole_reply_has_is_told_before_it_is_run() -> None:
    model = Model()
    replies = [ModelReply("", [call(a=1, b=1)]), ModelReply("end")]

    @contextlib.asynccontextmanager
    async def generate_stream(messages: Any) -> AsyncGenerator[Any, None]:
        async with stream_of(Done(replies.pop(0)))(messages) as events:
            yield events

    client = InProcessClient(generate=model.generate, generate_stream=generate_stream, tools=[add])
    events = await collect(client, "x")
    assert [type(event) for event in events] == [ToolCallEvent, ToolResultEvent, Done]


async def test_a_stream_that_fails_tells_of_it_and_raises() -> None:
    """Whether its source raises, or only tells."""
    error = KeyError("mine")
    for last in (error, ErrorEvent(error)):
        client = InProcessClient(generate_stream=stream_of(TextDelta("a"), last))
        seen: list[RunEvent] = []
        with pytest.raises(KeyError, match="mine"):
            async with client.stream("x") as stream:
                async for event in stream:
                    seen.append(event)
        assert seen == [TextDelta("a"), ErrorEvent(error)]


async def test_a_failure_that_nobody_was_told_of_leaves_the_block() -> None:
    client = InProcessClient(generate_stream=stream_of(KeyError("mine")))
    with pytest.raises(KeyError, match="mine"):
        async with client.stream("x"):
            await trio.testing.wait_all_tasks_blocked()


async def test_the_bodys_exception_goes_before_a_failure_that_nobody_was_told_of() -> None:
    client = InProcessClient(generate_stream=stream_of(KeyError("mine")))
    with pytest.raises(ZeroDivisionError) as caught:
        async with client.stream("x"):
            await trio.testing.wait_all_tasks_blocked()
            raise ZeroDivisionError
    assert isinstance(caught.value.__context__, KeyError)
    with pytest.raises(ZeroDivisionError) as caught:
        async with client.stream("x"):
            await trio.testing.wait_all_tasks_blocked()
            try:
                raise ValueError
            except ValueError:
                raise ZeroDivisionError  # noqa: B904 - the context is the point
    assert isinstance(caught.value.__context__, ValueError)


async def test_a_failure_that_was_told_of_does_not_leave_the_block_again() -> None:
    client = InProcessClient(generate_stream=stream_of(KeyError("mine")))
    async with client.stream("x") as stream:
        assert isinstance(await anext(stream), ErrorEvent)
    with pytest.raises(ZeroDivisionError) as caught:
        async with client.stream("x") as stream:
            assert isinstance(await anext(stream), ErrorEvent)
            raise ZeroDivisionError
    assert caught.value.__context__ is None


async def test_what_is_no_event_is_refused() -> None:
    client = InProcessClient(generate_stream=stream_of("text"))
    with pytest.raises(TypeError, match="model events, not str"):
        await client.run("x")


async def test_a_stream_is_a_block_that_is_entered_once() -> None:
    _, client = streaming(ModelReply("a"))
    stream = client.stream("x")
    with pytest.raises(RuntimeError, match="enter the stream first"):
        await anext(stream)
    async with stream:
        assert len([event async for event in stream]) == 2
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    with pytest.raises(RuntimeError, match="entered once"):
        async with stream:
            raise AssertionError


class Patient:
    """A source whose block tells what becomes of it."""

    def __init__(self) -> None:
        self.cancelled = False
        self.sent = 0

    @contextlib.asynccontextmanager
    async def generate_stream(self, messages: Any) -> AsyncGenerator[Any, None]:
        async def events() -> AsyncGenerator[Any, None]:  # noqa: ASYNC900 - no scope in it
            while True:
                await trio.lowlevel.checkpoint()
                yield TextDelta("a")
                self.sent += 1

        try:
            async with contextlib.aclosing(events()) as stream:
                yield stream
        except trio.Cancelled:
            self.cancelled = True
            raise


async def test_leaving_a_stream_early_cancels_the_run_and_saves_nothing() -> None:
    source = Patient()
    store = MemoryConversationStore()
    client = InProcessClient(generate_stream=source.generate_stream, store=store)
    async with client.stream("x", id="id") as stream:
        async for _ in stream:
            break
    assert source.cancelled
    assert len(store) == 0


async def test_a_run_waits_for_the_consumer_of_its_stream(autojump_clock: Clock) -> None:
    source = Patient()
    client = InProcessClient(generate_stream=source.generate_stream)
    async with client.stream("x") as stream:
        for count in range(5):
            await anext(stream)
            await trio.sleep(1)
            assert source.sent <= count + 1


async def test_a_scope_around_a_stream_cancels_it(autojump_clock: Clock) -> None:
    source = Patient()
    client = InProcessClient(generate_stream=source.generate_stream)
    with trio.move_on_after(1) as scope:
        async with client.stream("x") as stream:
            await anext(stream)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert source.cancelled
    with trio.CancelScope() as scope:
        async with client.stream("x"):
            scope.cancel()
        raise AssertionError("the block was left normally")
    assert scope.cancelled_caught


async def test_a_failure_while_the_stream_is_cancelled_leaves_it_alone() -> None:
    """A real error goes before the cancellation that it came with, and is in no group of one."""

    async def fail(grouped: bool, messages: Any = None, **more: Any) -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            if grouped:
                raise BaseExceptionGroup("", [cancelled, KeyError("mine")]) from None  # noqa: ASYNC104
            raise KeyError("mine") from None  # noqa: ASYNC104
        raise AssertionError

    async def use(grouped: bool, *, within: trio.CancelScope | None = None) -> None:
        @contextlib.asynccontextmanager
        async def source(messages: Any) -> AsyncGenerator[Any, None]:
            await fail(grouped)
            yield

        async with InProcessClient(generate_stream=source).stream("x"):
            await trio.testing.wait_all_tasks_blocked()
            if within is not None:
                within.cancel()
                await trio.lowlevel.checkpoint()

    for grouped in (False, True):
        with pytest.raises(KeyError, match="mine"):
            await use(grouped)
        with trio.CancelScope() as scope, pytest.raises(KeyError, match="mine"):
            await use(grouped, within=scope)


async def test_several_failures_while_the_stream_is_cancelled_stay_a_group() -> None:
    @contextlib.asynccontextmanager
    async def source(messages: Any) -> AsyncGenerator[Any, None]:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise BaseExceptionGroup("", [cancelled, KeyError("a"), KeyError("b")]) from None  # noqa: ASYNC104
        yield

    with pytest.RaisesGroup(KeyError, KeyError):
        async with InProcessClient(generate_stream=source).stream("x"):
            await trio.testing.wait_all_tasks_blocked()

"""Models that say what they are told to, and clients of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import trio

from trio_acp.model import (
    Done,
    InProcessClient,
    ModelEvent,
    ModelMessage,
    ModelReply,
    RunEvent,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)

__all__ = [
    "ACP_CALL",
    "ACP_RESULT",
    "Model",
    "add",
    "call",
    "collect",
    "scripted",
    "streaming",
]


class Model:
    """A model that says what it is told to, and remembers what it was asked.

    Args:
        replies: what it says, one after the other; an exception is raised.
    """

    def __init__(self, *replies: str | ModelReply | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[Sequence[ModelMessage]] = []

    async def generate(self, messages: Sequence[ModelMessage]) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(messages)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @contextlib.asynccontextmanager
    async def generate_stream(self, messages: Sequence[ModelMessage]) -> AsyncGenerator[Any, None]:
        reply = await self.generate(messages)
        assert isinstance(reply, ModelReply)

        async def events() -> AsyncGenerator[ModelEvent, None]:  # noqa: ASYNC900 - no scope in it
            for word in reply.text.split():
                await trio.lowlevel.checkpoint()
                yield TextDelta(word)
            for call in reply.tool_calls:
                yield call
            for result in reply.tool_results:
                yield result
            if reply.usage is not None:
                yield UsageEvent(reply.usage)
            yield Done(reply)

        async with contextlib.aclosing(events()) as stream:
            yield stream


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(name: str = "add", id: str = "c1", **arguments: Any) -> ToolCallEvent:
    return ToolCallEvent(id, name, arguments)


ACP_CALL = ToolCallEvent("t1", "ls", {"path": "."}, via="acp")


ACP_RESULT = ToolResultEvent("t1", "ls", {"path": "."}, "a.py", False, "completed", via="acp")


def scripted(*replies: str | ModelReply | Exception, **more: Any) -> tuple[Model, InProcessClient]:
    model = Model(*replies)
    return model, InProcessClient(model="m", generate=model.generate, **more)


def streaming(*replies: str | ModelReply | Exception, **more: Any) -> tuple[Model, InProcessClient]:
    model = Model(*replies)
    return model, InProcessClient(model="m", generate_stream=model.generate_stream, **more)


async def collect(client: InProcessClient, *args: Any, **more: Any) -> list[RunEvent]:
    events: list[RunEvent] = []
    async with client.stream(*args, **more) as stream:
        async for event in stream:
            events.append(event)
    return events

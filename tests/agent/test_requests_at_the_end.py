"""What a client still sends while an agent is being ended from its own side."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import agent
from trio_acp import open_memory_pair
from trio_acp.agent import PromptContext
from trio_acp.transports import MemoryStream


def frame(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


NEW = {"cwd": "/", "mcpServers": []}


async def answers(stream: MemoryStream, count: int) -> list[dict[str, Any]]:
    received = b""
    while received.count(b"\n") < count:
        data = await stream.receive_some()
        assert data, "the agent has closed its end"
        received += data
    return [json.loads(line) for line in received.splitlines()]


@pytest.mark.parametrize("turn_runs", [False, True])
@pytest.mark.parametrize("attempt", range(12))
async def test_requests_in_the_very_moment_of_a_cancellation_break_nothing(
    attempt: int, turn_runs: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """W4, W11: the order in which Trio runs the reader and the cancelled task is a coin's toss each time."""

    async def forever(ctx: PromptContext) -> None:
        await trio.sleep_forever()

    ours, theirs = open_memory_pair()
    scope = trio.CancelScope()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                with scope:
                    await agent(forever).serve(theirs)

            nursery.start_soon(serve)
            await ours.send_all(frame(id=0, method="initialize", params={"protocolVersion": 1}))
            await ours.send_all(frame(id=1, method="session/new", params=NEW))
            session = (await answers(ours, 2))[1]["result"]["sessionId"]
            prompt = {"sessionId": session, "prompt": []}
            if turn_runs:
                await ours.send_all(frame(id=2, method="session/prompt", params=prompt))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            for number in range(10, 40):
                try:
                    ours.send_nowait(frame(method="session/cancel", params={"sessionId": session}))
                    ours.send_nowait(frame(id=number, method="session/prompt", params=prompt))
                except trio.BrokenResourceError:
                    break
                await trio.lowlevel.checkpoint()
            received = b""
            while data := await ours.receive_some():
                received += data
    assert scope.cancelled_caught
    messages = [json.loads(line) for line in received.splitlines()]
    asked = [message["id"] for message in messages]
    assert len(asked) == len(set(asked))
    if turn_runs:
        assert {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}} in messages


async def test_a_last_request_without_a_newline_has_its_time_to_be_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W1: the line counts, also where its answer takes a while."""

    async def nothing() -> None: ...

    app = agent(nothing)

    @app.on_new_session
    async def slow() -> None:
        await trio.sleep(0.5)

    ours, theirs = open_memory_pair()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app.serve, theirs)
            await ours.send_all(frame(id=0, method="initialize", params={"protocolVersion": 1}))
            await ours.send_all(frame(id=1, method="session/new", params=NEW).rstrip())
            await ours.send_eof()
            assert [message["id"] for message in await answers(ours, 2)] == [0, 1]

"""What an agent does for a turn, counted: a write or a switch for each update cannot come back unseen."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.counts.counting import Counters, Wire, counted
from trio_acp import AgentApp, PromptContext
from trio_acp._pacing import ITEMS_PER_CHECKPOINT


@asynccontextmanager
async def agent(updates: int, *, first: bool = False) -> AsyncGenerator[tuple[Wire, str]]:
    """An agent whose turns send so many updates; its session has had one, unless ``first``. Quiet."""
    app = AgentApp(name="agent", version="1")

    @app.on_prompt
    async def prompt(ctx: PromptContext) -> None:
        for number in range(updates):
            await ctx.send_message(str(number))

    wire = Wire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app.serve, wire.near)
        wire.send({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
        await wire.receive()
        wire.send({"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}})
        (answer,) = await wire.receive()
        session_id = answer["result"]["sessionId"]
        if not first:
            params = {"sessionId": session_id, "prompt": []}
            wire.send({"id": 1, "method": "session/prompt", "params": params})
            await trio.testing.wait_all_tasks_blocked()
            await wire.receive()
        yield wire, session_id
        nursery.cancel_scope.cancel()


async def count_turn(updates: int, *, first: bool = False) -> tuple[Counters, int]:
    """Count one turn, and the writes in it."""
    async with agent(updates, first=first) as (wire, session_id):
        writes = wire.near.calls.writes
        prompt = [{"type": "text", "text": "go"}]
        params = {"sessionId": session_id, "prompt": prompt}
        wire.send({"id": 2, "method": "session/prompt", "params": params})
        with counted() as counters:
            await trio.testing.wait_all_tasks_blocked()
        writes = wire.near.calls.writes - writes
        messages = await wire.receive()
        assert len(messages) == updates + 1
        assert messages[-1] == {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}
        return counters, writes


async def test_a_turn_is_one_task_and_its_answer_one_write() -> None:
    counters, writes = await count_turn(0)
    assert counters.tasks == 1
    # The read loop twice (it looks before it sleeps), the turn's task, and this test's.
    assert counters.steps == 4
    assert writes == 1


async def test_the_first_turn_opens_the_nursery_that_all_turns_run_in() -> None:
    counters, writes = await count_turn(10, first=True)
    assert (counters.tasks, counters.steps, writes) == (2, 5, 1)
    assert counters.steps_of["_open"] == 1


@pytest.mark.parametrize("updates", [1, 2, 10, ITEMS_PER_CHECKPOINT - 2])
async def test_updates_in_a_row_and_the_answer_behind_them_are_one_write_and_no_step_more(
    updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: 0.0)
    counters, writes = await count_turn(updates)
    assert (counters.tasks, counters.steps, writes) == (1, 4, 1)


async def test_turns_long_after_each_other_are_one_write_each_and_no_step_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = 0.0
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: time)
    async with agent(10) as (wire, session_id):
        for number in range(2, 20):
            time += 1
            writes = wire.near.calls.writes
            params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]}
            wire.send({"id": number, "method": "session/prompt", "params": params})
            with counted() as counters:
                await trio.testing.wait_all_tasks_blocked()
            assert (counters.tasks, counters.steps) == (1, 4)
            assert wire.near.calls.writes - writes == 1
            assert len(await wire.receive()) == 11


async def test_a_hundred_updates_more_are_a_step_of_the_turn_and_a_write_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: 0.0)
    some, some_writes = await count_turn(5 * ITEMS_PER_CHECKPOINT)
    more, more_writes = await count_turn(10 * ITEMS_PER_CHECKPOINT)
    assert more.tasks == some.tasks == 1
    assert more.steps_of["_run_in_lane"] - some.steps_of["_run_in_lane"] == 5
    assert more.steps - some.steps == 5
    assert more_writes - some_writes == 5


async def test_a_turn_leaves_nothing_to_the_collector_of_garbage() -> None:
    async with agent(3) as (wire, session_id):
        for number in range(2, 5):
            params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]}
            wire.send({"id": number, "method": "session/prompt", "params": params})
            await trio.testing.wait_all_tasks_blocked()
            await wire.receive()
            if number == 2:
                gc.collect()
        assert gc.collect() == 0

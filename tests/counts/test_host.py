"""What a host does for its agent's messages, counted: a switch for each update cannot come back unseen."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

import trio_acp.schema
from tests.counts.counting import Counters, Wire, counted, text_update
from trio_acp import AcpOptions, PermissionRequest, Selected, Session, connect_acp
from trio_acp._pacing import ITEMS_PER_CHECKPOINT
from trio_acp.schema import WireObject


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let full checkpoints come by number alone: how long a machine takes must not count."""
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: 0.0)


async def permit(request: PermissionRequest) -> Selected:
    return Selected(request.options[0].option_id)


@asynccontextmanager
async def host(sessions: int = 1, **options: Any) -> AsyncGenerator[tuple[Wire, list[Session]]]:
    """A host with sessions, all quiet."""
    wire = Wire()
    opened: list[Session] = []

    async def answer_set_up() -> None:
        for number in range(-1, sessions):
            (request,) = await wire.receive()
            result = {"protocolVersion": 1} if number < 0 else {"sessionId": f"session-{number}"}
            wire.send({"id": request["id"], "result": result})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer_set_up)
        agent = await connect_acp(nursery, wire.near, AcpOptions(command="agent", **options))
        for _ in range(sessions):
            opened.append(await agent.new_session("/"))
        await trio.testing.wait_all_tasks_blocked()
        yield wire, opened
        nursery.cancel_scope.cancel()


async def take_all(session: Session, counts: list[int]) -> None:
    count = 0
    async with session.prompt("go") as turn:
        async for _ in turn:
            count += 1
    counts.append(count)


async def count_streams(updates: int, sessions: int = 1) -> tuple[Counters, int, int]:
    """Count a burst of updates in each of some sessions, from their arrival to the end of the turns."""
    counts: list[int] = []
    async with host(sessions) as (wire, opened), trio.open_nursery() as nursery:
        for session in opened:
            nursery.start_soon(take_all, session, counts)
        await trio.testing.wait_all_tasks_blocked()
        prompts = await wire.receive()
        names = [prompt["params"]["sessionId"] for prompt in prompts]
        burst = [text_update(name, str(number)) for number in range(updates) for name in names]
        ends = [{"id": prompt["id"], "result": {"stopReason": "end_turn"}} for prompt in prompts]
        wire.send(*burst, *ends)
        reads = wire.near.calls.reads
        with counted() as counters:
            await trio.testing.wait_all_tasks_blocked()
        assert counts == [updates] * sessions
        return counters, wire.near.calls.reads - reads, wire.near.calls.writes


@pytest.mark.usefixtures("standing_clock")
async def test_a_burst_of_updates_costs_a_task_switch_for_a_hundred_of_them_and_no_task() -> None:
    few, few_reads, _ = await count_streams(1)
    many, many_reads, _ = await count_streams(1001)
    assert many.tasks == few.tasks == 0
    assert many_reads == few_reads == 1
    # The consumer's full checkpoints, and nothing else.
    assert many.steps - few.steps == 1000 // ITEMS_PER_CHECKPOINT


@pytest.mark.usefixtures("standing_clock")
async def test_sessions_that_stream_at_once_cost_what_one_costs_and_their_own_end() -> None:
    one, _, _ = await count_streams(20)
    some, reads, _ = await count_streams(20, sessions=10)
    more, _, _ = await count_streams(20, sessions=20)
    assert some.tasks == more.tasks == 0
    assert reads == 1
    assert more.steps - some.steps == 10 * (some.steps - one.steps) // 9


async def test_reading_is_a_system_call_for_a_chunk_however_many_messages_are_in_it() -> None:
    _, reads, writes = await count_streams(500)
    assert reads == 1
    # initialize, session/new and session/prompt.
    assert writes == 3


async def test_an_update_of_text_is_two_objects() -> None:
    for more in ({}, {"messageId": "m"}):
        raw = text_update("s", "a", **more)["params"]["update"]
        trio_acp.schema.structure_update(raw)
        before = {id(each) for each in wire_objects()}
        update = trio_acp.schema.structure_update(raw)
        made = [type(each).__name__ for each in wire_objects() if id(each) not in before]
        assert sorted(made) == ["AgentMessageChunk", "TextContent"]
        assert type(update).__name__ in made


def wire_objects() -> list[object]:
    return [each for each in gc.get_objects() if issubclass(type(each), WireObject)]


async def test_updates_that_were_taken_are_not_kept() -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, trio_acp.schema.AgentMessageChunk) for each in gc.get_objects())

    before = alive()
    async with host() as (wire, (session,)), session.prompt("go") as turn:
        (prompt,) = await wire.receive()
        wire.send(*[text_update(session.id, str(number)) for number in range(300)])
        await trio.testing.wait_all_tasks_blocked()
        assert alive() - before == 300
        for _ in range(200):
            await anext(turn)
        assert alive() - before == 100
        wire.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})


async def test_a_permission_request_leaves_nothing_to_the_collector_of_garbage() -> None:
    async with host(on_permission=permit) as (wire, (session,)), session.prompt("go") as turn:
        (prompt,) = await wire.receive()
        await ask(wire, 1, 0)
        gc.collect()
        await ask(wire, 10, 1)
        assert gc.collect() == 0
        wire.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})
        await turn.wait()


async def ask(wire: Wire, count: int, first: int) -> None:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    wire.send(
        *[
            {
                "id": f"ask-{number}",
                "method": "session/request_permission",
                "params": {
                    "sessionId": "session-0",
                    "toolCall": {"toolCallId": "call", "title": "Write"},
                    "options": options,
                },
            }
            for number in range(first, first + count)
        ]
    )
    await trio.testing.wait_all_tasks_blocked()


async def test_a_permission_request_is_one_task_of_one_step_and_one_write() -> None:
    async with host(on_permission=permit) as (wire, (session,)), session.prompt("go") as turn:
        (prompt,) = await wire.receive()
        await ask(wire, 1, 0)
        writes = wire.near.calls.writes
        with counted() as counters:
            await ask(wire, 1, 1)
        assert counters.tasks == 1
        # The read loop twice (it looks before it sleeps), the handler's task, and this test's.
        assert counters.steps == 4
        assert wire.near.calls.writes - writes == 1
        assert len(await wire.receive()) == 2
        wire.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})
        await turn.wait()


async def test_permission_requests_that_come_at_once_are_a_task_of_one_step_for_each() -> None:
    async with host(on_permission=permit) as (wire, (session,)), session.prompt("go") as turn:
        (prompt,) = await wire.receive()
        for _ in range(10):  # Trio tosses a coin for the order in which tasks begin
            with counted() as counters:
                await ask(wire, 50, 0)
            assert (counters.tasks, counters.steps_of["_run"]) == (50, 50)
            assert len(await wire.receive()) == 50
        wire.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})
        await turn.wait()


async def test_a_permission_that_a_plain_function_decides_is_no_task_and_no_step_more() -> None:
    def rule(request: PermissionRequest) -> Selected:
        return Selected(request.options[0].option_id)

    async with host(on_permission=rule) as (wire, (session,)), session.prompt("go") as turn:
        (prompt,) = await wire.receive()
        await ask(wire, 1, 0)
        writes = wire.near.calls.writes
        with counted() as counters:
            await ask(wire, 1, 1)
        # The read loop twice (it looks before it sleeps), and this test's.
        assert (counters.tasks, counters.steps) == (0, 3)
        assert wire.near.calls.writes - writes == 1
        assert len(await wire.receive()) == 2
        wire.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})
        await turn.wait()


async def test_answers_that_are_ready_at_once_are_written_together() -> None:
    async with host() as (wire, (session,)), session.prompt("go") as turn:
        (prompt,) = await wire.receive()
        writes = wire.near.calls.writes
        with counted() as counters:
            await ask(wire, 50, 0)  # without a handler they are answered as they are read
        assert counters.tasks == 0
        assert wire.near.calls.writes - writes == 1
        assert len(await wire.receive()) == 50
        wire.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})
        await turn.wait()

"""The buffer of a turn by itself: what it counts, refuses, drops and releases."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from trio_acp._pacing import ITEMS_PER_CHECKPOINT
from trio_acp.client._buffers import TurnBuffer


async def test_a_buffer_without_limits_never_asks_for_a_pause_and_never_fails() -> None:
    buffer: TurnBuffer[int] = TurnBuffer(math.inf, math.inf)
    for n in range(10_000):
        assert buffer.put(n, 10**6)
    assert not buffer.above_soft_limit
    assert [await buffer.take() for _ in range(3)] == [0, 1, 2]


async def test_the_buffer_counts_what_waits_in_both_batches() -> None:
    buffer: TurnBuffer[int] = TurnBuffer(4, 100)
    for n in range(4):
        assert buffer.put(n, 10)
    assert not buffer.put(9, 10)
    assert (buffer.items, buffer.size, buffer.taken) == (4, 40, 0)
    assert await buffer.take() == 0
    assert (buffer.items, buffer.taken) == (3, 1)
    assert buffer.put(4, 10)
    assert not buffer.put(9, 10)
    assert (buffer.items, buffer.size) == (4, 50)
    assert [await buffer.take() for _ in range(4)] == [1, 2, 3, 4]
    assert (buffer.items, buffer.taken) == (0, 5)
    assert buffer.put(5, 1000)  # whatever its size, where nothing else waits
    assert not buffer.put(6, 1)
    buffer.finish()
    assert await buffer.take() == 5
    with pytest.raises(trio.EndOfChannel):
        await buffer.take()


async def test_the_buffer_refuses_by_bytes_what_waits_behind_a_batch_in_hand() -> None:
    buffer: TurnBuffer[int] = TurnBuffer(100, 100)
    assert buffer.put(0, 50)
    assert buffer.put(1, 50)
    assert await buffer.take() == 0
    assert not buffer.put(2, 1)
    assert await buffer.take() == 1
    assert buffer.put(2, 1)


async def test_a_batch_that_was_taken_whole_takes_up_no_room() -> None:
    """Its last update may be worked on for long: what waits meanwhile has the whole limit to itself."""
    buffer: TurnBuffer[int] = TurnBuffer(100, 100)
    assert buffer.put(0, 90)
    assert await buffer.take() == 0
    assert buffer.size == 0
    for n in range(1, 6):
        assert buffer.put(n, 20)
    assert (buffer.items, buffer.size) == (5, 100)
    assert not buffer.put(6, 1)


async def test_a_full_batch_in_hand_leaves_no_room_for_a_new_one() -> None:
    buffer: TurnBuffer[int] = TurnBuffer(1, 100)
    assert buffer.put(0, 1)
    task_took: list[int] = []

    async def take() -> None:
        task_took.append(await buffer.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
    assert task_took == [0]
    buffer2: TurnBuffer[int] = TurnBuffer(2, 100)
    assert buffer2.put(0, 1)
    assert buffer2.put(1, 1)
    assert await buffer2.take() == 0
    assert buffer2.put(2, 1)
    assert not buffer2.put(3, 1)


async def test_dropping_forgets_what_waits_and_keeps_what_follows() -> None:
    buffer: TurnBuffer[int] = TurnBuffer(10, 100)
    buffer.drop()
    assert buffer.put(0, 10)
    assert buffer.put(1, 10)
    buffer.drop()
    assert (buffer.items, buffer.size) == (0, 0)
    assert buffer.put(2, 10)
    assert await buffer.take() == 2
    assert buffer.put(3, 10)
    buffer.drop()
    buffer.finish()
    with pytest.raises(trio.EndOfChannel):
        await buffer.take()


@pytest.mark.parametrize("prepared", [0, 1, 250])
@pytest.mark.parametrize("more", [False, True])
async def test_a_release_ends_whoever_takes_at_that_moment(prepared: int, more: bool) -> None:
    """Also one that has been given something and has not run since."""
    buffer: TurnBuffer[int] = TurnBuffer(1000, 100_000)
    for n in range(prepared):
        assert buffer.put(n, 1)
    ended: list[int] = []

    async def take() -> None:
        try:
            while True:
                await buffer.take()
        except trio.EndOfChannel:
            ended.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        if more:
            await trio.testing.wait_all_tasks_blocked()
            assert buffer.put(prepared, 1)
        else:
            await trio.lowlevel.checkpoint()
        buffer.release()
        buffer.finish()
    assert ended == [1]
    assert buffer.released
    assert buffer.put(1, 1)
    assert buffer.items == 0


async def test_whoever_takes_after_a_release_finds_nothing() -> None:
    buffer: TurnBuffer[int] = TurnBuffer(1000, 100_000)
    assert buffer.put(1, 1)
    buffer.release()
    with pytest.raises(trio.EndOfChannel):
        await buffer.take()


async def test_what_is_dropped_while_its_taker_lets_others_run_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: 0.0)
    buffer: TurnBuffer[int] = TurnBuffer(1000, 100_000)
    for n in range(ITEMS_PER_CHECKPOINT - 1):
        assert buffer.put(n, 1)
        assert await buffer.take() == n
    assert buffer.put(-1, 1)
    taken: list[int] = []

    async def take() -> None:
        taken.append(await buffer.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.lowlevel.checkpoint()  # it is at its full checkpoint, or has not begun
        buffer.drop()
        await trio.testing.wait_all_tasks_blocked()
        assert taken == []
        assert buffer.put(1, 1)
    assert taken == [1]

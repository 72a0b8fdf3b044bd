"""The pair of streams in memory behaves as Trio asks of a stream, and is bounded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_acp.transports import MEMORY_PIPE_BYTES, MemoryStream, open_memory_pair


@pytest.mark.parametrize("limit", [1000, 4096, 1024 * 1024])
async def test_it_passes_trios_own_check_of_half_closeable_streams(limit: int) -> None:
    async def make() -> tuple[MemoryStream, MemoryStream]:
        return open_memory_pair(limit)

    async def make_clogged() -> tuple[MemoryStream, MemoryStream]:
        ours, theirs = open_memory_pair(limit)
        ours.send_nowait(b"x" * limit)
        theirs.send_nowait(b"x" * limit)
        return ours, theirs

    await trio.testing.check_half_closeable_stream(make, make_clogged)


async def test_what_is_sent_arrives_in_order_and_whole_through_a_small_pipe() -> None:
    ours, theirs = open_memory_pair(10)
    data = bytes(range(256)) * 40
    received = bytearray()

    async def send() -> None:
        for start in range(0, len(data), 97):
            await ours.send_all(data[start : start + 97])
        await ours.send_eof()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        while part := await theirs.receive_some(3):
            assert len(part) <= 3
            received += part
    assert bytes(received) == data


async def test_receiving_without_a_maximum_takes_all_that_is_there() -> None:
    ours, theirs = open_memory_pair()
    await ours.send_all(b"one ")
    await ours.send_all(b"two")
    assert await theirs.receive_some() == b"one two"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
async def test_receiving_with_a_maximum_takes_no_more_and_leaves_the_rest(size: int) -> None:
    ours, theirs = open_memory_pair()
    for part in (b"ab", b"cde", b"f"):
        await ours.send_all(part)
    await ours.send_eof()
    parts = []
    while part := await theirs.receive_some(size):
        parts.append(part)
    assert b"".join(parts) == b"abcdef"
    assert all(len(part) == size for part in parts[:-1])


async def test_one_direction_holds_no_more_than_its_limit() -> None:
    ours, theirs = open_memory_pair(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, b"x" * 25)
        await trio.testing.wait_all_tasks_blocked()
        assert await theirs.receive_some() == b"x" * 10
        assert await theirs.receive_some() == b"x" * 10
        assert await theirs.receive_some() == b"x" * 5


async def test_a_cancelled_sender_has_sent_a_part() -> None:
    ours, theirs = open_memory_pair(10)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, b"0123456789abc")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert await theirs.receive_some() == b"0123456789"
    await ours.send_all(b"next")
    assert await theirs.receive_some() == b"next"


def test_the_limit_is_at_least_one_byte_and_like_a_large_pipe_by_default() -> None:
    assert MEMORY_PIPE_BYTES == 1024 * 1024
    with pytest.raises(ValueError, match="limit"):
        open_memory_pair(0)


async def test_sending_without_waiting_writes_what_fits() -> None:
    ours, theirs = open_memory_pair(10)
    assert ours.send_nowait(b"01234567") == 8
    assert ours.send_nowait(memoryview(b"89abc")) == 2
    assert ours.send_nowait(b"x") == 0
    assert ours.send_nowait(b"") == 0
    assert await theirs.receive_some(4) == b"0123"
    assert ours.send_nowait(b"ABCDE") == 4
    assert await theirs.receive_some() == b"456789ABCD"


async def test_sending_without_waiting_wakes_the_reader() -> None:
    ours, theirs = open_memory_pair()
    got: list[bytes] = []

    async def receive() -> None:
        got.append(await theirs.receive_some())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        ours.send_nowait(b"hello")
    assert got == [b"hello"]


async def test_sending_without_waiting_fails_like_sending_does() -> None:
    ours, theirs = open_memory_pair(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, b"xyz")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            ours.send_nowait(b"x")
        nursery.cancel_scope.cancel()
    theirs.close()
    with pytest.raises(trio.BrokenResourceError):
        ours.send_nowait(b"x")
    ours.close()
    with pytest.raises(trio.ClosedResourceError):
        ours.send_nowait(b"x")


SENDS: list[Callable[[MemoryStream], Awaitable[Any]]] = [
    lambda stream: stream.send_all(b"x"),
    lambda stream: stream.wait_send_all_might_not_block(),
    lambda stream: stream.send_eof(),
]


@pytest.mark.parametrize("send", SENDS, ids=["send_all", "wait", "send_eof"])
async def test_two_tasks_cannot_send_at_once(send: Callable[[MemoryStream], Awaitable[Any]]) -> None:
    ours, _theirs = open_memory_pair(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_all, b"xyz")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await send(ours)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("send", SENDS, ids=["send_all", "wait", "send_eof"])
async def test_nothing_can_be_sent_on_a_closed_end(send: Callable[[MemoryStream], Awaitable[Any]]) -> None:
    ours, _theirs = open_memory_pair(1)
    await ours.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await send(ours)


async def test_a_sender_that_waits_is_woken_when_the_other_end_goes() -> None:
    ours, theirs = open_memory_pair(1)

    async def send() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await ours.send_all(b"xyz")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        theirs.close()


async def test_waiting_for_room_ends_when_the_other_end_goes() -> None:
    ours, theirs = open_memory_pair(1)
    await ours.send_all(b"x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.wait_send_all_might_not_block)
        await trio.testing.wait_all_tasks_blocked()
        theirs.close()


async def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    ours, theirs = open_memory_pair()
    await ours.send_all(b"last")
    await ours.send_eof()
    await ours.send_eof()
    assert await theirs.receive_some() == b"last"
    assert await theirs.receive_some() == b""
    await theirs.send_all(b"still")
    assert await ours.receive_some() == b"still"
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")


async def test_a_maximum_below_one_is_refused() -> None:
    ours, _theirs = open_memory_pair()
    with pytest.raises(ValueError, match="max_bytes"):
        await ours.receive_some(0)


async def test_a_closed_end_forgets_what_was_not_read() -> None:
    ours, theirs = open_memory_pair(4)
    await ours.send_all(b"1234")
    theirs.close()
    assert not theirs._in.chunks
    with pytest.raises(trio.ClosedResourceError):
        await theirs.receive_some()
    with pytest.raises(trio.BrokenResourceError):
        await ours.send_all(b"5")

"""Streams over non-blocking descriptors keep Trio's contract, and what they add to it."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest
import trio
from trio.testing import check_half_closeable_stream, check_one_way_stream, wait_all_tasks_blocked

from trio_acp.transports import StreamPair
from trio_acp.transports._fd import FdReceiveStream, FdSendStream


def make_pipe() -> tuple[FdSendStream, FdReceiveStream]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return FdSendStream(write), FdReceiveStream(read)


async def one_way() -> tuple[FdSendStream, FdReceiveStream]:
    await trio.lowlevel.checkpoint()
    return make_pipe()


async def two_way() -> tuple[StreamPair, StreamPair]:
    await trio.lowlevel.checkpoint()
    (send1, receive1), (send2, receive2) = make_pipe(), make_pipe()
    return StreamPair(send1, receive2), StreamPair(send2, receive1)


async def clogged_one_way() -> tuple[FdSendStream, FdReceiveStream]:
    send, receive = await one_way()
    fill(send)
    return send, receive


async def clogged_two_way() -> tuple[StreamPair, StreamPair]:
    left, right = await two_way()
    fill(left)
    fill(right)
    return left, right


def fill(stream: Any) -> int:
    count = 0
    while taken := stream.send_nowait(bytes(65536)):
        count += taken
    return count


async def test_a_pipe_keeps_the_contract_of_trios_streams() -> None:
    await check_one_way_stream(one_way, clogged_one_way)


async def test_a_pair_of_pipes_keeps_the_contract_of_trios_streams() -> None:
    await check_half_closeable_stream(two_way, clogged_two_way)


async def test_half_of_a_closed_pair_cannot_be_closed() -> None:
    left, right = await two_way()
    async with right:
        await left.send_eof()
        await left.send_eof()
        left.close()
        with pytest.raises(trio.ClosedResourceError):
            await left.send_eof()


async def test_send_nowait_takes_what_fits_and_then_nothing() -> None:
    send, receive = make_pipe()
    async with send, receive:
        taken = fill(send)
        assert taken >= 65536
        assert send.send_nowait(b"x") == 0
        got = 0
        while got < taken:
            got += len(await receive.receive_some())
        assert send.send_nowait(b"again") == 5
        assert await receive.receive_some() == b"again"


async def test_send_nowait_never_gets_into_the_middle_of_a_message(nursery: trio.Nursery) -> None:
    send, receive = make_pipe()
    async with send, receive:
        fill(send)
        nursery.start_soon(send.send_all, b"whole")
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            send.send_nowait(b"x")
        data = b""
        while not data.endswith(b"whole"):
            data += await receive.receive_some()


async def test_sending_to_nobody_is_broken_and_sending_after_closing_is_closed() -> None:
    send, receive = make_pipe()
    receive.close()
    with pytest.raises(trio.BrokenResourceError, match="pipe"):
        send.send_nowait(b"x")
    send.close()
    send.close()
    with pytest.raises(trio.ClosedResourceError):
        send.send_nowait(b"x")


async def test_breaking_off_tells_a_sender_that_the_other_side_went(nursery: trio.Nursery) -> None:
    send, receive = make_pipe()
    async with receive:
        fill(send)

        async def sender() -> None:
            with pytest.raises(trio.BrokenResourceError, match="has exited"):
                await send.send_all(b"x")

        nursery.start_soon(sender)
        await wait_all_tasks_blocked()
        send.break_off("the agent has exited")
    await wait_all_tasks_blocked()
    with pytest.raises(trio.BrokenResourceError, match="has exited"):
        send.send_nowait(b"x")


async def test_breaking_off_after_closing_changes_nothing() -> None:
    send, receive = make_pipe()
    async with receive:
        send.close()
        send.break_off("too late")
        with pytest.raises(trio.ClosedResourceError):
            await send.send_all(b"x")


async def test_finishing_ends_the_input_behind_what_has_arrived() -> None:
    send, receive = make_pipe()
    async with send, receive:
        await send.send_all(b"before")
        receive.finish()
        receive.finish()
        await send.send_all(b"after")
        assert await receive.receive_some(4) == b"befo"
        assert await receive.receive_some() == b"re"
        assert await receive.receive_some() == b""
        assert await receive.receive_some() == b""


async def test_finishing_before_anything_has_arrived_or_was_read_is_the_end() -> None:
    send, receive = make_pipe()
    async with send, receive:
        receive.finish()
        await send.send_all(b"after")
        for _ in range(2):
            assert await receive.receive_some() == b""


async def test_finishing_wakes_a_task_that_waits_for_input(nursery: trio.Nursery) -> None:
    send, receive = make_pipe()
    async with send, receive:
        got = []

        async def reader() -> None:
            got.append(await receive.receive_some())

        nursery.start_soon(reader)
        await wait_all_tasks_blocked()
        receive.finish()
        await wait_all_tasks_blocked()
        assert got == [b""]


async def test_finishing_a_closed_stream_does_nothing() -> None:
    send, receive = make_pipe()
    async with send:
        receive.close()
        receive.finish()
        with pytest.raises(trio.ClosedResourceError):
            await receive.receive_some()


async def test_a_pipe_has_hung_up_when_the_last_writer_is_gone_even_with_bytes_left() -> None:
    send, receive = make_pipe()
    async with receive:
        other = os.dup(send._fd)
        await send.send_all(b"rest")
        send.close()
        assert not receive.hung_up()
        os.close(other)
        assert receive.hung_up()
        assert await receive.receive_some() == b"rest"
        assert await receive.receive_some() == b""
    assert receive.hung_up()


async def test_activity_is_noted_with_every_bytes(autojump_clock: trio.testing.MockClock) -> None:
    send, receive = make_pipe()
    async with send, receive:
        assert receive.last_activity is None
        await send.send_all(b"x")
        await receive.receive_some()
        first = receive.last_activity
        assert first is not None
        assert first == trio.current_time()
        await trio.sleep(5)
        assert receive.last_activity == first
        await send.send_all(b"x")
        await receive.receive_some()
        assert receive.last_activity == first + 5


async def test_a_connection_that_was_reset_is_broken() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        client = socket.create_connection(listener.socket.getsockname()[:2])
        server = await listener.accept()
        client.setblocking(False)
        receive = FdReceiveStream(client.detach())
        async with receive:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await server.aclose()
            with trio.fail_after(5), pytest.raises(trio.BrokenResourceError, match="reset"):
                await receive.receive_some()


async def test_a_conversation_asks_for_each_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    send, receive = make_pipe()
    buffers: list[Any] = []
    real = os.readv

    def readv(fd: int, rooms: list[memoryview]) -> int:
        buffers.extend(room.obj for room in rooms)
        return real(fd, rooms)

    monkeypatch.setattr(os, "readv", readv)

    async def converse() -> None:
        for number in range(3):
            await wait_all_tasks_blocked()
            send.send_nowait(b"%d" % number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse)
        assert [await receive.receive_some(100) for _ in range(3)] == [b"0", b"1", b"2"]
    # One in vain, the first: it was not known yet that there is nothing.
    assert len(buffers) == 4
    # All into the same memory: what is mapped for a read and unmapped behind it costs more than the read.
    assert all(buffer is buffers[0] for buffer in buffers)
    # Where a read took as much as it could, there may be more: that is asked for at once.
    send.send_nowait(b"more")
    assert [await receive.receive_some(2) for _ in range(2)] == [b"mo", b"re"]
    send.close()
    assert await receive.receive_some(2) == b""
    assert await receive.receive_some(2) == b""
    receive.close()


async def test_an_input_that_is_ended_is_read_to_its_end_after_all_of_it_was_read_once() -> None:
    send, receive = make_pipe()
    send.send_nowait(b"all")
    assert await receive.receive_some() == b"all"
    receive.finish()
    assert await receive.receive_some() == b""
    send.close()
    receive.close()

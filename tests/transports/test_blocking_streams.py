"""Streams over descriptors that block, through threads."""

from __future__ import annotations

import os
import pathlib

import pytest
import trio
from trio.testing import check_one_way_stream, wait_all_tasks_blocked

from trio_acp.transports._blocking import BlockingFd, BlockingReceiveStream, BlockingSendStream


def make_pipe() -> tuple[BlockingSendStream, BlockingReceiveStream]:
    read, write = os.pipe()
    return BlockingSendStream(write, abandon=True), BlockingReceiveStream(read, abandon=True)


async def returned(*halves: BlockingSendStream | BlockingReceiveStream) -> None:
    """Wait until no thread uses them: each of them gives back the only token."""
    for half in halves:
        with trio.fail_after(5):
            await half._limiter.acquire()


async def test_a_pipe_keeps_the_contract_of_trios_streams() -> None:
    made = []

    async def one_way() -> tuple[Send, Receive]:
        await trio.lowlevel.checkpoint()
        send, receive = make_pipe()
        made.append((send, receive))
        return Send(send), Receive(receive)

    await check_one_way_stream(one_way, None)
    for send, receive in made:
        await returned(send, receive)


class Send(trio.abc.SendStream):
    """The half as the whole that Trio's check wants."""

    def __init__(self, half: BlockingSendStream) -> None:
        self._half = half

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._half.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._half.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self._half.close()
        await trio.lowlevel.checkpoint()


class Receive(trio.abc.ReceiveStream):
    """The half as the whole that Trio's check wants."""

    def __init__(self, half: BlockingReceiveStream) -> None:
        self._half = half

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._half.receive_some(max_bytes)

    async def aclose(self) -> None:
        self._half.close()
        await trio.lowlevel.checkpoint()


async def test_a_read_of_a_file_is_not_abandoned_and_loses_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    receive = BlockingReceiveStream(os.open(tmp_path / "file", os.O_RDONLY), abandon=False)
    with trio.CancelScope() as scope:
        scope.cancel()
        await receive.receive_some()
    assert scope.cancelled_caught
    assert await receive.receive_some(3) == b"con"
    assert await receive.receive_some() == b"tent"
    assert await receive.receive_some() == b""
    receive.close()
    with pytest.raises(trio.ClosedResourceError):
        await receive.receive_some()


async def test_a_descriptor_that_fails_is_broken(tmp_path: pathlib.Path) -> None:
    receive = BlockingReceiveStream(os.open(tmp_path, os.O_RDONLY), abandon=False)
    with pytest.raises(trio.BrokenResourceError, match="directory"):
        await receive.receive_some()
    receive.close()


async def test_send_nowait_takes_nothing_and_tells_of_misuse() -> None:
    send, receive = make_pipe()
    assert send.send_nowait(b"x") == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send.send_all, bytes(1_000_000))
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            send.send_nowait(b"x")
        with pytest.raises(trio.BusyResourceError):
            send.check_idle()
        got = 0
        while got < 1_000_000:
            got += len(await receive.receive_some())
    send.close()
    with pytest.raises(trio.ClosedResourceError):
        send.send_nowait(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await send.wait_send_all_might_not_block()
    receive.close()


def test_a_descriptor_in_use_is_closed_by_its_last_user() -> None:
    read, write = os.pipe()
    os.close(write)
    holder = BlockingFd(read)

    def use(fd: int) -> bytes:
        holder.close()
        holder.close()
        return os.read(fd, 1)  # still open

    assert holder.call(use) == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)
    with pytest.raises(trio.ClosedResourceError):
        holder.call(use)

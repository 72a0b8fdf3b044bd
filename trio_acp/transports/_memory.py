"""A pair of connected streams in memory: a connection without a process or a socket."""

from __future__ import annotations

import operator
from collections import deque
from typing import Final, final

import trio

__all__ = ["MEMORY_PIPE_BYTES", "MemoryStream", "open_memory_pair"]

MEMORY_PIPE_BYTES: Final = 1024 * 1024
"""Bytes that one direction holds before its sender waits: like a large operating-system pipe."""


class _Pipe:
    """One direction: bytes that were sent and not yet received."""

    __slots__ = ("chunks", "limit", "reader_closed", "readers", "size", "writer_closed", "writers")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.chunks: deque[bytes] = deque()
        self.size: int = 0
        self.readers: trio.lowlevel.ParkingLot = trio.lowlevel.ParkingLot()
        self.writers: trio.lowlevel.ParkingLot = trio.lowlevel.ParkingLot()
        self.reader_closed: bool = False
        self.writer_closed: bool = False

    def wake(self) -> None:
        self.readers.unpark_all()
        self.writers.unpark_all()

    def put(self, data: memoryview) -> int:
        """Take what fits; return how much that was."""
        taken = min(len(data), self.limit - self.size)
        if taken > 0:
            self.chunks.append(bytes(data[:taken]))
            self.size += taken
            if self.readers:
                self.readers.unpark_all()
        return taken

    def get(self, max_bytes: int | None) -> bytes:
        """Return what there is, at most ``max_bytes``; to be called when there is something."""
        if max_bytes is None or self.size <= max_bytes:
            data = b"".join(self.chunks)
            self.chunks.clear()
        else:
            parts: list[bytes] = []
            wanted = max_bytes
            while wanted:
                chunk = self.chunks.popleft()
                if len(chunk) > wanted:
                    self.chunks.appendleft(chunk[wanted:])
                    chunk = chunk[:wanted]
                parts.append(chunk)
                wanted -= len(chunk)
            data = b"".join(parts)
        self.size -= len(data)
        if self.writers:
            self.writers.unpark_all()
        return data


@final
class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a pair made by `open_memory_pair`."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._in = incoming
        self._out = outgoing
        self._sending = False
        self._receiving = False

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Write what the pair takes now, without waiting; return how many bytes that was.

        Raises:
            trio.ClosedResourceError: this end was closed.
            trio.BrokenResourceError: the other end was closed.
            trio.BusyResourceError: another task is in `send_all`.
        """
        if self._sending:
            raise trio.BusyResourceError("another task is sending on this stream")
        self._check_send()
        return self._out.put(memoryview(data))

    def _check_send(self) -> None:
        if self._out.writer_closed:
            raise trio.ClosedResourceError("this end of the pair was closed")
        if self._out.reader_closed:
            raise trio.BrokenResourceError("the other end of the pair was closed")

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything, waiting while the other end does not read.

        Cancelled in the middle, part of the data has been sent.

        Raises:
            trio.ClosedResourceError: this end was closed.
            trio.BrokenResourceError: the other end was closed.
            trio.BusyResourceError: another task is sending.
        """
        if self._sending:
            raise trio.BusyResourceError("another task is sending on this stream")
        self._sending = True
        try:
            await trio.lowlevel.checkpoint()
            view = memoryview(data)
            self._check_send()
            while view:
                view = view[self._out.put(view) :]
                if view:
                    await self._out.writers.park()
                    self._check_send()
        finally:
            self._sending = False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room to send, or no use in waiting for it.

        Raises:
            trio.ClosedResourceError: this end was closed.
            trio.BusyResourceError: another task is sending.
        """
        if self._sending:
            raise trio.BusyResourceError("another task is sending on this stream")
        self._sending = True
        try:
            await trio.lowlevel.checkpoint()
            while self._out.size >= self._out.limit and not self._out.reader_closed:
                if self._out.writer_closed:
                    break
                await self._out.writers.park()
            if self._out.writer_closed:
                raise trio.ClosedResourceError("this end of the pair was closed")
        finally:
            self._sending = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return them; empty when the other end has closed and all was read.

        Raises:
            trio.ClosedResourceError: this end was closed.
            trio.BusyResourceError: another task is receiving.
        """
        if max_bytes is not None and operator.index(max_bytes) < 1:
            raise ValueError("max_bytes must be at least 1")
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving on this stream")
        self._receiving = True
        try:
            await trio.lowlevel.checkpoint()
            while True:
                if self._in.reader_closed:
                    raise trio.ClosedResourceError("this end of the pair was closed")
                if self._in.size:
                    return self._in.get(max_bytes)
                if self._in.writer_closed:
                    return b""
                await self._in.readers.park()
        finally:
            self._receiving = False

    async def send_eof(self) -> None:
        """Say that nothing more will be sent; receiving goes on.

        Raises:
            trio.ClosedResourceError: this end was closed.
            trio.BusyResourceError: another task is sending.
        """
        if self._sending:
            raise trio.BusyResourceError("another task is sending on this stream")
        await trio.lowlevel.checkpoint()
        if self._in.reader_closed:
            raise trio.ClosedResourceError("this end of the pair was closed")
        self._out.writer_closed = True
        self._out.wake()

    def close(self) -> None:
        """Close this end at once: the other end reads what was sent, then the end of the stream."""
        self._out.writer_closed = True
        self._in.reader_closed = True
        self._in.chunks.clear()
        self._in.size = 0
        self._out.wake()
        self._in.wake()

    async def aclose(self) -> None:
        """Close this end, as `close` does, and let other tasks run."""
        self.close()
        await trio.lowlevel.checkpoint()


def open_memory_pair(limit: int = MEMORY_PIPE_BYTES) -> tuple[MemoryStream, MemoryStream]:
    """Return two connected streams; what is sent into one comes out of the other.

    Args:
        limit: bytes that each direction holds before its sender has to wait; at least 1.
    """
    if limit < 1:
        raise ValueError("limit must be at least 1")
    there, back = _Pipe(limit), _Pipe(limit)
    return MemoryStream(back, there), MemoryStream(there, back)

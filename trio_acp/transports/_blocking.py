"""Streams over descriptors that know only blocking calls, through worker threads.

Regular files always, terminals that cannot be opened a second time, and everything on Windows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar

import trio

from ._pair import Busy, check_max_bytes

__all__ = ["BlockingReceiveStream", "BlockingSendStream"]

T = TypeVar("T")

READ_BYTES: Final = 64 * 1024
"""Read at once: as much as a pipe usually holds."""


class BlockingFd:
    """A descriptor that a worker thread may be using while its owner closes it: the last of them closes it.

    To close it under the thread would let the thread read from whatever gets the same number next.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._used = False
        self._closed = False

    def closed(self) -> bool:
        """Whether the owner has closed it."""
        return self._closed

    def call(self, function: Callable[..., T], *args: object) -> T:
        """Call `function(fd, *args)`; in the worker thread, one at a time."""
        with self._lock:
            if self._closed:
                raise trio.ClosedResourceError("this stream was closed")
            self._used = True
        try:
            return function(self._fd, *args)
        finally:
            with self._lock:
                self._used = False
                if self.closed():
                    os.close(self._fd)

    def close(self) -> None:
        """Close, at once or when the thread comes back."""
        with self._lock:
            if not self._closed:
                self._closed = True
                if not self._used:
                    os.close(self._fd)


class BlockingHalf:
    """What both directions have in common."""

    def __init__(self, fd: int, *, abandon: bool) -> None:
        self._fd = BlockingFd(fd)
        self._abandon = abandon
        self._busy = Busy("another task is already using this direction of the stream")
        self._waiting = trio.CancelScope()
        # A limiter of its own: a terminal that nobody types into must not use up the threads of others.
        self._limiter = trio.CapacityLimiter(1)

    async def _call(self, function: Callable[..., T], *args: object) -> T:
        if self._fd.closed():
            raise trio.ClosedResourceError("this stream was closed")
        with trio.CancelScope() as self._waiting:
            try:
                return await trio.to_thread.run_sync(
                    self._fd.call, function, *args, abandon_on_cancel=self._abandon, limiter=self._limiter
                )
            except OSError as error:
                raise trio.BrokenResourceError(f"the stream failed: {error.strerror}") from error
        raise trio.ClosedResourceError("this stream was closed")

    def check_idle(self) -> None:
        """Raise `trio.BusyResourceError` while a task is using this direction."""
        self._busy.check()

    def close(self) -> None:
        """Close now; a task that waits gets `trio.ClosedResourceError`."""
        self._fd.close()
        self._waiting.cancel()


class BlockingReceiveStream(BlockingHalf):
    """Bytes from a descriptor in blocking mode; owns it.

    Args:
        fd: the descriptor.
        abandon: whether a read may wait for ever, so that a cancelled call leaves its thread behind, and to
            it what that reads. Else a cancellation waits for the read.
    """

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next bytes, `b""` at the end; as `trio.abc.ReceiveStream.receive_some`."""
        check_max_bytes(max_bytes)
        with self._busy:
            return await self._call(os.read, READ_BYTES if max_bytes is None else max_bytes)


class BlockingSendStream(BlockingHalf):
    """Bytes to a descriptor in blocking mode; owns it. Arguments as of `BlockingReceiveStream`."""

    def send_nowait(self, data: bytes | bytearray | memoryview) -> int:
        """Take nothing, since any write may wait: go on with `send_all`."""
        self._busy.check()
        if self._fd.closed():
            raise trio.ClosedResourceError("this stream was closed")
        return 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes; as `trio.abc.SendStream.send_all`."""
        with self._busy:
            await trio.lowlevel.checkpoint()
            await self._call(_write_all, data)

    async def wait_send_all_might_not_block(self) -> None:
        """Checkpoint: there is no telling."""
        with self._busy:
            if self._fd.closed():
                raise trio.ClosedResourceError("this stream was closed")
            await trio.lowlevel.checkpoint()


def _write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    with memoryview(data) as view:
        sent = 0
        while sent < len(view):
            sent += os.write(fd, view[sent:])

"""POSIX: streams over non-blocking descriptors, with a send that never waits and an input that can be ended.

`trio.lowlevel.FdStream` has neither, and it changes the blocking mode of what it is given; these streams
leave that to their owner, who knows who else shares the descriptor.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
from typing import TYPE_CHECKING

import trio

from ._pair import Busy, check_max_bytes

assert not TYPE_CHECKING or sys.platform != "win32"
__all__ = ["FdReceiveStream", "FdSendStream", "widen"]

RECEIVE_BYTES = 64 * 1024
"""Read at once by default: the default capacity of a pipe on Linux."""

BUFFER_BYTES = 256 * 1024
"""Most that is read at once, and what a stream that was read from keeps for it."""


def bytes_available(fd: int) -> int:
    """How many bytes a pipe holds for its reader now."""
    answer = fcntl.ioctl(fd, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def widen(fd: int, size: int) -> None:
    """Let a pipe hold that many bytes, if the system has a way for it and agrees."""
    if sys.platform == "linux":  # pragma: no branch - tested there only
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
        except OSError:
            pass  # the user's share of memory for pipes is used up: it works all the same


class FdReceiveStream(trio.abc.ReceiveStream):
    """Bytes from a descriptor that is in non-blocking mode; owns it.

    Attributes:
        last_activity: `trio.current_time` at the last bytes, None before the first.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._busy = Busy("another task is already receiving from this stream")
        self._remaining: int | None = None
        self._buffer = memoryview(b"")
        """Where the system puts what is read, from the first read on. A new one for each read, for as much as
        there might be, is mapped into memory, shrunk to what there was, and unmapped: a few system calls and
        page faults, which take longer than copying what was read."""
        self._drained = False
        """The last read took all that there was."""
        self._clock: trio.abc.Clock | None = None
        """The run's own, asked directly: `trio.current_time` is two calls more."""
        self.last_activity: float | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the next bytes, at least one, or `b""` at the end of the input.

        A cancelled call has taken nothing.

        Args:
            max_bytes: at most this many, and at most 256 KiB; by default 64 KiB.

        Raises:
            trio.ClosedResourceError: this stream is, or meanwhile was, closed on this side.
            trio.BrokenResourceError: the operating system reports a failure.
            trio.BusyResourceError: another task is receiving.
        """
        check_max_bytes(max_bytes)
        # Spelled out, this and what follows: each call that is saved here is one for each message.
        busy = self._busy
        if busy.taken:
            busy.check()
        busy.taken = True
        try:
            if not self._drained:
                await trio.lowlevel.checkpoint_if_cancelled()
            waited = False
            while True:  # noqa: ASYNC913 - each way out has been a checkpoint
                if self._fd < 0:
                    raise trio.ClosedResourceError("this stream was closed")
                if self._drained:
                    # Not asked in vain: 3 us of each message of a conversation.
                    self._drained = False
                    waited = True
                    try:
                        await trio.lowlevel.wait_readable(self._fd)
                    except trio.ClosedResourceError:
                        pass  # close() or finish() woke us: the loop tells which
                    continue
                size = RECEIVE_BYTES if max_bytes is None else min(max_bytes, BUFFER_BYTES)
                if self._remaining is not None:
                    size = min(size, self._remaining)
                try:
                    # With nothing remaining this is the end; what systems do with an empty read differs.
                    data = self._read(size) if size else b""
                except BlockingIOError:
                    self._drained = True
                    continue
                except OSError as error:
                    raise trio.BrokenResourceError(f"reading failed: {error.strerror}") from error
                if self._remaining is not None:
                    self._remaining -= len(data)
                else:
                    self._drained = len(data) < size
                if data:
                    if self._clock is None:
                        self._clock = trio.lowlevel.current_clock()
                    self.last_activity = self._clock.current_time()
                if not waited:
                    # Behind the read, and only where that did not wait: one pass of the scheduler less for
                    # each message of a conversation. Shielded, or a cancellation would lose the data.
                    await trio.lowlevel.cancel_shielded_checkpoint()
                return data
        finally:
            busy.taken = False

    def _read(self, size: int) -> bytes:
        buffer = self._buffer
        if len(buffer) != size:
            if len(buffer) < size:
                self._buffer = buffer = memoryview(bytearray(size))
            buffer = buffer[:size]
        return bytes(buffer[: os.readv(self._fd, [buffer])])

    def hung_up(self) -> bool:
        """Whether nobody can write to the other end any more; what was written may still be unread."""
        if self._fd < 0:
            return True
        poll = select.poll()
        poll.register(self._fd, 0)
        return bool(poll.poll(0))

    def finish(self) -> None:
        """Let the input end behind what has arrived by now, whoever else may still hold the pipe."""
        if self._fd >= 0 and self._remaining is None:
            self._remaining = bytes_available(self._fd)
            self._drained = False
            trio.lowlevel.notify_closing(self._fd)

    def close(self) -> None:
        """Close now; a task that is receiving gets `trio.ClosedResourceError`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)

    async def aclose(self) -> None:
        """Close, then checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()


class FdSendStream(trio.abc.SendStream):
    """Bytes to a descriptor that is in non-blocking mode; owns it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._busy = Busy("another task is already sending to this stream")
        self._broken: str | None = None

    def _check(self) -> None:
        if self._broken is not None:
            raise trio.BrokenResourceError(self._broken)
        if self._fd < 0:
            raise trio.ClosedResourceError("this stream was closed")

    def check_idle(self) -> None:
        """Raise `trio.BusyResourceError` while a task is sending."""
        self._busy.check()

    def _write(self, data: bytes | bytearray | memoryview) -> int:
        if self._fd < 0:
            self._check()
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(f"writing failed: {error.strerror}") from error

    def send_nowait(self, data: bytes | bytearray | memoryview) -> int:
        """Hand over what the operating system takes at once; return how many bytes that were.

        Raises:
            trio.BusyResourceError: `send_all` is under way: these bytes would get into the middle of its own.
            trio.ClosedResourceError: this stream was closed on this side.
            trio.BrokenResourceError: nobody reads any more.
        """
        if self._busy.taken:
            self._busy.check()
        return self._write(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes. A cancelled call may have sent some of them, which ends the use of the stream.

        Raises:
            trio.ClosedResourceError: this stream is, or meanwhile was, closed on this side.
            trio.BrokenResourceError: nobody reads any more.
        """
        with self._busy:
            self._check()
            await trio.lowlevel.checkpoint()
            with memoryview(data) as view:
                sent = 0
                while sent < len(view):
                    with view[sent:] as rest:
                        count = self._write(rest)
                    sent += count
                    if not count:
                        await self._writable()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for some bytes. Raises what `send_all` raises."""
        with self._busy:
            self._check()
            await self._writable()

    async def _writable(self) -> None:
        try:
            await trio.lowlevel.wait_writable(self._fd)
        except trio.ClosedResourceError:
            self._check()  # says who closed it

    def break_off(self, reason: str) -> None:
        """Close because the other side is gone: senders get `trio.BrokenResourceError` with that reason."""
        if self._fd >= 0:
            self._broken = reason
            self.close()

    def close(self) -> None:
        """Close now: the reader sees the end; a task that is sending gets `trio.ClosedResourceError`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)

    async def aclose(self) -> None:
        """Close, then checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()

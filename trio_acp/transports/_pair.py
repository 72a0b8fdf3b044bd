"""One stream of two halves that are closed, and end, each on its own."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, final

import trio

__all__ = ["Busy", "ReceiveHalf", "SendHalf", "StreamPair", "check_max_bytes"]


class Busy:
    """Refuse a second task in a section that is one task's at a time."""

    def __init__(self, message: str) -> None:
        self._message = message
        self.taken = False

    def __enter__(self) -> None:
        self.check()
        self.taken = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.taken = False

    def check(self) -> None:
        """Raise `trio.BusyResourceError` while the section is taken."""
        if self.taken:
            raise trio.BusyResourceError(self._message)


def check_max_bytes(max_bytes: int | None) -> None:
    """Refuse what would read nothing, which would look like the end of the input."""
    if max_bytes is not None:
        if not isinstance(max_bytes, int):
            raise TypeError("max_bytes must be an int of at least 1, or None")
        if max_bytes < 1:
            raise ValueError("max_bytes must be at least 1")


class SendHalf(Protocol):
    """What a sending half must have."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As `trio.abc.SendStream.send_all`."""

    async def wait_send_all_might_not_block(self) -> None:
        """As `trio.abc.SendStream.wait_send_all_might_not_block`."""

    def send_nowait(self, data: bytes | bytearray | memoryview) -> int:
        """Hand over what is taken at once; return how many bytes that were, 0 if it would have to wait."""
        ...

    def check_idle(self) -> None:
        """Raise `trio.BusyResourceError` while a task is sending."""

    def close(self) -> None:
        """Close now; wake who is sending."""


class ReceiveHalf(Protocol):
    """What a receiving half must have."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As `trio.abc.ReceiveStream.receive_some`."""
        ...

    def close(self) -> None:
        """Close now; wake who is receiving."""


@final
class StreamPair(trio.abc.HalfCloseableStream):
    """One stream of two one-way streams, at least one of which goes to another process."""

    def __init__(self, send: SendHalf, receive: ReceiveHalf) -> None:
        self._send = send
        self._closed = False
        self.receiving_half: ReceiveHalf = receive
        """The receiving half: who reads much asks it directly, which is a coroutine less for each read."""
        self.send_nowait: Callable[[bytes | bytearray | memoryview], int] = send.send_nowait
        """Hand over what the operating system takes at once; return how many bytes that were."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes, as `trio.abc.SendStream.send_all`."""
        await self._send.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for some bytes."""
        await self._send.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return the next bytes, `b""` at the end."""
        return await self.receiving_half.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """Let the reader at the other end see the end of its input.

        Raises:
            trio.BusyResourceError: a task is sending.
            trio.ClosedResourceError: the whole stream was closed on this side.
        """
        if self._closed:
            raise trio.ClosedResourceError("this stream was closed")
        self._send.check_idle()
        self._send.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close both directions now."""
        self._closed = True
        self._send.close()
        self.receiving_half.close()

    async def aclose(self) -> None:
        """Close both directions, then checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()

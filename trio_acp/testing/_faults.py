"""Streams that do to what arrives what wires, pipes and broken peers do.

Each wraps one end of a connection and spoils what that end receives; what it sends goes through as it is.
Wrap the other end for the other direction, and wrap a wrapper for two faults at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import trio

__all__ = [
    "NOISE_LINES",
    "CoalescedStream",
    "CorruptedStream",
    "DuplicatedStream",
    "FaultyStream",
    "FragmentedStream",
    "LineFaultStream",
    "NoisyStream",
    "ReorderedStream",
    "StalledStream",
    "TruncatedStream",
]

NOISE_LINES: Final[tuple[bytes, ...]] = (
    b"",
    b"   ",
    b"Welcome to the agent!",
    b"\x1b]0;title\x07",
    b"{",
    b"[1, 2, 3]",
    b'"text"',
    b"\xff\xfe\x00",
    b'{"jsonrpc":"2.0"}',
)
"""Lines that are no messages, as banners, loggers and shells print them."""


class FaultyStream(trio.abc.HalfCloseableStream):
    """Passes everything through; the base of all faults, and of your own.

    Args:
        inner: the stream that is spoiled. It is closed with this one.
    """

    def __init__(self, inner: trio.abc.Stream) -> None:
        self.inner = inner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything, as the inner stream does."""
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room, as the inner stream does."""
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive some bytes, spoiled as the class says; empty at the end of the stream."""
        return await self.inner.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """Say that nothing more will be sent; the inner stream is closed if it cannot say that."""
        if isinstance(self.inner, trio.abc.HalfCloseableStream):
            await self.inner.send_eof()
        else:
            await self.inner.aclose()

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self.inner.aclose()


class FragmentedStream(FaultyStream):
    """What arrives comes in small pieces, cut without regard to lines or characters.

    Args:
        inner: the stream that is spoiled.
        sizes: bytes of each piece, over and over; by default single bytes.
    """

    def __init__(self, inner: trio.abc.Stream, sizes: Sequence[int] = (1,)) -> None:
        super().__init__(inner)
        if not sizes or min(sizes) < 1:
            raise ValueError("sizes must be positive, and there must be at least one")
        self._sizes = _forever(sizes)
        self._held = b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive the next piece."""
        if not self._held:
            self._held = bytes(await self.inner.receive_some())
        else:
            await trio.lowlevel.checkpoint()
        size = next(self._sizes)
        size = size if max_bytes is None else min(size, max_bytes)
        piece, self._held = self._held[:size], self._held[size:]
        return piece


class CoalescedStream(FaultyStream):
    """What arrives is held back for a while and comes in one piece.

    Args:
        inner: the stream that is spoiled.
        seconds: how long bytes are collected after the first ones have arrived; a mock clock will do.
    """

    def __init__(self, inner: trio.abc.Stream, seconds: float = 0.01) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._held = bytearray()
        self._ended = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive all that came in that time."""
        if not self._held and not self._ended:
            await self._receive()
            with trio.move_on_after(self._seconds):
                while not self._ended:
                    await self._receive()
        else:
            await trio.lowlevel.checkpoint()
        size = len(self._held) if max_bytes is None else max_bytes
        piece = bytes(self._held[:size])
        del self._held[:size]
        return piece

    async def _receive(self) -> None:
        data = await self.inner.receive_some()
        self._held += data
        self._ended = not data


class StalledStream(FaultyStream):
    """After so many bytes, nothing arrives for a while; then the rest does.

    Args:
        inner: the stream that is spoiled.
        after: bytes that arrive before the stall.
        seconds: how long it lasts.
    """

    def __init__(self, inner: trio.abc.Stream, after: int, seconds: float) -> None:
        super().__init__(inner)
        self._left = after
        self._seconds = seconds
        self._stalled = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive bytes up to the stall, or after it."""
        if self._stalled:
            return await self.inner.receive_some(max_bytes)
        if self._left:
            size = self._left if max_bytes is None else min(self._left, max_bytes)
            data = await self.inner.receive_some(size)
            self._left -= len(data)
            return data
        await trio.sleep(self._seconds)
        self._stalled = True
        return await self.inner.receive_some(max_bytes)


class TruncatedStream(FaultyStream):
    """After so many bytes, the stream ends: in the middle of a message, if that is where they end.

    Args:
        inner: the stream that is spoiled.
        after: bytes that arrive before the end.
        broken: raise `trio.BrokenResourceError` there, as a reset connection does, instead of a clean end.
    """

    def __init__(self, inner: trio.abc.Stream, after: int, *, broken: bool = False) -> None:
        super().__init__(inner)
        self._left = after
        self._broken = broken

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive bytes up to the end."""
        if self._left:
            size = self._left if max_bytes is None else min(self._left, max_bytes)
            data = await self.inner.receive_some(size)
            self._left -= len(data)
            return data
        await trio.lowlevel.checkpoint()
        if self._broken:
            raise trio.BrokenResourceError("the connection was reset, as this test wants it")
        return b""


class LineFaultStream(FaultyStream):
    """Whole lines are changed on their way: the base of the faults below.

    Args:
        inner: the stream that is spoiled.
        change: takes the lines that arrived together, without their newlines, and returns what arrives
            instead of them.
    """

    def __init__(
        self, inner: trio.abc.Stream, change: Callable[[list[bytes]], Iterable[bytes]] = list
    ) -> None:
        super().__init__(inner)
        self._change = change
        self._partial = b""
        self._ready = bytearray()
        self._ended = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive the changed lines, as many as arrived together."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._ready and not self._ended:
            data = await self.inner.receive_some()
            *lines, self._partial = (self._partial + data).split(b"\n")
            if lines:
                self._ready += b"".join(line + b"\n" for line in self._change(lines))
            if not data:
                # Half a line at the end stays half a line.
                self._ended = True
                self._ready += self._partial
        size = len(self._ready) if max_bytes is None else max_bytes
        piece = bytes(self._ready[:size])
        del self._ready[:size]
        return piece


class NoisyStream(LineFaultStream):
    """Lines that are no messages arrive between the messages.

    Args:
        inner: the stream that is spoiled.
        noise: the lines to choose from.
        chance: how likely one comes before each message, 0 to 1.
        seed: makes the choice repeatable.
    """

    def __init__(
        self,
        inner: trio.abc.Stream,
        *,
        noise: Sequence[bytes] = NOISE_LINES,
        chance: float = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(inner, self._add_noise)
        self._noise = noise
        self._chance = chance
        self._random = random.Random(seed)

    def _add_noise(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if self._random.random() < self._chance:
                yield self._random.choice(self._noise)
            yield line


class DuplicatedStream(LineFaultStream):
    """Some messages arrive twice in a row.

    Args:
        inner: the stream that is spoiled.
        chance: how likely each of them does, 0 to 1.
        seed: makes the choice repeatable.
    """

    def __init__(self, inner: trio.abc.Stream, *, chance: float = 0.5, seed: int = 0) -> None:
        super().__init__(inner, self._double)
        self._chance = chance
        self._random = random.Random(seed)

    def _double(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line
            if self._random.random() < self._chance:
                yield line


class ReorderedStream(LineFaultStream):
    """Messages that arrive together arrive in another order; nothing is held back.

    Args:
        inner: the stream that is spoiled; over a `CoalescedStream` more arrives together.
        seed: makes the order repeatable.
    """

    def __init__(self, inner: trio.abc.Stream, *, seed: int = 0) -> None:
        super().__init__(inner, self._shuffle)
        self._random = random.Random(seed)

    def _shuffle(self, lines: list[bytes]) -> list[bytes]:
        return self._random.sample(lines, len(lines))


class CorruptedStream(LineFaultStream):
    """In some messages one byte is another one; the newlines stay where they are.

    Args:
        inner: the stream that is spoiled.
        chance: how likely each message is, 0 to 1.
        seed: makes the choice repeatable.
    """

    def __init__(self, inner: trio.abc.Stream, *, chance: float = 0.5, seed: int = 0) -> None:
        super().__init__(inner, self._corrupt)
        self._chance = chance
        self._random = random.Random(seed)

    def _corrupt(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if line and self._random.random() < self._chance:
                spoiled = bytearray(line)
                spoiled[self._random.randrange(len(line))] = self._random.choice(_NO_NEWLINE)
                yield bytes(spoiled)
            else:
                yield line


_NO_NEWLINE: Final = bytes(byte for byte in range(256) if byte != 0x0A)


def _forever(sizes: Sequence[int]) -> Iterator[int]:
    while True:
        yield from sizes

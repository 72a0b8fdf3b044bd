"""What is on its way to a peer: whole frames, and the one task that writes them."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

import trio

from ._pacing import Pacer

__all__ = ["OUTBOX_SOFT_BYTES", "Outbox", "own_attribute"]

OUTBOX_SOFT_BYTES: Final = 1024 * 1024
"""Queued output from which on callers wait before they queue more."""

OUTBOX_HARD_BYTES: Final = 256 * 1024 * 1024
"""Queued output (answers, cancellations: what cannot wait) at which a peer that does not read is given up."""

COALESCE_BYTES: Final = 256 * 1024
"""Queued frames are joined into writes of about this size; larger frames are written as they are."""

DIRECT_WRITES: Final = 2
"""Writes without a task switch, in one go of the scheduler: a first message, and one that the peer waits for,
with all that is queued before it. Each write may wake the peer, which costs more than making some updates;
what follows is written together."""


@final
class Outbox:
    """A queue of frames, and how they get into a stream.

    Args:
        stream: carries them. If it has ``send_nowait(data) -> int`` (write what fits now, return how much),
            frames go out without a task switch.
        delayed: called whenever a frame could not be written at once: the peer may write before it reads on.
        overflowed: called once, when so much is queued that the peer counts as one that does not read.

    Attributes:
        size: bytes that wait to be written.
        held: what is queued now is written when this step of the scheduler ends: see `hold`.
        error: why nothing can be written any more; None while it can.
        pacer: counts what tasks send without letting others run.
        progress: where tasks park until something was written, or cannot be written any more.
    """

    size: int
    held: bool
    error: BaseException | None
    pacer: Pacer
    progress: trio.lowlevel.ParkingLot

    def __init__(
        self, stream: trio.abc.Stream, delayed: Callable[[], None], overflowed: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._send_nowait: Callable[[bytes | memoryview], int] | None = own_attribute(stream, "send_nowait")
        self._delayed = delayed
        self._overflowed = overflowed
        self._frames: deque[bytes | memoryview] = deque()
        self._wake_writer = trio.Event()
        self._writer_parked = False
        self._direct_writes = 0
        """How many writes may still be made without the writer, until it or the read loop has its turn."""
        self.size = 0
        self.held = False
        self.error = None
        self.pacer = Pacer()
        self.progress = trio.lowlevel.ParkingLot()
        self.allow_direct_writes()

    @property
    def full(self) -> bool:
        """So much waits that callers had better wait too."""
        return self.size >= OUTBOX_SOFT_BYTES

    def allow_direct_writes(self) -> None:
        """Begin to count anew what is written without the writer."""
        if self._send_nowait is not None:
            self._direct_writes = DIRECT_WRITES

    def end(self, error: BaseException) -> None:
        """Write nothing more; the first reason counts."""
        self.error = self.error or error

    def put(self, frame: bytes, awaited: bool) -> None:
        """Write a frame at once if it may be, else have the writer write it.

        Args:
            frame: the whole message.
            awaited: the peer cannot go on without it: an answer, a request, a cancellation. It takes with it
                what is queued before it.
        """
        self._frames.append(frame)
        self.size += len(frame)
        if self.held and self.size < OUTBOX_SOFT_BYTES:
            return
        if self.error is not None:
            self._forget()
            return
        if self._writer_parked:
            left = self._direct_writes
            if left == DIRECT_WRITES or (awaited and left):
                self._direct_writes = left - 1
                self._write_queue()
                if not self._frames:
                    return
                self._direct_writes = 0
        self._wake()
        if self.size > OUTBOX_HARD_BYTES and len(self._frames) > 1:
            self.error = trio.BrokenResourceError("the peer does not read")
            self._overflowed()

    def hold(self) -> None:
        """Keep what is queued from now on until `release`, which has to come in the same step of the task.

        A write that wakes a sleeping peer takes 15 us, as much as making five updates, and a pass of the
        writer another 5: with this, a turn with ten updates is one write of the task that makes them. Without
        effect while the writer waits for the peer to read.
        """
        self.held = self._writer_parked and self._send_nowait is not None and self.error is None
        # A step begins, so other tasks have just had their turn.
        self.pacer.restart()

    def release(self) -> None:
        """Write what was kept since `hold`; what the stream does not take now is left to the writer."""
        if not self.held:
            return
        self.held = False
        if self._frames:
            self._write_queue()
            if self._frames:
                # The pipe is full: nothing is gained by asking it again before the writer has waited for it.
                self._direct_writes = 0
                self._wake()
            elif self.progress:
                self.progress.unpark_all()

    async def flush(self) -> None:
        """Wait until everything queued is written, or cannot be written any more."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.error is None and not (self._writer_parked and not self._frames):
            await self.progress.park()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Write what is queued, until that fails or `end`. Not cancelled by anybody: its owner shields it."""
        while self.error is None:
            if not self._frames:
                self._wake_writer = trio.Event()
                self._writer_parked = True
                self.allow_direct_writes()
                self.progress.unpark_all()
                await self._wake_writer.wait()
                self._writer_parked = False
                continue
            if self._send_nowait is not None:
                # What the stream takes at once needs no checkpoint: this loop waits when its queue is empty.
                self._write_queue()
                if not self._frames:
                    self.progress.unpark_all()
                    continue
            batch = self._next_batch()
            try:
                await self._stream.send_all(batch)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self.error = error
            self.size -= len(batch)
            self.progress.unpark_all()
        self._forget()
        self.progress.unpark_all()

    def _wake(self) -> None:
        self._wake_writer.set()
        self._delayed()

    def _write_queue(self) -> None:
        """Write of the queue what the stream takes now; what it does not take stays in front."""
        assert self._send_nowait is not None
        frames = self._frames
        while frames and self.error is None:
            batch = frames.popleft() if len(frames) == 1 else self._next_batch()
            try:
                sent = self._send_nowait(batch)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self.error = error
                self._wake_writer.set()
                self._forget()
                return
            self.size -= sent
            if sent < len(batch):
                frames.appendleft(memoryview(batch)[sent:])
                return

    def _forget(self) -> None:
        self._frames.clear()
        self.size = 0

    def _next_batch(self) -> bytes | memoryview:
        if self.size <= COALESCE_BYTES:
            everything = b"".join(self._frames)
            self._frames.clear()
            return everything
        first = self._frames.popleft()
        if not self._frames or len(first) >= COALESCE_BYTES:
            return first
        parts = [first]
        size = len(first)
        while self._frames and size < COALESCE_BYTES:
            part = self._frames.popleft()
            parts.append(part)
            size += len(part)
        return b"".join(parts)


def own_attribute(stream: trio.abc.Stream, name: str) -> Any:
    """Return what a stream has beyond what Trio asks for, or None.

    Not what it hands on by ``__getattr__``: what the stream within it has knows nothing of what it does.
    """
    return None if inspect.getattr_static(stream, name, None) is None else getattr(stream, name)

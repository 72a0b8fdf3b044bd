"""Where updates wait for the application: one buffer for a turn, one lossy stream for everything else."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar, final

import trio

from trio_acp._pacing import Pacer

__all__ = ["BACKLOG_BYTES", "BACKLOG_ITEMS", "SOFT_LIMIT_FRACTION", "TurnBuffer", "UpdateStream"]

T = TypeVar("T")

SOFT_LIMIT_FRACTION: Final = 16
"""Reading slows down at a sixteenth of the hard limit, so that a pause comes long before a failure."""

BACKLOG_ITEMS: Final = 4096
"""Updates that an update stream keeps for a consumer that is not there yet."""

BACKLOG_BYTES: Final = 16 * 1024 * 1024
"""Bytes, as they were on the wire, of the updates that an update stream keeps."""


@final
class _Batch(Generic[T]):
    """Updates that wait together; while nobody has taken it, more may join."""

    __slots__ = ("items", "size")

    def __init__(self, item: T, size: int) -> None:
        self.items = [item]
        self.size = size


@final
class TurnBuffer(Generic[T]):
    """The updates of one turn on their way from the read loop to the iterating task.

    A memory channel carries batches. A batch that still waits in the channel grows, so that a burst of
    updates costs one task switch, not one for each.

    Args:
        max_items: updates that may wait; ``math.inf`` for no limit.
        max_bytes: bytes of updates that may wait; one update may always wait, whatever its size. ``math.inf``
            for no limit.
    """

    def __init__(self, max_items: float, max_bytes: float) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        # Not `//`, which makes NaN of infinity.
        self._soft_items = max(1, max_items / SOFT_LIMIT_FRACTION)
        self._soft_bytes = max(1, max_bytes / SOFT_LIMIT_FRACTION)
        # One slot is enough: a second batch is made only when the first has been taken.
        self._send, self._receive = trio.open_memory_channel[_Batch[T]](1)
        self._waiting: _Batch[T] | None = None
        self._current: list[T] = []
        """The batch that is being taken, its next update last: taking is a `pop`, which frees it, too."""
        self._current_bytes = 0
        self._received = 0
        """Updates in all batches that were received."""
        self._busy = False
        self._released = False
        self._pacer = Pacer()
        self.consumer: trio.lowlevel.Task | None = None
        """The task that took updates last."""
        self.room: trio.Event = trio.Event()
        """Set, once, when the buffer is below its soft limit again or released."""

    @property
    def taken(self) -> int:
        """Updates that the consumer has taken since the beginning."""
        return self._received - len(self._current)

    @property
    def items(self) -> int:
        """Updates that wait."""
        waiting = 0 if self._waiting is None else len(self._waiting.items)
        return waiting + len(self._current)

    @property
    def size(self) -> int:
        """Bytes of the updates that wait; those of a batch count until the whole batch was taken."""
        return self._current_bytes + (0 if self._waiting is None else self._waiting.size)

    @property
    def released(self) -> bool:
        """Nothing is kept any more."""
        return self._released

    @property
    def above_soft_limit(self) -> bool:
        """Enough waits that reading had better pause."""
        waiting = self._waiting
        return waiting is not None and (
            len(waiting.items) >= self._soft_items or waiting.size >= self._soft_bytes
        )

    def put(self, item: T, size: int) -> bool:
        """Add an update of ``size`` bytes; return false when it does not fit: it is not kept then."""
        if self._released:
            return True
        batch = self._waiting
        if batch is None:
            held = self.items
            if held and (self._current_bytes + size > self._max_bytes or held >= self._max_items):
                return False
            self._waiting = batch = _Batch(item, size)
            self._send.send_nowait(batch)
            return True
        items = batch.items
        total = batch.size + size
        if (
            total + self._current_bytes > self._max_bytes
            or len(items) + len(self._current) >= self._max_items
        ) and self.items:
            return False
        batch.size = total
        items.append(item)
        return True

    def finish(self) -> None:
        """Nothing follows: the iteration ends after what is kept."""
        self._send.close()

    def release(self) -> None:
        """Drop what is kept and all that follows: nobody will take it."""
        self._released = True
        self._waiting = None
        self._received -= len(self._current)
        self._current = []
        self._current_bytes = 0
        self._send.close()
        self._receive.close()
        self.room.set()

    def drop(self) -> None:
        """Forget what waits and was not taken; what follows is kept again."""
        if self._waiting is not None:
            # The batch is in the channel and cannot be taken back, so it arrives empty.
            self._waiting.items.clear()
            self._waiting.size = 0
        self.room.set()

    def expect_room(self) -> trio.Event:
        """Return an event that is set when the consumer takes what waits now."""
        self.room = trio.Event()
        return self.room

    def take_nowait(self) -> T | None:
        """Return the next update if it is there and other tasks need not run first, else None.

        The way of all updates but one in a hundred. Without it, `take` and what that awaits would be three
        coroutines more for each: 0.7 us of the 5.6 that an update took.

        Raises:
            trio.BusyResourceError: another task is in `take`.
        """
        if self._busy:
            raise trio.BusyResourceError("another task is iterating over this turn")
        current = self._current
        if current and self._pacer.go_on():
            return current.pop()
        return None

    async def take(self) -> T:
        """Return the next update; other tasks get to run. To be called when `take_nowait` has returned None.

        Raises:
            trio.EndOfChannel: there is none and there will be none.
        """
        self._busy = True
        try:
            if self._current:
                await self._pacer.checkpoint()
            # Looked at after the checkpoint: `release` and `drop` may have come in between.
            while not self._current:
                await self._next_batch()
        finally:
            self._busy = False
        # No checkpoint from here on: a cancelled take loses nothing.
        return self._current.pop()

    async def _next_batch(self) -> None:
        self.consumer = trio.lowlevel.current_task()
        try:
            batch = await self._receive.receive()
        except trio.ClosedResourceError:
            raise trio.EndOfChannel from None
        if self._released:
            raise trio.EndOfChannel
        batch.items.reverse()
        self._received += len(batch.items)
        self._current = batch.items
        self._current_bytes = batch.size
        self._waiting = None
        self.room.set()


@final
class UpdateStream(Generic[T]):
    """Updates that no turn takes, to be iterated over; it never slows the connection down.

    It keeps a bounded number of updates. When they are not taken in time the oldest are dropped, and
    ``lost`` says how many. The iteration ends when the connection does, after what is kept. One task may
    iterate at a time.

    Attributes:
        lost: updates that were dropped since the beginning.
    """

    lost: int

    def __init__(self, max_items: int = BACKLOG_ITEMS, max_bytes: int = BACKLOG_BYTES) -> None:
        self.lost = 0
        self._kept: deque[tuple[T, int]] = deque()
        self._size = 0
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._ended = False
        self._news = trio.Event()
        self._busy = False

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, item: T, size: int) -> None:
        """Add an update; drop the oldest ones if there are too many. Called in the read loop.

        Args:
            item: the update.
            size: its bytes, as it was on the wire.
        """
        if self._ended:
            return
        self._kept.append((item, size))
        self._size += size
        while len(self._kept) > self._max_items or (self._size > self._max_bytes and len(self._kept) > 1):
            _, dropped = self._kept.popleft()
            self._size -= dropped
            self.lost += 1
        self._news.set()

    def end(self) -> None:
        """Nothing follows."""
        self._ended = True
        self._news.set()

    def __aiter__(self) -> UpdateStream[T]:
        return self

    async def __anext__(self) -> T:
        """Wait for the next update.

        Raises:
            trio.BusyResourceError: another task is iterating.
        """
        if self._busy:
            raise trio.BusyResourceError("another task is iterating over these updates")
        self._busy = True
        try:
            await trio.lowlevel.checkpoint()
            while not self._kept:
                if self._ended:
                    raise StopAsyncIteration
                self._news = trio.Event()
                await self._news.wait()
        finally:
            self._busy = False
        item, size = self._kept.popleft()
        self._size -= size
        return item

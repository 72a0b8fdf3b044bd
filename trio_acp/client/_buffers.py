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
class TurnBuffer(Generic[T]):
    """The updates of one turn on their way from the read loop to the iterating task.

    It is a channel of batches: what waits is taken all at once, so that a burst of updates costs one task
    switch, not one for each. The task that takes is woken directly: of 200 sessions that stream at once, each
    is woken for some updates at a time, and by way of a `trio.MemoryReceiveChannel` each update took 0.9 of
    5.7 us more.

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
        self._waiting: list[T] = []
        self._waiting_bytes = 0
        self._current: list[T] = []
        """The batch that is being taken, its next update last: taking is a `pop`, which frees it, too."""
        self._current_bytes = 0
        self._easy_items = max_items
        """With fewer updates waiting than this, `put` need not count what is left of the batch."""
        self._easy_bytes = max_bytes
        """With no more bytes waiting than this, neither."""
        self._received = 0
        """Updates in all batches that were received."""
        self._busy = False
        self._released = False
        self._finished = False
        self._parked: trio.lowlevel.Task | None = None
        """The task that waits for an update."""
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
        return len(self._waiting) + len(self._current)

    @property
    def size(self) -> int:
        """Bytes of the updates that wait; those of a batch count until the last one of it was taken."""
        return self._waiting_bytes + (self._current_bytes if self._current else 0)

    @property
    def released(self) -> bool:
        """Nothing is kept any more."""
        return self._released

    @property
    def above_soft_limit(self) -> bool:
        """Enough waits that reading had better pause."""
        return len(self._waiting) >= self._soft_items or self._waiting_bytes >= self._soft_bytes

    def put(self, item: T, size: int) -> bool:
        """Add an update of ``size`` bytes; return false when it does not fit: it is not kept then."""
        waiting = self._waiting
        total = self._waiting_bytes + size
        if len(waiting) >= self._easy_items or total > self._easy_bytes:
            if self._released:
                return True
            held = self.items
            if held and (held >= self._max_items or self.size + size > self._max_bytes):
                return False
        self._waiting_bytes = total
        waiting.append(item)
        if self._parked is not None:
            self._wake()
        return True

    def _wake(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            trio.lowlevel.reschedule(parked)

    def finish(self) -> None:
        """Nothing follows: the iteration ends after what is kept."""
        self._finished = True
        self._wake()

    def release(self) -> None:
        """Drop what is kept and all that follows: nobody will take it."""
        self._released = True
        self._easy_items = 0
        self._waiting = []
        self._waiting_bytes = 0
        self._received -= len(self._current)
        self._current = []
        self._current_bytes = 0
        self._wake()
        self.room.set()

    def drop(self) -> None:
        """Forget what waits and was not taken; what follows is kept again."""
        self._waiting = []
        self._waiting_bytes = 0
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
        if not self._waiting:
            if self._finished or self._released:
                raise trio.EndOfChannel
            self._parked = self.consumer
            await trio.lowlevel.wait_task_rescheduled(self._unpark)
            # Others have had their turn: what a checkpoint is for.
            self._pacer.restart()
        elif not self._pacer.go_on():
            await self._pacer.checkpoint()
        # Nothing, where the end has woken it or what waited was dropped: the caller tries again.
        items = self._waiting
        self._current_bytes = self._waiting_bytes
        self._waiting = []
        self._waiting_bytes = 0
        items.reverse()
        count = len(items)
        self._received += count
        self._easy_items = 0 if self._released else self._max_items - count
        self._easy_bytes = self._max_bytes - self._current_bytes
        self._current = items
        self.room.set()

    def _unpark(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED


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

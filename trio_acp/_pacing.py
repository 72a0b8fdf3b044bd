"""Checkpoints at a price that a stream of small messages can bear.

A full checkpoint costs one pass of Trio's scheduler, several times the work that an update takes. So the
two hot loops of the library, taking updates and sending them, look for cancellation at every item but
let other tasks run only now and then. This is the library's one departure from Trio's rule that every
async call is a full checkpoint.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

import trio

__all__ = ["ITEMS_PER_CHECKPOINT", "SECONDS_PER_CHECKPOINT", "Pacer"]

ITEMS_PER_CHECKPOINT: Final = 100
"""Items after which other tasks get their turn: the scheduler pass is then some hundredths of the work."""

SECONDS_PER_CHECKPOINT: Final = 0.005
"""Time after which they get it even if fewer items have passed: nobody notices 5 ms."""


class Pacer:
    """Decides for one loop which of its steps is a full checkpoint: every 100 items or 5 ms.

    The two halves are apart, and the first is no coroutine: awaiting one more costs 0.15 us, at every item.
    """

    __slots__ = ("_deadline", "_left")

    def __init__(self) -> None:
        self._left = ITEMS_PER_CHECKPOINT
        self._deadline = perf_counter() + SECONDS_PER_CHECKPOINT

    def go_on(self) -> bool:
        """Count an item; return whether it may go on without letting other tasks run.

        The caller has looked for cancellation, and calls `checkpoint` when this is false.
        """
        self._left -= 1
        return self._left > 0 and perf_counter() < self._deadline

    async def checkpoint(self) -> None:
        """Let other tasks run, and begin to count anew.

        Raises:
            trio.Cancelled: the surrounding cancel scope was cancelled.
        """
        await trio.lowlevel.checkpoint()
        self.restart()

    def restart(self) -> None:
        """Count anew: other tasks have just had their turn."""
        self._left = ITEMS_PER_CHECKPOINT
        self._deadline = perf_counter() + SECONDS_PER_CHECKPOINT

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
    """Decides for one loop which of its steps is a full checkpoint."""

    __slots__ = ("_deadline", "_left")

    def __init__(self) -> None:
        self._left = ITEMS_PER_CHECKPOINT
        self._deadline = perf_counter() + SECONDS_PER_CHECKPOINT

    async def checkpoint(self) -> None:
        """Check for cancellation; every 100 items or 5 ms, whichever is first, let other tasks run.

        Raises:
            trio.Cancelled: the surrounding cancel scope was cancelled.
        """
        self._left -= 1
        if self._left > 0 and perf_counter() < self._deadline:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        await trio.lowlevel.checkpoint()
        self._left = ITEMS_PER_CHECKPOINT
        self._deadline = perf_counter() + SECONDS_PER_CHECKPOINT

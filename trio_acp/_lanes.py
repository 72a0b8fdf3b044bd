"""Tasks with a cancel scope of their own, without making one for each: nurseries that are kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVarTuple, final

import trio

__all__ = ["MAX_FREE_LANES", "Lane", "Lanes"]

MAX_FREE_LANES: Final = 16
"""Nurseries that are kept while nothing runs in them, for each client."""

Args = TypeVarTuple("Args")


@final
class Lane:
    """A nursery in which one task runs after the other, so that its scope is that of the one that runs."""

    __slots__ = ("cancelled", "nursery")

    def __init__(self) -> None:
        self.nursery: trio.Nursery | None = None
        """Open while tasks can be started in it."""
        self.cancelled: bool = False
        """It was cancelled, so its task is the last one."""

    def cancel(self) -> None:
        """Cancel the task, which still has to be running, or to begin."""
        self.cancelled = True
        if self.nursery is not None:
            self.nursery.cancel_scope.cancel()


@final
class Lanes:
    """Starts tasks, each in a lane that no other task is in.

    To make, enter and leave a cancel scope is a tenth of what an agent's turn takes. The scope of a nursery
    does as well, and is as good as new after a task that was not cancelled; one that was is not used again.
    The task itself is a new one each time: Trio's checks at the end of a task stay what they are.

    Args:
        nursery: outlives the tasks.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._free: list[Lane] = []

    def start(self, task: Callable[[Lane, *Args], Awaitable[object]], *args: *Args) -> Lane:
        """Start a task, with its lane as first argument; return that too: how to cancel the task.

        The last thing that the task does, unless it raises, is to `leave` the lane. In a new lane it begins a
        pass of the scheduler later. What it raises ends the nursery that outlives it, as if it had been
        started there.
        """
        if self._free:
            lane = self._free.pop()
            assert lane.nursery is not None
            lane.nursery.start_soon(task, lane, *args)
        else:
            lane = Lane()
            self._nursery.start_soon(self._open, lane, task, args)
        return lane

    def leave(self, lane: Lane) -> None:
        """Let the lane of a task that is about to end be used by the next one."""
        if lane.nursery is None or lane.cancelled:
            return
        if len(self._free) < MAX_FREE_LANES:
            self._free.append(lane)
        else:
            lane.cancel()

    async def _open(
        self, lane: Lane, task: Callable[[Lane, *Args], Awaitable[object]], args: tuple[*Args]
    ) -> None:
        async with trio.open_nursery() as nursery:
            lane.nursery = nursery
            if lane.cancelled:
                nursery.cancel_scope.cancel()
            nursery.start_soon(task, lane, *args)
            try:
                await trio.sleep_forever()
            finally:
                # The nursery takes no more tasks, and closes when its last one is done.
                lane.nursery = None
                if lane in self._free:
                    self._free.remove(lane)

"""Handlers that work on the agent's behalf: they begin in wire order, and are ended together."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, final

import trio

from trio_acp._order import Line, Ticket

__all__ = ["Handlers"]


@final
class Handlers:
    """Handlers of one turn, or of one session outside of its turns.

    Args:
        line: the order in which they begin.
    """

    __slots__ = ("_line", "_scopes", "_waiting")

    def __init__(self, line: Line) -> None:
        self._line = line
        self._scopes: set[trio.CancelScope] = set()
        self._waiting: deque[tuple[Ticket, trio.CancelScope, Callable[[], Awaitable[object]]]] = deque()
        """What the tasks that have not begun will do, one for each."""

    def __len__(self) -> int:
        return len(self._scopes)

    def start(
        self,
        start_soon: Callable[..., object],
        task: Callable[[], Awaitable[object]],
        scope: trio.CancelScope | None = None,
    ) -> None:
        """Start a task in a nursery; called in the read loop.

        Args:
            start_soon: starts it.
            task: does the work.
            scope: a cancel scope that the task itself enters, around all that it waits for; None for one of
                our own. A second one would be 6 of the 65 us that a permission request takes.
        """
        if scope is None:
            scope = trio.CancelScope()
            task = partial(_run_in, scope, task)
        self._scopes.add(scope)
        self._waiting.append((self._line.take(), scope, task))
        start_soon(self._run)

    async def _run(self) -> None:
        # Trio begins new tasks in any order. These are all alike, so whichever begins first does what came
        # first: none has to wait for another, which with a thousand at once would be as many passes.
        place, scope, task = self._waiting.popleft()
        await place.begin()
        try:
            # Up to its first checkpoint this comes before everything behind it in the line.
            await task()
        finally:
            self._scopes.discard(scope)

    def end(self) -> None:
        """Cancel all of them."""
        for scope in self._scopes:
            scope.cancel()


async def _run_in(scope: trio.CancelScope, task: Callable[[], Awaitable[Any]]) -> None:
    with scope:
        await task()

"""Requests of one session start in the order in which they came, though Trio shuffles new tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

import trio

__all__ = ["Line", "Lines", "Ticket"]


@final
class Ticket:
    """A place in a line; its task waits until those before it have begun.

    Args:
        before: the place before it.
        begun: called when its task has begun.
    """

    __slots__ = ("_before", "_begun", "_event", "_on_begun")

    def __init__(self, before: Ticket | None, begun: Callable[[Ticket], object] | None = None) -> None:
        self._before = before
        self._on_begun = begun
        self._begun = False
        self._event: trio.Event | None = None

    async def begin(self) -> None:
        """Return when everything before has begun; what follows up to the next checkpoint comes before all
        that is behind.

        Shielded: everything before begins within one pass of the scheduler, cancelled or not.
        """
        before = self._before
        if before is not None and not before._begun:
            before._event = trio.Event()
            with trio.CancelScope(shield=True):
                await before._event.wait()
        self.pass_by()

    def pass_by(self) -> None:
        """Let those behind go on."""
        self._before = None
        self._begun = True
        if self._event is not None:
            self._event.set()
        if self._on_begun is not None:
            self._on_begun(self)


@final
class Line:
    """The order of the requests of one session."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Ticket | None = None

    def take(self) -> Ticket:
        """Take the last place."""
        self._last = ticket = Ticket(self._last)
        return ticket


@final
class Lines:
    """One line for each session, for as long as somebody stands in it."""

    def __init__(self) -> None:
        self._last: dict[str, Ticket] = {}

    def __len__(self) -> int:
        return len(self._last)

    def take(self, key: str) -> Ticket:
        """Take the last place in a line."""
        self._last[key] = ticket = Ticket(self._last.get(key), partial(self._left, key))
        return ticket

    def _left(self, key: str, ticket: Ticket) -> None:
        """Forget a line of which nothing is left."""
        if self._last.get(key) is ticket:
            del self._last[key]

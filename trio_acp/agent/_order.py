"""Requests of one session start in the order in which they came, though Trio shuffles new tasks."""

from __future__ import annotations

from typing import final

import trio

__all__ = ["Lines", "Ticket"]


@final
class Ticket:
    """A place in a line; its task waits until those before it have begun."""

    __slots__ = ("_before", "_begun", "_event", "_key", "_lines")

    def __init__(self, lines: Lines, key: str, before: Ticket | None) -> None:
        self._lines = lines
        self._key = key
        self._before = before
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
        self._lines.left(self._key, self)


@final
class Lines:
    """One line for each session."""

    def __init__(self) -> None:
        self._last: dict[str, Ticket] = {}

    def take(self, key: str) -> Ticket:
        """Take the last place in a line."""
        ticket = Ticket(self, key, self._last.get(key))
        self._last[key] = ticket
        return ticket

    def left(self, key: str, ticket: Ticket) -> None:
        """Forget a line of which nothing is left. Called by tickets."""
        if self._last.get(key) is ticket:
            del self._last[key]

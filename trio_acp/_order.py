"""Requests of one session start in the order in which they came, though Trio shuffles new tasks."""

from __future__ import annotations

from typing import final

import trio

__all__ = ["Line", "Lines", "Ticket"]


@final
class Ticket:
    """A place in a line; its task waits until those before it have begun.

    Args:
        before: the place before it.
        last: where the last place of each line is noted, which its task forgets if nobody came behind it.
        key: its line there.
    """

    __slots__ = ("_before", "_begun", "_event", "_key", "_last")

    def __init__(self, before: Ticket | None, last: dict[str, Ticket] | None = None, key: str = "") -> None:
        self._before = before
        self._last = last
        self._key = key
        self._begun = False
        self._event: trio.Event | None = None

    async def begin(self) -> None:
        """Return when everything before has begun; what follows up to the next checkpoint comes before all
        that is behind.

        Shielded: everything before begins within a pass or two of the scheduler, cancelled or not.
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
        last = self._last
        if last is not None and last.get(self._key) is self:
            del last[self._key]


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
        last = self._last
        last[key] = ticket = Ticket(last.get(key), last, key)
        return ticket

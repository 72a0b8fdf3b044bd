"""Where histories are kept between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

import trio

from trio_acp._errors import SessionBusy
from trio_acp._nesting import is_inside
from trio_acp.client import ModelMessage

__all__ = ["DEFAULT_MAX_STORED_CONVERSATIONS", "ConversationStore", "Lines", "MemoryConversationStore"]

DEFAULT_MAX_STORED_CONVERSATIONS: Final = 1000
"""Histories that a memory store keeps, the newest: a server must not grow with its users."""


class ConversationStore(Protocol):
    """Keeps histories by id. The runs of one id come one after the other."""

    async def load(self, id: str) -> Sequence[ModelMessage]:
        """Return the history with that id, an empty one if there is none."""
        ...

    async def save(self, id: str, messages: Sequence[ModelMessage]) -> object:
        """Keep a history, in the place of what was kept with that id.

        Args:
            id: the id.
            messages: the whole history.
        """
        ...


@final
class MemoryConversationStore:
    """Keeps histories in memory; those that were not used for longest are dropped.

    Args:
        max_conversations: how many to keep.
    """

    def __init__(self, max_conversations: int = DEFAULT_MAX_STORED_CONVERSATIONS) -> None:
        if max_conversations < 1:
            raise ValueError("max_conversations must be at least 1")
        self._max = max_conversations
        self._kept: dict[str, tuple[ModelMessage, ...]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def load(self, id: str) -> Sequence[ModelMessage]:
        """Return the history with that id, an empty one if there is none."""
        await trio.lowlevel.checkpoint()
        return self._kept.get(id, ())

    async def save(self, id: str, messages: Sequence[ModelMessage]) -> None:
        """Keep a history, in the place of what was kept with that id.

        Args:
            id: the id.
            messages: the whole history.
        """
        await trio.lowlevel.checkpoint()
        self._kept.pop(id, None)
        self._kept[id] = tuple(messages)
        if len(self._kept) > self._max:
            del self._kept[next(iter(self._kept))]


@final
class Lines:
    """A line for each id that is in use, so that the runs of one id come one after the other."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[trio.Lock, set[object]]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def join(self, id: str, run: object) -> trio.Lock:
        """Return the lock of an id for a run; `leave` has to follow.

        Raises:
            SessionBusy: the current task is inside of a run in this line, so it would wait for itself.
        """
        lock, runs = self._locks.get(id) or (trio.Lock(), set[object]())
        if any(is_inside(other) for other in runs):
            raise SessionBusy(
                id,
                f"this was called from a tool or hook of a run of conversation {id!r}, or from the body of "
                "its stream, whose end it would wait for; use another conversation for that",
            )
        runs.add(run)
        self._locks[id] = lock, runs
        return lock

    def leave(self, id: str, run: object) -> None:
        """One that has joined goes, the last one with the lock."""
        _, runs = self._locks[id]
        runs.remove(run)
        if not runs:
            del self._locks[id]

"""Where histories are kept between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

import trio

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
        self._locks: dict[str, tuple[trio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def join(self, id: str) -> trio.Lock:
        """Return the lock of an id; `leave` has to follow."""
        lock, users = self._locks.get(id) or (trio.Lock(), 0)
        self._locks[id] = lock, users + 1
        return lock

    def leave(self, id: str) -> None:
        """One that has joined goes, the last one with the lock."""
        lock, users = self._locks.pop(id)
        if users > 1:
            self._locks[id] = lock, users - 1

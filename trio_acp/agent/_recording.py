"""The transcript of a running session on its way to the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_acp._cancellation import split_cancelled

from ._updates import CHUNKS

if TYPE_CHECKING:
    from ._live import LiveSession
    from ._store import SessionStore

__all__ = ["MAX_PENDING_BYTES", "Recorder"]

logger = logging.getLogger("trio_acp")

MAX_PENDING_BYTES: Final = 256 * 1024
"""Recorded conversation, in bytes, that waits in memory; from there on an update waits for the store."""

MAX_PENDING_UPDATES: Final = 1000
"""The same, in updates."""

SAVE_GRACE: Final = 5.0
"""Seconds that the end of a turn waits for the store: a disk that takes longer must not hold the answer."""

NOT_RECORDED: Final = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "notice",
        "session_info_update",
        "usage_update",
    }
)
"""Updates about the present rather than the conversation: they are sent anew, or kept in the record."""


class Recorder:
    """Collects what is said in one session, and hands it to the store now and then."""

    def __init__(self, store: SessionStore, live: LiveSession) -> None:
        self._store = store
        self._live = live
        self._pending: list[dict[str, Any]] = []
        self._size = 0
        self._message: tuple[str, str] | None = None
        """Kind and id of the message that the last pending update is a part of, while it grows."""
        self._parts: list[str] = []
        self._saving = trio.Lock()

    @property
    def full(self) -> bool:
        """So much waits that it should be saved before more is added."""
        return self._size >= MAX_PENDING_BYTES or len(self._pending) >= MAX_PENDING_UPDATES

    def add(self, update: dict[str, Any]) -> None:
        """Take an update that was sent. Pieces of one message grow together."""
        tag = update["sessionUpdate"]
        if tag in NOT_RECORDED:
            return
        text = _plain_text(update) if tag in CHUNKS else None
        if text is None:
            self._finish_message()
            self._pending.append(update)
            self._size += len(str(update))
            return
        self._size += len(text)
        message = (tag, update["messageId"])
        if self._message != message:
            self._finish_message()
            self._message = message
            self._pending.append({**update, "content": {**update["content"]}})
        self._parts.append(text)

    def _finish_message(self) -> None:
        if self._message is not None:
            self._pending[-1]["content"]["text"] = "".join(self._parts)
            self._parts.clear()
            self._message = None

    async def flush(self) -> None:
        """Save what waits. What cannot be saved is logged, and tried again next time if there is room.

        Cancellation: what was handed to the store by then counts as saved.
        """
        async with self._saving:
            self._finish_message()
            batch, self._pending = self._pending, []
            size, self._size = self._size, 0
            try:
                await self._store.save(self._live.record(), batch)
            except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
                cancelled, rest = split_cancelled(error)
                if not isinstance(rest, Exception):
                    raise
                logger.error("session %r could not be saved", self._live.id, exc_info=rest)
                if size < MAX_PENDING_BYTES:
                    self._finish_message()
                    self._pending = batch + self._pending
                    self._size += size
                if cancelled is not None:
                    raise cancelled from None  # noqa: ASYNC104 - cancellations were told apart before

    async def flush_soon(self) -> None:
        """Save what waits, whatever is cancelled around, for at most `SAVE_GRACE` seconds."""
        with trio.move_on_after(SAVE_GRACE, shield=True) as scope:
            await self.flush()
        if scope.cancelled_caught:
            logger.error("session %r was not saved within %g s", self._live.id, SAVE_GRACE)


def _plain_text(update: dict[str, Any]) -> str | None:
    """Return the text of a chunk that is nothing but text of a message with an id."""
    match update:
        case {"content": {"type": "text", "text": str(text), **rest}, "messageId": str()} if (
            not rest and len(update) == 3
        ):
            return text
        case _:
            return None

"""Where sessions are kept between connections: the interface, and the one that forgets at exit."""

from __future__ import annotations

import base64
import binascii
import copy
import datetime
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, final, runtime_checkable

import attrs
import trio

from trio_acp._core import decode, encode
from trio_acp._errors import AcpError

__all__ = [
    "MAX_MEMORY_STORE_BYTES",
    "MAX_MEMORY_STORE_SESSIONS",
    "PAGE_SIZE",
    "InvalidCursor",
    "MemorySessionStore",
    "SessionDamaged",
    "SessionRecord",
    "SessionStore",
    "now",
    "page",
]

PAGE_SIZE: Final = 50
"""Sessions on one page of a list: a screenful or two, and a message of some kilobytes."""

MAX_MEMORY_STORE_SESSIONS: Final = 1000
"""Sessions that a `MemorySessionStore` keeps, unless told otherwise."""

MAX_MEMORY_STORE_BYTES: Final = 256 * 1024 * 1024
"""Bytes of recorded conversation that a `MemorySessionStore` keeps, unless told otherwise."""


class SessionDamaged(AcpError):
    """The record of a session cannot be read. It was left as it is, for somebody to look at.

    Attributes:
        session_id: the session.
        path: the file that holds the record, None if it is no file.
        reason: what is wrong with it.
    """

    session_id: str
    path: str | None
    reason: str

    def __init__(self, session_id: str, reason: str, path: str | None = None) -> None:
        self.session_id = session_id
        self.path = path
        self.reason = reason
        where = f" in {path}" if path else ""
        super().__init__(
            f"the record of session {session_id!r}{where} is damaged: {reason}; "
            "it was left as it is: repair it, or move it away"
        )


class InvalidCursor(AcpError, ValueError):
    """A cursor that this store did not give out (S3)."""

    def __init__(self) -> None:
        super().__init__("this cursor is none that a list of sessions gave out; begin without one")


@attrs.define
class SessionRecord:
    """What is kept about a session besides its conversation.

    Attributes:
        session_id: its id.
        cwd: its working directory, absolute.
        additional_directories: its other roots, absolute.
        title: what people see.
        created_at: when it was made, as ISO 8601 text.
        updated_at: when it was last active, as ISO 8601 text in UTC.
        mode_id: the mode that it is in.
        config_values: the values of its config options.
        data: whatever its agent wants to keep, JSON values.
    """

    session_id: str
    cwd: str
    additional_directories: list[str] = attrs.field(factory=list[str])
    title: str | None = None
    created_at: str = ""
    updated_at: str = ""
    mode_id: str | None = None
    config_values: dict[str, str | bool] = attrs.field(factory=dict[str, "str | bool"])
    data: dict[str, Any] = attrs.field(factory=dict[str, Any])


@runtime_checkable
class SessionStore(Protocol):
    """Keeps sessions, so that they can be listed, loaded, resumed and deleted (S2, S3).

    Every method may wait, and may be cancelled; a save that is cancelled has happened whole or not at all.
    """

    async def save(self, record: SessionRecord, updates: Sequence[dict[str, Any]]) -> None:
        """Add a session, or news of one.

        Args:
            record: what is kept about it, instead of what was kept before.
            updates: what was said since, as JSON values of ``session/update``, added to what is there.
        """
        ...

    async def load(self, session_id: str) -> tuple[SessionRecord, list[dict[str, Any]]] | None:
        """Return a session and its whole conversation, or None if it is not kept.

        Raises:
            SessionDamaged: it is there but cannot be read.
        """
        ...

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None
    ) -> tuple[list[SessionRecord], str | None]:
        """Return one page of sessions, the most recently active first, and the cursor of the next page.

        Args:
            cwd: only sessions with exactly this working directory.
            cursor: where the page before ended, None for the first page.

        Raises:
            InvalidCursor: the cursor is none that this store gave out.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Forget a session; not an error if it is not kept."""
        ...


def now() -> str:
    """Return the time in UTC as ISO 8601 text that sorts by time."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def page(
    records: Iterable[SessionRecord], cwd: str | None, cursor: str | None, size: int = PAGE_SIZE
) -> tuple[list[SessionRecord], str | None]:
    """Cut one page out of all sessions. A cursor names a position, so what comes and goes does not move it.

    Raises:
        InvalidCursor: the cursor was not made here.
    """
    after = None if cursor is None else _read_cursor(cursor)
    found = sorted(
        (record for record in records if cwd is None or record.cwd == cwd), key=_position, reverse=True
    )
    if after is not None:
        found = [record for record in found if _position(record) < after]
    shown = found[:size]
    if len(found) <= size:
        return shown, None
    return shown, base64.urlsafe_b64encode(
        encode(dict(zip(("at", "id"), _position(shown[-1]), strict=True)))
    ).decode("ascii")


def _position(record: SessionRecord) -> tuple[str, str]:
    return (record.updated_at, record.session_id)


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        position: Any = decode(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise InvalidCursor from None
    match position:
        case {"at": str(updated_at), "id": str(session_id)}:
            return (updated_at, session_id)
        case _:
            raise InvalidCursor


@attrs.define(eq=False)
class _Kept:
    record: SessionRecord
    updates: deque[bytes]
    size: int = 0


@final
class MemorySessionStore:
    """Keeps sessions as long as the program runs; all connections of an app share it.

    Bounded: the sessions that were not active for the longest time go first; of a session that is too long
    on its own, the beginning.

    Args:
        max_sessions: how many sessions are kept.
        max_bytes: how many bytes of conversation are kept, of all sessions together.
    """

    def __init__(
        self,
        *,
        max_sessions: int = MAX_MEMORY_STORE_SESSIONS,
        max_bytes: int = MAX_MEMORY_STORE_BYTES,
    ) -> None:
        if max_sessions < 1 or max_bytes < 1:
            raise ValueError("max_sessions and max_bytes must be at least 1")
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._kept: dict[str, _Kept] = {}
        self._size = 0

    async def save(self, record: SessionRecord, updates: Sequence[dict[str, Any]]) -> None:
        """Add a session, or news of one; see `SessionStore.save`."""
        await trio.lowlevel.checkpoint()
        # Taken out and put back at the end: the order of the dict is the order of activity.
        kept = self._kept.pop(record.session_id, None) or _Kept(record, deque())
        self._kept[record.session_id] = kept
        kept.record = copy.deepcopy(record)
        for update in updates:
            # As bytes: what is kept must not change with what the agent goes on working with.
            line = encode(update)
            kept.updates.append(line)
            kept.size += len(line)
            self._size += len(line)
        while len(self._kept) > self._max_sessions or (self._size > self._max_bytes and len(self._kept) > 1):
            self._forget(next(iter(self._kept)))
        while self._size > self._max_bytes:
            line = kept.updates.popleft()
            kept.size -= len(line)
            self._size -= len(line)

    async def load(self, session_id: str) -> tuple[SessionRecord, list[dict[str, Any]]] | None:
        """Return a session and its conversation; see `SessionStore.load`."""
        await trio.lowlevel.checkpoint()
        kept = self._kept.get(session_id)
        if kept is None:
            return None
        return copy.deepcopy(kept.record), [decode(line) for line in kept.updates]

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None
    ) -> tuple[list[SessionRecord], str | None]:
        """Return one page of sessions; see `SessionStore.list_sessions`."""
        await trio.lowlevel.checkpoint()
        return page((copy.deepcopy(kept.record) for kept in self._kept.values()), cwd, cursor)

    async def delete(self, session_id: str) -> None:
        """Forget a session; see `SessionStore.delete`."""
        await trio.lowlevel.checkpoint()
        if session_id in self._kept:
            self._forget(session_id)

    def _forget(self, session_id: str) -> None:
        self._size -= self._kept.pop(session_id).size

"""Sessions in files: one a session, one line a save, never rewritten, so that a crash costs at most the
last line."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast, final

import attrs
import trio

from trio_acp._core import decode, encode

from ._store import SessionDamaged, SessionRecord, page

__all__ = ["FileSessionStore"]

FORMAT: Final = "trio-acp-session"
VERSION: Final = 1

BLOCK_BYTES: Final = 64 * 1024
"""How much of a file is read at once while its last line is looked for."""

_PLAIN_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
"""Ids that are safe as file names as they are, also where case does not count."""


@final
class FileSessionStore:
    """Keeps each session in a file of its own in one directory, across restarts.

    A file holds a header line and then one line for each save, which goes out in one piece. A program that
    is killed leaves at most an unfinished last line, which counts as not written. A file that is damaged
    otherwise is refused with `SessionDamaged` and never touched. Several programs may use one directory at
    a time (on POSIX systems: saves are locked).

    Args:
        directory: where the files are; made, for this user only, when the first session is saved.
        durable: wait at every save until the data is on the disk, so that it also outlives a crash of
            the machine.
    """

    def __init__(self, directory: str | os.PathLike[str], *, durable: bool = True) -> None:
        self._directory = Path(directory)
        self._durable = durable
        self._saving = threading.Lock()

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._directory

    def path(self, session_id: str) -> Path:
        """Return the file of a session, whether or not it is there."""
        if _PLAIN_NAME.fullmatch(session_id):
            name = session_id
        else:
            # Ids may come from anywhere: none may name a file outside, or the same file as another id.
            name = "." + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._directory / f"{name}.jsonl"

    async def save(self, record: SessionRecord, updates: Sequence[dict[str, Any]]) -> None:
        """Add a session, or news of one; see `SessionStore.save`. Cancelled, it still happens whole.

        Raises:
            SessionDamaged: the session's file cannot be read, so that nothing is added to it.
            TypeError: a field of the record does not hold what it should.
            OSError: the system refuses.
        """
        misfit = _misfit(record, record.session_id)
        if misfit is not None:
            raise TypeError(
                f"a session's record cannot be saved with {misfit}={getattr(record, misfit)!r:.100}"
            )
        line = encode({"record": attrs.asdict(record), "updates": list(updates)})
        await trio.to_thread.run_sync(self._save, record.session_id, line, abandon_on_cancel=True)

    async def load(self, session_id: str) -> tuple[SessionRecord, list[dict[str, Any]]] | None:
        """Return a session and its conversation; see `SessionStore.load`.

        Raises:
            SessionDamaged: its file cannot be read.
            OSError: the system refuses.
        """
        return await trio.to_thread.run_sync(self._load, session_id, abandon_on_cancel=True)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None
    ) -> tuple[list[SessionRecord], str | None]:
        """Return one page of sessions; see `SessionStore.list_sessions`.

        Files that are damaged, or that the system does not let be read, are left out.

        Raises:
            InvalidCursor: the cursor is none that this store gave out.
            OSError: the system refuses to list the directory.
        """
        records = await trio.to_thread.run_sync(self._records, abandon_on_cancel=True)
        return page(records, cwd, cursor)

    async def delete(self, session_id: str) -> None:
        """Remove a session's file, damaged or not; see `SessionStore.delete`.

        Raises:
            OSError: the system refuses.
        """
        await trio.to_thread.run_sync(self._delete, session_id, abandon_on_cancel=True)

    # In a thread -------------------------------------------------------------------------------------

    def _save(self, session_id: str, line: bytes) -> None:
        path = self.path(session_id)
        with self._saving:
            try:
                file = path.open("r+b")
            except FileNotFoundError:
                if self._create(path, session_id, line):
                    return
                file = path.open("r+b")  # pragma: no cover - another program made it in this very moment
            with file:
                _lock(file)
                self._check_header(file, path, session_id)
                size = file.seek(0, os.SEEK_END)
                end = _end_of_last_line(file, size)
                if end < size:
                    # What a killed program left behind; the next line must not be glued to it.
                    file.truncate(end)
                file.seek(end)
                self._write(file, line)

    def _create(self, path: Path, session_id: str, line: bytes) -> bool:
        """Make a file, whole or not at all; return whether there was none."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        header = encode({"format": FORMAT, "version": VERSION, "sessionId": session_id})
        fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            with open(fresh, "wb", opener=_private) as file:
                self._write(file, header + line)
            if path.exists():  # pragma: no cover - another program made it in this very moment
                return False
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        return True

    def _write(self, file: BinaryIO, data: bytes) -> None:
        file.write(data)
        file.flush()
        if self._durable:
            os.fsync(file.fileno())

    def _check_header(self, file: BinaryIO, path: Path, session_id: str | None) -> str:
        """Return the id of the session in a file that is positioned at its beginning."""
        name = session_id or path.stem
        line = file.readline()
        try:
            header: Any = decode(line)
        except ValueError:
            raise SessionDamaged(name, "its first line is not JSON", str(path)) from None
        match header:
            case {"format": format, "version": version, "sessionId": str(found)} if format == FORMAT:
                if version != VERSION:
                    reason = f"it has version {version!r}, this program reads {VERSION}"
                    raise SessionDamaged(name, reason, str(path))
                if session_id not in (None, found):
                    raise SessionDamaged(name, f"it belongs to session {found!r}", str(path))
                return found
            case _:
                raise SessionDamaged(name, "its first line is no header of a session", str(path))

    def _load(self, session_id: str) -> tuple[SessionRecord, list[dict[str, Any]]] | None:
        path = self.path(session_id)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        record: SessionRecord | None = None
        updates: list[dict[str, Any]] = []
        with file:
            self._check_header(file, path, session_id)
            for number, line in enumerate(file, start=2):
                if not line.endswith(b"\n"):
                    break
                record, more = _read_line(line, number, session_id, path)
                updates.extend(more)
        if record is None:
            raise SessionDamaged(session_id, "it ends after its header", str(path))
        return record, updates

    def _records(self) -> list[SessionRecord]:
        records: list[SessionRecord] = []
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        for name in names:
            if not name.endswith(".jsonl"):
                continue
            path = self._directory / name
            try:
                with path.open("rb") as file:
                    session_id = self._check_header(file, path, None)
                    start = file.tell()
                    end = _end_of_last_line(file, file.seek(0, os.SEEK_END))
                    before = _end_of_last_line(file, end - 1)
                    file.seek(max(before, start))
                    record, _ = _read_line(file.readline(), 0, session_id, path)
                    records.append(record)
            except (OSError, SessionDamaged):
                # Whoever asks for this very session gets the error; the list shows the others.
                continue
        return records

    def _delete(self, session_id: str) -> None:
        with self._saving:
            self.path(session_id).unlink(missing_ok=True)


def _read_line(
    line: bytes, number: int, session_id: str, path: Path
) -> tuple[SessionRecord, list[dict[str, Any]]]:
    where = f"line {number}" if number else "its last line"
    try:
        entry: Any = decode(line)
    except ValueError:
        raise SessionDamaged(session_id, f"{where} is not JSON", str(path)) from None
    match entry:
        case {"record": {"session_id": str(), "cwd": str()}, "updates": [*updates]}:
            try:
                record = SessionRecord(**entry["record"])
            except TypeError:
                raise SessionDamaged(
                    session_id, f"{where} has fields of another version", str(path)
                ) from None
            misfit = _misfit(record, session_id)
            if misfit is not None:
                raise SessionDamaged(session_id, f"{where} has no valid {misfit}", str(path))
        case _:
            raise SessionDamaged(session_id, f"{where} is no record of a session", str(path))
    if not all(isinstance(update, dict) and "sessionUpdate" in update for update in updates):
        raise SessionDamaged(session_id, f"{where} holds something that is no update", str(path))
    return record, updates


def _misfit(record: SessionRecord, session_id: str) -> str | None:
    """Return the name of a field that does not hold what it should, None if all do."""
    directories: Any = record.additional_directories
    values: Any = record.config_values
    fits = {
        "session_id": record.session_id == session_id,
        "additional_directories": isinstance(directories, list)
        and all(isinstance(each, str) for each in cast("list[object]", directories)),
        "title": record.title is None or isinstance(record.title, str),
        "created_at": isinstance(record.created_at, str),
        "updated_at": isinstance(record.updated_at, str),
        "mode_id": record.mode_id is None or isinstance(record.mode_id, str),
        "config_values": isinstance(values, dict)
        and all(isinstance(each, (str, bool)) for each in cast("dict[str, object]", values).values()),
        "data": isinstance(record.data, dict),
    }
    return next((name for name, fit in fits.items() if not fit), None)


def _end_of_last_line(file: BinaryIO, size: int) -> int:
    """Return the position after the last newline in the first ``size`` bytes of a file; 0 if there is
    none."""
    end = size
    while end > 0:
        begin = max(0, end - BLOCK_BYTES)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _private(path: str, flags: int) -> int:
    """Open a file that only this user can read: it holds a conversation."""
    return os.open(path, flags, 0o600)


def _lock(file: BinaryIO) -> None:
    """Hold a file alone, as far as the system can do that, until it is closed."""
    if sys.platform != "win32":  # pragma: no branch - Windows has no such lock
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)

"""Files for an agent: the host's side of ``fs/read_text_file`` and ``fs/write_text_file`` (F1, S5)."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar, final

import trio

from trio_acp._errors import InternalError, InvalidParams, MethodNotFound, RequestError, ResourceNotFound
from trio_acp.client import SessionScope
from trio_acp.schema import ReadTextFileRequest, WriteTextFileRequest

from ._paths import PathOutside, Root, find_place, require_regular

__all__ = [
    "DEFAULT_MAX_FILE_BYTES",
    "MAX_PINNED_ROOTS",
    "MAX_THREADS",
    "Codec",
    "Overlay",
    "Utf8",
    "Workspace",
    "cut_lines",
]

DEFAULT_MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file that is read or written: no source text comes near it."""

MAX_THREADS: Final = 8
"""Files that one workspace works on at the same time: disks gain little from more."""

MAX_PINNED_ROOTS: Final = 1024
"""Session directories whose real path is remembered; more than any host has open."""

_READ_CHUNK: Final = 1024 * 1024
"""Bytes of one read."""

T = TypeVar("T")

_OPEN_FLAGS: Final = (
    # Without O_NONBLOCK, opening a FIFO would wait for its other end before anybody could look at it.
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class Codec(Protocol):
    """How the bytes of a file become text and back. Both methods are called in worker threads."""

    def decode(self, data: bytes) -> str:
        """Return the text. Raises UnicodeError where the bytes are no text of this kind."""
        ...

    def encode(self, text: str) -> bytes:
        """Return the bytes. Raises UnicodeError where the text has no such bytes."""
        ...


@final
class Utf8:
    """UTF-8, strict in both directions: what is no UTF-8 is refused, never replaced."""

    def decode(self, data: bytes) -> str:
        """Return the text."""
        return data.decode("utf-8")

    def encode(self, text: str) -> bytes:
        """Return the bytes."""
        return text.encode("utf-8")


class Overlay(Protocol):
    """Where unsaved texts are: an editor's buffers. Both methods get paths that lie inside the roots."""

    async def read(self, path: str) -> str | None:
        """Return the unsaved text of a file, None where there is none."""
        ...

    async def write(self, path: str, text: str) -> bool:
        """Take over a text; return false to have it written to the disk.

        Args:
            path: where to, without symbolic links.
            text: the whole new text.
        """
        ...


@final
class Workspace:
    """Serves the agent's file requests, confined to the directories of the session that asks.

    Only regular files beneath the roots are touched: no spelling (``..``, links, siblings' names) and no
    race between looking and opening leads out. Give it to `AcpOptions`: ``AcpOptions(files=Workspace())``.

    Texts keep their line ends. Writing is atomic (a temporary file beside it, then a rename), asks for the
    permission to write the file that is there, and keeps its permission bits. What lies beneath a root by a
    hard link or a mount counts as inside.

    The agent's own process is not confined by this: it can read what its user can.

    Args:
        roots: the directories, instead of those of each session. Relative paths of the agent count from the
            session's working directory all the same.
        read_only: do not write; agents are told so.
        max_file_bytes: largest file read or written, in bytes.
        create_parents: make missing directories when a file is written.
        codec: how bytes become text; UTF-8 by default.
        overlay: unsaved texts, consulted before the disk.

    Raises:
        TypeError: ``roots`` is a single path or empty.
        RuntimeError: this operating system cannot open files relative to a directory, which all of the
            above depends on.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]] | None = None,
        *,
        read_only: bool = False,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        create_parents: bool = False,
        codec: Codec | None = None,
        overlay: Overlay | None = None,
    ) -> None:
        if os.open not in os.supports_dir_fd:
            raise RuntimeError(
                "a Workspace cannot be confined on this operating system; serve files by handlers of your own"
            )
        if roots is not None and (isinstance(roots, (str, bytes)) or not roots):
            raise TypeError("roots must be a sequence of at least one directory, or None for the session's")
        self._roots = (
            None if roots is None else tuple(Root.pin(os.path.abspath(os.fspath(root))) for root in roots)
        )
        self._read_only = read_only
        self._max_bytes = max_file_bytes
        self._create_parents = create_parents
        self._codec: Codec = Utf8() if codec is None else codec
        self._overlay = overlay
        self._limiter = trio.CapacityLimiter(MAX_THREADS)
        self._pinned: dict[str, Root] = {}

    @property
    def writable(self) -> bool:
        """Whether writing is offered to agents."""
        return not self._read_only

    async def read(self, request: ReadTextFileRequest, session: SessionScope) -> str:
        """Serve ``fs/read_text_file``: the whole text, or ``limit`` lines from ``line`` on, exactly as it is.

        A first line beyond the end gives an empty text.

        Cancellation: the reading is given up.

        Args:
            request: what is asked for.
            session: the session that asks.

        Raises:
            InvalidParams: outside of the roots; ``line`` or ``limit`` is 0; not a text of this codec.
            ResourceNotFound: there is no such file.
            InternalError: it is too large, no regular file, or cannot be read.
        """
        first, limit = _positive(request.line, "line"), _positive(request.limit, "limit")
        if self._overlay is not None:
            path = await self._in_thread(lambda: self._find(session, request.path), abandon=True)
            unsaved = await self._overlay.read(path)
            if unsaved is not None:
                return cut_lines(unsaved, first or 1, limit)
        return await self._in_thread(
            lambda: cut_lines(self._read_text(session, request.path), first or 1, limit), abandon=True
        )

    async def write(self, request: WriteTextFileRequest, session: SessionScope) -> None:
        """Serve ``fs/write_text_file``: replace the text of a file, or make the file.

        Cancellation: the file has its old text or its new one, whole.

        Args:
            request: what is to be written.
            session: the session that asks.

        Raises:
            MethodNotFound: the workspace is read-only.
            InvalidParams: outside of the roots, or the text cannot be encoded.
            ResourceNotFound: its directory does not exist.
            InternalError: it is too large, no regular file, or cannot be written.
        """
        if self._read_only:
            raise MethodNotFound("this client does not let agents write files")
        data = await self._in_thread(lambda: self._encode(request.content))
        if self._overlay is not None:
            path = await self._in_thread(lambda: self._find(session, request.path))
            if await self._overlay.write(path, request.content):
                return
        await self._in_thread(lambda: self._write(session, request.path, data))

    async def _in_thread(self, work: Callable[[], T], *, abandon: bool = False) -> T:
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=abandon)
        except PathOutside:
            raise InvalidParams("path: outside of the directories of this session") from None
        except (FileNotFoundError, NotADirectoryError):
            raise ResourceNotFound("path: there is no such file or directory") from None
        except OSError as error:
            number = error.errno or errno.EIO
            said = "not a regular file" if number == errno.EINVAL else os.strerror(number)
            raise InternalError(f"path: the file cannot be used: {said}") from error

    # In a worker thread --------------------------------------------------------------------------------

    def _roots_of(self, session: SessionScope) -> Sequence[Root]:
        if self._roots is not None:
            return self._roots
        return [self._pin(root) for root in session.roots]

    def _pin(self, path: str) -> Root:
        root = self._pinned.get(path)
        if root is None:
            root = self._pinned.setdefault(path, Root.pin(path))
            while len(self._pinned) > MAX_PINNED_ROOTS:
                with contextlib.suppress(KeyError, RuntimeError):  # another thread does the same
                    del self._pinned[next(iter(self._pinned))]
        return root

    def _find(self, session: SessionScope, path: str) -> str:
        with find_place(self._roots_of(session), session.cwd, path) as place:
            return place.path

    def _encode(self, text: str) -> bytes:
        try:
            data = self._codec.encode(text)
        except UnicodeError:
            raise InvalidParams("content: this text cannot be written in the file's encoding") from None
        if len(data) > self._max_bytes:
            raise self._too_large()
        return data

    def _read_text(self, session: SessionScope, path: str) -> str:
        try:
            return self._codec.decode(self._read(session, path))
        except UnicodeError:
            raise InvalidParams("path: the file is no text in the expected encoding") from None

    def _read(self, session: SessionScope, path: str) -> bytes:
        with find_place(self._roots_of(session), session.cwd, path) as place:
            # Opening a device can have effects, so look first. What counts is what was opened, though.
            require_regular(os.stat(place.name, dir_fd=place.directory, follow_symlinks=False))
            descriptor = os.open(place.name, os.O_RDONLY | _OPEN_FLAGS, dir_fd=place.directory)
            with open(descriptor, "rb", buffering=0) as file:
                status = os.fstat(descriptor)
                require_regular(status)
                if status.st_size > self._max_bytes:
                    raise self._too_large()
                data = bytearray()
                # The file may grow while it is read; the limit holds all the same.
                while chunk := file.read(min(_READ_CHUNK, self._max_bytes + 1 - len(data))):
                    data += chunk
                    if len(data) > self._max_bytes:
                        raise self._too_large()
                return bytes(data)

    def _write(self, session: SessionScope, path: str, data: bytes) -> None:
        roots = self._roots_of(session)
        with find_place(roots, session.cwd, path, create_parents=self._create_parents) as place:
            mode = _mode_to_keep(place.name, place.directory)
            temporary = f".{secrets.token_hex(8)}.tmp"
            descriptor = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS,
                0o666 if mode is None else 0o600,
                dir_fd=place.directory,
            )
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    if mode is not None and sys.platform != "win32":
                        os.fchmod(descriptor, mode)
                    view = memoryview(data)
                    while view:
                        view = view[file.write(view) :]
                    os.fsync(descriptor)
                # A link that has taken the place meanwhile is replaced, not followed.
                os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=place.directory)
                raise

    def _too_large(self) -> RequestError:
        return InternalError(
            f"path: the file has more than {self._max_bytes} bytes, which this client does not handle"
        )


def _mode_to_keep(name: str, directory: int) -> int | None:
    """Return the permission bits of the file that is to be replaced, None if there is none.

    Raises:
        OSError: what is there is no regular file, or may not be written.
    """
    try:
        require_regular(os.stat(name, dir_fd=directory, follow_symlinks=False))
        # A rename would pass over the file's own write protection: ask for it.
        descriptor = os.open(name, os.O_WRONLY | _OPEN_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
        require_regular(status)
        return stat.S_IMODE(status.st_mode) & 0o777
    finally:
        os.close(descriptor)


def _positive(value: int | None, name: str) -> int | None:
    if value is not None and value < 1:
        raise InvalidParams(f"{name}: lines are counted from 1, got {value}")
    return value


def cut_lines(text: str, first: int, limit: int | None) -> str:
    """Return ``limit`` lines from line ``first`` on: an exact substring, line ends and all.

    Args:
        text: the whole text.
        first: the first line, counted from 1.
        limit: how many lines at most; None for all.
    """
    start = _after_lines(text, 0, first - 1)
    return text[start:] if limit is None else text[start : _after_lines(text, start, limit)]


def _after_lines(text: str, start: int, count: int) -> int:
    """Return where the line begins that comes ``count`` lines after the one at ``start``."""
    for _ in range(count):
        end = text.find("\n", start)
        if end < 0:
            return len(text)
        start = end + 1
    return start

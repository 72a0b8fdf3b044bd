"""Files of the session's directory, and of no other. All functions block, and are to be run in a thread."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

import attrs

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_LISTED_FILES",
    "Entry",
    "FileMissing",
    "FileProblem",
    "confine",
    "list_directory",
    "read_text",
    "write_text",
]

MAX_FILE_BYTES: Final = 256 * 1024
"""Bytes of a file that is read: a message that shows more is of no use to anybody."""

MAX_LISTED_FILES: Final = 200
"""Names of a directory that are listed."""


class FileProblem(Exception):
    """A file cannot be used; the message says why, for people."""


class FileMissing(FileProblem):
    """There is no such file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"there is no `{path}`")


@attrs.frozen
class Entry:
    """One name in a directory.

    Attributes:
        name: the name; that of a directory ends with a slash.
        size: its size in bytes, None for what is no regular file.
    """

    name: str
    size: int | None


def confine(path: str, roots: Sequence[str]) -> str:
    """Return where a path leads, all links followed; the first root is where relative ones start.

    Raises:
        FileProblem: that is outside of all roots.
    """
    if "\0" in path:
        raise FileProblem("there is no file with such a name")
    real = os.path.realpath(os.path.join(roots[0], path))
    for root in roots:
        if os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root):
            return real
    raise FileProblem(f"`{path}` is outside of the session's directory; I stay inside")


def list_directory(path: str) -> tuple[list[Entry], int]:
    """Return what is in a directory, sorted by name, and how many names were left out.

    Raises:
        FileProblem: it cannot be read.
    """
    entries: list[Entry] = []
    try:
        with os.scandir(path) as found:
            for entry in found:
                is_directory = entry.is_dir(follow_symlinks=False)
                is_file = entry.is_file(follow_symlinks=False)
                size = entry.stat(follow_symlinks=False).st_size if is_file else None
                entries.append(Entry(entry.name + ("/" if is_directory else ""), size))
    except OSError as error:
        raise FileProblem(f"I cannot list `{path}`: {error.strerror}") from error
    entries.sort(key=lambda entry: entry.name)
    return entries[:MAX_LISTED_FILES], max(0, len(entries) - MAX_LISTED_FILES)


def read_text(path: str, shown: str) -> str:
    """Return the text of a file.

    Args:
        path: the file, as `confine` returned it: its last part must not be a link by now.
        shown: what people call it.

    Raises:
        FileProblem: it is none, is too large, or is no text.
    """
    try:
        with os.fdopen(_open_regular(path, os.O_RDONLY), "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _problem("read", shown, error) from error
    if len(data) > MAX_FILE_BYTES:
        raise FileProblem(f"`{shown}` is larger than {MAX_FILE_BYTES // 1024} KiB; that is too much for me")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileProblem(f"`{shown}` is not a text file") from None


def write_text(path: str, text: str, shown: str) -> None:
    """Write a file; it is made if it is not there.

    Args:
        path: the file, as `confine` returned it: its last part must not be a link by now.
        text: its whole new text.
        shown: what people call it.

    Raises:
        FileProblem: it cannot be written.
    """
    try:
        with os.fdopen(_open_regular(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.truncate()
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise _problem("write", shown, error) from error


_CAREFUL: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    if os.name == "posix"
    else getattr(os, "O_BINARY", 0)
)
"""Neither follow a link that was put there meanwhile, nor wait for the other end of a named pipe."""


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | _CAREFUL, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def _problem(verb: str, shown: str, error: OSError) -> FileProblem:
    if isinstance(error, FileNotFoundError):
        return FileMissing(shown)
    return FileProblem(f"I cannot {verb} `{shown}`: {error.strerror}")

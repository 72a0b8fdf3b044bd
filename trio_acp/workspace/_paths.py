"""Finding a file beneath a set of directories, so that no spelling and no race leads out of them.

A path is walked component by component from an opened root, each directory opened relative to the one before
and never through a symbolic link. Links are read and followed by the walk itself, which begins again at a
root where one leads elsewhere. What is finally opened is therefore reached through directories that were all
found beneath a root, whatever is renamed or replaced meanwhile. Everything here blocks: run it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

__all__ = [
    "MAX_LINKS",
    "MAX_PATH",
    "MAX_STEPS",
    "PathOutside",
    "Place",
    "Root",
    "find_place",
    "require_regular",
]

MAX_LINKS: Final = 40
"""Symbolic links that one path may lead through; the number that Linux itself allows."""

MAX_PATH: Final = 4096
"""Bytes of a path, as on Linux."""

MAX_STEPS: Final = 8192
"""Directories opened for one path: ``..`` costs as many as it is deep, and must not cost without end."""

# With O_PATH a directory that may be searched but not listed can be passed through.
_DIRECTORY_FLAGS: Final = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class PathOutside(Exception):
    """The path leads out of the roots, or could only be judged by leaving them."""


@attrs.frozen
class Place:
    """Where a path leads.

    Attributes:
        directory: descriptor of the directory, opened beneath a root; valid within `find_place` only.
        name: the name in it, which was no symbolic link when it was looked at.
        path: the same place as a path, for messages and hooks.
    """

    directory: int
    name: str
    path: str


@attrs.frozen
class Root:
    """A directory that paths may lead into.

    Attributes:
        spellings: how paths may begin to name it.
        real: its path without symbolic links. Should one of its directories become a link later on, it is
            not found any more: what the agent can rename must not move its own fence.
    """

    spellings: tuple[str, ...]
    real: str

    @classmethod
    def pin(cls, path: str) -> Root:
        """Resolve the path of a root, once and for all."""
        real = os.path.realpath(path)
        return cls(tuple(dict.fromkeys([path, os.path.normpath(path), real])), real)

    def match(self, path: str) -> str | None:
        """Return the spelling of this root that an absolute path begins with; the longest, None if none."""
        # By component: /home/me/project must not let /home/me/project-secrets in.
        found = [
            spelling
            for spelling in self.spellings
            if path == spelling or path.startswith(spelling.rstrip(os.sep) + os.sep)
        ]
        return max(found, key=len, default=None)


@contextmanager
def find_place(
    roots: Sequence[Root], base: str, path: str, *, create_parents: bool = False
) -> Generator[Place]:
    """Walk to a path and hand out the directory and the name that it leads to.

    The name need not exist. Where it was a symbolic link, the walk has followed it.

    Args:
        roots: where paths may lead.
        base: an absolute path, from which a relative path counts.
        path: what is looked for.
        create_parents: make directories that are missing on the way.

    Raises:
        PathOutside: it leads out of all roots.
        OSError: the walk failed: a directory is missing, something on the way is none, too many links.
    """
    if "\0" in path:
        raise PathOutside
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise PathOutside from None  # no file system has such a name
    if length > MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    walk = _Walk(roots)
    try:
        yield walk.to(os.path.join(base, path), create_parents)
    finally:
        walk.close()


class _Walk:
    """One walk: the directory that it has come to, and the names that led there."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = roots
        self._root: Root | None = None
        self._names: list[str] = []
        self._directory = -1
        self._steps = 0
        self._links = 0

    def to(self, path: str, create_parents: bool) -> Place:
        todo = self._begin(path)
        while True:
            while todo and todo[0] in ("", os.curdir):
                todo.popleft()
            if not todo:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            name = todo.popleft()
            if name == os.pardir:
                todo = self._leave(todo)
                continue
            target = _read_link(self._directory, name)
            if target is not None:
                todo = self._follow(target, todo)
            elif todo:
                # "file/" names a directory, and none is made for it.
                more = any(part not in ("", os.curdir) for part in todo)
                self._enter(name, create_parents and more)
            else:
                return Place(self._directory, name, os.path.join(self._path, name))

    @property
    def _path(self) -> str:
        assert self._root is not None
        return os.path.join(self._root.real, *self._names)

    def _begin(self, path: str) -> deque[str]:
        """Begin at the root that an absolute path begins with; return the components after it."""
        best: tuple[str, Root] | None = None
        for root in self._roots:
            spelling = root.match(path)
            if spelling is not None and (best is None or len(spelling) > len(best[0])):
                best = spelling, root
        if best is None:
            raise PathOutside
        spelling, self._root = best
        self._names.clear()
        self._open_root()
        return deque(path[len(spelling) :].split(os.sep))

    def _open_root(self) -> None:
        assert self._root is not None
        self.close()
        self._directory = os.open(os.sep, _DIRECTORY_FLAGS)
        for name in self._root.real.split(os.sep):
            if name:
                self._step(name)

    def _step(self, name: str) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        # Should the name have become a link since it was looked at, this fails rather than follow it.
        inner = os.open(name, _DIRECTORY_FLAGS, dir_fd=self._directory)
        self.close()
        self._directory = inner

    def _enter(self, name: str, create: bool) -> None:
        if create:
            try:
                os.mkdir(name, dir_fd=self._directory)
            except FileExistsError:
                pass
        self._step(name)
        self._names.append(name)

    def _leave(self, todo: deque[str]) -> deque[str]:
        """Go up. Not by opening "..": that leads out of a directory that was moved away meanwhile."""
        assert self._root is not None
        if not self._names:
            # Perhaps the path comes back in by another way: that is for its text to show.
            return self._begin(os.path.join(os.path.dirname(self._root.real), *todo))
        self._names.pop()
        self._open_root()
        for name in self._names:
            self._step(name)
        return todo

    def _follow(self, target: str, todo: deque[str]) -> deque[str]:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if os.path.isabs(target):
            return deque([*self._begin(target), *todo])
        return deque([*target.split(os.sep), *todo])

    def close(self) -> None:
        """Close the directory."""
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)


def _read_link(directory: int, name: str) -> str | None:
    """Return where a symbolic link points, None for anything else and for nothing."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def require_regular(status: os.stat_result) -> None:
    """Refuse what is no regular file: a device, a pipe, a socket, a directory.

    Raises:
        OSError: it is one of these.
    """
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")

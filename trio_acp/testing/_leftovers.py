"""What a piece of code has left behind: tasks, child processes, descriptors, threads."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Final

import attrs
import trio

__all__ = ["LeftBehind", "Leftovers", "assert_nothing_left", "leftovers"]

_ALLOWED_FILES: Final = (".hypothesis", ".coverage", "/dev/urandom", ".pyc", ".py")
"""Opened by test tools, and by imports, whenever they like."""


class LeftBehind(AssertionError):
    """Something is there that was not there before."""


@attrs.frozen
class Leftovers:
    """What there is at one moment, as far as the platform tells.

    Attributes:
        descriptors: open file descriptors and what they are (where there is a ``/proc`` or ``/dev/fd``).
        children: ids of child processes, zombies included (Linux).
        threads: names of the threads that are no daemons.
        tasks: Trio tasks, where called within a Trio run.
    """

    descriptors: frozenset[tuple[int, str]]
    children: frozenset[int]
    threads: frozenset[str]
    tasks: frozenset[trio.lowlevel.Task]

    def since(self, before: Leftovers) -> dict[str, list[str]]:
        """Return what is here and was not there before, by kind; empty kinds are left out.

        Args:
            before: what was there.
        """
        left = {
            "descriptors": [f"{fd}: {target}" for fd, target in self.descriptors - before.descriptors],
            "child processes": [str(pid) for pid in self.children - before.children],
            "threads": list(self.threads - before.threads),
            "tasks": [task.name for task in self.tasks - before.tasks],
        }
        return {kind: sorted(found) for kind, found in left.items() if found}


def leftovers() -> Leftovers:
    """Return what there is now. Trio's idle worker threads are daemons, and not counted."""
    return Leftovers(
        descriptors=frozenset(_descriptors()),
        children=frozenset(_children()),
        threads=frozenset(f"{each.name} ({each.ident})" for each in threading.enumerate() if not each.daemon),
        tasks=frozenset(_tasks()),
    )


@contextlib.contextmanager
def assert_nothing_left(allowed: Iterable[str] = ()) -> Generator[None]:
    """Check that a block leaves nothing behind: ``with assert_nothing_left(): ...``.

    What is compared: open descriptors, child processes, threads and, within a Trio run, tasks. A block that
    raises is not judged.

    Args:
        allowed: parts of the descriptions of what may be left, for example the name of a log file.

    Raises:
        LeftBehind: something is left; the message says what.
    """
    before = leftovers()
    yield
    found = leftovers().since(before)
    if found:
        gc.collect()  # a reference cycle may hold the last reference
        found = leftovers().since(before)
    kept = {
        kind: [each for each in items if not any(part in each for part in allowed)]
        for kind, items in found.items()
    }
    kept = {kind: items for kind, items in kept.items() if items}
    if kept:
        raise LeftBehind(f"left behind: {kept}")


_FD_DIRECTORY: Final = next(
    (path for path in (pathlib.Path("/proc/self/fd"), pathlib.Path("/dev/fd")) if path.is_dir()), None
)


def _descriptors() -> Iterator[tuple[int, str]]:
    if _FD_DIRECTORY is None:  # pragma: no cover - only where the platform has no such directory
        return
    for name in os.listdir(_FD_DIRECTORY):
        try:
            target = os.readlink(_FD_DIRECTORY / name)
        except OSError:
            continue  # the descriptor of the listing itself
        if not any(part in target for part in _ALLOWED_FILES):
            yield int(name), target


def _children() -> Iterator[int]:
    for task in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread has gone
            yield from map(int, task.read_text().split())


def _tasks() -> Iterator[trio.lowlevel.Task]:
    if not trio.lowlevel.in_trio_run():
        return
    root = trio.lowlevel.current_root_task()
    waiting = [] if root is None else [root]
    while waiting:
        task = waiting.pop()
        yield task
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)

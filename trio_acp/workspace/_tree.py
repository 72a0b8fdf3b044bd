"""A command and everything that it has started, also what has made itself independent."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from typing import Final

import trio

from trio_acp.transports import ProcessGroup

__all__ = ["ProcessTree", "new_mark"]

EXEC_MOMENT: Final = 0.0005
"""Seconds in which a process that becomes another program has its new environment."""


def new_mark() -> str:
    """Return the name of an environment variable that nobody else has: descendants inherit it."""
    return f"TRIO_ACP_TERMINAL_{secrets.token_hex(8).upper()}"


class ProcessTree:
    """The process group of a command, and on Linux also the descendants that have left it.

    A descendant that makes a session of its own leaves the group, and one whose parents have ended leaves the
    tree of processes; its environment it keeps. One that has got rid of that too is not found.

    Args:
        process: leads a process group of its own.
        mark: a variable of its environment, from `new_mark`.
    """

    def __init__(self, process: trio.Process, mark: str) -> None:
        self._group = ProcessGroup(process)
        self._mark = mark.encode() + b"="

    def alive(self) -> bool:
        """Whether anything of it runs."""
        return self._group.alive() or any(self._has_mark(pid) for pid in _processes())

    def terminate(self) -> None:
        """Ask all of it to end (SIGTERM)."""
        self._group.terminate()
        self._signal_strays("SIGTERM")

    def kill(self) -> None:
        """End all of it (SIGKILL)."""
        self._group.kill()
        self._signal_strays("SIGKILL")

    def _has_mark(self, pid: int) -> bool:
        try:
            variables = _environment(pid)
            if not variables and os.readlink(f"/proc/{pid}/exe"):
                # Perhaps it becomes another program in this moment: then it has none for an instant.
                time.sleep(EXEC_MOMENT)
                variables = _environment(pid)
        except OSError:
            return False  # gone meanwhile, dead and not reaped, or somebody else's
        return variables.startswith(self._mark) or b"\0" + self._mark in variables

    def _signal_strays(self, name: str) -> None:
        for pid in _processes():
            if self._has_mark(pid):
                self._signal(pid, name)

    def _signal(self, pid: int, name: str) -> None:
        if sys.platform == "linux":  # pragma: no branch - nothing is found elsewhere
            # Through a descriptor: the number may have gone to another process since it was looked at.
            try:
                process = os.pidfd_open(pid)
                try:
                    if self._has_mark(pid):
                        signal.pidfd_send_signal(process, getattr(signal, name))
                finally:
                    os.close(process)
            except OSError:
                pass  # ended in this moment, or belongs to another user by now


def _environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


def _processes() -> list[int]:
    if sys.platform == "linux":
        own = os.getpid()
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]
    else:  # pragma: no cover - no /proc elsewhere
        return []

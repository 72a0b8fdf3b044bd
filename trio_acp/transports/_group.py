"""The process group of an agent: signals to all of it, and whether anything in it still runs."""

from __future__ import annotations

import os
import signal
import sys

import trio

__all__ = ["ProcessGroup"]


class ProcessGroup:
    """The processes that an agent and its helpers form, as far as they have stayed together.

    A helper that made a session of its own has left the group and is not seen here. On Windows the group
    is the agent alone.

    The number of a group may be given to somebody else once the group is empty, so after its leader was
    reaped a group that was seen empty is never touched again.

    Args:
        process: the leader, started with ``start_new_session=True``.
    """

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._gone = False

    def alive(self) -> bool:
        """Whether a member runs. Dead processes that nobody has reaped do not count, except the leader."""
        if self._gone:
            return False
        if self._process.poll() is None:
            return True
        self._gone = not _has_members(self._process.pid)
        return not self._gone

    def terminate(self) -> None:
        """Ask all members to end (SIGTERM)."""
        self._signal("SIGTERM")

    def kill(self) -> None:
        """End all members (SIGKILL)."""
        self._signal("SIGKILL")

    def _signal(self, name: str) -> None:
        if not self.alive():
            return
        if sys.platform == "win32":  # pragma: no cover - Windows
            self._process.terminate()
        else:
            try:
                os.killpg(self._process.pid, getattr(signal, name))
            except (ProcessLookupError, PermissionError):
                # All ended in this moment; or what is left belongs to another user, who is in charge of it.
                pass


if sys.platform == "win32":  # pragma: no cover - Windows

    def _has_members(group: int) -> bool:
        return False

else:

    def _has_members(group: int) -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        # The signal also reaches the dead that wait for a parent to reap them: in a container without an
        # init for ever. Where /proc tells the dead from the living, ask it.
        if not os.path.exists("/proc/self/stat"):  # pragma: no cover - no /proc: macOS
            return True
        return any(_is_live_member(name, group) for name in os.listdir("/proc") if name.isdigit())


def _is_live_member(pid: str, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in parentheses, may hold anything; what follows it: state, parent, group.
            state, _, of_group = file.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # gone meanwhile
    return int(of_group) == group and state not in (b"Z", b"X")

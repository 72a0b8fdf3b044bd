"""POSIX: a command with a pipe or a pty for all that it writes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

assert not TYPE_CHECKING or sys.platform != "win32"
__all__ = ["PTY_SIZE", "spawn"]

PTY_SIZE: Final = (24, 80)
"""Rows and columns of a pty."""

# Makes the pty its controlling terminal, which only the process itself can do, and becomes the command.
_PTY_STARTER: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[2:])"
)


async def spawn(
    executable: str, argv: Sequence[str], cwd: str, env: Mapping[str, str], *, use_pty: bool
) -> tuple[trio.Process, int]:
    """Start a command in a session of its own, with nothing to read.

    Cancellation: no process is left; one that was started is returned.

    Args:
        executable: path of the program.
        argv: its name and arguments.
        cwd: its working directory.
        env: its whole environment.
        use_pty: give it a pty instead of a pipe.

    Returns:
        The process, and a descriptor in non-blocking mode that gives what it writes.

    Raises:
        OSError, ValueError: it could not be started.
    """
    # Each end is a file description of its own, so that the command's end stays in blocking mode.
    ours, theirs = pty.openpty() if use_pty else os.pipe()
    try:
        if use_pty:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *PTY_SIZE, 0, 0))
            argv = (sys.executable, "-IS", "-c", _PTY_STARTER, executable, *argv)
            executable = sys.executable
        process = await trio.lowlevel.open_process(
            argv,
            executable=executable,
            stdin=theirs if use_pty else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return process, ours

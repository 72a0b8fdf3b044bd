"""Running a command here, for clients that offer no terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Final

import trio

from trio_acp.agent import CommandResult

__all__ = ["run_shell"]

MAX_OUTPUT_BYTES: Final = 64 * 1024
"""Bytes of output that are kept, the newest."""

OUTPUT_GRACE: Final = 1.0
"""Seconds that output may still come after the command has ended, from what it left behind."""

KILL_GRACE: Final = 5.0
"""Seconds that the system has to end what was killed."""

READ_BYTES: Final = 64 * 1024
"""Bytes read at once."""


async def run_shell(command: str, cwd: str) -> CommandResult:
    """Run a line for the shell to its end, without input, and return what it did.

    Whatever it has started in its own process group ends with it. Cancellation: kills all of that.

    Args:
        command: the line.
        cwd: where it runs, absolute.

    Raises:
        OSError: it could not be started.
    """
    process = await _start(command, cwd)
    output = bytearray()
    total = 0
    ended = trio.Event()
    stdout = process.stdout
    assert stdout is not None

    async def collect() -> None:
        nonlocal total
        while data := await stdout.receive_some(READ_BYTES):
            total += len(data)
            output.extend(data)
            del output[:-MAX_OUTPUT_BYTES]
        ended.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            await process.wait()
            with trio.move_on_after(OUTPUT_GRACE):
                await ended.wait()
            nursery.cancel_scope.cancel()
    finally:
        with trio.move_on_after(KILL_GRACE, shield=True):
            if process.returncode is None or not ended.is_set():
                _kill_group(process)
            await process.wait()
            await stdout.aclose()
    status = process.returncode
    assert status is not None
    return CommandResult(
        output.decode("utf-8", "replace"),
        exit_code=status if status >= 0 else None,
        signal=None if status >= 0 else _signal_name(-status),
        truncated=total > MAX_OUTPUT_BYTES,
    )


async def _start(command: str, cwd: str) -> trio.Process:
    if sys.platform == "win32":  # pragma: no cover - Windows has no process groups
        return await trio.lowlevel.open_process(
            ["cmd", "/c", command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    else:
        return await trio.lowlevel.open_process(
            ["/bin/sh", "-c", command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _kill_group(process: trio.Process) -> None:
    if sys.platform == "win32":  # pragma: no cover - Windows has no process groups
        process.kill()
    else:
        try:
            # The pipe is still open, so somebody of the group may be there, who keeps its number in use.
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # pragma: no cover - real-time signals have no names, and nobody is ended by one here
        return f"signal {number}"

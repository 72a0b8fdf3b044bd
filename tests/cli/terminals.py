"""A terminal with a command in it, as a person would use it: what is typed goes through its driver."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

import trio

ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2]
ODD_AGENT = f"{sys.executable} {pathlib.Path(os.path.abspath(__file__)).with_name('odd_agent.py')}"

PATIENCE = 30.0
"""Seconds that anything here may take; a hang otherwise."""

# Makes the terminal its own, so that Ctrl-C reaches it, and becomes the command.
_ADOPT = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, sys.argv[1:])"
)


def environment(**changes: str) -> dict[str, str]:
    """Return an environment in which the command can be run, wherever it runs."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "100", **changes}


class TerminalCommand:
    """``trio-acp`` in a terminal, for the length of an ``async with`` block."""

    def __init__(
        self, *arguments: str, cwd: pathlib.Path, stdout: int | None = None, env: dict[str, str] | None = None
    ) -> None:
        self._arguments = arguments
        self._cwd = cwd
        self._stdout = stdout
        self._env = environment() if env is None else env
        self.screen = ""
        """What was written since the last text that was expected."""
        self.before = ""
        """What was written up to the last text that was expected, since the one before."""

    async def __aenter__(self) -> TerminalCommand:
        self._master, slave = os.openpty()
        command = [sys.executable, "-m", "trio_acp.cli", *self._arguments]
        try:
            self._process = await trio.lowlevel.open_process(
                [sys.executable, "-c", _ADOPT, *command],
                cwd=self._cwd,
                env=self._env,
                stdin=slave,
                stdout=slave if self._stdout is None else self._stdout,
                stderr=slave,
                start_new_session=True,
            )
        finally:
            os.close(slave)
        return self

    async def __aexit__(self, *error: object) -> None:
        with trio.CancelScope(shield=True):
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        os.close(self._master)

    async def _read(self) -> bool:
        await trio.lowlevel.wait_readable(self._master)
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False  # nobody has the other end open any more
        self.screen += data.decode("utf-8", "replace")
        return True

    async def expect(self, text: str) -> None:
        """Wait until a text has been written since the last one that was expected."""
        with trio.fail_after(PATIENCE):
            while text not in self.screen:
                assert await self._read(), f"{text!r} is not in {self.screen!r}"
        end = self.screen.index(text) + len(text)
        self.before, self.screen = self.screen[:end], self.screen[end:]

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        """Let the command know, as a terminal does that is closed."""
        self._process.send_signal(signal.SIGHUP)

    async def status(self) -> int:
        """Wait for the end, and return the exit status."""
        with trio.fail_after(PATIENCE):
            while await self._read():
                pass
            return await self._process.wait()


async def run_command(
    *arguments: str, cwd: pathlib.Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``trio-acp`` without a terminal, and return what it did."""
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            [sys.executable, "-m", "trio_acp.cli", *arguments],
            cwd=cwd,
            env=environment() if env is None else env,
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            start_new_session=True,
        )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    )


def agent(*arguments: str) -> Sequence[str]:
    """Return the arguments that make the odd agent the agent."""
    return ["--agent", " ".join([ODD_AGENT, *arguments])]

"""One terminal: a command with its pipe or pty, its output, its end, and a view of it for the host."""

from __future__ import annotations

import codecs
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import trio

from trio_acp.client import SessionScope
from trio_acp.schema import TerminalExitStatus

from ._output import OutputBuffer
from ._tree import ProcessTree

if sys.platform != "win32":  # pragma: no branch - POSIX
    from ._spawn import spawn

__all__ = ["Command", "RunningTerminal", "Terminal"]

logger = logging.getLogger("trio_acp.workspace")

TERMINATE_GRACE: Final = 1.0
"""Seconds that a command has to end after SIGTERM, then it is killed."""

KILL_GRACE: Final = 5.0
"""Seconds to wait for the end of what was killed. Only a process stuck in the kernel needs them."""

POLL_INTERVAL: Final = 0.02
"""Seconds between two looks at processes that are to end and whose end nobody reports."""

WATCH_INTERVAL: Final = 1.0
"""Seconds between two looks at what a command that has exited left running."""

PTY_DRAIN_GRACE: Final = 0.2
"""Seconds that a pty may need to hand on what was written to it; it does so in the background."""

READ_BYTES: Final = 64 * 1024
"""Bytes of one read: the capacity of a pipe on Linux."""

DRAIN_READS: Final = 4
"""Reads that surely empty a pipe of what was in it at one moment, whoever goes on writing."""


@final
class Command:
    """What is to be run.

    Args:
        executable: path of the program.
        argv: its name and arguments.
        cwd: its working directory.
        env: its whole environment.
        mark: the variable in it that tells its descendants, see `ProcessTree`.
        use_pty: give it a pty instead of pipes.
        max_run_time: seconds until it is ended.
    """

    __slots__ = ("argv", "cwd", "env", "executable", "mark", "max_run_time", "use_pty")

    def __init__(
        self,
        executable: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        mark: str,
        *,
        use_pty: bool,
        max_run_time: float,
    ) -> None:
        self.executable: str = executable
        self.argv: tuple[str, ...] = tuple(argv)
        self.cwd: str = cwd
        self.env: dict[str, str] = {**env, mark: "1"}
        self.mark: str = mark
        self.use_pty: bool = use_pty
        self.max_run_time: float = max_run_time


@final
class RunningTerminal:
    """A terminal from its creation until nothing of it runs any more.

    `run` is its supervisor, to be started in a nursery that outlives it. It is shielded: only `end`, the end
    of the command or its limit of time end it, each in bounded time.

    Args:
        id: its id on the wire.
        session: the session that it belongs to.
        command: what is to be run.
        limit: bytes of output to keep.
        on_output: is called with each piece of output; may raise, which ends the terminal and leaves `run`.
    """

    def __init__(
        self,
        id: str,
        session: SessionScope,
        command: Command,
        limit: int,
        on_output: Callable[[Terminal, str], object] | None,
    ) -> None:
        self.id = id
        self.session = session
        self.command = command
        self.buffer: OutputBuffer = OutputBuffer(limit)
        self.exit_status: TerminalExitStatus | None = None
        self.exited: trio.Event = trio.Event()
        """The command has ended; what it wrote until then is in the buffer."""
        self.over: trio.Event = trio.Event()
        """Nothing of it runs any more."""
        self.input_ended: trio.Event = trio.Event()
        """Nobody can write to it any more."""
        self.released = False
        self.view: Terminal = Terminal(self)
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._end = trio.Event()
        self._fd = -1

    def end(self) -> None:
        """Have the command and all that it started ended; ``over`` tells when that is done."""
        self._end.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the command and stay with it to its end.

        Raises:
            OSError, ValueError: it could not be started.
        """
        try:
            process = await self._spawn()
            # No checkpoint from the birth of the process to the shield.
            task_status.started()
            if trio.current_effective_deadline() == -float("inf"):
                self.end()  # cancelled while it started: nobody will know of it
            with trio.CancelScope(shield=True):
                await self._supervise(process, ProcessTree(process, self.command.mark))
        finally:
            if self.exit_status is None:
                self._exit(TerminalExitStatus(signal="SIGKILL"))  # as far as we could bring it
            self.input_ended.set()
            self.over.set()

    async def _spawn(self) -> trio.Process:
        command = self.command
        if sys.platform != "win32":
            process, self._fd = await spawn(
                command.executable, command.argv, command.cwd, command.env, use_pty=command.use_pty
            )
            return process
        else:  # pragma: no cover - a TerminalManager cannot be made there
            raise OSError("terminals need a POSIX system")

    async def _supervise(self, process: trio.Process, tree: ProcessTree) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(self._watch, process)
                nursery.start_soon(self._notice_the_end, tree)
                with trio.move_on_after(self.command.max_run_time):
                    await self._end.wait()
                if tree.alive():
                    tree.terminate()
                    with trio.move_on_after(TERMINATE_GRACE):
                        while tree.alive():  # noqa: ASYNC110 - nothing reports the end of others' children
                            await trio.sleep(POLL_INTERVAL)
                await self._kill(tree)
                with trio.move_on_after(KILL_GRACE):
                    await self.exited.wait()
                self._drain()
                nursery.cancel_scope.cancel()
        finally:
            await self._kill(tree)  # if it was left by what on_output raised  # noqa: ASYNC102 - shielded and bounded in itself
            if self.exit_status is None and process.returncode is not None:
                self._exit(_status(process.returncode))
            fd, self._fd = self._fd, -1
            os.close(fd)

    async def _kill(self, tree: ProcessTree) -> None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + KILL_GRACE) as scope:
            while tree.alive():
                # Again and again: what forks at this moment may have escaped.
                tree.kill()
                await trio.sleep(POLL_INTERVAL)
        if scope.cancelled_caught:
            logger.warning("the command of %r, or a process that it started, does not end", self.view)

    async def _notice_the_end(self, tree: ProcessTree) -> None:
        """End the supervision when the command has exited and has left nothing behind."""
        await self.exited.wait()
        while tree.alive():  # noqa: ASYNC110 - nothing reports the end of others' children
            await trio.sleep(WATCH_INTERVAL)
        self.end()

    # Output --------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while (data := self._read_some()) != b"":
            if data is None:
                await trio.lowlevel.wait_readable(self._fd)
            else:
                self._take(data)
                await trio.lowlevel.checkpoint()
        self._take(b"", final=True)
        self.input_ended.set()

    def _read_some(self) -> bytes | None:
        """Return the next bytes, none at the end, None if there are none yet."""
        try:
            return os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # what a pty says that nobody has open any more

    def _take(self, data: bytes, *, final: bool = False) -> None:
        self.buffer.feed(data)
        if self._on_output is not None:
            text = self._decoder.decode(data, final)
            if text:
                self._on_output(self.view, text)

    def _drain(self) -> None:
        """Take what the command has written by now."""
        for _ in range(DRAIN_READS):
            data = self._read_some()
            if not data:
                break
            self._take(data)

    async def _watch(self, process: trio.Process) -> None:
        """Wait for the end of the command: its status alone decides, whoever else holds its output open."""
        returncode = await process.wait()
        if self.command.use_pty:
            with trio.move_on_after(PTY_DRAIN_GRACE):
                await self.input_ended.wait()
        self._drain()
        self._exit(_status(returncode))

    def _exit(self, status: TerminalExitStatus) -> None:
        self.exit_status = status
        self.exited.set()


def _status(returncode: int) -> TerminalExitStatus:
    if returncode >= 0:
        return TerminalExitStatus(exit_code=returncode)
    try:
        return TerminalExitStatus(signal=signal.Signals(-returncode).name)
    except ValueError:
        return TerminalExitStatus(signal=f"SIG{-returncode}")  # a real-time signal, which has no name


@final
class Terminal:
    """A command that an agent runs, as the host sees it; made by `TerminalManager`.

    Stays readable for as long as you keep it, also when the agent has released it.
    """

    def __init__(self, terminal: RunningTerminal) -> None:
        self._terminal = terminal

    def __repr__(self) -> str:
        return f"<Terminal {self.id} {self.command[0]!r}>"

    @property
    def id(self) -> str:
        """Its id, which the content of tool calls refers to."""
        return self._terminal.id

    @property
    def session(self) -> SessionScope:
        """The session that it belongs to."""
        return self._terminal.session

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its arguments, as they are run."""
        return self._terminal.command.argv

    @property
    def cwd(self) -> str:
        """Where it runs."""
        return self._terminal.command.cwd

    @property
    def output(self) -> str:
        """The newest output, stdout and stderr together, up to the limit."""
        return self._text()[0]

    @property
    def truncated(self) -> bool:
        """Whether older output is gone."""
        return self._text()[1]

    def _text(self) -> tuple[str, bool]:
        terminal = self._terminal
        ended = terminal.input_ended.is_set() or terminal.over.is_set()
        return terminal.buffer.text(ended=ended)

    @property
    def exit_status(self) -> TerminalExitStatus | None:
        """How the command ended; None while it runs."""
        return self._terminal.exit_status

    @property
    def released(self) -> bool:
        """Whether the agent has released it, or its session has ended."""
        return self._terminal.released

    async def wait_exited(self) -> TerminalExitStatus:
        """Wait for the end of the command, and return how it ended.

        Cancellation: only the waiting ends.
        """
        await self._terminal.exited.wait()
        assert self._terminal.exit_status is not None
        return self._terminal.exit_status

    def kill(self) -> None:
        """End the command and all that it started, as the host: synchronous, and does not wait."""
        self._terminal.end()

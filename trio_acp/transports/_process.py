"""An agent as a child process: started, watched, drained, and ended with everything that it started (W2)."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

import trio

from ._command import find_executable, spawn_error
from ._environment import build_environment
from ._group import ProcessGroup
from ._pair import ReceiveHalf, SendHalf, StreamPair
from ._stderr import StderrLog

if sys.platform == "win32":  # pragma: no cover - Windows
    from ._windows import WindowsReceiveHalf, WindowsSendHalf
else:
    from ._fd import FdReceiveStream, FdSendStream, widen

__all__ = ["AgentProcess"]

logger = logging.getLogger("trio_acp.transports")

SHUTDOWN_GRACE: Final = 2.0
"""Seconds that an agent has to end after its stdin was closed, and again after SIGTERM."""

KILL_GRACE: Final = 5.0
"""Seconds to wait for the end of what was killed. Only a process stuck in the kernel needs them."""

EXIT_DRAIN_GRACE: Final = 0.5
"""Seconds after the agent's exit in which a helper that holds its pipes may still write to them."""

STDOUT_PIPE_BYTES: Final = 256 * 1024
"""What the pipe of the agent's output holds, where the system lets us say: with many sessions at once, each
is given its updates once for each read, so that fewer and larger reads are less work."""

POLL_INTERVAL: Final = 0.02
"""Seconds between two looks at what nobody reports: the end of helpers whose leader has gone."""


class InputPipe(SendHalf, Protocol):
    """Our end of the agent's stdin."""

    def break_off(self, reason: str) -> None:
        """Close because the other side is gone: senders get `trio.BrokenResourceError` with that reason."""


class OutputPipe(ReceiveHalf, Protocol):
    """Our end of the agent's stdout or stderr."""

    last_activity: float | None
    """`trio.current_time` at the last bytes, None before the first."""

    def hung_up(self) -> bool:
        """Whether nobody can write to the other end any more."""
        ...

    def finish(self) -> None:
        """Let the input end behind what has arrived by now."""


class Pipes(NamedTuple):
    """Our ends of the agent's standard streams."""

    stdin: InputPipe
    stdout: OutputPipe
    stderr: OutputPipe


class AgentProcess:
    """An agent's process and everything that belongs to it.

    `run` is the supervisor: start it with `nursery.start` in a nursery that outlives the use of the process,
    then talk through `stream`, and end with `aclose_gracefully`, which is what ends `run`::

        process = AgentProcess("my-agent", ["acp"])
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(process.run)  # in the `try`: it may be cancelled when all is started
                ...  # use process.stream
            finally:
                await process.aclose_gracefully()

    The process leads a session and group of its own, so that Ctrl-C in a terminal does not reach it and a
    signal reaches all its helpers. The exit of the process is what counts, not the end of its output: when
    it has exited, what is left of its group is ended too. A helper that made its own session is not seen;
    it has only the end of its stdin to notice.

    All methods are for the thread that Trio runs in.

    Args:
        command: the program: a path (relative to `cwd`), or a name to look up in the agent's PATH.
        args: its arguments.
        cwd: its working directory, None for that of this process.
        env: laid over the inherited environment; a value of None removes a variable.
        inherit_env: True to inherit all variables, False for none, or the names of those to inherit.
        on_stderr: called with each line that the agent writes to stderr, without its end. It must not block.
            What it raises is logged once and kept in `stderr_callback_error`.
        shutdown_grace: seconds, see `aclose_gracefully`.

    Attributes:
        command: the program and its arguments.
        exited: set when the process has ended and was reaped.
        stderr_ended: set when all that it wrote to stderr has been read; soon after its exit at the latest.
        pid: its process id, None before the start.
        returncode: its exit status, negative for minus the signal; None while it runs.
        left_running: true if even SIGKILL did not end everything within `KILL_GRACE`.
    """

    def __init__(
        self,
        command: str | os.PathLike[str],
        args: Sequence[str | os.PathLike[str]] = (),
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        inherit_env: bool | Collection[str] = True,
        on_stderr: Callable[[str], object] | None = None,
        shutdown_grace: float = SHUTDOWN_GRACE,
    ) -> None:
        if isinstance(args, str):
            raise TypeError("args must be a sequence of strings, not one string")
        self.command: tuple[str, ...] = (os.fspath(command), *(os.fspath(arg) for arg in args))
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._env = build_environment(env, inherit_env)
        self._grace = shutdown_grace

        self.exited: trio.Event = trio.Event()
        self.stderr_ended: trio.Event = trio.Event()
        self.pid: int | None = None
        self.returncode: int | None = None
        self.left_running: bool = False

        self._used = False
        self._done = trio.Event()
        self._end = trio.Event()  # the process has exited, or is to
        self._patience = trio.CancelScope()  # the waits that kill_now() cuts short
        self._group: ProcessGroup | None = None
        self._stderr_log = StderrLog(on_stderr)
        self._leaving: BaseException | None = None
        self._pipes: Pipes | None = None
        self._stream: StreamPair | None = None

    def __repr__(self) -> str:
        if self.returncode is not None:
            state = f"exited with {self.returncode}"
        else:
            state = "not started" if self.pid is None else f"pid {self.pid}"
        return f"<AgentProcess {self.command[0]!r}: {state}>"

    # --- What others see ------------------------------------------------------------------------------

    @property
    def stream(self) -> StreamPair:
        """The protocol: what is sent goes to the agent's stdin, what is received comes from its stdout.

        Has `send_nowait` beside Trio's stream methods. The end of the input comes with the end of the
        process, soon after its exit even if a helper holds the pipe open; nothing that the agent itself
        wrote is lost.

        Raises:
            RuntimeError: `run` has not started the process yet.
        """
        if self._stream is None:
            raise RuntimeError("the process is not started; await nursery.start(process.run) first")
        return self._stream

    def stderr_tail(self) -> str:
        """The newest output to stderr, at most 64 KiB, decoded with replacement characters."""
        return self._stderr_log.tail()

    @property
    def stderr_callback_error(self) -> Exception | None:
        """The first exception that `on_stderr` raised."""
        return self._stderr_log.callback_error

    @property
    def stdout_activity(self) -> float | None:
        """When bytes were last read from stdout, as `trio.current_time`; None before the first."""
        return None if self._pipes is None else self._pipes.stdout.last_activity

    @property
    def stderr_activity(self) -> float | None:
        """When bytes were last read from stderr, as `trio.current_time`; None before the first."""
        return None if self._pipes is None else self._pipes.stderr.last_activity

    # --- Ending it ------------------------------------------------------------------------------------

    async def aclose_gracefully(self, grace: float | None = None) -> None:
        """End the process and its group, and close the streams.

        Its stdin is closed; if it has not exited after `grace` seconds, SIGTERM goes to its group, after
        `grace` seconds more SIGKILL. Go on reading `stream` meanwhile, or an agent that has more to say
        than its pipe holds cannot exit by itself. The call returns when nothing of the group runs and
        everything is reaped, and in any case `KILL_GRACE` seconds after the kill (`left_running`).

        Cancellation does not shorten it; `kill_now` does. Calling it again is harmless.

        Args:
            grace: seconds; by default `shutdown_grace`. Does nothing if the ending is under way already.
        """
        if grace is not None and not self._end.is_set():
            self._grace = grace
        self._end.set()
        if self._used:
            with trio.CancelScope(shield=True):  # bounded: the supervisor bounds each of its stages
                await self._done.wait()
        if self._stream is not None:
            self._stream.close()

    def kill_now(self) -> None:
        """Kill the process and its group at once; an `aclose_gracefully` under way ends without patience.

        Synchronous, and harmless when called again or after the end. A process that is just being started
        is killed as soon as it exists.
        """
        if self._group is not None:
            self._group.kill()
        self._end.set()
        self._patience.cancel()

    # --- The supervisor -------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the process and stay with it until nothing of it is left.

        A cancellation before the process is started stops the start, and leaves no process. Afterwards the
        supervisor is shielded, so that a cancellation can still be told to the agent: it returns when the
        process has exited, by itself or by `aclose_gracefully`, and nothing of its group is left. What the
        agent wrote can still be read then; `aclose_gracefully` closes the streams.

        Raises:
            AgentStartError: the process could not be started; `reason` says why.
            RuntimeError: it was called a second time.
        """
        if self._used:
            raise RuntimeError("an AgentProcess can be run only once; make another one")
        self._used = True
        try:
            process, group, pipes = await self._spawn()
            # No checkpoint from the birth of the process to the shield.
            task_status.started()
            unwanted = trio.current_effective_deadline() == -math.inf
            if unwanted:
                # Cancelled while it started: nobody will use it, and perhaps nobody will close it.
                self.kill_now()
            with trio.CancelScope(shield=True):
                await self._supervise(process, group, pipes)
            if unwanted:
                pipes.stdout.close()
            if self._leaving is not None:
                raise self._leaving
        finally:
            self._done.set()

    async def _spawn(self) -> tuple[trio.Process, ProcessGroup, Pipes]:
        executable = self.command[0]
        try:
            executable = await trio.to_thread.run_sync(self._find)
            process, pipes = await self._open(executable)
        except (OSError, ValueError) as error:
            raise spawn_error(error, self.command, executable) from error
        self.pid = process.pid
        self._group = ProcessGroup(process)
        self._pipes = pipes
        self._stream = StreamPair(pipes.stdin, pipes.stdout)
        return process, self._group, pipes

    def _find(self) -> str:
        return find_executable(self.command, cwd=self._cwd, env=self._env)

    if sys.platform == "win32":  # pragma: no cover - Windows

        async def _open(self, executable: str) -> tuple[trio.Process, Pipes]:
            process = await trio.lowlevel.open_process(
                [executable, *self.command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._cwd,
                env=self._env,
                creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
            )
            # Trio's types hide that the pipes can be closed without a checkpoint.
            stdin, stdout, stderr = cast("Any", (process.stdin, process.stdout, process.stderr))
            pipes = Pipes(WindowsSendHalf(stdin), WindowsReceiveHalf(stdout), WindowsReceiveHalf(stderr))
            return process, pipes

    else:

        async def _open(self, executable: str) -> tuple[trio.Process, Pipes]:
            # Pipes of our own rather than Trio's: their streams can send without waiting and be ended. Each
            # end is a file description of its own, so that the agent's ends stay in blocking mode.
            with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
                stdin, to_stdin = _pipe(read=theirs, write=ours)
                from_stdout, stdout = _pipe(read=ours, write=theirs)
                widen(from_stdout, STDOUT_PIPE_BYTES)
                from_stderr, stderr = _pipe(read=ours, write=theirs)
                process = await trio.lowlevel.open_process(
                    self.command,
                    executable=executable,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=self._cwd,
                    env=self._env,
                    start_new_session=True,
                )
                ours.pop_all()
            for fd in (to_stdin, from_stdout, from_stderr):
                os.set_blocking(fd, False)
            pipes = Pipes(FdSendStream(to_stdin), FdReceiveStream(from_stdout), FdReceiveStream(from_stderr))
            return process, pipes

    async def _supervise(self, process: trio.Process, group: ProcessGroup, pipes: Pipes) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._drain_stderr, pipes.stderr)
                nursery.start_soon(self._watch, process, pipes)
                await self._end.wait()
                if not await self._wind_down(group, pipes.stdin):
                    self.left_running = True
                    logger.warning("%r or a process that it started does not end, even by SIGKILL", self)
                    nursery.cancel_scope.cancel()
        finally:
            if not self.exited.is_set():
                group.kill()  # given up, or something unforeseen: not to be left alive in either case
            pipes.stdin.close()
            pipes.stderr.close()
            self.stderr_ended.set()  # also if it was given up

    @trio.lowlevel.enable_ki_protection
    async def _drain_stderr(self, stderr: OutputPipe) -> None:
        data: bytes | bytearray | None = None
        while data != b"":
            data = await stderr.receive_some()
            try:
                self._stderr_log.feed(data)
            except BaseException as error:  # noqa: ASYNC103 - no await in there; raised by run()
                # Not an Exception: somebody wants to leave. End everything first, then let it through.
                self._leaving = error
                self._stderr_log.mute()
                self.kill_now()
        self.stderr_ended.set()

    @trio.lowlevel.enable_ki_protection
    async def _watch(self, process: trio.Process, pipes: Pipes) -> None:
        """Wait for the exit; then see to it that nothing waits for pipes that others may hold open."""
        self.returncode = await process.wait()
        self.exited.set()
        self._end.set()
        pipes.stdin.break_off("the agent has exited and reads no more")
        with trio.move_on_after(EXIT_DRAIN_GRACE):
            while not (pipes.stdout.hung_up() and pipes.stderr.hung_up()):  # noqa: ASYNC110 - no event
                await trio.sleep(POLL_INTERVAL)
        pipes.stdout.finish()
        pipes.stderr.finish()

    async def _wind_down(self, group: ProcessGroup, stdin: InputPipe) -> bool:
        """End what runs, ever less politely; return whether all of it has ended."""
        with self._patience:
            if not self.exited.is_set():
                stdin.close()
                with trio.move_on_after(self._grace):
                    await self.exited.wait()
            group.terminate()
            with trio.move_on_after(self._grace):
                await self._quiet(group)
        with trio.move_on_after(KILL_GRACE):
            group.kill()
            await self._quiet(group)
            return True
        return False

    async def _quiet(self, group: ProcessGroup) -> None:
        await self.exited.wait()
        while group.alive():  # noqa: ASYNC110 - nothing reports the end of others' children
            await trio.sleep(POLL_INTERVAL)


def _pipe(*, read: contextlib.ExitStack, write: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe, each end of which is closed with the stack that is given for it."""
    ends = os.pipe()
    read.callback(os.close, ends[0])
    write.callback(os.close, ends[1])
    return ends

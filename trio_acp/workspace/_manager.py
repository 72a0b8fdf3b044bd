"""Terminals for agents: the host's side of ``terminal/…`` with real processes (F2, F3)."""

from __future__ import annotations

import itertools
import math
import os
import shlex
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final, TypeAlias, cast, final

import trio

from trio_acp._errors import AgentStartError, InternalError, InvalidParams, RequestError, ResourceNotFound
from trio_acp.client import SessionScope
from trio_acp.schema import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    ReleaseTerminalRequest,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from trio_acp.transports import build_environment, find_executable

from ._terminal import Command, RunningTerminal, Terminal
from ._tree import new_mark

__all__ = [
    "DEFAULT_MAX_OUTPUT_BYTES",
    "DEFAULT_MAX_TERMINALS",
    "DEFAULT_MAX_TOTAL_BYTES",
    "MAX_RELEASED",
    "CommandLinePolicy",
    "TerminalManager",
    "in_shell",
    "split_words",
]

DEFAULT_MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""Bytes of output that one terminal keeps: more than any model reads."""

DEFAULT_MAX_TERMINALS: Final = 32
"""Terminals that one session may have open: more than an agent has work for, fewer than hurt a machine."""

DEFAULT_MAX_TOTAL_BYTES: Final = 64 * 1024 * 1024
"""Bytes of output that all terminals of a manager keep together."""

MAX_RELEASED: Final = 256
"""Released terminals that can still be looked up; the oldest are forgotten first."""

_Group: TypeAlias = "BaseExceptionGroup[BaseException]"

CommandLinePolicy: TypeAlias = Callable[[str], Sequence[str] | None]
"""Makes a program and arguments of a whole command line; None refuses it. Called in a worker thread."""


def split_words(line: str) -> Sequence[str] | None:
    """Split a command line into words as a shell does, without any of its other powers.

    Args:
        line: what an agent gave as ``command``.

    Returns:
        The program and its arguments; None where quotes do not match or there is no word.
    """
    try:
        return shlex.split(line) or None
    except ValueError:
        return None


def in_shell(line: str) -> Sequence[str] | None:
    """Run a command line in ``/bin/sh``, with all that this permits: pipes, redirections, several commands.

    Args:
        line: what an agent gave as ``command``.

    Returns:
        The shell and its arguments.
    """
    return ("/bin/sh", "-c", line)


@final
class _House:
    """The nursery in which the terminals of one connection run."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.terminals: set[RunningTerminal] = set()
        self.closing = False


@final
class _Creation:
    """A terminal that is being created, from the arrival of the request on."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.wanted = True

    def check(self, house: _House) -> None:
        """Raise ResourceNotFound if the session, or all of them, ended meanwhile."""
        if house.closing or not self.wanted:
            raise ResourceNotFound("sessionId: the session has ended")


@final
class TerminalManager:
    """Runs commands for agents: ``AcpOptions(terminals=TerminalManager())``.

    Each command runs in a session and process group of its own, with nothing to read, in the session's
    working directory unless the agent names another. Its stdout and stderr go into one pipe, so that their
    order is that of the command. ``command`` is a program; whole command lines are taken only by a policy.

    A command has ended when its own process has: helpers that still hold its output do not delay that. They
    run on, and what they write is kept, until the terminal is killed or released. Then, at the end of the
    session and at that of the connection, everything that the command has started is ended: SIGTERM, and a
    second later SIGKILL; on Linux also what has left the group, by a variable in its environment.

    One manager may serve several connections. POSIX only.

    Args:
        max_output_bytes: bytes of output that a terminal keeps, however much the agent asks for: the newest.
        max_terminals_per_session: terminals that one session may have open; more are refused.
        max_total_bytes: bytes of output that all terminals may keep together. Released ones give way to new
            ones; a terminal for which there is no room is refused.
        max_run_time: seconds after which a terminal is ended.
        command_line_policy: makes a program and arguments of a ``command`` that comes without arguments and
            is no program that there is; `split_words`, `in_shell` or your own. Without it such are refused.
        use_pty: give commands a pty instead of a pipe. Many programs then colour their output, and lines end
            with a carriage return and a line feed. Nobody types, so a command that reads waits.
        on_output: called with a `Terminal` and each new piece of its output. Must not block. What it raises
            ends the connection's block.
        env: laid over the inherited environment, below what the agent asks for; None removes a variable.
        inherit_env: true for all variables of this process, false for none, or the names to inherit.

    Raises:
        RuntimeError: this is no POSIX system.
    """

    def __init__(
        self,
        *,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        max_terminals_per_session: int = DEFAULT_MAX_TERMINALS,
        max_total_bytes: int = DEFAULT_MAX_TOTAL_BYTES,
        max_run_time: float = math.inf,
        command_line_policy: CommandLinePolicy | None = None,
        use_pty: bool = False,
        on_output: Callable[[Terminal, str], object] | None = None,
        env: Mapping[str, str | None] | None = None,
        inherit_env: bool | Collection[str] = True,
    ) -> None:
        if os.name != "posix":
            raise RuntimeError(
                "a TerminalManager needs a POSIX system; serve terminals by a class of your own"
            )
        self._max_output = max_output_bytes
        self._max_terminals = max_terminals_per_session
        self._max_total = max_total_bytes
        self._max_run_time = max_run_time
        self._policy = command_line_policy
        self._use_pty = use_pty
        self._on_output = on_output
        self._env = dict(env or {})
        self._inherit = inherit_env
        self._houses: dict[Hashable, _House] = {}
        self._open: dict[str, RunningTerminal] = {}
        self._released: OrderedDict[str, RunningTerminal] = OrderedDict()
        self._creating: set[_Creation] = set()
        self._ids = itertools.count(1)

    # Life ----------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(
        self, connection: Hashable = None, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Be the parent of the terminals of one connection, until cancelled; `open_acp` and others call it.

        Cancellation: all of these terminals are ended, which takes a few seconds at most.

        Args:
            connection: what the sessions have as ``SessionScope.connection``.

        Raises:
            RuntimeError: it runs for that connection already.
            Exception: what ``on_output`` has raised.
        """
        if connection in self._houses:
            raise RuntimeError("this TerminalManager runs for that connection already")
        try:
            async with trio.open_nursery() as nursery:
                self._houses[connection] = house = _House(nursery)
                try:
                    task_status.started()
                    await trio.sleep_forever()
                finally:
                    # The terminals are shielded against the cancellation; this is how they learn of it.
                    house.closing = True
                    for terminal in house.terminals:
                        terminal.end()
        except BaseExceptionGroup as group:
            raise _without_group(group) from None
        finally:
            self._houses.pop(connection, None)
            for terminal in [*self._open.values(), *self._released.values()]:
                if terminal.session.connection == connection:
                    self._forget(terminal)

    async def end_session(self, session: SessionScope) -> None:
        """End all terminals of a session, and wait for that.

        Args:
            session: the session.
        """
        for pending in self._creating:
            if pending.key == session.key:
                pending.wanted = False
        terminals = self._of(session)
        for terminal in terminals:
            self._release(terminal)
        for terminal in terminals:
            await terminal.over.wait()

    # For the host --------------------------------------------------------------------------------------

    def terminals(self, session: SessionScope | None = None) -> Sequence[Terminal]:
        """Return the terminals that are open, the oldest first.

        Args:
            session: those of that session only.
        """
        found = self._open.values() if session is None else self._of(session)
        return [terminal.view for terminal in found]

    def terminal(self, terminal_id: str) -> Terminal | None:
        """Return a terminal, None if there is none of that id any more.

        Released ones can be found too, so that a user interface can show what a tool call refers to; of these
        the newest ``MAX_RELEASED`` are remembered, as far as there is room for their output.

        Args:
            terminal_id: its id.
        """
        terminal = self._open.get(terminal_id, self._released.get(terminal_id))
        return None if terminal is None else terminal.view

    # For the agent -------------------------------------------------------------------------------------

    async def create(self, request: CreateTerminalRequest, session: SessionScope) -> CreateTerminalResponse:
        """Serve ``terminal/create``.

        Cancellation: there is no terminal.

        Args:
            request: what is to be run.
            session: the session that asks.

        Raises:
            InvalidParams: the working directory or a variable is impossible, or the program cannot be run.
            ResourceNotFound: there is no such program.
            InternalError: a limit is reached, or the operating system refuses.
        """
        house = self._houses.get(session.connection)
        if house is None or house.closing:
            raise InternalError("terminals cannot be created at this moment")
        creation = _Creation(session.key)
        self._creating.add(creation)
        try:
            return CreateTerminalResponse(await self._create(request, session, house, creation))
        finally:
            self._creating.discard(creation)

    async def _create(
        self, request: CreateTerminalRequest, session: SessionScope, house: _House, creation: _Creation
    ) -> str:
        command = await trio.to_thread.run_sync(self._command, request, session, new_mark())
        creation.check(house)
        limit = self._max_output
        if request.output_byte_limit is not None:
            limit = min(limit, request.output_byte_limit)
        self._check_limits(session, limit)
        terminal = RunningTerminal(f"terminal-{next(self._ids)}", session, command, limit, self._on_output)
        self._open[terminal.id] = terminal
        house.terminals.add(terminal)
        try:
            await house.nursery.start(self._run_terminal, house, terminal)
            # A cancellation while it started has ended the terminal, but is not raised by that.
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException as error:
            terminal.end()
            self._forget(terminal)
            if isinstance(error, (OSError, ValueError)):
                raise _not_started(error) from error  # noqa: ASYNC104 - cancellations were told apart before
            raise
        try:
            creation.check(house)
        except ResourceNotFound:
            terminal.end()
            self._forget(terminal)
            raise
        return terminal.id

    async def _run_terminal(  # noqa: ASYNC128, ASYNC114 - the status is passed on
        self, house: _House, terminal: RunningTerminal, *, task_status: trio.TaskStatus[None]
    ) -> None:
        try:
            await terminal.run(task_status=task_status)
        except BaseExceptionGroup as group:
            raise _without_group(group) from None
        finally:
            house.terminals.discard(terminal)

    async def output(self, request: TerminalOutputRequest, session: SessionScope) -> TerminalOutputResponse:
        """Serve ``terminal/output``.

        Args:
            request: the terminal.
            session: the session that asks.

        Raises:
            ResourceNotFound: the session has no such terminal (any more).
        """
        view = self._find(request.terminal_id, session).view
        return TerminalOutputResponse(view.output, view.truncated, view.exit_status)

    async def wait_for_exit(
        self, request: WaitForTerminalExitRequest, session: SessionScope
    ) -> WaitForTerminalExitResponse:
        """Serve ``terminal/wait_for_exit``.

        Cancellation: only the waiting ends.

        Args:
            request: the terminal.
            session: the session that asks.

        Raises:
            ResourceNotFound: the session has no such terminal (any more).
        """
        status = await self._find(request.terminal_id, session).view.wait_exited()
        return WaitForTerminalExitResponse(status.exit_code, status.signal)

    async def kill(self, request: KillTerminalRequest, session: SessionScope) -> None:
        """Serve ``terminal/kill``: returns when nothing of the command runs any more.

        Cancellation: only the waiting ends.

        Args:
            request: the terminal.
            session: the session that asks.

        Raises:
            ResourceNotFound: the session has no such terminal (any more).
        """
        terminal = self._find(request.terminal_id, session)
        terminal.end()
        await terminal.over.wait()

    async def release(self, request: ReleaseTerminalRequest, session: SessionScope) -> None:
        """Serve ``terminal/release``: the id is invalid at once; returns when nothing of the command runs.

        Cancellation: only the waiting ends.

        Args:
            request: the terminal.
            session: the session that asks.

        Raises:
            ResourceNotFound: the session has no such terminal (any more).
        """
        terminal = self._find(request.terminal_id, session)
        self._release(terminal)
        await terminal.over.wait()

    # Details -------------------------------------------------------------------------------------------

    def _of(self, session: SessionScope) -> list[RunningTerminal]:
        return [terminal for terminal in self._open.values() if terminal.session.key == session.key]

    def _find(self, terminal_id: str, session: SessionScope) -> RunningTerminal:
        terminal = self._open.get(terminal_id)
        if terminal is None or terminal.session.key != session.key:
            raise ResourceNotFound("terminalId: this session has no such terminal")
        return terminal

    def _release(self, terminal: RunningTerminal) -> None:
        del self._open[terminal.id]
        terminal.released = True
        terminal.end()
        self._released[terminal.id] = terminal
        if len(self._released) > MAX_RELEASED:
            self._released.popitem(last=False)

    def _forget(self, terminal: RunningTerminal) -> None:
        terminal.released = True
        self._open.pop(terminal.id, None)
        self._released.pop(terminal.id, None)

    def _check_limits(self, session: SessionScope, limit: int) -> None:
        if len(self._of(session)) >= self._max_terminals:
            raise InternalError(
                f"this session has {self._max_terminals} terminals open, as many as it may: release one first"
            )
        room = self._max_total - limit - sum(terminal.buffer.limit for terminal in self._open.values())
        kept = sum(terminal.buffer.size for terminal in self._released.values())
        while kept > room and self._released:
            kept -= self._released.popitem(last=False)[1].buffer.size
        if room < 0:
            raise InternalError(
                "the output of all terminals takes too much memory: release some, or ask for a smaller "
                "outputByteLimit"
            )

    def _command(self, request: CreateTerminalRequest, session: SessionScope, mark: str) -> Command:
        """Find what is to be run. Blocks; run in a thread."""
        cwd = session.cwd if request.cwd is None else os.path.join(session.cwd, request.cwd)
        overlay: dict[str, str | None] = {**self._env, **{each.name: each.value for each in request.env}}
        try:
            env = build_environment(overlay, self._inherit)
        except ValueError as error:
            raise InvalidParams(f"env: {error}") from None
        argv: Sequence[str] = (request.command, *request.args)
        if any("\0" in word for word in (*argv, cwd)):
            raise InvalidParams("command: a NUL character cannot be part of a command")
        try:
            executable = find_executable(tuple(argv), cwd=cwd, env=env)
        except AgentStartError as error:
            line = None
            if error.reason == "not-found" and self._policy is not None and not request.args:
                line = self._policy(request.command)
            if not line:
                raise _not_found(error, request) from None
            argv = line
            try:
                executable = find_executable(tuple(argv), cwd=cwd, env=env)
            except AgentStartError as second:
                raise _not_found(second, request) from None
        return Command(
            executable, argv, cwd, env, mark, use_pty=self._use_pty, max_run_time=self._max_run_time
        )


def _not_found(error: AgentStartError, request: CreateTerminalRequest) -> RequestError:
    if error.reason == "bad-cwd":
        return InvalidParams("cwd: there is no such directory")
    if error.reason == "not-executable":
        return InvalidParams("command: it is there, but cannot be executed")
    hint = "; give its arguments in args" if not request.args and " " in request.command.strip() else ""
    return ResourceNotFound(f"command: there is no such program{hint}")


def _not_started(error: OSError | ValueError) -> RequestError:
    said = error.strerror if isinstance(error, OSError) else None
    return InternalError(f"command: the operating system could not start it: {said or 'it is malformed'}")


def _without_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what one terminal has raised as itself; cancellations go below it."""
    rest = group.split(trio.Cancelled)[1]
    found: BaseException = group if rest is None else rest
    while (members := _members(found)) and (len(members) == 1 or rest is None):
        found = members[0]
    return found


def _members(error: BaseException) -> Sequence[BaseException]:
    return cast(_Group, error).exceptions if isinstance(error, BaseExceptionGroup) else ()

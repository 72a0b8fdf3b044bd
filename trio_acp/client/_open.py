"""Reaching an agent: starting its process or taking a stream, introducing both sides, and closing."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, cast, final

import trio

from trio_acp._cancellation import unwrapped
from trio_acp._errors import (
    AcpError,
    AgentExited,
    AgentStartError,
    ConnectionClosed,
    ConnectionLost,
    InvalidResponse,
    ProtocolError,
    RequestError,
    UnsupportedProtocolVersion,
)
from trio_acp._version import __version__
from trio_acp.schema import (
    PROTOCOL_VERSION,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    unstructure,
)
from trio_acp.transports import AgentProcess

from ._agent import ConnectedAgent
from ._connection import ClientConnection
from ._options import AcpOptions
from ._outcome import choose_outcome, leave_block

__all__ = ["connect_acp", "open_acp"]

EXIT_STATUS_GRACE: Final = 1.0
"""Seconds to wait for the exit status of an agent whose output has ended, so that the error can name it."""

STREAM_CLOSE_GRACE: Final = 1.0
"""Seconds that closing a stream may take."""


def open_acp(options: AcpOptions) -> OpenAcp:
    """Start an agent and talk to it: ``async with open_acp(options) as agent``.

    Starts ``options.command``, sends ``initialize`` and hands out a `ConnectedAgent` (I1, I2). Leaving the
    block ends everything that belongs to it: turns are cancelled, open requests answered, the agent's stdin
    closed; after ``shutdown_grace`` seconds its process group gets SIGTERM, after as many again SIGKILL. No
    task, process or descriptor outlives the block, however it is left.

    Cancelling the block is told to the agent first: running turns send ``session/cancel``. A Ctrl-C leaves as
    `KeyboardInterrupt` after the same; a second one, or one while the block closes, kills the agent at once.
    (Trio gives it to the main task: the block, or the turn that waits, has to be in that one to notice.)

    The death of the agent does not cancel the block: the next call raises `AgentExited`.

    Args:
        options: what to start and what to offer; ``command`` has to be set.

    Raises on entering:
        AgentStartError: the agent could not be started, did not answer in ``startup_timeout`` seconds, ended,
            or does not speak ACP; ``phase`` and ``reason`` tell, ``stderr`` has its last words.
        UnsupportedProtocolVersion: it speaks another version of the protocol only.
        ValueError: ``command`` is not set.

    Raises, on leaving: what the body raised, as itself; else what ``on_update``, ``on_stderr`` or
    ``on_wire`` raised outside of any turn.
    """
    if options.command is None:
        raise ValueError("set AcpOptions.command to the agent's program, or use connect_acp with a stream")
    return OpenAcp(options)


async def connect_acp(
    nursery: trio.Nursery, stream: trio.abc.Stream, options: AcpOptions | None = None
) -> ConnectedAgent:
    """Talk to an agent over a stream, in a nursery of the caller's.

    The connection ends with `ConnectedAgent.aclose` or with the nursery's cancellation; until then the
    nursery does not end. The stream then is closed. What ``on_update`` raises outside of a turn is raised in
    the nursery.

    Args:
        nursery: runs the connection's tasks.
        stream: carries the protocol: a socket, one end of `open_memory_pair`, any `trio.abc.Stream`.
        options: what to offer the agent; those about its process are not used.

    Raises:
        AgentStartError, UnsupportedProtocolVersion: see `open_acp`.
    """
    options = AcpOptions() if options is None else options
    link = _StreamLink(stream)
    connection = ClientConnection(options, stream, link.explain_loss)
    closer = _Closer(connection, link.close)
    guard: _Guard = _Guard(connection, closer)
    deadline = trio.current_time() + options.startup_timeout
    nursery.start_soon(guard.run)
    try:
        introduction = await _introduce(connection, link, deadline)
    except ConnectionClosed:
        # A hook has failed. The nursery raises that: this error is told to nobody whom it cancels.
        await guard.closed()  # noqa: ASYNC120 - shielded
        await trio.lowlevel.checkpoint_if_cancelled()  # noqa: ASYNC120 - that is the point
        raise
    except BaseException:
        await guard.closed()  # noqa: ASYNC102 - shielded, and bounded as closing is
        raise
    return ConnectedAgent(connection, introduction, guard.aclose)


# The two ways to reach an agent ------------------------------------------------------------------------


class _StreamLink:
    """A stream to an agent of which nothing else is known."""

    command: tuple[str, ...] = ()

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def explain_loss(self) -> AcpError:
        await trio.lowlevel.checkpoint()
        return ConnectionLost("the agent closed the connection; open a new one")

    async def close(self) -> None:
        with trio.move_on_after(STREAM_CLOSE_GRACE), contextlib.suppress(trio.BrokenResourceError):
            await self._stream.aclose()

    def progress(self) -> str:
        return ""

    def start_error(self, message: str, reason: str) -> AgentStartError:
        return AgentStartError(message, phase="initialize", reason=reason)


class _ProcessLink:
    """An agent's process."""

    def __init__(self, process: AgentProcess) -> None:
        self._process = process
        self.command = process.command
        self.phase = "initialize"

    async def explain_loss(self) -> AcpError:
        process = self._process
        with trio.move_on_after(EXIT_STATUS_GRACE):
            await process.exited.wait()
            # Its last words may still be in the pipe, and they are what the error is read for.
            await process.stderr_ended.wait()
        if process.returncode is None:
            return ConnectionLost("the agent closed its stdout but has not exited; open a new connection")
        return AgentExited(
            f"the agent {self.command[0]!r} {_exit_words(process.returncode)}; open a new connection",
            returncode=process.returncode,
            phase=self.phase,
            stderr=process.stderr_tail(),
        )

    async def close(self) -> None:
        await self._process.aclose_gracefully()

    def kill(self) -> None:
        self._process.kill_now()

    def progress(self) -> str:
        process = self._process
        moments = [at for at in (process.stdout_activity, process.stderr_activity) if at is not None]
        if not moments:
            return "; it has printed nothing at all"
        return f"; its last output came {trio.current_time() - max(moments):.1f} s ago"

    def start_error(self, message: str, reason: str) -> AgentStartError:
        return AgentStartError(
            message,
            phase="initialize",
            reason=reason,
            command=self.command,
            returncode=self._process.returncode,
            stderr=self._process.stderr_tail(),
        )


def _exit_words(returncode: int) -> str:
    return f"was ended by signal {-returncode}" if returncode < 0 else f"exited with status {returncode}"


# Introduction ------------------------------------------------------------------------------------------


async def _introduce(
    connection: ClientConnection, link: _StreamLink | _ProcessLink, deadline: float
) -> InitializeResponse:
    """Exchange ``initialize`` (I1, I2, I5) before the deadline for starting."""
    options = connection.options
    request = InitializeRequest(
        protocol_version=PROTOCOL_VERSION,
        client_capabilities=options.client_capabilities(),
        client_info=options.client_info or Implementation("trio_acp", __version__),
    )

    answered = trio.Event()
    answers: list[tuple[Any, AcpError | None]] = []

    def take(result: Any, error: AcpError | None) -> None:
        answers.append((result, error))
        answered.set()

    name = _name(link.command)
    try:
        with trio.fail_at(deadline):
            # Not `Peer.request`, which sends $/cancel_request when given up: I1 wants nothing else here.
            await connection.peer.room()
            connection.peer.start_request("initialize", unstructure(request), take)
            await answered.wait()
        result, error = answers[0]
        if error is not None:
            raise error
        introduction: InitializeResponse = connection.read_result("initialize", InitializeResponse, result)
    except trio.TooSlowError:
        raise link.start_error(
            f"{name} did not answer initialize within {options.startup_timeout:g} s{link.progress()}"
            f"{_text_note(connection, '; it printed text such as ')}; is it an ACP agent, and does it get "
            "the arguments that make it one? Raise startup_timeout if it needs longer, say to install "
            "itself",
            "timeout",
        ) from None
    except RequestError as error:
        raise link.start_error(f"{name} refused initialize: {error}", "refused") from error
    except InvalidResponse as error:
        raise link.start_error(f"{name} does not speak ACP: {error}", "not-acp") from error
    except (ConnectionLost, ProtocolError) as error:
        raise _lost_at_start(connection, link, name, error) from error
    if introduction.protocol_version != PROTOCOL_VERSION:
        raise UnsupportedProtocolVersion(offered=PROTOCOL_VERSION, answered=introduction.protocol_version)
    connection.capabilities = introduction.agent_capabilities
    return introduction


def _lost_at_start(
    connection: ClientConnection, link: _StreamLink | _ProcessLink, name: str, error: AcpError
) -> AgentStartError:
    """Say why there will be no answer to ``initialize``, from the little that is known."""
    if not isinstance(error, ConnectionLost):
        return link.start_error(f"{name} does not speak ACP on its stdout: {error}", "not-acp")
    returncode = error.returncode if isinstance(error, AgentExited) else None
    if returncode is not None:
        end = _exit_words(returncode)
    else:
        end = "closed its stdout and did not exit" if link.command else "closed the connection"
    text = "" if connection.peer.core.messages_received else _text_note(connection, "")
    if text and not returncode:
        return link.start_error(
            f"{name} does not speak ACP on its stdout: it printed text such as {text}, and then {end}; "
            "is it an ACP agent, and does it get the arguments that make it one?",
            "not-acp",
        )
    said = f"; it printed text such as {text}" if text else ""
    hint = "; does it get the arguments that make it an ACP agent?" if returncode == 0 else ""
    return link.start_error(f"{name} {end} before it answered initialize{said}{hint}", "exited")


def _name(command: tuple[str, ...]) -> str:
    return repr(command[0]) if command else "the agent"


def _text_note(connection: ClientConnection, introduction: str) -> str:
    """Quote what the agent printed that is no message, if it did."""
    sample = connection.peer.junk_sample
    return f"{introduction}{sample.decode('utf-8', 'replace')!r}" if sample else ""


# Closing -----------------------------------------------------------------------------------------------


@final
class _Closer:
    """Closes a connection once: everything told, everything answered, everything ended."""

    def __init__(self, connection: ClientConnection, close_link: Callable[[], Awaitable[None]]) -> None:
        self._connection = connection
        self._close_link = close_link

    async def __call__(self) -> None:
        """Shielded, and bounded by the graces of the options."""
        with trio.CancelScope(shield=True):
            try:
                await self._connection.wind_down()
                await self._close_link()
            finally:
                self._connection.peer.stop()
                self._connection.end_handlers()
                self._connection.table.end_streams()


@final
class _Guard:
    """The tasks of a connection in somebody else's nursery."""

    def __init__(self, connection: ClientConnection, closer: _Closer) -> None:
        self._connection = connection
        self._close = closer
        self._asked = trio.Event()
        self._closed = trio.Event()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the connection; close it when asked to, or when cancelled."""
        crash: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                # Not `start`: under a cancellation it would wait for the end of these shielded tasks.
                nursery.start_soon(self._connection.run)
                nursery.start_soon(self._connection.peer.run)
                nursery.start_soon(self._watch_callbacks)
                try:
                    await self._asked.wait()
                finally:
                    await self._close()  # noqa: ASYNC102 - shielded and bounded in itself
                    nursery.cancel_scope.cancel()
        except BaseException as error:  # noqa: ASYNC103 - raised below, if nothing beats it
            crash = unwrapped(error)
        self._closed.set()
        outcome = choose_outcome(None, self._connection.callback_failures, crash)
        if outcome is not None:
            raise outcome

    async def _watch_callbacks(self) -> None:
        await self._connection.callback_failure.wait()
        self._asked.set()

    async def closed(self) -> None:
        """Have it closed, and wait for that: shielded, and bounded as closing is."""
        self._asked.set()
        with trio.CancelScope(shield=True):
            await self._closed.wait()

    async def aclose(self) -> None:
        await self.closed()
        await trio.lowlevel.checkpoint_if_cancelled()


@final
class OpenAcp:
    """What `open_acp` returns: the block in which an agent runs."""

    def __init__(self, options: AcpOptions) -> None:
        self._options = options
        self._process = self._new_process()
        self._link = _ProcessLink(self._process)
        self._scope = trio.CancelScope()
        self._manager: Any = None
        self._connection: ClientConnection | None = None
        self._nursery: trio.Nursery | None = None
        self._early_failure: BaseException | None = None
        """What ``on_stderr`` raised before there was a connection to tell."""
        self._earlier_failures: list[BaseException] = []
        """What callbacks raised before the agent was restarted."""
        self._watching = trio.CancelScope()
        self._leaving = False

    def _new_process(self) -> AgentProcess:
        options = self._options
        assert options.command is not None
        return AgentProcess(
            options.command,
            options.args,
            cwd=options.cwd,
            env=options.env,
            inherit_env=options.inherit_env,
            on_stderr=None if options.on_stderr is None else self._stderr_line,
            shutdown_grace=options.shutdown_grace,
        )

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> ConnectedAgent:
        if self._manager is not None:
            raise RuntimeError("this block has been entered already; call open_acp again")
        self._scope.__enter__()
        self._manager = trio.open_nursery()
        self._nursery = nursery = await self._manager.__aenter__()
        try:
            connection, introduction = await self._start(nursery)
        except BaseException as error:
            await self._leave(error)  # noqa: ASYNC102 - shielded and bounded in itself
            raise
        return ConnectedAgent(connection, introduction, self._close, self._restart)

    @trio.lowlevel.enable_ki_protection
    async def _restart(self) -> tuple[ClientConnection, InitializeResponse]:
        """End the process and start another one in this block; see `ConnectedAgent.restart`."""
        assert self._nursery is not None
        self._check_inside()
        await self._close()
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_inside()
        if self._connection is not None:
            self._earlier_failures += self._connection.callback_failures
            self._connection = None
        self._watching.cancel()
        self._watching = trio.CancelScope()
        self._process = self._new_process()
        self._link = _ProcessLink(self._process)
        try:
            return await self._start(self._nursery)
        except BaseException:
            await self._close()  # noqa: ASYNC102 - shielded and bounded in itself
            raise

    def _check_inside(self) -> None:
        if self._leaving:
            raise ConnectionClosed("the open_acp block of this agent has been left; open a new one")

    async def _start(self, nursery: trio.Nursery) -> tuple[ClientConnection, InitializeResponse]:
        options, process, link = self._options, self._process, self._link
        deadline = trio.current_time() + options.startup_timeout
        with trio.CancelScope(deadline=deadline) as spawning:
            await nursery.start(process.run)
        if spawning.cancel_called:
            raise AgentStartError(
                f"{_name(link.command)} could not be started within {options.startup_timeout:g} s; "
                "raise startup_timeout if the machine is that slow",
                phase="spawn",
                reason="timeout",
                command=link.command,
            )
        # Another task may have left the block meanwhile: nothing would end what is started now.
        self._check_inside()
        self._connection = connection = ClientConnection(options, process.stream, link.explain_loss)
        if self._early_failure is not None:
            connection.callback_failed(self._early_failure)
        # Not `start`: under a cancellation it would wait for the end of these shielded tasks.
        nursery.start_soon(connection.run)
        nursery.start_soon(connection.peer.run)
        nursery.start_soon(self._watch_callbacks, connection, self._watching)
        introduction = await _introduce(connection, link, deadline)
        link.phase = "running"
        return connection, introduction

    def _stderr_line(self, line: str) -> None:
        assert self._options.on_stderr is not None
        try:
            self._options.on_stderr(line)
        except BaseException as error:  # noqa: ASYNC103 - it leaves the block
            if self._connection is not None:
                self._connection.callback_failed(error)
            elif self._early_failure is None:
                self._early_failure = error

    async def _watch_callbacks(self, connection: ClientConnection, watching: trio.CancelScope) -> None:
        with watching:
            await connection.callback_failure.wait()
            self._scope.cancel()

    async def _close(self) -> None:
        """End the connection and the process. Shielded and bounded; a Ctrl-C meanwhile kills at once."""
        self._link.phase = "closing"
        if self._connection is not None:
            await _Closer(self._connection, self._link.close)()
        else:
            await self._link.close()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave(exc)  # noqa: ASYNC102 - shielded and bounded in itself

    @trio.lowlevel.enable_ki_protection
    async def _leave(self, exc: BaseException | None) -> None:
        assert self._nursery is not None
        self._leaving = True
        outcome = exc
        if exc is not None and _interrupts(exc) > 1:
            self._link.kill()
        closed = False
        while not closed:
            try:
                await self._close()
                closed = True
            except KeyboardInterrupt as interrupt:
                # However often it comes, what is left to do is done: it is little, once all is killed.
                outcome = interrupt
                self._link.kill()
        self._nursery.cancel_scope.cancel()
        crash: BaseException | None = None
        try:
            await self._manager.__aexit__(None, None, None)
        except BaseException as error:  # noqa: ASYNC103 - raised below, if nothing beats it
            crash = unwrapped(error)
        failures = [*self._earlier_failures]
        if self._connection is not None:
            failures += self._connection.callback_failures
        if outcome is None:
            outcome, crash = crash, None
        # Nothing is ever swallowed: only a callback's failure cancels this scope, and that is raised here.
        leave_block(self._scope, exc, choose_outcome(outcome, failures, crash))


def _interrupts(error: BaseException) -> int:
    """Count the Ctrl-C's behind an exception: more than one if some came while one was being dealt with."""
    found = 0
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            found += isinstance(one, KeyboardInterrupt)
            rest.append(one.__context__)
            if isinstance(one, BaseExceptionGroup):
                rest.extend(cast("BaseExceptionGroup[BaseException]", one).exceptions)
    return found

"""Commands in terminals of the client's: made, watched, and released exactly once (F2 to F4)."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from trio_acp._errors import AcpError, LocalProtocolError, RequestError
from trio_acp.schema import (
    CreateTerminalRequest,
    EnvVariable,
    KillTerminalRequest,
    ReleaseTerminalRequest,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
)

from ._client import CALL_GRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ._live import LiveSession

__all__ = [
    "DEFAULT_OUTPUT_BYTE_LIMIT",
    "DEFAULT_POLL_INTERVAL",
    "CommandResult",
    "TerminalHandle",
    "TerminalOutputStream",
    "build_request",
    "run_command",
]

logger = logging.getLogger("trio_acp")

DEFAULT_OUTPUT_BYTE_LIMIT: Final = 1024 * 1024
"""Bytes of output that a terminal keeps unless told otherwise: more than any model is going to read."""

DEFAULT_POLL_INTERVAL: Final = 0.2
"""Seconds between two looks at a terminal's output: what people still take for live."""


OVERLAP_KEY: Final = 64
"""Characters by which the place is found where truncated output goes on."""


@attrs.frozen
class CommandResult:
    """What a command did.

    Attributes:
        output: what it wrote, stdout and stderr together; the newest part if it was too much.
        exit_code: its exit code; None if a signal ended it, or it is not known.
        signal: the signal that ended it, if one did.
        truncated: whether older output is missing.
        timed_out: whether it was killed because its time was up.
    """

    output: str
    exit_code: int | None
    signal: str | None
    truncated: bool = False
    timed_out: bool = False

    @property
    def success(self) -> bool:
        """It ended by itself, with exit code 0."""
        return self.exit_code == 0 and self.signal is None and not self.timed_out


def build_request(
    live: LiveSession,
    argv: tuple[str, ...],
    *,
    shell: str | None,
    cwd: str | None,
    env: Mapping[str, str] | None,
    output_byte_limit: int | None,
) -> CreateTerminalRequest:
    """Make the request for a terminal out of what authors say.

    Raises:
        ValueError: neither a command nor a line for the shell, or both; or a negative limit.
    """
    if (shell is None) == (not argv):
        raise ValueError("give a program and its arguments, or shell='a line for the shell'; one of the two")
    if output_byte_limit is not None and output_byte_limit < 0:
        raise ValueError("output_byte_limit must not be negative")
    command, *arguments = argv if shell is None else ("/bin/sh", "-c", shell)
    return CreateTerminalRequest(
        session_id=live.id,
        command=command,
        args=arguments,
        env=[EnvVariable(name, value) for name, value in (env or {}).items()],
        cwd=live.cwd if cwd is None else live.resolve(cwd),
        output_byte_limit=output_byte_limit,
    )


@final
class TerminalHandle:
    """A terminal of the client's, for the length of an ``async with`` block.

    Entering the block starts the command, leaving it releases the terminal: once, on every path, also
    when cancelled; the release is shielded, and waits at most 5 seconds for the client. Made by
    `PromptContext.terminal` and `ToolCallContext.terminal`.
    """

    def __init__(
        self,
        live: LiveSession,
        request: CreateTerminalRequest,
        embed: Callable[[str], Any] | None = None,
    ) -> None:
        self._live = live
        self._request = request
        self._embed = embed
        self._id: str | None = None
        self._released = False

    @property
    def id(self) -> str:
        """The terminal's id.

        Raises:
            LocalProtocolError: the block has not been entered.
        """
        if self._id is None:
            raise LocalProtocolError("there is no terminal yet; use 'async with' to start the command")
        return self._id

    @property
    def released(self) -> bool:
        """It was released; nothing can be asked of it any more."""
        return self._released

    async def __aenter__(self) -> TerminalHandle:
        """Start the command (``terminal/create``)."""
        if self._id is not None:
            raise LocalProtocolError("a terminal can be entered once; make another one")
        response = await self._live.client.create_terminal(self._request)
        self._id = response.terminal_id
        if self._embed is not None:
            try:
                # Before anything can release it: a client shows a released terminal only if it knew it.
                await self._embed(self._id)
            except BaseException:
                await self._release_quietly()  # noqa: ASYNC102 - shielded and bounded inside
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release the terminal, unless `release` has."""
        await self._release_quietly()  # noqa: ASYNC102 - shielded and bounded inside

    async def output(self) -> TerminalOutputResponse:
        """Return what the command has written so far (``terminal/output``)."""
        return await self._live.client.terminal_output(TerminalOutputRequest(self._live.id, self._usable()))

    def stream_output(self, *, interval: float = DEFAULT_POLL_INTERVAL) -> TerminalOutputStream:
        """Return an async iterator over the output as it grows, to the end of the command.

        Args:
            interval: seconds between two looks; the protocol has no other way than to look.
        """
        return TerminalOutputStream(self, interval)

    async def wait_for_exit(self) -> TerminalExitStatus:
        """Wait until the command has ended (``terminal/wait_for_exit``)."""
        response = await self._live.client.wait_for_terminal_exit(
            WaitForTerminalExitRequest(self._live.id, self._usable())
        )
        return TerminalExitStatus(response.exit_code, response.signal)

    async def kill(self) -> None:
        """End the command; the terminal stays readable (``terminal/kill``)."""
        await self._live.client.kill_terminal(KillTerminalRequest(self._live.id, self._usable()))

    async def release(self) -> None:
        """Release the terminal before the end of the block (``terminal/release``). Does nothing the second
        time.

        Shielded from cancellation, but waits at most 5 seconds for the client.
        """
        if self._released or self._id is None:
            await trio.lowlevel.checkpoint()
            return
        self._released = True
        link = self._live.link
        if link.input_over:
            # The client may still read what we write, but no answer can come.
            link.release_nowait(self._live.id, self._id)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        with trio.move_on_after(CALL_GRACE, shield=True) as scope:
            await self._live.client.release_terminal(ReleaseTerminalRequest(self._live.id, self._id))
        if scope.cancelled_caught:
            logger.warning("the client did not answer the release of terminal %r", self._id)

    async def _release_quietly(self) -> None:
        try:
            await self.release()
        except AcpError as error:
            # The terminal is gone either way, and what the block did counts.
            logger.debug("terminal %r was not released in order: %s", self._id, error)

    def _usable(self) -> str:
        if self._released:
            raise LocalProtocolError(f"terminal {self.id!r} was released; ask before that")
        return self.id


@final
class TerminalOutputStream:
    """Iterates over the output of a terminal; made by `TerminalHandle.stream_output`.

    Each item is what was written since the item before. Where the terminal's byte limit has dropped output
    that was never seen, the stream goes on with what is left.

    Attributes:
        exit_status: how the command ended, once the iteration is over.
    """

    exit_status: TerminalExitStatus | None

    def __init__(self, terminal: TerminalHandle, interval: float) -> None:
        self._terminal = terminal
        self._interval = interval
        self._seen = ""
        self._first = True
        self.exit_status = None

    def __aiter__(self) -> TerminalOutputStream:
        """Return itself."""
        return self

    async def __anext__(self) -> str:
        """Wait for more output and return it."""
        while self.exit_status is None:
            if not self._first:
                await trio.sleep(self._interval)
            self._first = False
            response = await self._terminal.output()
            self.exit_status = response.exit_status
            news = news_in(self._seen, response.output)
            self._seen = response.output
            if news:
                return news
        raise StopAsyncIteration


def news_in(seen: str, output: str) -> str:
    """Return what has been added, where the beginning may have been cut off meanwhile."""
    if output.startswith(seen):
        return output[len(seen) :]
    # The longest end of what was seen that the output begins with. Looking for the output's first
    # characters finds all long ones quickly; ends shorter than those are tried one by one.
    key = output[:OVERLAP_KEY]
    start = seen.find(key) if key else -1
    while start >= 0:
        if output.startswith(seen[start:]):
            return output[len(seen) - start :]
        start = seen.find(key, start + 1)
    for start in range(max(0, len(seen) - OVERLAP_KEY), len(seen)):
        if output.startswith(seen[start:]):
            return output[len(seen) - start :]
    return output


async def run_command(terminal: TerminalHandle, timeout: float | None) -> CommandResult:  # noqa: ASYNC109
    """Run a terminal's command to its end and return what it did.

    The limit is an argument because a cancel scope could not say what is wanted: when it is over the command
    is killed, and what it wrote until then is the result.
    """
    async with terminal:
        status: TerminalExitStatus | None = None
        with trio.move_on_after(float("inf") if timeout is None else timeout) as scope:
            status = await terminal.wait_for_exit()
        timed_out = scope.cancelled_caught
        if timed_out:
            try:
                await terminal.kill()
            except RequestError as error:
                # What it wrote until then is the result all the same, and the release ends it.
                logger.debug("terminal %r was not killed: %s", terminal.id, error)
        response = await terminal.output()
        status = status or response.exit_status or TerminalExitStatus()
        return CommandResult(response.output, status.exit_code, status.signal, response.truncated, timed_out)

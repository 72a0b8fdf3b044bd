"""One tool call, from its announcement to its end: `ToolCallContext` (T4)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import trio

from trio_acp._errors import ConnectionClosed, ConnectionLost, LocalProtocolError
from trio_acp.schema import (
    UNSET,
    Content,
    ContentBlock,
    Diff,
    PermissionOption,
    Terminal,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    Unset,
    unstructure,
    unstructure_update,
)

from ._asking import decide_permission
from ._terminals import (
    DEFAULT_OUTPUT_BYTE_LIMIT,
    CommandResult,
    TerminalHandle,
    build_request,
    run_command,
)
from ._updates import check_update

if TYPE_CHECKING:
    from ._updates import Emitter

__all__ = ["ToolCallContext", "make_location"]


@final
class ToolCallContext:
    """A tool call for the length of an ``async with`` block; made by `PromptContext.tool_call`.

    Entering the block announces the call as ``pending`` and, unless told to wait, goes on to ``in_progress``.
    Leaving it settles the call: ``completed``, or ``failed`` if the block raises, is cancelled, was
    told to `fail`, or was refused permission. The end is told on every path, before the turn is answered.

    Attributes:
        id: its id, unique in the session.
        title: what it does, for people.
        kind: what sort of thing it does.
        status: how far it has come.
        content: what it has produced so far.
        locations: the files that it touches.
    """

    id: str
    title: str
    kind: ToolKind | str
    status: ToolCallStatus
    content: list[ToolCallContent]
    locations: list[ToolCallLocation]

    def __init__(
        self,
        emitter: Emitter,
        title: str,
        *,
        kind: ToolKind | str,
        content: Sequence[ToolCallContent],
        locations: Sequence[ToolCallLocation],
        raw_input: Any,
        name: str | None,
        start: bool,
    ) -> None:
        self._emitter = emitter
        self._live = emitter.live
        self.id = self._live.new_id("call")
        self.title = title
        self.kind = kind
        self.status = ToolCallStatus.PENDING
        self.content = list(content)
        self.locations = list(locations)
        self._raw_input = raw_input
        self._name = name
        self._start = start
        self._entered = False
        self._ended = False
        self._end_as = ToolCallStatus.COMPLETED

    async def __aenter__(self) -> ToolCallContext:
        """Announce the call."""
        if self._entered:
            raise LocalProtocolError("a tool call can be entered once; make another one")
        self._entered = True
        announcement = self._announcement()
        check_update(announcement)
        await self._emitter.send(announcement)
        if self._start:
            try:
                await self.start()
            except BaseException:
                self._settle(ToolCallStatus.FAILED)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Settle the call, and check for cancellation."""
        self._settle(self._end_as if error is None else ToolCallStatus.FAILED)
        if error is None:
            await trio.lowlevel.checkpoint_if_cancelled()  # noqa: ASYNC102 - the end has been told

    def _announcement(self) -> dict[str, Any]:
        update: dict[str, Any] = {
            "sessionUpdate": "tool_call",
            "toolCallId": self.id,
            "title": self.title,
            "kind": str(self.kind),
            "status": "pending",
        }
        if self._name is not None:
            update["name"] = self._name
        if self.content:
            update["content"] = [unstructure(each, ToolCallContent) for each in self.content]
        if self.locations:
            update["locations"] = [unstructure(each) for each in self.locations]
        if self._raw_input is not None:
            update["rawInput"] = self._raw_input
        return update

    def _settle(self, status: ToolCallStatus) -> None:
        """Tell the end, synchronously: no cancellation can come between."""
        self._ended = True
        try:
            self._emitter.send_nowait(self._status_update(status))
        except (ConnectionLost, ConnectionClosed, LocalProtocolError):
            # The client has gone, or the turn was answered for: nobody is left to be told.
            pass
        self.status = status

    def _status_update(self, status: ToolCallStatus) -> dict[str, Any]:
        return {"sessionUpdate": "tool_call_update", "toolCallId": self.id, "status": status.value}

    # How far it has come -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Go from ``pending`` to ``in_progress``. Does nothing if the call is further already."""
        self._check_running()
        if self.status is ToolCallStatus.PENDING:
            await self._emitter.send(self._status_update(ToolCallStatus.IN_PROGRESS))
            self.status = ToolCallStatus.IN_PROGRESS
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    async def complete(self, text: str | None = None) -> None:
        """Let the call end as ``completed`` when the block ends, also after a refused permission.

        Args:
            text: a result to add to the content.
        """
        self._end_as = ToolCallStatus.COMPLETED
        if text is not None:
            await self.add_content(text)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    async def fail(self, text: str | None = None) -> None:
        """Let the call end as ``failed`` when the block ends.

        Args:
            text: what went wrong, to add to the content.
        """
        self._end_as = ToolCallStatus.FAILED
        if text is not None:
            await self.add_content(text)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    # What is known about it --------------------------------------------------------------------------

    async def update(
        self,
        *,
        title: str | None = None,
        kind: ToolKind | str | None = None,
        content: Sequence[ToolCallContent] | None = None,
        locations: Sequence[ToolCallLocation] | None = None,
        raw_input: Any = UNSET,
        raw_output: Any = UNSET,
    ) -> None:
        """Tell news about the call; what is left out stays as it is.

        Args:
            title: what it does, for people.
            kind: what sort of thing it does.
            content: what it has produced: the whole list, instead of the one before.
            locations: the files that it touches: the whole list.
            raw_input: what the tool was given, JSON values.
            raw_output: what the tool gave back, JSON values.
        """
        self._check_running()
        news = ToolCallUpdate(
            self.id,
            title=title,
            kind=kind,
            content=None if content is None else list(content),
            locations=None if locations is None else list(locations),
            raw_input=None if isinstance(raw_input, Unset) else raw_input,
            raw_output=None if isinstance(raw_output, Unset) else raw_output,
        )
        await self._emitter.send(unstructure_update(news))
        if title is not None:
            self.title = title
        if kind is not None:
            self.kind = kind
        if content is not None:
            self.content = list(content)
        if locations is not None:
            self.locations = list(locations)
        if not isinstance(raw_input, Unset):
            self._raw_input = raw_input

    async def add_content(self, content: str | ContentBlock) -> None:
        """Add text or any content block to what the call has produced."""
        block = TextContent(content) if isinstance(content, str) else content
        await self.update(content=[*self.content, Content(block)])

    async def add_diff(
        self, path: str | os.PathLike[str], new_text: str, old_text: str | None = None
    ) -> None:
        """Add a change of a file.

        Args:
            path: the file; a relative path starts at the session's directory.
            new_text: its text after the change.
            old_text: its text before; None for a new file.
        """
        diff = Diff(self._live.resolve(path), new_text, old_text)
        await self.update(content=[*self.content, diff])

    async def add_terminal(self, terminal: TerminalHandle | str) -> None:
        """Show a terminal of the client's, given as itself or by its id."""
        terminal_id = terminal if isinstance(terminal, str) else terminal.id
        await self.update(content=[*self.content, Terminal(terminal_id)])

    async def add_location(self, path: str | os.PathLike[str], line: int | None = None) -> None:
        """Add a file that the call touches, for clients that follow along.

        Args:
            path: the file; a relative path starts at the session's directory.
            line: the line, counted from 1.
        """
        location = make_location(self._live.resolve(path), line)
        await self.update(locations=[*self.locations, location])

    # What it does with the client --------------------------------------------------------------------

    async def ask_permission(
        self, *, options: Sequence[PermissionOption] | None = None, remember: str | None = None
    ) -> bool:
        """Ask whether this very call may go ahead (P1); it goes on to ``in_progress`` if so.

        If not, the call ends as ``failed``, unless `complete` is called.

        Args:
            options: what is offered; None for "allow" and "reject". Only an option of a kind that allows is
                consent.
            remember: offer "always" too, and do not ask again about this word in this session once
                the user has chosen that.

        Returns:
            Whether the user consented. A refusal, a cancelled question and an option of unknown kind are
            none.

        Raises:
            InternalError: the client answered with an option that was not offered.
            ValueError: no options, or two with the same id.
        """
        self._check_running()
        subject = ToolCallUpdate(
            self.id,
            title=self.title,
            kind=self.kind,
            status=ToolCallStatus.PENDING,
            content=list(self.content) or None,
            locations=list(self.locations) or None,
            raw_input=self._raw_input,
        )
        decision = await decide_permission(self._live, subject, options=options, remember=remember)
        if not decision.allowed:
            self._end_as = ToolCallStatus.FAILED
            return False
        # Told again even if it was before: the question had put the call back to pending.
        await self._emitter.send(self._status_update(ToolCallStatus.IN_PROGRESS))
        self.status = ToolCallStatus.IN_PROGRESS
        return True

    def terminal(
        self,
        *argv: str,
        shell: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = DEFAULT_OUTPUT_BYTE_LIMIT,
    ) -> TerminalHandle:
        """Return a terminal for an ``async with`` block, shown in this call; see `PromptContext.terminal`."""
        request = build_request(
            self._live, argv, shell=shell, cwd=cwd, env=env, output_byte_limit=output_byte_limit
        )
        return TerminalHandle(self._live, request, self.add_terminal)

    async def execute(
        self,
        *argv: str,
        shell: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = DEFAULT_OUTPUT_BYTE_LIMIT,
        timeout: float | None = None,  # noqa: ASYNC109 - kills and reads: more than a scope can
    ) -> CommandResult:
        """Run a command in a terminal that is shown in this call; see `PromptContext.execute`."""
        handle = self.terminal(*argv, shell=shell, cwd=cwd, env=env, output_byte_limit=output_byte_limit)
        return await run_command(handle, timeout)

    def _check_running(self) -> None:
        if not self._entered or self._ended:
            raise LocalProtocolError("this tool call is not running; use it inside its 'async with' block")


def make_location(path: str, line: int | None) -> ToolCallLocation:
    """Return a location.

    Raises:
        ValueError: lines are counted from 1.
    """
    if line is not None and line < 1:
        raise ValueError("lines are counted from 1")
    return ToolCallLocation(path, line)

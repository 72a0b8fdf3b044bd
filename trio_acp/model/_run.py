"""One run: model calls and tool calls in turns, until the model asks for no more tools."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import attrs

from trio_acp._nesting import Inside
from trio_acp.client import (
    Done,
    ErrorEvent,
    ModelMessage,
    ModelReply,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
    UsageEvent,
)
from trio_acp.schema import ToolCallStatus

from ._hooks import Hooks
from ._result import RunEvent, RunResult, TurnLimit, added
from ._source import ReplySource, Source, StreamSource
from ._tools import Tool, ToolError

__all__ = ["Emit", "Machine", "Run", "RunEvent"]

Emit: TypeAlias = Callable[[RunEvent], Awaitable[None]]
"""Is given each event of a run."""


@attrs.frozen
class Machine:
    """What all runs of a client have in common."""

    model: str | None
    reply: Source[Any] | None
    stream: Source[Any] | None
    tools: Mapping[str, Tool]
    hooks: Hooks
    max_turns: int

    @classmethod
    def of(
        cls,
        model: str | None,
        generate: ReplySource | None,
        generate_stream: StreamSource | None,
        tools: Sequence[Tool],
        hooks: Hooks,
        max_turns: int,
    ) -> Machine:
        """Return one made of what a client is given."""
        return cls(
            model,
            None if generate is None else Source(generate),
            None if generate_stream is None else Source(generate_stream),
            {tool.name: tool for tool in tools},
            hooks,
            max_turns,
        )


@final
class Run:
    """One run.

    Args:
        machine: what it runs on.
        history: the messages so far; what is said is appended to it.
        conversation: the id of the conversation, if it has one.
        streaming: use the stream of the model.
        emit: is given each event but the last one.
        inside: the inside of the run, where the events are taken.
    """

    def __init__(
        self,
        machine: Machine,
        history: list[ModelMessage],
        conversation: str | None,
        streaming: bool,
        emit: Emit,
        inside: Inside,
    ) -> None:
        self._machine = machine
        self._history = history
        self._conversation = conversation
        self._streaming = streaming or machine.reply is None
        self._emit = emit
        self._inside = inside
        self._results: list[ToolResultEvent] = []
        self._usage: Usage | None = None
        self._told: set[str] = set()
        """Ids of the tool calls of the newest reply that were emitted already."""

    async def drive(self) -> RunResult:
        """Do it, and return what came of it."""
        turns = 0
        while True:
            turns += 1
            reply = await self._ask()
            self._usage = added(self._usage, reply.usage)
            self._results += reply.tool_results
            # What the agent has run itself is told of, and is no part of the history.
            wanted = [call for call in reply.tool_calls if call.via == "local"]
            self._history.append(ModelMessage("assistant", reply.text, tuple(wanted)))
            if not wanted:
                return self._result(reply, turns)
            if turns >= self._machine.max_turns:
                raise TurnLimit(self._result(reply, turns))
            for call in wanted:
                result = await self._use_tool(call)
                self._results.append(result)
                self._history.append(
                    ModelMessage(
                        "tool", _as_text(result.output), tool_call_id=call.id, is_error=result.is_error
                    )
                )

    def _result(self, reply: ModelReply, turns: int) -> RunResult:
        model = self._machine.model if reply.model is None else reply.model
        return RunResult(
            reply.text,
            tuple(self._history),
            tuple(self._results),
            turns,
            self._usage,
            model,
            reply.stop_reason,
        )

    # The model -----------------------------------------------------------------------------------------

    async def _ask(self) -> ModelReply:
        hooks = self._machine.hooks
        messages: Sequence[ModelMessage] = self._history
        if hooks.before_model is not None:
            messages = await hooks.before_model(tuple(messages)) or messages
        self._told = set()
        offered = {
            "conversation": self._conversation,
            "tools": list(self._machine.tools.values()),
            "model": self._machine.model,
        }
        reply = await (self._listen(messages, offered) if self._streaming else self._call(messages, offered))
        if hooks.after_model is not None:
            reply = await hooks.after_model(reply) or reply
        return reply

    async def _call(self, messages: Sequence[ModelMessage], offered: dict[str, Any]) -> ModelReply:
        assert self._machine.reply is not None
        said: object = await self._machine.reply(messages, **offered)
        if isinstance(said, ModelReply):
            return said
        if isinstance(said, str):
            return ModelReply(said)
        raise TypeError(f"generate must return a text or a ModelReply, not {type(said).__name__}")

    async def _listen(self, messages: Sequence[ModelMessage], offered: dict[str, Any]) -> ModelReply:
        assert self._machine.stream is not None
        heard = _Heard()
        async with contextlib.AsyncExitStack() as stack:
            with self._inside.taking():
                events = await stack.enter_async_context(self._machine.stream(messages, **offered))
            async for event in events:
                heard.add(event)
                if isinstance(event, (Done, ErrorEvent)):
                    continue  # the run has its own
                if isinstance(event, ToolCallEvent):
                    self._told.add(event.id)
                await self._emit(event)
        return heard.reply()

    # Tools ---------------------------------------------------------------------------------------------

    async def _use_tool(self, call: ToolCallEvent) -> ToolResultEvent:
        hooks = self._machine.hooks
        if call.id not in self._told:
            await self._emit(call)
        instead = None if hooks.before_tool is None else await hooks.before_tool(call)
        if isinstance(instead, ToolResultEvent):
            result = instead
        else:
            result = await self._execute(call if instead is None else instead)
        if hooks.after_tool is not None:
            result = await hooks.after_tool(result) or result
        await self._emit(result)
        return result

    async def _execute(self, call: ToolCallEvent) -> ToolResultEvent:
        tools = self._machine.tools
        arguments: Any = call.arguments
        output: Any
        try:
            if call.name not in tools:
                raise ToolError(f"there is no tool {call.name!r}; there is: {', '.join(tools) or 'none'}")
            tool = tools[call.name]
            arguments = tool.arguments(arguments)
            output, failed = await tool.function(**arguments), False
        except ToolError as error:
            output, failed = str(error), True
        status = ToolCallStatus.FAILED if failed else ToolCallStatus.COMPLETED
        return ToolResultEvent(call.id, call.name, arguments, output, failed, status, via="local")


@final
class _Heard:
    """A reply, put together from its events where the model does not give it whole."""

    def __init__(self) -> None:
        self._whole: ModelReply | None = None
        self._error: Exception | None = None
        self._texts: list[str] = []
        self._calls: list[ToolCallEvent] = []
        self._results: list[ToolResultEvent] = []
        self._usage: Usage | None = None

    def add(self, event: object) -> None:
        """Take an event."""
        match event:
            case TextDelta(text=text):
                self._texts.append(text)
            case ToolCallEvent():
                self._calls.append(event)
            case ToolResultEvent():
                self._results.append(event)
            case UsageEvent(usage=usage):
                self._usage = added(self._usage, usage)
            case Done(result=ModelReply() as whole):
                self._whole = whole
            case ErrorEvent(error=error):
                self._error = error
            case _:
                raise TypeError(f"generate_stream gives model events, not {type(event).__name__}")

    def reply(self) -> ModelReply:
        """Return the reply, or raise the error that the model told of without raising it."""
        if self._error is not None:
            raise self._error
        if self._whole is not None:
            return self._whole
        return ModelReply("".join(self._texts), self._calls, self._results, usage=self._usage)


def _as_text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return json.dumps(output, ensure_ascii=False, default=str)

"""What a model says while it answers, as small events; and how an agent's updates become those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, final

import attrs

from trio_acp.schema import (
    AgentMessageChunk,
    Content,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCall,
    ToolCallStatus,
    ToolCallUpdate,
    UsageUpdate,
)

from ._snapshots import ToolCallState

__all__ = [
    "Done",
    "ErrorEvent",
    "ModelEvent",
    "ModelReply",
    "Narrator",
    "TextDelta",
    "ToolCallEvent",
    "ToolResultEvent",
    "Usage",
    "UsageEvent",
    "Via",
]

Via: TypeAlias = Literal["acp", "local"]
"""Who runs a tool: ``"acp"`` the agent itself, ``"local"`` this program."""

Usage: TypeAlias = UsageUpdate | Mapping[str, Any]
"""What was used: an agent's report on its context, or the numbers of another model by their names."""

ResultT = TypeVar("ResultT", covariant=True)


@attrs.frozen
class TextDelta:
    """A piece of the reply.

    Attributes:
        text: the piece; the reply is all of them, one after the other.
    """

    text: str


@attrs.frozen
class ToolCallEvent:
    """A tool is called.

    Attributes:
        id: the call's id.
        name: the tool's name; of an agent that does not tell it, the title that it gave the call first.
        arguments: what the tool is given, as far as it is known by now: agents may tell later.
        via: who runs it. What comes ``via="acp"`` is the agent's own business and is never run here.
    """

    id: str
    name: str
    arguments: Any = attrs.field(factory=dict[str, Any])
    via: Via = "local"


@attrs.frozen
class ToolResultEvent:
    """A tool call has ended.

    Attributes:
        id: the call's id.
        name: the name that its `ToolCallEvent` had.
        arguments: what the tool was given.
        output: what it gave back: JSON values, a text, or None.
        is_error: it failed, or the turn ended without a result of it.
        status: how far it came, in the agent's word; None where the agent gave none.
        via: who ran it.
    """

    id: str
    name: str
    arguments: Any
    output: Any
    is_error: bool
    status: ToolCallStatus | str | None
    via: Via


@attrs.frozen
class UsageEvent:
    """A report on what was used.

    Attributes:
        usage: the report.
    """

    usage: Usage


@attrs.frozen
class ModelReply:
    """A whole reply of a model.

    Attributes:
        text: its text, without thoughts and tool output.
        tool_calls: the tools that it called; those that are ``via="local"`` are for the host to run.
        tool_results: how those calls ended that are not for the host to run.
        usage: the newest report on usage.
        stop_reason: why it ended.
        model: which model it was, where that is known.
    """

    text: str
    tool_calls: Sequence[ToolCallEvent] = ()
    tool_results: Sequence[ToolResultEvent] = ()
    usage: Usage | None = None
    stop_reason: StopReason | str | None = None
    model: str | None = None


@attrs.frozen
class Done(Generic[ResultT]):
    """The last event of a stream that ended well.

    Attributes:
        result: the whole of it.
    """

    result: ResultT


@attrs.frozen
class ErrorEvent:
    """The last event of a stream that failed; the next step of the iteration raises the error.

    Attributes:
        error: what went wrong.
    """

    error: Exception


ModelEvent: TypeAlias = (
    TextDelta | ToolCallEvent | ToolResultEvent | UsageEvent | Done[ModelReply] | ErrorEvent
)
"""An event of one reply."""

_ENDED = (ToolCallStatus.COMPLETED, ToolCallStatus.FAILED)


@final
class Narrator:
    """Makes events of a turn's updates, one call and one result for each tool call."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCallState] = {}
        self._names: dict[str, str] = {}
        self._results: dict[str, ToolResultEvent] = {}

    def events(self, update: SessionUpdate) -> list[ModelEvent]:
        """Return what an update means, which may be nothing."""
        if isinstance(update, AgentMessageChunk):
            content = update.content
            return [TextDelta(content.text)] if isinstance(content, TextContent) and content.text else []
        if isinstance(update, (ToolCall, ToolCallUpdate)):
            return self._tool_call(update)
        return [UsageEvent(update)] if isinstance(update, UsageUpdate) else []

    def _tool_call(self, update: ToolCall | ToolCallUpdate) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        id = update.tool_call_id
        state = self._calls.get(id)
        if state is None:
            state = self._calls[id] = ToolCallState(id)
            state.merge(update)
            self._names[id] = state.name or state.title or str(state.kind or "tool")
            events.append(self._call(state))
        else:
            state.merge(update)
        if state.status in _ENDED and id not in self._results:
            events.append(self._result(state))
        return events

    def _call(self, state: ToolCallState) -> ToolCallEvent:
        id = state.tool_call_id
        return ToolCallEvent(id, self._names[id], _arguments(state), via="acp")

    def _result(self, state: ToolCallState) -> ToolResultEvent:
        id = state.tool_call_id
        result = self._results[id] = ToolResultEvent(
            id,
            self._names[id],
            _arguments(state),
            output=_output(state),
            is_error=state.status != ToolCallStatus.COMPLETED,
            status=state.status,
            via="acp",
        )
        return result

    def left_open(self) -> list[ToolResultEvent]:
        """Return results for the calls that the agent has left unfinished; the turn is over."""
        return [self._result(state) for id, state in self._calls.items() if id not in self._results]

    def tools(self) -> tuple[tuple[ToolCallEvent, ...], tuple[ToolResultEvent, ...]]:
        """Return the calls with what is known of them in the end, and the results."""
        calls = tuple(self._call(state) for state in self._calls.values())
        return calls, tuple(self._results[call.id] for call in calls)


def _arguments(state: ToolCallState) -> Any:
    return {} if state.raw_input is None else state.raw_input


def _output(state: ToolCallState) -> Any:
    if state.raw_output is not None:
        return state.raw_output
    texts = [
        part.content.text
        for part in state.content
        if isinstance(part, Content) and isinstance(part.content, TextContent)
    ]
    return "\n".join(texts) if texts else None

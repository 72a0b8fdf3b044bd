"""What the updates of a session add up to: messages, tool calls, plan, usage, and the session's own state.

Folding is synchronous and cheap: it happens in the read loop, once for every update, before anybody else
sees the update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, final

import attrs

from trio_acp.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    ContentChunk,
    CurrentModeUpdate,
    Plan,
    PlanEntry,
    SessionConfigOption,
    SessionInfoUpdate,
    SessionModeState,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UsageUpdate,
    UserMessageChunk,
)

__all__ = [
    "JOINED_CHUNKS",
    "MAX_TOOL_CALLS",
    "Message",
    "SessionState",
    "ToolCallState",
    "Transcript",
    "fold",
]

MAX_TOOL_CALLS: Final = 4096
"""Tool calls that a session remembers; the oldest are forgotten first. A turn keeps all of its own."""

JOINED_CHUNKS: Final = 1024
"""Chunks of plain text after which they are joined: often enough for memory, seldom enough for speed."""


@attrs.define
class ToolCallState:
    """All that is known of one tool call: its start and every update, merged (T4).

    Attributes:
        tool_call_id: its id, unique within the session.
        title: what it does, for people; empty when the agent has not said.
        kind: what sort of thing it does; None when the agent has not said.
        status: how far it has come; None when the agent has not said.
        name: the tool's programmatic name, if the agent tells.
        content: what it has produced; each update replaces the whole list.
        locations: files that it touches; each update replaces the whole list.
        raw_input: what the tool was given.
        raw_output: what the tool gave back.
        meta: the ``_meta`` of the newest update that had one.
    """

    tool_call_id: str
    title: str = ""
    kind: ToolKind | str | None = None
    status: ToolCallStatus | str | None = None
    name: str | None = None
    content: list[ToolCallContent] = attrs.field(factory=list["ToolCallContent"])
    locations: list[ToolCallLocation] = attrs.field(factory=list[ToolCallLocation])
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = None

    def merge(self, update: ToolCall | ToolCallUpdate) -> None:
        """Take over what an update gives; what it leaves out stays as it was.

        A `ToolCall` that comes after an update of the same call cannot say that it leaves something out: its
        defaults stand for that, and hide nothing that is known.
        """
        begins = isinstance(update, ToolCall)
        if update.title is not None:
            self.title = update.title
        if update.kind is not None and not (begins and self.kind and update.kind is ToolKind.OTHER):
            self.kind = update.kind
        if update.status is not None and not (
            begins and self.status and update.status is ToolCallStatus.PENDING
        ):
            self.status = update.status
        if update.name is not None:
            self.name = update.name
        if update.content is not None and (update.content or not begins):
            self.content = update.content
        if update.locations is not None and (update.locations or not begins):
            self.locations = update.locations
        if update.raw_input is not None:
            self.raw_input = update.raw_input
        if update.raw_output is not None:
            self.raw_output = update.raw_output
        if update.meta is not None:
            self.meta = update.meta

    def copy(self) -> ToolCallState:
        """Return the state as it is now, which later updates do not change."""
        return attrs.evolve(self, content=list(self.content), locations=list(self.locations))


@final
class Message:
    """One message of a conversation, put together from its chunks (T5).

    Attributes:
        role: who speaks: ``"agent"``, ``"user"``, or ``"thought"`` for the agent's reasoning.
        message_id: the agent's id for it, None where it gives none.
    """

    __slots__ = ("_parts", "_run", "message_id", "role")

    def __init__(self, role: Literal["agent", "user", "thought"], message_id: str | None) -> None:
        self.role = role
        self.message_id = message_id
        self._parts: list[str | ContentBlock] = []
        self._run: list[str] = []
        """Plain text that is not joined yet: a string for each chunk would take far more than its text."""

    def __repr__(self) -> str:
        return f"<Message {self.role} {self.message_id!r}: {self.text[:60]!r}>"

    @property
    def text(self) -> str:
        """Its text, without what is not text."""
        self._join()
        return "".join([part if isinstance(part, str) else _text_of(part) for part in self._parts])

    @property
    def pieces(self) -> int:
        """How many pieces it is kept in."""
        return len(self._parts) + len(self._run)

    def _join(self) -> None:
        if self._run:
            self._parts.append("".join(self._run))
            self._run.clear()

    @property
    def content(self) -> list[ContentBlock]:
        """Its content blocks; neighbouring chunks of plain text are one block."""
        self._join()
        blocks: list[ContentBlock] = []
        run: list[str] = []
        for part in [*self._parts, None]:
            if isinstance(part, str):
                run.append(part)
                continue
            if run:
                blocks.append(TextContent("".join(run)))
                run = []
            if part is not None:
                blocks.append(part)
        return blocks

    def add(self, content: ContentBlock) -> None:
        """Append one chunk's content."""
        if (
            type(content) is TextContent
            and content.annotations is None
            and content.meta is None
            and content.extra is None
        ):
            self._run.append(content.text)
            if len(self._run) >= JOINED_CHUNKS:
                self._join()
        else:
            self._join()
            self._parts.append(content)


def _text_of(content: ContentBlock) -> str:
    return content.text if isinstance(content, TextContent) else ""


@final
class Transcript:
    """What one turn has brought."""

    __slots__ = ("_by_id", "_open", "messages", "plan", "tool_calls", "usage")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tool_calls: dict[str, ToolCallState] = {}
        self.plan: list[PlanEntry] | None = None
        self.usage: UsageUpdate | None = None
        self._by_id: dict[tuple[str, str], Message] = {}
        self._open: Message | None = None
        """The message that a chunk without an id would continue."""

    @property
    def text(self) -> str:
        """What the agent said: its message text, without thoughts and tool output."""
        return "".join([message.text for message in self.messages if message.role == "agent"])

    def add_chunk(self, role: Literal["agent", "user", "thought"], chunk: ContentChunk) -> None:
        """Append a chunk to its message, or begin one with it."""
        message = self._open
        id = chunk.message_id
        if message is None or message.role != role or message.message_id != id:
            message = None if id is None else self._by_id.get((role, id))
            if message is None:
                message = Message(role, id)
                self.messages.append(message)
                if id is not None:
                    self._by_id[role, id] = message
            self._open = message
        message.add(chunk.content)

    def close_message(self) -> None:
        """What follows is not part of the message before, unless it says so by its id."""
        self._open = None


@attrs.define
class SessionState:
    """What is known of a session, kept up to date by its updates (S7, S8).

    Attributes:
        modes: the modes there are and the current one; None where the agent has none.
        config_options: the options there are and their values, in the agent's order.
        commands: the slash commands there are.
        title: what people call the session.
        updated_at: when it was last active, as the agent told it.
        usage: how full the context is.
        plan: the newest plan.
        tool_calls: the tool calls by id, the newest `MAX_TOOL_CALLS` of them.
    """

    modes: SessionModeState | None = None
    config_options: list[SessionConfigOption] = attrs.field(factory=list["SessionConfigOption"])
    commands: list[AvailableCommand] = attrs.field(factory=list[AvailableCommand])
    title: str | None = None
    updated_at: str | None = None
    usage: UsageUpdate | None = None
    plan: list[PlanEntry] | None = None
    tool_calls: dict[str, ToolCallState] = attrs.field(factory=dict[str, ToolCallState])

    def merge_tool_call(self, update: ToolCall | ToolCallUpdate) -> ToolCallState:
        """Merge an update into the tool call that it names, which it creates if need be (T4)."""
        state = self.tool_calls.get(update.tool_call_id)
        if state is None:
            state = self.tool_calls[update.tool_call_id] = ToolCallState(update.tool_call_id)
            if len(self.tool_calls) > MAX_TOOL_CALLS:
                del self.tool_calls[next(iter(self.tool_calls))]
        state.merge(update)
        return state


def fold(update: SessionUpdate, state: SessionState, transcript: Transcript | None) -> None:
    """Fold an update into the state of its session and the transcript of its turn, if there is one."""
    if type(update) is AgentMessageChunk and transcript is not None:
        # By far the most frequent update.
        transcript.add_chunk("agent", update)
        return
    folder = _FOLDERS.get(update.__class__)
    if folder is not None:
        folder(update, state, transcript)
    elif transcript is not None:
        transcript.close_message()


def _thought_chunk(update: AgentThoughtChunk, state: SessionState, transcript: Transcript | None) -> None:
    if transcript is not None:
        transcript.add_chunk("thought", update)


def _user_chunk(update: UserMessageChunk, state: SessionState, transcript: Transcript | None) -> None:
    if transcript is not None:
        transcript.add_chunk("user", update)


def _tool_call(update: ToolCall | ToolCallUpdate, state: SessionState, transcript: Transcript | None) -> None:
    merged = state.merge_tool_call(update)
    if transcript is not None:
        transcript.close_message()
        transcript.tool_calls[merged.tool_call_id] = merged


def _plan(update: Plan, state: SessionState, transcript: Transcript | None) -> None:
    state.plan = update.entries
    if transcript is not None:
        transcript.close_message()
        transcript.plan = update.entries


def _usage(update: UsageUpdate, state: SessionState, transcript: Transcript | None) -> None:
    # Not a part of the conversation, so it does not end a message, unlike a plan or a tool call.
    state.usage = update
    if transcript is not None:
        transcript.usage = update


def _commands(update: AvailableCommandsUpdate, state: SessionState, transcript: Transcript | None) -> None:
    state.commands = update.available_commands


def _mode(update: CurrentModeUpdate, state: SessionState, transcript: Transcript | None) -> None:
    if state.modes is None:
        state.modes = SessionModeState(update.current_mode_id, [])
    else:
        state.modes.current_mode_id = update.current_mode_id


def _config(update: ConfigOptionUpdate, state: SessionState, transcript: Transcript | None) -> None:
    state.config_options = update.config_options


def _info(update: SessionInfoUpdate, state: SessionState, transcript: Transcript | None) -> None:
    if update.title is not UNSET:
        state.title = update.title
    if update.updated_at is not UNSET:
        state.updated_at = update.updated_at


_FOLDERS: Final[dict[type, Callable[[Any, SessionState, Transcript | None], None]]] = {
    AgentThoughtChunk: _thought_chunk,
    UserMessageChunk: _user_chunk,
    ToolCall: _tool_call,
    ToolCallUpdate: _tool_call,
    Plan: _plan,
    UsageUpdate: _usage,
    AvailableCommandsUpdate: _commands,
    CurrentModeUpdate: _mode,
    ConfigOptionUpdate: _config,
    SessionInfoUpdate: _info,
}

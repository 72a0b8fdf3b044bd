"""What the updates of a session add up to: messages, tool calls, plan, usage, and the session's own state.

Folding is synchronous and cheap: it happens in the read loop, once for every update, before anybody else
sees the update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
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

from ._choices import ModelState, chosen_value, with_choice

__all__ = [
    "JOINED_CHUNKS",
    "MAX_MESSAGES",
    "MAX_MESSAGE_CHARACTERS",
    "MAX_TOOL_CALLS",
    "History",
    "Message",
    "SessionState",
    "ToolCallState",
    "Transcript",
    "fold",
]

MAX_TOOL_CALLS: Final = 4096
"""Tool calls that a session remembers; the oldest are forgotten first. A turn keeps all of its own."""

MAX_MESSAGES: Final = 4096
"""Messages that a session remembers; the oldest are forgotten first. A turn keeps all of its own."""

MAX_MESSAGE_CHARACTERS: Final = 16 * 1024 * 1024
"""Characters of these messages, encoded images among them; the newest message is kept whatever its size."""

BLOCK_CHARACTERS: Final = 100
"""Characters that a content block counts for besides its own, for all that is in it."""

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
        # Spelled out: attrs.evolve takes 4 us of the 65 us that a permission request takes.
        return ToolCallState(
            self.tool_call_id,
            self.title,
            self.kind,
            self.status,
            self.name,
            list(self.content),
            list(self.locations),
            self.raw_input,
            self.raw_output,
            self.meta,
        )


@final
class Message:
    """One message of a conversation, put together from its chunks (T5).

    Attributes:
        role: who speaks: ``"agent"``, ``"user"``, or ``"thought"`` for the agent's reasoning.
        message_id: the agent's id for it, None where it gives none.
    """

    __slots__ = ("_joined_size", "_parts", "_run", "counted", "message_id", "role")

    def __init__(
        self,
        role: Literal["agent", "user", "thought"],
        message_id: str | None,
        first: ContentBlock | None = None,
    ) -> None:
        self.role: Literal["agent", "user", "thought"] = role
        self.message_id: str | None = message_id
        self._joined_size = 0
        """Characters of the parts."""
        self.counted: int | None = None
        """How many of its characters the history it is in has taken note of; None while it is in none."""
        self._parts: list[str | ContentBlock] | tuple[()] = ()
        """What comes before the run; a list when there is something. In short messages there is not."""
        self._run: list[str] | str | None = None
        """Plain text that is not joined yet: a string for each chunk would take far more than its text.

        A list from the second chunk on: of messages and thoughts in turns, most have but one."""
        if first is not None:
            # Most messages have no other: `add`, written out.
            if (
                type(first) is TextContent
                and first.annotations is None
                and first.meta is None
                and first.extra is None
            ):
                self._run = first.text
            else:
                self.add(first)

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
        run = self._run
        return len(self._parts) + (len(run) if isinstance(run, list) else run is not None)

    def grown(self) -> int:
        """Take note of the characters that it holds, about; return how many are new. It is in a history."""
        assert self.counted is not None
        run = self._run
        size = self._joined_size
        if run is not None:
            size += len(run) if isinstance(run, str) else sum(map(len, run))
        grown = size - self.counted
        self.counted = size
        return grown

    def _join(self) -> None:
        run = self._run
        if run is not None:
            text = run if isinstance(run, str) else "".join(run)
            self._append(text)
            self._joined_size += len(text)
            self._run = None

    def _append(self, part: str | ContentBlock) -> None:
        if isinstance(self._parts, list):
            self._parts.append(part)
        else:
            self._parts = [part]

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
            run = self._run
            if isinstance(run, list):
                run.append(content.text)
                if len(run) >= JOINED_CHUNKS:
                    self._join()
            elif run is None:
                self._run = content.text
            else:
                self._run = [run, content.text]
        else:
            self._join()
            self._append(content)
            self._joined_size += _size_of(content)

    def copy(self) -> Message:
        """Return one that goes on by itself from here."""
        self._join()
        twin = Message(self.role, self.message_id)
        twin._parts = list(self._parts)
        twin._joined_size = self._joined_size
        return twin


def _size_of(content: ContentBlock) -> int:
    """Count the characters of a content block, as far as they can be many."""
    inside = getattr(content, "resource", content)
    return BLOCK_CHARACTERS + sum(len(getattr(inside, name, None) or "") for name in ("text", "data", "blob"))


def _text_of(content: ContentBlock) -> str:
    return content.text if isinstance(content, TextContent) else ""


@final
class History:
    """The messages of a session, as many as are remembered.

    Messages that a turn puts together are in it as they are. Chunks outside of turns are put together here;
    when they go on with a message of a turn, it is with a copy: a turn that has ended does not change.
    """

    __slots__ = ("_by_id", "_last", "_messages", "_open", "_size", "lost")

    def __init__(self) -> None:
        self.lost: int = 0
        """Messages that were forgotten."""
        self._messages: deque[Message] = deque()
        self._by_id: dict[tuple[str, str], Message] = {}
        self._size = 0
        self._last: Message | None = None
        """The message that grew last, whose size may not be counted yet."""
        self._open: Message | None = None
        """The message, put together here, that a chunk without an id would continue."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages, oldest first."""
        return tuple(self._messages)

    def follow(self, message: Message) -> None:
        """Chunks go to this message from now on; it is entered if it is new."""
        self._open = None
        last = self._last
        if last is not None:
            self._size += last.grown()
        self._last = message
        messages = self._messages
        if message.counted is None:
            message.counted = 0
            messages.append(message)
            if message.message_id is not None:
                self._by_id[message.role, message.message_id] = message
        while len(messages) > MAX_MESSAGES or (self._size > MAX_MESSAGE_CHARACTERS and len(messages) > 1):
            self._forget(self._messages.popleft())
            self.lost += 1

    def _forget(self, message: Message) -> None:
        self._size -= message.counted or 0
        # It may still grow in its turn. That is nothing to this history any more.
        message.counted = None
        if message is self._last:
            self._last = None
        id = message.message_id
        if id is not None and self._by_id.get((message.role, id)) is message:
            del self._by_id[message.role, id]

    def add_chunk(self, role: Literal["agent", "user", "thought"], chunk: ContentChunk) -> None:
        """Append a chunk that belongs to no turn to its message, or begin one with it."""
        message = self._open
        id = chunk.message_id
        if message is None or message.role != role or message.message_id != id:
            known = None if id is None else self._by_id.get((role, id))
            message = Message(role, id) if known is None else known.copy()
            if known is not None:
                self._replace(known, message)
            self.follow(message)
            self._open = message
        message.add(chunk.content)

    def _replace(self, old: Message, new: Message) -> None:
        self._size += old.grown()
        self._messages[self._messages.index(old)] = new
        new.counted, old.counted = old.counted, None
        self._by_id[new.role, new.message_id or ""] = new

    def close_message(self) -> None:
        """What follows is not part of the message before, unless it says so by its id."""
        self._open = None


@final
class Transcript:
    """What one turn has brought.

    Args:
        history: takes note of its messages.
    """

    __slots__ = ("_by_id", "_open", "history", "messages", "plan", "tool_calls", "usage")

    def __init__(self, history: History | None = None) -> None:
        self.history: History | None = history
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
        if message is not None and message.message_id == id and message.role == role:
            message.add(chunk.content)
            return
        message = None if id is None else self._by_id.get((role, id))
        if message is None:
            message = Message(role, id, chunk.content)
            self.messages.append(message)
            if id is not None:
                self._by_id[role, id] = message
        else:
            message.add(chunk.content)
        self._open = message
        if self.history is not None:
            self.history.follow(message)

    def close_message(self) -> None:
        """What follows is not part of the message before, unless it says so by its id."""
        self._open = None


@attrs.define
class SessionState:
    """What is known of a session, kept up to date by its updates (S7, S8).

    Attributes:
        modes: the modes there are and the current one; None where the agent has none.
        models: the models there are and the current one, from agents that offer them so; see `ModelState`.
        config_options: the options there are and their values, in the agent's order.
        commands: the slash commands there are.
        title: what people call the session.
        updated_at: when it was last active, as the agent told it.
        usage: how full the context is.
        plan: the newest plan.
        tool_calls: the tool calls by id, the newest `MAX_TOOL_CALLS` of them.
    """

    modes: SessionModeState | None = None
    models: ModelState | None = None
    config_options: list[SessionConfigOption] = attrs.field(factory=list["SessionConfigOption"])
    commands: list[AvailableCommand] = attrs.field(factory=list[AvailableCommand])
    title: str | None = None
    updated_at: str | None = None
    usage: UsageUpdate | None = None
    plan: list[PlanEntry] | None = None
    tool_calls: dict[str, ToolCallState] = attrs.field(factory=dict[str, ToolCallState])
    history: History = attrs.field(factory=History, repr=False, eq=False, kw_only=True)

    @property
    def messages(self) -> Sequence[Message]:
        """What was said, oldest first, as far as the agent has told it: the newest `MAX_MESSAGES` messages
        and `MAX_MESSAGE_CHARACTERS` characters. Agents do not repeat what they are sent as a prompt."""
        return self.history.messages

    def without_conversation(self) -> SessionState:
        """Return what is known of the session apart from what was said and done in it."""
        modes = None if self.modes is None else attrs.evolve(self.modes)
        models = None if self.models is None else attrs.evolve(self.models)
        return attrs.evolve(self, modes=modes, models=models, plan=None, tool_calls={}, history=History())

    def become(self, other: SessionState) -> None:
        """Take over everything that another one says."""
        for attribute in attrs.fields(SessionState):
            setattr(self, attribute.name, getattr(other, attribute.name))

    def chosen(self) -> None:
        """The config options have changed: what they say about the mode and the model holds (I6)."""
        mode, model = chosen_value(self.config_options, "mode"), chosen_value(self.config_options, "model")
        modes, models = self.modes, self.models
        if modes is not None and any(mode == each.id for each in modes.available_modes):
            assert mode is not None
            modes.current_mode_id = mode
        if models is not None and any(model == each.model_id for each in models.available_models):
            assert model is not None
            models.current_model_id = model

    def enter_mode(self, mode_id: str) -> None:
        """The session is in that mode now."""
        if self.modes is None:
            self.modes = SessionModeState(mode_id, [])
        else:
            self.modes.current_mode_id = mode_id
        self.config_options = with_choice(self.config_options, "mode", mode_id)

    def use_model(self, model_id: str) -> None:
        """The session uses that model now."""
        assert self.models is not None  # the model was chosen from these
        self.models.current_model_id = model_id
        self.config_options = with_choice(self.config_options, "model", model_id)

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
    # The most frequent updates first.
    if type(update) is AgentMessageChunk:
        (state.history if transcript is None else transcript).add_chunk("agent", update)
    elif type(update) is AgentThoughtChunk:
        (state.history if transcript is None else transcript).add_chunk("thought", update)
    elif (folder := _FOLDERS.get(update.__class__)) is not None:
        folder(update, state, transcript)
    else:
        _log(state, transcript).close_message()


def _log(state: SessionState, transcript: Transcript | None) -> Transcript | History:
    """Return where messages are put together now."""
    return state.history if transcript is None else transcript


def _user_chunk(update: UserMessageChunk, state: SessionState, transcript: Transcript | None) -> None:
    _log(state, transcript).add_chunk("user", update)


def _tool_call(update: ToolCall | ToolCallUpdate, state: SessionState, transcript: Transcript | None) -> None:
    merged = state.merge_tool_call(update)
    _log(state, transcript).close_message()
    if transcript is not None:
        transcript.tool_calls[merged.tool_call_id] = merged


def _plan(update: Plan, state: SessionState, transcript: Transcript | None) -> None:
    state.plan = update.entries
    _log(state, transcript).close_message()
    if transcript is not None:
        transcript.plan = update.entries


def _usage(update: UsageUpdate, state: SessionState, transcript: Transcript | None) -> None:
    # Not a part of the conversation, so it does not end a message, unlike a plan or a tool call.
    state.usage = update
    if transcript is not None:
        transcript.usage = update


def _commands(update: AvailableCommandsUpdate, state: SessionState, transcript: Transcript | None) -> None:
    state.commands = update.available_commands


def _mode(update: CurrentModeUpdate, state: SessionState, transcript: Transcript | None) -> None:
    state.enter_mode(update.current_mode_id)


def _config(update: ConfigOptionUpdate, state: SessionState, transcript: Transcript | None) -> None:
    state.config_options = update.config_options
    state.chosen()


def _info(update: SessionInfoUpdate, state: SessionState, transcript: Transcript | None) -> None:
    if update.title is not UNSET:
        state.title = update.title
    if update.updated_at is not UNSET:
        state.updated_at = update.updated_at


_FOLDERS: Final[dict[type, Callable[[Any, SessionState, Transcript | None], None]]] = {
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

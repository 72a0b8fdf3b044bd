"""What a model is given: a next message or a whole history, and how it becomes a prompt."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeGuard, cast

import attrs

from trio_acp._errors import LocalProtocolError
from trio_acp.schema import ContentBlock, PromptCapabilities, TextContent, unstructure

from ._content import PromptContent, prompt_blocks
from ._events import ToolCallEvent

__all__ = ["Asked", "Entry", "Messages", "ModelMessage", "Seen", "read_messages", "rendered"]

_ROLES: Final = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool"}


@attrs.frozen
class ModelMessage:
    """One message of a history, for models that use tools of the host: a (role, content) pair says less.

    Attributes:
        role: ``"system"``, ``"user"``, ``"assistant"`` or ``"tool"``.
        content: a text, a content block, or a sequence of these.
        tool_calls: tools that an assistant's message asks the host to run.
        tool_call_id: for a tool's message: the call that it answers.
        is_error: for a tool's message: the call failed, and the content says why.
    """

    role: str
    content: PromptContent
    tool_calls: Sequence[ToolCallEvent] = ()
    tool_call_id: str | None = None
    is_error: bool = False

    @staticmethod
    def history(messages: Messages) -> list[ModelMessage]:
        """Return messages as a history; a next message alone is one of the user's.

        Args:
            messages: the next message, or a history.

        Raises:
            LocalProtocolError: that is neither, or a history that asks nothing.
        """
        items = _history_of(messages)
        if items is None:
            return [ModelMessage("user", cast(PromptContent, messages))]
        return items

    @property
    def text(self) -> str:
        """The text in its content; other content is left out."""
        return "\n\n".join(
            part if isinstance(part, str) else part.text
            for part in _parts(self.content)
            if isinstance(part, (str, TextContent))
        )


Messages: TypeAlias = (
    str | ContentBlock | Sequence[str | ContentBlock | tuple[str, PromptContent] | ModelMessage]
)
"""A next message (a text, a content block, a list of these), or a whole history (a list of (role, content)
pairs and `ModelMessage`; the roles are "system", "user", "assistant" and "tool")."""

Entry: TypeAlias = tuple[str, list[ContentBlock]]
"""A message as it is worked with: its role, and its content as blocks."""


@attrs.frozen
class Asked:
    """What a call asks.

    Attributes:
        entries: the history, or the one next message.
        whole: these are the whole history.
    """

    entries: list[Entry]
    whole: bool


def _parts(content: PromptContent) -> Sequence[str | ContentBlock]:
    return [content] if isinstance(content, str) or not isinstance(content, Sequence) else content


def read_messages(messages: Messages, capabilities: PromptCapabilities) -> Asked:
    """Tell a next message from a history, and check either against what the agent can take.

    Raises:
        LocalProtocolError: that is neither, or a history that asks nothing.
        CapabilityError: there is content of a kind that the agent did not advertise.
    """
    history = _history_of(messages)
    if history is None:
        # Whatever else it is: this says what may be in a prompt.
        return Asked([("user", prompt_blocks(cast(PromptContent, messages), capabilities))], whole=False)
    return Asked([_entry(message, capabilities) for message in history], whole=True)


def _history_of(messages: object) -> list[ModelMessage] | None:
    """Return the messages of a history, None for something that may be a next message."""
    if not _is_sequence(messages):
        return None
    if not messages:
        raise LocalProtocolError("there are no messages; give at least one")
    if any(isinstance(item, (tuple, ModelMessage)) for item in messages):
        return _checked(messages)
    if _is_tuple(messages) and isinstance(messages[0], str) and messages[0] in _ROLES:
        raise LocalProtocolError(f"a history is a list of pairs: [{messages!r}] rather than {messages!r}")
    return None


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _checked(items: Sequence[Any]) -> list[ModelMessage]:
    history = [item if isinstance(item, ModelMessage) else _of_pair(item) for item in items]
    for message in history:
        if message.role not in _ROLES:
            raise LocalProtocolError(f"the role {message.role!r} is unknown; use one of {', '.join(_ROLES)}")
    if history[-1].role not in ("user", "tool"):
        raise LocalProtocolError("the last message must be a user's (or a tool's): it is what is answered")
    return history


def _of_pair(item: object) -> ModelMessage:
    if _is_tuple(item) and len(item) == 2:
        return ModelMessage(*item)
    raise LocalProtocolError(
        f"a history is made of (role, content) pairs and ModelMessage, not of {type(item).__name__}"
    )


def _entry(message: ModelMessage, capabilities: PromptCapabilities) -> Entry:
    silent = message.tool_calls and message.content == ""
    blocks = [] if silent else prompt_blocks(message.content, capabilities)
    for call in message.tool_calls:
        blocks.append(
            TextContent(f"[called the tool {call.name} with {json.dumps(call.arguments, default=str)}]")
        )
    return message.role, blocks


def _plain(block: ContentBlock) -> bool:
    return (
        isinstance(block, TextContent)
        and block.annotations is None
        and block.meta is None
        and block.extra is None
    )


def rendered(entries: Sequence[Entry]) -> list[str | ContentBlock]:
    """Return messages as the content of one prompt, each under its role unless all are the user's."""
    if len(entries) == 1 and entries[0][0] == "user":
        return list(entries[0][1])
    named = any(role != "user" for role, _ in entries)
    parts: list[str | ContentBlock] = []
    for role, blocks in entries:
        mine = [cast(TextContent, block).text if _plain(block) else block for block in blocks]
        if named:
            lead = f"{_ROLES[role]}:"
            first = mine[0]
            if isinstance(first, str):
                mine[0] = f"{lead} {first}"
            else:
                mine.insert(0, lead)
        parts += mine
    content: list[str | ContentBlock] = []
    for text, run in itertools.groupby(parts, key=lambda part: isinstance(part, str)):
        neighbours = list(run)
        content += ["\n\n".join(cast("list[str]", neighbours))] if text else neighbours
    return content


class Seen:
    """What a session has seen: how many messages, and a digest of them; not their text, however long it gets.

    White space around texts does not count: callers trim replies.
    """

    __slots__ = ("_count", "_digest")

    def __init__(self) -> None:
        self._count = 0
        self._digest = b""

    def add(self, entries: Iterable[Entry]) -> None:
        """The session has seen these as well."""
        for entry in entries:
            self._digest = _extended(self._digest, entry)
            self._count += 1

    def begins(self, history: list[Entry]) -> bool:
        """Tell whether a history begins with what was seen."""
        digest = b""
        for entry in history[: self._count]:
            digest = _extended(digest, entry)
        return len(history) >= self._count and digest == self._digest

    def news(self, history: list[Entry]) -> list[Entry] | None:
        """Return what a history has beyond what was seen; None where it has nothing, or begins otherwise."""
        return history[self._count :] if self.begins(history) and len(history) > self._count else None


def _extended(digest: bytes, entry: Entry) -> bytes:
    role, blocks = entry
    facts: list[Any] = [role]
    facts += [
        cast(TextContent, block).text.strip() if _plain(block) else unstructure(block) for block in blocks
    ]
    return hashlib.sha256(digest + json.dumps(facts, sort_keys=True).encode()).digest()

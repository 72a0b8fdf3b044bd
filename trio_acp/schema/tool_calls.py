"""Tool calls: what the agent does to the world, and how far it has come (protocol: Tool Calls)."""

import enum
from typing import Any, ClassVar, Literal, TypeAlias

from attrs import define, field

from ._base import Lenient, LenientItems, UInt32, UnknownVariant, WireObject, new_list, open_union
from .content import ContentBlock
from .identifiers import TerminalId, ToolCallId

__all__ = [
    "Content",
    "Diff",
    "Terminal",
    "ToolCall",
    "ToolCallContent",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
]


class ToolKind(enum.StrEnum):
    """What sort of thing a tool does; clients choose icons and wording by it."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


class ToolCallStatus(enum.StrEnum):
    """How far a tool call has come. ``pending`` covers both incomplete input and waiting for permission."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@define(repr=False, eq=False)
class Content(WireObject):
    """A content block as part of a tool call's result."""

    type: ClassVar[Literal["content"]] = "content"

    content: ContentBlock


@define(repr=False, eq=False)
class Diff(WireObject):
    """A change of one file, as the texts before and after.

    Attributes:
        path: The file, absolute.
        new_text: Its text after the change.
        old_text: Its text before; None for a new file.
    """

    type: ClassVar[Literal["diff"]] = "diff"

    path: str
    new_text: str
    old_text: Lenient[str | None] = None


@define(repr=False, eq=False)
class Terminal(WireObject):
    """Shows a terminal that ``terminal/create`` made; still shown after its release."""

    type: ClassVar[Literal["terminal"]] = "terminal"

    terminal_id: TerminalId


ToolCallContent: TypeAlias = Content | Diff | Terminal | UnknownVariant
"""One piece of a tool call's result, told apart by ``type``."""

open_union(ToolCallContent, "ToolCallContent", "type")


@define(repr=False, eq=False)
class ToolCallLocation(WireObject):
    """A file that a tool call touches, so that a client can follow along.

    Attributes:
        path: The file, absolute.
        line: The line, if one matters.
    """

    path: str
    line: Lenient[UInt32 | None] = None


@define(repr=False, eq=False)
class ToolCall(WireObject):
    """The session update that starts a tool call (T4).

    Attributes:
        tool_call_id: Its id, for later updates and for permission requests.
        title: What it does, for people.
        kind: What sort of thing it does.
        status: How far it has come.
        name: The tool's programmatic name, if the agent tells.
        content: What it has produced so far.
        locations: Files that it touches.
        raw_input: What the tool was given, any JSON.
        raw_output: What the tool gave back, any JSON.
    """

    session_update: ClassVar[Literal["tool_call"]] = "tool_call"

    tool_call_id: ToolCallId
    title: str
    kind: Lenient[ToolKind | str] = ToolKind.OTHER
    status: Lenient[ToolCallStatus | str] = ToolCallStatus.PENDING
    name: Lenient[str | None] = None
    content: LenientItems[list[ToolCallContent]] = field(factory=new_list)
    locations: LenientItems[list[ToolCallLocation]] = field(factory=new_list)
    raw_input: Lenient[Any] = None
    raw_output: Lenient[Any] = None


@define(repr=False, eq=False)
class ToolCallUpdate(WireObject):
    """What has changed about a tool call (T4): a session update, or the subject of a permission request.

    Everything but the id may be None, which means unchanged; ``content`` and ``locations`` replace the whole
    list. The class carries its ``sessionUpdate`` tag where it is a session update, and none elsewhere.

    Attributes:
        tool_call_id: The call that changes; a new id starts a call.
        kind: What sort of thing it does.
        status: How far it has come.
        title: What it does, for people.
        name: The tool's programmatic name.
        content: What it has produced, the whole list.
        locations: Files that it touches, the whole list.
        raw_input: What the tool was given, any JSON.
        raw_output: What the tool gave back, any JSON.
    """

    session_update: ClassVar[Literal["tool_call_update"]] = "tool_call_update"

    tool_call_id: ToolCallId
    kind: Lenient[ToolKind | str | None] = None
    status: Lenient[ToolCallStatus | str | None] = None
    title: Lenient[str | None] = None
    name: Lenient[str | None] = None
    content: LenientItems[list[ToolCallContent] | None] = None
    locations: LenientItems[list[ToolCallLocation] | None] = None
    raw_input: Lenient[Any] = None
    raw_output: Lenient[Any] = None

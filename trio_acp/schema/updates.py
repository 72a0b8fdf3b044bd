"""What an agent tells while it works: ``session/update`` (T2, T4, T5, S7, S8)."""

import enum
from typing import ClassVar, Literal, TypeAlias

from attrs import define, field
from attrs.validators import min_len

from ._base import (
    UNSET,
    Lenient,
    LenientItems,
    NonEmptyStr,
    UInt64,
    UnknownVariant,
    Unset,
    WireObject,
    open_union,
)
from .config_options import SessionConfigOption
from .content import ContentBlock
from .identifiers import CompactionId, MessageId, SessionId, SessionModeId
from .tool_calls import ToolCall, ToolCallUpdate

__all__ = [
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "ContentChunk",
    "Cost",
    "CurrentModeUpdate",
    "Notice",
    "NoticeSeverity",
    "Plan",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "SessionInfoUpdate",
    "SessionNotification",
    "SessionUpdate",
    "UnstructuredCommandInput",
    "UsageUpdate",
    "UserMessageChunk",
]


@define(repr=False, eq=False)
class ContentChunk(WireObject):
    """A piece of a message.

    Attributes:
        content: The piece.
        message_id: The message that it belongs to; chunks with the same id are one message (T5).
    """

    content: ContentBlock
    message_id: Lenient[MessageId | None] = None


class UserMessageChunk(ContentChunk):
    """A piece of what the user said, for example in a replay."""

    session_update: ClassVar[Literal["user_message_chunk"]] = "user_message_chunk"

    __slots__ = ()


class AgentMessageChunk(ContentChunk):
    """A piece of what the agent says."""

    session_update: ClassVar[Literal["agent_message_chunk"]] = "agent_message_chunk"

    __slots__ = ()


class AgentThoughtChunk(ContentChunk):
    """A piece of the agent's reasoning."""

    session_update: ClassVar[Literal["agent_thought_chunk"]] = "agent_thought_chunk"

    __slots__ = ()


class PlanEntryPriority(enum.StrEnum):
    """How much an entry of a plan matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanEntryStatus(enum.StrEnum):
    """How far an entry of a plan has come."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


@define(repr=False, eq=False)
class PlanEntry(WireObject):
    """One thing that the agent plans to do.

    Attributes:
        content: What it is, for people.
        priority: How much it matters.
        status: How far it has come.
    """

    content: str
    priority: PlanEntryPriority | str
    status: PlanEntryStatus | str


@define(repr=False, eq=False)
class Plan(WireObject):
    """The agent's whole plan; it replaces the one before (S8)."""

    session_update: ClassVar[Literal["plan"]] = "plan"

    entries: LenientItems[list[PlanEntry]]


@define(repr=False, eq=False)
class UnstructuredCommandInput(WireObject):
    """A command takes whatever text follows its name; ``hint`` is shown while there is none."""

    hint: str


AvailableCommandInput: TypeAlias = UnstructuredCommandInput
"""What a command takes. There is one kind so far, and it has no tag."""


@define(repr=False, eq=False)
class AvailableCommand(WireObject):
    """A command that the user can give in a prompt, as ``/name``.

    Attributes:
        name: Its name, without the slash.
        description: What it does, for people.
        input: What it takes; None for nothing.
    """

    name: str
    description: str
    input: Lenient[AvailableCommandInput | None] = None


@define(repr=False, eq=False)
class AvailableCommandsUpdate(WireObject):
    """All commands there are now (S8)."""

    session_update: ClassVar[Literal["available_commands_update"]] = "available_commands_update"

    available_commands: LenientItems[list[AvailableCommand]]


@define(repr=False, eq=False)
class CurrentModeUpdate(WireObject):
    """The session is in another mode (S7)."""

    session_update: ClassVar[Literal["current_mode_update"]] = "current_mode_update"

    current_mode_id: SessionModeId


@define(repr=False, eq=False)
class ConfigOptionUpdate(WireObject):
    """All config options as they are now (S7)."""

    session_update: ClassVar[Literal["config_option_update"]] = "config_option_update"

    config_options: LenientItems[list[SessionConfigOption]]


@define(repr=False, eq=False)
class SessionInfoUpdate(WireObject):
    """News about the session (S8). `UNSET` leaves what was there, None clears it.

    Attributes:
        title: What people see.
        updated_at: When the session was last active, as ISO 8601 text.
    """

    session_update: ClassVar[Literal["session_info_update"]] = "session_info_update"

    title: Lenient[str | Unset | None] = UNSET
    updated_at: Lenient[str | Unset | None] = UNSET


@define(repr=False, eq=False)
class Cost(WireObject):
    """What a session has cost so far.

    Attributes:
        amount: How much, in whole units of the currency.
        currency: The currency, as ISO 4217 code.
    """

    amount: float
    currency: str


@define(repr=False, eq=False)
class UsageUpdate(WireObject):
    """How full the context is (S8).

    Attributes:
        used: Tokens that are in the context now.
        size: Tokens that it can hold.
        cost: What the session has cost so far.
    """

    session_update: ClassVar[Literal["usage_update"]] = "usage_update"

    used: UInt64
    size: UInt64
    cost: Lenient[Cost | None] = None


class NoticeSeverity(enum.StrEnum):
    """How serious a notice is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@define(repr=False, eq=False)
class Notice(WireObject):
    """Something that the user should see now; only for clients that advertise ``session.notices``.

    Attributes:
        severity: How serious it is.
        title: What is shown, plain text, at least one character.
        description: More about it, plain text.
    """

    session_update: ClassVar[Literal["notice"]] = "notice"

    severity: NoticeSeverity | str
    title: NonEmptyStr = field(validator=min_len(1))
    description: Lenient[str | None] = None


class CompactionStatus(enum.StrEnum):
    """How far a compaction has come."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@define(repr=False, eq=False)
class CompactionUpdate(WireObject):
    """The session's context is being compacted; only for clients that advertise ``session.compaction``.

    Attributes:
        compaction_id: Which compaction.
        status: How far it has come.
        summary: What the context was replaced by, whole.
        error: Why it failed, for people.
    """

    session_update: ClassVar[Literal["compaction_update"]] = "compaction_update"

    compaction_id: CompactionId
    status: CompactionStatus | str
    summary: LenientItems[list[ContentBlock] | None] = None
    error: Lenient[str | None] = None


@define(repr=False, eq=False)
class CompactionSummaryChunk(WireObject):
    """A piece of the summary that a compaction makes.

    Attributes:
        compaction_id: Which compaction.
        content: The piece.
    """

    session_update: ClassVar[Literal["compaction_summary_chunk"]] = "compaction_summary_chunk"

    compaction_id: CompactionId
    content: ContentBlock


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | UnknownVariant
)
"""One piece of news from the agent, told apart by ``sessionUpdate``."""

open_union(SessionUpdate, "SessionUpdate", "sessionUpdate", bare=(ToolCallUpdate,))


@define(repr=False, eq=False)
class SessionNotification(WireObject):
    """Parameters of ``session/update``."""

    session_id: SessionId
    update: SessionUpdate

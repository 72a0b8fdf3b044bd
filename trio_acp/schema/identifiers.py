"""The names that peers give to things. All of them are plain strings, opaque to whoever did not make them."""

from typing import TypeAlias

__all__ = [
    "AuthMethodId",
    "CompactionId",
    "ElicitationId",
    "MessageId",
    "PermissionOptionId",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigValueId",
    "SessionId",
    "SessionModeId",
    "TerminalId",
    "ToolCallId",
]

SessionId: TypeAlias = str
"""Names a session; the agent chooses it."""

AuthMethodId: TypeAlias = str
"""Names a way to log in; the agent chooses it."""

SessionModeId: TypeAlias = str
"""Names a session mode; the agent chooses it."""

SessionConfigId: TypeAlias = str
"""Names a config option; the agent chooses it."""

SessionConfigValueId: TypeAlias = str
"""Names one value of a config option of type select; the agent chooses it."""

SessionConfigGroupId: TypeAlias = str
"""Names a group of values of a config option; the agent chooses it."""

MessageId: TypeAlias = str
"""Names a message, so that its chunks can be told from the next one's (T5)."""

ToolCallId: TypeAlias = str
"""Names a tool call; unique within its session (T4)."""

PermissionOptionId: TypeAlias = str
"""Names one of the options of a permission request; the agent chooses it."""

TerminalId: TypeAlias = str
"""Names a terminal; the client chooses it, and it is void after the release."""

ElicitationId: TypeAlias = str
"""Names an elicitation by URL, so that the agent can say when it is over (E3); the agent chooses it."""

CompactionId: TypeAlias = str
"""Names one compaction of a session's context; the agent chooses it."""

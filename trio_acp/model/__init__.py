"""A model client in the process: text, messages and tools, over an agent or over any function of yours."""

from trio_acp.client import Done as Done
from trio_acp.client import ErrorEvent as ErrorEvent
from trio_acp.client import ModelEvent as ModelEvent
from trio_acp.client import ModelMessage as ModelMessage
from trio_acp.client import ModelReply as ModelReply
from trio_acp.client import TextDelta as TextDelta
from trio_acp.client import ToolCallEvent as ToolCallEvent
from trio_acp.client import ToolResultEvent as ToolResultEvent
from trio_acp.client import UsageEvent as UsageEvent

from ._client import InProcessClient as InProcessClient
from ._hooks import Hooks as Hooks
from ._result import RunEvent as RunEvent
from ._result import RunResult as RunResult
from ._result import TurnLimit as TurnLimit
from ._source import ReplySource as ReplySource
from ._source import StreamSource as StreamSource
from ._store import ConversationStore as ConversationStore
from ._store import MemoryConversationStore as MemoryConversationStore
from ._stream import RunStream as RunStream
from ._tools import Tool as Tool
from ._tools import ToolError as ToolError
from ._tools import ToolFunction as ToolFunction
from ._tools import tool as tool

__all__ = [
    "ConversationStore",
    "Done",
    "ErrorEvent",
    "Hooks",
    "InProcessClient",
    "MemoryConversationStore",
    "ModelEvent",
    "ModelMessage",
    "ModelReply",
    "ReplySource",
    "RunEvent",
    "RunResult",
    "RunStream",
    "StreamSource",
    "TextDelta",
    "Tool",
    "ToolCallEvent",
    "ToolError",
    "ToolFunction",
    "ToolResultEvent",
    "TurnLimit",
    "UsageEvent",
    "tool",
]

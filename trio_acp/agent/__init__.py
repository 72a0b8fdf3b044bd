"""Be an agent: `AgentApp`, and what its handlers work with.

A handler gets a `PromptContext` for each turn. Through it, it tells the client what it does, and uses the
client's files, terminals and user.
"""

from __future__ import annotations

from trio_acp._extension_values import ExtensionParams as ExtensionParams
from trio_acp._extensions import Extension as Extension
from trio_acp._extensions import ExtensionHandler as ExtensionHandler
from trio_acp._extensions import Extensions as Extensions

from ._app import DEFAULT_CANCEL_GRACE as DEFAULT_CANCEL_GRACE
from ._app import AgentApp as AgentApp
from ._client import ConnectedClient as ConnectedClient
from ._context import PromptContext as PromptContext
from ._file_store import FileSessionStore as FileSessionStore
from ._handlers import HandlerError as HandlerError
from ._sessions import AgentSession as AgentSession
from ._spec import OverlappingPrompts as OverlappingPrompts
from ._store import InvalidCursor as InvalidCursor
from ._store import MemorySessionStore as MemorySessionStore
from ._store import SessionDamaged as SessionDamaged
from ._store import SessionRecord as SessionRecord
from ._store import SessionStore as SessionStore
from ._terminals import CommandResult as CommandResult
from ._terminals import TerminalHandle as TerminalHandle
from ._terminals import TerminalOutputStream as TerminalOutputStream
from ._tool_calls import ToolCallContext as ToolCallContext

__all__ = [
    "DEFAULT_CANCEL_GRACE",
    "AgentApp",
    "AgentSession",
    "CommandResult",
    "ConnectedClient",
    "Extension",
    "ExtensionHandler",
    "ExtensionParams",
    "Extensions",
    "FileSessionStore",
    "HandlerError",
    "InvalidCursor",
    "MemorySessionStore",
    "OverlappingPrompts",
    "PromptContext",
    "SessionDamaged",
    "SessionRecord",
    "SessionStore",
    "TerminalHandle",
    "TerminalOutputStream",
    "ToolCallContext",
]

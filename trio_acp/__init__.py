"""The Agent Client Protocol for Trio, both sides: drive a coding agent, or be one.

A host starts with `open_acp`, an agent with `AgentApp`. The wire types are in `trio_acp.schema`, streams in
`trio_acp.transports`.
"""

from typing import TYPE_CHECKING, Any

from ._errors import AcpError as AcpError
from ._errors import AgentExited as AgentExited
from ._errors import AgentStartError as AgentStartError
from ._errors import AuthenticationFailed as AuthenticationFailed
from ._errors import AuthRequired as AuthRequired
from ._errors import CapabilityError as CapabilityError
from ._errors import ConnectionClosed as ConnectionClosed
from ._errors import ConnectionLost as ConnectionLost
from ._errors import InternalError as InternalError
from ._errors import InvalidParams as InvalidParams
from ._errors import InvalidRequest as InvalidRequest
from ._errors import InvalidResponse as InvalidResponse
from ._errors import LocalProtocolError as LocalProtocolError
from ._errors import MessageTooLarge as MessageTooLarge
from ._errors import MethodNotFound as MethodNotFound
from ._errors import ParseError as ParseError
from ._errors import PermissionTimeout as PermissionTimeout
from ._errors import ProtocolError as ProtocolError
from ._errors import RemoteProtocolError as RemoteProtocolError
from ._errors import RequestCancelled as RequestCancelled
from ._errors import RequestError as RequestError
from ._errors import ResourceNotFound as ResourceNotFound
from ._errors import SchemaError as SchemaError
from ._errors import SessionBusy as SessionBusy
from ._errors import SlowConsumer as SlowConsumer
from ._errors import TurnCancelled as TurnCancelled
from ._errors import UnsupportedProtocolVersion as UnsupportedProtocolVersion
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .agent import AgentApp as AgentApp
    from .agent import AgentSession as AgentSession
    from .agent import CommandResult as CommandResult
    from .agent import ConnectedClient as ConnectedClient
    from .agent import FileSessionStore as FileSessionStore
    from .agent import MemorySessionStore as MemorySessionStore
    from .agent import PromptContext as PromptContext
    from .agent import SessionStore as SessionStore
    from .client import AcpOptions as AcpOptions
    from .client import AgentPool as AgentPool
    from .client import AgentStatistics as AgentStatistics
    from .client import Cancelled as Cancelled
    from .client import ConnectedAgent as ConnectedAgent
    from .client import DecidedPermission as DecidedPermission
    from .client import Decision as Decision
    from .client import Extensions as Extensions
    from .client import FileService as FileService
    from .client import Message as Message
    from .client import PermissionHandler as PermissionHandler
    from .client import PermissionRequest as PermissionRequest
    from .client import RecoveredSession as RecoveredSession
    from .client import Reject as Reject
    from .client import Replay as Replay
    from .client import Selected as Selected
    from .client import Session as Session
    from .client import SessionScope as SessionScope
    from .client import SessionState as SessionState
    from .client import StrayUpdate as StrayUpdate
    from .client import TerminalService as TerminalService
    from .client import ToolCallState as ToolCallState
    from .client import Turn as Turn
    from .client import UpdateStream as UpdateStream
    from .client import connect_acp as connect_acp
    from .client import no_such_session as no_such_session
    from .client import open_acp as open_acp
    from .client import run_in_terminal as run_in_terminal
    from .transports import open_memory_pair as open_memory_pair

__all__ = [
    "AcpError",
    "AcpOptions",
    "AgentApp",
    "AgentExited",
    "AgentPool",
    "AgentSession",
    "AgentStartError",
    "AgentStatistics",
    "AuthRequired",
    "AuthenticationFailed",
    "Cancelled",
    "CapabilityError",
    "CommandResult",
    "ConnectedAgent",
    "ConnectedClient",
    "ConnectionClosed",
    "ConnectionLost",
    "DecidedPermission",
    "Decision",
    "Extensions",
    "FileService",
    "FileSessionStore",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResponse",
    "LocalProtocolError",
    "MemorySessionStore",
    "Message",
    "MessageTooLarge",
    "MethodNotFound",
    "ParseError",
    "PermissionHandler",
    "PermissionRequest",
    "PermissionTimeout",
    "PromptContext",
    "ProtocolError",
    "RecoveredSession",
    "Reject",
    "RemoteProtocolError",
    "Replay",
    "RequestCancelled",
    "RequestError",
    "ResourceNotFound",
    "SchemaError",
    "Selected",
    "Session",
    "SessionBusy",
    "SessionScope",
    "SessionState",
    "SessionStore",
    "SlowConsumer",
    "StrayUpdate",
    "TerminalService",
    "ToolCallState",
    "Turn",
    "TurnCancelled",
    "UnsupportedProtocolVersion",
    "UpdateStream",
    "__version__",
    "connect_acp",
    "no_such_session",
    "open_acp",
    "open_memory_pair",
    "run_in_terminal",
]

_HOMES = {
    "agent": (
        "AgentApp",
        "AgentSession",
        "CommandResult",
        "ConnectedClient",
        "FileSessionStore",
        "MemorySessionStore",
        "PromptContext",
        "SessionStore",
    ),
    "client": (
        "AcpOptions",
        "AgentPool",
        "AgentStatistics",
        "Cancelled",
        "ConnectedAgent",
        "DecidedPermission",
        "Decision",
        "Extensions",
        "FileService",
        "Message",
        "PermissionHandler",
        "PermissionRequest",
        "RecoveredSession",
        "Reject",
        "Replay",
        "Selected",
        "Session",
        "SessionScope",
        "SessionState",
        "StrayUpdate",
        "TerminalService",
        "ToolCallState",
        "Turn",
        "UpdateStream",
        "connect_acp",
        "no_such_session",
        "open_acp",
        "run_in_terminal",
    ),
    "transports": ("open_memory_pair",),
}
"""Where the names are that are imported when they are first asked for: a host does not load the agent's half,
nor an agent the host's, which is 10 to 20 ms of each program's start."""

_LAZY = {name: home for home, names in _HOMES.items() for name in names}

if (
    not TYPE_CHECKING
):  # pragma: no branch - type checkers see the imports above, and report what does not exist

    def __getattr__(name: str) -> Any:
        import importlib

        if name in _LAZY:
            value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
        elif name in _HOMES:
            return importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY, *_HOMES})

"""The host side: drive a coding agent."""

from trio_acp._extension_values import ExtensionParams as ExtensionParams
from trio_acp._extensions import Extension as Extension
from trio_acp._extensions import ExtensionHandler as ExtensionHandler
from trio_acp._extensions import Extensions as Extensions

from ._agent import ConnectedAgent as ConnectedAgent
from ._auth import AuthChooser as AuthChooser
from ._auth import TerminalLogin as TerminalLogin
from ._auth import TerminalRunner as TerminalRunner
from ._auth import run_in_terminal as run_in_terminal
from ._buffers import UpdateStream as UpdateStream
from ._choices import ModelChoice as ModelChoice
from ._choices import ModelState as ModelState
from ._content import PromptContent as PromptContent
from ._elicitations import ElicitationHook as ElicitationHook
from ._events import Done as Done
from ._events import ErrorEvent as ErrorEvent
from ._events import ModelEvent as ModelEvent
from ._events import ModelReply as ModelReply
from ._events import TextDelta as TextDelta
from ._events import ToolCallEvent as ToolCallEvent
from ._events import ToolResultEvent as ToolResultEvent
from ._events import Usage as Usage
from ._events import UsageEvent as UsageEvent
from ._events import Via as Via
from ._generate import GenerateStream as GenerateStream
from ._life import RecoveredSession as RecoveredSession
from ._life import Recovery as Recovery
from ._life import SessionList as SessionList
from ._life import no_such_session as no_such_session
from ._messages import Messages as Messages
from ._messages import ModelMessage as ModelMessage
from ._open import OpenAcp as OpenAcp
from ._open import connect_acp as connect_acp
from ._open import open_acp as open_acp
from ._options import AcpOptions as AcpOptions
from ._options import ElicitFormHandler as ElicitFormHandler
from ._options import ElicitUrlHandler as ElicitUrlHandler
from ._options import FileService as FileService
from ._options import Overlap as Overlap
from ._options import ReadTextFileHandler as ReadTextFileHandler
from ._options import ServiceLife as ServiceLife
from ._options import TerminalService as TerminalService
from ._options import WriteTextFileHandler as WriteTextFileHandler
from ._permission import Cancelled as Cancelled
from ._permission import DecidedPermission as DecidedPermission
from ._permission import Decision as Decision
from ._permission import DecisionHook as DecisionHook
from ._permission import PermissionHandler as PermissionHandler
from ._permission import PermissionRequest as PermissionRequest
from ._permission import Reject as Reject
from ._permission import Selected as Selected
from ._pool import AgentPool as AgentPool
from ._pool import OpenAgent as OpenAgent
from ._record import StateChanges as StateChanges
from ._replay import Replay as Replay
from ._scope import SessionScope as SessionScope
from ._session import Session as Session
from ._snapshots import Message as Message
from ._snapshots import SessionState as SessionState
from ._snapshots import ToolCallState as ToolCallState
from ._statistics import AgentStatistics as AgentStatistics
from ._table import StrayUpdate as StrayUpdate
from ._turn import Turn as Turn

__all__ = [
    "AcpOptions",
    "AgentPool",
    "AgentStatistics",
    "AuthChooser",
    "Cancelled",
    "ConnectedAgent",
    "DecidedPermission",
    "Decision",
    "DecisionHook",
    "Done",
    "ElicitFormHandler",
    "ElicitUrlHandler",
    "ElicitationHook",
    "ErrorEvent",
    "Extension",
    "ExtensionHandler",
    "ExtensionParams",
    "Extensions",
    "FileService",
    "GenerateStream",
    "Message",
    "Messages",
    "ModelChoice",
    "ModelEvent",
    "ModelMessage",
    "ModelReply",
    "ModelState",
    "OpenAcp",
    "OpenAgent",
    "Overlap",
    "PermissionHandler",
    "PermissionRequest",
    "PromptContent",
    "ReadTextFileHandler",
    "RecoveredSession",
    "Recovery",
    "Reject",
    "Replay",
    "Selected",
    "ServiceLife",
    "Session",
    "SessionList",
    "SessionScope",
    "SessionState",
    "StateChanges",
    "StrayUpdate",
    "TerminalLogin",
    "TerminalRunner",
    "TerminalService",
    "TextDelta",
    "ToolCallEvent",
    "ToolCallState",
    "ToolResultEvent",
    "Turn",
    "UpdateStream",
    "Usage",
    "UsageEvent",
    "Via",
    "WriteTextFileHandler",
    "connect_acp",
    "no_such_session",
    "open_acp",
    "run_in_terminal",
]

"""The host side: drive a coding agent."""

from ._agent import AgentStatistics as AgentStatistics
from ._agent import ConnectedAgent as ConnectedAgent
from ._buffers import UpdateStream as UpdateStream
from ._connection import StrayUpdate as StrayUpdate
from ._content import PromptContent as PromptContent
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
from ._messages import Messages as Messages
from ._messages import ModelMessage as ModelMessage
from ._open import OpenAcp as OpenAcp
from ._open import connect_acp as connect_acp
from ._open import open_acp as open_acp
from ._options import AcpOptions as AcpOptions
from ._options import ElicitFormHandler as ElicitFormHandler
from ._options import ElicitUrlHandler as ElicitUrlHandler
from ._options import ExtensionHandler as ExtensionHandler
from ._options import FileService as FileService
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
from ._scope import SessionScope as SessionScope
from ._session import Session as Session
from ._snapshots import Message as Message
from ._snapshots import SessionState as SessionState
from ._snapshots import ToolCallState as ToolCallState
from ._turn import Turn as Turn

__all__ = [
    "AcpOptions",
    "AgentStatistics",
    "Cancelled",
    "ConnectedAgent",
    "DecidedPermission",
    "Decision",
    "DecisionHook",
    "Done",
    "ElicitFormHandler",
    "ElicitUrlHandler",
    "ErrorEvent",
    "ExtensionHandler",
    "FileService",
    "GenerateStream",
    "Message",
    "Messages",
    "ModelEvent",
    "ModelMessage",
    "ModelReply",
    "OpenAcp",
    "PermissionHandler",
    "PermissionRequest",
    "PromptContent",
    "ReadTextFileHandler",
    "Reject",
    "Selected",
    "ServiceLife",
    "Session",
    "SessionScope",
    "SessionState",
    "StrayUpdate",
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
    "open_acp",
]

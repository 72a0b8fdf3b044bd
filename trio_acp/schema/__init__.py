"""The wire types of ACP v1, and how they are decoded and encoded. No I/O, no Trio.

Class names are those of the schema, attribute names its field names in snake case; ``_meta`` is ``meta``.
Fields that this version does not name are kept in ``extra``. Where the schema has a tagged union, each member
is a class of its own here, the tag is a class variable, and members with an unknown tag are kept as
`UnknownVariant`.
"""

from ._base import UNSET as UNSET
from ._base import Leniency as Leniency
from ._base import Meta as Meta
from ._base import UnknownVariant as UnknownVariant
from ._base import Unset as Unset
from ._base import WireObject as WireObject
from ._base import camel_case as camel_case
from ._converter import get_converter as get_converter
from ._converter import structure as structure
from ._converter import structure_update as structure_update
from ._converter import unstructure as unstructure
from ._converter import unstructure_update as unstructure_update
from ._errors import AcpError as AcpError
from ._errors import SchemaError as SchemaError
from .authentication import AuthenticateRequest as AuthenticateRequest
from .authentication import AuthenticateResponse as AuthenticateResponse
from .authentication import AuthMethod as AuthMethod
from .authentication import AuthMethodAgent as AuthMethodAgent
from .authentication import AuthMethodTerminal as AuthMethodTerminal
from .authentication import LogoutRequest as LogoutRequest
from .authentication import LogoutResponse as LogoutResponse
from .config_options import SessionConfigBoolean as SessionConfigBoolean
from .config_options import SessionConfigOption as SessionConfigOption
from .config_options import SessionConfigOptionCategory as SessionConfigOptionCategory
from .config_options import SessionConfigSelect as SessionConfigSelect
from .config_options import SessionConfigSelectGroup as SessionConfigSelectGroup
from .config_options import SessionConfigSelectOption as SessionConfigSelectOption
from .config_options import SessionConfigSelectOptions as SessionConfigSelectOptions
from .config_options import SetSessionConfigOptionBooleanRequest as SetSessionConfigOptionBooleanRequest
from .config_options import SetSessionConfigOptionRequest as SetSessionConfigOptionRequest
from .config_options import SetSessionConfigOptionResponse as SetSessionConfigOptionResponse
from .config_options import SetSessionConfigOptionValueRequest as SetSessionConfigOptionValueRequest
from .content import Annotations as Annotations
from .content import AudioContent as AudioContent
from .content import BlobResourceContents as BlobResourceContents
from .content import ContentBlock as ContentBlock
from .content import EmbeddedResource as EmbeddedResource
from .content import EmbeddedResourceResource as EmbeddedResourceResource
from .content import ImageContent as ImageContent
from .content import ResourceLink as ResourceLink
from .content import Role as Role
from .content import TextContent as TextContent
from .content import TextResourceContents as TextResourceContents
from .elicitation import BooleanPropertySchema as BooleanPropertySchema
from .elicitation import CompleteElicitationNotification as CompleteElicitationNotification
from .elicitation import CreateElicitationFormRequest as CreateElicitationFormRequest
from .elicitation import CreateElicitationRequest as CreateElicitationRequest
from .elicitation import CreateElicitationResponse as CreateElicitationResponse
from .elicitation import CreateElicitationUrlRequest as CreateElicitationUrlRequest
from .elicitation import ElicitationAcceptAction as ElicitationAcceptAction
from .elicitation import ElicitationCancelAction as ElicitationCancelAction
from .elicitation import ElicitationContentValue as ElicitationContentValue
from .elicitation import ElicitationDeclineAction as ElicitationDeclineAction
from .elicitation import ElicitationPropertySchema as ElicitationPropertySchema
from .elicitation import ElicitationRequestScope as ElicitationRequestScope
from .elicitation import ElicitationSchema as ElicitationSchema
from .elicitation import ElicitationSchemaType as ElicitationSchemaType
from .elicitation import ElicitationSessionScope as ElicitationSessionScope
from .elicitation import EnumOption as EnumOption
from .elicitation import IntegerPropertySchema as IntegerPropertySchema
from .elicitation import MultiSelectItems as MultiSelectItems
from .elicitation import MultiSelectPropertySchema as MultiSelectPropertySchema
from .elicitation import NumberPropertySchema as NumberPropertySchema
from .elicitation import StringFormat as StringFormat
from .elicitation import StringMultiSelectItems as StringMultiSelectItems
from .elicitation import StringPropertySchema as StringPropertySchema
from .elicitation import TitledMultiSelectItems as TitledMultiSelectItems
from .files import ReadTextFileRequest as ReadTextFileRequest
from .files import ReadTextFileResponse as ReadTextFileResponse
from .files import WriteTextFileRequest as WriteTextFileRequest
from .files import WriteTextFileResponse as WriteTextFileResponse
from .identifiers import AuthMethodId as AuthMethodId
from .identifiers import CompactionId as CompactionId
from .identifiers import ElicitationId as ElicitationId
from .identifiers import MessageId as MessageId
from .identifiers import PermissionOptionId as PermissionOptionId
from .identifiers import SessionConfigGroupId as SessionConfigGroupId
from .identifiers import SessionConfigId as SessionConfigId
from .identifiers import SessionConfigValueId as SessionConfigValueId
from .identifiers import SessionId as SessionId
from .identifiers import SessionModeId as SessionModeId
from .identifiers import TerminalId as TerminalId
from .identifiers import ToolCallId as ToolCallId
from .initialization import PROTOCOL_VERSION as PROTOCOL_VERSION
from .initialization import AgentAuthCapabilities as AgentAuthCapabilities
from .initialization import AgentCapabilities as AgentCapabilities
from .initialization import AuthCapabilities as AuthCapabilities
from .initialization import BooleanConfigOptionCapabilities as BooleanConfigOptionCapabilities
from .initialization import ClientCapabilities as ClientCapabilities
from .initialization import ClientSessionCapabilities as ClientSessionCapabilities
from .initialization import CompactionCapabilities as CompactionCapabilities
from .initialization import ElicitationCapabilities as ElicitationCapabilities
from .initialization import ElicitationFormCapabilities as ElicitationFormCapabilities
from .initialization import ElicitationUrlCapabilities as ElicitationUrlCapabilities
from .initialization import FileSystemCapabilities as FileSystemCapabilities
from .initialization import Implementation as Implementation
from .initialization import InitializeRequest as InitializeRequest
from .initialization import InitializeResponse as InitializeResponse
from .initialization import LogoutCapabilities as LogoutCapabilities
from .initialization import McpCapabilities as McpCapabilities
from .initialization import NoticeCapabilities as NoticeCapabilities
from .initialization import PromptCapabilities as PromptCapabilities
from .initialization import ProtocolVersion as ProtocolVersion
from .initialization import (
    SessionAdditionalDirectoriesCapabilities as SessionAdditionalDirectoriesCapabilities,
)
from .initialization import SessionCapabilities as SessionCapabilities
from .initialization import SessionCloseCapabilities as SessionCloseCapabilities
from .initialization import SessionConfigOptionsCapabilities as SessionConfigOptionsCapabilities
from .initialization import SessionDeleteCapabilities as SessionDeleteCapabilities
from .initialization import SessionListCapabilities as SessionListCapabilities
from .initialization import SessionResumeCapabilities as SessionResumeCapabilities
from .mcp import EnvVariable as EnvVariable
from .mcp import HttpHeader as HttpHeader
from .mcp import McpServer as McpServer
from .mcp import McpServerHttp as McpServerHttp
from .mcp import McpServerSse as McpServerSse
from .mcp import McpServerStdio as McpServerStdio
from .methods import AGENT_METHODS as AGENT_METHODS
from .methods import CLIENT_METHODS as CLIENT_METHODS
from .methods import METHODS as METHODS
from .methods import PROTOCOL_METHODS as PROTOCOL_METHODS
from .methods import MethodInfo as MethodInfo
from .methods import MethodKind as MethodKind
from .methods import Side as Side
from .permission import CancelledPermissionOutcome as CancelledPermissionOutcome
from .permission import PermissionOption as PermissionOption
from .permission import PermissionOptionKind as PermissionOptionKind
from .permission import RequestPermissionOutcome as RequestPermissionOutcome
from .permission import RequestPermissionRequest as RequestPermissionRequest
from .permission import RequestPermissionResponse as RequestPermissionResponse
from .permission import SelectedPermissionOutcome as SelectedPermissionOutcome
from .prompt import CancelNotification as CancelNotification
from .prompt import PromptRequest as PromptRequest
from .prompt import PromptResponse as PromptResponse
from .prompt import StopReason as StopReason
from .rpc import AgentNotification as AgentNotification
from .rpc import AgentRequest as AgentRequest
from .rpc import AgentResponse as AgentResponse
from .rpc import CancelRequestNotification as CancelRequestNotification
from .rpc import ClientNotification as ClientNotification
from .rpc import ClientRequest as ClientRequest
from .rpc import ClientResponse as ClientResponse
from .rpc import Error as Error
from .rpc import ErrorCode as ErrorCode
from .rpc import ErrorResponse as ErrorResponse
from .rpc import ExtNotification as ExtNotification
from .rpc import ExtRequest as ExtRequest
from .rpc import ExtResponse as ExtResponse
from .rpc import RequestId as RequestId
from .rpc import ResultResponse as ResultResponse
from .sessions import CloseSessionRequest as CloseSessionRequest
from .sessions import CloseSessionResponse as CloseSessionResponse
from .sessions import DeleteSessionRequest as DeleteSessionRequest
from .sessions import DeleteSessionResponse as DeleteSessionResponse
from .sessions import ListSessionsRequest as ListSessionsRequest
from .sessions import ListSessionsResponse as ListSessionsResponse
from .sessions import LoadSessionRequest as LoadSessionRequest
from .sessions import LoadSessionResponse as LoadSessionResponse
from .sessions import NewSessionRequest as NewSessionRequest
from .sessions import NewSessionResponse as NewSessionResponse
from .sessions import ResumeSessionRequest as ResumeSessionRequest
from .sessions import ResumeSessionResponse as ResumeSessionResponse
from .sessions import SessionInfo as SessionInfo
from .sessions import SessionMode as SessionMode
from .sessions import SessionModeState as SessionModeState
from .sessions import SetSessionModeRequest as SetSessionModeRequest
from .sessions import SetSessionModeResponse as SetSessionModeResponse
from .terminals import CreateTerminalRequest as CreateTerminalRequest
from .terminals import CreateTerminalResponse as CreateTerminalResponse
from .terminals import KillTerminalRequest as KillTerminalRequest
from .terminals import KillTerminalResponse as KillTerminalResponse
from .terminals import ReleaseTerminalRequest as ReleaseTerminalRequest
from .terminals import ReleaseTerminalResponse as ReleaseTerminalResponse
from .terminals import TerminalExitStatus as TerminalExitStatus
from .terminals import TerminalOutputRequest as TerminalOutputRequest
from .terminals import TerminalOutputResponse as TerminalOutputResponse
from .terminals import WaitForTerminalExitRequest as WaitForTerminalExitRequest
from .terminals import WaitForTerminalExitResponse as WaitForTerminalExitResponse
from .tool_calls import Content as Content
from .tool_calls import Diff as Diff
from .tool_calls import Terminal as Terminal
from .tool_calls import ToolCall as ToolCall
from .tool_calls import ToolCallContent as ToolCallContent
from .tool_calls import ToolCallLocation as ToolCallLocation
from .tool_calls import ToolCallStatus as ToolCallStatus
from .tool_calls import ToolCallUpdate as ToolCallUpdate
from .tool_calls import ToolKind as ToolKind
from .updates import AgentMessageChunk as AgentMessageChunk
from .updates import AgentThoughtChunk as AgentThoughtChunk
from .updates import AvailableCommand as AvailableCommand
from .updates import AvailableCommandInput as AvailableCommandInput
from .updates import AvailableCommandsUpdate as AvailableCommandsUpdate
from .updates import CompactionStatus as CompactionStatus
from .updates import CompactionSummaryChunk as CompactionSummaryChunk
from .updates import CompactionUpdate as CompactionUpdate
from .updates import ConfigOptionUpdate as ConfigOptionUpdate
from .updates import ContentChunk as ContentChunk
from .updates import Cost as Cost
from .updates import CurrentModeUpdate as CurrentModeUpdate
from .updates import Notice as Notice
from .updates import NoticeSeverity as NoticeSeverity
from .updates import Plan as Plan
from .updates import PlanEntry as PlanEntry
from .updates import PlanEntryPriority as PlanEntryPriority
from .updates import PlanEntryStatus as PlanEntryStatus
from .updates import SessionInfoUpdate as SessionInfoUpdate
from .updates import SessionNotification as SessionNotification
from .updates import SessionUpdate as SessionUpdate
from .updates import UnstructuredCommandInput as UnstructuredCommandInput
from .updates import UsageUpdate as UsageUpdate
from .updates import UserMessageChunk as UserMessageChunk

__all__ = [
    "AGENT_METHODS",
    "AcpError",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AgentMessageChunk",
    "AgentNotification",
    "AgentRequest",
    "AgentResponse",
    "AgentThoughtChunk",
    "Annotations",
    "AudioContent",
    "AuthCapabilities",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodId",
    "AuthMethodTerminal",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "BlobResourceContents",
    "BooleanConfigOptionCapabilities",
    "BooleanPropertySchema",
    "CLIENT_METHODS",
    "CancelNotification",
    "CancelRequestNotification",
    "CancelledPermissionOutcome",
    "ClientCapabilities",
    "ClientNotification",
    "ClientRequest",
    "ClientResponse",
    "ClientSessionCapabilities",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "CompactionCapabilities",
    "CompactionId",
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "CompleteElicitationNotification",
    "ConfigOptionUpdate",
    "Content",
    "ContentBlock",
    "ContentChunk",
    "Cost",
    "CreateElicitationFormRequest",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "CreateElicitationUrlRequest",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "CurrentModeUpdate",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "Diff",
    "ElicitationAcceptAction",
    "ElicitationCancelAction",
    "ElicitationCapabilities",
    "ElicitationContentValue",
    "ElicitationDeclineAction",
    "ElicitationFormCapabilities",
    "ElicitationId",
    "ElicitationPropertySchema",
    "ElicitationRequestScope",
    "ElicitationSchema",
    "ElicitationSchemaType",
    "ElicitationSessionScope",
    "ElicitationUrlCapabilities",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "EnumOption",
    "EnvVariable",
    "Error",
    "ErrorCode",
    "ErrorResponse",
    "ExtNotification",
    "ExtRequest",
    "ExtResponse",
    "FileSystemCapabilities",
    "HttpHeader",
    "ImageContent",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "IntegerPropertySchema",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "Leniency",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "LogoutCapabilities",
    "LogoutRequest",
    "LogoutResponse",
    "METHODS",
    "McpCapabilities",
    "McpServer",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MessageId",
    "Meta",
    "MethodInfo",
    "MethodKind",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NewSessionRequest",
    "NewSessionResponse",
    "Notice",
    "NoticeCapabilities",
    "NoticeSeverity",
    "NumberPropertySchema",
    "PROTOCOL_METHODS",
    "PROTOCOL_VERSION",
    "PermissionOption",
    "PermissionOptionId",
    "PermissionOptionKind",
    "Plan",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ProtocolVersion",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "RequestId",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "ResourceLink",
    "ResultResponse",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "Role",
    "SchemaError",
    "SelectedPermissionOutcome",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionConfigBoolean",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigOption",
    "SessionConfigOptionCategory",
    "SessionConfigOptionsCapabilities",
    "SessionConfigSelect",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SessionConfigValueId",
    "SessionDeleteCapabilities",
    "SessionId",
    "SessionInfo",
    "SessionInfoUpdate",
    "SessionListCapabilities",
    "SessionMode",
    "SessionModeId",
    "SessionModeState",
    "SessionNotification",
    "SessionResumeCapabilities",
    "SessionUpdate",
    "SetSessionConfigOptionBooleanRequest",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SetSessionConfigOptionValueRequest",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
    "Side",
    "StopReason",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "Terminal",
    "TerminalExitStatus",
    "TerminalId",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "TextContent",
    "TextResourceContents",
    "TitledMultiSelectItems",
    "ToolCall",
    "ToolCallContent",
    "ToolCallId",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
    "UNSET",
    "UnknownVariant",
    "Unset",
    "UnstructuredCommandInput",
    "UsageUpdate",
    "UserMessageChunk",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WireObject",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
    "camel_case",
    "get_converter",
    "structure",
    "structure_update",
    "unstructure",
    "unstructure_update",
]

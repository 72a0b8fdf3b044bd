"""The opening handshake: versions, names and capabilities (I1 to I5).

A capability that is left out, null or false is not there. The marker capabilities are objects without fields:
their presence is what counts, and ``None`` is their absence (I3).
"""

from typing import TypeAlias

from attrs import define, field

from ._base import AlwaysSent, Lenient, LenientItems, UInt16, WireObject, new_list
from .authentication import AuthMethod

__all__ = [
    "PROTOCOL_VERSION",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthCapabilities",
    "BooleanConfigOptionCapabilities",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CompactionCapabilities",
    "ElicitationCapabilities",
    "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities",
    "FileSystemCapabilities",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "LogoutCapabilities",
    "McpCapabilities",
    "NoticeCapabilities",
    "PromptCapabilities",
    "ProtocolVersion",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionConfigOptionsCapabilities",
    "SessionDeleteCapabilities",
    "SessionListCapabilities",
    "SessionResumeCapabilities",
]

ProtocolVersion: TypeAlias = UInt16
"""A major version of the protocol, 0 to 65535."""

PROTOCOL_VERSION = 1
"""The protocol version that these types describe."""


@define(repr=False, eq=False)
class Implementation(WireObject):
    """The name and version of a client or an agent.

    Attributes:
        name: For programs, for example ``trio-acp-demo``.
        version: Free-form, for logs.
        title: For people; they see the name if there is none.
    """

    name: str
    version: str
    title: Lenient[str | None] = None


@define(repr=False, eq=False)
class FileSystemCapabilities(WireObject):
    """Which of the ``fs/…`` methods the client answers."""

    read_text_file: Lenient[bool] = False
    write_text_file: Lenient[bool] = False


class CompactionCapabilities(WireObject):
    """A marker: the client takes compaction updates."""

    __slots__ = ()


class BooleanConfigOptionCapabilities(WireObject):
    """A marker: the client can show and set config options of type boolean."""

    __slots__ = ()


@define(repr=False, eq=False)
class SessionConfigOptionsCapabilities(WireObject):
    """Which config options, beyond choosing one of several values, the client can show."""

    boolean: Lenient[BooleanConfigOptionCapabilities | None] = None


class NoticeCapabilities(WireObject):
    """A marker: the client shows notices to the user."""

    __slots__ = ()


@define(repr=False, eq=False)
class ClientSessionCapabilities(WireObject):
    """What the client supports within a session."""

    compaction: Lenient[CompactionCapabilities | None] = None
    config_options: Lenient[SessionConfigOptionsCapabilities | None] = None
    notices: Lenient[NoticeCapabilities | None] = None


@define(repr=False, eq=False)
class AuthCapabilities(WireObject):
    """What the client can do to log a user in.

    Attributes:
        terminal: Whether it can run the agent in an interactive terminal for that (U2).
    """

    terminal: Lenient[bool] = False


class ElicitationFormCapabilities(WireObject):
    """A marker: the client can show forms."""

    __slots__ = ()


class ElicitationUrlCapabilities(WireObject):
    """A marker: the client can send the user to a URL."""

    __slots__ = ()


@define(repr=False, eq=False)
class ElicitationCapabilities(WireObject):
    """In which ways the client can ask the user for input (E1)."""

    form: Lenient[ElicitationFormCapabilities | None] = None
    url: Lenient[ElicitationUrlCapabilities | None] = None


@define(repr=False, eq=False)
class ClientCapabilities(WireObject):
    """What the client supports.

    Attributes:
        fs: Which files methods it answers.
        terminal: Whether it answers all of the ``terminal/…`` methods.
        session: What it supports within a session.
        auth: What it can do to log a user in.
        elicitation: How it can ask the user for input.
    """

    fs: Lenient[FileSystemCapabilities] = field(factory=FileSystemCapabilities)
    terminal: Lenient[bool] = False
    session: Lenient[ClientSessionCapabilities | None] = None
    auth: Lenient[AuthCapabilities] = field(factory=AuthCapabilities)
    elicitation: Lenient[ElicitationCapabilities | None] = None


@define(repr=False, eq=False)
class InitializeRequest(WireObject):
    """Parameters of ``initialize``, the first request of every connection (I1).

    Attributes:
        protocol_version: The newest version that the client supports.
        client_capabilities: What the client supports; sent even when it is nothing.
        client_info: Who the client is.
    """

    protocol_version: ProtocolVersion
    client_capabilities: AlwaysSent[Lenient[ClientCapabilities]] = field(factory=ClientCapabilities)
    client_info: Lenient[Implementation | None] = None


@define(repr=False, eq=False)
class PromptCapabilities(WireObject):
    """Which content, besides text and resource links, prompts may hold (T1)."""

    image: Lenient[bool] = False
    audio: Lenient[bool] = False
    embedded_context: Lenient[bool] = False


@define(repr=False, eq=False)
class McpCapabilities(WireObject):
    """Over what, besides stdio, the agent reaches MCP servers (S6)."""

    http: Lenient[bool] = False
    sse: Lenient[bool] = False


class SessionListCapabilities(WireObject):
    """A marker: the agent answers ``session/list``."""

    __slots__ = ()


class SessionDeleteCapabilities(WireObject):
    """A marker: the agent answers ``session/delete``."""

    __slots__ = ()


class SessionAdditionalDirectoriesCapabilities(WireObject):
    """A marker: the agent takes more roots than the working directory."""

    __slots__ = ()


class SessionResumeCapabilities(WireObject):
    """A marker: the agent answers ``session/resume``."""

    __slots__ = ()


class SessionCloseCapabilities(WireObject):
    """A marker: the agent answers ``session/close``."""

    __slots__ = ()


@define(repr=False, eq=False)
class SessionCapabilities(WireObject):
    """Which of the optional ``session/…`` methods and fields the agent supports (S1 to S3)."""

    list: Lenient[SessionListCapabilities | None] = None
    delete: Lenient[SessionDeleteCapabilities | None] = None
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    resume: Lenient[SessionResumeCapabilities | None] = None
    close: Lenient[SessionCloseCapabilities | None] = None


class LogoutCapabilities(WireObject):
    """A marker: the agent answers ``logout``."""

    __slots__ = ()


@define(repr=False, eq=False)
class AgentAuthCapabilities(WireObject):
    """What the agent supports about authentication besides logging in (U3)."""

    logout: Lenient[LogoutCapabilities | None] = None


@define(repr=False, eq=False)
class AgentCapabilities(WireObject):
    """What the agent supports.

    Attributes:
        load_session: Whether it answers ``session/load`` (S2).
        prompt_capabilities: What prompts may hold.
        mcp_capabilities: Over what it reaches MCP servers.
        session_capabilities: Which optional session methods it answers.
        auth: What it supports about authentication.
    """

    load_session: Lenient[bool] = False
    prompt_capabilities: Lenient[PromptCapabilities] = field(factory=PromptCapabilities)
    mcp_capabilities: Lenient[McpCapabilities] = field(factory=McpCapabilities)
    session_capabilities: Lenient[SessionCapabilities] = field(factory=SessionCapabilities)
    auth: Lenient[AgentAuthCapabilities] = field(factory=AgentAuthCapabilities)


@define(repr=False, eq=False)
class InitializeResponse(WireObject):
    """Result of ``initialize`` (I2).

    Attributes:
        protocol_version: The version asked for if the agent supports it, else its newest.
        agent_capabilities: What the agent supports; sent even when it is nothing.
        auth_methods: How the user may log in; sent even when there are none.
        agent_info: Who the agent is.
    """

    protocol_version: ProtocolVersion
    agent_capabilities: AlwaysSent[Lenient[AgentCapabilities]] = field(factory=AgentCapabilities)
    auth_methods: AlwaysSent[LenientItems[list[AuthMethod]]] = field(factory=new_list)
    agent_info: Lenient[Implementation | None] = None

"""Making, finding and ending sessions, and their modes: ``session/…`` (S1 to S3, S7)."""

from attrs import define, field

from ._base import AlwaysSent, Lenient, LenientItems, NullAsDefault, WireObject, new_list
from .config_options import SessionConfigOption
from .identifiers import SessionId, SessionModeId
from .mcp import McpServer

__all__ = [
    "CloseSessionRequest",
    "CloseSessionResponse",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "NewSessionRequest",
    "NewSessionResponse",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "SessionInfo",
    "SessionMode",
    "SessionModeState",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
]


@define(repr=False, eq=False)
class SessionMode(WireObject):
    """A mode that a session can be in.

    Attributes:
        id: What it is set by.
        name: What people see.
        description: More about it, for people.
    """

    id: SessionModeId
    name: str
    description: Lenient[str | None] = None


@define(repr=False, eq=False)
class SessionModeState(WireObject):
    """The modes of a session, and the one that it is in."""

    current_mode_id: SessionModeId
    available_modes: LenientItems[list[SessionMode]]


@define(repr=False, eq=False)
class NewSessionRequest(WireObject):
    """Parameters of ``session/new`` (S1).

    Attributes:
        cwd: The working directory, absolute.
        mcp_servers: MCP servers for the agent to use.
        additional_directories: More roots, absolute; only where the agent advertises them.
    """

    cwd: str
    mcp_servers: NullAsDefault[list[McpServer]]
    additional_directories: NullAsDefault[list[str]] = field(factory=new_list)


@define(repr=False, eq=False)
class NewSessionResponse(WireObject):
    """Result of ``session/new``.

    Attributes:
        session_id: The new session.
        modes: Its modes, if it has any.
        config_options: Its config options, if it has any; they win over modes (S7).
    """

    session_id: SessionId
    modes: Lenient[SessionModeState | None] = None
    config_options: LenientItems[list[SessionConfigOption] | None] = None


@define(repr=False, eq=False)
class LoadSessionRequest(WireObject):
    """Parameters of ``session/load``: go on with a session, its conversation replayed first (S2).

    Attributes:
        session_id: The session to load.
        cwd: The working directory, absolute.
        mcp_servers: MCP servers for the agent to use.
        additional_directories: All roots besides ``cwd``, absolute; only where the agent advertises them.
    """

    session_id: SessionId
    cwd: str
    mcp_servers: NullAsDefault[list[McpServer]]
    additional_directories: NullAsDefault[list[str]] = field(factory=new_list)


@define(repr=False, eq=False)
class LoadSessionResponse(WireObject):
    """Result of ``session/load``, given after the whole replay.

    Attributes:
        modes: The session's modes, if it has any.
        config_options: Its config options, if it has any; they win over modes (S7).
    """

    modes: Lenient[SessionModeState | None] = None
    config_options: LenientItems[list[SessionConfigOption] | None] = None


@define(repr=False, eq=False)
class ResumeSessionRequest(WireObject):
    """Parameters of ``session/resume``: go on with a session, without a replay (S2).

    Attributes:
        session_id: The session to resume.
        cwd: The working directory, absolute.
        mcp_servers: MCP servers for the agent to use; sent even when there are none.
        additional_directories: All roots besides ``cwd``, absolute; only where the agent advertises them.
    """

    session_id: SessionId
    cwd: str
    mcp_servers: AlwaysSent[NullAsDefault[list[McpServer]]] = field(factory=new_list)
    additional_directories: NullAsDefault[list[str]] = field(factory=new_list)


@define(repr=False, eq=False)
class ResumeSessionResponse(WireObject):
    """Result of ``session/resume``.

    Attributes:
        modes: The session's modes, if it has any.
        config_options: Its config options, if it has any; they win over modes (S7).
    """

    modes: Lenient[SessionModeState | None] = None
    config_options: LenientItems[list[SessionConfigOption] | None] = None


@define(repr=False, eq=False)
class ListSessionsRequest(WireObject):
    """Parameters of ``session/list`` (S3).

    Attributes:
        cwd: Only sessions with this working directory, absolute; None asks for all.
        cursor: Where to go on, from the response before; None starts at the beginning.
    """

    cwd: str | None = None
    cursor: str | None = None


@define(repr=False, eq=False)
class SessionInfo(WireObject):
    """A session that ``session/list`` found.

    Attributes:
        session_id: The session.
        cwd: Its working directory, absolute.
        additional_directories: Its other roots, absolute.
        title: What people see.
        updated_at: When it was last active, as ISO 8601 text.
    """

    session_id: SessionId
    cwd: str
    additional_directories: LenientItems[list[str]] = field(factory=new_list)
    title: Lenient[str | None] = None
    updated_at: Lenient[str | None] = None


@define(repr=False, eq=False)
class ListSessionsResponse(WireObject):
    """Result of ``session/list``.

    Attributes:
        sessions: The sessions on this page.
        next_cursor: Where the next page starts; None after the last page.
    """

    sessions: LenientItems[list[SessionInfo]]
    next_cursor: Lenient[str | None] = None


@define(repr=False, eq=False)
class DeleteSessionRequest(WireObject):
    """Parameters of ``session/delete`` (S3)."""

    session_id: SessionId


class DeleteSessionResponse(WireObject):
    """Result of ``session/delete``: the session is not there, whether or not it was."""

    __slots__ = ()


@define(repr=False, eq=False)
class CloseSessionRequest(WireObject):
    """Parameters of ``session/close``: cancel what runs in the session and free it (S3)."""

    session_id: SessionId


class CloseSessionResponse(WireObject):
    """Result of ``session/close``: nothing but that it was done."""

    __slots__ = ()


@define(repr=False, eq=False)
class SetSessionModeRequest(WireObject):
    """Parameters of ``session/set_mode`` (S7)."""

    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(WireObject):
    """Result of ``session/set_mode``: nothing but that it was done."""

    __slots__ = ()

"""The methods of the protocol: who answers them, and what they take and give."""

from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from . import (
    authentication,
    config_options,
    elicitation,
    files,
    initialization,
    permission,
    prompt,
    rpc,
    sessions,
    terminals,
    updates,
)

__all__ = [
    "AGENT_METHODS",
    "CLIENT_METHODS",
    "METHODS",
    "PROTOCOL_METHODS",
    "MethodInfo",
    "MethodKind",
    "Side",
]

Side: TypeAlias = Literal["agent", "client", "protocol"]
"""Who is called: ``protocol`` means either of the two."""

MethodKind: TypeAlias = Literal["request", "notification"]
"""Whether a method is answered."""


@frozen
class MethodInfo:
    """One method.

    Attributes:
        method: Its name on the wire.
        side: Who is called.
        kind: Whether it is answered.
        params: The type of its parameters.
        result: The type of its result; None for a notification.
    """

    method: str
    side: Side
    kind: MethodKind
    params: Any
    result: Any = None


def _table(side: Side, *entries: tuple[str, Any] | tuple[str, Any, Any]) -> dict[str, MethodInfo]:
    return {
        method: MethodInfo(method, side, "request" if result else "notification", params, *result)
        for method, params, *result in entries
    }


AGENT_METHODS: Final = _table(
    "agent",
    ("initialize", initialization.InitializeRequest, initialization.InitializeResponse),
    ("authenticate", authentication.AuthenticateRequest, authentication.AuthenticateResponse),
    ("logout", authentication.LogoutRequest, authentication.LogoutResponse),
    ("session/new", sessions.NewSessionRequest, sessions.NewSessionResponse),
    ("session/load", sessions.LoadSessionRequest, sessions.LoadSessionResponse),
    ("session/resume", sessions.ResumeSessionRequest, sessions.ResumeSessionResponse),
    ("session/list", sessions.ListSessionsRequest, sessions.ListSessionsResponse),
    ("session/delete", sessions.DeleteSessionRequest, sessions.DeleteSessionResponse),
    ("session/close", sessions.CloseSessionRequest, sessions.CloseSessionResponse),
    ("session/set_mode", sessions.SetSessionModeRequest, sessions.SetSessionModeResponse),
    (
        "session/set_config_option",
        config_options.SetSessionConfigOptionRequest,
        config_options.SetSessionConfigOptionResponse,
    ),
    ("session/prompt", prompt.PromptRequest, prompt.PromptResponse),
    ("session/cancel", prompt.CancelNotification),
)
"""What an agent is called with, by method."""

CLIENT_METHODS: Final = _table(
    "client",
    ("session/update", updates.SessionNotification),
    ("session/request_permission", permission.RequestPermissionRequest, permission.RequestPermissionResponse),
    ("fs/read_text_file", files.ReadTextFileRequest, files.ReadTextFileResponse),
    ("fs/write_text_file", files.WriteTextFileRequest, files.WriteTextFileResponse),
    ("terminal/create", terminals.CreateTerminalRequest, terminals.CreateTerminalResponse),
    ("terminal/output", terminals.TerminalOutputRequest, terminals.TerminalOutputResponse),
    ("terminal/wait_for_exit", terminals.WaitForTerminalExitRequest, terminals.WaitForTerminalExitResponse),
    ("terminal/kill", terminals.KillTerminalRequest, terminals.KillTerminalResponse),
    ("terminal/release", terminals.ReleaseTerminalRequest, terminals.ReleaseTerminalResponse),
    ("elicitation/create", elicitation.CreateElicitationRequest, elicitation.CreateElicitationResponse),
    ("elicitation/complete", elicitation.CompleteElicitationNotification),
)
"""What a client is called with, by method."""

PROTOCOL_METHODS: Final = _table("protocol", ("$/cancel_request", rpc.CancelRequestNotification))
"""What either side is called with, by method."""

METHODS: Final = {**AGENT_METHODS, **CLIENT_METHODS, **PROTOCOL_METHODS}
"""All methods, whoever is called."""

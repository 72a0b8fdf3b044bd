"""An app, ready to serve: what was registered, and what follows from it for the wire (I4, I5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from trio_acp._extensions import Extension
from trio_acp._peer import OnWire
from trio_acp.schema import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AudioContent,
    AuthMethod,
    AuthMethodAgent,
    AuthMethodTerminal,
    AvailableCommand,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Implementation,
    LogoutCapabilities,
    McpCapabilities,
    McpServer,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    PromptCapabilities,
    ResourceLink,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    TextContent,
)

from ._handlers import BoundHandler
from ._store import SessionStore

__all__ = ["AppSpec", "OverlappingPrompts"]

OverlappingPrompts: TypeAlias = Literal["reject", "queue"]
"""What becomes of a prompt that comes during a turn of its session (T1)."""

STORED: Final = frozenset(
    {"on_load_session", "on_resume_session", "on_list_sessions", "on_close_session", "on_delete_session"}
)
"""What a store makes possible without a handler."""


@attrs.frozen(eq=False)
class AppSpec:
    """What connections need to know about the app that they belong to."""

    info: Implementation
    handlers: Mapping[str, BoundHandler]
    ext_requests: Mapping[str, Extension]
    ext_notifications: Mapping[str, Extension]
    commands: Mapping[str, tuple[AvailableCommand, BoundHandler]]
    store: SessionStore | None
    prompt_capabilities: PromptCapabilities
    mcp_capabilities: McpCapabilities
    auth_methods: Sequence[AuthMethod]
    additional_directories: bool
    overlapping_prompts: OverlappingPrompts
    cancel_grace: float
    max_message_bytes: int
    on_wire: OnWire | None
    redact_wire: bool

    def supports(self, handler: str) -> bool:
        """Tell whether a method can be answered, by the name of its handler."""
        return handler in self.handlers or (self.store is not None and handler in STORED)

    def capabilities(self) -> AgentCapabilities:
        """Return what to advertise: what can be answered, and no more."""
        return AgentCapabilities(
            load_session=self.supports("on_load_session"),
            prompt_capabilities=self.prompt_capabilities,
            mcp_capabilities=self.mcp_capabilities,
            session_capabilities=SessionCapabilities(
                list=SessionListCapabilities() if self.supports("on_list_sessions") else None,
                delete=SessionDeleteCapabilities() if self.supports("on_delete_session") else None,
                additional_directories=SessionAdditionalDirectoriesCapabilities()
                if self.additional_directories
                else None,
                resume=SessionResumeCapabilities() if self.supports("on_resume_session") else None,
                close=SessionCloseCapabilities() if self.supports("on_close_session") else None,
            ),
            auth=AgentAuthCapabilities(logout=LogoutCapabilities() if self.supports("on_logout") else None),
        )

    def auth_methods_for(self, *, terminal: bool) -> list[AuthMethod]:
        """Return the ways to log in that a client can go; terminal ones only where it offers a terminal
        (U2)."""
        return [
            method for method in self.auth_methods if terminal or not isinstance(method, AuthMethodTerminal)
        ]

    def authenticates(self, method_id: str) -> bool:
        """Tell whether ``authenticate`` may be called with that id (U1)."""
        return any(
            isinstance(method, AuthMethodAgent) and method.id == method_id for method in self.auth_methods
        )

    def refuses_content(self, block: ContentBlock) -> str | None:
        """Say why a block may not be in a prompt (T1); None if it may."""
        allowed = self.prompt_capabilities
        match block:
            case TextContent() | ResourceLink():
                return None
            case ImageContent():
                return None if allowed.image else "this agent does not take images (promptCapabilities.image)"
            case AudioContent():
                return None if allowed.audio else "this agent does not take audio (promptCapabilities.audio)"
            case EmbeddedResource():
                if allowed.embedded_context:
                    return None
                return "this agent does not take embedded resources (promptCapabilities.embeddedContext)"
            case _:
                return f"content of type {block.tag!r} is none that this agent takes"

    def refuses_server(self, server: McpServer) -> str | None:
        """Say why an MCP server cannot be used (S6); None if it can."""
        allowed = self.mcp_capabilities
        match server:
            case McpServerStdio():
                return None
            case McpServerHttp():
                return (
                    None if allowed.http else "this agent does not use MCP over HTTP (mcpCapabilities.http)"
                )
            case McpServerSse():
                return None if allowed.sse else "this agent does not use MCP over SSE (mcpCapabilities.sse)"
            case _:
                return f"MCP servers of type {server.tag!r} are none that this agent can use"

"""The MCP servers that a client asks an agent to use (S6), and the name-value pairs that describe them."""

from typing import ClassVar, Literal, TypeAlias

from attrs import define

from ._base import NullAsDefault, UnknownVariant, WireObject, open_union

__all__ = [
    "EnvVariable",
    "HttpHeader",
    "McpServer",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
]


@define(repr=False, eq=False)
class EnvVariable(WireObject):
    """An environment variable and its value."""

    name: str
    value: str


@define(repr=False, eq=False)
class HttpHeader(WireObject):
    """A header to send with each HTTP request."""

    name: str
    value: str


@define(repr=False, eq=False)
class McpServerStdio(WireObject):
    """An MCP server that the agent starts itself. Every agent supports this; it has no tag on the wire.

    Attributes:
        name: What people call the server.
        command: The program, absolute.
        args: Its arguments.
        env: Variables to set for it.
    """

    type: ClassVar[Literal["stdio"]] = "stdio"

    name: str
    command: str
    args: NullAsDefault[list[str]]
    env: NullAsDefault[list[EnvVariable]]


@define(repr=False, eq=False)
class McpServerHttp(WireObject):
    """An MCP server over HTTP; only where ``mcpCapabilities.http`` allows it.

    Attributes:
        name: What people call the server.
        url: Where it is.
        headers: Headers to send to it.
    """

    type: ClassVar[Literal["http"]] = "http"

    name: str
    url: str
    headers: NullAsDefault[list[HttpHeader]]


@define(repr=False, eq=False)
class McpServerSse(WireObject):
    """An MCP server over HTTP with server-sent events; only where ``mcpCapabilities.sse`` allows it.

    Attributes:
        name: What people call the server.
        url: Where it is.
        headers: Headers to send to it.
    """

    type: ClassVar[Literal["sse"]] = "sse"

    name: str
    url: str
    headers: NullAsDefault[list[HttpHeader]]


McpServer: TypeAlias = McpServerStdio | McpServerHttp | McpServerSse | UnknownVariant
"""How to reach an MCP server, told apart by ``type``; no type means stdio."""

open_union(McpServer, "McpServer", "type", default=McpServerStdio, default_tags=("stdio",))

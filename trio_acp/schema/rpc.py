"""JSON-RPC as ACP uses it: ids, errors, and the envelopes that every message travels in (W3, W6, W10).

What ``params`` and ``result`` hold depends on the method: `METHODS` says which type it is.
"""

import enum
from typing import Any, ClassVar, Literal, TypeAlias

from attrs import define

from ._base import Int32, Int64, Lenient, WireObject

__all__ = [
    "AgentNotification",
    "AgentRequest",
    "AgentResponse",
    "CancelRequestNotification",
    "ClientNotification",
    "ClientRequest",
    "ClientResponse",
    "Error",
    "ErrorCode",
    "ErrorResponse",
    "ExtNotification",
    "ExtRequest",
    "ExtResponse",
    "RequestId",
    "ResultResponse",
]

RequestId: TypeAlias = Int64 | str | None
"""What answers are matched to requests by; kept exactly as it came (W3)."""

ExtRequest: TypeAlias = Any
"""Parameters of a request that is no part of the protocol (N1): any JSON."""

ExtResponse: TypeAlias = Any
"""Result of a request that is no part of the protocol: any JSON."""

ExtNotification: TypeAlias = Any
"""Parameters of a notification that is no part of the protocol: any JSON."""


class ErrorCode(enum.IntEnum):
    """The error codes that have a meaning (W10)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    REQUEST_CANCELLED = -32800
    AUTHENTICATION_REQUIRED = -32000
    RESOURCE_NOT_FOUND = -32002


@define(repr=False, eq=False)
class Error(WireObject):
    """Why a request failed.

    Attributes:
        code: One of the codes that have a meaning, or any other.
        message: One sentence for people.
        data: More about it, any JSON.
    """

    code: ErrorCode | Int32
    message: str
    data: Lenient[Any] = None


@define(repr=False, eq=False)
class AgentRequest(WireObject):
    """A request from the agent to the client."""

    jsonrpc: ClassVar[Literal["2.0"]] = "2.0"

    id: RequestId
    method: str
    params: Any = None


@define(repr=False, eq=False)
class ClientRequest(WireObject):
    """A request from the client to the agent."""

    jsonrpc: ClassVar[Literal["2.0"]] = "2.0"

    id: RequestId
    method: str
    params: Any = None


@define(repr=False, eq=False)
class AgentNotification(WireObject):
    """A notification from the agent to the client."""

    jsonrpc: ClassVar[Literal["2.0"]] = "2.0"

    method: str
    params: Any = None


@define(repr=False, eq=False)
class ClientNotification(WireObject):
    """A notification from the client to the agent."""

    jsonrpc: ClassVar[Literal["2.0"]] = "2.0"

    method: str
    params: Any = None


@define(repr=False, eq=False)
class ResultResponse(WireObject):
    """A request succeeded; ``result`` may be ``null`` (W6)."""

    jsonrpc: ClassVar[Literal["2.0"]] = "2.0"

    forbidden_fields: ClassVar[frozenset[str]] = frozenset({"error"})

    id: RequestId
    result: Any


@define(repr=False, eq=False)
class ErrorResponse(WireObject):
    """A request failed. The id is null where none could be read (W4)."""

    jsonrpc: ClassVar[Literal["2.0"]] = "2.0"

    forbidden_fields: ClassVar[frozenset[str]] = frozenset({"result"})

    id: RequestId
    error: Error


AgentResponse: TypeAlias = ResultResponse | ErrorResponse
"""What an agent answers to a request: a result or an error, never both."""

ClientResponse: TypeAlias = ResultResponse | ErrorResponse
"""What a client answers to a request: a result or an error, never both."""


@define(repr=False, eq=False)
class CancelRequestNotification(WireObject):
    """Parameters of ``$/cancel_request``, which either side may send: the answer is no longer needed (X4)."""

    request_id: RequestId

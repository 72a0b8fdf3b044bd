"""What the core reports about the bytes it was given: one event for each thing that happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from trio_acp.schema import AcpError

from ._errors import ProtocolError, RequestError
from ._state import RequestState

__all__ = [
    "CancelRequested",
    "ConnectionFailed",
    "EndOfInput",
    "Event",
    "InboundRequest",
    "JunkLine",
    "LateResponse",
    "MessageDropped",
    "MessageRefused",
    "NotificationReceived",
    "OtherEvent",
    "OutboundRequest",
    "RequestId",
    "RequestReceived",
    "ResponseReceived",
]

RequestId: TypeAlias = str | int | None
"""What may identify a request on the wire (W3)."""


@attrs.define(eq=False)
class OutboundRequest:
    """A request that we sent, from its sending to its answer."""

    id: int
    method: str
    on_answer: Callable[[Any, AcpError | None], None] | None = None
    """For the caller's use: called by whoever drives the core, with the result or the error."""
    on_late: Callable[[Any], None] | None = None
    """For the caller's use: takes the result of a request that was given up but succeeded."""
    state: RequestState = RequestState.OPEN


@attrs.define(eq=False)
class InboundRequest:
    """A request that the peer sent, from its arrival to our answer."""

    id: RequestId
    method: str
    on_cancel: Callable[[], object] | None = None
    """For the caller's use: what to do when the peer withdraws it."""
    state: RequestState = RequestState.OPEN


@attrs.define(eq=False)
class RequestReceived:
    """The peer asks for something and waits for exactly one answer."""

    request: InboundRequest
    params: dict[str, Any]
    size: int
    """Bytes of the message on the wire."""


@attrs.define(eq=False)
class NotificationReceived:
    """The peer tells something and waits for no answer."""

    method: str
    params: dict[str, Any]
    size: int


@attrs.define(eq=False)
class ResponseReceived:
    """A request of ours has its answer: ``error`` is None, or ``result`` does not count."""

    request: OutboundRequest
    result: Any
    error: RequestError | ProtocolError | None


@attrs.define(eq=False)
class LateResponse:
    """A request that we had given up was answered all the same."""

    request: OutboundRequest
    result: Any
    error: RequestError | ProtocolError | None


@attrs.define(eq=False)
class CancelRequested:
    """The peer withdraws a request that is still open (X4)."""

    request: InboundRequest


@attrs.define(eq=False)
class MessageRefused:
    """JSON that is no message, or a request that cannot be served: ``reply`` must be sent (W4)."""

    reason: str
    reply: bytes


@attrs.define(eq=False)
class MessageDropped:
    """A message that says nothing to us, dropped without an answer (W5, W6)."""

    reason: str


@attrs.define(eq=False)
class JunkLine:
    """A line that is no JSON (W4). ``reply`` must be sent where this side answers such lines."""

    reason: str
    sample: bytes
    """The first bytes of the line, at most ``JUNK_SAMPLE_BYTES``."""
    reply: bytes | None


@attrs.define(eq=False)
class EndOfInput:
    """The peer will send nothing more; ``lost`` are our requests that get no answer (W11)."""

    lost: list[OutboundRequest]


@attrs.define(eq=False)
class ConnectionFailed:
    """The input cannot be read on; ``lost`` are our requests that get no answer."""

    error: ProtocolError
    lost: list[OutboundRequest]


OtherEvent: TypeAlias = (
    ResponseReceived
    | LateResponse
    | CancelRequested
    | MessageRefused
    | MessageDropped
    | JunkLine
    | EndOfInput
    | ConnectionFailed
)
"""What is neither a notification nor a request: rare, next to them."""

Event: TypeAlias = NotificationReceived | RequestReceived | OtherEvent

"""Sans-IO protocol core: framing, classification, ids, request bookkeeping, error objects.

Internal to the library, but the seam for other transports and for fuzzing: bytes in, events out.
"""

from ._connection import CANCEL_REQUEST as CANCEL_REQUEST
from ._connection import DEFAULT_MAX_JUNK_LINES as DEFAULT_MAX_JUNK_LINES
from ._connection import JUNK_SAMPLE_BYTES as JUNK_SAMPLE_BYTES
from ._connection import MAX_GIVEN_UP_REQUESTS as MAX_GIVEN_UP_REQUESTS
from ._connection import MAX_OPEN_INBOUND_REQUESTS as MAX_OPEN_INBOUND_REQUESTS
from ._connection import Connection as Connection
from ._connection import WireTap as WireTap
from ._errors import AuthRequired as AuthRequired
from ._errors import InternalError as InternalError
from ._errors import InvalidParams as InvalidParams
from ._errors import InvalidRequest as InvalidRequest
from ._errors import InvalidResponse as InvalidResponse
from ._errors import LocalProtocolError as LocalProtocolError
from ._errors import MessageTooLarge as MessageTooLarge
from ._errors import MethodNotFound as MethodNotFound
from ._errors import ParseError as ParseError
from ._errors import ProtocolError as ProtocolError
from ._errors import RemoteProtocolError as RemoteProtocolError
from ._errors import RequestCancelled as RequestCancelled
from ._errors import RequestError as RequestError
from ._errors import ResourceNotFound as ResourceNotFound
from ._events import CancelRequested as CancelRequested
from ._events import ConnectionFailed as ConnectionFailed
from ._events import EndOfInput as EndOfInput
from ._events import Event as Event
from ._events import InboundRequest as InboundRequest
from ._events import JunkLine as JunkLine
from ._events import LateResponse as LateResponse
from ._events import MessageDropped as MessageDropped
from ._events import MessageRefused as MessageRefused
from ._events import NotificationReceived as NotificationReceived
from ._events import OtherEvent as OtherEvent
from ._events import OutboundRequest as OutboundRequest
from ._events import RequestId as RequestId
from ._events import RequestReceived as RequestReceived
from ._events import ResponseReceived as ResponseReceived
from ._framing import DEFAULT_MAX_MESSAGE_BYTES as DEFAULT_MAX_MESSAGE_BYTES
from ._framing import LineFramer as LineFramer
from ._json import MAX_LENIENT_DEPTH as MAX_LENIENT_DEPTH
from ._json import TextFrames as TextFrames
from ._json import decode as decode
from ._json import decode_leniently as decode_leniently
from ._json import encode as encode
from ._redaction import redact as redact
from ._state import RequestEvent as RequestEvent
from ._state import RequestState as RequestState
from ._state import next_state as next_state

__all__ = [
    "AuthRequired",
    "CANCEL_REQUEST",
    "CancelRequested",
    "Connection",
    "ConnectionFailed",
    "DEFAULT_MAX_JUNK_LINES",
    "DEFAULT_MAX_MESSAGE_BYTES",
    "EndOfInput",
    "Event",
    "InboundRequest",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResponse",
    "JUNK_SAMPLE_BYTES",
    "JunkLine",
    "LateResponse",
    "LineFramer",
    "LocalProtocolError",
    "MAX_GIVEN_UP_REQUESTS",
    "MAX_LENIENT_DEPTH",
    "MAX_OPEN_INBOUND_REQUESTS",
    "MessageDropped",
    "MessageRefused",
    "MessageTooLarge",
    "MethodNotFound",
    "NotificationReceived",
    "OtherEvent",
    "OutboundRequest",
    "ParseError",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "RequestEvent",
    "RequestId",
    "RequestReceived",
    "RequestState",
    "ResourceNotFound",
    "ResponseReceived",
    "TextFrames",
    "WireTap",
    "decode",
    "decode_leniently",
    "encode",
    "next_state",
    "redact",
]

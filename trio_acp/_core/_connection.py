"""The protocol core: bytes in, events and bytes out; no I/O, no clock, no role.

Everything that a hostile peer can put on the wire is decided here, so that it can be tested and fuzzed
without either. One object serves one connection, from either side.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias, overload

from trio_acp.schema import AcpError

from ._brief import brief
from ._errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    InvalidResponse,
    LocalProtocolError,
    MessageTooLarge,
    ParseError,
    ProtocolError,
    RemoteProtocolError,
    RequestError,
)
from ._events import (
    CancelRequested,
    ConnectionFailed,
    EndOfInput,
    Event,
    InboundRequest,
    JunkLine,
    LateResponse,
    MessageDropped,
    MessageRefused,
    NotificationReceived,
    OtherEvent,
    OutboundRequest,
    RequestId,
    RequestReceived,
    ResponseReceived,
)
from ._framing import DEFAULT_MAX_MESSAGE_BYTES, LineFramer
from ._json import TextFrames, decode, decode_leniently, encode
from ._shapes import is_array, is_object
from ._state import RequestEvent, RequestState, next_state

__all__ = [
    "CANCEL_REQUEST",
    "DEFAULT_MAX_JUNK_LINES",
    "JUNK_SAMPLE_BYTES",
    "MAX_GIVEN_UP_REQUESTS",
    "MAX_OPEN_INBOUND_REQUESTS",
    "Connection",
    "WireTap",
]

CANCEL_REQUEST: Final = "$/cancel_request"

DEFAULT_MAX_JUNK_LINES: Final = 100
"""A banner is a few dozen lines at most; more in a row is a program that does not speak ACP."""

JUNK_SAMPLE_BYTES: Final = 200
"""How much of a line is quoted in a diagnostic: enough to recognise it."""

MAX_GIVEN_UP_REQUESTS: Final = 4096
"""Requests given up and not answered yet that are remembered; older ones count as unknown."""

MAX_OPEN_INBOUND_REQUESTS: Final = 16384
"""Requests of the peer that may be open at once; more are refused with -32603."""

NAME_IN_REASON: Final = 100
"""Characters of a peer's method name that a diagnostic quotes: all of any real one."""

WireTap: TypeAlias = Callable[[Literal["sent", "received"], bytes | bytearray, Any], None]
"""Sees each frame (without its newline) and the message in it, None where it held none."""

OnNotification: TypeAlias = Callable[[str, dict[str, Any], int], None]
"""Takes a notification: its method, its params and its bytes on the wire."""

OnRequest: TypeAlias = Callable[[InboundRequest, dict[str, Any], int], None]
"""Takes a request, its params and its bytes on the wire."""

_MISSING: Final = object()


class Connection:
    """One side's view of one JSON-RPC connection.

    Args:
        max_message_bytes: longest message accepted, in bytes.
        answer_junk: answer lines that are no JSON with -32700 (what an agent owes its client); otherwise
            they are reported and passed over.
        max_junk_lines: so many junk lines in a row end the connection; None for never.
        tap: called with every frame in either direction, in wire order.
    """

    def __init__(
        self,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        answer_junk: bool = False,
        max_junk_lines: int | None = DEFAULT_MAX_JUNK_LINES,
        tap: WireTap | None = None,
    ) -> None:
        self._framer = LineFramer(max_message_bytes)
        self._max_message_bytes = max_message_bytes
        self._answer_junk = answer_junk
        self._max_junk_lines = None if max_junk_lines is None else max(max_junk_lines, 1)
        self.tap = tap
        self._ids = itertools.count(1)
        self._outbound: dict[int, OutboundRequest] = {}
        self._given_up: OrderedDict[int, OutboundRequest] = OrderedDict()
        self._inbound: dict[RequestId, InboundRequest] = {}
        self._ended = False
        self.junk_in_a_row: int = 0
        self.junk_lines: int = 0
        """Junk lines since the connection began."""
        self.messages_received: int = 0
        """Well-formed messages since the connection began."""

    # What the two sides owe each other right now -----------------------------------------------------

    @property
    def open_outbound(self) -> list[OutboundRequest]:
        """Requests of ours that wait for their answer, oldest first."""
        return list(self._outbound.values())

    @property
    def open_inbound(self) -> list[InboundRequest]:
        """Requests of the peer that wait for our answer, oldest first."""
        return list(self._inbound.values())

    @property
    def outbound_count(self) -> int:
        """How many requests of ours wait for their answer."""
        return len(self._outbound)

    @property
    def inbound_count(self) -> int:
        """How many requests of the peer wait for our answer."""
        return len(self._inbound)

    # Sending -----------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Any,
        on_answer: Callable[[Any, AcpError | None], None] | None = None,
        on_late: Callable[[Any], None] | None = None,
    ) -> tuple[OutboundRequest, bytes]:
        """Open a request and return it with the frame to send (W3: its id is never used again).

        Args:
            method: the method's wire name.
            params: its parameters as JSON values.
            on_answer: kept on the request, not called here.
            on_late: kept on the request, not called here.

        Raises:
            LocalProtocolError: the parameters cannot be sent as JSON, or the connection has ended.
        """
        if self._ended:
            raise LocalProtocolError("the connection has ended; nothing more can be asked on it")
        request = OutboundRequest(next(self._ids), method, on_answer, on_late)
        frame = self._encode({"jsonrpc": "2.0", "id": request.id, "method": method, "params": params})
        self._outbound[request.id] = request
        return request, frame

    def notification(self, method: str, params: Any) -> bytes:
        """Return the frame of a notification.

        Raises:
            LocalProtocolError: the parameters cannot be sent as JSON.
        """
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        return encode(message) if self.tap is None else self._encode(message)

    def text_frames(self, method: str, params: Any) -> TextFrames:
        """Return what makes the frames of notifications that differ in one text; no tap sees them.

        Args:
            method: the method's wire name.
            params: the parameters, with `TextFrames.HOLE` where the text goes, and perhaps `TextFrames.ID`.
        """
        return TextFrames({"jsonrpc": "2.0", "method": method, "params": params})

    def give_up(self, request: OutboundRequest) -> bytes | None:
        """Withdraw a request of ours; return the ``$/cancel_request`` to send, None if it has ended.

        Its answer, when it comes, is reported as `LateResponse` (X4).
        """
        if request.state is not RequestState.OPEN:
            return None
        request.state = next_state(request.state, RequestEvent.CANCEL)
        del self._outbound[request.id]
        self._given_up[request.id] = request
        if len(self._given_up) > MAX_GIVEN_UP_REQUESTS:
            self._given_up.popitem(last=False)
        return self.notification(CANCEL_REQUEST, {"requestId": request.id})

    def answer(self, request: InboundRequest, result: Any) -> bytes:
        """Return the frame that answers a request of the peer with a result.

        Raises:
            LocalProtocolError: it has been answered, or the result cannot be sent as JSON. In the
                second case the request stays open.
        """
        return self._answer(request, "result", result)

    def refuse(self, request: InboundRequest, error: RequestError) -> bytes:
        """Return the frame that answers a request of the peer with an error.

        Raises:
            LocalProtocolError: it has been answered, or the error's data cannot be sent as JSON. In the
                second case the request stays open.
        """
        return self._answer(request, "error", error.to_wire())

    def _answer(self, request: InboundRequest, key: str, value: Any) -> bytes:
        before = request.state
        # First: the tap may do something that would answer it once more.
        request.state = next_state(before, RequestEvent.ANSWER)
        message = {"jsonrpc": "2.0", "id": request.id, key: value}
        try:
            frame = encode(message) if self.tap is None else self._encode(message)
        except LocalProtocolError:
            request.state = before
            raise
        self._inbound.pop(request.id, None)
        # What it calls refers to the request in its turn. As a cycle, each request would wait for Python's
        # collector of garbage: 20 of the 150 us of a permission.
        request.on_cancel = None
        return frame

    def _encode(self, message: dict[str, Any]) -> bytes:
        frame = encode(message)
        if self.tap is not None:
            self.tap("sent", frame[:-1], message)
        return frame

    def _reply(self, id: RequestId, error: RequestError) -> bytes:
        return self._encode({"jsonrpc": "2.0", "id": id, "error": error.to_wire()})

    # Receiving ---------------------------------------------------------------------------------------

    @overload
    def receive(self, data: bytes | bytearray) -> Iterator[Event]: ...
    @overload
    def receive(
        self, data: bytes | bytearray, notified: OnNotification, asked: OnRequest
    ) -> Iterator[OtherEvent]: ...
    def receive(
        self,
        data: bytes | bytearray,
        notified: OnNotification | None = None,
        asked: OnRequest | None = None,
    ) -> Iterator[Any]:
        """Take bytes from the peer and report what they complete, in wire order.

        Lazy: a message is decoded when its event is asked for, so that what the caller does about one
        event (an answer, a cancellation) holds when the next message is read. Iterate to the end.

        Args:
            data: what was read; empty for the end of the input, in which case a last line without its
                newline counts as a line (W1).
            notified: called with method, params and size of each notification, in its place among the
                events, instead of a `NotificationReceived` for it.
            asked: called with each request, its params and its size, instead of a `RequestReceived`.
        """
        if self._ended:
            return iter(())
        if not data:
            return self._last_line(notified, asked)
        return self._lines(self._framer.feed(data), notified, asked)

    def _last_line(self, notified: OnNotification | None, asked: OnRequest | None) -> Iterator[Any]:
        last = self._framer.end()
        if last is not None:
            yield from self._lines([last], notified, asked)
        if not self._ended:
            yield EndOfInput(self._end())

    def disconnect(self) -> list[OutboundRequest]:
        """End the connection from this side; return our requests that get no answer (W11)."""
        return self._end()

    def _end(self) -> list[OutboundRequest]:
        self._ended = True
        lost = list(self._outbound.values())
        ended: list[OutboundRequest | InboundRequest] = [
            *lost,
            *self._given_up.values(),
            *self._inbound.values(),
        ]
        for request in ended:
            request.state = next_state(request.state, RequestEvent.DISCONNECT)
        self._outbound.clear()
        self._given_up.clear()
        self._inbound.clear()
        return lost

    def _lines(
        self,
        lines: list[bytes | bytearray],
        notified: OnNotification | None,
        asked: OnRequest | None,
    ) -> Iterator[Any]:
        tap = self.tap
        for line in lines:
            try:
                message = decode(line)
            except ValueError:
                if line.isspace():
                    continue
                try:
                    message = decode_leniently(line[:-1])
                except ValueError as error:
                    yield self._junk(line[:-1], str(error))
                    if self._ended:
                        return
                    if self._too_much_junk:
                        yield self._give_up_on_junk(line[:-1])
                        return
                    continue
            if tap is not None:
                tap("received", line[:-1], message)
            # The common cases first, and only exact types: this is the hottest line of the library. No event
            # is made for them and no generator resumed: 0.5 us of the 5.6 of an update.
            size = len(line) - 1
            if message.__class__ is dict and notified is not None:
                method = message.get("method")
                params = message.get("params")
                if (
                    method.__class__ is str
                    and params.__class__ is dict
                    and "id" not in message
                    and method != CANCEL_REQUEST
                ):
                    self.junk_in_a_row = 0
                    self.messages_received += 1
                    notified(method, params, size)
                    if self._ended:
                        return
                    continue
            event = self._classify(message, size)
            if asked is not None and isinstance(event, RequestReceived):
                asked(event.request, event.params, event.size)
            elif notified is not None and isinstance(event, NotificationReceived):
                notified(event.method, event.params, event.size)
            else:
                yield event
            if self._ended:
                return
            if self.junk_in_a_row and self._too_much_junk:
                yield self._give_up_on_junk(line[:-1])
                return
        if self._framer.overflowed:
            yield ConnectionFailed(MessageTooLarge(self._max_message_bytes), self._end())

    def _junk(self, line: bytes | bytearray, why: str) -> JunkLine:
        self.junk_in_a_row += 1
        self.junk_lines += 1
        if self.tap is not None:
            self.tap("received", line, None)
        reason = f"not JSON ({why})"
        if b'{"jsonrpc"' in line and not line.startswith(b'{"jsonrpc"'):
            # Field experience: a terminal title or a prompt printed without a newline before a message.
            reason = "the line holds a JSON object after other output; stdout must carry the protocol alone"
        reply = self._reply(None, ParseError("this line is not JSON")) if self._answer_junk else None
        return JunkLine(reason, bytes(line[:JUNK_SAMPLE_BYTES]), reply)

    @property
    def _too_much_junk(self) -> bool:
        return self._max_junk_lines is not None and self.junk_in_a_row >= self._max_junk_lines

    def _give_up_on_junk(self, line: bytes | bytearray) -> ConnectionFailed:
        sample = bytes(line[:JUNK_SAMPLE_BYTES])
        return ConnectionFailed(
            RemoteProtocolError(
                f"the peer sent {self.junk_in_a_row} lines in a row that are not ACP messages, "
                f"the last one {sample!r}; is this an ACP agent, "
                "and does it print to stderr rather than stdout?"
            ),
            self._end(),
        )

    def _classify(self, message: Any, size: int) -> Event:
        """Tell by its shape what a message is (W4): everything but the plain notification."""
        if message.__class__ is not dict:
            kind = "an array (ACP has no batches)" if is_array(message) else "no object"
            return self._refuse_message(None, f"the message is {kind}")
        if "method" in message:
            return self._classify_call(message, size)
        if "id" in message and ("result" in message or "error" in message):
            return self._classify_response(message)
        if "id" in message and self._is_ours(message["id"]):
            return self._classify_response(message)
        return self._refuse_message(message.get("id"), "the message has neither method, result nor error")

    def _classify_call(self, message: dict[str, Any], size: int) -> Event:
        method = message["method"]
        is_request = "id" in message
        id = message.get("id")
        if is_request and id.__class__ is not int and not _is_id(id):
            return self._refuse_message(None, "id: expected a string, an integer or null")
        if not isinstance(method, str):
            return self._refuse_message(id, "method: expected a string")
        self.junk_in_a_row = 0
        self.messages_received += 1
        name = method[:NAME_IN_REASON]
        if is_request and id in self._inbound:
            # Under that id, the refusal would pass for the answer to the request that is open.
            error = InvalidRequest(f"id: {brief(id)} belongs to a request that is still open")
            return MessageRefused(f"{name}: its id {brief(id)} is in use", self._reply(None, error))
        params = message.get("params")
        if params is None:
            params = dict[str, Any]()
        elif params.__class__ is not dict:
            if not is_request:
                return MessageDropped(f"{name}: params are no object")
            reply = self._reply(id, InvalidParams(f"{name}: params: expected an object"))
            return MessageRefused(f"{name}: params are no object", reply)
        if not is_request:
            if method == CANCEL_REQUEST:
                return self._cancel_requested(params)
            return NotificationReceived(method, params, size)
        if len(self._inbound) >= MAX_OPEN_INBOUND_REQUESTS:
            reply = self._reply(id, InternalError("too many requests are open; wait for answers first"))
            return MessageRefused(f"{name}: too many open requests", reply)
        request = InboundRequest(id, method)
        self._inbound[id] = request
        return RequestReceived(request, params, size)

    def _cancel_requested(self, params: dict[str, Any]) -> Event:
        id = params.get("requestId", _MISSING)
        request = self._inbound.get(id) if _is_id(id) else None
        if request is None:
            return MessageDropped(f"{CANCEL_REQUEST}: no open request has that id")
        if request.state is RequestState.CANCELLING:
            return MessageDropped(f"{CANCEL_REQUEST}: request {brief(id)} is being cancelled already")
        request.state = next_state(request.state, RequestEvent.CANCEL)
        return CancelRequested(request)

    def _classify_response(self, message: dict[str, Any]) -> Event:
        self.junk_in_a_row = 0
        self.messages_received += 1
        id = message["id"]
        request = None
        if id.__class__ is int:
            request = self._outbound.pop(id, None) or self._given_up.pop(id, None)
        if request is None:
            error = message.get("error")
            detail = f": {brief(error)}" if id is None and error is not None else ""
            return MessageDropped(f"an answer to no open request of ours (id {brief(id)}){detail}")
        late = request.state is RequestState.CANCELLING
        request.state = next_state(request.state, RequestEvent.ANSWER)
        result, error = _read_answer(request.method, message)
        if late:
            return LateResponse(request, result, error)
        return ResponseReceived(request, result, error)

    def _is_ours(self, id: Any) -> bool:
        return id.__class__ is int and (id in self._outbound or id in self._given_up)

    def _refuse_message(self, id: Any, reason: str) -> MessageRefused:
        # JSON, but no ACP: on a stdout it is as much a banner as any other text, so it counts as one.
        self.junk_in_a_row += 1
        if not _is_id(id) or id in self._inbound:
            # Under the id of an open request the refusal would pass for the answer to that one.
            id = None
        return MessageRefused(reason, self._reply(id, InvalidRequest(reason)))


def _is_id(value: Any) -> bool:
    """True for what may be an id; a bool is no integer here, nor is a float (W3)."""
    return value is None or value.__class__ is str or value.__class__ is int


def _read_answer(method: str, message: dict[str, Any]) -> tuple[Any, RequestError | ProtocolError | None]:
    """Return result and error of an answer; a malformed one is an `InvalidResponse` (W6).

    A null beside the other key is how some JSON-RPC libraries write "not this one", so it is read so.
    """
    result = message.get("result", _MISSING)
    error = message.get("error", _MISSING)
    if error is _MISSING or (error is None and result is not _MISSING):
        if result is _MISSING:
            return None, InvalidResponse(f"the answer to {method} has neither result nor error")
        return result, None
    if result is not _MISSING and result is not None:
        return None, InvalidResponse(f"the answer to {method} has both result and error")
    if not is_object(error):
        return None, InvalidResponse(f"the answer to {method} has an error that is no object")
    code = error.get("code")
    text = error.get("message")
    if code.__class__ is not int or not isinstance(text, str):
        return None, InvalidResponse(
            f"the answer to {method} has an error without integer code and text message"
        )
    assert isinstance(code, int)
    return None, RequestError.from_wire(code, text, error.get("data"))

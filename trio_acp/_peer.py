"""One peer under Trio: the read loop, the one writer, requests and their answers.

Knows the wire and nothing of ACP's methods or of which side it is. What arrives goes, synchronously and
in wire order, to a dispatcher that belongs to the side; only tasks that the dispatcher starts run user code.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Literal, Protocol, TypeAlias, final

import trio

from ._core import (
    DEFAULT_MAX_JUNK_LINES,
    DEFAULT_MAX_MESSAGE_BYTES,
    CancelRequested,
    Connection,
    ConnectionFailed,
    InboundRequest,
    JunkLine,
    LateResponse,
    MessageDropped,
    MessageRefused,
    OtherEvent,
    OutboundRequest,
    RequestState,
    ResponseReceived,
    TextFrames,
    redact,
)
from ._errors import (
    AcpError,
    ConnectionClosed,
    ConnectionLost,
    InternalError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    fresh_copy,
)
from ._incoming import IncomingRequest as IncomingRequest
from ._incoming import error_for_wire as error_for_wire
from ._outbox import OUTBOX_SOFT_BYTES, Outbox, own_attribute

__all__ = ["Dispatcher", "IncomingRequest", "OnWire", "Peer", "error_for_wire"]

logger = logging.getLogger("trio_acp")

RECEIVE_CHUNK_BYTES: Final = 256 * 1024
"""Most bytes taken from the stream at once: one pass of the read loop stays well under 5 ms."""

BROKEN_WRITE_GRACE: Final = 1.0
"""Seconds that reading goes on after writing failed: what a dying peer still said is worth having."""

OnWire: TypeAlias = Callable[[Literal["sent", "received"], Any], None]
"""A wire tap: ``on_wire(direction, message)``."""


class Dispatcher(Protocol):
    """What a side does about the messages of its peer. Called in the read loop: never waits."""

    def notification(self, method: str, params: dict[str, Any], size: int) -> None:
        """Take a notification of ``size`` bytes."""

    def request(self, request: IncomingRequest, /) -> None:
        """Take a request; see that it is answered, now or by a task."""

    def junk(self, event: JunkLine) -> None:
        """Take note of a line that is no JSON."""

    def callback_failed(self, error: BaseException) -> None:
        """Take an exception that a callback of the user's raised in the read loop or in a send."""

    def disconnected(self, reason: AcpError) -> None:
        """The peer is gone; all open requests have failed already. Called once, never after `Peer.stop`."""

    async def input_ends(self) -> None:
        """All that the peer sent has been taken. Until this returns, its requests can still be answered."""

    async def loss(self) -> AcpError:
        """Say why the input ended. May wait, shortly, for an exit status."""
        ...

    def pauses(self) -> bool:
        """Whether `may_read` would wait: asked before each read, so that most of them need not await it."""
        ...

    async def may_read(self) -> None:
        """Return when the next bytes may be read: where backpressure is made."""


@final
class Peer:
    """One connection to one peer.

    `run` has to be running, in a nursery of the owner's, for anything to move. It is shielded: only `stop`
    ends it, so that a cancellation of everything around can still be told to the peer.

    Args:
        stream: carries the protocol. If it has ``send_nowait(data) -> int`` (write what fits now, return
            how much), frames go out without a task switch.
        dispatcher: takes what arrives.
        answer_junk: answer lines that are no JSON (the agent's duty).
        max_junk_lines: junk lines in a row that end the connection; None for never.
        max_message_bytes: longest message accepted, in bytes.
        on_wire: sees every message in both directions, as a dict; what is no JSON as a str.
        redact_wire: give ``on_wire`` copies with every env and header value masked; if false, it
            gets each frame as it is, as bytes.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        dispatcher: Dispatcher,
        *,
        answer_junk: bool = False,
        max_junk_lines: int | None = DEFAULT_MAX_JUNK_LINES,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        on_wire: OnWire | None = None,
        redact_wire: bool = True,
    ) -> None:
        self._stream = stream
        self._dispatcher = dispatcher
        self._on_wire = on_wire
        self._redact_wire = redact_wire
        self._core = Connection(
            max_message_bytes=max_message_bytes,
            answer_junk=answer_junk,
            max_junk_lines=max_junk_lines,
            tap=None if on_wire is None else self._tap,
        )
        self._token = trio.lowlevel.current_trio_token()
        self._thread = get_ident()
        self._scope = trio.CancelScope(shield=True)
        self._reason: AcpError | None = None
        self.outbox: Outbox = Outbox(stream, self._reading_may_go_on, self._overflowed)
        """What waits to be written."""
        self._untapped: deque[tuple[bytes | bytearray, Any]] = deque()
        """Frames that were made and have still to be shown to the tap: when they are queued."""
        self._pacer = self.outbox.pacer
        self.input_ended: trio.Event = trio.Event()
        """Set when nothing more can arrive and the reason is known."""
        self._input_ending = False
        self._untold: list[OutboundRequest] = []
        """Requests that the end of the input has lost and that wait for the reason of it."""
        self.read_on: Callable[[], None] | None = None
        """Called whenever a request of ours has been queued, or a frame could not be written at once: the
        peer may write before it reads on, so a paused read loop may have to go on."""
        self.junk_sample: bytes = b""
        """The beginning of the last line that was no JSON."""

    # What is known -----------------------------------------------------------------------------------

    @property
    def reason(self) -> AcpError | None:
        """Why no more calls can be made; None while they can."""
        return self._reason

    @property
    def core(self) -> Connection:
        """The protocol core, for its counters and its open requests."""
        return self._core

    def check_usable(self) -> None:
        """Raise what a call would raise now.

        Raises:
            ConnectionClosed: this side has closed the connection.
            ConnectionLost: the peer has gone.
            RemoteProtocolError: the connection was given up over what the peer sent, or did not read.
            RuntimeError: called from another thread or another Trio run.
        """
        if not self.outbox.held or get_ident() != self._thread:
            # Else it is a task of this run that is at work, which is cheaper to see this way.
            self.check_here()
        if self._reason is not None:
            raise fresh_copy(self._reason)

    def check_here(self) -> None:
        """Raise RuntimeError when called from another thread or another Trio run."""
        try:
            here = trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:
            here = False
        if not here:
            raise RuntimeError(
                "this connection belongs to another Trio run; from another thread, use trio.from_thread.run"
            )

    # Calls -------------------------------------------------------------------------------------------

    def start_request(
        self,
        method: str,
        params: Any,
        on_answer: Callable[[Any, AcpError | None], None],
        on_late: Callable[[Any], None] | None = None,
    ) -> OutboundRequest:
        """Queue a request, synchronously.

        Args:
            method: the method's wire name.
            params: its parameters as JSON values.
            on_answer: called once, in the read loop, with the result or the error; not after `give_up`.
            on_late: called with the result of a request that was given up and succeeded all the same.

        Raises:
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`.
            LocalProtocolError: the parameters cannot be sent as JSON.
        """
        self.check_usable()
        if self._input_ending:
            # Asked while the reason is still being found out; `room` would have waited for it.
            raise ConnectionLost("the peer ended the connection; open a new one")
        request, frame = self._core.request(method, params, on_answer, on_late)
        self._enqueue(frame)
        if self.read_on is not None:
            self.read_on()
        return request

    def give_up(self, request: OutboundRequest) -> None:
        """Withdraw a request: queue ``$/cancel_request`` if it still waits for its answer (X4)."""
        if request in self._untold:
            self._untold.remove(request)
        frame = self._core.give_up(request)
        if frame is not None and self.outbox.error is None:
            self._enqueue(frame)

    async def request(
        self,
        method: str,
        params: Any,
        on_late: Callable[[Any], None] | None = None,
        convert: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Send a request and wait for its result.

        With ``convert``, the result is what that makes of it, in the read loop: what it does is done before
        the next message is read. What it raises is raised here.

        Cancellation: before the request is queued, nothing is sent; after that, ``$/cancel_request`` is, and
        the answer is dropped when it comes, or given to ``on_late``.

        Raises:
            RequestError: the peer answered with an error.
            InvalidResponse: its answer was malformed.
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`; also while waiting.
            LocalProtocolError: the parameters cannot be sent as JSON.
        """
        await self.room()
        answered = trio.Event()
        answer: list[Any] = []

        def on_answer(result: Any, error: Exception | None) -> None:
            converted = result
            if error is None and convert is not None:
                try:
                    converted = convert(result)
                except Exception as mismatch:
                    error = mismatch
            answer[:] = result, error, converted
            answered.set()

        request = self.start_request(method, params, on_answer, on_late)
        try:
            await answered.wait()
        except BaseException:  # Cancelled, or the KeyboardInterrupt that Trio raises in the main task
            if not answer:
                self.give_up(request)
            elif answer[1] is None and on_late is not None:
                # The answer came between the cancellation and this line: late all the same.
                on_late(answer[0])
            raise
        _, error, converted = answer
        if error is not None:
            raise error
        return converted

    def notify_nowait(self, method: str, params: Any) -> None:
        """Queue a notification without waiting for room; for what must go out now, like a cancellation.

        Raises:
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`.
            LocalProtocolError: the parameters cannot be sent as JSON.
        """
        self.check_usable()
        self._enqueue(self._core.notification(method, params), awaited=False)

    def notify_last(self, method: str, params: Any) -> None:
        """Queue a notification even while closing, if it can still be written; never raises for that.

        For a cancellation that must reach the peer before the connection goes.
        """
        if self.outbox.error is None:
            self._enqueue(self._core.notification(method, params))

    async def notify(self, method: str, params: Any, check: Callable[[], None] | None = None) -> None:
        """Queue a notification when there is room for it. Whole or not at all, if cancelled.

        ``check`` is called when there is room, and may raise: what was in order before the wait need not
        be so any more.

        Raises:
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`.
            LocalProtocolError: the parameters cannot be sent as JSON.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if check is not None:
            check()
        if not self.notify_at_once(method, params):
            await self.room()
            if check is not None:
                check()
            self._enqueue(self._core.notification(method, params), awaited=False)

    def notify_at_once(self, method: str, params: Any) -> bool:
        """Queue a notification if nothing has to be waited for and other tasks need not run first.

        The short half of `notify`, for callers that have just looked for cancellation: all but one in a
        hundred notifications go this way, and each coroutine less is 0.2 us. False: nothing was queued, and
        `notify` has to be awaited.

        Raises:
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`.
            LocalProtocolError: the parameters cannot be sent as JSON.
        """
        if self.outbox.full or self._input_ending or not self._pacer.go_on():
            return False
        self.check_usable()
        self._enqueue(self._core.notification(method, params), awaited=False)
        return True

    def text_at_once(self, frames: TextFrames, text: str) -> bool:
        """Do what `notify_at_once` does for one of many notifications that differ in a text.

        Raises:
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`.
            LocalProtocolError: the text cannot be sent as JSON.
        """
        outbox = self.outbox
        if (
            outbox.size >= OUTBOX_SOFT_BYTES
            or self._input_ending
            or self._on_wire is not None  # which is shown messages, not frames
            or not self._pacer.go_on()
        ):
            return False
        if not outbox.held or self._reason is not None or get_ident() != self._thread:
            self.check_usable()
        outbox.put(frames.frame(text), False)
        return True

    async def room(self) -> None:
        """Wait until more may be queued. A checkpoint at least for cancellation.

        Raises:
            ConnectionClosed, ConnectionLost, RuntimeError: see `check_usable`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._pacer.go_on():
            await self._pacer.checkpoint()
        while self.outbox.full and self._reason is None:
            self.check_here()
            await self.outbox.progress.park()
        if self._input_ending:
            self.check_here()
            # The input has ended, and why is being found out: the caller is to be told exactly.
            await self.input_ended.wait()
        self.check_usable()

    # Closing -----------------------------------------------------------------------------------------

    def begin_close(self) -> None:
        """Refuse calls from now on with `ConnectionClosed`. What is under way goes on. Idempotent."""
        if self._reason is None:
            self._reason = ConnectionClosed("the connection was closed by this program; open a new one")
            self.outbox.progress.unpark_all()

    def refuse_open(self, error: RequestError) -> None:
        """Answer every request of the peer that is still open with one error: nobody will serve it now."""
        for request in self._core.open_inbound:
            self.refuse(request, error)

    def stop(self) -> None:
        """End the connection at once: fail what waits, end `run`. The stream is the owner's to close."""
        self.begin_close()
        assert self._reason is not None
        self.outbox.end(trio.ClosedResourceError())
        self.input_ended.set()
        self.outbox.progress.unpark_all()
        self._fail_waiting(self._core.disconnect(), self._reason)
        self._scope.cancel()

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Move the bytes until `stop`.

        Shielded, so ``nursery.start`` it only where no cancellation can be pending: `start` then would wait
        for its end. ``nursery.start_soon`` will do; what is sent meanwhile is queued.
        """
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_loop)
                task_status.started()
                await self._read_loop()

    # Reading -----------------------------------------------------------------------------------------

    async def _read_loop(self) -> None:
        pauses = self._dispatcher.pauses
        # A stream that passes on what another one receives may name that: a coroutine less for each read.
        receiver: trio.abc.ReceiveStream = own_attribute(self._stream, "receiving_half") or self._stream
        receive = receiver.receive_some
        outbox = self.outbox
        events = self._core.receive
        notified = self._dispatcher.notification
        asked = self._asked
        data: bytes | bytearray = b"-"
        ending = False
        while data:
            if ending:
                await self._dispatcher.input_ends()
                data = b""
            else:
                if pauses():
                    await self._dispatcher.may_read()
                try:
                    data = await receive(RECEIVE_CHUNK_BYTES)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    # What the stream lost in the middle of a line is no message; all before it was read.
                    data = b""
                if not data:
                    # A last line without its newline is a line (W1), and read as all others: there is the
                    # same time to answer a request in it.
                    ending = True
                    data = b"\n"
            outbox.allow_direct_writes()
            # What is answered as it is read goes out together, behind the last message that was read.
            outbox.hold()
            try:
                for event in events(data, notified, asked):
                    await self._take(event)
            finally:
                outbox.release()

    def _asked(self, request: InboundRequest, params: dict[str, Any], size: int) -> None:
        self._dispatcher.request(IncomingRequest(self, request, params, size))

    async def _take(self, event: OtherEvent) -> None:
        """Act on one event. Waits only at the very end of the input, for the reason."""
        match event:
            case ResponseReceived(request=request):
                _tell(request, event.result, event.error)
            case LateResponse(request=request):
                logger.debug("a late answer to %s (request %d)", request.method, request.id)
                if event.error is None and request.on_late is not None:
                    request.on_late(event.result)
            case CancelRequested(request=cancelled):
                if cancelled.on_cancel is not None:
                    cancelled.on_cancel()
            case MessageRefused():
                logger.warning("refused a message of the peer: %s", event.reason)
                self._enqueue(event.reply)
            case MessageDropped():
                logger.debug("dropped a message of the peer: %s", event.reason)
            case JunkLine():
                self.junk_sample = event.sample
                self._dispatcher.junk(event)
                if event.reply is not None:
                    self._enqueue(event.reply)
            case ConnectionFailed():
                self._lose(event.error, event.lost)
            case _:  # EndOfInput, the only one left
                self._input_ending = True
                self._untold = event.lost
                self.outbox.release()
                self._lose(await self._dispatcher.loss(), [])

    def _lose(self, reason: AcpError, lost: list[OutboundRequest]) -> None:
        """The peer is gone, or as good as gone: fail what waits for it, and tell the dispatcher once."""
        if self.input_ended.is_set():
            return
        if self._reason is None:
            self._reason = reason
        self.input_ended.set()
        self.outbox.progress.unpark_all()
        # Whoever still waits while this side closes is told that: the end of the input is its consequence.
        self._fail_waiting(lost, self._reason)
        self._dispatcher.disconnected(reason)

    def _fail_waiting(self, lost: list[OutboundRequest], reason: AcpError) -> None:
        untold, self._untold = self._untold, []
        for request in [*untold, *lost]:
            _tell(request, None, fresh_copy(reason))

    # Writing -----------------------------------------------------------------------------------------

    def answer(self, request: InboundRequest, result: Any) -> None:
        """Queue a result as the answer to a request; what `IncomingRequest.answer` does.

        Raises:
            LocalProtocolError: it has been answered already.
        """
        try:
            frame = self._core.answer(request, result)
        except LocalProtocolError:
            if request.state is RequestState.ANSWERED:
                raise
            logger.exception("the result of %s cannot be sent as JSON", request.method)
            frame = self._core.refuse(request, InternalError("the result could not be encoded"))
        self._enqueue(frame)

    def refuse(self, request: InboundRequest, error: RequestError) -> None:
        """Queue an error as the answer to a request; what `IncomingRequest.refuse` does.

        Raises:
            LocalProtocolError: it has been answered already.
        """
        try:
            frame = self._core.refuse(request, error)
        except LocalProtocolError:
            if request.state is RequestState.ANSWERED:
                raise
            logger.exception("the error of %s cannot be sent as JSON", request.method)
            frame = self._core.refuse(request, RequestError(error.code, "the error could not be encoded"))
        self._enqueue(frame)

    def _enqueue(self, frame: bytes, *, awaited: bool = True) -> None:
        """Queue a frame, see `Outbox.put`, and show it to the tap."""
        self.outbox.put(frame, awaited)
        if self._on_wire is not None:
            self._show_sent()

    def _show_sent(self) -> None:
        while self._untapped:
            # Only now: what a tap sends in its turn is to come behind what it was shown.
            self._show("sent", *self._untapped.popleft())

    def _reading_may_go_on(self) -> None:
        if self.read_on is not None:
            self.read_on()

    def _overflowed(self) -> None:
        self._lose(
            RemoteProtocolError(
                f"the peer does not read: {self.outbox.size} bytes of answers wait for it, "
                "so the connection was given up"
            ),
            self._core.disconnect(),
        )

    @trio.lowlevel.enable_ki_protection
    async def _write_loop(self) -> None:
        await self.outbox.run()
        with trio.move_on_after(BROKEN_WRITE_GRACE):
            await self.input_ended.wait()
        if not self.input_ended.is_set() and not self._input_ending:
            reason = ConnectionLost("the peer closed its end of the connection; open a new one")
            reason.__cause__ = self.outbox.error
            self._lose(reason, self._core.disconnect())

    # Wire tap ----------------------------------------------------------------------------------------

    def _tap(self, direction: Literal["sent", "received"], frame: bytes | bytearray, message: Any) -> None:
        if direction == "sent":
            self._untapped.append((frame, message))
        else:
            self._show(direction, frame, message)

    def _show(self, direction: Literal["sent", "received"], frame: bytes | bytearray, message: Any) -> None:
        if self._on_wire is None:
            return
        shown: Any
        if not self._redact_wire:
            shown = bytes(frame)
        elif message is None:
            shown = f"({len(frame)} bytes that are not JSON)"
        else:
            shown = redact(message)
        try:
            self._on_wire(direction, shown)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            self._on_wire = self._core.tap = None
            self._dispatcher.callback_failed(error)


def _tell(request: OutboundRequest, result: Any, error: AcpError | None) -> None:
    assert request.on_answer is not None
    request.on_answer(result, error)

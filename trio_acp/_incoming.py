"""A request of the peer on its way to exactly one answer, whatever becomes of its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, final

import trio

from ._cancellation import sole_error, split_cancelled
from ._core import InboundRequest, RequestId, RequestState
from ._errors import (
    CapabilityError,
    InternalError,
    InvalidParams,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    SchemaError,
)

if TYPE_CHECKING:
    from ._peer import Peer

__all__ = ["IncomingRequest", "error_for_wire"]


@final
class IncomingRequest:
    """A request of the peer, to be answered exactly once."""

    __slots__ = ("_peer", "_request", "params", "size")

    def __init__(self, peer: Peer, request: InboundRequest, params: dict[str, Any], size: int) -> None:
        self._peer = peer
        self._request = request
        self.params: dict[str, Any] = params
        self.size: int = size

    @property
    def id(self) -> RequestId:
        """Its id on the wire."""
        return self._request.id

    @property
    def method(self) -> str:
        """Its method on the wire."""
        return self._request.method

    @property
    def cancelled(self) -> bool:
        """The peer has withdrawn it and waits for its answer only (X4)."""
        return self._request.state is RequestState.CANCELLING

    @property
    def open(self) -> bool:
        """It still waits for its answer."""
        return self._request.state in (RequestState.OPEN, RequestState.CANCELLING)

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Have a callback called when the peer withdraws the request: at once if it has already."""
        request = self._request
        request.on_cancel = callback
        if request.state is RequestState.CANCELLING:
            callback()

    def answer(self, result: Any) -> None:
        """Queue a result as its answer; no-op when the connection has gone.

        A result that cannot be sent as JSON is logged, and -32603 sent in its place.

        Raises:
            LocalProtocolError: it has been answered already.
        """
        if self._request.state is RequestState.LOST:
            return
        self._peer.answer(self._request, result)

    def refuse(self, error: RequestError) -> None:
        """Queue an error as its answer; no-op when the connection has gone.

        Raises:
            LocalProtocolError: it has been answered already.
        """
        if self._request.state is RequestState.LOST:
            return
        self._peer.refuse(self._request, error)

    async def serve(self, handler: Callable[[], Awaitable[Any]], failed: Callable[[Exception], None]) -> None:
        """Run a handler to its end and answer with what it returns or raises. To be run as a task.

        The handler runs in a cancel scope of its own, which ``$/cancel_request`` cancels. Whatever ends it,
        there is one answer: its result, -32800 when it was cancelled from within or without (X4), else
        the error that `error_for_wire` makes of its exception. A request that was answered for it
        meanwhile keeps that answer.

        Args:
            handler: returns the result as JSON values.
            failed: called with an exception that the peer is not told in full.
        """
        with trio.CancelScope() as scope:
            self.when_cancelled(scope.cancel)
            try:
                result = await handler()
            except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
                self._settle(error, failed)
            else:
                if self.open:
                    self.answer(result)

    def _settle(self, error: BaseException, failed: Callable[[Exception], None]) -> None:
        """Answer for a handler that raised; re-raise what is not for the peer."""
        cancelled, rest = split_cancelled(error)
        if not isinstance(rest, Exception):
            if self.open:
                self.refuse(RequestCancelled("the request was cancelled"))
            raise error
        wire_error = error_for_wire(rest)
        if self.open:
            # What breaks while a withdrawn request unwinds is no answer to it: X4 leaves -32800 only.
            self.refuse(RequestCancelled("the request was cancelled") if self.cancelled else wire_error)
        if wire_error is not sole_error(rest):
            failed(rest)
        if cancelled is not None:
            raise cancelled


def error_for_wire(error: Exception) -> RequestError:
    """Turn an exception of a handler into the error that its request is answered with (W4, W10).

    The one place where exceptions become wire errors: what is not meant for the peer stays here, so
    no path, traceback or secret reaches it. Also used on a group with a single leaf, as that leaf.
    """
    sole = sole_error(error)
    if isinstance(sole, RequestError):
        return sole
    if isinstance(sole, SchemaError):
        return InvalidParams(str(sole))
    if isinstance(sole, CapabilityError):
        # The one who can do something about it is the peer's user, and no secret is in a capability's name.
        return InternalError(f"this needs {sole.capability}, which is not offered")
    if isinstance(sole, (FileNotFoundError, NotADirectoryError)):
        return ResourceNotFound("no such file or directory")
    if isinstance(sole, OSError) and sole.strerror:
        return InternalError(f"the operating system refused: {sole.strerror}")
    return InternalError("internal error")

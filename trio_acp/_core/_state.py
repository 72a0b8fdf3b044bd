"""The life of a request, as one table that knows neither role nor direction.

A request that we sent and one that we received live the same life, seen from its two ends: it is
open, somebody may ask to cancel it, it is answered once, or the connection ends first. Each step is a
row here; what has no row is a mistake of the caller and raises.
"""

from __future__ import annotations

import enum
from typing import Final

from ._errors import LocalProtocolError

__all__ = ["RequestEvent", "RequestState", "next_state"]


class RequestState(enum.IntEnum):
    """Where in its life a request stands."""

    # Integers, for the table's sake: they are hashed without a call of Python code, other members are not.

    OPEN = enum.auto()
    """Sent, not answered."""
    CANCELLING = enum.auto()
    """Still to be answered, but the side that asked has withdrawn it (X4)."""
    ANSWERED = enum.auto()
    """A result or an error has passed; the end."""
    LOST = enum.auto()
    """The connection ended before any answer; the end (W11)."""


class RequestEvent(enum.IntEnum):
    """What can happen to a request."""

    CANCEL = enum.auto()
    ANSWER = enum.auto()
    DISCONNECT = enum.auto()


_TABLE: Final = {
    (RequestState.OPEN, RequestEvent.CANCEL): RequestState.CANCELLING,
    (RequestState.OPEN, RequestEvent.ANSWER): RequestState.ANSWERED,
    (RequestState.OPEN, RequestEvent.DISCONNECT): RequestState.LOST,
    (RequestState.CANCELLING, RequestEvent.ANSWER): RequestState.ANSWERED,
    (RequestState.CANCELLING, RequestEvent.DISCONNECT): RequestState.LOST,
    # Withdrawing twice, or after the end, is a race that nobody can avoid: it changes nothing.
    (RequestState.CANCELLING, RequestEvent.CANCEL): RequestState.CANCELLING,
    (RequestState.ANSWERED, RequestEvent.CANCEL): RequestState.ANSWERED,
    (RequestState.LOST, RequestEvent.CANCEL): RequestState.LOST,
    # The same holds for an answer that is ready after the connection has gone.
    (RequestState.LOST, RequestEvent.ANSWER): RequestState.LOST,
    (RequestState.ANSWERED, RequestEvent.DISCONNECT): RequestState.ANSWERED,
    (RequestState.LOST, RequestEvent.DISCONNECT): RequestState.LOST,
}


def next_state(state: RequestState, event: RequestEvent) -> RequestState:
    """Return the state after an event.

    Raises:
        LocalProtocolError: the event cannot happen in that state: a second answer.
    """
    try:
        return _TABLE[state, event]
    except KeyError:
        raise LocalProtocolError("this request has been answered already; answer each request once") from None

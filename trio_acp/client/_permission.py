"""Permission requests: what a handler is given, what it may decide, and one answer whatever happens (P)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from trio_acp._errors import LocalProtocolError, RequestCancelled
from trio_acp._peer import IncomingRequest
from trio_acp.schema import PermissionOption, PermissionOptionKind

from ._outcome import without_cancelled
from ._snapshots import ToolCallState

__all__ = [
    "Cancelled",
    "Decision",
    "OpenPermission",
    "PermissionHandler",
    "PermissionRequest",
    "Reject",
    "Selected",
    "default_decision",
]

_ALLOW: Final = (PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS)
_REJECT: Final = (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS)

_CANCELLED_RESULT: Final = {"outcome": {"outcome": "cancelled"}}


@attrs.frozen
class Selected:
    """Decide for one of the offered options.

    Attributes:
        option_id: its id; an empty one means `Reject`.
    """

    option_id: str


@attrs.frozen
class Reject:
    """Decide for the first option of a reject kind; ``cancelled`` is answered where there is none."""


@attrs.frozen
class Cancelled:
    """Answer that the user did not decide; agents then end the turn or leave the tool call."""


Decision: TypeAlias = Selected | Reject | Cancelled
"""What a permission handler returns."""


@attrs.frozen(eq=False)
class PermissionRequest:
    """The agent asks whether it may do something (P1, P2).

    Attributes:
        session_id: the session in which it asks.
        tool_call: what it wants to do, merged with all that is known of that tool call.
        raw_tool_call: the tool call as this request gave it, in wire form.
        options: what can be answered, in the agent's order.
        meta: the request's ``_meta``.
    """

    session_id: str
    tool_call: ToolCallState
    raw_tool_call: dict[str, Any]
    options: Sequence[PermissionOption]
    meta: dict[str, Any] | None = None

    def first_allow(self) -> PermissionOption | None:
        """Return the first option that allows, once or always; None where there is none."""
        return _first(self.options, _ALLOW)

    def first_reject(self) -> PermissionOption | None:
        """Return the first option that rejects, once or always; None where there is none."""
        return _first(self.options, _REJECT)

    def option(self, option_id: str) -> PermissionOption | None:
        """Return the offered option with that id, None if it was not offered."""
        return next((option for option in self.options if option.option_id == option_id), None)


PermissionHandler: TypeAlias = Callable[[PermissionRequest], Awaitable[Decision]]
"""Decides a permission request. Runs as a task of its turn, under ``move_on_after(permission_timeout)``."""


def _first(
    options: Sequence[PermissionOption], kinds: tuple[PermissionOptionKind, ...]
) -> PermissionOption | None:
    # By kind, never by name or id: a reject must not be taken for consent, nor an unknown kind for either.
    return next((option for option in options if option.kind in kinds), None)


def default_decision(request: PermissionRequest) -> Decision:
    """Decide without a handler: the first allow option in the agent's order, else ``cancelled``."""
    option = request.first_allow()
    return Cancelled() if option is None else Selected(option.option_id)


@final
class OpenPermission:
    """A permission request between its arrival and its one answer.

    Args:
        incoming: the request on the wire.
        request: what the handler sees.
        deadline: when the handler's time is up, in Trio's clock.
    """

    __slots__ = ("_failure", "deadline", "incoming", "request", "scope")

    def __init__(self, incoming: IncomingRequest, request: PermissionRequest, deadline: float) -> None:
        self.incoming = incoming
        self.request = request
        self.deadline = deadline
        self.scope = trio.CancelScope(deadline=deadline)
        """The handler's cancel scope: its end is the handler's end."""
        self._failure: BaseException | None = None
        incoming.when_cancelled(self.withdraw)

    @property
    def open(self) -> bool:
        """It has not been answered."""
        return self.incoming.open

    @property
    def expired(self) -> bool:
        """Its time is up: whatever the handler says from now on comes too late."""
        return trio.current_time() >= self.deadline

    async def ask(self, handler: PermissionHandler) -> None:
        """Run the handler, in ``scope``, and answer as it decides unless its time is up by then."""
        try:
            decision = await handler(self.request)
            if not self.expired:
                self.answer(decision)
        except BaseException as error:
            if without_cancelled(error) is not error:
                raise
            # A cancelled scope would make another group of a user's group.
            self._failure = error

    def raise_failure(self) -> None:
        """Raise, outside of ``scope``, what the handler raised in it."""
        if self._failure is not None:
            raise self._failure

    def withdraw(self) -> None:
        """The agent takes the request back: answer -32800 at once and end the handler (X4)."""
        if self.open:
            self.incoming.refuse(RequestCancelled("the permission request was cancelled"))
        self.scope.cancel()

    def cancel(self) -> None:
        """Answer ``cancelled`` at once and end the handler (X1)."""
        self.answer(Cancelled())
        self.scope.cancel()

    def answer(self, decision: Decision) -> None:
        """Answer as decided, unless it is answered already.

        Raises:
            LocalProtocolError: the selected option was not offered; a reject is answered then.
            TypeError: that is no decision; a reject is answered then.
        """
        if not self.open:
            return
        given: object = decision  # a handler is the user's: it may return anything
        mistake: Exception | None = None
        chosen: PermissionOption | None = None
        if isinstance(given, Selected) and given.option_id:
            chosen = self.request.option(given.option_id)
            if chosen is None:
                offered = ", ".join(repr(option.option_id) for option in self.request.options)
                mistake = LocalProtocolError(
                    f"the permission handler selected {given.option_id!r}, which was not offered; "
                    f"return Selected with one of: {offered or 'nothing was offered'}"
                )
        elif not isinstance(given, (Selected, Reject, Cancelled)):
            mistake = TypeError(
                "a permission handler must return Selected(option_id), Reject() or Cancelled(), "
                f"not {type(given).__name__}"
            )
        if chosen is None and not isinstance(given, Cancelled):
            chosen = self.request.first_reject()
        if chosen is None:
            self.incoming.answer(_CANCELLED_RESULT)
        else:
            self.incoming.answer({"outcome": {"outcome": "selected", "optionId": chosen.option_id}})
        if mistake is not None:
            raise mistake

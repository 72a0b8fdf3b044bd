"""Permission requests: what a handler is given, what it may decide, and one answer whatever happens (P)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from trio_acp._cancellation import without_cancelled
from trio_acp._errors import LocalProtocolError, RequestCancelled
from trio_acp._peer import IncomingRequest
from trio_acp.schema import PermissionOption, PermissionOptionKind

from ._snapshots import ToolCallState

__all__ = [
    "AsyncHandler",
    "Cancelled",
    "DecidedPermission",
    "Decision",
    "DecisionHook",
    "OpenPermission",
    "PermissionHandler",
    "PermissionRequest",
    "Reject",
    "Selected",
    "default_decision",
    "is_async",
]

_ALLOW: Final = (PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS)
_REJECT: Final = (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS)

_CANCELLED_RESULT: Final = {"outcome": {"outcome": "cancelled"}}


@attrs.frozen
class Selected:
    """Decide for one of the offered options.

    Attributes:
        option_id: its id; an empty one means `Reject`.
        reason: why, for the audit hook.
    """

    option_id: str
    reason: str | None = attrs.field(default=None, kw_only=True, eq=False)


@attrs.frozen
class Reject:
    """Decide for the first option of a reject kind; ``cancelled`` is answered where there is none.

    Attributes:
        reason: why, for the audit hook.
    """

    reason: str | None = attrs.field(default=None, kw_only=True, eq=False)


@attrs.frozen
class Cancelled:
    """Answer that the user did not decide; agents then end the turn or leave the tool call.

    Attributes:
        reason: why, for the audit hook.
    """

    reason: str | None = attrs.field(default=None, kw_only=True, eq=False)


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
        """Return the first option that rejects, once or always; None where there is none.

        An option whose id is also that of one that does not reject is none: the answer is the id alone.
        """
        others = {option.option_id for option in self.options if option.kind not in _REJECT}
        return _first([option for option in self.options if option.option_id not in others], _REJECT)

    def option(self, option_id: str) -> PermissionOption | None:
        """Return the offered option with that id, None if it was not offered."""
        for option in self.options:
            if option.option_id == option_id:
                return option
        return None


@attrs.frozen(eq=False)
class DecidedPermission:
    """How a permission request was answered, for an audit.

    Attributes:
        request: what was asked.
        option: the option that was answered; None where ``cancelled`` was answered, or an error.
        reason: why: the ``reason`` of the decision where it has one; else ``"handler"``, ``"no handler"``,
            ``"timeout"``, ``"turn cancelled"``, ``"turn ended"``, ``"withdrawn"`` (the agent took it back),
            ``"handler failed"`` or ``"invalid decision"``.
        seconds: from the arrival of the request to its answer.
    """

    request: PermissionRequest
    option: PermissionOption | None
    reason: str
    seconds: float


DecisionHook: TypeAlias = Callable[[DecidedPermission], object]
"""Is told of every permission request that was answered; synchronous."""

PermissionHandler: TypeAlias = Callable[[PermissionRequest], Awaitable[Decision] | Decision]
"""Decides a permission request.

An async function runs as a task of its turn, under ``move_on_after(permission_timeout)``. A plain function,
for rules that need nobody to be asked, is called when the request is read, and must not block; what it
returns is the answer. If that can be awaited, it is, in such a task.
"""


AsyncHandler: TypeAlias = Callable[[PermissionRequest], Awaitable[Decision]]
"""A handler that is run as a task."""


def _same(decision: Awaitable[Decision], request: PermissionRequest) -> Awaitable[Decision]:
    return decision


def is_async(handler: object) -> bool:
    """Tell whether a handler is sure to be an async function; a plain one may still return an awaitable."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - not whether it can be called, but how
    )


def _first(
    options: Sequence[PermissionOption], kinds: tuple[PermissionOptionKind, ...]
) -> PermissionOption | None:
    # By kind, never by name or id: a reject must not be taken for consent, nor an unknown kind for either.
    return next((option for option in options if option.kind in kinds), None)


def default_decision(request: PermissionRequest) -> Decision:
    """Decide without a handler: the first allow option in the agent's order, else ``cancelled``."""
    option = request.first_allow()
    if option is None:
        return Cancelled(reason="no handler")
    return Selected(option.option_id, reason="no handler")


@final
class OpenPermission:
    """A permission request between its arrival and its one answer.

    Args:
        incoming: the request on the wire.
        request: what the handler sees.
        timeout: seconds that the handler has.
        decided: is told of the answer; must not raise.
    """

    __slots__ = ("_asked", "_decided", "_failure", "_scope", "deadline", "incoming", "request")

    def __init__(
        self,
        incoming: IncomingRequest,
        request: PermissionRequest,
        timeout: float,
        decided: DecisionHook | None = None,
    ) -> None:
        self._asked = trio.current_time()
        self._decided = decided
        self.incoming: IncomingRequest = incoming
        self.request: PermissionRequest = request
        self.deadline: float = self._asked + timeout
        """When the handler's time is up, in Trio's clock."""
        self._scope: trio.CancelScope | None = None
        self._failure: BaseException | None = None
        incoming.when_cancelled(self.withdraw)

    @property
    def scope(self) -> trio.CancelScope:
        """The handler's cancel scope: its end is the handler's end.

        Made when it is first asked for: what a plain function decides has no need of it.
        """
        scope = self._scope
        if scope is None:
            scope = self._scope = trio.CancelScope(deadline=self.deadline)
        return scope

    @property
    def open(self) -> bool:
        """It has not been answered."""
        return self.incoming.open

    @property
    def expired(self) -> bool:
        """Its time is up: whatever the handler says from now on comes too late."""
        return trio.current_time() >= self.deadline

    def ask_at_once(self, handler: PermissionHandler) -> AsyncHandler | None:
        """Call a plain function and answer as it decides; return how to await its decision, if that is so.

        Raises:
            Exception: what the function raised, or what `answer` raises.
        """
        decision = handler(self.request)
        if isinstance(decision, Awaitable):
            return partial(_same, decision)
        self.answer(decision)
        return None

    async def ask(self, handler: AsyncHandler) -> bool:
        """Run the handler, in ``scope``, and answer as it decides unless its time is up by then.

        Return whether that was all: the request has its answer, and the handler has raised nothing.
        """
        try:
            decision = await handler(self.request)
            if trio.current_time() < self.deadline:
                self.answer(decision)
                return True
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            if without_cancelled(error) is not error:
                raise
            # A cancelled scope would make another group of a user's group.
            self._failure = error
        return False

    def raise_failure(self) -> None:
        """Raise, outside of ``scope``, what the handler raised in it."""
        if self._failure is not None:
            raise self._failure

    def withdraw(self) -> None:
        """The agent takes the request back: answer -32800 at once and end the handler (X4)."""
        self.incoming.refuse(RequestCancelled("the permission request was cancelled"))
        self._tell(None, "withdrawn")
        self.scope.cancel()

    def cancel(self, reason: str = "turn cancelled") -> None:
        """Answer ``cancelled`` at once and end the handler (X1)."""
        self.answer(Cancelled(reason=reason))
        self.scope.cancel()

    def expire(self, action: Literal["cancel", "reject"]) -> None:
        """Answer at once that nobody has decided in time, and end the handler."""
        self.answer(Reject(reason="timeout") if action == "reject" else Cancelled(reason="timeout"))
        self.scope.cancel()

    def _tell(self, option: PermissionOption | None, reason: str) -> None:
        if self._decided is not None:
            self._decided(DecidedPermission(self.request, option, reason, trio.current_time() - self._asked))

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
        if self._decided is not None:
            reason = "handler"
            if mistake is not None:
                reason = "invalid decision"
            elif isinstance(given, (Selected, Reject, Cancelled)) and given.reason is not None:
                reason = given.reason
            self._tell(chosen, reason)
        if mistake is not None:
            raise mistake

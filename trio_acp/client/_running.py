"""A turn while it runs: everything about it that happens in the read loop or in its own tasks."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, final

import trio

from trio_acp._cancellation import trio_part, without_cancelled
from trio_acp._errors import (
    AcpError,
    InvalidResponse,
    PermissionTimeout,
    RequestCancelled,
    RequestError,
    SlowConsumer,
)
from trio_acp._order import Line
from trio_acp._peer import IncomingRequest
from trio_acp.schema import PromptResponse, SessionUpdate, StopReason

from ._buffers import TurnBuffer
from ._options import AcpOptions
from ._permission import AsyncHandler, OpenPermission, PermissionHandler, Reject
from ._snapshots import Transcript
from ._work import Handlers

__all__ = ["KEPT_FAILURES", "RunningTurn", "TurnHost", "is_working_for"]

SESSION_CANCEL: Final = "session/cancel"

KEPT_FAILURES: Final = 16
"""Exceptions of callbacks that are kept: the first decides, and a hook may fail at every update."""


_working_for: contextvars.ContextVar[tuple[RunningTurn, ...]] = contextvars.ContextVar(
    "trio_acp_working_for", default=()
)
"""The turns that the current task handles a request of: handlers run in their turn's context."""


def is_working_for(turn: RunningTurn) -> bool:
    """Tell whether the current task is a handler of a turn, whose end it must not wait for."""
    return turn in _working_for.get()


class TurnHost(Protocol):
    """What a turn needs of the connection that it runs on."""

    options: AcpOptions

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Queue a notification even while closing; never raises for a connection that has gone."""

    def check_here(self) -> None:
        """Raise RuntimeError in another thread or Trio run."""

    def read_result(self, method: str, result_type: Any, raw: Any) -> Any:
        """Decode the result of a method, or raise `InvalidResponse`."""

    def turn_ended(self, turn: RunningTurn) -> None:
        """The turn has its answer: what comes now for its session is not the turn's."""

    def conditions_changed(self) -> None:
        """Something happened that may let a paused read loop go on."""


@final
class RunningTurn:
    """The inner life of a `Turn`, from the sending of its prompt to its answer or abandonment.

    Args:
        host: the connection.
        session_id: the session.
        line: the order in which handlers of the session's requests begin.
        idle_timeout: seconds without activity after which the turn fails; ``math.inf`` for never.
    """

    def __init__(self, host: TurnHost, session_id: str, line: Line, idle_timeout: float) -> None:
        options = host.options
        self.host = host
        self.session_id = session_id
        self.scope: trio.CancelScope = trio.CancelScope()
        self.nursery: trio.Nursery | None = None
        self.context: contextvars.Context = contextvars.copy_context()
        """The context of the task that opened the turn, for everything that runs on its behalf."""
        self.context.run(_working_for.set, (*_working_for.get(), self))
        self.transcript: Transcript = Transcript()
        self.buffer: TurnBuffer[SessionUpdate] = TurnBuffer(
            options.max_buffered_updates, options.max_buffered_bytes
        )
        self.body_running = False
        self.ended: trio.Event = trio.Event()
        """The prompt has been answered, or never will be."""
        self.over: trio.Event = trio.Event()
        """It has ended or was abandoned: the application need not wait any longer."""
        self.stop_reason: StopReason | str | None = None
        self.response: PromptResponse | None = None
        """The agent's answer to the prompt, if it was a result."""
        self.cancel_requested: bool = False
        self.reading_paused = False
        """Its consumer has more than enough to take: what the agent does meanwhile is not seen."""
        self.unwinding: bool = False
        """Its scope, or one around it, was cancelled: a new task in its nursery would not get anywhere."""
        self.abandoned: bool = False
        self.error: AcpError | None = None
        """How the agent, or the connection to it, failed the turn."""
        self.verdict: BaseException | None = None
        """Why this library ended the turn."""
        self.callbacks: list[BaseException] = []
        """What the user's handlers and hooks raised."""
        self.waiters: list[trio.lowlevel.Task] = []
        """Tasks that wait for the end without iterating."""
        self._permissions: dict[OpenPermission, None] = {}
        """Those that may be open, in the order of their arrival; a dictionary, for thousands at once."""
        self._handlers = Handlers(line)
        self._idle_timeout = idle_timeout
        self.may_idle_out: bool = idle_timeout != math.inf
        """Its activity has to be noted, see `active`."""
        self._last_activity = trio.current_time()
        self._alarm: trio.CancelScope | None = None
        """Wakes the watcher when a deadline has come; None before it watches."""
        self._wake = trio.Event()

    # From the read loop --------------------------------------------------------------------------------

    def overflowed(self) -> None:
        """The buffer has refused an update: too much waits there."""
        if self.unattended:
            self.buffer.drop()
            return
        items, waiting = self.buffer.items, self.buffer.size
        self.buffer.release()
        self.fail(SlowConsumer(self.session_id, items=items, size=waiting))

    def answered(self, result: Any, error: AcpError | None) -> None:
        """Take the answer to the prompt, or the news that there will be none (T2, X2)."""
        if error is None:
            try:
                response: PromptResponse = self.host.read_result("session/prompt", PromptResponse, result)
            except InvalidResponse as mismatch:
                error = mismatch
            else:
                self.response = response
                if not self.abandoned:
                    self.stop_reason = response.stop_reason
        if error is not None and not self.abandoned:
            if self.cancel_requested and isinstance(error, (RequestError, InvalidResponse)):
                # Many agents answer a cancelled prompt with an error; it ended as it was asked to.
                self.stop_reason = StopReason.CANCELLED
            else:
                self.error = error
        self.ended.set()
        self.host.turn_ended(self)
        self._finish()

    def _finish(self) -> None:
        for permission in list(self._permissions):
            permission.cancel("turn ended")
        self.buffer.finish()
        self.over.set()
        self._handlers.end()
        self._wake.set()

    @property
    def unattended(self) -> bool:
        """Somebody waits for the end and nobody takes updates: they need not be kept."""
        consumer = self.buffer.consumer
        return bool(self.waiters) and (consumer is None or consumer in self.waiters)

    def active(self) -> None:
        """The agent did something in this session: it is not idle."""
        if self.may_idle_out:
            self._last_activity = trio.current_time()

    # Ending it -----------------------------------------------------------------------------------------

    def ask_cancel(self) -> None:
        """Queue ``session/cancel`` and the answers of open permission requests, once (X1)."""
        if self.cancel_requested or self.over.is_set():
            return
        self.cancel_requested = True
        self.host.tell(SESSION_CANCEL, {"sessionId": self.session_id})
        for permission in list(self._permissions):
            permission.cancel()
        self._wake.set()
        self.host.conditions_changed()

    def abandon(self) -> None:
        """Stop waiting for an agent that does not end the turn. Its late answer still comes here."""
        if self.over.is_set():
            return
        self.abandoned = True
        self._finish()

    def fail(self, verdict: BaseException) -> None:
        """End the turn, body and all, with an error of this library's."""
        if self.verdict is None:
            self.verdict = verdict
        self.ask_cancel()
        self.unwinding = True
        self.scope.cancel()

    def callback_failed(self, error: BaseException) -> None:
        """End the turn, body and all, with an exception of the user's."""
        if len(self.callbacks) < KEPT_FAILURES:
            self.callbacks.append(error)
        self.ask_cancel()
        self.unwinding = True
        self.scope.cancel()

    def unwind(self) -> None:
        """A cancellation has arrived in one of the turn's tasks: tell the agent, whoever sees it first."""
        self.unwinding = True
        self.ask_cancel()

    # Tasks ---------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Mind the clocks of the turn: permission deadlines, idleness, the grace after a cancellation.

        Runs as a child of the turn. A cancellation of the turn's scope arrives here even when the body is
        shielded or busy.
        """
        try:
            await self._mind_deadlines()
        except trio.Cancelled:
            self.unwind()
            await self._grace()  # noqa: ASYNC102 - shielded and bounded in itself
            raise
        await self._grace()

    async def _grace(self) -> None:
        with trio.move_on_after(self.host.options.cancel_grace, shield=True):
            await self.over.wait()
        self.abandon()

    async def _mind_deadlines(self) -> None:
        while not self.cancel_requested and not self.over.is_set():
            self._wake = trio.Event()
            with trio.CancelScope(deadline=self._next_deadline()) as self._alarm:
                await self._wake.wait()
            self._expire(trio.current_time())

    def _next_deadline(self) -> float:
        deadlines = [permission.deadline for permission in self._permissions if permission.open]
        return min([*deadlines, self._last_activity + self._idle_timeout])

    def _expire(self, now: float) -> None:
        for permission in list(self._permissions):
            if now >= permission.deadline:
                # Answered at this moment, also when the handler cannot be ended yet.
                self._permission_expired(permission)
        if len(self._handlers) or self.reading_paused:
            # The agent waits for an answer of ours, or to be read: that is not idleness.
            self._last_activity = now
        elif now >= self._last_activity + self._idle_timeout and not self.over.is_set():
            self.fail(
                trio.TooSlowError(
                    f"session {self.session_id!r} showed no activity for {self._idle_timeout:g} s; "
                    "raise idle_timeout if the agent needs longer"
                )
            )

    def _permission_expired(self, permission: OpenPermission) -> None:
        if not permission.open:
            return
        options = self.host.options
        permission.expire(options.permission_timeout_action)
        if options.permission_timeout_action == "cancel":
            title = permission.request.tool_call.title or None
            self.fail(PermissionTimeout(title, options.permission_timeout))

    # Work on the agent's behalf ------------------------------------------------------------------------

    def ask_at_once(self, permission: OpenPermission, handler: PermissionHandler) -> AsyncHandler | None:
        """Have a plain function decide a permission request; return how to await its decision, if that is so.

        Called in the read loop. No task, no cancel scope and no pass of the scheduler: 40 of 115 us.
        """
        self._permissions[permission] = None
        try:
            # A copy, as a task has one: what the function sets is no other handler's.
            return self.context.copy().run(permission.ask_at_once, handler)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            permission.answer(Reject(reason="handler failed"))
            self.callback_failed(error)
        finally:
            del self._permissions[permission]
        return None

    def ask_permission(self, permission: OpenPermission, handler: AsyncHandler) -> None:
        """Start the handler of a permission request; called in the read loop."""
        self._permissions[permission] = None
        scope = permission.scope
        self._start(partial(self._decide, permission, scope, handler), scope)
        alarm = self._alarm
        if alarm is not None and permission.deadline < alarm.deadline:
            # The alarm is set earlier, and nobody woken: most permissions are decided long before it.
            alarm.deadline = permission.deadline

    def serve(
        self,
        incoming: IncomingRequest,
        handler: Callable[[], Awaitable[Any]],
        failed: Callable[[Exception], None],
    ) -> None:
        """Start the handler of another request of the agent; called in the read loop."""
        if self.over.is_set():
            incoming.refuse(RequestCancelled("the turn was given up"))
            return
        self.active()
        self._start(partial(self._serve, incoming, handler, failed))

    def _start(self, task: Callable[[], Awaitable[object]], scope: trio.CancelScope | None = None) -> None:
        assert self.nursery is not None
        # Trio copies the context of whoever starts a task, which here is the read loop.
        self.context.run(self._handlers.start, self.nursery.start_soon, task, scope)

    async def _serve(
        self,
        incoming: IncomingRequest,
        handler: Callable[[], Awaitable[Any]],
        failed: Callable[[Exception], None],
    ) -> None:
        async def attentive() -> Any:
            try:
                return await handler()
            except BaseException as error:
                if without_cancelled(error) is not error and not incoming.cancelled:
                    # Before the answer is queued: the agent is to hear of the cancellation first.
                    self.unwind()
                raise

        try:
            await incoming.serve(attentive, failed)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            rest = without_cancelled(error)
            if rest is not None:
                self.callback_failed(rest)
            if rest is not error:
                raise trio_part(error) from None  # noqa: ASYNC104 - cancellations were told apart before
        finally:
            self.active()

    async def _decide(
        self, permission: OpenPermission, scope: trio.CancelScope, handler: AsyncHandler
    ) -> None:
        decided = False
        try:
            with scope:
                decided = await permission.ask(handler)
            if not decided:
                permission.raise_failure()
                # Perhaps its time was up, and it unwound before the watcher saw the same.
                self._permission_expired(permission)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            self._handler_failed(permission, error)
        finally:
            del self._permissions[permission]
            self.active()

    def _handler_failed(self, permission: OpenPermission, error: BaseException) -> None:
        rest = without_cancelled(error)
        if rest is not None:
            if permission.expired:
                self._permission_expired(permission)
            # The order matters to the agent: first its answer, then the cancellation.
            permission.answer(Reject(reason="handler failed"))
            self.callback_failed(rest)
        if rest is not error:
            self.unwind()
            raise trio_part(error)

"""The client's end of a connection: where everything that the agent sends is routed, in the read loop."""

from __future__ import annotations

import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast, final

import trio

from trio_acp._cancellation import LoggedErrors, trio_part, unwrapped, without_cancelled
from trio_acp._core import JunkLine
from trio_acp._errors import (
    AcpError,
    CapabilityError,
    InvalidResponse,
    MethodNotFound,
    RequestCancelled,
    SchemaError,
    SlowConsumer,
)
from trio_acp._extensions import as_extension, tell_extension
from trio_acp._order import Line
from trio_acp._peer import IncomingRequest, Peer, error_for_wire
from trio_acp.schema import (
    AgentCapabilities,
    Leniency,
    RequestPermissionRequest,
    structure,
    structure_update,
)

from ._buffers import UpdateStream
from ._elicitations import Elicitations
from ._options import AcpOptions, ServiceLife
from ._permission import (
    AsyncHandler,
    Cancelled,
    DecidedPermission,
    OpenPermission,
    PermissionHandler,
    PermissionRequest,
    Reject,
    default_decision,
    is_async,
)
from ._record import SessionRecord
from ._running import KEPT_FAILURES, RunningTurn
from ._services import Service, client_services, living_services
from ._snapshots import SessionState, fold
from ._table import SessionTable, StrayUpdate
from ._work import Handlers

__all__ = ["KEPT_DIAGNOSTICS", "ClientConnection"]

logger = logging.getLogger("trio_acp.client")

KEPT_DIAGNOSTICS: Final = 100
"""Leniencies and dropped updates that are kept for inspection; the counters count all of them."""


@final
class ClientConnection:
    """Routes what the agent sends; implements the dispatcher of a `Peer`.

    Nothing here waits, but for `may_read`, `loss` and the tasks. User code runs in tasks only, except
    ``on_update``, which is synchronous by contract.

    Args:
        options: what the host offers.
        explain_loss: says why the input ended; may wait shortly for an exit status.
    """

    def __init__(
        self,
        options: AcpOptions,
        stream: trio.abc.Stream,
        explain_loss: Callable[[], Awaitable[AcpError]],
    ) -> None:
        self.options = options
        self.capabilities: AgentCapabilities = AgentCapabilities()
        self.peer: Peer = Peer(
            stream,
            self,
            max_junk_lines=options.max_junk_lines,
            max_message_bytes=options.max_message_bytes,
            on_wire=options.on_wire,
            redact_wire=options.redact_wire,
        )
        self.peer.read_on = self.conditions_changed
        self.table: SessionTable = SessionTable(self)
        self._open = self.table.open
        self.lost: trio.Event = trio.Event()
        """The agent has gone."""
        self.callback_failures: list[BaseException] = []
        """What callbacks raised outside of any turn."""
        self.callback_failure: trio.Event = trio.Event()
        self.leniencies: deque[Leniency] = deque(maxlen=KEPT_DIAGNOSTICS)
        self.leniencies_total: int = 0
        self.updates_dropped: int = 0
        self._explain_loss = explain_loss
        self._on_update = options.on_update
        handler = options.on_permission
        self._permission_task = cast("AsyncHandler", handler) if is_async(handler) else None
        """The permission handler, where it is sure to be an async function."""
        self._services: dict[str, Service] = dict(client_services(options))
        self.elicitations: Elicitations = Elicitations(options.on_elicitation_complete, self.callback_failed)
        self._live: dict[RunningTurn, None] = {}
        self._handlers = Handlers(Line())
        """Handlers of requests that belong to no session that is known."""
        self._extension_calls: UpdateStream[tuple[str, dict[str, Any]]] = UpdateStream()
        self._report: list[Leniency] = []
        self._room: trio.Event | None = None
        self._closing = False
        self._nursery: trio.Nursery | None = None
        self._handlers_ended = trio.Event()
        self._handlers_unwanted = False

    # Tasks outside of turns ----------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Be the parent of handlers that belong to no turn, until `end_handlers`. Shielded."""
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    if self._handlers_unwanted:
                        return  # noqa: ASYNC121 - nothing has been started yet
                    self._nursery = nursery
                    nursery.start_soon(self._serve_extension_calls)
                    for service in living_services(self.options):
                        nursery.start_soon(self._run_service, service)
                    await trio.sleep_forever()
            finally:
                self._handlers_ended.set()

    async def _run_service(self, service: ServiceLife) -> None:
        """Be the parent of a service's own tasks; what they raise ends the block of the connection."""
        try:
            await service.run(self.table.token)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            rest = without_cancelled(error)
            if rest is not None:
                self.callback_failed(unwrapped(rest))
            if rest is not error:
                raise trio_part(error) from None  # noqa: ASYNC104 - cancellations were told apart before

    def session_ended(self, record: SessionRecord) -> None:
        """Tell services that a session is no more. While closing they learn it by their own end."""
        self.elicitations.end_session(record.id)
        for service in living_services(self.options):
            if self._nursery is not None:
                self._nursery.start_soon(self._tell_end, service, record)

    async def _tell_end(self, service: ServiceLife, record: SessionRecord) -> None:
        with LoggedErrors(logger, "a service failed to end session %r", record.id):
            await service.end_session(record.scope)

    def end_handlers(self) -> None:
        """Cancel all handlers that belong to no turn, and start no more: their requests get -32800."""
        self._handlers_unwanted = True
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.cancel_scope.cancel()

    def check_here(self) -> None:
        """Raise RuntimeError in another thread or another Trio run."""
        self.peer.check_here()

    # Sending -------------------------------------------------------------------------------------------

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Queue a notification even while closing; never raises for a connection that has gone."""
        self.peer.notify_last(method, params)

    def require(self, supported: bool, capability: str) -> None:
        """Refuse a call that the agent did not offer (I3).

        Raises:
            CapabilityError: ``supported`` is false.
        """
        if not supported:
            raise CapabilityError(
                capability, f"the agent does not advertise {capability}; check agent.capabilities first"
            )

    def begin_turn(self, record: SessionRecord, turn: RunningTurn, params: dict[str, Any]) -> None:
        """Send the prompt and register its turn, in one step."""
        self.peer.start_request("session/prompt", params, turn.answered)
        record.turn = turn
        turn.transcript.history = record.state.history
        record.state.history.close_message()
        self._live[turn] = None

    def turn_ended(self, turn: RunningTurn) -> None:
        """The turn has its answer: what comes now for its session is not the turn's."""
        self._live.pop(turn, None)
        record = self.table.open.get(turn.session_id)
        if record is not None and record.turn is turn:
            record.turn = None
            self.table.turn_ended(record)

    @property
    def live_turns(self) -> list[RunningTurn]:
        """Turns that wait for their answer."""
        return list(self._live)

    # What arrives: notifications -----------------------------------------------------------------------

    def notification(self, method: str, params: dict[str, Any], size: int) -> None:
        """Route a notification: first of all, an update."""
        if method != "session/update":
            self._other_notification(method, params, size)
            return
        # The hot path of a host. What it calls for each update was chosen by measurement: docs/performance.
        session_id: object = None
        try:
            record: SessionRecord | None = self._open[params["sessionId"]]
        except (KeyError, TypeError):
            session_id = params.get("sessionId")
            record = self.table.find(session_id)
        turn = None if record is None else record.turn
        if self._on_update is not None:
            try:
                self._on_update(params)
            except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
                if turn is None or turn.abandoned:
                    self.callback_failed(error)
                else:
                    turn.callback_failed(error)
        report = self._report
        try:
            if record is None and not isinstance(session_id, str):
                raise SchemaError(("sessionId",), "expected a string")
            update = structure_update(params.get("update"), report)
        except SchemaError as mismatch:
            self.updates_dropped += 1
            report.clear()
            if turn is not None:
                turn.active()
            logger.warning("dropped an update that does not fit the schema: %s", mismatch)
            return
        if report:
            self._note_leniencies(report)
        if record is None:
            self.table.stray(StrayUpdate(str(session_id), update), size)
        elif turn is None:
            record.outside_of_turns(update, size)
        elif turn.abandoned:
            # Late news of a turn that nobody waits for: the session's state is still the better for it.
            fold(update, record.state, None)
            record.changed()
        else:
            fold(update, record.state, turn.transcript)
            record.version += 1
            if record.change is not None:
                record.announce()
            if turn.may_idle_out:
                turn.active()
            if not turn.buffer.put(update, size):
                turn.overflowed()

    def _other_notification(self, method: str, params: dict[str, Any], size: int) -> None:
        """Route what is no update; what is unknown is ignored (W5)."""
        if method == "elicitation/complete" and self.options.elicit_url is not None:
            self.elicitations.complete(params)
        elif method in self.options.extensions:
            lost = self._extension_calls.lost
            self._extension_calls.put((method, params), size)
            if self._extension_calls.lost != lost:
                logger.warning("dropped a notification: the handlers of extensions are too slow")
        else:
            logger.debug("ignored a notification of the agent: %s", method)

    def _note_leniencies(self, report: list[Leniency]) -> None:
        for leniency in report:
            self.leniencies.append(leniency)
            self.leniencies_total += 1
            where = ".".join(str(part) for part in leniency.path)
            logger.info("took a message of the agent leniently: %s: %s", where, leniency.reason)
        report.clear()

    def read_result(self, method: str, result_type: Any, raw: Any) -> Any:
        """Decode the result of a method, taking note of what was read leniently. Null counts as empty (W6).

        Raises:
            InvalidResponse: it does not fit.
        """
        report: list[Leniency] = []
        try:
            result = structure(result_type, {} if raw is None else raw, report)
        except SchemaError as mismatch:
            raise InvalidResponse(f"the answer to {method} does not fit the schema: {mismatch}") from mismatch
        self._note_leniencies(report)
        return result

    async def _serve_extension_calls(self) -> None:
        # One after the other: a peer may count on the order of its notifications.
        async for method, params in self._extension_calls:
            with LoggedErrors(logger, "the handler of %s failed", method):
                record = self.table.find(params.get("sessionId"))
                scope = None if record is None else record.scope
                extension = as_extension(self.options.extensions[method])
                await tell_extension(logger, extension, method, params, scope)

    # What arrives: requests ----------------------------------------------------------------------------

    def request(self, incoming: IncomingRequest) -> None:
        """Route a request: answer it now, or start the task that will."""
        if incoming.method == "session/request_permission":
            self._permission(incoming)
            return
        service = self._services.get(incoming.method)
        if service is None:
            incoming.refuse(MethodNotFound(f"this client does not offer {incoming.method}"))
            return

        record = self.table.find(incoming.params.get("sessionId"))
        # A closed session gets nothing new started, also while its last turn still ends.
        scope = None if record is None or record.closed else record.scope

        handler: Callable[[], Awaitable[Any]] = partial(service, incoming.params, scope)
        if incoming.method == "elicitation/create" and self.options.elicit_url is not None:
            handler = self.elicitations.watch(incoming, handler)

        def failed(error: Exception) -> None:
            logger.error("the handler of %s failed", incoming.method, exc_info=error)

        turn = None if record is None else record.turn
        if turn is not None and (turn.abandoned or not turn.unwinding):
            turn.serve(incoming, handler, failed)
        elif self._nursery is not None:
            # Also while a turn unwinds: its scope is cancelled, but the agent may have to clean up.
            self._start(record, partial(incoming.serve, handler, failed))
        else:
            incoming.refuse(RequestCancelled("the client is closing the connection"))

    def _permission(self, incoming: IncomingRequest) -> None:
        report: list[Leniency] = []
        try:
            asked = structure(RequestPermissionRequest, incoming.params, report)
        except SchemaError as mismatch:
            incoming.refuse(error_for_wire(mismatch))
            return
        if report:
            self._note_leniencies(report)
        record = self._open.get(asked.session_id) or self.table.find(asked.session_id)
        turn = None if record is None else record.turn
        tool_call = (SessionState() if record is None else record.state).merge_tool_call(asked.tool_call)
        if turn is not None:
            turn.transcript.close_message()
            turn.transcript.tool_calls[tool_call.tool_call_id] = tool_call
        request = PermissionRequest(
            session_id=asked.session_id,
            tool_call=tool_call.copy(),
            raw_tool_call=incoming.params["toolCall"],
            options=asked.options,
            meta=asked.meta,
        )
        decided = None if self.options.on_decision is None else self._decided
        permission = OpenPermission(incoming, request, self.options.permission_timeout, decided)
        handler = self.options.on_permission
        if turn is not None:
            turn.active()
        if turn is not None and (turn.cancel_requested or turn.abandoned):
            permission.cancel()
        elif handler is None:
            permission.answer(default_decision(request))
        elif turn is None and self._nursery is None:
            permission.cancel()
        else:
            self._ask(permission, handler, record, turn)

    def _ask(
        self,
        permission: OpenPermission,
        handler: PermissionHandler,
        record: SessionRecord | None,
        turn: RunningTurn | None,
    ) -> None:
        """Have a permission handler decide: at once if it is a plain function, else as a task."""
        run = self._permission_task
        if run is None:
            ask_at_once = self._ask_at_once if turn is None else turn.ask_at_once
            run = ask_at_once(permission, handler)
        if run is None:
            return
        if turn is None:
            self._start(record, partial(self._decide, permission, run))
        else:
            turn.ask_permission(permission, run)

    def _ask_at_once(self, permission: OpenPermission, handler: PermissionHandler) -> AsyncHandler | None:
        """Have a plain function decide a permission request that belongs to no turn."""
        try:
            # In a copy: what the function sets must not stay with the read loop.
            return contextvars.copy_context().run(permission.ask_at_once, handler)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            permission.answer(Reject(reason="handler failed"))
            if isinstance(error, Exception):
                logger.error("the permission handler failed outside of a turn", exc_info=error)
            else:
                self.callback_failed(error)
        return None

    def _start(self, record: SessionRecord | None, task: Callable[[], Awaitable[object]]) -> None:
        """Start a handler that belongs to no turn."""
        assert self._nursery is not None
        handlers = self._handlers if record is None else record.handlers
        handlers.start(self._nursery.start_soon, task)

    async def _decide(self, permission: OpenPermission, handler: AsyncHandler) -> None:
        """Serve a permission request that belongs to no turn: nobody but the log hears of a failure."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire, permission)
            try:
                with permission.scope:
                    await permission.ask(handler)
                permission.raise_failure()
                if permission.open:
                    self._expired(permission)
            except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
                rest = without_cancelled(error)
                if rest is not None:
                    permission.answer(
                        Cancelled(reason="timeout") if permission.expired else Reject(reason="handler failed")
                    )
                    if not isinstance(rest, Exception):
                        raise
                    logger.error("the permission handler failed outside of a turn", exc_info=rest)
                if rest is not error:
                    permission.cancel()
                    raise trio_part(error) from None  # noqa: ASYNC104 - cancellations were told apart before
            finally:
                nursery.cancel_scope.cancel()

    async def _expire(self, permission: OpenPermission) -> None:
        # Apart from the handler, which may be shielded or wait for a thread: the answer must not wait for it.
        await trio.sleep_until(permission.deadline)
        if permission.open:
            self._expired(permission)

    def _decided(self, decided: DecidedPermission) -> None:
        assert self.options.on_decision is not None
        try:
            self.options.on_decision(decided)
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            # The answer is given, and whoever gave it has nothing to do with this.
            self.callback_failed(error)

    def _expired(self, permission: OpenPermission) -> None:
        permission.expire(self.options.permission_timeout_action)
        logger.warning("a permission request outside of a turn was not decided in time")

    # What arrives: trouble -----------------------------------------------------------------------------

    def junk(self, event: JunkLine) -> None:
        """Log a line that is no message."""
        logger.warning("the agent printed a line that is no message: %s: %r", event.reason, event.sample)

    def callback_failed(self, error: BaseException) -> None:
        """A callback raised outside of a turn: end the block of the connection."""
        if len(self.callback_failures) < KEPT_FAILURES:
            self.callback_failures.append(error)
        self.callback_failure.set()

    def disconnected(self, reason: AcpError) -> None:
        """The agent has gone."""
        self.table.end_streams()
        self.elicitations.end()
        self.lost.set()
        self.conditions_changed()

    async def input_ends(self) -> None:
        """Nothing of the agent's is worth a wait: it has gone."""

    async def loss(self) -> AcpError:
        """Say why the input ended."""
        return await self._explain_loss()

    # Backpressure --------------------------------------------------------------------------------------

    def conditions_changed(self) -> None:
        """Have a paused read loop look again whether it may go on."""
        if self._room is not None:
            self._room.set()

    def pauses(self) -> bool:
        """Whether the only turn has more than enough to take."""
        if len(self._live) != 1:
            return False
        (turn,) = self._live
        return turn.buffer.above_soft_limit and self._turn_to_wait_for() is not None

    async def may_read(self) -> None:
        """Pause reading while the only turn has more than enough to take."""
        while (turn := self._turn_to_wait_for()) is not None:
            taken = turn.buffer.taken
            self._room = turn.buffer.expect_room()
            turn.reading_paused = True
            with trio.move_on_after(self.options.stall_timeout) as scope:
                await self._room.wait()
            self._room = None
            turn.reading_paused = False
            turn.active()
            if scope.cancelled_caught and turn.buffer.taken == taken:
                items, size = turn.buffer.items, turn.buffer.size
                turn.buffer.release()
                turn.fail(SlowConsumer(turn.session_id, items=items, size=size))

    def _turn_to_wait_for(self) -> RunningTurn | None:
        """Return the turn whose consumer may be waited for: only while nothing else could suffer from it."""
        if len(self._live) != 1 or self._closing:
            return None
        (turn,) = self._live
        if not turn.buffer.above_soft_limit:
            return None
        if turn.unattended:
            turn.buffer.drop()
            return None
        if (
            turn.body_running
            and not turn.cancel_requested
            and self.peer.core.outbound_count == 1
            and self.peer.core.inbound_count == 0
            # An agent that writes before it reads on must not be waited for while it keeps us waiting.
            and self.peer.outbox.size == 0
        ):
            return turn
        return None

    # Closing -------------------------------------------------------------------------------------------

    async def wind_down(self) -> None:
        """Refuse new calls, end turns and handlers, and write what is queued. Bounded; run it shielded."""
        self._closing = True
        self.peer.begin_close()
        turns = self.live_turns
        for turn in turns:
            turn.ask_cancel()
        self.conditions_changed()
        with trio.move_on_after(self.options.cancel_grace):
            for turn in turns:
                await turn.over.wait()
        for turn in turns:
            turn.abandon()
        self.end_handlers()
        with trio.move_on_after(self.options.shutdown_grace):
            await self._handlers_ended.wait()
        # A handler that does not unwind is answered for: the agent must not wait for it.
        self.peer.refuse_open(RequestCancelled("the client is closing the connection"))
        with trio.move_on_after(self.options.shutdown_grace):
            await self.peer.outbox.flush()

"""One client: the dispatcher in the read loop, the tasks that it starts, and the end of both."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, final

import trio

from trio_acp._cancellation import LoggedErrors, sole_error
from trio_acp._core import JunkLine
from trio_acp._errors import (
    AcpError,
    ConnectionClosed,
    ConnectionLost,
    InternalError,
    InvalidParams,
    RemoteProtocolError,
    RequestError,
    SchemaError,
)
from trio_acp._lanes import Lane, Lanes
from trio_acp._order import Lines, Ticket
from trio_acp._peer import IncomingRequest, Peer
from trio_acp._steps import written_together
from trio_acp.schema import CloseSessionRequest

from ._client import ClientLink, ConnectedClient
from ._handlers import Invocation
from ._methods import take_notification, take_request
from ._sessions import AgentSession

if TYPE_CHECKING:
    from ._live import LiveSession
    from ._spec import AppSpec

__all__ = ["AgentConnection"]

logger = logging.getLogger("trio_acp")

INPUT_END_GRACE: Final = 1.0
"""Seconds that running requests have, after the client has closed its end, to finish with an answer."""

FLUSH_GRACE: Final = 1.0
"""Seconds that the last answers have to be written in."""

CLOSE_GRACE: Final = 2.0
"""Seconds that the sessions have to be saved and closed in when the client has gone."""


@final
class AgentConnection:
    """One client, from its first byte to its last; the dispatcher of its peer.

    Args:
        spec: the app that serves it.
        stream: the way to it.
    """

    def __init__(self, spec: AppSpec, stream: trio.abc.Stream) -> None:
        self.spec = spec
        self.sessions: dict[str, LiveSession] = {}
        self.opening: dict[str, LiveSession] = {}
        self.leaving: list[LiveSession] = []
        """Sessions that are to be closed and whose ``on_close_session`` has not been called yet."""
        self.lines: Lines = Lines()
        self.initialize_received = False
        self.initialized = False
        self.notification_tasks: int = 0
        self._stream = stream
        self._nursery: trio.Nursery | None = None
        self._lanes: Lanes | None = None
        self._ending = False
        """The nursery may close at any moment, so the read loop starts nothing in it any more."""
        self._ended = trio.Event()
        self._reason: AcpError | None = None
        self._callback_error: BaseException | None = None
        self._running = 0
        self._idle: trio.Event | None = None
        self.peer: Peer = Peer(
            stream,
            self,
            answer_junk=True,
            max_junk_lines=None,
            max_message_bytes=spec.max_message_bytes,
            on_wire=spec.on_wire,
            redact_wire=spec.redact_wire,
        )
        self.link: ClientLink = ClientLink(self.peer)
        self.client: ConnectedClient = self.link.client

    async def serve(self) -> None:
        """Serve the client until it has gone.

        Raises:
            RemoteProtocolError: what it sent could not be read on, or it did not read.
        """
        failure: BaseException | None = None
        try:
            async with trio.open_nursery() as io:
                try:
                    async with trio.open_nursery() as tasks:
                        self._nursery = tasks
                        self._lanes = Lanes(tasks)
                        # Not by io.start: cancelled in it, the shielded peer could never be reached again.
                        io.start_soon(self.peer.run)
                        try:
                            await self._ended.wait()
                        finally:
                            self._ending = True
                            tasks.cancel_scope.cancel()
                finally:
                    await self._finish()  # noqa: ASYNC102 - each of its waits is shielded and bounded
        except BaseExceptionGroup as group:
            failure = sole_error(group)
        if failure is not None:
            # Raised out here, so that its context stays its own.
            raise failure
        if self._callback_error is not None:
            raise self._callback_error
        if isinstance(self._reason, RemoteProtocolError):
            raise self._reason

    async def _finish(self) -> None:
        """Let the last answers out, save and free the sessions, and close the stream; bounded."""
        try:
            with trio.move_on_after(FLUSH_GRACE, shield=True):
                await self.peer.outbox.flush()
            with trio.move_on_after(CLOSE_GRACE, shield=True) as scope:
                for live in [*self.sessions.values(), *self.leaving]:
                    await self.free_session(live)
            if scope.cancelled_caught:
                logger.warning("the sessions of a client that has gone were not closed in %g s", CLOSE_GRACE)
        finally:
            self.peer.stop()
            # Closing with grace would wait for a client that may not read.
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    async def free_session(self, live: LiveSession) -> None:
        """Do for a session what ``session/close`` does, where nobody waits for that answer."""
        live.closed = True
        if live.recorder is not None:
            await live.recorder.flush()
        if live in self.leaving:
            self.leaving.remove(live)
        handler = self.spec.handlers.get("on_close_session")
        if handler is not None:
            request = CloseSessionRequest(live.id)
            with LoggedErrors(logger, "the on_close_session handler failed for session %r", live.id):
                await handler(Invocation(self.client, request=request, session=AgentSession(live)))

    # Tasks -------------------------------------------------------------------------------------------

    def start_task(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something as a task whose messages are written together; the end of the input waits for it."""
        # From the read loop only before the end; from a task, which keeps the nursery open, always.
        assert self._nursery is not None
        self._running += 1
        self._nursery.start_soon(self._run, task)

    def start_turn(self, turn: Callable[[], Coroutine[Any, Any, None]]) -> Lane:
        """Do what `start_task` does in a cancel scope of the task's own; return what cancels it."""
        assert self._lanes is not None
        self._running += 1
        return self._lanes.start(self._run_in_lane, turn)

    async def _run_in_lane(self, lane: Lane, turn: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await written_together(turn(), self.peer.outbox)
        finally:
            self._ran()
        assert self._lanes is not None
        self._lanes.leave(lane)

    async def _run(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await written_together(task(), self.peer.outbox)
        finally:
            self._ran()

    def _ran(self) -> None:
        self._running -= 1
        if not self._running and self._idle is not None:
            self._idle.set()

    def serve_request(
        self,
        request: IncomingRequest,
        ticket: Ticket | None,
        work: Callable[[], Awaitable[Any]],
        after: Callable[[bool], None] | None = None,
    ) -> None:
        """Have a request answered by a task.

        Args:
            request: the request.
            ticket: its place among the requests of its session.
            work: makes the result, as JSON values.
            after: called when the answer has been queued, before anything else can be, with whether it was a
                result and can still be sent.
        """

        async def task() -> None:
            succeeded = False

            async def in_order() -> Any:
                nonlocal succeeded
                if ticket is not None:
                    await ticket.begin()
                await trio.lowlevel.checkpoint_if_cancelled()
                result = await work()
                succeeded = True
                return result

            try:
                await request.serve(in_order, failed)
            finally:
                if after is not None:
                    after(succeeded and self.peer.reason is None)

        def failed(error: Exception) -> None:
            if isinstance(sole_error(error), (ConnectionLost, ConnectionClosed)):
                logger.debug("a %s request ended with its client", request.method)
            else:
                logger.error("a %s request failed", request.method, exc_info=error)

        self.start_task(task)

    def close_soon(self, live: LiveSession) -> None:
        """Have a session closed that nobody waits for any more; to be called in a task.

        If the client goes before that is done, it is part of the end.
        """

        async def close() -> None:
            if live.turn is not None:
                await live.turn.wait_answered()
            await self.free_session(live)

        self.start_task(close)

    def start_notification(self, ticket: Ticket, method: str, work: Callable[[], Awaitable[Any]]) -> None:
        """Have a notification worked on by a task. What that raises is logged: nobody waits for an answer."""

        async def task() -> None:
            await ticket.begin()
            try:
                with LoggedErrors(logger, "the handler of %s failed", method):
                    await work()
            finally:
                self.notification_tasks -= 1

        self.start_task(task)
        self.notification_tasks += 1

    def start_watch(self, watch: Callable[[], Awaitable[None]]) -> None:
        """Watch a task that runs; nobody waits for the watcher when the client has closed its end."""
        assert self._nursery is not None
        self._nursery.start_soon(watch)

    # What arrives: called in the read loop -------------------------------------------------------------

    def request(self, request: IncomingRequest) -> None:
        """Answer a request, or start the task that does."""
        if self._ending:
            request.refuse(InternalError("the agent is shutting down; nothing new can be started"))
            return
        try:
            take_request(self, request)
        except SchemaError as error:
            request.refuse(InvalidParams(str(error)))
        except RequestError as error:
            request.refuse(error)

    def notification(self, method: str, params: dict[str, Any], size: int) -> None:
        """Act on a notification; what is unknown or malformed is dropped (W5)."""
        if self._ending:
            return
        try:
            take_notification(self, method, params)
        except (SchemaError, RequestError) as error:
            logger.warning("dropped a %s notification: %s", method, error)

    def junk(self, event: JunkLine) -> None:
        """Take note of a line that is no JSON; it has been answered (W4)."""
        logger.warning("the client sent a line that is %s", event.reason)

    def callback_failed(self, error: BaseException) -> None:
        """End the connection with the error that ``on_wire`` raised."""
        self._callback_error = error
        self._ended.set()

    def disconnected(self, reason: AcpError) -> None:
        """End everything: the client is gone."""
        self._reason = reason
        self.link.end_input()
        self._ended.set()

    async def loss(self) -> AcpError:
        """Say why the input ended."""
        return ConnectionLost("the client closed the connection")

    def pauses(self) -> bool:
        """Never: requests are bounded by the core, and nothing else is kept."""
        return False

    async def may_read(self) -> None:
        """Not awaited: see `pauses`."""

    async def input_ends(self) -> None:
        """Let what runs come to its end when the client has closed its end; it may still read the answers."""
        self.link.end_input()
        for live in list(self.sessions.values()):
            live.cancel()
        with trio.move_on_after(INPUT_END_GRACE):
            while self._running:
                self._idle = trio.Event()
                await self._idle.wait()

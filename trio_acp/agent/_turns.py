"""One turn: a prompt, its handler, and exactly one answer whatever becomes of it (T1, X2)."""

from __future__ import annotations

import contextvars
import logging
import math
from typing import TYPE_CHECKING, Any, final

import trio

from trio_acp._cancellation import sole_error, split_cancelled
from trio_acp._errors import ConnectionClosed, ConnectionLost, InternalError, RequestError
from trio_acp._peer import error_for_wire
from trio_acp.schema import PromptRequest, PromptResponse, StopReason

from ._context import PromptContext
from ._handlers import BoundHandler, call, to_wire
from ._sessions import AgentSession
from ._updates import Emitter, content_to_wire

if TYPE_CHECKING:
    from trio_acp._lanes import Lane
    from trio_acp._order import Ticket
    from trio_acp._peer import IncomingRequest

    from ._client import ConnectedClient
    from ._connection import AgentConnection
    from ._live import LiveSession
    from ._recording import Recorder

__all__ = ["Turn"]

logger = logging.getLogger("trio_acp")

TITLE_CHARACTERS = 80
"""Characters of the first prompt that stand in for a session's title in lists."""


@final
class Turn:
    """A prompt from its arrival to its answer, and what the call of its handler may ask for.

    Made in the read loop when the prompt arrives, so that a cancellation right behind it finds the turn.

    Args:
        connection: runs it.
        live: the session.
        incoming: the prompt, to be answered.
        request: the same, typed.
        handler: answers it.
        arguments: what follows the command's name, if the handler is that of a command.
        ticket: its place among the requests of the session.
        cancel_grace: seconds that a cancelled handler has before it is answered for.
    """

    def __init__(
        self,
        connection: AgentConnection,
        live: LiveSession,
        incoming: IncomingRequest,
        request: PromptRequest,
        handler: BoundHandler,
        arguments: str,
        ticket: Ticket,
        cancel_grace: float,
    ) -> None:
        self.live = live
        self.request = request
        self.arguments = arguments
        self.emitter: Emitter = Emitter(live)
        self.cancel_requested: bool = False
        self._incoming = incoming
        self._handler = handler
        self._ticket = ticket
        self._cancel_grace = cancel_grace
        self._connection = connection
        self._lane: Lane | None = None
        self._context: contextvars.Context | None = None
        self._decided = False
        self._answered = False
        self._answer_awaited: trio.Event | None = None
        self._session: AgentSession[Any] | None = None
        self._ctx: PromptContext | None = None

    # For the handler ---------------------------------------------------------------------------------

    @property
    def client(self) -> ConnectedClient:
        """The client."""
        return self.live.client

    @property
    def session(self) -> AgentSession[Any]:
        """The session, one object for the turn; most handlers never ask for it."""
        if self._session is None:
            self._session = AgentSession(self.live)
        return self._session

    @property
    def ctx(self) -> PromptContext:
        """The turn as its handler sees it, one object until the answer."""
        if self._ctx is None:
            self._ctx = PromptContext(self)
        return self._ctx

    # In the read loop --------------------------------------------------------------------------------

    def start(self) -> None:
        """Have the handler run, as a task with a cancel scope of its own."""
        start = self._connection.start_turn
        self._lane = start(self.run) if self._context is None else self._context.run(start, self.run)
        self.live.turn = self

    def wait_in_line(self) -> None:
        """Wait for the turn before this one, which starts it at its end."""
        self._ticket.pass_by()
        # Trio copies the context of whoever starts a task, which will be the turn before.
        self._context = contextvars.copy_context()
        self.live.queue.append(self)

    def cancel(self) -> None:
        """Cancel the turn (X2): idempotent, and without effect once the handler has returned."""
        if self.cancel_requested or self._decided:
            return
        self.cancel_requested = True
        if self._lane is None:
            self.live.queue.remove(self)
            self._answer(_stopped(StopReason.CANCELLED))
            return
        self._lane.cancel()
        self._connection.start_watch(self._answer_after_grace)

    # As a task ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the handler, and answer."""
        answer: dict[str, Any] | RequestError | None = None
        try:
            await self._ticket.begin()
            if not self.cancel_requested:
                if self.live.recorder is not None:
                    await self._record_prompt(self.live.recorder)
                result = await call(self._handler, self)
                # From here on a cancellation comes too late; one that came before makes the result moot.
                self._decided = True
                if not self.cancel_requested:
                    answer = self._read(result)
        except BaseException as error:  # noqa: ASYNC103 - what is swallowed is no cancellation
            self._decided = True
            cancellation, rest = split_cancelled(error)
            # Cancelled from without too: the agent itself is told to end.
            everything = cancellation is not None or trio.current_effective_deadline() == -math.inf
            answer = self._answer_for(rest, cancelled=self.cancel_requested or everything)
            if cancellation is not None and self.cancel_requested:
                await self._save()  # noqa: ASYNC102 - shielded and bounded in itself
            if not isinstance(rest, Exception):
                # The turn was cancelled, or the program ends; but the client gets its answer.
                self._answer(answer)
                raise
            if cancellation is not None:
                # What a handler raises of its own is for the log, and never ends the connection.
                self._answer(answer)
                raise cancellation from None  # noqa: ASYNC104 - the one that was in the group
        self._decided = True
        if self.live.recorder is not None:
            await self._save()
        self._answer(_stopped(StopReason.CANCELLED) if answer is None else answer)

    async def _save(self) -> None:
        """Save what the turn has told; for so long at most, whatever is cancelled around."""
        if self.live.recorder is not None and not self._answered:
            await self.live.recorder.flush_soon()

    def _read(self, result: Any) -> dict[str, Any]:
        """Turn what a handler returned into the answer."""
        match result:
            case None:
                # As _stopped makes it, but without asking the enumeration.
                return {"stopReason": "end_turn"}
            case StopReason():
                return _stopped(result)
            case str():
                if result:
                    self.emitter.text_nowait(result)
                return _stopped(StopReason.END_TURN)
            case PromptResponse():
                wire: dict[str, Any] = to_wire(result)
                return wire
            case _:
                raise TypeError(
                    f"a prompt handler returned {result!r:.100}; it may return None, a StopReason, a string "
                    "(the last message), or a PromptResponse"
                )

    def _answer_for(self, error: BaseException | None, *, cancelled: bool) -> dict[str, Any] | RequestError:
        """Decide what to answer when the handler raised; None stands for a cancellation."""
        if not isinstance(error, Exception):
            return _stopped(StopReason.CANCELLED)
        cause = sole_error(error)
        if cancelled:
            # Never an error for a cancellation, whatever came of it inside (X2).
            logger.info("a cancelled turn of session %r ended in an error", self.live.id, exc_info=cause)
            return _stopped(StopReason.CANCELLED)
        if isinstance(cause, (ConnectionLost, ConnectionClosed)):
            logger.debug("a turn of session %r ended with its client", self.live.id)
            return InternalError("the connection ended")
        wire_error = error_for_wire(error)
        if wire_error is not cause:
            logger.error("a turn of session %r failed", self.live.id, exc_info=cause)
        return wire_error

    def _answer(self, answer: dict[str, Any] | RequestError) -> None:
        """Queue the answer, behind all updates; free the session. Only the first one counts."""
        if self._answered:
            return
        self._answered = self._decided = True
        # It refers to the turn, and a circle would be left to the collector of garbage.
        self._ctx = None
        self.emitter.closed = "the turn has been answered; use the session for what is to be told later"
        if isinstance(answer, RequestError):
            self._incoming.refuse(answer)
        else:
            self._incoming.answer(answer)
        if self._answer_awaited is not None:
            self._answer_awaited.set()
        if self.live.turn is self:
            self.live.turn = None
            if self.live.queue:
                self.live.queue.popleft().start()

    async def wait_answered(self) -> None:
        """Return when the turn has its answer."""
        if self._answer_awaited is None:
            # Made when it is asked for: almost no turn is waited for.
            self._answer_awaited = trio.Event()
            if self._answered:
                self._answer_awaited.set()
        await self._answer_awaited.wait()

    async def _answer_after_grace(self) -> None:
        """Answer for a handler that does not end though it was cancelled."""
        with trio.move_on_after(self._cancel_grace):
            await self.wait_answered()
        if not self._answered:
            logger.warning(
                "a handler of session %r goes on %g s after its turn was cancelled; it was answered for",
                self.live.id,
                self._cancel_grace,
            )
            self._answer(_stopped(StopReason.CANCELLED))

    # The record --------------------------------------------------------------------------------------

    async def _record_prompt(self, recorder: Recorder) -> None:
        """Keep what the user said, before anything is done about it."""
        message_id = self.live.new_id("msg")
        for block in self.request.prompt:
            recorder.add(
                {
                    "sessionUpdate": "user_message_chunk",
                    "content": content_to_wire(block),
                    "messageId": message_id,
                }
            )
        if self.live.title is None and self.live.listed_title is None:
            self.live.listed_title = self._first_line()
        await recorder.flush()

    def _first_line(self) -> str | None:
        for block in self.request.prompt:
            text = getattr(block, "text", "")
            if isinstance(text, str) and text.strip():
                return text.strip().splitlines()[0].strip()[:TITLE_CHARACTERS]
        return None


def _stopped(reason: StopReason) -> dict[str, Any]:
    return {"stopReason": reason.value}

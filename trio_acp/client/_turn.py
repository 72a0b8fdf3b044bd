"""One turn of a conversation, as the application holds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, final
from weakref import WeakSet

import trio

from trio_acp._cancellation import only_cancelled, unwrapped
from trio_acp._errors import AcpError, fresh_copy
from trio_acp.schema import PlanEntry, PromptResponse, SessionUpdate, StopReason, UsageUpdate

from ._outcome import choose_outcome, leave_block
from ._running import RunningTurn
from ._snapshots import Message, ToolCallState

__all__ = ["Turn"]


@final
class Turn:
    """One prompt and everything that the agent does about it (T1, T2, X1); made by `Session.prompt`.

    Use it as an async context manager, and iterate over it for the updates::

        async with session.prompt("explain this function") as turn:
            async for update in turn:
                ...
        print(turn.stop_reason, turn.text)

    The block is a nursery for everything that runs on the turn's behalf. Leaving it normally, ``break``
    included, waits for the end of the turn. Cancelling it, by ``cancel_scope`` or by any scope around it, or
    an exception in its body, unwinds the body at once; then ``session/cancel`` is sent and the end awaited,
    shielded, for at most ``cancel_grace`` seconds. The session can go on afterwards in every case.

    Each update is checked against cancellation, but other tasks get to run only every 100 updates or 5 ms,
    whichever comes first.

    Raises from the block:
        SessionBusy: on entering, when the session has a running turn; nothing was sent.
        CapabilityError: on entering, when the content needs what the agent does not offer; nothing was sent.
        LocalProtocolError, SchemaError: on entering, when the session was closed, or there is no content, or
            some that cannot be sent; nothing was sent.
        RequestError: the agent answered the prompt with an error. (After a cancellation that is a normal
            end.)
        ConnectionLost, ConnectionClosed: the connection ended first; `AgentExited` when the process did.
        PermissionTimeout: a permission handler did not decide in time.
        SlowConsumer: the updates were not taken; the turn was cancelled.
        trio.TooSlowError: ``idle_timeout`` passed without any activity.
        Exception: what a permission handler or ``on_update`` raised, as itself.
    """

    def __init__(self, begin: Callable[[], Any], session_id: str) -> None:
        self._begin = begin
        self._session_id = session_id
        self._run: RunningTurn | None = None
        self._manager: Any = None
        self._told: WeakSet[AcpError] | None = None
        """The agent's error as it was given to those who wait or iterate, a copy for each. The block's exit
        need not give it again, and knows it when the body passes it on."""

    def __repr__(self) -> str:
        run = self._run
        state = (
            "not entered"
            if run is None
            else "abandoned"
            if run.abandoned
            else f"ended: {run.stop_reason}"
            if run.over.is_set()
            else "being cancelled"
            if run.cancel_requested
            else "running"
        )
        return f"<Turn of session {self._session_id!r}: {state}>"

    # What is known -------------------------------------------------------------------------------------

    def _entered(self) -> RunningTurn:
        if self._run is None:
            raise RuntimeError("enter the turn first: async with session.prompt(...) as turn")
        return self._run

    @property
    def session_id(self) -> str:
        """The session that it is a turn of."""
        return self._session_id

    @property
    def cancel_scope(self) -> trio.CancelScope:
        """Cancelling it unwinds the block's body and sends ``session/cancel``."""
        return self._entered().scope

    @property
    def stop_reason(self) -> StopReason | str | None:
        """Why the turn ended (T3); None while it runs, and when it was abandoned."""
        return self._entered().stop_reason

    @property
    def text(self) -> str:
        """The agent's message text so far, without thoughts and tool output."""
        return self._entered().transcript.text

    @property
    def messages(self) -> Sequence[Message]:
        """The messages so far, thoughts among them, each put together from its chunks (T5)."""
        return self._entered().transcript.messages

    @property
    def tool_calls(self) -> dict[str, ToolCallState]:
        """The tool calls of this turn by id, each merged from all that was told about it (T4)."""
        return self._entered().transcript.tool_calls

    @property
    def plan(self) -> Sequence[PlanEntry] | None:
        """The newest plan of this turn; None if there was none."""
        return self._entered().transcript.plan

    @property
    def usage(self) -> UsageUpdate | None:
        """The newest report on context and cost in this turn; None if there was none."""
        return self._entered().transcript.usage

    @property
    def response(self) -> PromptResponse | None:
        """The agent's answer to the prompt: its ``meta``, and in ``extra`` what the protocol does not name.

        None while the turn runs, and when the answer was an error.
        """
        return self._entered().response

    @property
    def cancel_requested(self) -> bool:
        """This side has asked the agent to cancel, whatever the agent made of it."""
        return self._entered().cancel_requested

    @property
    def abandoned(self) -> bool:
        """The agent did not end the cancelled turn within ``cancel_grace`` seconds."""
        return self._entered().abandoned

    # What can be done ----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Press the stop button: ask the agent to end the turn, and let the iteration go on to its end.

        Synchronous and idempotent; nothing happens after the end. Open permission requests are answered
        ``cancelled`` (X1). If the agent does not end the turn within ``cancel_grace`` seconds, the
        iteration ends all the same, with ``abandoned`` true.

        Raises:
            RuntimeError: called from another thread; use `trio.from_thread.run_sync`.
        """
        run = self._entered()
        run.host.check_here()
        run.ask_cancel()

    async def wait(self) -> StopReason | str | None:
        """Wait for the end of the turn without iterating, and return its stop reason.

        Any number of tasks may wait; each gets the error, if there is one, as an object of its own.

        Updates are folded into the properties of the turn. Those that can be kept can be iterated over
        afterwards; where nobody iterates and too many wait, they are dropped, which is no error.

        Cancellation: only the waiting ends. In the block's body, the cancellation then ends the turn.

        Raises:
            RequestError, ConnectionLost, ConnectionClosed: see the class.
        """
        run = self._entered()
        task = trio.lowlevel.current_task()
        run.waiters.append(task)
        try:
            run.host.conditions_changed()
            await run.over.wait()
        finally:
            run.waiters.remove(task)
        if run.error is not None:
            raise self._tell(run.error)
        return run.stop_reason

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> SessionUpdate:
        """Return the next update.

        Raises:
            trio.BusyResourceError: another task is iterating.
            RequestError, ConnectionLost, ConnectionClosed: see the class; after the last update.
        """
        run = self._run or self._entered()
        await trio.lowlevel.checkpoint_if_cancelled()
        update = run.buffer.take_nowait()
        if update is not None:
            return update
        try:
            return await run.buffer.take()
        except trio.EndOfChannel:
            pass
        if run.error is not None and run.body_running and self._told is None:
            raise self._tell(run.error)
        raise StopAsyncIteration

    def _tell(self, error: AcpError) -> AcpError:
        """Return the agent's error for one who is to raise it."""
        if self._told is None:
            self._told = WeakSet()
        fresh = fresh_copy(error)
        self._told.add(fresh)
        return fresh

    # The block -----------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Turn:
        if self._run is not None:
            raise RuntimeError("a turn can be entered once; call session.prompt again")
        run: RunningTurn = await self._begin()
        # From the sending of the prompt to here there is no checkpoint: whatever comes finds it all ready.
        self._run = run
        run.scope.__enter__()
        self._manager = trio.open_nursery()
        run.nursery = nursery = await self._manager.__aenter__()
        nursery.start_soon(run.watch)
        run.body_running = True
        return self

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        run = self._entered()
        assert run.nursery is not None
        run.body_running = False
        run.buffer.release()
        outcome = exc
        if outcome is None:
            try:
                await run.over.wait()  # noqa: ASYNC102 - shielded and bounded in itself
            except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
                outcome = error
        if outcome is not None:
            if only_cancelled(outcome):
                run.unwind()
            run.ask_cancel()
            outcome = await self._wait_shielded(run, outcome)  # noqa: ASYNC102 - shielded and bounded in itself
        run.nursery.cancel_scope.cancel()
        try:
            await self._manager.__aexit__(None, None, None)  # noqa: ASYNC102 - shielded and bounded in itself
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            # A cancellation, or a Ctrl-C that came meanwhile: what handlers raised was collected.
            left = unwrapped(error)
            if outcome is None or not only_cancelled(left):
                left.__context__ = outcome
                outcome = left
        told = self._told
        error_of_agent = run.error if told is None else outcome if outcome in told else None
        outcome = choose_outcome(outcome, run.callbacks, run.verdict, error_of_agent)
        return leave_block(run.scope, exc, outcome)

    async def _wait_shielded(self, run: RunningTurn, outcome: BaseException) -> BaseException:
        """Wait for the end that the agent was asked for. Bounded: the watcher abandons the turn in time."""
        with trio.CancelScope(shield=True):
            try:
                await run.over.wait()
            except KeyboardInterrupt as interrupt:
                # Somebody presses Ctrl-C again: no more patience with the agent.
                run.abandon()
                return interrupt
        return outcome

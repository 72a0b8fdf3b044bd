"""The events of a run while it goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, final

import trio

from trio_acp._cancellation import only_cancelled, unwrapped
from trio_acp._nesting import Inside
from trio_acp.client import Done, ErrorEvent

from ._result import RunEvent, RunResult
from ._run import Emit

__all__ = ["RunStream"]


@final
class RunStream:
    """A run as a stream of events; made by `InProcessClient.stream`.

    Use it as an async context manager, and iterate over it. The last event is a `Done` with the `RunResult`,
    or an `ErrorEvent`, after which the iteration raises that error.

    The run is a child task of the block, and waits for the consumer at every event: nothing piles up here.
    Leaving the block before the end cancels the run, what its model call does about that included. A call of
    the same conversation in its body would wait for itself, so it raises `SessionBusy`.
    """

    def __init__(self, drive: Callable[[Emit], Awaitable[RunResult]], inside: Inside) -> None:
        self._drive = drive
        self._inside = inside
        self._manager: Any = None
        self._nursery: trio.Nursery | None = None
        self._receive: trio.MemoryReceiveChannel[RunEvent] | None = None
        self._error: Exception | None = None
        self._told = False

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> RunStream:
        if self._manager is not None:
            raise RuntimeError("a stream can be entered once; call stream again")
        # No room in between: the model, or the turn behind it, has a buffer with a limit of its own.
        send, self._receive = trio.open_memory_channel[RunEvent](0)
        self._manager = trio.open_nursery()
        nursery: trio.Nursery = await self._manager.__aenter__()
        self._nursery = nursery
        self._inside.enter()
        nursery.start_soon(self._work, send)
        return self

    async def _work(self, send: trio.MemorySendChannel[RunEvent]) -> None:
        with send:
            try:
                result = await self._drive(send.send)
            except Exception as error:
                self._error = error
                await send.send(ErrorEvent(error))
            else:
                await send.send(Done(result))

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._nursery is not None
        assert self._receive is not None
        self._inside.leave()
        self._nursery.cancel_scope.cancel()
        try:
            # Not given what the block raises, so that it leaves as itself and not in a group.
            # It waits as long as the model needs to end, as any nursery does.
            await self._manager.__aexit__(None, None, None)  # noqa: ASYNC102
        except BaseException as error:  # noqa: ASYNC103 - what goes on instead is real
            left = unwrapped(error)
            if exc is None or not only_cancelled(left):
                raise left from None  # noqa: ASYNC104 - the cancellation itself, where there is no more
        finally:
            self._receive.close()
        if self._error is None or self._told:
            return
        if exc is None or isinstance(exc, trio.Cancelled):
            raise self._error
        if exc.__context__ is None:
            exc.__context__ = self._error

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> RunEvent:
        """Return the next event.

        Raises:
            Exception: what the run failed with, after its `ErrorEvent`.
        """
        if self._receive is None:
            raise RuntimeError("enter the stream first: async with client.stream(...) as events")
        try:
            event = await self._receive.receive()
        except trio.EndOfChannel:
            if self._error is not None:
                raise self._error from None
            raise StopAsyncIteration from None
        self._told = self._told or isinstance(event, ErrorEvent)
        return event

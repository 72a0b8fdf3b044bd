"""Ctrl-C: once to cancel the turn, twice to leave."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, final

import trio

__all__ = ["Interrupts"]

LEAVE_PATIENCE: Final = 0.25
"""Seconds that each step of leaving may take after the second Ctrl-C: a polite agent needs no more."""


@final
class Interrupts:
    """Gives the first Ctrl-C of the block to a function; from the second on, Trio has them as ever.

    Trio raises KeyboardInterrupt in the main task. Leaving then takes some steps with an agent that is not
    polite (end of the turn, end of the process), and each would wait for one more Ctrl-C: they come by
    themselves, every `LEAVE_PATIENCE` seconds.

    Enter it in the main task. Where Trio does not mind Ctrl-C (not in the main thread, or the signal is
    ignored) it does nothing.

    Args:
        first: called in the main thread between two steps of tasks; tells whether there was something to
            cancel.
    """

    def __init__(self, first: Callable[[], bool]) -> None:
        self._first = first
        self._pressed = 0
        self._before: Any = None
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope()

    def __enter__(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._press)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scope.cancel()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self._pressed += 1
        if self._pressed == 1:
            self._token.run_sync_soon(self._first_press)
        else:
            if self._pressed == 2:
                self._token.run_sync_soon(self._leave)
            self._before(number, frame)

    def _first_press(self) -> None:
        if not self._first():
            signal.raise_signal(signal.SIGINT)

    def _leave(self) -> None:
        trio.lowlevel.spawn_system_task(self._insist)

    async def _insist(self) -> None:
        with self._scope:
            while True:
                await trio.sleep(LEAVE_PATIENCE)
                signal.raise_signal(signal.SIGINT)

"""Ctrl-C: once to cancel the turn, twice to leave. The end of the terminal and a polite kill: leave."""

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


_POLITE_KILLS: Final = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@final
class Interrupts:
    """Gives the first Ctrl-C of the block to a function; from the second on, Trio has them as ever.

    Trio raises KeyboardInterrupt in the main task. Leaving then takes some steps with an agent that is not
    polite (end of the turn, end of the process), and each would wait for one more Ctrl-C: they come by
    themselves, every `LEAVE_PATIENCE` seconds.

    SIGTERM and SIGHUP are as good as a second Ctrl-C, so that no agent is left behind by them.

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
        self._others: dict[int, Any] = {}
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope()

    def __enter__(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._press)
            for number in _POLITE_KILLS:
                self._others[number] = signal.signal(number, self._terminate)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scope.cancel()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            for number, handler in self._others.items():
                signal.signal(number, handler)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._pressed = max(self._pressed, 1)
        self._press(number, frame)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self._pressed += 1
        if self._pressed == 1:
            self._token.run_sync_soon(self._first_press)
        elif self._pressed == 2:
            self._token.run_sync_soon(self._leave)
            # Without a frame, Trio raises it in the main task, and not in whatever task is running now.
            self._before(signal.SIGINT, None)
        else:
            self._before(signal.SIGINT, frame)

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

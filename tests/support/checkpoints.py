"""Something happens to a program at each of its checkpoints in turn: a cancellation, a Ctrl-C."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from trio_acp.testing import AtStep

__all__ = ["AtStep", "every_step", "press_ctrl_c"]


def press_ctrl_c() -> None:
    """Press Ctrl-C where Trio itself runs, so that it raises KeyboardInterrupt in the main task."""
    trio.lowlevel.current_trio_token().run_sync_soon(signal.raise_signal, signal.SIGINT)


def every_step(run: Callable[[int], Awaitable[bool]], *, stride: int = 1, first: int = 1) -> int:
    """Run a program over and over under a virtual clock; return how often it was hit.

    Args:
        run: runs the program once, has something happen to it after that many steps, and returns whether it
            came to that.
        stride: steps between two runs.
        first: step of the first run.
    """
    for hits, step in enumerate(itertools.count(first, stride)):

        async def bounded(step: int = step) -> bool:
            with trio.fail_after(100_000):
                return await run(step)

        try:
            if not trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0)):
                return hits
        except KeyboardInterrupt:
            pass  # pressed in the very last steps: Trio raises it when all is over
    raise AssertionError

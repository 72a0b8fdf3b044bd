"""Cancelling a function at each of its checkpoints in turn."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

import trio

__all__ = ["DEFAULT_MAX_RUNS", "AtStep", "cancel_at_every_checkpoint"]

DEFAULT_MAX_RUNS: Final = 10_000
"""Runs after which a function counts as one that never comes to its end."""


@final
class AtStep(trio.abc.Instrument):
    """Calls a function when the tasks of a run have made so many steps since it was armed.

    A step of a task ends at a checkpoint that lets others run, so this is every moment at which anything can
    come in between: a cancellation, a Ctrl-C, a closed connection.

    Args:
        step: how many steps; 1 for the first one that ends after arming.
        action: what is called then, in Trio's loop: it must not raise.
        root: count only the steps of this task and of the tasks below it, those in nurseries that were open
            before arming left out; None for all tasks.

    Attributes:
        fired: the moment has come.
    """

    def __init__(
        self, step: int, action: Callable[[], object], *, root: trio.lowlevel.Task | None = None
    ) -> None:
        self._left = step
        self._action = action
        self._root = root
        self._outside: list[trio.Nursery] = []
        self._armed = False
        self.fired: bool = False

    def arm(self) -> None:
        """Begin to count."""
        self._armed = True
        if self._root is not None:
            self._outside = self._root.child_nurseries.copy()
        trio.lowlevel.add_instrument(self)

    def disarm(self) -> None:
        """Count no more."""
        if self._armed:
            self._armed = False
            trio.lowlevel.remove_instrument(self)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a step; called by Trio."""
        if self._root is not None and not self._is_below(task, self._root):
            return
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self.disarm()
            self._action()

    def _is_below(self, task: trio.lowlevel.Task, root: trio.lowlevel.Task) -> bool:
        while task is not root:
            nursery = task.parent_nursery
            if nursery is None or nursery in self._outside:
                return False
            task = nursery.parent_task
        return True


async def cancel_at_every_checkpoint(
    async_fn: Callable[[], Awaitable[object]],
    *,
    check: Callable[[], Any] | None = None,
    first: int = 1,
    stride: int = 1,
    max_runs: int = DEFAULT_MAX_RUNS,
) -> int:
    """Run a function again and again, and cancel it at a later checkpoint each time.

    The first run is cancelled at the first point at which it, or a task below it, lets other tasks run, the
    second one at the second, and so on, until a run comes to its end before its cancellation. Use it with
    `trio.testing.MockClock`, so that no run takes time::

        async def test_save_is_atomic(autojump_clock):
            await cancel_at_every_checkpoint(save, check=file_is_old_or_new)

    A cancellation that only ends the function is what is wanted; anything that it raises instead is a
    failure, and has a note that says at which checkpoint.

    Cancellation: a cancellation from outside ends it like any other function.

    Args:
        async_fn: called without arguments; has to do the same in every run.
        check: called after every run, the last one included; it may be async. Assert here what has to hold.
        first: checkpoint of the first run.
        stride: checkpoints between two runs; more than 1 for long functions.
        max_runs: runs after which it is given up.

    Returns:
        How many runs were cancelled.

    Raises:
        AssertionError: there were ``max_runs`` runs, and none of them came to its end.
        Exception: whatever the function or the check raised.
    """
    for run in range(max_runs):
        step = first + run * stride
        scope = trio.CancelScope()
        moment = AtStep(step, scope.cancel, root=trio.lowlevel.current_task())
        moment.arm()
        try:
            with scope:
                await async_fn()
            moment.disarm()
            if check is not None:
                checked = check()
                if inspect.isawaitable(checked):
                    await checked
        except BaseException as error:
            if moment.fired and not isinstance(error, trio.Cancelled):
                error.add_note(f"cancelled at checkpoint {step}")
            raise
        finally:
            moment.disarm()
        if not moment.fired:
            return run
    raise AssertionError(f"after {max_runs} runs the function still has checkpoints; give a larger stride")

"""What holds for every test: nothing hangs, nothing is left behind."""

from __future__ import annotations

import functools
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import hypothesis
import pytest
import trio

from trio_acp.testing import assert_nothing_left

HANG_GUARD_SECONDS = 60.0
"""Real seconds after which a test is a hang. Real, not the test clock's: a `MockClock` that stands still
would never get there, and one that jumps would be there at once."""

SLOW_FACTOR = 3
"""How much longer a test may take that is marked slow: it is bound by the machine, not by waiting."""

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, max_examples=200)
hypothesis.settings.register_profile("long", deadline=None, print_blob=True, max_examples=5000)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev")
)


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what is to run in the background so, and children inherit it: no test of Ctrl-C could pass.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# --- No test hangs ------------------------------------------------------------------------------------


def _guarded(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def guarded(*args: Any, **kwargs: Any) -> None:
        scope = trio.CancelScope()
        token = trio.lowlevel.current_trio_token()

        def ring() -> None:
            try:
                token.run_sync_soon(scope.cancel)
            except trio.RunFinishedError:
                pass  # the test ended in this very moment

        timer = threading.Timer(seconds, ring)
        timer.daemon = True
        timer.start()
        try:
            with scope:
                await test(*args, **kwargs)
        finally:
            timer.cancel()
        if scope.cancelled_caught:
            raise trio.TooSlowError(f"the test hung for {seconds} s")

    return guarded


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Wrap every coroutine test, so that no fixture has to be named for the guard to work."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        slow = item.get_closest_marker("slow") is not None
        seconds = HANG_GUARD_SECONDS * (SLOW_FACTOR if slow else 1)
        inner = getattr(item.obj, "hypothesis", None)
        if inner is not None:
            # Parametrized tests share one inner test: wrap it once.
            if inspect.iscoroutinefunction(inner.inner_test) and not hasattr(inner.inner_test, "__wrapped__"):
                inner.inner_test = _guarded(inner.inner_test, seconds)
        elif inspect.iscoroutinefunction(item.obj):
            item.obj = _guarded(item.obj, seconds)


# --- No test leaves something behind -------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test after which a child process, a descriptor or a thread is there that was not before.

    Tasks need no check: Trio's run does not end before they do. Trio's idle worker threads are daemons.
    """
    with assert_nothing_left():
        yield

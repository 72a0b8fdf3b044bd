"""Cancelling at every checkpoint finds what breaks there; nothing that is left stays unseen."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import trio

from trio_acp.testing import AtStep, LeftBehind, assert_nothing_left, cancel_at_every_checkpoint


async def test_a_function_is_cancelled_once_at_each_of_its_checkpoints() -> None:
    reached: list[int] = []

    async def three() -> None:
        reached.append(0)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            reached[-1] += 1

    assert await cancel_at_every_checkpoint(three, check=lambda: None) == 3
    assert reached == [0, 1, 2, 3]


async def test_checkpoints_of_tasks_below_count_and_those_of_others_do_not() -> None:
    async def child() -> None:
        await trio.lowlevel.checkpoint()

    async def parent() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    async def busy() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    alone = await cancel_at_every_checkpoint(parent)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy)
        assert await cancel_at_every_checkpoint(parent) == alone >= 3
        nursery.cancel_scope.cancel()


async def test_a_state_that_a_cancellation_leaves_broken_is_found_with_its_place() -> None:
    state = {"a": 0, "b": 0}

    async def move() -> None:
        state["a"] += 1
        await trio.lowlevel.checkpoint()
        state["b"] += 1

    def balanced() -> None:
        assert state["a"] == state["b"]

    with pytest.raises(AssertionError) as caught:
        await cancel_at_every_checkpoint(move, check=balanced)
    assert caught.value.__notes__ == ["cancelled at checkpoint 1"]


async def test_the_check_may_be_async_and_steps_may_be_skipped() -> None:
    checks = 0

    async def check() -> None:
        nonlocal checks
        await trio.lowlevel.checkpoint()
        checks += 1

    async def ten() -> None:
        for _ in range(10):
            await trio.lowlevel.checkpoint()

    assert await cancel_at_every_checkpoint(ten, check=check, first=2, stride=3) == 3
    assert checks == 4


async def test_what_a_function_raises_by_itself_is_raised_as_it_is() -> None:
    async def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError) as caught:
        await cancel_at_every_checkpoint(fail)
    assert not hasattr(caught.value, "__notes__")


async def test_a_failing_check_has_no_note_when_nothing_was_cancelled() -> None:
    async def nothing() -> None: ...

    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError) as caught:
        await cancel_at_every_checkpoint(nothing, check=fail)
    assert not hasattr(caught.value, "__notes__")


async def test_a_cancellation_from_outside_goes_through() -> None:
    with trio.move_on_after(0) as scope:
        await cancel_at_every_checkpoint(trio.sleep_forever, first=1000)
    assert scope.cancelled_caught


async def test_a_function_without_end_is_given_up() -> None:
    with pytest.raises(AssertionError, match="after 5 runs"):
        await cancel_at_every_checkpoint(trio.sleep_forever, max_runs=5, stride=0)


async def test_an_instrument_that_was_not_armed_is_disarmed_in_peace() -> None:
    moment = AtStep(1, lambda: None)
    moment.disarm()
    moment.arm()
    await trio.lowlevel.checkpoint()
    assert moment.fired


def test_nothing_left_is_no_error_within_a_run_and_outside() -> None:
    async def main() -> None:
        with assert_nothing_left():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 0)

    trio.run(main)
    with assert_nothing_left():
        os.close(os.open(os.devnull, os.O_RDONLY))
    # Imports open files whenever they like.
    with open(__file__, "rb"), assert_nothing_left():
        pass


async def test_a_task_that_is_left_is_named() -> None:
    async def straggler() -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with pytest.raises(LeftBehind, match=r"tasks.*straggler"), assert_nothing_left():
            nursery.start_soon(straggler)
        nursery.cancel_scope.cancel()


def test_descriptors_threads_and_processes_that_are_left_are_named_unless_allowed() -> None:
    gate = threading.Event()
    fds: list[Any] = []

    def leave_descriptor() -> None:
        fds.extend(os.pipe())

    thread = threading.Thread(target=gate.wait, name="lingering")
    try:
        with pytest.raises(LeftBehind, match=r"descriptors.*pipe"), assert_nothing_left():
            leave_descriptor()
        with pytest.raises(LeftBehind, match=r"threads.*lingering"), assert_nothing_left():
            thread.start()
        with assert_nothing_left(allowed=["pipe:"]):
            leave_descriptor()
    finally:
        gate.set()
        thread.join()
        for fd in fds:
            os.close(fd)
    with pytest.raises(LeftBehind, match="child processes"), assert_nothing_left():
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.communicate()


def test_a_block_that_raises_is_not_judged_as_well() -> None:
    fds: list[int] = []
    with pytest.raises(KeyError), assert_nothing_left():
        fds.extend(os.pipe())
        raise KeyError
    for fd in fds:
        os.close(fd)

"""Work whose messages are written together: once for each step, before it waits."""

from __future__ import annotations

import types
from collections.abc import Generator
from typing import Any

import pytest
import trio
import trio.testing

from trio_acp._steps import written_together


class Log:
    """Notes when messages were held, when released, and what came in between."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def hold(self) -> None:
        self.events.append("hold")

    def release(self) -> None:
        self.events.append("release")


async def test_what_is_done_between_two_waits_is_held_and_then_released() -> None:
    log = Log()

    async def work() -> str:
        log.events.append("one")
        log.events.append("two")
        await trio.lowlevel.checkpoint()
        log.events.append("three")
        return "result"

    assert await written_together(work(), log) == "result"
    assert log.events == ["hold", "one", "two", "release", "hold", "three", "release"]


async def test_an_exception_of_the_work_is_raised_after_the_release() -> None:
    log = Log()

    async def work() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        await written_together(work(), log)
    assert log.events == ["hold", "release"]


async def test_a_cancellation_arrives_in_the_work() -> None:
    log = Log()

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.events.append("unwound")

    async with trio.open_nursery() as nursery:

        async def task() -> None:
            await written_together(work(), log)

        nursery.start_soon(task)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert log.events == ["hold", "release", "hold", "unwound", "release"]


@types.coroutine
def wait_for_something_else() -> Generator[Any, Any, None]:
    """What a library for another kind of loop awaits."""
    yield "not for Trio"


async def test_what_trio_says_about_a_foreign_wait_arrives_in_the_work() -> None:
    log = Log()

    async def work() -> str:
        try:
            await wait_for_something_else()
        except TypeError:
            log.events.append("told")
        await trio.lowlevel.checkpoint()
        return "went on"

    assert await written_together(work(), log) == "went on"
    assert log.events == ["hold", "release", "hold", "told", "release", "hold", "release"]


def test_work_that_is_given_up_is_closed() -> None:
    log = Log()

    async def work() -> None:
        try:
            await wait_for_something_else()
        finally:
            log.events.append("closed")

    steps: Any = written_together(work(), log)
    steps.send(None)
    steps.close()
    assert log.events == ["hold", "release", "hold", "closed", "release"]

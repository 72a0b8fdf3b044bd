"""Coroutines whose messages are written once a step, not one by one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Protocol, TypeVar

__all__ = ["Holding", "written_together"]

T = TypeVar("T")


class Holding(Protocol):
    """What keeps messages for a while: an `Outbox`."""

    def hold(self) -> None:
        """Keep what is sent from now on."""

    def release(self) -> None:
        """Send what was kept."""


@coroutine
def written_together(work: Coroutine[Any, Any, T], holding: Holding) -> Generator[Any, Any, T]:
    """Await a coroutine; what it sends between two of its waits is held and then written together.

    It steps the coroutine by hand, which is what ``await`` does too, so as to know when it is about to wait:
    nothing can be written later than that, and nothing need be written before. Tasks that it starts are not
    held.
    """
    step: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        holding.hold()
        try:
            trap = step(value)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            holding.release()
        try:
            value = yield trap
            step = work.send
        except BaseException as error:  # noqa: ASYNC103 - given to the one that it is for
            value, step = error, work.throw

"""Calls that would wait for their own caller: known by their context, and refused before they hang.

A call of a conversation waits for the calls before it. From inside such a call, by a handler or a tool that
works for it or in the block that takes its events, that wait would have no end.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator
from typing import final

__all__ = ["Inside", "is_inside"]


_around: contextvars.ContextVar[tuple[Inside, ...]] = contextvars.ContextVar("trio_acp_around", default=())
"""What the current task is inside of, outermost first. Tasks inherit it, and so do the handlers of a turn."""

_taker: contextvars.ContextVar[Inside | None] = contextvars.ContextVar("trio_acp_taker", default=None)
"""The block that takes the events of the call that is about to begin; set for that moment."""


@final
class Inside:
    """The inside of a call: its block, and every task that works for it.

    Attributes:
        calls: the calls that come to their end only when those inside go on.
    """

    __slots__ = ("_token", "calls")

    def __init__(self, *calls: object) -> None:
        self.calls: set[object] = set(calls)
        self._token: contextvars.Token[tuple[Inside, ...]] | None = None

    def enter(self) -> None:
        """The current task is inside from now on; `leave` has to follow."""
        self._token = _around.set((*_around.get(), self))

    def leave(self) -> None:
        """The current task is outside again."""
        assert self._token is not None
        _around.reset(self._token)

    @contextlib.contextmanager
    def taking(self) -> Generator[None, None, None]:
        """A block in which a call begins whose events are taken in here, though it is made elsewhere."""
        token = _taker.set(self)
        try:
            yield
        finally:
            _taker.reset(token)

    @contextlib.contextmanager
    def of_taker(self) -> Generator[None, None, None]:
        """A block that lasts as long as this call: who takes its events is inside of it, too."""
        taker = _taker.get()
        if taker is None:
            yield
            return
        # For this call alone: what its handlers begin is none of the taker's.
        _taker.set(None)
        new = self.calls - taker.calls
        taker.calls |= new
        try:
            yield
        finally:
            taker.calls -= new


def is_inside(call: object) -> bool:
    """Tell whether the current task is inside of a call, whose end it must not wait for."""
    return any(call in inside.calls for inside in _around.get())

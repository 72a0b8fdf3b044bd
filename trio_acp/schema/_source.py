"""Decoders as Python source: what the nodes write down of themselves, and how it becomes a function.

What a general decoder would look up for each field of each object is in the source, and what stands within
an object is decoded in place. A permission request with its seven objects is decoded by two functions, and
with a call for each object, list and constructor took 1.6 times as many instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Misfit", "Source"]


class Misfit(Exception):
    """The fast path met something that the slow path has to look at. Never leaves this package."""


_SCOPE: Final[dict[str, Any]] = {
    "Misfit": Misfit,
    "new": object.__new__,
    "inf": math.inf,
    "largest": int(1.7976931348623157e308),
}


class Source:
    """The source of one decoder.

    Each level of nesting has one variable, ``v0`` outermost. What a node writes for a level finds the raw
    value in the variable of that level and leaves the decoded one there.

    Attributes:
        depth: how many objects are being written, one within the other.
    """

    def __init__(self) -> None:
        self.depth = 0
        self._lines = ["def take(v0):"]
        self._margin = "    "
        self._scope = dict(_SCOPE)

    @property
    def is_deep(self) -> bool:
        """Whether one more object within these gets a function of its own.

        Three are enough for all that is frequent, and classes that hold others many times over stay small.
        """
        return self.depth == 3

    def line(self, text: str) -> None:
        self._lines.append(self._margin + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Indent what is written meanwhile; it may be nothing."""
        self.line(head)
        margin = self._margin
        self._margin += "    "
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._margin = margin

    def bind(self, value: Any) -> str:
        """Return the name by which the source knows a value."""
        name = f"g{len(self._scope)}"
        self._scope[name] = value
        return name

    def compiled(self, what: str) -> Callable[[Any], Any]:
        """Return the decoder.

        Args:
            what: what it decodes, for tracebacks.
        """
        self.line("return v0")
        # Nothing in the source is a peer's: names of attributes and wire names of this package, quoted.
        exec(compile("\n".join(self._lines), f"<decoder of {what}>", "exec"), self._scope)
        take: Callable[[Any], Any] = self._scope["take"]
        return take

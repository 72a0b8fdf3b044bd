"""Plain text, for pipes and files, and for terminals without rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO, final

__all__ = ["PlainOutput"]


@final
class PlainOutput:
    """Writes text without any style.

    Args:
        stream: where to.
        to_terminal: a person sees it at once.
    """

    shows_activity = False

    def __init__(self, stream: TextIO, *, to_terminal: bool) -> None:
        self._stream = stream
        self.to_terminal = to_terminal

    def mark(self, status: str) -> str:
        """Return a status as a word in brackets."""
        return f"[{status.replace('_', ' ')}]"

    def write(self, text: str, style: str) -> None:
        """Write text at once, so that what reads it sees it as it comes."""
        self._stream.write(text)
        self._stream.flush()

    def activity(self, titles: Sequence[str]) -> None:
        """Show nothing: there is no place for it."""

    def close(self) -> None:
        """There is nothing to put in order."""

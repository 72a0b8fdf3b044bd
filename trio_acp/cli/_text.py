"""Text that an agent sent, made fit for a terminal: it must not act on the terminal, or fool a reader."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MAX_LINE_CHARACTERS", "clean", "limit_lines", "one_line", "plural"]

MAX_LINE_CHARACTERS: Final = 2000
"""Characters of one line that are shown: more is data rather than something to read."""

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences, such as colours
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # command strings, such as titles and links
    r"|\x1b(?![\[\]PX^_])[ -/]*[0-~]"  # short escapes
)
"""Complete escape sequences. They go without a trace: programs print them in good faith."""

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What is left and must not reach a terminal: controls, marks that turn the order of text round, and halves
of surrogate pairs, which cannot be encoded."""

_PICTURES: Final = 0x2400
"""Where Unicode has its pictures of the control characters."""


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_PICTURES + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def clean(text: str) -> str:
    """Return text in which only newlines and tabs are left of all that controls a terminal.

    Complete escape sequences are taken out, single control characters become pictures of themselves. Safe
    for each piece of a text that comes in pieces: a sequence that is cut in two stays visible, but harmless.
    """
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return _UNSAFE.sub(_picture, _SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    """Return text cleaned and on a single line, so that it cannot look like lines of our own."""
    line = " ".join(clean(text).split())
    return line if len(line) <= MAX_LINE_CHARACTERS else line[:MAX_LINE_CHARACTERS] + "…"


def limit_lines(lines: list[str], limit: int, last: int = 0) -> list[str]:
    """Return at most so many lines, and how many are left out; long ones are cut.

    Args:
        lines: all lines, clean.
        limit: how many are shown.
        last: how many of these are the last ones, behind the gap.
    """
    gap = len(lines) - limit
    if gap > 0:
        more = f"… {plural(gap, 'more line')}"
        lines = [*lines[: limit - last], more, *lines[len(lines) - last :]]
    return [line if len(line) <= MAX_LINE_CHARACTERS else line[:MAX_LINE_CHARACTERS] + "…" for line in lines]


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 line``, ``2 lines``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

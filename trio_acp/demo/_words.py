"""What the demo agent understands: a few words, told apart by how a line begins."""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

import attrs

__all__ = [
    "HELP",
    "MAX_SLOW_SECONDS",
    "Choose",
    "Form",
    "Help",
    "ListFiles",
    "MakePlan",
    "Read",
    "Run",
    "Slow",
    "Think",
    "Unknown",
    "Word",
    "Write",
    "understand",
]

MAX_SLOW_SECONDS: Final = 3600.0
"""Longest time that ``slow`` takes: enough for any demonstration."""

HELP: Final = """\
I am a demo agent: I have no model, but I use real files, commands and questions. I know these words:

- `help`: this list
- `list the files`: what is in the session's directory
- `read FILE`: show a file
- `write FILE: TEXT`: write a file; I ask for permission first
- `run COMMAND`: run a command; I ask for permission first
- `slow SECONDS`: talk until the time is over, or until you cancel
- `choose`: let you choose something
- `form`: let you fill in a form
- `plan`: make a plan and work through it
- `think`: think aloud

Slash commands: `/status` tells how the session is set up, `/title TEXT` gives it a title.
Modes: `ask` before I change anything, `auto` without asking, `read-only` not at all.
"""
"""What ``help`` answers."""


@attrs.frozen
class Help:
    """``help``."""


@attrs.frozen
class ListFiles:
    """``list the files``."""


@attrs.frozen
class Read:
    """``read FILE``."""

    path: str


@attrs.frozen
class Write:
    """``write FILE: TEXT``."""

    path: str
    text: str


@attrs.frozen
class Run:
    """``run COMMAND``."""

    command: str


@attrs.frozen
class Slow:
    """``slow SECONDS``."""

    seconds: float


@attrs.frozen
class Choose:
    """``choose``."""


@attrs.frozen
class Form:
    """``form``."""


@attrs.frozen
class MakePlan:
    """``plan``."""


@attrs.frozen
class Think:
    """``think``."""


@attrs.frozen
class Unknown:
    """Anything else.

    Attributes:
        problem: what is wrong with it, for people.
    """

    problem: str


Word: TypeAlias = Help | ListFiles | Read | Write | Run | Slow | Choose | Form | MakePlan | Think | Unknown
"""What a prompt asks for."""

_SIMPLE: Final[dict[str, Word]] = {
    "help": Help(),
    "list the files": ListFiles(),
    "list files": ListFiles(),
    "list": ListFiles(),
    "choose": Choose(),
    "form": Form(),
    "plan": MakePlan(),
    "think": Think(),
}

_WRITE: Final = re.compile(r"([^:\n]+?)\s*:[ \t]?(.*)", re.DOTALL)


def understand(text: str) -> Word:
    """Return what a prompt asks for."""
    line = text.strip()
    simple = _SIMPLE.get(line.rstrip(".!?").lower())
    if simple is not None:
        return simple
    parts = line.split(maxsplit=1)
    word = parts[0].lower() if parts else ""
    rest = parts[1] if len(parts) == 2 else ""
    match word:
        case "read":
            return Read(rest) if rest else Unknown("`read` needs the name of a file: `read FILE`")
        case "write":
            found = _WRITE.fullmatch(rest)
            return (
                Write(found[1], found[2]) if found else Unknown("`write` goes like this: `write FILE: TEXT`")
            )
        case "run":
            return Run(rest) if rest else Unknown("`run` needs a command: `run COMMAND`")
        case "slow":
            return _slow(rest)
        case _:
            return Unknown("I am a demo agent without a model, and do not understand that")


def _slow(rest: str) -> Word:
    try:
        seconds = float(rest)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_SLOW_SECONDS:
        return Unknown(f"`slow` needs a number of seconds up to {MAX_SLOW_SECONDS:g}: `slow 10`")
    return Slow(seconds)

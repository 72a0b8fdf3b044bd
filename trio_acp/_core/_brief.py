"""Quoting what a peer sent in a diagnostic: never long, never deep, whatever it was."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from ._shapes import is_array, is_object

__all__ = ["BRIEF_CHARACTERS", "brief"]

BRIEF_CHARACTERS: Final = 300
"""Longest text that `brief` returns, without its mark of omission: a few lines of a terminal."""

_DEPTH: Final = 4
"""Containers within containers that are shown. `repr` itself would exhaust the stack on a hostile value."""

_ITEMS: Final = 8
"""Items of one container that are shown."""


def brief(value: Any) -> str:
    """Write a JSON value as `repr` would, cut short where it is long or deep.

    The work is bounded too: only what is shown is looked at.

    Args:
        value: any JSON value.
    """
    text = _brief(value, _DEPTH)
    return text if len(text) <= BRIEF_CHARACTERS else text[:BRIEF_CHARACTERS] + "..."


def _brief(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= BRIEF_CHARACTERS else value[:BRIEF_CHARACTERS] + "...")
    if is_object(value):
        items = islice(value.items(), _ITEMS if depth else 0)
        shown = [f"{_brief(key, 0)}: {_brief(item, depth - 1)}" for key, item in items]
        return f"{{{_listed(shown, len(value))}}}"
    if is_array(value):
        shown = [_brief(item, depth - 1) for item in value[: _ITEMS if depth else 0]]
        return f"[{_listed(shown, len(value))}]"
    return repr(value)


def _listed(shown: list[str], count: int) -> str:
    return ", ".join(shown if len(shown) == count else [*shown, "..."])

"""Masking what must not reach a log: every environment and header value of a message."""

from __future__ import annotations

from typing import Any, Final

from ._shapes import is_array, is_object

__all__ = ["MASK", "redact"]

MASK: Final = "***"

_SECRET_KEYS: Final = frozenset({"env", "headers"})


MAX_DEPTH: Final = 100
"""Nesting that is copied; what lies deeper is masked whole, so that no message exhausts the stack."""


def redact(message: Any) -> Any:
    """Return a copy of a message in which the values under ``env`` and ``headers`` are masked.

    Every value is masked, not only those with a suspicious name, in both spellings of the protocol: a
    list of ``{"name", "value"}`` and a plain object. Names stay, so that a log still tells what was set.

    Args:
        message: any JSON value; it is not changed.
    """
    return _redact(message, MAX_DEPTH)


def _redact(value: Any, depth: int) -> Any:
    if depth == 0 and (is_object(value) or is_array(value)):
        return MASK
    if is_object(value):
        return {
            key: _mask(item) if key in _SECRET_KEYS else _redact(item, depth - 1)
            for key, item in value.items()
        }
    if is_array(value):
        return [_redact(item, depth - 1) for item in value]
    return value


def _mask(value: Any) -> Any:
    if is_array(value):
        return [
            {key: item if key == "name" and isinstance(item, str) else MASK for key, item in entry.items()}
            if is_object(entry)
            else MASK
            for entry in value
        ]
    if is_object(value):
        return dict.fromkeys(value, MASK)
    return value if value is None else MASK

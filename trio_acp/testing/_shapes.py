"""JSON containers, told apart in a way that type checkers follow."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["is_array", "is_object"]


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)

"""One failure is raised as itself: groups of one, which nurseries make, are opened."""

from __future__ import annotations

from typing import cast

__all__ = ["sole_error"]


def sole_error(error: BaseException) -> BaseException:
    """Return the only exception in a group, however deep, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        if len(group.exceptions) != 1:
            return group
        error = group.exceptions[0]
    return error

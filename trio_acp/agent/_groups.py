"""One failure is raised as itself: groups of one, which nurseries make, are opened."""

from __future__ import annotations

__all__ = ["sole_error"]


def sole_error(error: BaseException) -> BaseException:
    """Return the only exception in a group, however deep, or the error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error

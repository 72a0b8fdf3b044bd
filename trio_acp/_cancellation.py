"""Errors of user code that come mixed with Trio's cancellation: told apart, so neither hides the other."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import cast, final

import trio

__all__ = ["LoggedErrors", "split_cancelled"]


def split_cancelled(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cancellation in an exception, and what else it holds; None for what is not there."""
    if isinstance(error, trio.Cancelled):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    group = cast("BaseExceptionGroup[BaseException]", error)
    cancelled, rest = group.split(trio.Cancelled)
    # A group without a cancellation is the user's own and keeps its identity.
    return (None, group) if cancelled is None else (cancelled, rest)


@final
class LoggedErrors:
    """A block whose errors are for the log and for nobody else: a handler whose caller hears nothing of it.

    A cancellation goes on to Trio, also when errors came with it, as they do out of a cancelled nursery: an
    ``except Exception`` does not see those. What is no `Exception`, such as `KeyboardInterrupt`, goes on too.

    Args:
        logger: where to log.
        message: what failed, with placeholders.
        args: for the placeholders.
    """

    def __init__(self, logger: logging.Logger, message: str, *args: object) -> None:
        self._logger = logger
        self._message = message
        self._args = args

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc is None:
            return False
        cancelled, rest = split_cancelled(exc)
        if not isinstance(rest, Exception):
            return False
        self._logger.error(self._message, *self._args, exc_info=rest)
        if cancelled is not None:
            raise cancelled from None
        return True

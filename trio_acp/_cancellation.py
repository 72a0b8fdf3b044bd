"""Errors in groups, as nurseries make them, and mixed with Trio's cancellation: taken out and told apart."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType
from typing import TypeAlias, cast, final

import trio

__all__ = [
    "LoggedErrors",
    "only_cancelled",
    "sole_error",
    "split_cancelled",
    "trio_part",
    "unwrapped",
    "without_cancelled",
]

_Group: TypeAlias = "BaseExceptionGroup[BaseException]"


def split_cancelled(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the cancellation in an exception, and what else it holds; None for what is not there."""
    if isinstance(error, trio.Cancelled):
        return error, None
    if not isinstance(error, BaseExceptionGroup):
        return None, error
    group = cast(_Group, error)
    cancelled, rest = group.split(trio.Cancelled)
    # A group without a cancellation is the user's own and keeps its identity.
    return (None, group) if cancelled is None else (cancelled, rest)


def without_cancelled(error: BaseException) -> BaseException | None:
    """Return what is left of an exception when cancellations are taken out of it, None if nothing is.

    What holds no cancellation is returned as it is: users' groups keep their identity.
    """
    return split_cancelled(error)[1]


def only_cancelled(error: BaseException) -> bool:
    """True for Trio's cancellation, alone or in a group of nothing else."""
    return without_cancelled(error) is None


def trio_part(error: BaseException) -> BaseException:
    """Return the cancellations in an exception that holds some: what has to go on to Trio."""
    cancelled, _ = split_cancelled(error)
    assert cancelled is not None
    return cancelled


def unwrapped(error: BaseException) -> BaseException:
    """Return what came out of a nursery of this library's as what it was inside.

    Real errors go before cancellations. A group of one is that one; a group stays where there are several.
    """
    rest = without_cancelled(error)
    if rest is not None:
        return sole_error(rest)
    while members := _members(error):
        error = members[0]
    return error


def sole_error(error: BaseException) -> BaseException:
    """Return the only exception in a group, however deep, or the error itself: one failure is no group."""
    members = _members(error)
    while len(members) == 1:
        error = members[0]
        members = _members(error)
    return error


def _members(error: BaseException) -> Sequence[BaseException]:
    return cast(_Group, error).exceptions if isinstance(error, BaseExceptionGroup) else ()


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

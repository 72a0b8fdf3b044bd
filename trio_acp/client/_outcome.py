"""Which exception leaves a block when several things went wrong in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

import trio

from trio_acp._cancellation import only_cancelled, without_cancelled

__all__ = ["choose_outcome", "leave_block"]


_Group: TypeAlias = "BaseExceptionGroup[BaseException]"


def choose_outcome(
    body: BaseException | None,
    callbacks: Iterable[BaseException],
    *library: BaseException | None,
) -> BaseException | None:
    """Return the exception that has to leave a block; what it beats is put in its ``__context__``.

    The order: a KeyboardInterrupt, then the user's code, then the library's own finding, and last a
    cancellation. A group is made in one case only, when both the body and a callback failed; a group
    of the user's own is never touched.

    Args:
        body: what the block's body raised.
        callbacks: what the user's handlers and hooks raised, oldest first.
        library: what this library has to report, most important first. The body may have been given it
            already, and raise it.
    """
    failed = list(dict.fromkeys(error for error in callbacks if error is not body))
    if body in library:
        body = None
    candidates = [error for error in [body, *failed, *library] if error is not None]
    real = [error for error in candidates if not only_cancelled(error)]
    if not real:
        return candidates[0] if candidates else None
    interrupts = [error for error in real if _is_interrupt(error)]
    if interrupts:
        winner = interrupts[0]
    elif body is not None and body in real and failed and failed[0] in real:
        winner = BaseExceptionGroup("the body of the block and a callback both failed", [body, failed[0]])
        candidates = [error for error in candidates if error is not body and error is not failed[0]]
    else:
        winner = real[0]
    _chain(winner, [error for error in candidates if error is not winner and not only_cancelled(error)])
    return winner


def _is_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return cast(_Group, error).subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _chain(winner: BaseException, losers: list[BaseException]) -> None:
    """Hang losers at the end of the winner's context, each once and without making a ring."""
    seen = {id(winner)}
    last = winner
    while last.__context__ is not None and id(last.__context__) not in seen:
        last = last.__context__
        seen.add(id(last))
    for loser in losers:
        if id(loser) in seen:
            continue
        last.__context__ = loser
        last = loser
        seen.add(id(loser))
        while last.__context__ is not None:
            if id(last.__context__) in seen:
                # It was raised while one of the others was handled, which stands before it already.
                last.__context__ = None
            else:
                last = last.__context__
                seen.add(id(last))


def leave_block(scope: trio.CancelScope, exc: BaseException | None, outcome: BaseException | None) -> bool:
    """Close the scope of a block, and raise what has to leave the block, as itself."""
    if outcome is None or without_cancelled(outcome) is outcome:
        # A cancelled scope would make a new group of a group even where there is nothing to take out of it.
        scope.__exit__(None, None, None)
    elif scope.__exit__(type(outcome), outcome, outcome.__traceback__):
        return True
    if outcome is exc or outcome is None:
        return False
    context = outcome.__context__
    try:
        raise outcome
    finally:
        # Raising puts the body's exception into the context, over the one that was chosen.
        outcome.__context__ = context

"""Which exception leaves a block when several things went wrong in it."""

from __future__ import annotations

from collections.abc import Iterable

import trio

__all__ = ["choose_outcome", "first_leaf", "leave_block", "only_cancelled", "without_cancelled"]


def only_cancelled(error: BaseException) -> bool:
    """True for Trio's cancellation, alone or in a group of nothing else."""
    return without_cancelled(error) is None


def without_cancelled(error: BaseException) -> BaseException | None:
    """Return what is left of an exception when cancellations are taken out of it, None if nothing is."""
    if isinstance(error, trio.Cancelled):
        return None
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return error


def choose_outcome(
    body: BaseException | None,
    callbacks: Iterable[BaseException],
    library: BaseException | None,
) -> BaseException | None:
    """Return the exception that has to leave a block; what it beats is put in its ``__context__``.

    The order: a KeyboardInterrupt, then the user's code, then the library's own finding, and last a
    cancellation. A group is made in one case only, when both the body and a callback failed; a group
    of the user's own is never touched.

    Args:
        body: what the block's body raised.
        callbacks: what the user's handlers and hooks raised, oldest first.
        library: what this library has to report.
    """
    failed = list(dict.fromkeys(callbacks))
    candidates = [error for error in [body, *failed, library] if error is not None]
    real = [error for error in candidates if not only_cancelled(error)]
    if not real:
        return body
    interrupts = [error for error in real if isinstance(error, KeyboardInterrupt)]
    if interrupts:
        winner: BaseException = interrupts[0]
    elif body in real and failed and body is not failed[0]:
        assert body is not None
        winner = BaseExceptionGroup("the body of the block and a callback both failed", [body, failed[0]])
        candidates = [error for error in candidates if error is not body and error is not failed[0]]
    else:
        winner = real[0]
    _chain(winner, [error for error in candidates if error is not winner and not only_cancelled(error)])
    return winner


def _chain(winner: BaseException, losers: list[BaseException]) -> None:
    """Hang losers at the end of the winner's context, each once and without making a ring."""
    for loser in losers:
        last = winner
        seen = {id(winner)}
        while last.__context__ is not None and id(last.__context__) not in seen:
            last = last.__context__
            seen.add(id(last))
        chain: BaseException | None = loser
        while chain is not None and id(chain) not in seen:
            seen.add(id(chain))
            chain = chain.__context__
        if chain is None:
            last.__context__ = loser


def first_leaf(error: BaseException) -> BaseException:
    """Return an exception without the groups around it: the first one, where there are several."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def leave_block(scope: trio.CancelScope, exc: BaseException | None, outcome: BaseException | None) -> bool:
    """Close the scope of a block, and raise what has to leave the block, as itself."""
    if outcome is None:
        scope.__exit__(None, None, None)
        return False
    if scope.__exit__(type(outcome), outcome, outcome.__traceback__):
        return True
    if outcome is exc:
        return False
    context = outcome.__context__
    try:
        raise outcome
    finally:
        # Raising puts the body's exception into the context, over the one that was chosen.
        outcome.__context__ = context

"""What becomes of a prompt while another turn of its session runs (T1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from trio_acp._errors import SessionBusy
from trio_acp._peer import Peer

from ._opening import busy, check_free, given_up, wait_until_free
from ._options import Overlap
from ._record import SessionRecord
from ._running import RunningTurn, is_working_for

__all__ = ["MAX_QUEUED_PROMPTS", "check_overlap", "reach_turn"]

MAX_QUEUED_PROMPTS: Final = 64
"""Prompts of one session that may wait for their turn: more belong to a program that sees no backlog."""


def check_overlap(overlap: str) -> None:
    """Refuse a word that means nothing."""
    if overlap not in ("reject", "queue", "cancel"):
        raise ValueError(f"overlap must be 'reject', 'queue' or 'cancel', not {overlap!r}")


async def reach_turn(
    record: SessionRecord,
    peer: Peer,
    overlap: Overlap,
    patience: float,
    begin: Callable[[], RunningTurn],
) -> RunningTurn:
    """Wait until the session is free, as far as ``overlap`` says, and begin a turn.

    Args:
        record: the session.
        peer: tells when there is room for a prompt.
        overlap: what to do about a turn that runs.
        patience: seconds to wait for work that was given up.
        begin: sends the prompt, synchronously.

    Raises:
        SessionBusy: it is not free.
    """
    if overlap == "reject":
        if record.queue.locked():
            raise SessionBusy(record.id, f"prompts are waiting for their turn in session {record.id!r}")
        await wait_until_free(record, patience)
        await peer.room()
        check_free(record)
        return begin()
    if record.turn is not None and is_working_for(record.turn):
        raise SessionBusy(
            record.id,
            "a handler cannot wait for the end of the turn that it works for; use another session for that",
        )
    if record.queue.statistics().tasks_waiting >= MAX_QUEUED_PROMPTS:
        raise SessionBusy(
            record.id,
            f"{MAX_QUEUED_PROMPTS} prompts wait in session {record.id!r} already; wait for some of them",
        )
    if overlap == "cancel" and record.turn is not None:
        record.turn.ask_cancel()
    async with record.queue:
        while True:
            turn, opening, late = record.turn, record.opening, given_up(record)
            if late is not None:
                with trio.move_on_after(patience):
                    await late.wait()
                if not late.is_set():
                    raise busy(record)
            elif turn is not None:
                if overlap == "cancel":
                    turn.ask_cancel()
                await turn.over.wait()
            elif opening is not None:
                await opening.over.wait()
            else:
                await peer.room()
                if not record.busy:
                    return begin()

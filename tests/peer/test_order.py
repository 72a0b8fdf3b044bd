"""Lines of requests: their tasks begin in the order of the wire, whichever Trio starts first."""

from __future__ import annotations

import trio
import trio.testing

from trio_acp._order import Line, Lines, Ticket


async def test_a_task_that_runs_first_waits_for_those_before_it() -> None:
    line = Line()
    first, second, third = line.take(), line.take(), line.take()
    begun: list[str] = []

    async def begin(ticket: Ticket, name: str) -> None:
        with trio.CancelScope() as scope:
            # Cancelled or not: those before begin in any case, and the order holds.
            scope.cancel()
            await ticket.begin()
        begun.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin, third, "third")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(begin, second, "second")
        await trio.testing.wait_all_tasks_blocked()
        assert begun == []
        first.pass_by()
    assert begun == ["second", "third"]


async def test_a_line_in_which_nobody_stands_is_forgotten() -> None:
    lines = Lines()
    first, other = lines.take("a"), lines.take("b")
    second = lines.take("a")
    await first.begin()
    assert len(lines) == 2
    await other.begin()
    await second.begin()
    assert len(lines) == 0

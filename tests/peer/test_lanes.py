"""Tasks with a cancel scope of their own in nurseries that are kept: `trio_acp._lanes`."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_acp._lanes import MAX_FREE_LANES, Lane, Lanes


class Work:
    """Tasks that end when they are told to, and what became of them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.lanes = Lanes(nursery)
        self.ended: dict[str, str] = {}
        self._go: dict[str, trio.Event] = {}

    def start(self, name: str) -> Lane:
        self._go[name] = trio.Event()
        return self.lanes.start(self._run, name)

    def finish(self, name: str) -> None:
        self._go[name].set()

    async def _run(self, lane: Lane, name: str) -> None:
        self.ended[name] = "cancelled"
        await self._go[name].wait()
        self.ended[name] = "returned"
        self.lanes.leave(lane)


async def test_a_task_after_another_is_in_the_same_nursery(nursery: trio.Nursery) -> None:
    work = Work(nursery)
    first = work.start("1")
    work.finish("1")
    await wait_all_tasks_blocked()
    second = work.start("2")
    assert second is first
    work.finish("2")
    await wait_all_tasks_blocked()
    assert work.ended == {"1": "returned", "2": "returned"}
    assert len(nursery.child_tasks) == 1
    nursery.cancel_scope.cancel()


async def test_tasks_at_the_same_time_are_cancelled_each_for_itself(nursery: trio.Nursery) -> None:
    work = Work(nursery)
    lanes = {name: work.start(name) for name in "123"}
    assert len(set(lanes.values())) == 3
    await wait_all_tasks_blocked()
    lanes["2"].cancel()
    work.finish("1")
    await wait_all_tasks_blocked()
    work.finish("3")
    await wait_all_tasks_blocked()
    assert work.ended == {"1": "returned", "2": "cancelled", "3": "returned"}
    nursery.cancel_scope.cancel()


async def test_a_lane_that_was_cancelled_is_not_used_again_and_nothing_of_it_is_left(
    nursery: trio.Nursery,
) -> None:
    work = Work(nursery)
    lane = work.start("1")
    await wait_all_tasks_blocked()
    lane.cancel()
    assert lane.cancelled
    await wait_all_tasks_blocked()
    assert not nursery.child_tasks
    assert work.start("2") is not lane
    work.finish("2")
    await wait_all_tasks_blocked()
    assert work.ended == {"1": "cancelled", "2": "returned"}
    nursery.cancel_scope.cancel()


async def test_a_task_that_ends_by_itself_after_its_cancellation_leaves_no_lane(
    nursery: trio.Nursery,
) -> None:
    lanes = Lanes(nursery)

    async def stubborn(lane: Lane) -> None:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            lane.cancel()
            await trio.lowlevel.checkpoint()
        lanes.leave(lane)

    first = lanes.start(stubborn)
    await wait_all_tasks_blocked()
    assert not nursery.child_tasks
    assert lanes.start(stubborn) is not first


async def test_a_task_that_is_cancelled_before_it_begins_begins_cancelled(nursery: trio.Nursery) -> None:
    """And it does begin: it has an answer to give."""
    work = Work(nursery)
    work.start("1").cancel()
    await wait_all_tasks_blocked()
    assert work.ended == {"1": "cancelled"}
    again = work.start("2")
    work.finish("2")
    await wait_all_tasks_blocked()
    assert work.start("3") is again
    again.cancel()
    await wait_all_tasks_blocked()
    assert work.ended == {"1": "cancelled", "2": "returned", "3": "cancelled"}


async def test_what_a_task_raises_ends_the_nursery_that_outlives_it() -> None:
    async def fail(lane: Lane) -> None:
        raise ValueError("of the task")

    with pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            lanes = Lanes(nursery)
            lanes.start(fail)
            work = Work(nursery)
            work.start("1")
    assert work.ended == {"1": "cancelled"}


async def test_after_the_end_of_everything_a_task_that_still_runs_can_start_another() -> None:
    """A free lane closes when all is cancelled; what is started then begins, and begins cancelled."""
    begun: list[str] = []
    async with trio.open_nursery() as nursery:
        lanes = Lanes(nursery)

        async def last(lane: Lane) -> None:
            begun.append("last")
            lanes.leave(lane)

        async def lasting(lane: Lane) -> None:
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
                await wait_all_tasks_blocked()
                lanes.start(last)
            lanes.leave(lane)

        async def short(lane: Lane) -> None:
            lanes.leave(lane)

        lanes.start(lasting)
        lanes.start(short)
    assert begun == ["last"]


async def test_only_so_many_lanes_are_kept(nursery: trio.Nursery) -> None:
    work = Work(nursery)
    names = [str(number) for number in range(MAX_FREE_LANES + 3)]
    for name in names:
        work.start(name)
    await wait_all_tasks_blocked()
    assert len(nursery.child_tasks) == len(names)
    for name in names:
        work.finish(name)
    await wait_all_tasks_blocked()
    assert set(work.ended.values()) == {"returned"}
    assert len(nursery.child_tasks) == MAX_FREE_LANES
    nursery.cancel_scope.cancel()

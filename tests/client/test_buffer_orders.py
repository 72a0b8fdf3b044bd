"""A turn's buffer against a simple model: whatever the order, nothing is lost or doubled (T2)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from trio_acp.client._buffers import TurnBuffer

OFTEN: Final = ["let others run", "let all others run", "take one", "take one", "take all"]
SELDOM: Final = ["cancel", "finish", "release", "drop"]

puts = st.tuples(st.just("put"), st.integers(1, 60))
programs = st.lists(
    puts | st.sampled_from(OFTEN) | puts | st.sampled_from([*OFTEN, *SELDOM]), min_size=5, max_size=40
)


class World:
    """A buffer, tasks that take, and what they should get.

    Args:
        max_items: updates that may wait.
        max_bytes: bytes of updates that may wait.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self.buffer: TurnBuffer[int] = TurnBuffer(max_items, max_bytes)
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.sizes: list[int] = []
        self.kept: list[int] = []
        """What was put, and neither dropped nor released before it was taken."""
        self.taken: list[int] = []
        self.over = False
        self.released = False
        self.takers: list[trio.CancelScope] = []

    async def take(self, scope: trio.CancelScope, *, once: bool = False) -> None:
        """Take, to the end or once, as a turn does it; another one that takes already is left alone."""
        with scope:
            try:
                going_on = True
                while going_on:
                    going_on = not once
                    await trio.lowlevel.checkpoint_if_cancelled()
                    item = self.buffer.take_nowait()
                    self.taken.append(await self.buffer.take() if item is None else item)
            except trio.EndOfChannel:
                assert self.over
            except trio.BusyResourceError:
                pass

    def put(self, size: int) -> None:
        waiting = self.kept[len(self.taken) :]
        fits = self.buffer.put(len(self.sizes), size)
        if not self.released:
            if fits:
                self.kept.append(len(self.sizes))
            else:
                assert waiting
            if not waiting:
                assert fits
            elif (
                len(waiting) >= self.max_items
                or size + sum(self.sizes[each] for each in waiting) > self.max_bytes
            ):
                assert not fits
        self.sizes.append(size)

    def forget_waiting(self) -> None:
        """Drop: what a taker has in hand stays."""
        before = self.buffer.items
        self.buffer.drop()
        del self.kept[len(self.kept) - (before - self.buffer.items) :]

    async def act(self, action: Any, nursery: trio.Nursery) -> None:
        match action:
            case ("put", size):
                if not self.over or self.released:
                    self.put(size)
            case "let others run":
                await trio.lowlevel.checkpoint()
            case "let all others run":
                await trio.testing.wait_all_tasks_blocked()
            case "take one" | "take all":
                self.takers.append(trio.CancelScope())
                nursery.start_soon(partial(self.take, self.takers[-1], once=action == "take one"))
            case "cancel":
                for scope in self.takers:
                    scope.cancel()
            case "finish":
                self.buffer.finish()
                self.over = True
            case "release":
                self.buffer.release()
                self.over = self.released = True
                del self.kept[len(self.taken) :]
            case _:
                self.forget_waiting()
        assert self.buffer.items == len(self.kept) - len(self.taken)
        assert self.buffer.taken == len(self.taken)
        assert self.taken == self.kept[: len(self.taken)]


@given(programs, st.integers(1, 12), st.integers(1, 150))
def test_t2_what_was_put_is_taken_once_and_in_order_whoever_is_cancelled_meanwhile(
    program: list[Any], max_items: int, max_bytes: int
) -> None:
    async def main() -> None:
        world = World(max_items, max_bytes)
        async with trio.open_nursery() as nursery:
            for action in program:
                await world.act(action, nursery)
            await world.act("cancel", nursery)
        await world.act("finish", nursery)
        with trio.fail_after(5):
            await world.take(trio.CancelScope())
        assert world.taken == world.kept
        assert world.buffer.items == world.buffer.size == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

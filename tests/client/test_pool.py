"""A pool of agents: started when needed, watched, started again after a delay, never while it closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Wire
from tests.support.checkpoints import AtStep, every_step
from trio_acp import (
    AcpOptions,
    AgentPool,
    AgentStartError,
    ConnectedAgent,
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    connect_acp,
    open_memory_pair,
)
from trio_acp.client import _pool

Script = Callable[[Wire], Any]


class InMemory:
    """Opens agents in memory, and knows what has become of each."""

    def __init__(self) -> None:
        self.wires: list[Wire] = []
        self.alive = 0
        self.broken = 0
        """So many starts will fail."""
        self.slow = 0.0

    def __call__(self, options: AcpOptions) -> AbstractAsyncContextManager[ConnectedAgent]:
        return _Block(self, options)


class _Block(AbstractAsyncContextManager[ConnectedAgent]):
    def __init__(self, world: InMemory, options: AcpOptions) -> None:
        self.world = world
        self.options = options

    async def __aenter__(self) -> ConnectedAgent:
        ours, theirs = open_memory_pair()
        self.wire = Wire(theirs)
        self.world.wires.append(self.wire)
        self.manager = trio.open_nursery()
        self.nursery = await self.manager.__aenter__()
        self.world.alive += 1
        try:
            self.nursery.start_soon(self.serve)
            self.agent = await connect_acp(self.nursery, ours, self.options)
        except BaseException as error:
            self.nursery.cancel_scope.cancel()
            self.wire.close()
            self.world.alive -= 1
            # As a nursery in the helper of an application would, this makes a group of one.
            await self.manager.__aexit__(type(error), error, error.__traceback__)
            raise
        return self.agent

    async def serve(self) -> None:
        try:
            await trio.sleep(self.world.slow)
            if self.world.broken:
                self.world.broken -= 1
                self.wire.close()
                return
            await self.wire.introduce()
            while (message := await self.wire.receive()) is not None:
                if message.get("method") == "session/new":
                    await self.wire.result(message, {"sessionId": "s1"})
                elif message.get("method") == "session/resume":
                    await self.wire.result(message, None)
        except trio.ClosedResourceError:
            pass  # the test has closed this end

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self.world.alive -= 1
        with trio.CancelScope(shield=True):
            await self.agent.aclose()
        self.wire.close()
        self.nursery.cancel_scope.cancel()
        return await self.manager.__aexit__(exc_type, exc, traceback)


@pytest.fixture
def world() -> Iterator[InMemory]:
    world = InMemory()
    yield world
    assert world.alive == 0


OPTIONS = {name: AcpOptions() for name in "abc"}


async def test_an_agent_is_started_once_however_many_ask_for_it(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    world.slow = 1
    found: list[ConnectedAgent] = []

    async def ask(pool: AgentPool) -> None:
        found.append(await pool.get("a"))

    async with AgentPool(OPTIONS, open_agent=world) as pool:
        assert dict(pool.agents) == {}
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, pool)
        assert len(set(map(id, found))) == 1
        other = await pool.get("b")
        assert other is not found[0]
        assert pool.agents == {"a": found[0], "b": other}
        assert repr(pool) == "<AgentPool running ['a', 'b']>"
        assert await pool.get("a") is found[0]
        assert len(world.wires) == 2
        with pytest.raises(KeyError):
            await pool.get("nobody")
        with pytest.raises(KeyError):
            await pool.close("nobody")
    assert (dict(pool.agents), other.closed) == ({}, True)


async def test_a_dead_agent_is_noticed_at_once_and_started_again_when_it_is_needed(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    async with AgentPool(OPTIONS, open_agent=world) as pool:
        agent = await pool.get("a")
        session = await agent.new_session()
        world.wires[0].close()
        await trio.testing.wait_all_tasks_blocked()
        assert (dict(pool.agents), world.alive) == ({}, 0)
        await trio.sleep(100)
        assert len(world.wires) == 1
        with pytest.raises(ConnectionLost):
            await agent.new_session()
        again = await pool.get("a")
        assert again is not agent
        recovered = await again.recover_session(session.id)
        assert recovered.how == "resumed"


async def test_an_agent_that_is_asked_for_while_it_dies_is_another_one(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    async with AgentPool(OPTIONS, open_agent=world) as pool:
        agent = await pool.get("a")
        world.wires[0].close()
        await agent.wait_lost()
        assert await pool.get("a") is not agent


async def test_starts_after_deaths_wait_longer_each_time_up_to_a_limit(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    async with AgentPool(OPTIONS, open_agent=world) as pool:
        waits: list[float] = []
        for _ in range(9):
            await pool.get("a")
            world.wires[-1].close()
            await trio.testing.wait_all_tasks_blocked()
            start = trio.current_time()
            await pool.get("a")
            waits.append(trio.current_time() - start)
            world.wires[-1].close()
            await trio.testing.wait_all_tasks_blocked()
        assert waits[:3] == [0.5, 2.0, 8.0]
        assert waits[-1] == _pool.LAST_RESTART_DELAY
        # One that lived for long has not died of what the others died of.
        await pool.get("a")
        await trio.sleep(_pool.STABLE_SECONDS)
        world.wires[-1].close()
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        await pool.get("a")
        assert trio.current_time() - start == _pool.FIRST_RESTART_DELAY


async def test_a_start_that_fails_is_told_to_all_who_wait_and_tried_again_later(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    world.slow, world.broken = 1, 2
    errors: list[AgentStartError] = []

    async def ask(pool: AgentPool) -> None:
        with pytest.raises(AgentStartError) as caught:
            await pool.get("a")
        errors.append(caught.value)

    async with AgentPool(OPTIONS, open_agent=world) as pool:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, pool)
        assert trio.current_time() == 1
        assert len({id(error) for error in errors}) == 3
        with pytest.raises(AgentStartError):
            await pool.get("a")
        assert trio.current_time() == 2.5
        assert not (await pool.get("a")).closed
        assert trio.current_time() == 4.5


async def test_a_cancelled_caller_costs_the_others_nothing(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    world.slow = 2
    async with AgentPool(OPTIONS, open_agent=world) as pool:
        with trio.move_on_after(1) as scope:
            await pool.get("a")
        assert scope.cancelled_caught
        await pool.get("a")
        assert trio.current_time() == 2
        world.wires[0].close()
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.1) as scope:
            await pool.get("a")
        assert scope.cancelled_caught
        assert len(world.wires) == 1


async def test_the_number_of_agents_is_bounded(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    async with AgentPool(OPTIONS, open_agent=world, max_agents=2) as pool:
        await pool.get("a")
        agent = await pool.get("b")
        with pytest.raises(LocalProtocolError, match="max_agents"):
            await pool.get("c")
        await pool.close("c")
        await pool.close("b")
        assert agent.closed
        await pool.get("c")
        await pool.close("c")
        start = trio.current_time()
        await pool.get("b")
        assert trio.current_time() == start
    with pytest.raises(ValueError, match="max_agents"):
        AgentPool(OPTIONS, max_agents=0)


async def test_an_agent_that_is_being_closed_is_not_given_out(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    async with AgentPool(OPTIONS, open_agent=world) as pool:
        agent = await pool.get("a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.close, "a")
            await trio.lowlevel.checkpoint()
            assert await pool.get("a") is not agent


async def test_nothing_is_started_outside_of_the_block_or_while_it_closes(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    pool = AgentPool(OPTIONS, open_agent=world)
    with pytest.raises(ConnectionClosed, match="not open"):
        await pool.get("a")
    outcomes: list[type[BaseException]] = []

    async def ask(name: str) -> None:
        try:
            await pool.get(name)
        except ConnectionClosed as error:
            outcomes.append(type(error))

    async with trio.open_nursery() as nursery:
        async with pool:
            await pool.get("a")
            world.wires[0].close()
            await trio.testing.wait_all_tasks_blocked()
            world.slow = 5
            # One waits for the delay, one for a start that is under way.
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
            await trio.testing.wait_all_tasks_blocked()
    assert outcomes == [ConnectionClosed] * 2
    assert len(world.wires) == 2
    with pytest.raises(ConnectionClosed):
        await pool.get("a")
    with pytest.raises(RuntimeError, match="once"):
        async with pool:
            pass  # pragma: no cover  (entering fails)


class Mine(Exception):
    pass


@pytest.mark.parametrize("library", [False, True])
async def test_what_a_hook_of_an_agent_raises_leaves_the_pool_as_itself(
    world: InMemory, autojump_clock: trio.testing.MockClock, library: bool
) -> None:
    error = ConnectionLost("from the hook") if library else Mine("from the hook")

    def on_update(params: Any) -> None:
        raise error

    with pytest.raises(type(error), match="from the hook"):
        async with AgentPool({"a": AcpOptions(on_update=on_update)}, open_agent=world) as pool:
            await pool.get("a")
            await world.wires[0].text("x")
            await trio.sleep_forever()


async def test_the_body_s_exception_leaves_the_block_as_itself(
    world: InMemory, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(Mine):
        async with AgentPool(OPTIONS, open_agent=world) as pool:
            await pool.get("a")
            raise Mine


async def test_options_that_name_no_program_are_the_callers_mistake(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with AgentPool({"a": AcpOptions()}) as pool:
        for _ in range(2):
            with pytest.raises(ValueError, match="command"):
                await pool.get("a")


def test_cancelled_at_every_step_a_pool_leaves_nothing_behind() -> None:
    async def run(step: int) -> bool:
        scope, world = trio.CancelScope(), InMemory()
        at = AtStep(step, scope.cancel)
        with scope:
            async with AgentPool(OPTIONS, open_agent=world) as pool:
                at.arm()
                try:
                    agent = await pool.get("a")
                    await agent.new_session()
                    world.wires[-1].close()
                    await agent.wait_lost()
                    await (await pool.get("a")).new_session()
                    await pool.close("a")
                    await pool.get("b")
                finally:
                    at.disarm()
        assert world.alive == 0
        return at.fired

    assert every_step(run) > 50

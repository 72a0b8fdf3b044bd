"""What reading waits for and what memory holds, however fast the agent and however slow the application."""

from __future__ import annotations

import contextlib
import gc
import pathlib
import resource
import tracemalloc
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk, frame
from trio_acp import AcpOptions, ConnectedAgent, Session, SlowConsumer, Turn

SOFT = 100
OPTIONS = AcpOptions(max_buffered_updates=16 * SOFT, stall_timeout=30)
PIPE = 8192
ONE = frame(chunk("x" * 60))
FLOOD = 1000
"""Updates: more than the soft limit and the pipe hold, less than the hard limit."""


async def flood(wire: Wire, count: int = FLOOD, line: bytes = ONE) -> None:
    """Send updates as fast as the client reads."""
    for _ in range(count):
        await wire.raw(line)


def held(wire: Wire) -> int:
    """How many updates the agent could write so far, about."""
    return wire.sent_bytes // len(ONE)


Conduct = Callable[[ConnectedAgent, Session, Turn], Awaitable[None]]


async def flooded(conduct: Conduct, *, options: AcpOptions = OPTIONS, after: Any = None) -> int:
    """Run a turn into which the agent floods; return how much it could write while nothing was taken."""
    could_write = 0
    started = trio.Event()

    async def script(wire: Wire) -> None:
        nonlocal could_write
        await wire.new_session()
        prompt = await wire.prompt()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, wire)
            await trio.testing.wait_all_tasks_blocked()
            could_write = held(wire)
            started.set()
        if after is not None:
            await after(wire)
        await wire.end(prompt, "end_turn")

    async with Scene(script, options, limit=PIPE) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await started.wait()
            await conduct(agent, session, turn)
        assert len(turn.text) == FLOOD * 60
    return could_write


async def iterate(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
    assert len([update async for update in turn]) == FLOOD


async def test_reading_pauses_for_the_only_turn_and_goes_on_when_it_is_taken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    could_write = await flooded(iterate)
    assert SOFT <= could_write <= SOFT + 3 * PIPE / len(ONE)


async def test_reading_pauses_by_bytes_too(autojump_clock: trio.testing.MockClock) -> None:
    options = AcpOptions(max_buffered_bytes=16 * SOFT * len(ONE))
    assert SOFT <= await flooded(iterate, options=options) <= SOFT + 3 * PIPE / len(ONE)


async def test_leaving_the_iteration_lets_reading_go_on(autojump_clock: trio.testing.MockClock) -> None:
    async def leave(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
        await anext(turn)

    began = trio.current_time()
    assert await flooded(leave) < FLOOD
    assert trio.current_time() == began


async def test_waiting_for_the_end_lets_reading_go_on_and_drops_what_is_too_much(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
        assert await turn.wait() == "end_turn"
        left = [update async for update in turn]
        assert len(left) < FLOOD

    began = trio.current_time()
    assert await flooded(wait) < FLOOD
    assert trio.current_time() == began


async def test_somebody_who_waits_does_not_take_the_updates_from_somebody_who_iterates(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def both(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
        got: list[Any] = []

        async def consume() -> None:
            async for update in turn:
                got.append(update)
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await trio.testing.wait_all_tasks_blocked()
            await turn.wait()
        assert len(got) == FLOOD

    await flooded(both)


async def test_reading_goes_on_for_the_turn_of_another_session_that_begins_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    could_write: list[int] = []
    paused = trio.Event()

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await wire.new_session("s2")
        prompt = await wire.prompt("s1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, wire)
            await trio.testing.wait_all_tasks_blocked()
            could_write.append(held(wire))
            paused.set()
        could_write.append(held(wire))
        other = await wire.prompt("s2")
        await wire.end(other)
        await wire.end(prompt)

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        first, second = await agent.new_session(), await agent.new_session()
        async with first.prompt("x") as turn:
            await paused.wait()
            began = trio.current_time()
            async with second.prompt("y") as other:
                assert await other.wait() == "end_turn"
            assert trio.current_time() == began
            assert len([update async for update in turn]) == FLOOD
    assert could_write[0] < FLOOD <= could_write[1]


@pytest.mark.parametrize("way", ["cancel", "request", "session"])
async def test_reading_goes_on_as_soon_as_something_else_could_suffer(
    autojump_clock: trio.testing.MockClock, way: str
) -> None:
    """The same turn, over its soft limit, and then something that needs the reader."""
    could_write: list[int] = []
    done = trio.Event()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, wire)
            await trio.testing.wait_all_tasks_blocked()
            could_write.append(held(wire))
            done.set()
        could_write.append(held(wire))
        message = await wire.receive()
        assert message is not None
        if "id" in message:
            await wire.result(message, {"sessionId": "s2"} if way == "session" else None)
        await wire.end(prompt, "end_turn")

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await done.wait()
            began = trio.current_time()
            if way == "cancel":
                turn.cancel()
            elif way == "request":
                await agent.request("_x/any")
            else:
                await agent.new_session()
            await trio.testing.wait_all_tasks_blocked()
            assert trio.current_time() == began
    assert could_write[0] < FLOOD <= could_write[1]


@pytest.mark.parametrize("opened", ["turn", "permission", "both"])
async def test_reading_does_not_pause_where_a_second_turn_or_a_request_of_the_agent_is_open(
    autojump_clock: trio.testing.MockClock, opened: str
) -> None:
    async def handler(request: Any) -> Any:
        await trio.sleep_forever()

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await wire.new_session("s2")
        prompt, other = await wire.prompt("s1"), None
        if opened != "permission":
            other = await wire.prompt("s2")
        if opened != "turn":
            await wire.ask_permission("s1")
        began = trio.current_time()
        await flood(wire)
        await wire.quiet()
        assert held(wire) >= FLOOD
        assert trio.current_time() == began, "it was taken first"
        await wire.end(prompt)
        if other is not None:
            await wire.end(other)

    options = AcpOptions(max_buffered_updates=16 * SOFT, on_permission=handler, permission_timeout=1000)
    async with Scene(script, options, limit=PIPE) as (agent, _wire):
        first, second = await agent.new_session(), await agent.new_session()
        async with first.prompt("x") as turn:
            if opened == "permission":
                await trio.sleep(5)
            else:
                async with second.prompt("y"):
                    await trio.sleep(5)
            assert len([update async for update in turn]) == FLOOD


async def test_a_consumer_that_never_takes_fails_after_the_stall_time_and_the_connection_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, wire)
            await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await wire.end(await wire.prompt())

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        session = await agent.new_session()
        began = trio.current_time()
        with pytest.raises(SlowConsumer) as caught:
            async with session.prompt("x"):
                await trio.sleep_forever()
        assert trio.current_time() - began == pytest.approx(30)
        assert caught.value.session_id == "s1"
        assert SOFT <= caught.value.items < FLOOD
        assert caught.value.size >= caught.value.items * (len(ONE) - 1)
        async with session.prompt("y") as turn:
            pass
        assert turn.stop_reason == "end_turn"


async def test_a_consumer_that_takes_a_little_in_each_stall_time_is_slow_but_none_that_fails(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def dawdle(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
        for _ in range(40):
            await anext(turn)
            await trio.sleep(29)
        assert len([update async for update in turn]) == FLOOD - 40

    await flooded(dawdle)


async def test_the_hard_limit_fails_the_turn_where_reading_has_to_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Another session's turn must not pay for this one's consumer."""

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await wire.new_session("s2")
        quick, slow = await wire.prompt("s2"), await wire.prompt("s1")
        await flood(wire, 16 * SOFT + 10)
        await wire.expect("session/cancel", sessionId="s1")
        await wire.text("fine", "s2")
        await wire.end(slow, "cancelled")
        await wire.end(quick)

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        slow, quick = await agent.new_session(), await agent.new_session()
        async with quick.prompt("y") as turn:
            with pytest.raises(SlowConsumer) as caught:
                async with slow.prompt("x"):
                    await trio.sleep_forever()
            assert caught.value.items == 16 * SOFT
            assert [update async for update in turn]
        assert turn.text == "fine"


async def test_nobody_iterating_but_waiting_is_never_too_slow(autojump_clock: trio.testing.MockClock) -> None:
    """Also where reading cannot pause, beyond the hard limit."""

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await wire.new_session("s2")
        slow, quick = await wire.prompt("s1"), await wire.prompt("s2")
        await flood(wire, 3 * 16 * SOFT)
        await wire.end(slow)
        await wire.end(quick)

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        slow, quick = await agent.new_session(), await agent.new_session()
        async with slow.prompt("x") as turn, quick.prompt("y"):
            assert await turn.wait() == "end_turn"
        assert len(turn.text) == 3 * 16 * SOFT * 60


async def test_one_message_fits_an_empty_buffer_whatever_its_size(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(3):
            await wire.raw(frame(chunk("x" * 1_000_000)))
        await wire.end(prompt)

    options = AcpOptions(max_buffered_bytes=1000, max_buffered_updates=1)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            assert len([update async for update in turn]) == 3


@pytest.mark.parametrize("call", ["set_mode", "set_config_option", "new_session", "request", "close_other"])
async def test_a_consumer_that_calls_the_agent_in_its_loop_does_not_deadlock(
    autojump_clock: trio.testing.MockClock, call: str
) -> None:
    """The answer is behind a flood of updates that nobody takes meanwhile."""
    config = [{"id": "flag", "name": "Flag", "type": "boolean", "currentValue": False}]
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}
    results = {
        "set_mode": None,
        "set_config_option": {"configOptions": config},
        "new_session": {"sessionId": "s9"},
        "request": {},
        "close_other": {},
    }

    async def script(wire: Wire) -> None:
        await wire.new_session(modes=modes, configOptions=config)
        await wire.new_session("s2")
        prompt = await wire.prompt()
        await wire.text("first")
        request = await wire.receive()
        assert request is not None
        await flood(wire)
        await wire.result(request, results[call])
        await wire.end(prompt)

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        session, other = await agent.new_session(), await agent.new_session()
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "set_mode": lambda: session.set_mode("a"),
            "set_config_option": lambda: session.set_config_option("flag", True),
            "new_session": agent.new_session,
            "request": lambda: agent.request("_x/any"),
            "close_other": other.close,
        }
        count = 0
        async with session.prompt("x") as turn:
            async for _ in turn:
                if count == 0:
                    await calls[call]()
                count += 1
        assert count == FLOOD + 1
        assert trio.current_time() < 1


async def test_a_consumer_that_tells_more_than_the_agent_reads_does_not_deadlock(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Both ends write and neither reads: the client has to be the one that gives way."""
    payload = {"text": "x" * 100_000}

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("first")
        await flood(wire)  # and reads nothing until it has written all
        for _ in range(30):
            await wire.expect("_x/tell")
        await wire.end(prompt)

    async with Scene(script, OPTIONS, limit=PIPE) as (agent, _wire):
        session = await agent.new_session()
        count = 0
        async with session.prompt("x") as turn:
            async for _ in turn:
                if count == 0:
                    for _ in range(30):
                        await agent.notify("_x/tell", payload)
                count += 1
        assert count == FLOOD + 1
        assert trio.current_time() < 1


# Memory --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def traced() -> Generator[Callable[[], int], None, None]:
    """Measure what Python has allocated at most: exact, and slow."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


_STATM = pathlib.Path("/proc/self/statm")


@contextlib.contextmanager
def resident() -> Generator[Callable[[], int], None, None]:
    """Measure by how much this process has grown when asked, at most."""
    gc.collect()

    def pages() -> int:
        return int(_STATM.read_text().split()[1])

    before = most = pages()

    def peak() -> int:
        nonlocal most
        most = max(most, pages())
        return (most - before) * resource.getpagesize()

    yield peak


async def peak_of(count: int, conduct: Conduct, options: AcpOptions, measure: Any = traced) -> int:
    """Return the most memory that a turn with that many updates has taken, in bytes."""
    peaks: list[Callable[[], int]] = []

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        batch = frame(chunk("x" * 10)) * 1000
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                for _ in range(count // 1000):
                    await wire.raw(batch)
                    peaks[-1]()
                await wire.end(prompt, "cancelled")

            async def listen() -> None:
                while await wire.receive() is not None:
                    pass

            nursery.start_soon(listen)
            await send()
            nursery.cancel_scope.cancel()

    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        with measure() as peak:
            peaks.append(peak)
            try:
                async with session.prompt("x") as turn:
                    await conduct(agent, session, turn)
            except SlowConsumer:
                pass
            most: int = peak()
            return most


async def never_takes(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
    await trio.sleep_forever()


async def never_takes_and_asks(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
    await agent.request("_x/never_answered")


async def takes(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
    async for _ in turn:
        pass


async def leaves(agent: ConnectedAgent, session: Session, turn: Turn) -> None:
    pass


CONDUCTS = [never_takes, never_takes_and_asks, takes, leaves]
FLAT = AcpOptions(max_buffered_updates=16_000)


@pytest.mark.parametrize("conduct", CONDUCTS)
async def test_memory_does_not_follow_the_number_of_updates(
    autojump_clock: trio.testing.MockClock, conduct: Conduct
) -> None:
    """The turn's text grows with what the agent says, at little more than one byte for each."""
    peak = await peak_of(40_000, conduct, FLAT)
    assert peak < 8_000_000


@pytest.mark.slow
@pytest.mark.skipif(not _STATM.exists(), reason="needs /proc to measure memory cheaply")
@pytest.mark.parametrize("conduct", CONDUCTS)
async def test_a_million_updates_take_no_more_memory_than_the_limits_say(
    autojump_clock: trio.testing.MockClock, conduct: Conduct
) -> None:
    peak = await peak_of(1_000_000, conduct, FLAT, resident)
    assert peak < 40_000_000


@pytest.mark.parametrize("option", ["max_message_bytes", "max_junk_lines"])
def test_a_limit_on_what_the_agent_sends_is_at_least_one(option: str) -> None:
    options: dict[str, Any] = {option: 0}
    with pytest.raises(ValueError, match=f"{option} must be at least 1, not 0"):
        AcpOptions(**options)

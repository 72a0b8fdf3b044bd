"""The idle clock of a turn: what resets it, what stops it, and how it ends the turn."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, Selected


async def test_a_turn_without_activity_ends_as_too_slow(autojump_clock: trio.testing.MockClock) -> None:
    """E15, E16"""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await trio.sleep(5)
        await wire.text("a")
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await wire.end(await wire.prompt())

    async with Scene(script, AcpOptions(idle_timeout=10)) as (agent, _wire):
        session = await agent.new_session()
        began = trio.current_time()
        with pytest.raises(trio.TooSlowError, match="idle_timeout"):
            async with session.prompt("x") as turn:
                await turn.wait()
        assert trio.current_time() - began == pytest.approx(15)
        assert turn.text == "a"
        async with session.prompt("y", idle_timeout=1):
            pass


@pytest.mark.parametrize("activity", ["text", "malformed", "permission", "request"])
async def test_any_activity_of_the_session_resets_the_clock(
    autojump_clock: trio.testing.MockClock, activity: str
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(5):
            await trio.sleep(9)
            if activity == "text":
                await wire.text("a")
            elif activity == "malformed":
                await wire.update("agent_message_chunk", content=5)
            elif activity == "permission":
                await wire.answer(await wire.ask_permission())
            else:
                await wire.answer(await wire.ask("fs/read_text_file", {"sessionId": "s1", "path": "/a"}))
        await wire.end(prompt)

    async def read(request: Any) -> str:
        return ""

    async with Scene(script, AcpOptions(read_text_file=read)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x", idle_timeout=10) as turn:
            pass
        assert turn.stop_reason == "end_turn"


@pytest.mark.parametrize("method", ["permission", "read"])
async def test_the_clock_stands_still_while_the_agent_waits_for_an_answer(
    autojump_clock: trio.testing.MockClock, method: str
) -> None:
    async def slow(request: Any) -> Any:
        await trio.sleep(100)
        return "text" if method == "read" else Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await trio.sleep(9)
        if method == "read":
            await wire.answer(await wire.ask("fs/read_text_file", {"sessionId": "s1", "path": "/a"}))
        else:
            await wire.answer(await wire.ask_permission())
        await trio.sleep(9)
        await wire.end(prompt)

    options = AcpOptions(on_permission=slow, read_text_file=slow, permission_timeout=1000, idle_timeout=10)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        began = trio.current_time()
        async with session.prompt("x") as turn:
            pass
        assert turn.stop_reason == "end_turn"
        assert trio.current_time() - began == pytest.approx(118)


async def test_activity_of_another_session_does_not_count(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(3):
            await trio.sleep(4)
            await wire.text("a", "s9")
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(trio.TooSlowError):
            async with session.prompt("x", idle_timeout=10):
                pass


async def test_the_clock_stands_still_while_reading_is_paused_for_the_consumer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """E15: it is this side that does not read; the agent may have much to say."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(200):
            await wire.text("a")
        await wire.end(prompt)

    options = AcpOptions(idle_timeout=10, max_buffered_updates=160)
    async with Scene(script, options, limit=1000) as (agent, _wire):
        session = await agent.new_session()
        taken = 0
        async with session.prompt("x") as turn:
            async for _ in turn:
                taken += 1
                if taken % 5 == 0:
                    await trio.sleep(6)
        assert (taken, turn.stop_reason) == (200, "end_turn")


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
async def test_a_limit_that_is_none_is_refused_before_anything_is_sent(
    autojump_clock: trio.testing.MockClock, seconds: float
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.end(await wire.prompt())

    with pytest.raises(ValueError, match="idle_timeout must be more than 0"):
        AcpOptions(idle_timeout=seconds)
    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ValueError, match="idle_timeout must be more than 0"):
            session.prompt("x", idle_timeout=seconds)
        async with session.prompt("x", idle_timeout=math.inf):
            pass

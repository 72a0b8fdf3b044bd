"""Prompts that wait for the turn before them, and do not live to see their own."""

from __future__ import annotations

import contextvars

import trio
import trio.testing

from tests.agent.scripted import agent, connected
from trio_acp.agent import PromptContext


async def test_a_queued_prompt_that_is_withdrawn_leaves_the_line_to_the_next_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T1, X4: the turn before it goes on, and the one behind it has its turn."""
    handled: list[str] = []
    go_on = trio.Event()

    async def prompt(ctx: PromptContext) -> None:
        handled.append(ctx.text)
        await go_on.wait()

    async with connected(agent(prompt, overlapping_prompts="queue")) as client:
        session = await client.new_session()
        first, second, third = [await client.start_prompt(session, text) for text in ("1", "2", "3")]
        await client.notify("$/cancel_request", requestId=second)
        assert await client.answer(second) == {"stopReason": "cancelled"}
        assert not client.answered(first)
        go_on.set()
        for id in (first, third):
            assert await client.answer(id) == {"stopReason": "end_turn"}
        assert await client.prompt(session, "4") == {"stopReason": "end_turn"}
    assert handled == ["1", "3", "4"]


async def test_what_comes_behind_a_queued_prompt_does_not_wait_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T1: the prompt waits for the turn before it; other requests of the session do not."""
    go_on = trio.Event()

    async def prompt(ctx: PromptContext) -> None:
        await go_on.wait()

    app = agent(prompt, overlapping_prompts="queue")

    @app.on_ext_request("_ping")
    async def ping() -> str:
        return "pong"

    async with connected(app) as client:
        session = await client.new_session()
        prompts = [await client.start_prompt(session) for _ in range(2)]
        assert await client.call("_ping", sessionId=session) == "pong"
        assert not any(map(client.answered, prompts))
        go_on.set()
        for id in prompts:
            assert await client.answer(id) == {"stopReason": "end_turn"}


async def test_what_the_turn_before_has_set_in_its_context_is_nothing_to_a_queued_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T1: a turn begins in the context of its connection, whoever starts it."""
    speaker: contextvars.ContextVar[str] = contextvars.ContextVar("speaker", default="nobody")
    seen: list[str] = []

    async def prompt(ctx: PromptContext) -> None:
        seen.append(speaker.get())
        speaker.set(ctx.text)
        await trio.lowlevel.checkpoint()

    async with connected(agent(prompt, overlapping_prompts="queue")) as client:
        session = await client.new_session()
        for id in [await client.start_prompt(session, text) for text in ("1", "2", "3")]:
            assert await client.answer(id) == {"stopReason": "end_turn"}
    assert seen == ["nobody"] * 3

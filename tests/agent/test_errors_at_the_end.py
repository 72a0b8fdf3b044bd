"""Handlers of an agent, and stores, that fail while the end of the connection, or of a turn, cancels them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import agent, connected
from tests.agent.sessions import echo
from tests.support.mixtures import fail_when_cancelled
from trio_acp.agent import MemorySessionStore, SessionRecord


async def test_a_failing_clean_up_of_a_notifications_handler_is_logged_and_not_raised(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """N1"""
    app = agent(echo)

    @app.on_ext_notification("_news")
    async def handler(params: dict[str, Any]) -> None:
        await fail_when_cancelled(ValueError("mine"))

    async with connected(app) as client:
        await client.notify("_news")
        await trio.testing.wait_all_tasks_blocked()
    assert "the handler of _news failed" in caplog.text


async def test_a_failing_clean_up_of_on_close_session_is_logged_and_not_raised(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """S3"""
    app = agent(echo)

    @app.on_close_session
    async def handler() -> None:
        await fail_when_cancelled(ValueError("mine"))

    async with connected(app) as client:
        await client.new_session()
    assert "the on_close_session handler failed" in caplog.text


async def test_a_store_that_hangs_and_then_fails_costs_its_turn_no_answer(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X2, T1"""
    store = MemorySessionStore()
    save = store.save

    async def hang_and_fail(record: SessionRecord, updates: Sequence[dict[str, Any]]) -> None:
        if any(update["sessionUpdate"] == "agent_message_chunk" for update in updates):
            await fail_when_cancelled(OSError("disk"))
        await save(record, updates)

    monkeypatch.setattr(store, "save", hang_and_fail)
    async with connected(agent(echo, store=store)) as client:
        session = await client.new_session()
        assert await client.prompt(session) == {"stopReason": "end_turn"}
    assert "could not be saved" in caplog.text

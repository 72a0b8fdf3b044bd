"""A session's state: what was said, how much of it is remembered, and how its changes are told (S8, T5)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk, notice
from trio_acp import SessionState
from trio_acp.client import _snapshots
from trio_acp.client._snapshots import Transcript, fold
from trio_acp.schema import structure_update


def piece(text: str, id: str | None = None, role: str = "agent") -> Any:
    update: dict[str, Any] = {
        "sessionUpdate": f"{role}_message_chunk",
        "content": {"type": "text", "text": text},
    }
    return structure_update(update if id is None else {**update, "messageId": id})


PLAN = structure_update({"sessionUpdate": "plan", "entries": []})


def said(state: SessionState) -> list[str]:
    return [message.text for message in state.messages]


async def test_the_state_has_what_was_said_in_turns_and_between_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T5: a chunk without an id after a turn begins a message; one with an id goes on with it."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.burst(chunk("be"), chunk("fore"))
        prompt = await wire.prompt()
        await wire.burst(chunk("in"), chunk("side", messageId="m"), chunk("!", messageId="m"))
        await wire.end(prompt)
        await wire.burst(chunk("after"), chunk("?", messageId="m"), chunk("?", messageId="m"), chunk("end"))
        await wire.end(await wire.prompt())
        await wire.text("more")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await trio.testing.wait_all_tasks_blocked()
        async with session.prompt("x") as turn:
            pass
        await trio.testing.wait_all_tasks_blocked()
        assert said(session.state) == ["before", "in", "side!??", "after", "end"]
        assert [message.text for message in turn.messages] == ["in", "side!"]
        async with session.prompt("y"):
            pass
        await trio.testing.wait_all_tasks_blocked()
        # A turn has come between, though it said nothing.
        assert said(session.state)[-2:] == ["end", "more"]


def test_messages_between_turns_are_put_together_as_those_of_turns() -> None:
    """T5"""
    state = SessionState()
    for update in (
        piece("a"),
        piece("b"),
        piece("u", role="user"),
        PLAN,
        piece("v", role="user"),
        piece("1", "i"),
        piece("c"),
        piece("2", "i"),
        structure_update({"sessionUpdate": "from_the_future"}),
        piece("d"),
        structure_update({"sessionUpdate": "tool_call_update", "toolCallId": "t"}),
        piece("e"),
        structure_update({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
    ):
        fold(update, state, None)
    assert said(state) == ["ab", "u", "v", "12", "c", "d", "e", "hm"]


def test_messages_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_snapshots, "MAX_MESSAGES", 3)
    state = SessionState()
    for n in range(5):
        fold(piece(str(n), f"id{n}"), state, None)
    assert (said(state), state.history.lost) == (["2", "3", "4"], 2)
    # What was forgotten begins anew.
    fold(piece("again", "id0"), state, None)
    assert said(state) == ["3", "4", "again"]


def test_messages_are_bounded_in_size_and_the_newest_is_kept_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_snapshots, "MAX_MESSAGE_CHARACTERS", 100)
    state = SessionState()
    transcript = Transcript(state.history)
    for id in ("a", "b", "c"):
        fold(piece(id * 45, id), state, transcript)
    # Counted when the next one begins.
    assert [text[0] for text in said(state)] == ["a", "b", "c"]
    fold(piece("d" * 500, "d"), state, transcript)
    assert [text[0] for text in said(state)] == ["b", "c", "d"]
    fold(piece("e"), state, transcript)
    assert [text[0] for text in said(state)] == ["e"]
    # A message that a turn goes on with may be forgotten here already.
    fold(piece("d", "d"), state, transcript)
    fold(piece("e"), state, transcript)
    fold(piece("f", "f"), state, transcript)
    assert len(transcript.messages) == 7
    assert said(state)[-2:] == ["e", "f"]
    image = {"sessionUpdate": "agent_message_chunk", "messageId": "i"}
    image["content"] = {"type": "image", "mimeType": "image/png", "data": "x" * 400}  # type: ignore[assignment]
    fold(structure_update(image), state, None)
    fold(piece("g", "g"), state, None)
    assert said(state) == ["g"]


def test_the_last_of_a_forgotten_run_is_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest message may be the one that has to go, when a turn goes on with an older one."""
    monkeypatch.setattr(_snapshots, "MAX_MESSAGE_CHARACTERS", 10)
    state = SessionState()
    transcript = Transcript(state.history)
    fold(piece("a", "a"), state, transcript)
    fold(piece("b" * 20, "b"), state, transcript)
    fold(piece("a", "a"), state, transcript)
    fold(piece("c", "c"), state, transcript)
    assert said(state) == ["c"]
    fold(piece("d", "d"), state, None)
    assert said(state) == ["c", "d"]


async def test_changes_are_told_and_those_that_come_together_are_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await watched.wait()
        for n in range(3):
            await wire.burst(
                notice("s1", {"sessionUpdate": "session_info_update", "title": f"title {n}"}),
                notice("s1", {"sessionUpdate": "usage_update", "used": n, "size": 10}),
            )
            await trio.sleep(1)
        prompt = await wire.prompt()
        await wire.text("in a turn")
        await trio.sleep(1)
        await wire.end(prompt)
        await wire.result(await wire.expect("session/close"), {})

    seen: list[tuple[str | None, int]] = []
    ends: list[str] = []
    watched = trio.Event()

    async def watch(changes: Any, name: str) -> None:
        assert aiter(changes) is changes
        async for state in changes:
            seen.append((state.title, len(state.messages)))
        ends.append(name)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, session.state_changes(), "one")
            nursery.start_soon(anext, session.state_changes())
            await trio.testing.wait_all_tasks_blocked()
            watched.set()
            await trio.sleep(2.5)
            assert seen == [("title 0", 0), ("title 1", 0), ("title 2", 0)]
            idle = session.state_changes()
            async with session.prompt("x"):
                pass
            assert seen[3:] == [("title 2", 1)]
            # A cancelled wait loses nothing.
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(idle)
            assert (await anext(idle)).messages[0].text == "in a turn"
            await session.close()
        assert ends == ["one"]
        with pytest.raises(StopAsyncIteration):
            await anext(idle)


async def test_every_way_to_change_a_state_is_told(autojump_clock: trio.testing.MockClock) -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    option = {
        "id": "o",
        "name": "O",
        "type": "select",
        "currentValue": "x",
        "options": [{"value": "x", "name": "X"}],
    }
    models = {"currentModelId": "m", "availableModels": [{"modelId": "m"}]}

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.burst(
            chunk("early"),
            wire.result_of(
                new, {"sessionId": "s1", "modes": modes, "models": models, "configOptions": [option]}
            ),
        )
        await wire.result(await wire.expect("session/set_mode"), {})
        await wire.result(await wire.expect("session/set_model"), {})
        await wire.result(await wire.expect("session/set_config_option"), {"configOptions": [option]})
        load = await wire.expect("session/load")
        await wire.text("replayed")
        await wire.result(load, None)
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(10)
        await wire.text("late")
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        changes = session.state_changes()
        for call in (
            session.set_mode("b"),
            session.set_model("m"),
            session.set_config_option("o", "x"),
            agent.load_session("s1"),
        ):
            await call
            with trio.fail_after(1):
                await anext(changes)
        async with session.prompt("x") as turn:
            turn.cancel()
        with trio.fail_after(20):
            state = await anext(changes)
        assert said(state) == ["replayed", "late"]


async def test_the_end_of_the_connection_ends_the_changes(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await trio.sleep(1)
        wire.close()

    async with Scene(script, peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        assert [state async for state in session.state_changes()] == []
        assert notice("s1", {})["params"]["sessionId"] == session.id

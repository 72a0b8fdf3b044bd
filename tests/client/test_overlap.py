"""Prompts while another turn of the session runs: refused, queued, or the other is cancelled (T1)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import (
    AcpOptions,
    Cancelled,
    ConnectionLost,
    Decision,
    LocalProtocolError,
    PermissionRequest,
    Session,
    SessionBusy,
)
from trio_acp.client import _overlap

WAITING: Any = ["queue", "cancel"]


async def one_turn(session: Session, text: str, done: list[Any], **more: Any) -> None:
    async with session.prompt(text, **more) as turn:
        await turn.wait()
    done.append((text, turn.stop_reason))


def text_of(prompt: dict[str, Any]) -> str:
    text: str = prompt["params"]["prompt"][0]["text"]
    return text


async def test_queued_prompts_run_one_after_the_other_in_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T1: the referee sees to it that never two run at a time."""
    order: list[str] = []

    async def script(wire: Wire) -> None:
        await wire.new_session()
        for _ in range(4):
            prompt = await wire.prompt()
            order.append(text_of(prompt))
            await trio.sleep(1)
            await wire.end(prompt)

    async with Scene(script, AcpOptions(overlap="queue")) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []
        async with trio.open_nursery() as nursery:
            for text in "abcd":
                nursery.start_soon(one_turn, session, text, done)
                await trio.testing.wait_all_tasks_blocked()
            # Those that wait go first.
            await trio.sleep(1.5)
            with pytest.raises(SessionBusy, match="waiting"):
                async with session.prompt("e", overlap="reject"):
                    pass  # pragma: no cover  (entering fails)
        assert order == ["a", "b", "c", "d"]
        assert done == [(text, "end_turn") for text in "abcd"]


async def test_each_of_several_prompts_that_cancel_gets_its_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        for last in (False, False, True):
            prompt = await wire.prompt()
            if not last:
                await wire.expect("session/cancel")
                await trio.sleep(1)
            await wire.end(prompt, "end_turn" if last else "cancelled")

    async with Scene(script, AcpOptions(overlap="cancel")) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []
        async with trio.open_nursery() as nursery:
            for text in "abc":
                nursery.start_soon(one_turn, session, text, done)
                await trio.testing.wait_all_tasks_blocked()
        assert sorted(done) == [("a", "cancelled"), ("b", "cancelled"), ("c", "end_turn")]


@pytest.mark.parametrize("overlap", WAITING)
async def test_a_turn_that_does_not_end_is_not_waited_for_for_ever(
    autojump_clock: trio.testing.MockClock, overlap: Any
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(13)
        await wire.end(prompt)
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one_turn, session, "a", done)
            await trio.testing.wait_all_tasks_blocked()
            if overlap == "queue":
                session.cancel()
            # 5 s for the turn to be abandoned, 5 s more for its late end.
            with pytest.raises(SessionBusy, match="abandoned"):
                await one_turn(session, "b", done, overlap=overlap)
            assert trio.current_time() == pytest.approx(10, abs=0.1)
            await one_turn(session, "c", done, overlap=overlap)
        assert done == [("a", None), ("c", "end_turn")]


@pytest.mark.parametrize("given_up", [False, True])
async def test_a_queued_prompt_waits_for_a_load_too(
    autojump_clock: trio.testing.MockClock, given_up: bool
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        load = await wire.expect("session/load")
        if given_up:
            await wire.expect("$/cancel_request")
        await trio.sleep(3)
        await wire.result(load, None)
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []

        async def load() -> None:
            with trio.move_on_after(1 if given_up else 100):
                await agent.load_session("s1")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await trio.testing.wait_all_tasks_blocked()
            await one_turn(session, "b", done, overlap="queue")
        assert done == [("b", "end_turn")]


@pytest.mark.parametrize("overlap", WAITING)
async def test_a_prompt_that_waits_can_be_cancelled_and_costs_nothing(
    autojump_clock: trio.testing.MockClock, overlap: Any
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        if overlap == "cancel":
            await wire.expect("session/cancel")
        await trio.sleep(3)
        await wire.end(prompt, "cancelled")
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one_turn, session, "a", done)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1) as scope:
                await one_turn(session, "b", done, overlap=overlap)
            assert scope.cancelled_caught
        await one_turn(session, "c", done)
        assert done == [("a", "cancelled"), ("c", "end_turn")]


@pytest.mark.parametrize("overlap", WAITING)
async def test_a_handler_cannot_wait_for_its_own_turn(
    autojump_clock: trio.testing.MockClock, overlap: Any
) -> None:
    """It would wait for ever: the turn waits for its handlers. Another session is no problem."""

    async def on_permission(request: PermissionRequest) -> Decision:
        with pytest.raises(SessionBusy, match="handler"):
            await one_turn(session, "inside", done, overlap=overlap)
        await one_turn(other, "elsewhere", done, overlap=overlap)
        return Cancelled()

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await wire.new_session("s2")
        prompt = await wire.prompt("s1")
        id = await wire.ask_permission("s1")
        await wire.end(await wire.prompt("s2"))
        await wire.answer(id)
        await wire.end(prompt)

    async with Scene(script, AcpOptions(on_permission=on_permission)) as (agent, _wire):
        session, other = await agent.new_session(), await agent.new_session()
        done: list[Any] = []
        await one_turn(session, "a", done)
        assert done == [("elsewhere", "end_turn"), ("a", "end_turn")]


async def test_the_queue_has_a_limit(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_overlap, "MAX_QUEUED_PROMPTS", 2)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await full.wait()
        await wire.end(prompt)
        for _ in range(3):
            await wire.end(await wire.prompt())

    full = trio.Event()
    async with Scene(script, AcpOptions(overlap="queue")) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []
        async with trio.open_nursery() as nursery:
            for text in "abcd":
                nursery.start_soon(one_turn, session, text, done)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(SessionBusy, match="wait for some"):
                await one_turn(session, "e", done)
            full.set()
        assert len(done) == 4


@pytest.mark.parametrize("end", ["lost", "closed"])
async def test_what_waits_is_told_when_there_will_be_no_turn(
    autojump_clock: trio.testing.MockClock, end: str
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        if end == "lost":
            await trio.sleep(1)
            wire.close()
        else:
            await wire.expect("session/cancel")
            await wire.result(await wire.expect("session/close"), {})
            await wire.end(prompt, "cancelled")

    async with Scene(script, peaceful=False) as (agent, _wire):
        session = await agent.new_session()

        async def waiting() -> None:
            with pytest.raises(ConnectionLost if end == "lost" else LocalProtocolError):
                await one_turn(session, "b", [], overlap="queue")

        async with trio.open_nursery() as nursery:
            turn = session.prompt("a")
            try:
                async with turn:
                    nursery.start_soon(waiting)
                    await trio.testing.wait_all_tasks_blocked()
                    if end == "closed":
                        await session.close()
            except ConnectionLost:
                assert end == "lost"


async def test_another_word_for_it_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(ValueError, match="overlap"):
        AcpOptions(overlap="wait")  # type: ignore[arg-type]
    async with Scene(Wire.new_session) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ValueError, match="overlap"):
            session.prompt("x", overlap="wait")  # type: ignore[arg-type]


async def test_a_load_that_comes_first_is_waited_for(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the session and the sending there may be a wait for room to write."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.result(await wire.expect("session/load"), None)
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        done: list[Any] = []
        peer = agent._connection.peer
        room = peer.room
        async with trio.open_nursery() as nursery:

            async def crowded() -> None:
                monkeypatch.setattr(peer, "room", room)
                nursery.start_soon(agent.load_session, "s1")
                while not session.busy:
                    await trio.lowlevel.checkpoint()

            monkeypatch.setattr(peer, "room", crowded)
            await one_turn(session, "a", done, overlap="queue")
        assert done == [("a", "end_turn")]

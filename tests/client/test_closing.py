"""The end of a connection from this side, and what calls are told afterwards (W11)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import CANCELLED, Scene, Wire, chunk
from trio_acp import AcpOptions, ConnectedAgent, ConnectionClosed, ConnectionLost, Session

READ = {"sessionId": "s1", "path": "/a"}


async def test_calls_after_the_end_say_that_this_program_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with Scene(Wire.new_session) as (agent, _wire):
        session = await agent.new_session()
        await agent.aclose()
        await agent.aclose()
        for call in (
            agent.new_session,
            lambda: agent.request("_x"),
            lambda: agent.notify("_x"),
            session.close,
        ):
            with pytest.raises(ConnectionClosed):
                await call()
        with pytest.raises(ConnectionClosed):
            async with session.prompt("x"):
                pass  # pragma: no cover  (entering fails)
        with pytest.raises(ConnectionClosed):
            await agent.generate("x")
        assert [update async for update in session.updates()] == []
        assert [update async for update in agent.updates()] == []
        assert isinstance(await agent.wait_lost(), ConnectionClosed)


async def test_a_running_turn_is_cancelled_and_may_end_before_the_stream_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(2)
        await wire.text("last words")
        await wire.end(prompt, "cancelled")
        assert await wire.receive() is None

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await agent.aclose()
        assert (turn.stop_reason, turn.text, turn.cancel_requested) == ("cancelled", "last words", True)


async def test_a_turn_that_does_not_end_is_abandoned_and_what_waits_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.prompt()
        await wire.expect("_x/never")
        await wire.expect("session/cancel")
        assert await wire.receive() is None

    failed: list[BaseException] = []

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()

        async def ask() -> None:
            with pytest.raises(ConnectionClosed) as caught:
                await agent.request("_x/never")
            failed.append(caught.value)

        async with trio.open_nursery() as nursery:
            async with session.prompt("x") as turn:
                nursery.start_soon(ask)
                await trio.sleep(1)
                began = trio.current_time()
                await agent.aclose()
                assert trio.current_time() - began == pytest.approx(5)
        assert turn.abandoned
        assert turn.stop_reason is None
    assert failed


async def test_open_requests_are_answered_and_queued_answers_written_before_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Those of handlers that unwind, and those of handlers that do not: exactly one answer each."""

    async def on_permission(request: Any) -> Any:
        await trio.sleep_forever()

    async def shielded(request: Any) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        return "too late"

    async def script(wire: Wire) -> None:
        await wire.new_session()
        permission = await wire.ask_permission()
        reading = await wire.ask("fs/read_text_file", READ)
        await trio.sleep(1)
        assert await wire.answer(permission) == CANCELLED
        late = await wire.ask("fs/read_text_file", READ)
        assert await wire.refusal(late) == -32800
        later = await wire.ask_permission()
        assert await wire.answer(later) == CANCELLED
        assert await wire.refusal(reading) == -32800
        assert await wire.receive() is None

    options = AcpOptions(on_permission=on_permission, read_text_file=shielded)
    async with Scene(script, options) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(2)
        await agent.aclose()


async def test_an_agent_that_does_not_read_does_not_hold_up_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.expect("_x/tell")

    async with Scene(script, limit=1000, peaceful=False) as (agent, wire):
        await agent.notify("_x/tell", {})
        await trio.testing.wait_all_tasks_blocked()
        await agent.notify("_x/more", {"text": "x" * 100_000})
        began = trio.current_time()
        await agent.aclose()
        assert trio.current_time() - began <= 5
        wire.ended = True


async def test_the_cancellation_of_the_nursery_ends_turns_in_it_in_order(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        permission = await wire.ask_permission()
        await wire.expect("session/cancel")
        assert await wire.answer(permission) == CANCELLED
        await wire.end(prompt, "cancelled")
        assert await wire.receive() is None
        wire.referee.end_of_client()

    async def on_permission(request: Any) -> Any:
        await trio.sleep_forever()

    scene = Scene(script, AcpOptions(on_permission=on_permission), peaceful=False)
    turns: list[Any] = []
    # The scene's own nursery is what is cancelled, by the scope around it.
    with trio.move_on_after(1) as scope:
        async with scene as (agent, _wire):
            session = await agent.new_session()
            async with session.prompt("x") as turn:
                turns.append(turn)
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert turns[0].cancel_requested


@pytest.mark.parametrize("where", ["update", "wire"])
async def test_what_a_hook_raises_outside_of_a_turn_is_raised_in_the_nursery(
    autojump_clock: trio.testing.MockClock, where: str
) -> None:
    """As itself, after everything has been closed in order."""
    mine = ValueError("mine")

    def on_update(params: Any) -> None:
        if where == "update":
            raise mine

    def on_wire(direction: str, message: Any) -> None:
        if where == "wire" and message.get("method") == "session/update":
            raise mine

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.text("x")
        assert await wire.receive() is None

    with pytest.raises(ExceptionGroup) as caught:  # of the scene's own nursery
        async with Scene(script, AcpOptions(on_update=on_update, on_wire=on_wire)) as (agent, _wire):
            await agent.new_session()
            await trio.sleep(10)
    assert caught.value.exceptions == (mine,)


async def test_a_hook_that_fails_without_end_outside_of_a_turn_does_not_pile_up_errors(
    autojump_clock: trio.testing.MockClock,
) -> None:
    calls = 0

    def on_update(params: Any) -> None:
        nonlocal calls
        calls += 1
        raise ValueError(calls)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.burst(*[chunk("x")] * 50)

    with pytest.raises(ExceptionGroup) as caught:  # of the scene's own nursery
        async with Scene(script, AcpOptions(on_update=on_update)) as (agent, _wire):
            await agent.new_session()
            await trio.sleep(10)
    one: BaseException | None = caught.value.exceptions[0]
    assert repr(one) == "ValueError(1)"
    length = 0
    while one is not None:
        length, one = length + 1, one.__context__
    assert length <= 16 < calls


async def test_a_hook_that_fails_while_the_nursery_is_cancelled_is_not_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A real error goes before a neighbouring cancellation."""
    mine = ValueError("mine")

    def on_update(params: Any) -> None:
        scope.cancel()
        raise mine

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.text("x")

    scope = trio.CancelScope()
    with pytest.raises(ExceptionGroup) as caught, scope:
        async with Scene(script, AcpOptions(on_update=on_update)) as (agent, _wire):
            await agent.new_session()
            await trio.sleep(10)
    assert caught.value.exceptions == (mine,)


async def test_the_end_of_the_agent_ends_streams_and_fails_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.text("last words")
        wire.close()

    async with Scene(script, peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        assert isinstance(await agent.wait_lost(), ConnectionLost)
        assert agent.closed
        assert len([update async for update in session.updates()]) == 1
        assert [update async for update in agent.updates()] == []
        with pytest.raises(ConnectionLost):
            await agent.new_session()
        with pytest.raises(ConnectionLost):
            async with session.prompt("x"):
                pass  # pragma: no cover  (entering fails)


async def test_an_agent_that_dies_while_a_session_is_being_given_back_is_no_trouble(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The late answer, and behind it the end."""

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.expect("$/cancel_request")
        await wire.result(new, {"sessionId": "s1"})
        wire.close()

    async with Scene(script, peaceful=False) as (agent, _wire):
        with trio.move_on_after(1):
            await agent.new_session()
        await agent.wait_lost()
        assert dict(agent.sessions) == {}


async def test_calls_from_another_thread_name_the_way_in(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.quiet()
        await trio.sleep(10)
        await wire.end(prompt)

    def elsewhere(agent: ConnectedAgent, session: Session, turn: Any) -> list[str]:
        said: list[str] = []

        def other_run() -> None:
            for call in (
                turn.cancel,
                session.cancel,
                agent.cancel,
                lambda: trio.run(agent.new_session),
                lambda: trio.run(agent.request, "_x"),
            ):
                try:
                    call()
                except RuntimeError as error:
                    said.append(str(error))

        thread = threading.Thread(target=other_run)
        thread.start()
        thread.join()
        return said

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            said = elsewhere(agent, session, turn)
        assert len(said) == 5
        assert all("trio.from_thread" in words for words in said)
        assert not turn.cancel_requested

"""Cancelling a turn, by each way that there is (X1 to X4): what is sent, when, and what stays usable."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import ALLOW_OR_REJECT, CANCELLED, Scene, Wire, chunk, select
from trio_acp import (
    AcpOptions,
    ConnectionLost,
    PermissionRequest,
    RemoteProtocolError,
    Selected,
    SessionBusy,
    SessionScope,
    Turn,
)


async def never(request: PermissionRequest) -> Selected:
    await trio.sleep_forever()
    raise AssertionError


OPTIONS = AcpOptions(on_permission=never, permission_timeout=1000)


async def test_the_stop_button_sends_the_cancellation_at_once_and_the_iteration_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """X1: session/cancel first, then `cancelled` for each open permission request; later ones at once."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        first, second = await wire.ask_permission(), await wire.ask_permission()
        await wire.text("before")
        await wire.expect("session/cancel", sessionId="s1")
        assert await wire.answer(first) == CANCELLED
        assert await wire.answer(second) == CANCELLED
        third = await wire.ask_permission()
        assert await wire.answer(third) == CANCELLED
        await wire.text(" after")
        await wire.end(prompt, "cancelled")
        await wire.quiet()

    async with Scene(script, OPTIONS) as (agent, wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await anext(turn)
            await trio.testing.wait_all_tasks_blocked()
            sent = len(wire.referee.sent)
            turn.cancel()
            turn.cancel()
            session.cancel()
            assert len(wire.referee.sent) == sent  # the referee has not read yet, but it is queued:
            assert turn.cancel_requested
            assert "being cancelled" in repr(turn)
            rest = [update async for update in turn]
        turn.cancel()
        session.cancel()
        assert len(rest) == 1
        assert turn.text == "before after"
        assert turn.stop_reason == "cancelled"
        assert not turn.abandoned


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [
        ({"result": {"stopReason": "cancelled"}}, "cancelled"),
        ({"result": {"stopReason": "end_turn"}}, "end_turn"),
        ({"error": {"code": -32800, "message": "aborted"}}, "cancelled"),
        ({"error": {"code": -32603, "message": "AbortError"}}, "cancelled"),
        ({"result": {"stopped": True}}, "cancelled"),
        ({}, "cancelled"),
    ],
)
@pytest.mark.parametrize("how", ["button", "scope"])
async def test_whatever_the_agent_answers_after_a_cancellation_is_a_normal_end(
    autojump_clock: trio.testing.MockClock, answer: dict[str, Any], stop_reason: str, how: str
) -> None:
    """E1, E5: and the next prompt works."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.burst({"jsonrpc": "2.0", "id": prompt["id"], **answer})
        await wire.end(await wire.prompt())
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            if how == "button":
                turn.cancel()
            else:
                turn.cancel_scope.cancel()
                await trio.sleep_forever()
        assert turn.stop_reason == stop_reason
        assert turn.cancel_requested
        assert not turn.abandoned
        async with session.prompt("y") as turn:
            pass
        assert turn.stop_reason == "end_turn"


@pytest.mark.parametrize("gone", ["lost", "junk"])
async def test_a_connection_that_ends_is_no_answer_to_a_cancellation(
    autojump_clock: trio.testing.MockClock, gone: str
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.prompt()
        await wire.expect("session/cancel")
        if gone == "lost":
            wire.close()
        else:
            await wire.raw(b"junk\n" * 3)

    expected = ConnectionLost if gone == "lost" else RemoteProtocolError
    async with Scene(script, AcpOptions(max_junk_lines=3), peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(expected):
            async with session.prompt("x") as turn:
                turn.cancel()
                await turn.wait()


async def cancel_scope(turn: Turn, outer: trio.CancelScope) -> None:
    turn.cancel_scope.cancel()
    await trio.lowlevel.checkpoint()


async def outer_scope(turn: Turn, outer: trio.CancelScope) -> None:
    outer.cancel()
    await trio.lowlevel.checkpoint()


async def timeout(turn: Turn, outer: trio.CancelScope) -> None:
    outer.deadline = trio.current_time() + 3
    async for _ in turn:
        pass


async def error(turn: Turn, outer: trio.CancelScope) -> None:
    raise ValueError("mine")


async def group(turn: Turn, outer: trio.CancelScope) -> None:
    raise ExceptionGroup("mine", [ValueError("mine")])


WAYS = [cancel_scope, outer_scope, timeout, error, group]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stubborn", [False, True])
async def test_what_unwinds_the_body_is_told_to_the_agent_and_its_end_awaited(
    autojump_clock: trio.testing.MockClock, way: Any, stubborn: bool
) -> None:
    """E8: shielded and bounded; if the agent does not end the turn, it is abandoned."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("a")
        id = await wire.ask_permission()
        await wire.expect("session/cancel")
        assert await wire.answer(id) == CANCELLED
        await wire.text("b")
        await trio.sleep(7 if stubborn else 2)
        await wire.text("c")
        await wire.end(prompt, "cancelled")
        await wire.end(await wire.prompt())
        await wire.quiet()

    turn: Turn | None = None
    async with Scene(script, OPTIONS) as (agent, _wire):
        session = await agent.new_session()
        began = trio.current_time()
        unwound = 0.0
        raised: BaseException | None = None
        with trio.CancelScope() as outer:
            try:
                async with session.prompt("x") as turn:
                    await trio.sleep(1)
                    try:
                        await way(turn, outer)
                    finally:
                        unwound = trio.current_time()
            except (ValueError, ExceptionGroup) as mine:
                raised = mine
        assert turn is not None
        waited = 3 if way is timeout else 0
        assert unwound - began == pytest.approx(1 + waited)
        assert trio.current_time() - unwound == pytest.approx(5 if stubborn else 2)
        assert outer.cancelled_caught == (way in (outer_scope, timeout))
        assert type(raised) is {error: ValueError, group: ExceptionGroup}.get(way, type(None))
        assert turn.cancel_requested
        assert turn.abandoned == stubborn
        assert turn.stop_reason == (None if stubborn else "cancelled")
        # Late updates of an abandoned turn go nowhere.
        assert turn.text == ("ab" if stubborn else "abc")
        if stubborn:
            assert "abandoned" in repr(turn)
        async with session.prompt("y") as turn:
            pass
        assert turn.stop_reason == "end_turn"
        assert len(session.updates()) == 0


async def test_the_cancellation_is_told_at_once_even_when_the_body_is_shielded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told_at: list[float] = []

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        told_at.append(trio.current_time())
        await wire.end(prompt, "cancelled")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            with trio.CancelScope(shield=True):
                cancelled_at = trio.current_time()
                turn.cancel_scope.cancel()
                await trio.sleep(50)
        assert told_at == [cancelled_at]
        assert trio.current_time() - cancelled_at == pytest.approx(50)
        assert turn.stop_reason == "cancelled"


async def test_an_abandoned_turn_ends_the_iteration_and_leaves_the_body_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """E7: by the stop button; the body is not cancelled, and everything it awaits works."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.prompt()
        await wire.text("a")
        await wire.expect("session/cancel")

    async with Scene(script, OPTIONS) as (agent, _wire):
        session = await agent.new_session()
        began = trio.current_time()
        async with session.prompt("x") as turn:
            turn.cancel()
            got = [update async for update in turn]
            assert trio.current_time() - began == pytest.approx(5)
            assert turn.abandoned
            await trio.sleep(1)
            assert await turn.wait() is None
        assert trio.current_time() - began == pytest.approx(6)
        assert len(got) == 1
        assert turn.stop_reason is None


async def test_late_messages_of_an_abandoned_turn_are_fenced_up_to_the_late_answer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """State is folded, updates dropped, permission `cancelled` at once, other requests -32800."""
    read: list[Any] = []

    async def read_text_file(request: Any) -> str:
        read.append(request.path)
        return "text"

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(6)
        await wire.text("late")
        await wire.update("session_info_update", title="late title")
        assert await wire.answer(await wire.ask_permission()) == CANCELLED
        late_read = await wire.ask("fs/read_text_file", {"sessionId": "s1", "path": "/a"})
        assert await wire.refusal(late_read) == -32800
        await wire.burst(wire.result_of(prompt, {"stopReason": "cancelled"}), chunk("between"))
        early_read = await wire.ask("fs/read_text_file", {"sessionId": "s1", "path": "/b"})
        assert await wire.answer(early_read) == {"content": "text"}
        prompt = await wire.prompt()
        await wire.text("fresh")
        await wire.end(prompt)
        await wire.quiet()

    options = AcpOptions(on_permission=never, read_text_file=read_text_file)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turn.cancel()
        assert turn.abandoned
        await trio.sleep(3)
        assert turn.text == ""
        assert turn.stop_reason is None
        assert session.state.title == "late title"
        assert len(session.updates()) == 1  # what came behind the answer belongs to nobody's turn
        async with session.prompt("y") as turn:
            pass
        assert turn.text == "fresh"
        assert read == ["/b"]


async def test_the_next_prompt_waits_for_the_late_answer_for_the_grace_and_then_says_busy(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.new_session("s2")
        prompt = await wire.prompt()
        await wire.expect("session/cancel", sessionId="s1")
        other = await wire.prompt("s2")
        await wire.text("fine", "s2")
        await wire.end(other)
        await trio.sleep(5 + 5 + 3)
        await wire.end(prompt, "cancelled")
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session, other = await agent.new_session(), await agent.new_session()
        async with session.prompt("x") as turn:
            turn.cancel()
            async with other.prompt("y") as others:
                pass
            assert others.text == "fine"
        assert turn.abandoned
        began = trio.current_time()
        with pytest.raises(SessionBusy, match="abandoned"):
            async with session.prompt("z"):
                pass  # pragma: no cover  (entering fails)
        assert trio.current_time() - began == pytest.approx(5)
        async with session.prompt("z") as turn:
            pass
        assert trio.current_time() - began == pytest.approx(8)
        assert turn.stop_reason == "end_turn"


async def test_a_turn_that_ended_is_not_cancelled_any_more(autojump_clock: trio.testing.MockClock) -> None:
    """X3: nothing is sent when the body is cancelled, or fails, after the answer."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        for _ in range(3):
            await wire.end(await wire.prompt())
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await turn.wait()
            turn.cancel()
            turn.cancel_scope.cancel()
            await trio.sleep_forever()
        assert turn.stop_reason == "end_turn"
        assert not turn.cancel_requested
        with pytest.raises(ValueError, match="mine"):
            async with session.prompt("x") as turn:
                await turn.wait()
                raise ValueError("mine")
        with trio.move_on_after(1) as scope:
            async with session.prompt("x") as turn:
                await turn.wait()
                await trio.sleep_forever()
        assert scope.cancelled_caught


async def test_a_cancellation_while_the_block_waits_for_the_end_is_one_of_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        for _ in range(2):
            prompt = await wire.prompt()
            await wire.expect("session/cancel")
            await wire.end(prompt, "cancelled")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with trio.move_on_after(1) as scope:
            async with session.prompt("x"):
                pass
        assert scope.cancelled_caught
        async with session.prompt("x") as turn:
            turn.cancel_scope.deadline = trio.current_time() + 1
        assert turn.stop_reason == "cancelled"


async def test_a_cancelled_entry_sends_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with trio.CancelScope() as scope:
            scope.cancel()
            async with session.prompt("x"):
                pass  # pragma: no cover  (entering is cancelled)
        assert scope.cancelled_caught
        assert not session.busy
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("stop_button_before", [False, True])
async def test_requests_while_a_turn_unwinds_are_still_served(
    autojump_clock: trio.testing.MockClock, stop_button_before: bool
) -> None:
    """F4: an agent that cleans up after a cancellation can do so, though the turn's scope is cancelled."""
    released: list[str] = []
    began = trio.current_time()

    class Terminals:
        async def release(self, request: Any, session: SessionScope) -> None:
            await trio.sleep(1)
            released.append(request.terminal_id)

        create = output = wait_for_exit = kill = release

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep_until(began + 2)  # the body is being unwound by then
        id = await wire.ask("terminal/release", {"sessionId": "s1", "terminalId": "t"})
        assert await wire.answer(id) == {}
        await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(terminals=Terminals())) as (agent, _wire):  # type: ignore[arg-type]
        session = await agent.new_session()
        with trio.move_on_after(1):
            async with session.prompt("x") as turn:
                if stop_button_before:
                    turn.cancel()
                await trio.sleep_forever()
        assert released == ["t"]


async def test_handlers_that_are_cancelled_before_they_begin_keep_nobody_waiting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """F4: those behind them in the line begin all the same, in whatever order Trio starts the tasks."""

    async def read(request: Any) -> str:
        return "text"

    params = {"sessionId": "s1", "path": "/w/a"}

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.burst(*[wire.asking("fs/read_text_file", params) for _ in range(20)])
        # The cancellation, and an answer to each: a result of those that were quick, else -32800.
        assert None not in [await wire.receive() for _ in range(21)]
        last = await wire.ask("fs/read_text_file", params)
        assert await wire.answer(last) == {"content": "text"}
        await wire.end(prompt, "cancelled")

    turns: list[Turn] = []

    def cancel_in_the_middle(direction: str, message: dict[str, Any]) -> None:
        if message.get("id") == "a20":
            turns[0].cancel_scope.cancel()

    options = AcpOptions(read_text_file=read, on_wire=cancel_in_the_middle)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turns.append(turn)
            await trio.sleep_forever()
        assert turn.stop_reason == "cancelled"


@pytest.mark.parametrize("seen_by", ["body", "watcher", "permission", "reader"])
async def test_whoever_sees_the_cancellation_first_sends_it_before_any_answer(
    autojump_clock: trio.testing.MockClock, seen_by: str
) -> None:
    """X1, in every order in which Trio may run the tasks: the referee and the script check the order."""

    async def handler(request: Any) -> Any:
        await trio.sleep_forever()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        permission = await wire.ask_permission()
        read = await wire.ask("fs/read_text_file", {"sessionId": "s1", "path": "/a"})
        await wire.expect("session/cancel")
        assert await wire.answer(permission) == CANCELLED
        assert await wire.refusal(read) == -32800
        await wire.end(prompt, "cancelled")

    options = AcpOptions(on_permission=handler, read_text_file=handler, permission_timeout=1000)
    for _ in range(10):
        async with Scene(script, options) as (agent, _wire):
            session = await agent.new_session()
            with trio.CancelScope() as scope:
                async with session.prompt("x"):
                    await trio.sleep(1)
                    scope.cancel()
                    with trio.CancelScope(shield=seen_by != "body"):
                        await trio.sleep(1)


async def test_a_decision_in_the_very_moment_of_the_cancellation_is_one_answer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """P1, X1: the handler decides and presses the stop button, in either order."""
    order: list[str] = []
    turns: list[Turn] = []

    async def handler(request: PermissionRequest) -> Selected:
        turns[-1].cancel()
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission(options=ALLOW_OR_REJECT)
        await wire.expect("session/cancel")
        order.append("cancel")
        assert await wire.answer(id) == CANCELLED != select("yes")
        await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turns.append(turn)
            await turn.wait()
    assert order == ["cancel"]

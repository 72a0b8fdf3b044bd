"""Permission handlers that are plain functions: called when the request is read, answered at once."""

from __future__ import annotations

import contextvars
import logging
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._handlers import run_turn
from tests.client._scripted import CANCELLED, Scene, Wire, select
from trio_acp import AcpOptions, LocalProtocolError, PermissionRequest, Reject, Selected, Turn


def asking(answer: Any, *, cancels: bool = False) -> Any:
    """Return a script that asks once in a turn."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        assert await wire.answer(id) == answer
        if cancels:
            await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled" if cancels else "end_turn")
        await wire.quiet()

    return script


async def test_a_plain_function_decides_without_a_task_in_the_context_of_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    variable = contextvars.ContextVar[str]("variable", default="unset")
    seen: list[tuple[str, bool]] = []
    mine = trio.lowlevel.current_task()

    def handler(request: PermissionRequest) -> Selected:
        seen.append((variable.get(), trio.lowlevel.current_task() is mine))
        return Selected("yes")

    variable.set("of the opener")
    turn = await run_turn(asking(select("yes")), handler)
    assert turn.stop_reason == "end_turn"
    assert seen == [("of the opener", False)]


async def test_what_a_plain_function_sets_in_its_context_no_other_call_sees(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """In a turn and outside of one, as for a handler that is a task."""
    variable = contextvars.ContextVar[int]("variable", default=0)
    seen: list[int] = []

    def handler(request: PermissionRequest) -> Selected:
        seen.append(variable.get())
        variable.set(1)
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(2):
            assert await wire.answer(await wire.ask_permission()) == select("yes")
        await wire.end(prompt, "end_turn")
        for _ in range(2):
            assert await wire.answer(await wire.ask_permission()) == select("yes")

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await turn.wait()
        await trio.sleep(1)
    assert seen == [0, 0, 0, 0]


class Rule:
    """A handler with a state."""

    def __call__(self, request: PermissionRequest) -> Reject:
        return Reject()


async def test_an_object_that_can_be_called_decides_too(autojump_clock: trio.testing.MockClock) -> None:
    assert (await run_turn(asking(select("no")), Rule())).stop_reason == "end_turn"


async def test_what_a_plain_function_returns_to_be_awaited_is_awaited_in_a_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def decide(request: PermissionRequest) -> Selected:
        await trio.sleep(29)
        return Selected(request.options[0].option_id)

    turn = await run_turn(asking(select("yes")), lambda request: decide(request))
    assert turn.stop_reason == "end_turn"


async def test_its_exception_rejects_and_leaves_the_block_as_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mine = ValueError("mine")

    def handler(request: PermissionRequest) -> Any:
        raise mine

    with pytest.raises(ValueError, match="mine") as caught:
        await run_turn(asking(select("no"), cancels=True), handler)
    assert caught.value is mine


@pytest.mark.parametrize(("decision", "error"), [(Selected("maybe"), LocalProtocolError), ("yes", TypeError)])
async def test_what_is_no_possible_decision_is_a_rejection_and_an_error_of_the_turn(
    autojump_clock: trio.testing.MockClock, decision: Any, error: Any
) -> None:
    """P1"""
    with pytest.raises(error):
        await run_turn(asking(select("no"), cancels=True), lambda request: decision)


async def test_x1_a_function_that_stops_the_turn_has_its_request_answered_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns: list[Turn] = []

    def handler(request: PermissionRequest) -> Selected:
        turns[0].cancel()
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await wire.expect("session/cancel")
        assert await wire.answer(id) == CANCELLED
        await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turns.append(turn)
            assert await turn.wait() == "cancelled"


@pytest.mark.parametrize("fails", [False, True])
async def test_outside_of_a_turn_it_decides_the_same_way_and_a_failure_is_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    def handler(request: PermissionRequest) -> Selected:
        if fails:
            raise ValueError("mine")
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        id = await wire.ask_permission()
        assert await wire.answer(id) == select("no" if fails else "yes")
        await wire.quiet()

    with caplog.at_level(logging.ERROR):
        async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
            await agent.new_session()
            await trio.sleep(1)
    assert ("failed outside of a turn" in caplog.text) == fails


async def test_outside_of_a_turn_what_is_to_be_awaited_is_awaited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def decide() -> Selected:
        await trio.sleep(1)
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        id = await wire.ask_permission()
        assert await wire.answer(id) == select("yes")

    async with Scene(script, AcpOptions(on_permission=lambda request: decide())) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(2)


async def test_outside_of_a_turn_what_is_no_exception_ends_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def handler(request: PermissionRequest) -> Any:
        raise SystemExit(3)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        id = await wire.ask_permission()
        assert await wire.answer(id) == select("no")

    with pytest.raises(BaseExceptionGroup) as caught:  # of the scene's own nursery
        async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
            await agent.new_session()
            await trio.sleep(10)
    assert caught.group_contains(SystemExit)

"""Ctrl-C in a turn: Trio raises KeyboardInterrupt in its main task, wherever that is then."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import CANCELLED, Scene, Wire
from trio_acp import (
    AcpOptions,
    PermissionRequest,
    Selected,
    Turn,
)


async def never(request: PermissionRequest) -> Selected:
    await trio.sleep_forever()
    raise AssertionError


OPTIONS = AcpOptions(on_permission=never, permission_timeout=1000)


def press_ctrl_c() -> None:
    """From a task that is protected: Trio then delivers it to the main task."""
    trio.lowlevel.current_trio_token().run_sync_soon(signal.raise_signal, signal.SIGINT)


def interrupt(presses: int, grace: float) -> tuple[list[tuple[str, float]], BaseException | None, Turn]:
    """Run a turn in Trio's main task, and press Ctrl-C in its body, and perhaps again meanwhile."""
    log: list[tuple[str, float]] = []
    raised: BaseException | None = None
    turns: list[Turn] = []

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await wire.expect("session/cancel")
        log.append(("cancelled", trio.current_time()))
        assert await wire.answer(id) == CANCELLED
        if presses == 2:
            await trio.sleep(1)
            press_ctrl_c()
        await trio.sleep(grace)
        await wire.end(prompt, "cancelled")

    async def main() -> None:
        nonlocal raised
        async with Scene(script, OPTIONS) as (agent, _wire):
            session = await agent.new_session()
            began = trio.current_time()
            try:
                async with session.prompt("x") as turn:
                    turns.append(turn)
                    await trio.sleep(1)
                    signal.raise_signal(signal.SIGINT)
                    await trio.sleep_forever()
            except KeyboardInterrupt as error:
                raised = error
            log.append(("left", trio.current_time() - began))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return log, raised, turns[0]


def test_one_ctrl_c_in_the_body_ends_the_turn_in_order() -> None:
    log, raised, turn = interrupt(1, 2)
    assert [what for what, _ in log] == ["cancelled", "left"]
    assert log[1][1] == pytest.approx(3)
    assert isinstance(raised, KeyboardInterrupt)
    assert turn.stop_reason == "cancelled"
    assert not turn.abandoned


def test_a_second_ctrl_c_does_not_wait_for_the_agent() -> None:
    log, raised, turn = interrupt(2, 3)
    assert log[1][1] == pytest.approx(2)
    assert isinstance(raised, KeyboardInterrupt)
    assert turn.abandoned


def test_a_ctrl_c_while_the_block_waits_for_a_handler_is_not_lost() -> None:
    """The turn is over, but a handler of it cannot be ended yet."""
    ended: list[float] = []

    async def stubborn(request: PermissionRequest) -> Selected:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        ended.append(trio.current_time())
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await trio.testing.wait_all_tasks_blocked()
        await wire.end(prompt)
        assert await wire.answer(id) == CANCELLED
        await trio.sleep(1)
        press_ctrl_c()

    async def main() -> None:
        async with Scene(script, AcpOptions(on_permission=stubborn)) as (agent, _wire):
            session = await agent.new_session()
            with pytest.raises(KeyboardInterrupt):
                async with session.prompt("x"):
                    pass
                await trio.lowlevel.checkpoint()
            assert ended

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_ctrl_c_in_the_very_moment_of_the_end_leaves_the_block() -> None:
    """It is pending when the block begins to wait for the turn's tasks."""

    @trio.lowlevel.enable_ki_protection
    def on_wire(direction: str, message: Any) -> None:
        if direction == "received" and "stopReason" in str(message):
            signal.raise_signal(signal.SIGINT)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.end(await wire.prompt())

    async def main() -> None:
        async with Scene(script, AcpOptions(on_wire=on_wire)) as (agent, _wire):
            session = await agent.new_session()
            with pytest.raises(KeyboardInterrupt):
                async with session.prompt("x") as turn:
                    pass
                # If the turn's tasks had ended first, there was nothing to wait for that it could interrupt.
                await trio.lowlevel.checkpoint()
            assert turn.stop_reason == "end_turn"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

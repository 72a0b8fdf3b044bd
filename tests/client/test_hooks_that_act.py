"""Hooks of the host that do something in the middle of what they are told of."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, PermissionRequest, Reject, Turn


@pytest.mark.parametrize("trigger", ["answer", "request"])
async def test_a_wire_tap_may_press_stop_and_every_request_still_has_one_answer(
    autojump_clock: trio.testing.MockClock, trigger: str
) -> None:
    """W4, X1: what the tap causes comes behind what it was shown, on the wire as well as in the tap."""
    turns: list[Turn] = []
    shown: list[dict[str, Any]] = []
    sent: list[dict[str, Any] | None] = []

    def tap(direction: str, message: dict[str, Any]) -> None:
        if direction == "sent":
            shown.append(message)
        if turns and (
            "outcome" in message.get("result", {})
            if trigger == "answer"
            else message.get("method") == "session/request_permission"
        ):
            turns[0].cancel()

    async def reject(request: PermissionRequest) -> Reject:
        return Reject()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.ask_permission()
        sent.extend([await wire.receive(), await wire.receive()])
        await wire.quiet()
        await wire.end(prompt, "cancelled")

    options = AcpOptions(on_wire=tap, on_permission=reject)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turns.append(turn)
            await turn.wait()
        assert turn.stop_reason == "cancelled"
    assert shown[-2:] == sent

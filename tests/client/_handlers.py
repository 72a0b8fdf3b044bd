"""Permission handlers that are hard to bear with, and a turn to try them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from tests.client._scripted import Scene
from trio_acp import AcpOptions, PermissionRequest, Selected, Turn

__all__ = ["Handler", "blocked", "obstinate", "punctual", "run_turn", "shielded"]

Handler = Callable[[PermissionRequest], Any]


async def blocked(request: PermissionRequest) -> Any:
    await trio.sleep_forever()


async def shielded(request: PermissionRequest) -> Any:
    with trio.CancelScope(shield=True):
        await trio.sleep(100)
    return Selected("yes")


async def obstinate(request: PermissionRequest) -> Any:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        return Selected("yes")


async def punctual(request: PermissionRequest) -> Any:
    """Decides in the very moment of the deadline: too late."""
    with trio.CancelScope(shield=True):
        await trio.sleep(30)
    return Selected("yes")


async def run_turn(script: Any, handler: Handler | None, **options: Any) -> Turn:
    async with Scene(script, AcpOptions(on_permission=handler, **options)) as (agent, _wire):
        session = await agent.new_session()
        turn = session.prompt("x")
        failure: BaseException | None = None
        try:
            async with turn:
                await turn.wait()
        except BaseException as error:
            failure = error
    if failure is not None:
        raise failure  # outside of the scene, whose nursery would wrap it
    return turn

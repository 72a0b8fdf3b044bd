"""A whole life (open, session, prompt with permission, cancel, prompt, close) hit at every single checkpoint.

Each time it has to end at once, the conversation on the wire has to be legal to its end, and no task may be
left, which Trio sees to by not ending its run before.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio
import trio.testing

from tests.client._scripted import EVERYTHING, Wire, chunk
from tests.support.checkpoints import AtStep, every_step, press_ctrl_c
from trio_acp import (
    AcpOptions,
    ConnectedAgent,
    PermissionRequest,
    Selected,
    connect_acp,
    open_memory_pair,
)
from trio_acp.transports import MEMORY_PIPE_BYTES

GRACE = 5.0

ROUNDS = 2


class Reactive:
    """An agent that answers whatever comes, in whatever order.

    Args:
        polite: ends a turn that is cancelled; otherwise it never does.
    """

    def __init__(self, wire: Wire, polite: bool) -> None:
        self.wire = wire
        self._polite = polite
        self._prompts: dict[str, dict[str, Any]] = {}
        self._waiting: dict[Any, str] = {}
        self._sessions = 0

    async def serve(self) -> None:
        while (message := await self.wire.receive()) is not None:
            try:
                await self._take(message)
            except trio.BrokenResourceError:
                pass  # the client has closed while this was writing; what it said before still counts
        self.wire.close()

    async def _take(self, message: dict[str, Any]) -> None:
        wire, params = self.wire, message.get("params", {})
        match message.get("method"):
            case "initialize":
                await wire.result(message, {"protocolVersion": 1, "agentCapabilities": EVERYTHING})
            case "session/new":
                self._sessions += 1
                id = f"s{self._sessions}"
                await wire.burst(chunk("early", id), wire.result_of(message, {"sessionId": id}))
            case "session/close":
                await self._end(params["sessionId"], "cancelled")
                await wire.result(message, {})
            case "session/prompt":
                await self._prompt(message)
            case "session/cancel":
                if self._polite:
                    await self._end(params["sessionId"], "cancelled")
            case None:
                session = self._waiting.pop(message["id"], None)
                if session is not None and session not in self._waiting.values():
                    await self._end(session, "end_turn")
            case method:
                assert method == "$/cancel_request"

    async def _prompt(self, message: dict[str, Any]) -> None:
        wire, session = self.wire, message["params"]["sessionId"]
        self._prompts[session] = message
        await wire.text("working", session)
        match message["params"]["prompt"][0]["text"]:
            case "ask":
                request = wire.permission(session)
                reading = wire.asking("fs/read_text_file", {"sessionId": session, "path": "/a"})
                self._waiting |= {request["id"]: session, reading["id"]: session}
                await wire.burst(request, reading)
            case "stay":
                pass
            case _:
                await self._end(session, "end_turn")

    async def _end(self, session: str, reason: str) -> None:
        prompt = self._prompts.pop(session, None)
        if prompt is not None:
            await self.wire.end(prompt, reason)


async def on_permission(request: PermissionRequest) -> Selected:
    await trio.lowlevel.checkpoint()
    return Selected("yes")


async def read_text_file(request: Any) -> str:
    await trio.lowlevel.checkpoint()
    return "text"


OPTIONS = AcpOptions(on_permission=on_permission, read_text_file=read_text_file, cancel_grace=GRACE)


async def use(agent: ConnectedAgent) -> None:
    """Everything that a life has, from the session on."""
    session = await agent.new_session()
    async with session.prompt("ask") as turn:
        async for _ in turn:
            pass
    async with session.prompt("stay") as turn:
        async for _ in turn:
            turn.cancel()
    if not turn.abandoned:
        async with session.prompt("again") as turn:
            await turn.wait()
    assert await agent.generate("again") == "working"
    await session.close()


async def whole_life(nursery: trio.Nursery, stream: Any) -> None:
    agent = await connect_acp(nursery, stream, OPTIONS)
    await use(agent)
    await agent.aclose()


Reach = Literal["all", "application"]


async def hit_once(step: int, reach: Reach, polite: bool, limit: int = MEMORY_PIPE_BYTES) -> bool:
    """Cancel a life at one step; return whether it came to that."""
    ours, theirs = open_memory_pair(limit)
    wire = Wire(theirs)
    async with trio.open_nursery() as world:
        world.start_soon(Reactive(wire, polite).serve)
        with trio.CancelScope() as scope:
            at = AtStep(step, scope.cancel)
            if reach == "all":
                at.arm()
                async with trio.open_nursery() as nursery:
                    await whole_life(nursery, ours)
                at.disarm()
            else:
                agent = await connect_acp(world, ours, OPTIONS)
                at.arm()
                await use(agent)
                at.disarm()
        ended = trio.current_time()
        if reach == "application":
            # What is outside of the scope was not touched: the agent is still there and does as it is asked.
            session = await agent.new_session()
            async with session.prompt("again") as turn:
                pass
            assert turn.text == "working"
            await agent.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert wire.ended
        wire.referee.end_of_client()
    # Nothing but a grace for an agent that does not end its turn may take time.
    assert ended <= (0 if polite else 3 * GRACE), f"step {step}: {ended} s"
    return at.fired


@pytest.mark.parametrize("reach", ["all", "application"])
@pytest.mark.parametrize("polite", [True, False])
@pytest.mark.parametrize("limit", [MEMORY_PIPE_BYTES, 100])
def test_a_life_cancelled_at_every_checkpoint_ends_at_once_in_a_legal_conversation(
    reach: Reach, polite: bool, limit: int
) -> None:
    """More than once, since Trio shuffles its tasks; and with a pipe in which no message fits at once."""

    async def run(step: int) -> bool:
        return await hit_once(step, reach, polite, limit)

    for _ in range(ROUNDS):
        assert every_step(run) > 50


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_at_every_checkpoint_leaves_as_itself(presses: int) -> None:
    """The life is in Trio's main task; the second press comes a few steps after the first."""

    async def run(step: int) -> bool:
        ours, theirs = open_memory_pair()
        wire = Wire(theirs)
        caught: BaseException | None = None
        over = False
        at = AtStep(step, press_ctrl_c)
        again = AtStep(step + 3, press_ctrl_c)
        async with trio.open_nursery() as world:
            world.start_soon(Reactive(wire, True).serve)
            try:
                at.arm()
                if presses == 2:
                    again.arm()
                async with trio.open_nursery() as nursery:
                    await whole_life(nursery, ours)
                over = True
                await trio.lowlevel.checkpoint()
            except BaseException as error:
                caught = error
            at.disarm()
            again.disarm()
            while not wire.ended:
                try:
                    await trio.sleep(0.001)
                except KeyboardInterrupt:
                    pass
            ended = trio.current_time()
        if caught is not None:
            assert at.fired
            assert only_interrupts(caught), repr(caught)
        else:
            assert over
        assert ended < 1
        return at.fired

    for _ in range(ROUNDS):
        assert every_step(run) > 50


def only_interrupts(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(only_interrupts, error.exceptions))
    return isinstance(error, KeyboardInterrupt)

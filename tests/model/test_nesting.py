"""Calls from inside other calls: what would wait for itself is told so, everything else works."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._conversations import reply
from tests.client._scripted import Scene, Wire
from tests.model._models import Model, call
from trio_acp import AcpOptions, ConnectedAgent, PermissionRequest, Selected, SessionBusy
from trio_acp.model import Done, Hooks, InProcessClient, ModelMessage, ModelReply, TextDelta, tool

Clock = trio.testing.MockClock


async def test_a_tool_cannot_wait_for_the_run_that_waits_for_it() -> None:
    async def generate(messages: Sequence[ModelMessage]) -> ModelReply:
        await trio.lowlevel.checkpoint()
        return ModelReply("", [call("inner")]) if messages[-1].text == "use it" else ModelReply("done")

    where: list[str | None] = ["other"]

    @tool
    async def inner() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run, "x")
        await client.run("x", id=where[0])

    client = InProcessClient(generate=generate, tools=[inner])
    assert (await client.run("use it", id="c")).text == "done"
    where[0] = "c"
    with pytest.raises(SessionBusy, match="conversation 'c'") as caught:
        await client.run("use it", id="c")
    assert caught.value.session_id == "c"
    assert (await client.run("x", id="c")).text == "done"


async def test_a_hook_cannot_wait_for_the_run_that_waits_for_it() -> None:
    async def ask(messages: Any) -> None:
        await client.run("x", id="c")

    client = InProcessClient(generate=Model("a").generate, hooks=Hooks(before_model=ask))
    with pytest.raises(SessionBusy):
        await client.run("x", id="c")


async def use_in_body(agent: ConnectedAgent, inner: Any, id: str | None) -> None:
    client = InProcessClient(generate_stream=agent.generate_stream)
    async with client.stream("x", id=id) as events:
        assert await anext(events) == TextDelta("a")
        with pytest.raises(SessionBusy, match="body of its stream"):
            await inner(client, agent)
        assert [type(event) async for event in events] == [Done]
        # The run is over, though its block is not.
        await inner(client, agent)


INNER = {
    "agent": (None, lambda client, agent: agent.generate("y")),
    "run": (None, lambda client, agent: client.run("y")),
    "conversation": ("c", lambda client, agent: client.run("y", id="c")),
    "agent's conversation": ("c", lambda client, agent: agent.generate("y", conversation="c")),
}


@pytest.mark.parametrize("inner", INNER)
async def test_the_body_of_a_stream_cannot_wait_for_its_own_end(autojump_clock: Clock, inner: str) -> None:
    """Whoever it asks: the run waits for the body to take its events."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "x", "a")
        if inner == "run":  # a history of its own
            await wire.result(await wire.expect("session/close"), {})
            await wire.new_session("s2")
            await wire.end(await wire.prompt("s2"))
        else:
            await wire.end(await wire.prompt())

    id, ask = INNER[inner]
    async with Scene(script) as (agent, _wire):
        await use_in_body(agent, ask, id)


async def test_what_a_handler_begins_is_none_of_the_body(autojump_clock: Clock) -> None:
    """A conversation that a handler uses meanwhile can be waited for in the body."""
    gate = trio.Event()

    async def ask(request: PermissionRequest) -> Selected:
        assert await agent.generate("by the handler", conversation="other") == "b"
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("a")
        asked = await wire.ask_permission()
        await wire.new_session("s2")
        other = await wire.prompt("s2")
        gate.set()
        await trio.sleep(1)
        await wire.text("b", "s2")
        await wire.end(other)
        await wire.answer(asked)
        second = await wire.prompt("s2")
        await wire.text("c", "s2")
        await wire.end(second)
        await wire.end(prompt)

    async with Scene(script, AcpOptions(on_permission=ask)) as (agent, _wire):
        client = InProcessClient(generate_stream=agent.generate_stream)
        async with client.stream("x") as events:
            assert await anext(events) == TextDelta("a")
            await gate.wait()
            assert await agent.generate("by the body", conversation="other") == "c"
            assert [type(event) async for event in events] == [Done]


async def test_a_stream_that_cannot_begin_leaves_nothing_behind() -> None:
    @contextlib.asynccontextmanager
    async def fail(messages: Any) -> AsyncGenerator[Any, None]:
        raise KeyError("mine")
        yield

    client = InProcessClient(generate_stream=fail)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            await client.run("x", id="c")

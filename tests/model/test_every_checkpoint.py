"""Something happens at every single checkpoint of a model's use: it ends, and the agent stays warm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
import trio

from tests.support.checkpoints import AtStep, every_step, press_ctrl_c
from trio_acp import AcpOptions, ConnectedAgent, PermissionRequest, Selected, TurnCancelled, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.model import InProcessClient, ModelMessage, ModelReply, ToolCallEvent

app = AgentApp("asks", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> str:
    async with ctx.tool_call("ls", name="ls") as call:
        allowed = await call.ask_permission()
    if ctx.text == "stay":
        await ctx.send_message("so ")
        await trio.sleep_forever()
    return f"allowed: {allowed}"


async def allow(request: PermissionRequest) -> Selected:
    await trio.lowlevel.checkpoint()
    return Selected("allow-once")


async def use_agent(agent: ConnectedAgent) -> None:
    """Calls, streams, a stream that is left early, a token that stops."""
    token = trio.Event()
    assert await agent.generate("a", cancel=token) == "allowed: True"
    async with agent.generate_stream("b", conversation="2", cancel=token) as events:
        async for _ in events:
            pass
    async with agent.generate_stream("stay", conversation="2", cancel=token) as events:
        async for _ in events:
            break
    with pytest.raises(TurnCancelled):
        async with agent.generate_stream("stay", cancel=token) as events:
            async for _ in events:
                token.set()


async def use_client(agent: ConnectedAgent) -> None:
    """Runs with a tool, a stream, a stream that is left early."""

    async def echo(text: str) -> str:
        await trio.lowlevel.checkpoint()
        return text

    async def model(messages: list[ModelMessage], *, conversation: str) -> ModelReply:
        if messages[-1].role == "tool":
            return ModelReply(await agent.generate("x", conversation=conversation))
        return ModelReply("", [ToolCallEvent("1", "echo", {"text": "a"})])

    await InProcessClient(generate=model, tools=[echo]).run("a", id="1")
    client = InProcessClient(generate_stream=agent.generate_stream)
    async with client.stream("b", id="2") as events:
        async for _ in events:
            pass
    async with client.stream("stay", id="2") as events:
        async for _ in events:
            break


@pytest.mark.parametrize("use", [use_agent, use_client])
@pytest.mark.parametrize("what", ["cancel", "ctrl-c"])
def test_whatever_comes_at_whatever_moment_it_ends_and_the_agent_stays_warm(
    use: Callable[[ConnectedAgent], Awaitable[None]], what: Literal["cancel", "ctrl-c"]
) -> None:
    async def run(step: int) -> bool:
        async with trio.open_nursery() as nursery:
            stream = app.connect_in_memory(nursery)
            agent = await connect_acp(nursery, stream, AcpOptions(on_permission=allow))
            scope = trio.CancelScope()
            hit = AtStep(step, scope.cancel if what == "cancel" else press_ctrl_c)
            try:
                with scope:
                    hit.arm()
                    await use(agent)
                    hit.disarm()
                    await trio.lowlevel.checkpoint()
            except KeyboardInterrupt:
                assert what == "ctrl-c"
            hit.disarm()
            for conversation in (None, "1", "2"):
                assert await agent.generate("y", conversation=conversation) == "allowed: True"
            assert len(agent.sessions) == 3
            await agent.aclose()
        return hit.fired

    assert every_step(run) > 50  # how many exactly is up to the scheduler, which shuffles

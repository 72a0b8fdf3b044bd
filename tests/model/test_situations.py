"""The situations of a host that has an agent for a model: plan mode, live transcript, streams of tools."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import trio

from trio_acp import (
    AcpOptions,
    ConnectedAgent,
    Decision,
    PermissionRequest,
    Reject,
    Selected,
    TurnCancelled,
    connect_acp,
)
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.model import (
    Done,
    InProcessClient,
    ModelMessage,
    ModelReply,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
)
from trio_acp.schema import ToolKind


class Coder:
    """An agent that thinks, lists files, and writes one if it may."""

    def __init__(self) -> None:
        self.files = {"a.py": ""}
        self.prompts: list[str] = []
        self.app = AgentApp("coder", "1.0")
        self.app.on_prompt(self.answer)

    async def answer(self, ctx: PromptContext) -> str:
        self.prompts.append(ctx.text)
        await ctx.send_thought("I had better look first. ")
        async with ctx.tool_call("ls", name="ls", kind=ToolKind.SEARCH, raw_input={"path": "."}) as call:
            await call.complete("\n".join(self.files))
        if ctx.text == "slow":
            await ctx.send_message("well ")
            await trio.sleep_forever()
        if ctx.text.endswith("write"):
            async with ctx.tool_call("Write b.py", kind=ToolKind.EDIT) as call:
                if not await call.ask_permission():
                    return "I would write b.py."
                self.files["b.py"] = ""
        return f"Files: {', '.join(self.files)}."


@contextlib.asynccontextmanager
async def connected(coder: Coder, options: AcpOptions | None = None) -> AsyncGenerator[ConnectedAgent, None]:
    async with trio.open_nursery() as nursery:
        stream = coder.app.connect_in_memory(nursery)
        agent = await connect_acp(nursery, stream, AcpOptions() if options is None else options)
        with trio.fail_after(60):
            yield agent
            await agent.aclose()


async def test_in_plan_mode_every_write_is_rejected_and_the_reply_is_a_plan() -> None:
    rejected: list[str] = []

    async def only_look(request: PermissionRequest) -> Decision:
        rejected.append(request.tool_call.title)
        return Reject()

    coder = Coder()
    async with connected(coder, AcpOptions(on_permission=only_look)) as agent:
        assert await agent.generate("write") == "I would write b.py."
    assert rejected == ["Write b.py"]
    assert list(coder.files) == ["a.py"]


async def test_a_transcript_has_everything_and_the_reply_has_no_thoughts() -> None:
    transcript: list[str] = []

    def record(params: dict[str, Any]) -> None:
        update = params["update"]
        content = update.get("content")
        text = content["text"] if isinstance(content, dict) else update.get("title", "")
        transcript.append(f"{update['sessionUpdate']} {text}".strip())

    async def allow(request: PermissionRequest) -> Decision:
        option = request.first_allow()
        assert option is not None
        transcript.append(f"picked {option.kind.partition('_')[0]}")
        return Selected(option.option_id)

    coder = Coder()
    async with connected(coder, AcpOptions(on_update=record, on_permission=allow)) as agent:
        reply = await agent.generate("write")
    assert reply == "Files: a.py, b.py."
    assert "agent_thought_chunk I had better look first." in transcript
    assert "picked allow" in transcript
    assert transcript.index("tool_call ls") < transcript.index("picked allow")
    assert transcript[-1] == f"agent_message_chunk {reply}"


async def test_a_stream_over_an_agent_tells_exactly_its_tool_calls_and_results() -> None:
    lines: list[str] = []

    async def ls(path: str) -> str:
        raise AssertionError("the agent has done this itself")

    async with connected(Coder()) as agent:
        client = InProcessClient(model="coder", generate_stream=agent.generate_stream, tools=[ls])
        async with client.stream("look") as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        lines.append(text)
                    case ToolCallEvent(name=name, via=via):
                        lines.append(f"tool_call:{name}:{via}")
                    case ToolResultEvent(name=name, via=via):
                        lines.append(f"tool_result:{name}:{via}")
                    case _:
                        assert isinstance(event, Done)
                        assert event.result.text == "Files: a.py."
                        assert [result.output for result in event.result.tool_calls] == ["a.py"]
    assert lines == ["tool_call:ls:acp", "tool_result:ls:acp", "Files: a.py."]


async def test_conversations_of_a_client_have_warm_sessions_of_their_own() -> None:
    coder = Coder()
    async with connected(coder) as agent:
        client = InProcessClient(generate=agent.generate, generate_stream=agent.generate_stream)
        for prompt in ("one", "two"):
            for id in ("a", "b"):
                result = await client.run(f"{id} {prompt}", id=id)
        async with client.stream("three", id="a") as events:
            last = [event async for event in events][-1]
        assert isinstance(last, Done)
        assert len(last.result.messages) == 6
        assert len(agent.sessions) == 2
    assert (result.text, result.turns) == ("Files: a.py.", 1)
    # Each time only what is new was sent.
    assert coder.prompts == ["a one", "b one", "a two", "b two", "three"]


async def test_a_stopped_run_is_not_kept_and_the_session_stays_warm() -> None:
    coder = Coder()
    async with connected(coder) as agent:
        client = InProcessClient(generate_stream=agent.generate_stream)
        with pytest.raises(TurnCancelled):
            async with client.stream("slow", id="a") as events:
                async for event in events:
                    if event == TextDelta("well "):
                        agent.cancel("a")
        async with client.stream("slow", id="a") as events:
            assert isinstance(await anext(events), ToolCallEvent)
        result = await client.run("look", id="a")
        assert [message.text for message in result.messages] == ["look", "Files: a.py."]
        assert len(agent.sessions) == 1


async def test_an_agent_and_tools_of_the_host_work_on_one_history() -> None:
    """A model that calls tools of the host hands over to an agent, which sees what was done."""
    coder = Coder()

    async def lookup(word: str) -> str:
        return word.upper()

    async def planner(messages: list[ModelMessage]) -> ModelReply:
        if messages[-1].role == "tool":
            return ModelReply("done")
        return ModelReply("", [ToolCallEvent("1", "lookup", {"word": "x"})])

    result = await InProcessClient(generate=planner, tools=[lookup]).run("plan")
    async with connected(coder) as agent:
        await InProcessClient(generate=agent.generate).run([*result.messages, ("user", "go on")])
    assert coder.prompts == [
        "User: plan\n\nAssistant: "
        '[called the tool lookup with {"word": "x"}]\n\nTool: X\n\nAssistant: done\n\nUser: go on'
    ]

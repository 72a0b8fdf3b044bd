"""An update that has to wait, for the client or for the store: what became of its turn meanwhile?"""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import agent, connected, prompt_params
from tests.agent.sessions import echo
from trio_acp import LocalProtocolError, open_memory_pair
from trio_acp.agent import AgentSession, MemorySessionStore, PromptContext
from trio_acp.agent._recording import MAX_PENDING_BYTES

LARGE = "x" * 50_000


def frame(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@pytest.mark.parametrize("kind", ["message", "plan"])
@pytest.mark.parametrize("ending", ["cancel", "close"])
async def test_an_update_that_waited_for_room_is_not_sent_behind_the_answer(
    autojump_clock: trio.testing.MockClock, kind: str, ending: str
) -> None:
    """X2, S3: updates come before the answer of their turn, and none for a closed session."""
    refused: list[str] = []

    async def prompt(ctx: PromptContext) -> None:
        with trio.CancelScope(shield=True):
            try:
                while True:
                    if kind == "message":
                        await ctx.send_message(LARGE)
                    else:
                        await ctx.send_plan([LARGE])
            except LocalProtocolError as error:
                refused.append(str(error))

    app = agent(prompt, cancel_grace=2)

    @app.on_close_session
    async def close(session: AgentSession[Any]) -> None:
        await trio.lowlevel.checkpoint()

    ours, theirs = open_memory_pair()
    received = b""
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app.serve, theirs)
            await ours.send_all(frame(id=0, method="initialize", params={"protocolVersion": 1}))
            await ours.send_all(frame(id=1, method="session/new", params={"cwd": "/", "mcpServers": []}))
            while received.count(b"\n") < 2:
                received += await ours.receive_some()
            session = json.loads(received.splitlines()[1])["result"]["sessionId"]
            await ours.send_all(frame(id=2, method="session/prompt", params=prompt_params(session)))
            await trio.testing.wait_all_tasks_blocked()
            if ending == "cancel":
                await ours.send_all(frame(method="session/cancel", params={"sessionId": session}))
            else:
                await ours.send_all(frame(id=3, method="session/close", params={"sessionId": session}))
            await trio.sleep(10)
            received = b""
            with trio.move_on_after(10):
                while True:
                    received += await ours.receive_some()
            await ours.aclose()
    messages = [json.loads(line) for line in received.splitlines()]
    answers = ["id" in message for message in messages]
    assert answers == sorted(answers)
    assert [message["id"] for message in messages if "id" in message] == [2, 3][: 1 + (ending == "close")]
    assert len(refused) == 1


async def test_a_cancellation_while_the_store_saves_does_not_hide_that_an_update_was_sent(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T4: a tool call that was announced is settled, wherever the cancellation comes."""
    store = MemorySessionStore()
    saving = trio.Event()

    async def save(*args: Any) -> None:
        if saving.is_set():
            return
        saving.set()
        await trio.sleep_forever()

    async def prompt(ctx: PromptContext) -> None:
        monkeypatch.setattr(store, "save", save)
        async with ctx.tool_call("x" * MAX_PENDING_BYTES):
            await ctx.send_message("not sent: the store hangs")

    async with connected(agent(prompt, store=store)) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        await saving.wait()
        await client.cancel(session)
        assert await client.answer(id) == {"stopReason": "cancelled"}
        statuses = [update["status"] for update in client.updates("tool_call", "tool_call_update")]
        assert statuses == ["pending", "failed"]
        assert client.said() == ""


async def test_what_is_saved_is_what_was_sent(autojump_clock: trio.testing.MockClock) -> None:
    app = agent(echo, store=MemorySessionStore())
    async with connected(app) as client:
        session = await client.new_session()
        for n in range(3):
            assert await client.prompt(session, f"{n}" * MAX_PENDING_BYTES) == {"stopReason": "end_turn"}
        said = client.said()
        await client.call("session/close", sessionId=session)
        before = len(client.updates())
        await client.call("session/load", sessionId=session, cwd="/proj", mcpServers=[])
        replay = client.updates("agent_message_chunk")
        assert len(client.updates()) > before
        assert "".join(update["content"]["text"] for update in replay) == said * 2


async def test_the_text_that_a_handler_returns_goes_on_with_its_open_message() -> None:
    """T5"""

    async def prompt(ctx: PromptContext) -> str:
        await ctx.send_message("one, ")
        return "two"

    async with connected(agent(prompt)) as client:
        await client.prompt(await client.new_session())
        assert client.said() == "one, two"
        assert len({update["messageId"] for update in client.updates("agent_message_chunk")}) == 1

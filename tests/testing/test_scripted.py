"""Scripted peers: short scripts, and no patience with mistakes of the other side."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trio_acp import AcpOptions, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.testing import (
    HOLD,
    IllegalConversation,
    MemoryStream,
    PeerError,
    ScriptedAgent,
    ScriptedClient,
    ScriptedPeer,
    as_line,
    assert_conversation_legal,
    open_memory_pair,
)


@pytest.fixture
def pair() -> tuple[ScriptedAgent, ScriptedClient]:
    """Two scripts that face each other."""
    near, far = open_memory_pair()
    return ScriptedAgent(near), ScriptedClient(far)


async def begin(agent: ScriptedAgent, client: ScriptedClient) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.introduce)
        await client.initialize()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.new_session)
        assert await client.new_session() == "s1"


async def test_a_host_and_a_scripted_agent_have_a_turn(autojump_clock: Any) -> None:
    agent = ScriptedAgent.in_memory()

    async def script() -> None:
        await agent.introduce()
        await agent.new_session()
        prompt = await agent.prompt()
        await agent.sleep(100)
        await agent.text("he")
        await agent.text("llo")
        id = await agent.ask_permission(title="Delete")
        assert await agent.expect_decision(id) == "yes"
        await agent.end_turn(prompt)
        await agent.expect("session/close", sessionId="s1")
        await agent.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(script)
        host = await connect_acp(nursery, agent.far_end, AcpOptions())
        session = await host.new_session()
        async with session.prompt("hi") as turn:
            assert await turn.wait() == "end_turn"
        assert turn.text == "hello"
        with pytest.raises(trio.BrokenResourceError):
            await session.close()
        await host.aclose()
    assert_conversation_legal(agent.transcript)


async def test_a_scripted_client_has_a_turn_with_an_agent() -> None:
    app = AgentApp("a", "1")

    @app.on_prompt
    async def prompt(ctx: PromptContext) -> None:
        text = await ctx.read_file("a.txt")
        await ctx.send_message(text)
        assert not await ctx.ask_permission("Really?")
        await ctx.client.ext_notification("_note", {})

    async with trio.open_nursery() as nursery:
        client = ScriptedClient(app.connect_in_memory(nursery))
        client.replies["fs/read_text_file"] = lambda params: {"content": params["path"]}
        client.replies["session/request_permission"] = {"outcome": {"outcome": "cancelled"}}
        await client.initialize()
        session = await client.new_session("/w")
        assert await client.prompt(session) == "end_turn"
        assert client.text(session) == "/w/a.txt"
        assert [update["status"] for update in client.updates(kind="tool_call")] == ["pending"]
        with pytest.raises(PeerError, match="-32601"):
            await client.call("_unknown", {})
        await client.send_eof()
        await client.expect_close()
        client.assert_finished()
        await client.aclose()


async def test_replies_may_be_errors_or_held_back(pair: tuple[ScriptedAgent, ScriptedClient]) -> None:
    agent, client = pair
    await begin(agent, client)
    client.replies["_hold"] = HOLD
    client.replies["_fail"] = PeerError(7, "broken", {"why": 1})
    early = await client.request("_early", {})
    await agent.reply(await agent.expect("_early"), early)
    held = await agent.request("_hold", {})
    failing = await agent.request("_fail", None)
    prompt_id = await client.start_prompt("s1")
    prompt = await agent.prompt()
    await agent.notify("_note", {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.end_turn, prompt)
        await client.wait_for_answer(prompt_id)
    assert await agent.expect_error(failing, 7) == {"code": 7, "message": "broken", "data": {"why": 1}}
    assert str(client.replies["_fail"]) == "7: broken {'why': 1}"
    await agent.expect_nothing()
    await client.reply({"id": held}, 5)
    assert await agent.expect_result(held) == 5
    await agent.expect_nothing()


async def test_everything_is_served_until_the_other_side_goes(
    pair: tuple[ScriptedAgent, ScriptedClient],
) -> None:
    agent, client = pair
    await begin(agent, client)
    client.replies["_ask"] = {}
    id = await agent.request("_ask", {})
    await agent.notify("_note", {})
    await agent.reply_error({"id": None}, -32600)
    await agent.send_eof()
    await client.serve_until_closed()
    assert await agent.expect_result(id) == {}
    with pytest.raises(AssertionError, match="nothing was said about answering"):
        await client._serve({"id": 1, "method": "_other"})


@pytest.mark.parametrize("strict", [True, False])
async def test_a_strict_peer_refuses_the_first_mistake(strict: bool) -> None:
    near, far = open_memory_pair()
    agent = ScriptedAgent(near, strict=strict)
    await far.send_all(as_line({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {}}))
    if strict:
        with pytest.raises(IllegalConversation, match="W4"):
            await agent.receive()
    else:
        assert (await agent.expect("session/new"))["id"] == 1


async def test_what_a_script_says_may_be_illegal() -> None:
    near, far = open_memory_pair()
    agent = ScriptedAgent(near)
    await agent.send_raw(b"banner\n{")
    await agent.withdraw("never")
    assert await far.receive_some() == (
        b'banner\n{{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"never"}}\n'
    )


async def test_surprises_are_named(pair: tuple[ScriptedAgent, ScriptedClient]) -> None:
    agent, client = pair
    await begin(agent, client)
    await client.start_prompt("s1")
    with pytest.raises(AssertionError, match="expected initialize, got"):
        await agent.expect("initialize")
    await client.cancel("s1")
    with pytest.raises(AssertionError, match=r"expected session/cancel \{'sessionId': 's2'\}"):
        await agent.expect("session/cancel", sessionId="s2")
    await client.cancel("s0")
    with pytest.raises(AssertionError, match="expected an answer to 1"):
        await agent.expect_result(1)
    await client.cancel("s0")
    with pytest.raises(AssertionError, match="expected the end"):
        await agent.expect_close()
    await client.cancel("s0")
    with pytest.raises(AssertionError, match="expected nothing"):
        await agent.expect_nothing()
    await client.send({"jsonrpc": "1.0"})
    with pytest.raises(IllegalConversation, match="W1"):
        await agent.expect_nothing()
    await agent.receive()
    await agent.receive()
    for result, wrong in (({}, agent.expect_error), (None, agent.expect_result)):
        id = await agent.request("_m", {})
        request = await client.expect("_m")
        if result is None:
            await client.reply_error(request, 1)
        else:
            await client.reply(request, result)
        with pytest.raises(AssertionError, match="expected"):
            await wrong(id)
    with pytest.raises(IllegalConversation, match="W11"):
        client.assert_finished()
    await client.aclose()
    await agent.expect_nothing()
    agent.assert_finished()
    with pytest.raises(AssertionError, match="the client closed the connection instead of initialize"):
        await agent.expect("initialize")


async def test_nothing_is_waited_for_for_ever(autojump_clock: Any) -> None:
    peer = ScriptedPeer.in_memory("client", patience=5)
    with pytest.raises(trio.TooSlowError):
        await peer.receive()
    assert isinstance(peer.far_end, MemoryStream)
    with pytest.raises(RuntimeError, match="in_memory"):
        _ = ScriptedPeer(peer.far_end, "agent").far_end
    assert str(PeerError(5)) == "5: no"

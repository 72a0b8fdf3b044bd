"""Sessions: opened, loaded, resumed (S1, S2, S4 to S6)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected
from tests.agent.sessions import Store, echo, modes, options
from trio_acp import _errors as errors
from trio_acp.agent import (
    AgentApp,
    AgentSession,
    ConnectedClient,
    MemorySessionStore,
    PromptContext,
    SessionDamaged,
    SessionRecord,
)
from trio_acp.agent._live import MAX_DEFERRED_UPDATES
from trio_acp.schema import (
    AgentMessageChunk,
    AvailableCommand,
    LoadSessionResponse,
    McpCapabilities,
    McpServerHttp,
    NewSessionResponse,
    ResumeSessionResponse,
    UserMessageChunk,
)

# Opening (S1, S5, S6) ----------------------------------------------------------------------------------


async def test_a_session_has_the_directories_and_servers_that_it_was_opened_with() -> None:
    """S1, S5, S6, W7"""
    app = agent(echo, additional_directories=True, mcp_capabilities=McpCapabilities(http=True, sse=True))
    seen: list[AgentSession[Any]] = []

    @app.on_new_session
    async def opened(
        session: AgentSession[Any], cwd: str, mcp_servers: list[Any], client: ConnectedClient
    ) -> None:
        assert cwd == session.cwd
        assert mcp_servers is session.mcp_servers
        assert session.client is client
        seen.append(session)

    servers = [
        {"name": "a", "command": "/a", "args": [], "env": []},
        {"type": "http", "name": "b", "url": "http://b", "headers": []},
        {"type": "sse", "name": "c", "url": "http://c", "headers": []},
    ]
    async with connected(app) as client:
        await client.call(
            "session/new",
            cwd="/w",
            additionalDirectories=["/x", "/y"],
            mcpServers=servers,
            _meta={"traceparent": "00"},
        )
        session = seen[0]
        assert session.roots == ["/w", "/x", "/y"]
        assert [server.name for server in session.mcp_servers] == ["a", "b", "c"]  # type: ignore[union-attr]
        assert isinstance(session.mcp_servers[1], McpServerHttp)
        assert session.meta == {"traceparent": "00"}
        assert session.resolve("a/../b") == "/w/a/../b"
        assert session.resolve("/z") == "/z"
        assert not session.closed
        assert session.config_value("model") is None


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"cwd": "relative"}, "cwd: expected an absolute path, got 'relative'"),
        ({"cwd": 5}, "cwd: expected a string"),
        ({}, "cwd"),
        ({"additionalDirectories": ["/x"]}, "sessionCapabilities.additionalDirectories"),
        ({"mcpServers": [{"type": "http", "name": "b", "url": "", "headers": []}]}, "mcpCapabilities.http"),
        ({"mcpServers": [{"type": "sse", "name": "b", "url": "", "headers": []}]}, "mcpCapabilities.sse"),
        ({"mcpServers": [{"type": "pigeon", "name": "b"}]}, "pigeon"),
        ({"mcpServers": [{"name": "b"}]}, "mcpServers[0].command"),
    ],
)
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
async def test_a_session_is_not_opened_with_what_cannot_be(
    method: str, params: dict[str, Any], word: str
) -> None:
    """S1, S6, W4"""
    async with connected(agent(echo, store=MemorySessionStore())) as client:
        good = {"cwd": "/w", "mcpServers": [], "sessionId": "x"}
        if params == {}:
            del good["cwd"]
        with pytest.raises(WireError) as caught:
            await client.call(method, **{**good, **params})
        assert caught.value.code == -32602
        assert word in caught.value.message


async def test_extra_directories_are_absolute_too() -> None:
    """S1"""
    async with connected(agent(echo, additional_directories=True)) as client:
        with pytest.raises(WireError) as caught:
            await client.new_session(additionalDirectories=["/x", "y"])
        assert caught.value.code == -32602
        assert "additionalDirectories[1]" in caught.value.message


async def test_the_number_of_open_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_acp.agent._setup.MAX_LIVE_SESSIONS", 2)
    async with connected(agent(echo, store=MemorySessionStore())) as client:
        session = await client.new_session()
        await client.new_session()
        with pytest.raises(WireError, match="close some first"):
            await client.new_session()
        await client.call("session/close", sessionId=session)
        await client.new_session()


async def test_state_belongs_to_its_session() -> None:
    app = AgentApp("a", "1")

    @app.on_new_session
    async def new(session: AgentSession[list[str]]) -> None:
        assert session.state is None
        session.state = []

    @app.on_prompt
    async def prompt(session: AgentSession[list[str]], text: str) -> str:
        session.state.append(text)
        return ",".join(session.state) + ";"

    async with connected(app) as client:
        one, two = await client.new_session(), await client.new_session()
        for session, text in ((one, "a"), (two, "b"), (one, "c")):
            await client.prompt(session, text)
        assert client.said() == "a;b;a,c;"


async def test_a_handler_may_bring_its_own_session_id_once() -> None:
    app = agent(echo)

    @app.on_new_session
    async def new(cwd: str) -> NewSessionResponse:
        return NewSessionResponse("mine", modes=modes(), config_options=options(), meta={"a": 1})

    async with connected(app) as client:
        result = await client.call("session/new", cwd="/w", mcpServers=[])
        assert result["sessionId"] == "mine"
        assert result["_meta"] == {"a": 1}
        assert result["modes"]["currentModeId"] == "ask"
        assert [option["id"] for option in result["configOptions"]] == ["model", "mode", "loud"]
        assert await client.prompt("mine") == {"stopReason": "end_turn"}
        with pytest.raises(WireError) as caught:
            await client.new_session()
        assert caught.value.code == -32603
        assert "in use" in caught.value.message


@pytest.mark.parametrize("returned", ["an id", 5, {"sessionId": "x"}])
async def test_a_new_session_handler_that_returns_nonsense_is_an_internal_error(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = agent(echo)

    @app.on_new_session
    async def new() -> Any:
        return returned

    async with connected(app) as client:
        with pytest.raises(WireError) as caught:
            await client.new_session()
        assert caught.value.code == -32603
    assert "it may return None or a NewSessionResponse" in caplog.text


async def test_a_new_session_that_is_withdrawn_or_refused_is_not_there() -> None:
    """X4"""
    app = agent(echo)
    seen: list[str] = []

    @app.on_new_session
    async def new(session: AgentSession[None], cwd: str) -> None:
        seen.append(session.id)
        await session.set_title("never told")
        if cwd == "/no":
            raise errors.RequestError(-9, "no")
        await trio.sleep_forever()

    async with connected(app) as client:
        id = await client.start("session/new", cwd="/w", mcpServers=[])
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("$/cancel_request", requestId=id)
        with pytest.raises(WireError) as caught:
            await client.answer(id)
        assert caught.value.code == -32800
        with pytest.raises(WireError) as caught:
            await client.new_session("/no")
        assert caught.value.code == -9
        for session in seen:
            with pytest.raises(WireError) as caught:
                await client.prompt(session)
            assert caught.value.code == -32002
        assert client.updates() == []


async def test_an_agent_may_ask_its_client_while_it_opens_a_session() -> None:
    """D5"""
    app = agent(echo)

    @app.on_new_session
    async def new(client: ConnectedClient, session: AgentSession[Any]) -> None:
        session.state = await client.ext_request("_who", {})

    @app.on_ext_request("_state")
    async def state(session: AgentSession[Any]) -> Any:
        return session.state

    async with connected(app) as client:
        client.on["_who"] = lambda params: "you"
        assert await client.call("_state", sessionId=await client.new_session()) == "you"


# After the answer (S4) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["session/new", "session/resume", "session/load"])
async def test_updates_about_a_new_session_follow_its_answer_in_order(method: str) -> None:
    """S4: never before, and nothing gets between."""
    app = agent(echo, store=MemorySessionStore())
    app.command("x", "does x")(echo)

    @app.on_new_session
    @app.on_resume_session
    @app.on_load_session
    async def opened(session: AgentSession[None]) -> None:
        session.modes = modes()
        await session.set_title("a title")
        await session.send_usage(1, 2)
        await session.set_mode("code")
        await trio.lowlevel.checkpoint()
        await session.set_config_options(options())
        await session.set_commands([AvailableCommand("y", "does y")])

    async with connected(app) as client:
        session = await client.new_session()
        if method != "session/new":
            await trio.testing.wait_all_tasks_blocked()
            client.log.clear()
            result = await client.call(method, sessionId=session, cwd="/w", mcpServers=[])
            assert result["modes"]["currentModeId"] == "code"
        await trio.testing.wait_all_tasks_blocked()
        answer, *updates = [message for message in client.log if message.get("id") != "c1"]
        assert "result" in answer
        assert [update["params"]["update"]["sessionUpdate"] for update in updates] == [
            "available_commands_update",
            "session_info_update",
            "usage_update",
            "current_mode_update",
            "config_option_update",
            "available_commands_update",
        ]


async def test_what_waits_for_the_answer_is_bounded() -> None:
    """S4"""
    app = agent(echo)

    @app.on_new_session
    async def opened(session: AgentSession[None]) -> None:
        for _ in range(MAX_DEFERRED_UPDATES):
            await session.set_title("x")
        with pytest.raises(errors.LocalProtocolError, match="wait for the answer"):
            await session.set_title("y")

    async with connected(app) as client:
        await client.new_session()
        await client.wait_until(lambda: len(client.updates()) == MAX_DEFERRED_UPDATES)


# Load and resume (S2) ----------------------------------------------------------------------------------


async def talk(ctx: PromptContext) -> str:
    await ctx.send_thought("hm")
    await ctx.send_message("he")
    await ctx.send_message("llo ")
    async with ctx.tool_call("look"):
        pass
    await ctx.send_plan(["one"])
    await ctx.send_usage(1, 2)
    return f"you said {ctx.text}"


def story(updates: list[dict[str, Any]]) -> list[Any]:
    """The conversation in short: kind and text, or kind and status."""
    return [
        (
            update["sessionUpdate"],
            update.get("content", {}).get("text") or update.get("status") or len(update.get("entries", [])),
        )
        for update in updates
    ]


TALK = [
    ("user_message_chunk", "hi"),
    ("agent_thought_chunk", "hm"),
    ("agent_message_chunk", "hello "),
    ("tool_call", "pending"),
    ("tool_call_update", "in_progress"),
    ("tool_call_update", "completed"),
    ("plan", 1),
    ("agent_message_chunk", "you said hi"),
]


async def test_load_replays_the_whole_conversation_before_its_answer_and_resume_nothing() -> None:
    """S2, across connections"""
    store = MemorySessionStore()
    app = agent(talk, store=store)
    async with connected(app) as client:
        session = await client.new_session()
        await client.prompt(session, "hi")
        ids = [update.get("messageId") for update in client.updates("agent_message_chunk")]
    async with connected(app) as client:
        assert await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[]) == {}
        assert client.methods()[-1].startswith("=")
        assert story(client.updates()) == TALK
        assert client.updates("agent_message_chunk")[0]["messageId"] == ids[0]
        await client.prompt(session, "again")
        client.log.clear()
        await client.call("session/load", sessionId=session, cwd="/other", mcpServers=[])
        assert story(client.updates())[: len(TALK) + 1] == [*TALK, ("user_message_chunk", "again")]
        assert len(client.updates()) == 2 * len(TALK)
    async with connected(app) as client:
        assert await client.call("session/resume", sessionId=session, cwd="/w") == {}
        assert client.updates() == []
        await client.prompt(session, "more")


async def test_a_load_handler_gets_the_transcript_before_the_replay() -> None:
    """S2"""
    app = agent(talk, store=MemorySessionStore())
    seen: list[Any] = []

    @app.on_load_session
    async def load(transcript: list[Any], session: AgentSession[None]) -> LoadSessionResponse:
        assert session.title == "hi"
        seen.extend(transcript)
        return LoadSessionResponse(modes=modes(), meta={"a": 1})

    async with connected(app) as client:
        session = await client.new_session()
        await client.prompt(session, "hi")
    async with connected(app) as client:
        result = await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[])
        assert result["_meta"] == {"a": 1}
        assert result["modes"]["currentModeId"] == "ask"
    assert isinstance(seen[0], UserMessageChunk)
    assert isinstance(seen[2], AgentMessageChunk)
    assert len(seen) == len(TALK)


async def test_without_a_store_the_handlers_own_replay_comes_before_the_answer() -> None:
    """S2"""
    app = agent(echo)

    @app.on_load_session
    async def load(session: AgentSession[None], session_id: str) -> None:
        if session_id != "old":
            raise errors.ResourceNotFound("no such session")
        await session.set_title("after")
        await session.send_user_message("q", message_id="m1")
        await session.send_message("a")

    @app.on_resume_session
    async def resume(session: AgentSession[None]) -> ResumeSessionResponse:
        await session.send_message("after")
        return ResumeSessionResponse()

    async with connected(app) as client:
        with pytest.raises(WireError) as caught:
            await client.call("session/load", sessionId="new", cwd="/w", mcpServers=[])
        assert caught.value.code == -32002
        id = await client.start("session/load", sessionId="old", cwd="/w", mcpServers=[])
        await client.answer(id)
        await trio.testing.wait_all_tasks_blocked()
        assert client.methods()[-4:] == ["session/update", "session/update", f"={id}", "session/update"]
        assert [update["sessionUpdate"] for update in client.updates()] == [
            "user_message_chunk",
            "agent_message_chunk",
            "session_info_update",
        ]
        assert client.updates()[0]["messageId"] == "m1"
        await client.prompt("old")
        id = await client.start("session/resume", sessionId="other", cwd="/w")
        await client.answer(id)
        await trio.testing.wait_all_tasks_blocked()
        assert client.methods()[-2:] == [f"={id}", "session/update"]


async def test_a_session_that_is_not_in_the_store_is_not_found() -> None:
    """S2, W10"""
    async with connected(agent(echo, store=MemorySessionStore())) as client:
        for method in ("session/load", "session/resume"):
            with pytest.raises(WireError) as caught:
                await client.call(method, sessionId="nope", cwd="/w", mcpServers=[])
            assert (caught.value.code, caught.value.data) == (-32002, {"sessionId": "nope"})


async def test_a_damaged_session_is_refused_with_a_reason() -> None:
    class Damaged(Store):
        async def load(self, session_id: str) -> Any:
            raise SessionDamaged(session_id, "line 3 is not JSON", "/secret/path")

    async with connected(agent(echo, store=Damaged())) as client:
        with pytest.raises(WireError) as caught:
            await client.call("session/load", sessionId="x", cwd="/w", mcpServers=[])
        assert caught.value.code == -32603
        assert "damaged and was left as it is: line 3 is not JSON" in caught.value.message
        assert "secret" not in caught.value.message


async def test_a_session_that_is_being_opened_takes_nothing_else() -> None:
    """T1: neither a prompt nor another load."""
    go = trio.Event()

    class Slow(Store):
        async def load(self, session_id: str) -> Any:
            await go.wait()
            return SessionRecord(session_id, "/w"), []

    async with connected(agent(echo, store=Slow())) as client:
        params = {"sessionId": "x", "cwd": "/w", "mcpServers": []}
        id = await client.start("session/load", **params)
        with pytest.raises(WireError, match="being opened already"):
            await client.call("session/resume", **params)
        with pytest.raises(WireError, match="still being opened"):
            await client.prompt("x")
        with pytest.raises(WireError, match="still being opened"):
            await client.call("session/delete", sessionId="x")
        go.set()
        await client.answer(id)
        assert await client.prompt("x") == {"stopReason": "end_turn"}


async def test_a_session_is_not_loaded_during_its_turn() -> None:
    """T1"""

    async def prompt() -> None:
        await trio.sleep_forever()

    async with connected(agent(prompt, store=MemorySessionStore())) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        with pytest.raises(WireError, match="a turn is running"):
            await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[])
        await client.cancel(session)
        await client.answer(id)
        await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[])


async def test_a_load_that_fails_leaves_an_open_session_open() -> None:
    app = agent(echo, store=MemorySessionStore())

    @app.on_load_session
    async def load(session: AgentSession[None]) -> None:
        await session.set_title("never told")
        raise errors.RequestError(-9, "no")

    async with connected(app) as client:
        session = await client.new_session()
        with pytest.raises(WireError):
            await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[])
        assert await client.prompt(session) == {"stopReason": "end_turn"}
        assert client.updates("session_info_update") == []

"""Sessions: opened, replayed, chosen for, listed, closed and deleted (S1 to S8)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected
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
    Cost,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerHttp,
    NewSessionResponse,
    PlanEntry,
    ResumeSessionResponse,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionInfo,
    SessionMode,
    SessionModeState,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    TextContent,
    UserMessageChunk,
)


async def echo(ctx: PromptContext) -> str:
    return f"you said {ctx.text}"


def modes() -> SessionModeState:
    return SessionModeState("ask", [SessionMode("ask", "Ask"), SessionMode("code", "Code")])


def options() -> list[Any]:
    return [
        SessionConfigSelect(
            "model",
            "Model",
            "small",
            [SessionConfigSelectOption("small", "S"), SessionConfigSelectOption("large", "L")],
        ),
        SessionConfigSelect(
            "mode",
            "Mode",
            "ask",
            [
                SessionConfigSelectGroup(
                    "g",
                    "G",
                    [SessionConfigSelectOption("ask", "A"), SessionConfigSelectOption("code", "C")],
                )
            ],
            category="mode",
        ),
        SessionConfigBoolean("loud", "Loud", False),
    ]


def with_choices(**kwargs: Any) -> AgentApp:
    """An app whose sessions have modes and options, however they are opened."""
    app = agent(echo, **kwargs)

    @app.on_new_session
    @app.on_load_session
    @app.on_resume_session
    async def opened(session: AgentSession[Any]) -> None:
        session.modes = modes()
        session.config_options = options()

    return app


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


class Store:
    """A store that keeps nothing; tests override what they need."""

    async def save(self, record: SessionRecord, updates: Any) -> None: ...

    async def load(self, session_id: str) -> Any: ...

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> Any:
        return [], None

    async def delete(self, session_id: str) -> None: ...


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


# Modes and options (S7) --------------------------------------------------------------------------------


async def test_a_mode_is_set_if_the_session_has_it() -> None:
    """S7"""
    async with connected(with_choices()) as client:
        session = await client.new_session()
        assert await client.call("session/set_mode", sessionId=session, modeId="code") == {}
        # The config option about modes is the same choice, and says so.
        update = client.updates("config_option_update")[0]
        assert [option["currentValue"] for option in update["configOptions"]] == ["small", "code", False]
        with pytest.raises(WireError) as caught:
            await client.call("session/set_mode", sessionId=session, modeId="sleep")
        assert caught.value.code == -32602
        assert "modeId" in caught.value.message


async def test_sessions_without_modes_or_options_do_not_take_any() -> None:
    """I3, S7"""
    async with connected(agent(echo)) as client:
        session = await client.new_session()
        with pytest.raises(WireError) as caught:
            await client.call("session/set_mode", sessionId=session, modeId="code")
        assert caught.value.code == -32601
        with pytest.raises(WireError) as caught:
            await client.call("session/set_config_option", sessionId=session, configId="x", value="y")
        assert caught.value.code == -32601


async def test_a_mode_handler_is_asked_and_may_refuse() -> None:
    """S7"""
    app = with_choices()

    @app.on_set_mode
    async def set_mode(session: AgentSession[None], mode_id: str) -> SetSessionModeResponse:
        if session.modes and session.modes.current_mode_id == mode_id:
            raise errors.InvalidParams("in that mode already")
        return SetSessionModeResponse(meta={"m": mode_id})

    async with connected(app) as client:
        session = await client.new_session()
        result = await client.call("session/set_mode", sessionId=session, modeId="code")
        assert result == {"_meta": {"m": "code"}}
        with pytest.raises(WireError, match="already"):
            await client.call("session/set_mode", sessionId=session, modeId="code")
        assert len(client.updates("config_option_update")) == 1


async def test_a_mode_that_was_slow_to_set_finds_its_session_closed_or_opened_anew() -> None:
    """S3, S7: what follows its answer is not told about a closed session, and not before another answer."""
    app = with_choices(store=MemorySessionStore())
    go, load = trio.Event(), trio.Event()

    @app.on_set_mode
    async def set_mode() -> None:
        await go.wait()

    @app.on_ext_request("_loaded")
    async def loaded() -> None:
        load.set()

    async with connected(app) as client:
        session = await client.new_session()
        mode = await client.start("session/set_mode", sessionId=session, modeId="code")
        await trio.testing.wait_all_tasks_blocked()
        await client.call("session/close", sessionId=session)
        go.set()
        assert await client.answer(mode) == {}
        await trio.testing.wait_all_tasks_blocked()
        assert client.updates() == []

    go = trio.Event()
    store = MemorySessionStore()
    app = agent(echo, store=store)

    @app.on_new_session
    async def new(session: AgentSession[Any]) -> None:
        session.modes, session.config_options = modes(), options()

    @app.on_set_mode
    async def set_mode_again() -> None:
        await go.wait()

    @app.on_load_session
    async def slow_load() -> None:
        await load.wait()

    @app.on_ext_request("_loaded")
    async def loaded_again() -> None:
        load.set()

    async with connected(app) as client:
        session = await client.new_session()
        mode = await client.start("session/set_mode", sessionId=session, modeId="code")
        opening = await client.start("session/load", sessionId=session, cwd="/w", mcpServers=[])
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        assert await client.answer(mode) == {}
        await client.call("_loaded")
        await client.answer(opening)
        await trio.testing.wait_all_tasks_blocked()
        assert client.methods()[-2:] == [f"={opening}", "session/update"]


async def test_an_option_is_chosen_and_the_answer_has_all_of_them() -> None:
    """S7"""
    async with connected(with_choices()) as client:
        session = await client.new_session()

        async def choose(config: str, value: Any, **more: Any) -> list[Any]:
            result = await client.call(
                "session/set_config_option", sessionId=session, configId=config, value=value, **more
            )
            return [option["currentValue"] for option in result["configOptions"]]

        assert await choose("model", "large") == ["large", "ask", False]
        assert await choose("loud", True, type="boolean") == ["large", "ask", True]
        assert client.updates() == []
        assert await choose("mode", "code") == ["large", "code", True]
        assert client.updates("current_mode_update")[0]["currentModeId"] == "code"
        assert await choose("mode", "code") == ["large", "code", True]
        assert len(client.updates()) == 1


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"configId": "other", "value": "x"}, "configId"),
        ({"configId": "model", "value": "huge"}, "has no value 'huge'"),
        ({"configId": "mode", "value": "g"}, "has no value 'g'"),
        ({"configId": "model", "value": True, "type": "boolean"}, "has no value True"),
        ({"configId": "loud", "value": "yes"}, "on or off"),
        ({"configId": "loud", "value": 5, "type": "odd"}, "odd"),
        ({"configId": "loud", "value": 5}, "value"),
    ],
)
async def test_a_choice_that_is_not_on_offer_is_refused(params: dict[str, Any], word: str) -> None:
    """S7, W4"""
    async with connected(with_choices()) as client:
        session = await client.new_session()
        with pytest.raises(WireError) as caught:
            await client.call("session/set_config_option", sessionId=session, **params)
        assert caught.value.code == -32602
        assert word in caught.value.message


async def test_a_config_handler_may_change_other_options_too(caplog: pytest.LogCaptureFixture) -> None:
    """S7"""
    app = with_choices()
    model = options()[0]

    @app.on_set_config_option
    async def choose(session: AgentSession[None], config_id: str, value: str | bool) -> Any:
        match value:
            case "large":
                return [model]
            case "small":
                return SetSessionConfigOptionResponse([*options()], meta={"a": 1})
            case "code":
                return None
            case _:
                return 5

    async with connected(app) as client:
        session = await client.new_session()

        async def set_option(config: str, value: Any, **more: Any) -> Any:
            return await client.call(
                "session/set_config_option", sessionId=session, configId=config, value=value, **more
            )

        assert (await set_option("mode", "code"))["configOptions"][1]["currentValue"] == "code"
        with pytest.raises(WireError):
            await set_option("loud", True, type="boolean")
        result = await set_option("model", "large")
        assert [option["id"] for option in result["configOptions"]] == ["model"]
        result = await set_option("model", "small")
        assert [option["id"] for option in result["configOptions"]] == ["model", "mode", "loud"]
        assert result["_meta"] == {"a": 1}
    assert "on_set_config_option returned 5" in caplog.text


async def test_a_config_handler_alone_works_without_known_options() -> None:
    """S7"""
    app = agent(echo)

    @app.on_set_config_option
    async def choose() -> None: ...

    @app.on_set_mode
    async def mode() -> None: ...

    async with connected(app) as client:
        session = await client.new_session()
        params = {"sessionId": session, "configId": "any", "value": "x"}
        assert await client.call("session/set_config_option", **params) == {"configOptions": []}
        assert await client.call("session/set_mode", sessionId=session, modeId="any") == {}


async def test_options_of_type_boolean_are_for_clients_that_can_show_them() -> None:
    """S7"""
    app = with_choices()

    async with connected(app, {}) as client:
        result = await client.call("session/new", cwd="/w", mcpServers=[])
        assert [option["id"] for option in result["configOptions"]] == ["model", "mode"]
        params = {"sessionId": result["sessionId"], "configId": "model", "value": "large"}
        result = await client.call("session/set_config_option", **params)
        assert [option["id"] for option in result["configOptions"]] == ["model", "mode"]


async def test_what_was_chosen_is_chosen_again_when_a_session_is_loaded() -> None:
    """S2, S7"""
    store = MemorySessionStore()
    app = with_choices(store=store)
    async with connected(app) as client:
        session = await client.new_session()
        await client.call("session/set_mode", sessionId=session, modeId="code")
        for config, value in (("model", "large"), ("loud", True)):
            kind = {"type": "boolean"} if value is True else {}
            await client.call(
                "session/set_config_option", sessionId=session, configId=config, value=value, **kind
            )
    async with connected(app) as client:
        result = await client.call("session/resume", sessionId=session, cwd="/w")
        assert result["modes"]["currentModeId"] == "code"
        assert [option["currentValue"] for option in result["configOptions"]] == ["large", "code", True]
    record, _ = await store.load(session) or (None, [])
    assert record is not None
    record.mode_id = "gone"
    record.config_values = {"model": "gone", "loud": "gone", "gone": True}
    await store.save(record, [])
    async with connected(app) as client:
        result = await client.call("session/resume", sessionId=session, cwd="/w")
        assert result["modes"]["currentModeId"] == "ask"
        assert [option["currentValue"] for option in result["configOptions"]] == ["small", "ask", False]


# Updates about a session (S8) --------------------------------------------------------------------------


async def test_a_session_can_tell_its_news_outside_of_turns() -> None:
    """S7, S8, T5"""
    app = with_choices()

    @app.on_ext_request("_news")
    async def news(session: AgentSession[None]) -> Any:
        await session.set_title("t")
        await session.send_message("a")
        await session.send_message("b")
        session.new_message()
        await session.send_message(TextContent("c"))
        await session.send_thought("d")
        await session.send_plan([PlanEntry("x", "high", "completed"), "y"])
        await session.send_usage(5, 10, Cost(0.5, "EUR"))
        await session.set_mode("code")
        with pytest.raises(ValueError, match="no mode 'sleep'; it has ask, code"):
            await session.set_mode("sleep")
        assert session.config_options
        await session.set_config_options(session.config_options[:1])
        await session.send_notice("info", "n")
        await session.send_notice("info", "n", "more")
        with pytest.raises(ValueError, match="title"):
            await session.send_notice("info", "")
        return [session.title, session.modes and session.modes.current_mode_id, session.config_value("model")]

    async with connected(app) as client:
        session = await client.new_session()
        assert await client.call("_news", sessionId=session) == ["t", "code", "small"]
        updates = client.updates()
        assert [update["sessionUpdate"] for update in updates] == [
            "session_info_update",
            *["agent_message_chunk"] * 3,
            "agent_thought_chunk",
            "plan",
            "usage_update",
            "current_mode_update",
            "config_option_update",
            "notice",
            "notice",
        ]
        ids = [update["messageId"] for update in client.updates("agent_message_chunk")]
        assert ids[0] == ids[1] != ids[2]
        assert updates[5]["entries"] == [
            {"content": "x", "priority": "high", "status": "completed"},
            {"content": "y", "priority": "medium", "status": "pending"},
        ]
        assert updates[6] == {
            "sessionUpdate": "usage_update",
            "used": 5,
            "size": 10,
            "cost": {"amount": 0.5, "currency": "EUR"},
        }
        assert updates[-1]["description"] == "more"


# List (S3) ---------------------------------------------------------------------------------------------


async def test_sessions_are_listed_page_by_page_the_latest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3"""
    monkeypatch.setattr("trio_acp.agent._store.page.__defaults__", (2,))
    app = agent(echo, store=MemorySessionStore(), additional_directories=True)
    async with connected(app) as client:
        sessions = [await client.new_session(f"/{n}", additionalDirectories=["/x"]) for n in range(5)]
        await client.prompt(sessions[0], "\n the first line \nthe second")
        found: list[Any] = []
        cursor: dict[str, Any] = {}
        sizes: list[int] = []
        while True:
            page = await client.call("session/list", **cursor)
            found.extend(page["sessions"])
            sizes.append(len(page["sessions"]))
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sizes == [2, 2, 1]
        assert [info["sessionId"] for info in found] == [sessions[n] for n in (0, 4, 3, 2, 1)]
        assert found[0]["title"] == "the first line"
        assert found[0]["additionalDirectories"] == ["/x"]
        assert "title" not in found[1]
        assert found[0]["updatedAt"].endswith("Z")
        only = await client.call("session/list", cwd="/3")
        assert [info["sessionId"] for info in only["sessions"]] == [sessions[3]]
        for params in ({"cursor": "nonsense"}, {"cursor": "e30="}, {"cursor": "é"}, {"cwd": "here"}):
            with pytest.raises(WireError) as caught:
                await client.call("session/list", **params)
            assert caught.value.code == -32602


@pytest.mark.parametrize(
    "returned", [[SessionInfo("a", "/a")], ListSessionsResponse([SessionInfo("a", "/a")]), None]
)
async def test_a_list_handler_takes_the_place_of_the_store(returned: Any) -> None:
    """S3"""
    app = agent(echo, store=MemorySessionStore())

    @app.on_list_sessions
    async def list_sessions(cwd: str | None, cursor: str | None) -> Any:
        assert (cwd, cursor) == ("/a", "c")
        return returned

    async with connected(app) as client:
        result = await client.call("session/list", cwd="/a", cursor="c")
        assert result == {"sessions": [{"sessionId": "a", "cwd": "/a"}] if returned else []}


# Close and delete (S3) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_ending_a_session_cancels_its_turn_and_then_it_is_gone(method: str) -> None:
    """S3"""
    told: list[Any] = []

    async def prompt(ctx: PromptContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            told.append(ctx.session)

    app = agent(prompt, store=MemorySessionStore())

    @app.on_close_session
    async def close(session: AgentSession[None]) -> None:
        told.append("closed")
        with pytest.raises(errors.LocalProtocolError, match="is closed"):
            await session.set_title("too late")

    @app.on_delete_session
    async def delete(session_id: str) -> None:
        told.append("deleted")

    async with connected(app) as client:
        session = await client.new_session()
        turn = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        end = await client.start(method, sessionId=session)
        assert await client.answer(turn) == {"stopReason": "cancelled"}
        assert await client.answer(end) == {}
        assert told[1:] == ["closed" if method == "session/close" else "deleted"]
        assert told[0].closed
        assert client.methods()[-2:] == [f"={turn}", f"={end}"]
        with pytest.raises(WireError) as caught:
            await client.prompt(session)
        assert caught.value.code == -32002
        listed = (await client.call("session/list"))["sessions"]
        assert [info["sessionId"] for info in listed] == ([session] if method == "session/close" else [])


async def test_deleting_what_is_not_there_is_a_success_and_closing_it_is_not() -> None:
    """S3"""
    async with connected(agent(echo, store=MemorySessionStore())) as client:
        assert await client.call("session/delete", sessionId="nope") == {}
        with pytest.raises(WireError) as caught:
            await client.call("session/close", sessionId="nope")
        assert caught.value.code == -32002
        session = await client.new_session()
        assert await client.call("session/close", sessionId=session) == {}
        assert await client.call("session/delete", sessionId=session) == {}
        assert await client.call("session/list") == {"sessions": []}


async def test_handlers_alone_make_close_and_delete_work() -> None:
    """S3, I5"""
    app = agent(echo)

    @app.on_close_session
    async def close() -> dict[str, Any]:
        return {"_meta": {"a": 1}}

    @app.on_delete_session
    async def delete() -> dict[str, Any]:
        return {"_meta": {"b": 1}}

    async with connected(app) as client:
        session = await client.new_session()
        assert await client.call("session/close", sessionId=session) == {"_meta": {"a": 1}}
        assert await client.call("session/delete", sessionId=session) == {"_meta": {"b": 1}}


async def test_sessions_that_are_open_when_the_client_goes_are_closed_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Q2: also when one of the handlers fails."""
    app = agent(echo)
    closed: list[str] = []

    @app.on_close_session
    async def close(session: AgentSession[None], session_id: str) -> None:
        assert session.id == session_id
        closed.append(session.id)
        if len(closed) == 1:
            raise ValueError("cannot close")

    async with connected(app) as client:
        sessions = [await client.new_session() for _ in range(3)]
    assert closed == sessions
    assert "cannot close" in caplog.text


async def test_closing_sessions_of_a_client_that_has_gone_takes_a_bounded_time(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    app = agent(echo)

    @app.on_close_session
    async def close() -> None:
        await trio.sleep_forever()

    async with connected(app) as client:
        await client.new_session()
        await client.new_session()
    assert trio.current_time() < 10
    assert "were not closed in 2 s" in caplog.text


async def test_session_data_is_kept_by_the_store() -> None:
    """S2"""

    async def prompt(session: AgentSession[None]) -> str:
        session.data["count"] = session.data.get("count", 0) + 1
        return str(session.data["count"])

    app = agent(prompt, store=MemorySessionStore())
    async with connected(app) as client:
        session = await client.new_session()
        await client.prompt(session)
        await client.prompt(session)
    async with connected(app) as client:
        await client.call("session/resume", sessionId=session, cwd="/w")
        await client.prompt(session)
        assert client.said() == "3"

"""Modes, config options, and the news of a session (S7, S8)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected
from tests.agent.sessions import echo, modes, options, with_choices
from trio_acp import _errors as errors
from trio_acp.agent import (
    AgentSession,
    MemorySessionStore,
)
from trio_acp.schema import (
    Cost,
    PlanEntry,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    TextContent,
)

# Modes and options (S7) --------------------------------------------------------------------------------


async def test_a_mode_is_set_if_the_session_has_it() -> None:
    """S7"""
    async with connected(with_choices()) as client:
        session = await client.new_session()
        assert await client.call("session/set_mode", sessionId=session, modeId="code") == {}
        # The config option about modes is the same choice, and says so.
        await client.wait_until(lambda: bool(client.updates("config_option_update")))
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
            await trio.testing.wait_all_tasks_blocked()  # an update may be one pass behind the answer
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

"""Sessions apart from their turns: making, configuring, closing, and the updates outside of turns (S)."""

from __future__ import annotations

import os
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk, frame
from trio_acp import (
    AcpOptions,
    AuthRequired,
    CapabilityError,
    ConnectionClosed,
    InvalidResponse,
    LocalProtocolError,
    MethodNotFound,
    SessionBusy,
)
from trio_acp.client import _buffers, _table
from trio_acp.schema import EnvVariable, McpServerHttp, McpServerSse, McpServerStdio

X, Y = os.path.abspath("x"), os.path.abspath("y")
STDIO = McpServerStdio("a", "/bin/a", [], [EnvVariable("KEY", "secret")])
HTTP = McpServerHttp("b", "http://b", [])
SSE = McpServerSse("c", "http://c", [])


async def test_a_session_is_made_with_absolute_paths_and_the_servers_of_the_options(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S1, J5: mcpServers is sent even when there are none."""

    async def script(wire: Wire) -> None:
        request = await wire.new_session("s1")
        assert request["params"] == {"cwd": os.getcwd(), "mcpServers": []}
        request = await wire.new_session("s2")
        params = request["params"]
        assert params["cwd"] == X
        assert params["additionalDirectories"] == [Y, "/z"]
        assert [server["name"] for server in params["mcpServers"]] == ["a", "b", "c"]
        assert params["_meta"] == {"traceparent": "t"}

    async with Scene(script) as (agent, _wire):
        first = await agent.new_session()
        assert (first.id, first.cwd) == ("s1", os.getcwd())
        assert "s1" in repr(first)
        second = await agent.new_session(
            "x",
            mcp_servers=[STDIO, HTTP, SSE],
            additional_directories=["y", "/z"],
            meta={"traceparent": "t"},
        )
        assert second.cwd == X


async def test_servers_and_directory_of_the_options_are_the_default(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        params = (await wire.new_session())["params"]
        assert params["cwd"] == "/somewhere"
        assert [server["name"] for server in params["mcpServers"]] == ["a"]

    async with Scene(script, AcpOptions(cwd="/somewhere", mcp_servers=[STDIO])) as (agent, _wire):
        await agent.new_session()


@pytest.mark.parametrize(
    ("arguments", "capability"),
    [
        ({"mcp_servers": [HTTP]}, "mcpCapabilities.http"),
        ({"mcp_servers": [STDIO, SSE]}, "mcpCapabilities.sse"),
        ({"additional_directories": ["/a"]}, "sessionCapabilities.additionalDirectories"),
    ],
)
async def test_what_the_agent_does_not_offer_is_not_asked_for(
    autojump_clock: trio.testing.MockClock, arguments: dict[str, Any], capability: str
) -> None:
    """I3, S6"""
    async with Scene(Wire.quiet, capabilities={}) as (agent, _wire):
        with pytest.raises(CapabilityError, match=capability) as caught:
            await agent.new_session(**arguments)
        assert caught.value.capability == capability
        with pytest.raises(CapabilityError, match="logout"):
            await agent.logout()


async def test_authentication_is_asked_for_by_its_own_error_and_given_by_id(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """U1, U3"""

    async def script(wire: Wire) -> None:
        await wire.error(await wire.expect("session/new"), -32000, "who are you")
        await wire.result(await wire.expect("authenticate", methodId="key"), None)
        await wire.result(await wire.expect("logout"), {})
        await wire.quiet()

    methods = [
        {"id": "key", "name": "Key"},
        {"id": "tty", "name": "Terminal", "type": "terminal"},
        {"id": "nose", "name": "Nose", "type": "biometric"},
    ]
    async with Scene(script, authMethods=methods) as (agent, _wire):
        with pytest.raises(AuthRequired, match="who are you"):
            await agent.new_session()
        await agent.authenticate("key")
        await agent.logout()
        with pytest.raises(LocalProtocolError, match="terminal"):
            await agent.authenticate("tty")
        with pytest.raises(LocalProtocolError, match="offers no method"):
            await agent.authenticate("nose")
        assert len(agent.auth_methods) == 3


@pytest.mark.parametrize("result", [{}, None, [], {"sessionId": 5}])
async def test_a_malformed_answer_makes_no_session(
    autojump_clock: trio.testing.MockClock, result: Any
) -> None:
    """W6: only that request fails; its early updates become strays."""

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.text("early")
        await wire.result(new, result)
        await wire.new_session("s2")

    async with Scene(script) as (agent, _wire):
        with pytest.raises(InvalidResponse, match="session/new"):
            await agent.new_session()
        assert dict(agent.sessions) == {}
        assert (await anext(agent.updates())).session_id == "s1"
        assert (await agent.new_session()).id == "s2"


MODES = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
CONFIG = [
    {
        "id": "model",
        "name": "Model",
        "type": "select",
        "currentValue": "x",
        "options": [{"value": "x", "name": "X"}, {"value": "y", "name": "Y"}],
    },
    {
        "id": "grouped",
        "name": "Grouped",
        "type": "select",
        "currentValue": "p",
        "options": [{"group": "g", "name": "G", "options": [{"value": "p", "name": "P"}]}],
    },
    {"id": "flag", "name": "Flag", "type": "boolean", "currentValue": False},
    {"id": "dial", "name": "Dial", "type": "rotary", "currentValue": 11},
]


async def test_modes_are_set_and_followed(autojump_clock: trio.testing.MockClock) -> None:
    """S7: only modes that there are; the answer counts even where no update comes."""

    async def script(wire: Wire) -> None:
        await wire.new_session(modes=MODES)
        await wire.result(await wire.expect("session/set_mode", sessionId="s1", modeId="b"), None)
        await wire.new_session("s2")
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await session.set_mode("b")
        assert session.state.modes is not None
        assert session.state.modes.current_mode_id == "b"
        with pytest.raises(LocalProtocolError, match=r"\['a', 'b'\]"):
            await session.set_mode("c")
        with pytest.raises(LocalProtocolError, match="none"):
            await (await agent.new_session()).set_mode("a")


async def test_config_options_are_set_checked_and_replaced(autojump_clock: trio.testing.MockClock) -> None:
    """S7"""

    async def script(wire: Wire) -> None:
        await wire.new_session(configOptions=CONFIG)
        for config, value, more in [
            ("model", "y", {}),
            ("grouped", "p", {}),
            ("flag", True, {"type": "boolean"}),
        ]:
            request = await wire.expect("session/set_config_option", configId=config, value=value, **more)
            await wire.result(request, {"configOptions": CONFIG[:3]})
        await wire.result(await wire.expect("session/set_config_option"), {"configOptions": "none"})
        await wire.result(await wire.expect("session/set_config_option"), [])
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        assert len(session.state.config_options) == 4
        wrong: list[tuple[str, Any]] = [("dial", "x"), ("missing", "x"), ("model", "z"), ("flag", "y")]
        for config, value in [*wrong, ("model", True)]:
            with pytest.raises(LocalProtocolError, match="config option"):
                await session.set_config_option(config, value)
        answered = await session.set_config_option("model", "y")
        assert answered is session.state.config_options
        assert len(answered) == 3
        await session.set_config_option("grouped", "p")
        await session.set_config_option("flag", True)
        lenient = await session.set_config_option("flag", True)
        assert lenient == []
        with pytest.raises(LocalProtocolError, match="none"):
            await session.set_config_option("flag", True)
        session.state.config_options = answered
        with pytest.raises(InvalidResponse):
            await session.set_config_option("flag", False)


async def test_a_closed_session_takes_no_more_calls_and_its_stream_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S3"""

    async def script(wire: Wire) -> None:
        await wire.new_session(modes=MODES)
        await wire.text("kept")
        await wire.result(await wire.expect("session/close", sessionId="s1"), {})
        await wire.text("too late")
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await session.close()
        assert [update async for update in session.updates()] != []
        assert dict(agent.sessions) == {}
        assert (await anext(agent.updates())).session_id == "s1"
        with pytest.raises(LocalProtocolError, match="closed"):
            async with session.prompt("x"):
                pass  # pragma: no cover  (entering fails)
        with pytest.raises(LocalProtocolError, match="closed"):
            await session.close()
        with pytest.raises(LocalProtocolError, match="closed"):
            await session.set_mode("a")
        with pytest.raises(LocalProtocolError, match="closed"):
            await session.set_config_option("a", "b")
        session.cancel()


async def test_closing_is_for_agents_that_offer_it(autojump_clock: trio.testing.MockClock) -> None:
    async with Scene(Wire.new_session, capabilities={}) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(CapabilityError, match=r"sessionCapabilities\.close"):
            await session.close()


async def test_closing_a_session_with_a_turn_cancels_it_and_keeps_its_messages_apart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S3: the answer to close may come before that of the prompt; what comes between is the turn's."""

    asked: list[str] = []

    async def on_permission(request: Any) -> Any:
        asked.append(request.session_id)  # pragma: no cover  (the turn is being cancelled)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel", sessionId="s1")
        await wire.result(await wire.expect("session/close"), {})
        id = await wire.ask_permission()
        assert await wire.answer(id) == {"outcome": {"outcome": "cancelled"}}
        await wire.text("last")
        await wire.end(prompt, "cancelled")
        await wire.text("stray")

    async with Scene(script, AcpOptions(on_permission=on_permission)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await session.close()
            await turn.wait()
        assert turn.text == "last"
        assert turn.stop_reason == "cancelled"
        assert (await anext(agent.updates())).session_id == "s1"
        assert dict(agent.sessions) == {}
    assert asked == []


async def test_an_agent_may_use_the_id_of_a_closed_session_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.result(await wire.expect("session/close"), {})
        await wire.new_session()
        await wire.end(prompt, "cancelled")
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        old = await agent.new_session()
        async with old.prompt("x"):
            await old.close()
            new = await agent.new_session()
        async with new.prompt("y") as turn:
            pass
        assert turn.stop_reason == "end_turn"
        assert list(agent.sessions) == ["s1"]


async def test_early_updates_wait_for_all_sessions_that_are_being_made(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S4: the answer to one request does not give up what belongs to the other."""

    async def script(wire: Wire) -> None:
        first, second = await wire.expect("session/new"), await wire.expect("session/new")
        await wire.text("early", "s2")
        await wire.result(first, {"sessionId": "s1", "modes": MODES, "configOptions": CONFIG})
        await trio.sleep(1)
        await wire.update("current_mode_update", "s2", currentModeId="b")
        await wire.update("config_option_update", "s2", configOptions=CONFIG[:1])
        await wire.result(second, {"sessionId": "s2", "modes": MODES, "configOptions": CONFIG})

    async with Scene(script) as (agent, _wire):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.new_session)
            nursery.start_soon(agent.new_session)
        session = agent.sessions["s2"]
        assert len(session.updates()) == 3
        assert session.state.modes is not None
        # What was told before the answer is as new as the answer.
        assert session.state.modes.current_mode_id == "b"
        assert len(session.state.config_options) == 1


@pytest.mark.parametrize("close", [True, False])
async def test_a_late_answer_to_session_new_is_closed_where_the_agent_can(
    autojump_clock: trio.testing.MockClock, close: bool
) -> None:
    """X4: withdrawn with $/cancel_request; what it created all the same is freed."""

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.expect("$/cancel_request", requestId=new["id"])
        await wire.result(new, {"sessionId": "s1"})
        if close:
            await wire.result(await wire.expect("session/close", sessionId="s1"), {})
        again = await wire.expect("session/new")
        await wire.expect("$/cancel_request")
        await wire.result(again, {"sessionId": 5})
        third = await wire.expect("session/new")
        await wire.expect("$/cancel_request")
        await wire.result(third, "nonsense")
        fourth = await wire.expect("session/new")
        await wire.expect("$/cancel_request")
        await wire.error(fourth, -32800)
        await wire.quiet()

    capabilities: dict[str, Any] = {"sessionCapabilities": {"close": {}}} if close else {}
    async with Scene(script, capabilities=capabilities) as (agent, _wire):
        for _ in range(4):
            with trio.move_on_after(1) as scope:
                await agent.new_session()
            assert scope.cancelled_caught
            await trio.testing.wait_all_tasks_blocked()
        assert dict(agent.sessions) == {}


async def test_an_answer_that_comes_with_the_cancellation_is_closed_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The read loop has taken it, but nobody gets it."""

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        scope.cancel()
        wire.stream.send_nowait(frame(wire.result_of(new, {"sessionId": "s1"})))
        wire.referee.from_agent(wire.result_of(new, {"sessionId": "s1"}))
        message = await wire.receive()
        assert message is not None
        if message["method"] == "$/cancel_request":
            message = await wire.receive()
            assert message is not None
        assert message["method"] == "session/close"
        await wire.result(message, {})

    scope = trio.CancelScope()
    async with Scene(script) as (agent, _wire):
        with scope:
            await agent.new_session()
        await trio.testing.wait_all_tasks_blocked()
        assert dict(agent.sessions) == {}


async def test_a_withdrawn_session_new_answered_with_the_id_of_another_costs_that_one_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        new = await wire.expect("session/new")
        await wire.expect("$/cancel_request")
        await wire.result(new, {"sessionId": "s1"})
        await wire.text("still here")
        await wire.end(prompt)
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            with trio.move_on_after(1):
                await agent.new_session()
        assert turn.text == "still here"


async def test_updates_outside_of_turns_never_pause_reading_and_lose_the_oldest(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_table, "EARLY_UPDATES", 3)
    many = _buffers.BACKLOG_ITEMS + 10

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.burst(*[chunk(str(n), "s7") for n in range(5)])
        await wire.result(new, {"sessionId": "s1"})
        await trio.testing.wait_all_tasks_blocked()
        await wire.burst(*[chunk(str(n)) for n in range(many)])
        await wire.burst(*[chunk(str(n), "s8") for n in range(many)])
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await trio.sleep(1)
        updates = session.updates()
        assert (updates.lost, len(updates)) == (10, many - 10)
        first: Any = await anext(updates)
        assert first.content.text == "10"
        # Two early ones were dropped, and three kept, which the later ones pushed out.
        assert agent.updates().lost == 2 + 3 + 10
        assert len(agent.updates()) == many - 10


async def test_early_updates_are_bounded_by_bytes_too(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_table, "EARLY_BYTES", 1000)

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.burst(*[chunk(str(n) * 400, "s1") for n in range(5)])
        await wire.result(new, {"sessionId": "s1"})

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        kept: Any = await anext(session.updates())
        assert kept.content.text == "4" * 400 or kept.content.text == "3" * 400
        assert agent.updates().lost >= 3


async def test_a_stream_of_updates_drops_by_bytes_keeps_the_newest_whole_and_has_one_reader(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stream: _buffers.UpdateStream[str] = _buffers.UpdateStream(max_items=10, max_bytes=100)
    assert aiter(stream) is stream
    stream.put("small", 10)
    stream.put("huge", 1000)
    assert (len(stream), stream.lost) == (1, 1)
    assert await anext(stream) == "huge"
    async with trio.open_nursery() as nursery:
        got: list[str] = []

        async def read() -> None:
            got.append(await anext(stream))

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await anext(stream)
        stream.put("next", 1)
    assert got == ["next"]
    stream.put("last", 1)
    stream.end()
    stream.put("after the end", 1)
    assert [item async for item in stream] == ["last"]


async def test_extension_calls_go_out_unchanged_and_protocol_methods_do_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """N1, O1"""

    async def script(wire: Wire) -> None:
        await wire.result(await wire.expect("_x/ask", a=1), [1, None])
        await wire.error(await wire.expect("_x/other"), -32601)
        message = await wire.expect("_x/tell", b=2)
        assert "id" not in message
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        assert await agent.request("_x/ask", {"a": 1}) == [1, None]
        with pytest.raises(MethodNotFound):
            await agent.request("_x/other")
        await agent.notify("_x/tell", {"b": 2})
        with pytest.raises(LocalProtocolError, match="underscore"):
            await agent.request("session/prompt", {})
        with pytest.raises(LocalProtocolError, match="underscore"):
            await agent.notify("session/cancel", {})


async def test_what_the_agent_says_of_itself_is_there(autojump_clock: trio.testing.MockClock) -> None:
    """I2"""
    info = {"name": "demo", "version": "1"}
    async with Scene(agentInfo=info, _meta={"x": 1}) as (agent, _wire):
        assert agent.info is not None
        assert (agent.info.name, agent.protocol_version, agent.meta) == ("demo", 1, {"x": 1})
        assert agent.capabilities.load_session
        assert "demo" in repr(agent)
        assert not agent.closed
    assert agent.closed
    assert isinstance(agent.closed_reason, ConnectionClosed)
    async with Scene(capabilities={}) as (agent, _wire):
        assert agent.info is None
        assert "unnamed" in repr(agent)


async def test_a_session_is_busy_while_an_abandoned_turn_is_not_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(100)
        await wire.end(prompt, "cancelled")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turn.cancel()
        assert turn.abandoned
        assert session.busy
        with pytest.raises(SessionBusy, match="abandoned"):
            async with session.prompt("y"):
                pass  # pragma: no cover  (entering fails)
        await trio.sleep(100)
        assert not session.busy

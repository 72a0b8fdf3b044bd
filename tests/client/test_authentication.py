"""Logging in when the agent asks for it, and only then (U1 to U3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import EVERYTHING, Scene, Wire
from trio_acp import (
    AcpOptions,
    AuthRequired,
    ConnectedAgent,
    InternalError,
    LocalProtocolError,
    connect_acp,
    open_memory_pair,
)
from trio_acp.agent import AgentApp
from trio_acp.client import AuthChooser, TerminalLogin
from trio_acp.schema import AuthMethod, AuthMethodAgent
from trio_acp.testing import cancel_at_every_checkpoint

METHODS = [
    {"id": "key", "name": "API key"},
    {"id": "tty", "name": "At the terminal", "type": "terminal", "args": ["login"], "env": {"A": "b"}},
    {"id": "nose", "name": "Nose", "type": "biometric"},
]


async def refuse(wire: Wire, method: str = "session/new") -> None:
    await wire.error(await wire.expect(method), -32000, "who are you", {"more": 1})


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/list"])
async def test_a_refused_call_logs_in_as_chosen_and_is_made_once_more(
    autojump_clock: trio.testing.MockClock, method: str
) -> None:
    """U3"""

    async def script(wire: Wire) -> None:
        await refuse(wire, method)
        await wire.result(await wire.expect("authenticate", methodId="key"), None)
        request = await wire.expect(method)
        result: Any = {"sessionId": "s1"} if method == "session/new" else None
        await wire.result(request, {"sessions": []} if method == "session/list" else result)
        # Another refusal is the last word.
        for _ in range(2):
            await refuse(wire, method)
            if _ == 0:
                await wire.result(await wire.expect("authenticate"), {})
        await wire.quiet()

    async def call(agent: ConnectedAgent) -> None:
        if method == "session/new":
            await agent.new_session()
        elif method == "session/load":
            await agent.load_session("s2")
        elif method == "session/resume":
            await agent.resume_session("s2")
        else:
            assert [one async for one in agent.list_sessions()] == []

    async with Scene(script, AcpOptions(auth="key"), authMethods=METHODS) as (agent, _wire):
        await call(agent)
        with pytest.raises(AuthRequired, match="who are you") as caught:
            await call(agent)
        assert caught.value.data == {"more": 1}


async def test_a_handler_picks_from_what_there_is_or_leaves_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    picks: list[Any] = ["key", None, "tty", "nose"]
    offered: list[Sequence[AuthMethod]] = []

    async def pick(methods: Sequence[AuthMethod]) -> str | None:
        offered.append(methods)
        await trio.lowlevel.checkpoint()
        choice: str | None = picks.pop(0)
        return choice

    async def script(wire: Wire) -> None:
        await refuse(wire)
        await wire.result(await wire.expect("authenticate", methodId="key"), None)
        await wire.new_session()
        for _ in range(3):
            await refuse(wire)
        await wire.quiet()

    async with Scene(script, AcpOptions(auth=pick), authMethods=METHODS) as (agent, _wire):
        await agent.new_session()
        assert len(offered[0]) == 3
        with pytest.raises(AuthRequired, match=r"'key' \(API key\), 'tty' \(At the terminal\)"):
            await agent.new_session()
        with pytest.raises(LocalProtocolError, match="auth_terminal"):
            await agent.new_session()
        with pytest.raises(LocalProtocolError, match="no method 'nose'"):
            await agent.new_session()


@pytest.mark.parametrize("methods", [METHODS, [], METHODS[2:]])
async def test_nothing_logs_in_unasked_and_the_error_names_the_ways(
    autojump_clock: trio.testing.MockClock, methods: list[Any]
) -> None:
    """U3"""

    async def script(wire: Wire) -> None:
        await refuse(wire)
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.error(prompt, -32000, "who are you")
        await wire.quiet()

    async with Scene(script, authMethods=methods) as (agent, _wire):
        with pytest.raises(AuthRequired) as caught:
            await agent.new_session()
        ways = "'key' (API key), 'tty' (At the terminal)" if methods is METHODS else "own program"
        assert "who are you" in str(caught.value)
        assert ways in str(caught.value)
        assert (caught.value.code, caught.value.data) == (-32000, {"more": 1})
        session = await agent.new_session()
        # A prompt is never sent twice.
        with pytest.raises(AuthRequired):
            async with session.prompt("x"):
                pass


async def test_one_login_does_for_all_calls_that_were_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        requests = [await wire.expect("session/new") for _ in range(3)]
        for request in requests:
            await wire.error(request, -32000)
        login = await wire.expect("authenticate")
        await wire.quiet()
        await wire.result(login, None)
        for n in range(3):
            await wire.new_session(f"s{n}")
        await wire.quiet()

    async with Scene(script, AcpOptions(auth="key"), authMethods=METHODS) as (agent, _wire):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(agent.new_session)
        assert sorted(agent.sessions) == ["s0", "s1", "s2"]


async def test_a_login_that_fails_or_is_cancelled_is_tried_again_by_the_next_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await refuse(wire)
        await wire.error(await wire.expect("authenticate"), -32603, "no network")
        await refuse(wire)
        login = await wire.expect("authenticate")
        await wire.expect("$/cancel_request", requestId=login["id"])
        await wire.error(login, -32800)
        await refuse(wire)
        await wire.result(await wire.expect("authenticate"), None)
        await wire.new_session()

    async with Scene(script, AcpOptions(auth="key"), authMethods=METHODS) as (agent, _wire):
        with pytest.raises(InternalError, match="no network"):
            await agent.new_session()
        with trio.move_on_after(1) as scope:
            await agent.new_session()
        assert scope.cancelled_caught
        await agent.new_session()


async def run(login: TerminalLogin) -> int:
    raise AssertionError


async def pick(methods: Sequence[AuthMethod]) -> str | None:
    raise AssertionError


async def test_over_a_stream_nothing_is_run_or_restarted(autojump_clock: trio.testing.MockClock) -> None:
    """U2: there is no command to run again."""
    chooser: AuthChooser = pick
    options = AcpOptions(auth=chooser, auth_terminal=run, command="agent")
    async with Scene(Wire.quiet, options, authMethods=METHODS) as (agent, wire):
        with pytest.raises(LocalProtocolError, match="terminal method"):
            await agent.authenticate("tty")
        with pytest.raises(LocalProtocolError, match="connect again"):
            await agent.restart()
        assert await agent.wait_ready()
        assert wire.referee.sent[0]["params"]["clientCapabilities"]["auth"] == {"terminal": True}
    assert not await agent.wait_ready()


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        (AcpOptions(), False),
        (AcpOptions(command="x"), False),
        (AcpOptions(auth_terminal=run), False),
        (AcpOptions(command="x", auth_terminal=run), True),
    ],
)
def test_terminal_logins_are_advertised_where_they_can_be_run(options: AcpOptions, offered: bool) -> None:
    """I5, I7"""
    assert options.client_capabilities().auth.terminal is offered
    assert options.client_capabilities().terminal is False


async def test_a_restart_after_a_login_needs_a_process(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.introduce(EVERYTHING, authMethods=METHODS)
        await wire.result(await wire.expect("authenticate"), None)
        await wire.drain()

    ours, theirs = open_memory_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script, Wire(theirs))
        agent = await connect_acp(nursery, ours, AcpOptions(auth_restart=True))
        with pytest.raises(LocalProtocolError, match="restarted"):
            await agent.authenticate("key")
        await agent.aclose()
        theirs.close()


async def test_a_login_that_is_cancelled_at_any_checkpoint_leaves_nothing_and_touches_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """U3: the turn of another session goes on, the next call logs in, and no request stays open."""
    app, finish = AgentApp("a", "1", auth_methods=[AuthMethodAgent("key", "API key")]), trio.Event()
    known = True

    @app.on_authenticate
    async def authenticate() -> None:
        nonlocal known
        await trio.sleep(1)
        known = True

    @app.on_new_session
    async def new_session() -> None:
        if not known:
            raise AuthRequired("who are you")
        await trio.sleep(1)

    @app.on_close_session
    async def close_session(session_id: str) -> None:
        closed.add(session_id)

    @app.on_prompt
    async def prompt() -> str:
        await finish.wait()
        return "never disturbed"

    async def choose(methods: Sequence[AuthMethod]) -> str | None:
        await trio.sleep(1)
        return "key"

    closed = set[str]()
    async with trio.open_nursery() as nursery:
        options = AcpOptions(auth=choose)
        agent = await connect_acp(nursery, app.connect_in_memory(nursery), options)
        bystander = await agent.new_session()
        async with bystander.prompt("take your time") as turn:

            async def refused_call() -> None:
                nonlocal known
                known = False
                await agent.new_session()

            async def nothing_is_left() -> None:
                # What was withdrawn is answered all the same, and a session that came of it is closed.
                await trio.sleep(5)
                statistics = agent.statistics()
                assert (statistics.open_requests, statistics.open_agent_requests) == (1, 0)
                assert bystander.id in agent.sessions
                nonlocal known
                known = False
                await (await agent.new_session()).close()
                for session in agent.sessions.values():
                    if session.id != bystander.id:
                        await session.close()
                assert bystander.id not in closed
                assert turn.stop_reason is None

            assert await cancel_at_every_checkpoint(refused_call, check=nothing_is_left) >= 4
            finish.set()
        assert turn.text == "never disturbed"
        nursery.cancel_scope.cancel()

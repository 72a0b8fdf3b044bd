"""An agent that is started again in its block: after a login, or because somebody wants it (U2, M3, M4)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio

from tests.client_process.agents import Agents, is_running
from trio_acp import (
    AcpOptions,
    AgentExited,
    AgentStartError,
    AuthenticationFailed,
    AuthRequired,
    ConnectedAgent,
    ConnectionClosed,
    open_acp,
    run_in_terminal,
)
from trio_acp.client import TerminalLogin
from trio_acp.testing import cancel_at_every_checkpoint

KEYED = """
import os, pathlib

key = pathlib.Path({key!r})
if sys.argv[1:] == ["login"]:
    note("login " + os.environ["ASKED"] + " " + os.environ["OWN"])
    if os.environ["ASKED"] == "yes":
        key.write_text("in")
    sys.exit(0 if key.exists() else 3)

known = key.exists()
methods = [
    {{"id": "tty", "name": "T", "type": "terminal", "args": ["login"], "env": {{"ASKED": "yes"}}}},
    {{"id": "fail", "name": "F", "type": "terminal", "args": ["login"], "env": {{"ASKED": "no"}}}},
    {{"id": "key", "name": "K"}},
]
request = receive()
note("terminal " + str("auth" in request["params"]["clientCapabilities"]))
info = {{"name": "a", "version": str(known)}}
answer(request, {{"protocolVersion": 1, "authMethods": methods, "agentInfo": info}})
while (message := receive()) is not None:
    if message.get("method") == "session/new":
        if known:
            answer(message, {{"sessionId": "s"}})
        else:
            send(id=message["id"], error={{"code": -32000, "message": "log in"}})
    elif message.get("method") == "session/prompt":
        polite_turn(message)
    elif message.get("method") == "authenticate":
        key.write_text("in")
        answer(message, None)
"""


def keyed(agents: Agents, head: str = "", **options: Any) -> AcpOptions:
    body = head + KEYED.format(key=str(agents.folder / "key"))
    return agents.options(body, env={"OWN": "mine"}, **options)


async def test_a_terminal_login_runs_the_agents_command_and_connects_again(agents: Agents) -> None:
    """U2"""
    logins: list[TerminalLogin] = []

    async def run(login: TerminalLogin) -> int:
        logins.append(login)
        return await run_in_terminal(login)

    options = keyed(agents, auth="tty", auth_terminal=run)
    with trio.fail_after(30):
        async with open_acp(options) as agent:
            assert repr(agent) == "<ConnectedAgent a False>"
            session = await agent.new_session()
            assert repr(agent) == "<ConnectedAgent a True>"
            async with session.prompt("x") as turn:
                pass
            assert turn.text == "hello"
    (login,) = logins
    assert login.command == (options.command, *options.args, "login")
    assert (login.cwd, login.method.id) == (options.cwd, "tty")
    assert (login.env["ASKED"], login.env["OWN"]) == ("yes", "mine")
    assert "mine" not in repr(login)
    assert agents.seen == [
        *["initialize", "terminal True", "session/new", "login yes mine", "eof"],
        *["initialize", "terminal True", "session/new", "session/prompt", "eof"],
    ]


async def test_a_terminal_login_that_fails_leaves_the_agent_as_it_is(agents: Agents) -> None:
    options = keyed(agents, auth="fail", auth_terminal=run_in_terminal)
    with trio.fail_after(30):
        async with open_acp(options) as agent:
            with pytest.raises(AuthenticationFailed) as caught:
                await agent.new_session()
            assert (caught.value.method_id, caught.value.status) == ("fail", 3)
            assert not agent.closed
            await agent.authenticate("tty")
            await agent.new_session()


@pytest.mark.parametrize("restart", [False, True])
async def test_an_agent_that_looks_at_its_login_only_at_its_start_is_restarted_if_asked(
    agents: Agents, restart: bool
) -> None:
    """M3"""
    with trio.fail_after(30):
        async with open_acp(keyed(agents, auth="key", auth_restart=restart)) as agent:
            if restart:
                await agent.new_session()
            else:
                with pytest.raises(AuthRequired):
                    await agent.new_session()
    assert agents.seen.count("initialize") == 1 + restart


SERVE = """
note("pid " + str(os.getpid()))
def prompt(request):
    if "die" in json.dumps(request):
        os._exit(7)
    polite_turn(request)
serve(prompt)
"""


def pids(agents: Agents) -> list[int]:
    return [int(line.split()[1]) for line in agents.seen if line.startswith("pid ")]


async def ask(agent: ConnectedAgent, text: str) -> str:
    session = await agent.new_session()
    async with session.prompt(text) as turn:
        await turn.wait()
    return turn.text


async def test_an_agent_can_be_restarted_also_when_it_has_died(agents: Agents) -> None:
    with trio.fail_after(30):
        async with open_acp(agents.options("import os\n" + SERVE)) as agent:
            session = await agent.new_session()
            assert await agent.generate("one") == "hello"
            await agent.restart()
            first, second = pids(agents)
            assert (is_running(first), is_running(second)) == (False, True)
            assert (agent.closed, dict(agent.sessions)) == (False, {})
            with pytest.raises(ConnectionClosed):
                async with session.prompt("x"):
                    pass  # pragma: no cover  (entering fails)
            assert await agent.generate("two") == "hello"
            with pytest.raises(AgentExited):
                await ask(agent, "die")
            assert isinstance(await agent.wait_lost(), AgentExited)
            await agent.restart()
            assert await ask(agent, "three") == "hello"
            assert await agent.wait_ready()
    assert [is_running(pid) for pid in pids(agents)] == [False] * 3


async def test_whoever_waits_for_the_loss_does_not_take_a_restart_for_it(agents: Agents) -> None:
    lost: list[Any] = []

    async def watch(agent: ConnectedAgent) -> None:
        lost.append(await agent.wait_lost())

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, open_acp(agents.options("import os\n" + SERVE)) as agent:
            nursery.start_soon(watch, agent)
            async with trio.open_nursery() as restarts:
                restarts.start_soon(agent.restart)
                restarts.start_soon(agent.restart)
            assert (lost, len(pids(agents))) == ([], 3)
            with pytest.raises(AgentExited):
                await ask(agent, "die")
    assert isinstance(lost[0], AgentExited)


async def test_a_restart_that_fails_leaves_the_agent_closed_until_the_next(agents: Agents) -> None:
    flag = agents.folder / "broken"
    body = f"import os\nif os.path.exists({str(flag)!r}): sys.exit(9)\n" + SERVE
    with trio.fail_after(30):
        async with open_acp(agents.options(body)) as agent:
            flag.touch()
            with pytest.raises(AgentStartError) as caught:
                await agent.restart()
            assert caught.value.returncode == 9
            assert agent.closed
            with pytest.raises(ConnectionClosed):
                await agent.new_session()
            flag.unlink()
            await agent.restart()
            assert await ask(agent, "x") == "hello"


async def test_a_restart_that_cannot_even_start_a_process_can_be_tried_again(agents: Agents) -> None:
    command, *args = agents.write("import os\n" + SERVE)
    cwd = agents.folder / "cwd"
    cwd.mkdir()
    with trio.fail_after(30):
        async with open_acp(AcpOptions(command=command, args=args, cwd=str(cwd))) as agent:
            cwd.rmdir()
            for _ in range(2):
                with pytest.raises(AgentStartError) as caught:
                    await agent.restart()
                assert caught.value.reason == "bad-cwd"
            cwd.mkdir()
            await agent.restart()
            assert await ask(agent, "x") == "hello"


async def test_a_restart_can_be_cancelled_at_any_time_and_nothing_is_left_running(agents: Agents) -> None:
    body = "import os, time\n" + SERVE
    options = agents.options(body)
    with trio.fail_after(50):
        for seconds in (0, 0.005, 0.02, 0.05, 0.1, 0.2):
            async with open_acp(options) as agent:
                with trio.move_on_after(seconds) as scope:
                    await agent.restart()
                assert scope.cancelled_caught or not agent.closed
                running = [pid for pid in pids(agents) if is_running(pid)]
                assert len(running) <= (0 if agent.closed else 1)
                await agent.restart()
                assert await ask(agent, "x") == "hello"
    assert not any(is_running(pid) for pid in pids(agents))


@pytest.mark.parametrize(
    "options", [{"auth": "tty", "auth_terminal": run_in_terminal}, {"auth": "key", "auth_restart": True}]
)
async def test_a_login_that_is_cancelled_at_any_checkpoint_leaves_no_process_behind(
    agents: Agents, options: dict[str, Any]
) -> None:
    """U2, M3: and the next one can be made."""
    head = "import os\nnote('pid ' + str(os.getpid()))\n"
    async with open_acp(keyed(agents, head, **options)) as agent:

        async def only_the_agent_is_left() -> None:
            running = [pid for pid in pids(agents) if is_running(pid)]
            assert len(running) == (0 if agent.closed else 1)
            # One that was just asked to log in may still do so until it ends.
            await agent.restart()
            agents.forget()
            (agents.folder / "key").unlink(missing_ok=True)
            await agent.restart()
            assert repr(agent) == "<ConnectedAgent a False>"

        assert await cancel_at_every_checkpoint(agent.new_session, check=only_the_agent_is_left) >= 4
        await agent.new_session()
        assert repr(agent) == "<ConnectedAgent a True>"
    assert not any(is_running(pid) for pid in pids(agents))


async def test_a_restart_outside_of_the_block_is_refused(agents: Agents) -> None:
    with trio.fail_after(30):
        async with open_acp(agents.options("import os\n" + SERVE)) as agent:
            pass
        with pytest.raises(ConnectionClosed, match="left"):
            await agent.restart()
    assert len(pids(agents)) == 1


async def test_a_block_that_is_left_during_a_restart_leaves_nothing_running(agents: Agents) -> None:
    outcomes: list[Any] = []

    async def restart(agent: ConnectedAgent) -> None:
        try:
            await agent.restart()
        except (ConnectionClosed, AgentStartError) as error:
            outcomes.append(type(error))

    with trio.fail_after(50):
        for steps in range(0, 24, 3):
            async with trio.open_nursery() as nursery:
                async with open_acp(agents.options("import os\n" + SERVE)) as agent:
                    nursery.start_soon(restart, agent)
                    for _ in range(steps):
                        await trio.sleep(0.01)
    assert outcomes
    assert not any(is_running(pid) for pid in pids(agents))


async def test_what_callbacks_raised_before_a_restart_still_leaves_the_block(agents: Agents) -> None:
    class Mine(Exception):
        pass

    calls: list[Any] = []
    called = trio.Event()

    def on_update(params: Any) -> None:
        calls.append(params)
        called.set()
        raise Mine(len(calls))

    body = """
    import os
    initialize()
    while (message := receive()) is not None:
        update("nobody", "x")
    """
    with trio.fail_after(30):
        with pytest.raises(Mine) as caught:
            async with open_acp(agents.options(body, on_update=on_update)) as agent:
                with trio.CancelScope(shield=True):
                    await agent.notify("_x/go")
                    await called.wait()
                    # The block is being left: nothing can live in it any more.
                    with pytest.raises(AgentStartError):
                        await agent.restart()
                await trio.sleep_forever()
    assert caught.value.args == (1,)


async def test_the_stderr_of_a_restarted_agent_is_told_too(agents: Agents) -> None:
    class Mine(Exception):
        pass

    lines: list[str] = []

    def on_stderr(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            raise Mine

    body = "print('here', file=sys.stderr, flush=True)\nimport os\n" + SERVE
    with trio.fail_after(30):
        with pytest.raises(Mine):
            async with open_acp(agents.options(body, on_stderr=on_stderr)) as agent:
                await agent.restart()
                await trio.sleep_forever()
    assert lines == ["here", "here"]
    assert sys.version_info >= (3, 11)

"""The hooks of the options around a real process, and the environment that it gets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
import trio

from tests.client_process.agents import Agents
from trio_acp._errors import AgentExited, AgentStartError
from trio_acp.client import AcpOptions, open_acp
from trio_acp.schema import EnvVariable, McpServerStdio


class Mine(Exception):
    """An exception that only a hook of these tests raises."""


@contextlib.asynccontextmanager
async def leaves_as_itself(kind: type[BaseException] = Mine) -> AsyncGenerator[None]:
    """The block must raise one plain exception of that kind."""
    with trio.fail_after(30):
        with pytest.raises(kind) as caught:
            yield
    assert type(caught.value) is kind


# on_stderr ------------------------------------------------------------------------------------------------


async def test_on_stderr_gets_each_line_as_it_comes(agents: Agents) -> None:
    lines: list[str] = []
    body = """
        print("one", file=sys.stderr); print("two \\u2713", file=sys.stderr, flush=True)
        sys.stderr.write("no end")
        serve(polite_turn)
        """
    with trio.fail_after(30):
        async with open_acp(
            agents.options(body, on_stderr=lines.append, env={"PYTHONIOENCODING": "utf-8"})
        ) as agent:
            assert await agent.generate("hi") == "hello"
    assert lines == ["one", "two ✓", "no end"]


@pytest.mark.parametrize("kind", [Mine, KeyboardInterrupt])
async def test_what_on_stderr_raises_between_turns_leaves_the_block(
    agents: Agents, kind: type[BaseException]
) -> None:
    def fail(line: str) -> None:
        raise kind

    async with leaves_as_itself(kind):
        body = "initialize(); receive(); print('x', file=sys.stderr, flush=True); receive()"
        async with open_acp(agents.options(body, on_stderr=fail)) as agent:
            await agent.notify("_speak")
            await trio.sleep_forever()


async def test_what_on_stderr_raises_in_a_turn_ends_it_and_leaves_the_block(agents: Agents) -> None:
    """The log of an agent belongs to no turn: the whole block ends, and the agent is told."""

    def fail(line: str) -> None:
        raise Mine

    body = """
        def talk(request):
            print("x", file=sys.stderr, flush=True)
            until_cancelled(request)
        serve(talk)
        """
    async with leaves_as_itself():
        async with open_acp(agents.options(body, on_stderr=fail)) as agent:
            session = await agent.new_session()
            async with session.prompt("go"):
                await trio.sleep_forever()
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


async def test_what_on_stderr_raises_during_the_start_ends_the_start(agents: Agents) -> None:
    def fail(line: str) -> None:
        raise Mine

    async with leaves_as_itself():
        async with open_acp(agents.options("print('x', file=sys.stderr); sys.stdin.read()", on_stderr=fail)):
            raise AssertionError("handed out")


async def test_what_on_stderr_raises_before_there_is_a_connection_is_not_lost(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A very fast agent speaks while the start is still under way."""
    calls: list[str] = []

    def fail(line: str) -> None:
        calls.append(line)
        raise Mine(line)

    block = open_acp(agents.options("initialize(); receive()", on_stderr=fail))
    original = trio.lowlevel.open_process

    async def and_it_speaks(*args: Any, **kwargs: Any) -> trio.Process:
        process = await original(*args, **kwargs)
        block._stderr_line("first")
        block._stderr_line("second")
        return process

    monkeypatch.setattr(trio.lowlevel, "open_process", and_it_speaks)
    with pytest.raises(Mine, match="first"):
        async with block:
            raise AssertionError("handed out")
    assert calls == ["first", "second"]


# on_update ------------------------------------------------------------------------------------------------


async def test_what_on_update_raises_in_a_turn_leaves_the_turn_and_the_agent_stays_usable(
    agents: Agents,
) -> None:
    failures = iter([Mine])

    def fail_once(params: dict[str, Any]) -> None:
        for failure in failures:
            raise failure

    body = "serve(lambda r: until_cancelled(r) if 'stay' in json.dumps(r) else polite_turn(r))"
    with trio.fail_after(30):
        async with open_acp(agents.options(body, on_update=fail_once)) as agent:
            session = await agent.new_session()
            with pytest.raises(Mine):
                async with session.prompt("stay"):
                    await trio.sleep_forever()
            async with session.prompt("again") as turn:
                pass
            assert turn.text == "hello"


async def test_what_on_update_raises_outside_of_any_turn_leaves_the_block(agents: Agents) -> None:
    def fail(params: dict[str, Any]) -> None:
        raise Mine

    body = "initialize(); new_session(); update('s', 'unasked'); receive()"
    async with leaves_as_itself():
        async with open_acp(agents.options(body, on_update=fail)) as agent:
            await agent.new_session()
            await trio.sleep_forever()


# on_wire --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["initialize", "session/new", "session/prompt", "session/cancel"])
async def test_what_on_wire_raises_leaves_the_block_whenever_it_is(agents: Agents, method: str) -> None:
    def fail(direction: str, message: Any) -> None:
        if message.get("method") == method:
            raise Mine

    async with leaves_as_itself():
        async with open_acp(agents.options("serve(until_cancelled)", on_wire=fail)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                async for _ in turn:
                    turn.cancel()


async def test_on_wire_sees_both_directions_in_order_with_the_secrets_masked(agents: Agents) -> None:
    seen: list[tuple[str, Any]] = []

    def tap(direction: str, message: Any) -> None:
        seen.append((direction, message))

    server = McpServerStdio("files", "server", args=[], env=[EnvVariable("TOKEN", "hunter2")])
    with trio.fail_after(30):
        async with open_acp(agents.options("serve(polite_turn)", on_wire=tap)) as agent:
            session = await agent.new_session(mcp_servers=[server])
            async with session.prompt("go"):
                pass
    assert [(direction, message.get("method", "answer")) for direction, message in seen] == [
        ("sent", "initialize"),
        ("received", "answer"),
        ("sent", "session/new"),
        ("received", "answer"),
        ("sent", "session/prompt"),
        ("received", "session/update"),
        ("received", "answer"),
    ]
    assert "hunter2" not in repr(seen)
    assert "TOKEN" in repr(seen)


# Several at once --------------------------------------------------------------------------------------------


async def test_the_body_and_a_hook_that_fail_together_leave_as_a_group_of_two(agents: Agents) -> None:
    class Body(Exception):
        pass

    def fail(params: dict[str, Any]) -> None:
        raise Mine

    body = "initialize(); new_session(); update('s', 'unasked'); receive()"
    with trio.fail_after(30), pytest.RaisesGroup(Body, Mine) as caught:
        async with open_acp(agents.options(body, on_update=fail)) as agent:
            await agent.new_session()
            try:
                await trio.sleep_forever()
            finally:
                raise Body
    assert [type(one) for one in caught.value.exceptions] == [Body, Mine]


async def test_a_failed_hook_is_reported_rather_than_the_start_that_failed_with_it(
    agents: Agents,
) -> None:
    def fail(direction: str, message: Any) -> None:
        raise Mine

    with trio.fail_after(30), pytest.raises(Mine):
        async with open_acp(agents.options("sys.exit(1)", on_wire=fail)):
            raise AssertionError("handed out")


# The environment --------------------------------------------------------------------------------------------


@pytest.fixture
def environment_of(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Start an agent with some options and return the environment that it found."""
    monkeypatch.setenv("ACP_TEST_ONE", "1")
    monkeypatch.setenv("ACP_TEST_TWO", "2")
    body = "initialize(_meta={'environment': dict(os.environ)}); receive()"

    async def start(**options: Any) -> dict[str, str]:
        with trio.fail_after(30):
            async with open_acp(agents.options(body, **options)) as agent:
                pass
        assert agent.meta is not None
        found: dict[str, str] = agent.meta["environment"]
        return found

    return start


async def test_the_environment_is_inherited_with_the_overlay_on_top(
    environment_of: Callable[..., Any],
) -> None:
    found = await environment_of(env={"ACP_TEST_TWO": "22", "ACP_TEST_THREE": "3"})
    assert (found["ACP_TEST_ONE"], found["ACP_TEST_TWO"], found["ACP_TEST_THREE"]) == ("1", "22", "3")
    assert "PATH" in found


async def test_a_value_of_none_removes_a_variable(environment_of: Callable[..., Any]) -> None:
    found = await environment_of(env={"ACP_TEST_ONE": None})
    assert "ACP_TEST_ONE" not in found
    assert found["ACP_TEST_TWO"] == "2"


async def test_an_exact_environment_has_nothing_else(environment_of: Callable[..., Any]) -> None:
    found = await environment_of(inherit_env=False, env={"ACP_TEST_THREE": "3"})
    assert set(found) - {"LC_CTYPE"} == {"ACP_TEST_THREE"}  # Python itself may set LC_CTYPE


async def test_a_list_of_names_inherits_those_only(environment_of: Callable[..., Any]) -> None:
    found = await environment_of(inherit_env=["ACP_TEST_ONE", "ACP_TEST_NONE"], env={"ACP_TEST_THREE": "3"})
    assert set(found) - {"LC_CTYPE"} == {"ACP_TEST_ONE", "ACP_TEST_THREE"}


async def test_an_agent_is_looked_up_in_the_path_that_it_gets(agents: Agents) -> None:
    python, *args = agents.write("serve(polite_turn)")
    (agents.folder / "bin").mkdir()
    (agents.folder / "bin" / "my-agent").symlink_to(python)

    def options(path: str) -> AcpOptions:
        return AcpOptions(command="my-agent", args=args, env={"PATH": path})

    with trio.fail_after(30):
        async with open_acp(options(str(agents.folder / "bin"))) as agent:
            assert await agent.generate("hi") == "hello"
        with pytest.raises(AgentStartError, match="PATH of the agent's environment"):
            async with open_acp(options("/nowhere")):
                raise AssertionError("handed out")


# Two agents at once -----------------------------------------------------------------------------------------


async def test_agents_next_to_each_other_do_not_touch_each_other(agents: Agents) -> None:
    """The end of one is nothing to the other."""
    options = agents.options("serve(lambda r: sys.exit(1) if 'die' in json.dumps(r) else polite_turn(r))")
    with trio.fail_after(30):
        async with open_acp(options) as one, open_acp(options) as two, open_acp(options) as three:
            assert await one.generate("hi") == "hello"
            with pytest.raises(AgentExited):
                await one.generate("die")
            assert await two.generate("hi") == "hello"
            await two.aclose()
            assert await three.generate("hi") == "hello"
            assert (one.closed, two.closed, three.closed) == (True, True, False)

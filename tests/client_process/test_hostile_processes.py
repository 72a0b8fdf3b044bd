"""Processes that do what no agent should: every wait of ours is bounded, and what is theirs is ended."""

from __future__ import annotations

import math

import pytest
import trio

from tests.client_process.agents import Agents, elapsed_since
from tests.transports.agents import Lives
from trio_acp._errors import AgentExited, PermissionTimeout
from trio_acp.client import Cancelled, PermissionRequest, open_acp
from trio_acp.schema import StopReason

ASKS = """
def ask(request):
    send(id=0, method="session/request_permission", params={"sessionId": "s", "toolCall": {"toolCallId": "t"},
         "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]})
"""


async def test_an_agent_that_stops_reading_can_be_cancelled_and_closed(agents: Agents) -> None:
    """The prompt does not fit the pipe, nor does session/cancel then: graces, then signals."""
    body = """
        initialize(); new_session(); report("agent")
        sleep_for_ever()
        """
    async with Lives() as lives:
        options = agents.options(body, lives, cancel_grace=0.3, shutdown_grace=0.2)
        with trio.fail_after(30):
            async with open_acp(options) as agent:
                session = await agent.new_session()
                await lives.born("agent")
                start = trio.current_time()
                async with session.prompt("x" * 5_000_000) as turn:
                    turn.cancel()
                assert turn.abandoned
                assert agent.statistics().outbox_bytes > 1_000_000
            assert elapsed_since(start) < 5
        await lives.dead("agent")


async def test_an_agent_that_never_stops_writing_can_be_closed(agents: Agents) -> None:
    body = """
        initialize(); new_session(); report("agent")
        while True:
            update("s", "and another thing, ")
        """
    async with Lives() as lives:
        options = agents.options(body, lives, shutdown_grace=0.2)
        with trio.fail_after(30):
            async with open_acp(options) as agent:
                await agent.new_session()
                await lives.born("agent")
                start = trio.current_time()
            assert elapsed_since(start) < 5
        await lives.dead("agent")


async def test_a_turn_that_floods_can_be_stopped(agents: Agents) -> None:
    """The stop button goes out while reading may be paused for its consumer, and the rest is read."""
    body = """
        import select
        def flood(request):
            while not select.select([sys.stdin], [], [], 0)[0]:
                for _ in range(100):
                    update("s", "x" * 1000)
            assert receive()["method"] == "session/cancel"
            answer(request, {"stopReason": "cancelled"})
        serve(flood)
        """
    with trio.fail_after(30):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                async for _ in turn:
                    turn.cancel()
            assert turn.stop_reason is StopReason.CANCELLED
    assert agents.seen[-2:] == ["session/cancel", "eof"]


async def test_a_helper_in_a_session_of_its_own_that_holds_the_pipes_holds_up_nothing(agents: Agents) -> None:
    """It cannot be found to be killed; the exit of the agent counts, for the error and for the close."""
    body = """
        if not os.fork():
            os.setsid()
            report("escaped")
            kept[0].recv(1)  # until the test is over
            os._exit(0)
        report("agent")
        initialize(); receive()
        os._exit(3)
        """
    with trio.fail_after(30):
        async with Lives() as lives:
            start = trio.current_time()
            async with open_acp(agents.options(body, lives, shutdown_grace=10)) as agent:
                await lives.born("agent", "escaped")
                with pytest.raises(AgentExited) as caught:
                    await agent.new_session()
            assert elapsed_since(start) < 8
            await lives.dead("agent")
    assert caught.value.returncode == 3


async def test_a_stopped_process_is_killed(agents: Agents) -> None:
    """SIGSTOP: it can neither read nor act on SIGTERM."""
    body = """
        report("agent")
        initialize()
        os.kill(os.getpid(), signal.SIGSTOP)
        """
    async with Lives() as lives:
        with trio.fail_after(30):
            async with open_acp(agents.options(body, lives, shutdown_grace=0.2)):
                await lives.born("agent")
                start = trio.current_time()
            assert elapsed_since(start) < 5
        await lives.dead("agent")


async def test_the_death_of_the_agent_ends_an_open_permission_request(agents: Agents) -> None:
    ended: list[str] = []

    async def never(request: PermissionRequest) -> Cancelled:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("handler")
        raise AssertionError

    body = ASKS + "def die(request): ask(request); sys.exit(9)\nserve(die)"
    with trio.fail_after(30):
        async with open_acp(agents.options(body, on_permission=never, permission_timeout=math.inf)) as agent:
            session = await agent.new_session()
            with pytest.raises(AgentExited) as caught:
                async with session.prompt("go"):
                    pass
            assert ended == ["handler"]
    assert caught.value.returncode == 9


async def test_a_decision_that_takes_too_long_is_told_to_the_agent(agents: Agents) -> None:
    """`cancelled` and session/cancel; the agent's answer is read, then the error leaves the block."""

    async def never(request: PermissionRequest) -> Cancelled:
        await trio.sleep_forever()
        raise AssertionError

    body = (
        ASKS
        + """
def wait(request):
    ask(request)
    for _ in range(2):
        message = receive()
        if "result" in message:
            note(message["result"]["outcome"]["outcome"])
    answer(request, {"stopReason": "cancelled"})
serve(wait)
"""
    )
    with trio.fail_after(30):
        async with open_acp(agents.options(body, on_permission=never, permission_timeout=0.1)) as agent:
            session = await agent.new_session()
            with pytest.raises(PermissionTimeout):
                async with session.prompt("go") as turn:
                    await trio.sleep_forever()
            assert turn.stop_reason is StopReason.CANCELLED
    assert sorted(agents.seen[3:]) == ["answer", "cancelled", "eof", "session/cancel"]


async def test_what_a_hook_raises_while_the_block_closes_leaves_it_too(agents: Agents) -> None:
    class Mine(Exception):
        pass

    def fail(line: str) -> None:
        raise Mine(line)

    body = "serve(polite_turn)\nprint('bye', file=sys.stderr, flush=True)"
    with trio.fail_after(30), pytest.raises(Mine, match="bye"):
        async with open_acp(agents.options(body, on_stderr=fail)) as agent:
            assert await agent.generate("hi") == "hello"


async def test_there_may_be_no_time_limit_for_the_start(agents: Agents) -> None:
    with trio.fail_after(30):
        async with open_acp(agents.options("serve(polite_turn)", startup_timeout=math.inf)) as agent:
            assert await agent.generate("hi") == "hello"


async def test_many_agents_start_and_end_at_the_same_time(agents: Agents) -> None:
    options = agents.options("serve(polite_turn)")
    answers: list[str] = []

    async def use() -> None:
        async with open_acp(options) as agent:
            answers.append(await agent.generate("hi"))

    with trio.fail_after(50):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(use)
    assert answers == ["hello"] * 20

"""The agent's process ends, by itself or by us: who hears of it, and what is left (W11)."""

from __future__ import annotations

import signal

import pytest
import trio
import trio.testing

from tests.client_process.agents import Agents, elapsed_since
from tests.transports.agents import Lives
from trio_acp._errors import AgentExited, ConnectionClosed, ConnectionLost
from trio_acp.client import Turn, open_acp
from trio_acp.schema import StopReason

# The agent dies --------------------------------------------------------------------------------------------

DIES_IN_THE_TURN = """
def die(request):
    update("s", "so far")
    print("out of memory", file=sys.stderr, flush=True)
    {how}
serve(die)
"""


@pytest.mark.parametrize(
    ("how", "returncode", "words"),
    [
        ("sys.exit(4)", 4, "exited with status 4"),
        ("os._exit(0)", 0, "exited with status 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "was ended by signal 9"),
    ],
)
async def test_the_death_of_the_agent_in_a_turn_ends_the_turn_and_not_the_block(
    agents: Agents, how: str, returncode: int, words: str
) -> None:
    """W11: what came before is delivered, the iteration raises, the body goes on, the next call raises."""
    texts: list[str] = []
    with trio.fail_after(30):
        async with open_acp(agents.options(DIES_IN_THE_TURN.format(how=how))) as agent:
            session = await agent.new_session()
            with pytest.raises(AgentExited) as caught:
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        texts.append(turn.text)
            await trio.lowlevel.checkpoint()  # the body of open_acp is not cancelled
            with pytest.raises(AgentExited) as again:
                await agent.new_session()
            with pytest.raises(AgentExited):
                async with session.prompt("once more"):
                    raise AssertionError("entered")
            assert agent.closed
            assert isinstance(await agent.wait_lost(), AgentExited)
    assert texts == ["so far"]
    for error in (caught.value, again.value):
        assert (error.returncode, error.phase, error.stderr) == (returncode, "running", "out of memory\n")
        assert words in str(error)
        assert "open a new connection" in str(error)
        assert "out of memory" in str(error)


async def test_the_death_of_the_agent_between_turns_fails_the_next_call_and_not_the_block(
    agents: Agents,
) -> None:
    body = "initialize(); new_session(); receive(); sys.exit(5)"
    with trio.fail_after(30):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            await agent.notify("_die")
            reason = await agent.wait_lost()
            assert isinstance(reason, AgentExited)
            assert reason.returncode == 5
            with pytest.raises(AgentExited):
                async with session.prompt("hello"):
                    raise AssertionError("entered")


async def test_a_whole_answer_before_the_death_counts(agents: Agents) -> None:
    """What the agent wrote before it died is read, and a finished turn is a finished turn."""
    with trio.fail_after(30):
        async with open_acp(agents.options("serve(lambda r: (polite_turn(r), sys.exit(1)))")) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                pass
            assert turn.text == "hello"
            with pytest.raises(AgentExited):
                await agent.generate("more")


async def test_an_agent_that_closes_its_stdout_only_is_lost_without_a_status(agents: Agents) -> None:
    body = "initialize(); receive(); os.close(1); sys.stdin.read()"
    with trio.fail_after(30):
        async with open_acp(agents.options(body)) as agent:
            with pytest.raises(ConnectionLost, match="closed its stdout but has not exited") as caught:
                await agent.new_session()
    assert not isinstance(caught.value, AgentExited)


async def test_an_agent_that_dies_under_a_large_prompt_is_reported_as_dead(agents: Agents) -> None:
    """The writer fails first: the status is worth waiting for."""
    body = "initialize(); new_session(); sys.exit(6)"
    with trio.fail_after(30):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            with pytest.raises(AgentExited) as caught:
                async with session.prompt("x" * 5_000_000) as turn:
                    await turn.wait()
    assert caught.value.returncode == 6


async def test_a_body_that_ends_after_the_death_ends_as_usual(agents: Agents) -> None:
    with trio.fail_after(30):
        async with open_acp(agents.options("initialize(); sys.exit(7)")) as agent:
            await agent.wait_lost()


# Closing ---------------------------------------------------------------------------------------------------


async def test_a_polite_agent_ends_by_the_end_of_its_input(agents: Agents) -> None:
    """Closing waits for it, and no signal is sent."""
    body = "signal.signal(signal.SIGTERM, lambda *_: note('sigterm')); serve(polite_turn); note('bye')"
    start = trio.current_time()
    with trio.fail_after(30):
        async with open_acp(agents.options(body, shutdown_grace=20)) as agent:
            assert await agent.generate("hi") == "hello"
    assert elapsed_since(start) < 15
    assert agents.seen == ["initialize", "session/new", "session/prompt", "eof", "bye"]
    with pytest.raises(ConnectionClosed):
        await agent.new_session()


async def test_closing_early_is_closing_and_the_block_may_end_later(agents: Agents) -> None:
    with trio.fail_after(30):
        async with open_acp(agents.options("serve(polite_turn)")) as agent:
            await agent.aclose()
            assert agents.seen == ["initialize", "eof"]
            with pytest.raises(ConnectionClosed):
                await agent.new_session()
            await agent.aclose()


async def test_closing_cancels_the_turns_and_waits_for_their_ends(agents: Agents) -> None:
    """The agent is told before its input ends, and its answer is still read."""
    with trio.fail_after(30):
        async with open_acp(agents.options("serve(until_cancelled)")) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                async for _ in turn:
                    await agent.aclose()
            assert turn.stop_reason == "cancelled"
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


IGNORES_ALL = """
signal.signal(signal.SIGTERM, lambda *_: note("sigterm"))
if not os.fork():
    report("helper")
    sleep_for_ever()
report("agent")
serve(polite_turn)
note("stays")
sleep_for_ever()
"""


async def test_an_agent_that_ignores_the_end_of_input_and_sigterm_is_killed_with_its_helpers(
    agents: Agents,
) -> None:
    """Each stage comes, in order, and is bounded by the grace."""
    async with Lives() as lives:
        with trio.fail_after(30):
            async with open_acp(agents.options(IGNORES_ALL, lives, shutdown_grace=0.2)) as agent:
                await lives.born("agent", "helper")
                assert await agent.generate("hi") == "hello"
                start = trio.current_time()
            took = elapsed_since(start)
        await lives.dead("agent", "helper")
    assert 0.4 <= took < 5
    assert agents.seen[:5] == ["initialize", "session/new", "session/prompt", "eof", "stays"]
    assert "sigterm" in agents.seen[5:]


async def test_a_helper_that_outlives_the_agent_and_holds_its_stdout_does_not_hold_up_the_close(
    agents: Agents,
) -> None:
    """The exit of the agent counts, not the end of its output."""
    body = """
        if not os.fork():
            report("helper")
            sleep_for_ever()
        report("agent")
        serve(polite_turn)
        """
    async with Lives() as lives:
        with trio.fail_after(30):
            async with open_acp(agents.options(body, lives, shutdown_grace=10)) as agent:
                await lives.born("agent", "helper")
                assert await agent.generate("hi") == "hello"
                start = trio.current_time()
            assert elapsed_since(start) < 8
        await lives.dead("agent", "helper")


async def test_the_death_of_an_agent_is_noticed_while_a_helper_holds_its_stdout(agents: Agents) -> None:
    body = """
        if not os.fork():
            report("helper")
            sleep_for_ever()
        report("agent")
        initialize()
        receive()
        os._exit(8)
        """
    async with Lives() as lives:
        with trio.fail_after(30):
            async with open_acp(agents.options(body, lives, shutdown_grace=0.1)) as agent:
                await lives.born("agent", "helper")
                with pytest.raises(AgentExited) as caught:
                    await agent.new_session()
        await lives.dead("agent", "helper")
    assert caught.value.returncode == 8


async def test_ten_megabytes_of_stderr_stop_nobody_and_the_end_of_them_is_kept(agents: Agents) -> None:
    """W2: stderr is drained while a turn runs; the tail is bounded."""
    body = """
        def chatter(request):
            for _ in range(10):
                sys.stderr.write("x" * 1_000_000 + "\\n")
            sys.stderr.write("the end\\n")
            sys.stderr.flush()
            polite_turn(request)
            sys.exit(1)
        serve(chatter)
        """
    with trio.fail_after(30):
        async with open_acp(agents.options(body)) as agent:
            assert await agent.generate("hi") == "hello"
            with pytest.raises(AgentExited) as caught:
                await agent.generate("more")
    assert len(caught.value.stderr) == 64 * 1024
    assert caught.value.stderr.endswith("x\nthe end\n")
    assert len(str(caught.value)) < 3000


async def test_an_agent_with_much_to_say_while_it_is_closed_is_read_to_its_end(agents: Agents) -> None:
    """Otherwise it could not exit: its pipe would be full."""
    body = """
        serve(polite_turn)
        for _ in range(2000):
            update("s", "late " * 200)
        note("said all")
        """
    with trio.fail_after(30):
        async with open_acp(agents.options(body, shutdown_grace=20)) as agent:
            assert await agent.generate("hi") == "hello"
    assert agents.seen[-1] == "said all"


# Cancellation from outside ----------------------------------------------------------------------------------


async def test_a_cancellation_around_the_block_is_told_to_the_agent_before_its_input_ends(
    agents: Agents,
) -> None:
    """X1: first session/cancel, then the end of the input; the agent's answer is waited for."""
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with open_acp(agents.options("serve(until_cancelled)")) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                async for _ in turn:
                    scope.cancel()
    assert scope.cancelled_caught
    assert turn.stop_reason == "cancelled"
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


async def test_a_cancellation_reaches_the_turns_of_other_tasks_too(agents: Agents) -> None:
    """Several sessions, each in a task inside the block: each gets its own session/cancel."""
    body = """
        initialize()
        turns = {}
        while (message := receive()) is not None:
            method, params = message.get("method"), message.get("params", {})
            if method == "session/new":
                answer(message, {"sessionId": params["cwd"]})
            elif method == "session/prompt":
                turns[params["sessionId"]] = message
                update(params["sessionId"], "working")
            elif method == "session/cancel":
                answer(turns.pop(params["sessionId"]), {"stopReason": "cancelled"})
        note(f"open: {len(turns)}")
        """
    turns: list[Turn] = []
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with open_acp(agents.options(body)) as agent, trio.open_nursery() as nursery:

            async def work(cwd: str) -> None:
                session = await agent.new_session(cwd)
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        turns.append(turn)
                        if len(turns) == 3:
                            scope.cancel()

            for cwd in ("/a", "/b", "/c"):
                nursery.start_soon(work, cwd)
    assert scope.cancelled_caught
    assert {turn.session_id: turn.stop_reason for turn in turns} == dict.fromkeys(
        ("/a", "/b", "/c"), StopReason.CANCELLED
    )
    assert agents.seen.count("session/cancel") == 3
    assert agents.seen[-2:] == ["eof", "open: 0"]


async def test_an_agent_that_ignores_the_cancellation_delays_the_block_by_the_graces_only(
    agents: Agents,
) -> None:
    body = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        def ignore(request):
            update("s", "working")
            while receive() is not None: pass
            sleep_for_ever()
        report("agent")
        serve(ignore)
        """
    async with Lives() as lives:
        with trio.fail_after(30), trio.CancelScope() as scope:
            options = agents.options(body, lives, cancel_grace=0.2, shutdown_grace=0.2)
            async with open_acp(options) as agent:
                await lives.born("agent")
                session = await agent.new_session()
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        start = trio.current_time()
                        scope.cancel()
        assert elapsed_since(start) < 5
        assert turn.abandoned
        await lives.dead("agent")
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


async def test_an_exception_of_the_body_leaves_as_itself_after_a_proper_close(agents: Agents) -> None:
    class Mine(Exception):
        pass

    with trio.fail_after(30), pytest.raises(Mine) as caught:
        async with open_acp(agents.options("serve(until_cancelled)")) as agent:
            session = await agent.new_session()
            async with session.prompt("go"):
                raise Mine
    assert caught.value.__context__ is None
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


async def test_a_group_of_the_body_leaves_as_it_is(agents: Agents) -> None:
    group = ExceptionGroup("mine", [ValueError("only one")])
    with trio.fail_after(30), pytest.RaisesGroup(ValueError) as caught:
        async with open_acp(agents.options("serve(polite_turn)")):
            raise group
    assert caught.value is group


async def test_a_call_that_waits_while_the_block_closes_is_told_of_the_closing(agents: Agents) -> None:
    """W11: not that the agent has gone, which is what our closing made it do."""
    body = "initialize(); receive(); receive()"
    errors: list[BaseException] = []
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, open_acp(agents.options(body)) as agent:

            @nursery.start_soon
            async def call() -> None:
                try:
                    await agent.request("_never_answered")
                except ConnectionClosed as error:
                    errors.append(error)

            await trio.testing.wait_all_tasks_blocked()
    assert len(errors) == 1
    assert agents.seen == ["initialize", "_never_answered", "eof"]

"""Starting an agent: it works, or there is one clear error and nothing is left running (I1, I2)."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
import signal
from typing import Any

import pytest
import trio

from tests.client_process.agents import Agents, elapsed_since
from tests.transports.agents import Lives
from trio_acp._errors import AgentStartError, UnsupportedProtocolVersion
from trio_acp.client import AcpOptions, open_acp


async def start_error(options: AcpOptions) -> AgentStartError:
    """Open and fail; check what holds for all such errors, and return it."""
    with trio.fail_after(30):
        with pytest.raises(AgentStartError) as caught:
            async with open_acp(options):
                raise AssertionError("an agent that cannot start was handed out")
    error = caught.value
    assert error.command == (str(options.command), *options.args)
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(twin), twin.phase, twin.reason, twin.returncode, twin.stderr) == (
            str(error),
            error.phase,
            error.reason,
            error.returncode,
            error.stderr,
        )
    return error


# What cannot even be started -----------------------------------------------------------------------------


async def test_a_command_that_does_not_exist_is_named() -> None:
    error = await start_error(AcpOptions(command="no-such-agent-anywhere"))
    assert (error.phase, error.reason, error.returncode) == ("spawn", "not-found", None)
    assert "'no-such-agent-anywhere'" in str(error)
    assert "PATH" in str(error)


async def test_a_file_that_is_not_executable_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "agent"
    path.write_text("#!/bin/sh\n")
    error = await start_error(AcpOptions(command=path))
    assert (error.phase, error.reason) == ("spawn", "not-executable")
    assert str(path) in str(error)


async def test_a_file_that_is_no_program_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "agent"
    path.write_text("this is no program")
    path.chmod(0o755)
    error = await start_error(AcpOptions(command=path))
    assert (error.phase, error.reason) == ("spawn", "not-executable")


async def test_a_working_directory_that_does_not_exist_is_named(tmp_path: pathlib.Path) -> None:
    error = await start_error(AcpOptions(command="true", cwd=str(tmp_path / "nowhere")))
    assert (error.phase, error.reason) == ("spawn", "bad-cwd")
    assert "nowhere" in str(error)


async def test_without_a_command_nothing_is_tried() -> None:
    with pytest.raises(ValueError, match=r"AcpOptions\.command"):
        open_acp(AcpOptions())


async def test_the_time_limit_covers_the_spawning_too(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is too slow to start anything: an error of its own, and the late process is ended."""
    spawned: list[trio.Process] = []
    original = trio.lowlevel.open_process

    async def slow(*args: Any, **kwargs: Any) -> trio.Process:
        process = await original(*args, **kwargs)
        spawned.append(process)
        with trio.CancelScope(shield=True) as scope:
            # As if the operating system had taken until after the deadline.
            scope.deadline = trio.current_time() + 0.3
            await trio.sleep_forever()
        return process

    monkeypatch.setattr(trio.lowlevel, "open_process", slow)
    error = await start_error(agents.options("sleep_for_ever()", startup_timeout=0.1))
    assert (error.phase, error.reason) == ("spawn", "timeout")
    assert "could not be started within 0.1 s" in str(error)
    assert spawned[0].returncode == -signal.SIGKILL


# What ends before it answers ----------------------------------------------------------------------------


async def test_an_agent_that_exits_with_0_before_answering_is_told_from_a_crash(agents: Agents) -> None:
    error = await start_error(agents.options("print('usage: ...', file=sys.stderr)"))
    assert (error.phase, error.reason, error.returncode) == ("initialize", "exited", 0)
    assert "exited with status 0 before it answered initialize" in str(error)
    assert "arguments" in str(error)
    assert error.stderr == "usage: ...\n"


async def test_an_agent_that_crashes_is_reported_with_its_status_and_last_words(agents: Agents) -> None:
    error = await start_error(agents.options("sys.stderr.write('no licence\\n'); sys.exit(3)"))
    assert (error.phase, error.reason, error.returncode) == ("initialize", "exited", 3)
    assert "exited with status 3 before it answered initialize" in str(error)
    assert error.stderr == "no licence\n"
    assert str(error).endswith("the end of its stderr:\nno licence")


async def test_the_last_words_are_whole_however_many_there_are(agents: Agents) -> None:
    """The pipe may still be full of them when the exit is known."""
    error = await start_error(agents.options("sys.stderr.write('x' * 50_000 + '\\nthe end\\n'); sys.exit(1)"))
    assert len(error.stderr) == 50_000 + len("\nthe end\n")
    assert error.stderr.endswith("\nthe end\n")


async def test_an_agent_that_dies_of_a_signal_is_reported_with_it(agents: Agents) -> None:
    error = await start_error(agents.options("receive(); os.kill(os.getpid(), signal.SIGKILL)"))
    assert (error.reason, error.returncode) == ("exited", -signal.SIGKILL)
    assert f"was ended by signal {signal.SIGKILL:d}" in str(error)


async def test_an_agent_that_closes_its_stdout_and_stays_is_reported(agents: Agents) -> None:
    error = await start_error(agents.options("receive(); os.close(1); sys.stdin.read()", shutdown_grace=5))
    assert (error.phase, error.reason, error.returncode) == ("initialize", "exited", None)
    assert "closed its stdout and did not exit before it answered" in str(error)


# What is no agent ---------------------------------------------------------------------------------------


async def test_a_program_that_only_prints_text_is_no_agent(agents: Agents) -> None:
    error = await start_error(agents.options("print('Usage: tool [OPTIONS]'); print('  --help')"))
    assert (error.phase, error.reason, error.returncode) == ("initialize", "not-acp", 0)
    assert "printed text such as '  --help'" in str(error)
    assert "exited with status 0" in str(error)


async def test_a_program_that_prints_text_and_fails_is_reported_with_both(agents: Agents) -> None:
    error = await start_error(agents.options("print('cannot start'); sys.exit(2)"))
    assert (error.reason, error.returncode) == ("exited", 2)
    assert "exited with status 2" in str(error)
    assert "printed text such as 'cannot start'" in str(error)


async def test_a_program_that_prints_text_for_ever_is_given_up(agents: Agents) -> None:
    error = await start_error(agents.options("while True: print('tick', flush=True)", shutdown_grace=0.1))
    assert (error.phase, error.reason) == ("initialize", "not-acp")
    assert "tick" in str(error)


async def test_a_program_that_sends_one_endless_line_is_given_up(agents: Agents) -> None:
    error = await start_error(
        agents.options(
            "while True: sys.stdout.write('x' * 4096)", max_message_bytes=100_000, shutdown_grace=0.1
        )
    )
    assert (error.phase, error.reason) == ("initialize", "not-acp")
    assert "100000" in str(error)


async def test_an_answer_of_the_wrong_shape_is_no_acp(agents: Agents) -> None:
    error = await start_error(agents.options("answer(receive(), {'protocolVersion': 'one'}); receive()"))
    assert (error.phase, error.reason) == ("initialize", "not-acp")
    assert "protocolVersion" in str(error)


# What answers, but not well ------------------------------------------------------------------------------


async def test_an_agent_of_another_protocol_version_is_refused_with_both_versions(agents: Agents) -> None:
    """I2."""
    with trio.fail_after(30):
        with pytest.raises(UnsupportedProtocolVersion) as caught:
            async with open_acp(agents.options("answer(receive(), {'protocolVersion': 7}); receive()")):
                raise AssertionError("handed out")
    assert (caught.value.offered, caught.value.answered) == (1, 7)
    assert agents.seen == ["initialize", "eof"]


async def test_an_agent_that_refuses_initialize_is_quoted(agents: Agents) -> None:
    error = await start_error(
        agents.options(
            """
            send(id=receive()["id"], error={"code": -32603, "message": "licence expired"})
            receive()
            """
        )
    )
    assert (error.phase, error.reason) == ("initialize", "refused")
    assert "licence expired" in str(error)


async def test_a_silent_agent_is_given_up_in_time(agents: Agents) -> None:
    start = trio.current_time()
    error = await start_error(agents.options("while receive(): pass", startup_timeout=0.2))
    assert elapsed_since(start) < 10
    assert (error.phase, error.reason) == ("initialize", "timeout")
    assert "did not answer initialize within 0.2 s; it has printed nothing at all" in str(error)
    assert "startup_timeout" in str(error)


async def test_a_slow_agent_is_given_up_with_a_note_of_its_progress(agents: Agents) -> None:
    async with Lives() as lives:
        options = agents.options(
            """
            print("added 80 packages", file=sys.stderr, flush=True)
            print("installing", flush=True)
            while receive(): pass
            """,
            lives,
            startup_timeout=0.5,
        )
        error = await start_error(options)
    assert error.reason == "timeout"
    assert "its last output came 0." in str(error)
    assert "it printed text such as 'installing'" in str(error)
    assert error.stderr == "added 80 packages\n"


async def test_banners_and_progress_before_the_answer_do_no_harm(agents: Agents) -> None:
    """W4: a cold start prints what it likes, as long as the answer comes."""
    lines: list[str] = []
    options = agents.options(
        """
        print("Welcome to the agent"); print("[1;32m ready [0m")
        print("downloading", file=sys.stderr, flush=True)
        serve(polite_turn)
        """,
        on_stderr=lines.append,
    )
    with trio.fail_after(30):
        async with open_acp(options) as agent:
            assert agent.info is not None
            assert agent.info.name == "script"
            assert agent.statistics().junk_lines == 2
            assert await agent.generate("hi") == "hello"
    assert lines == ["downloading"]
    assert agents.seen == ["initialize", "session/new", "session/prompt", "eof"]


# Nothing is left running ---------------------------------------------------------------------------------

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    report("helper")
    sleep_for_ever()
report("agent")
"""


@pytest.mark.parametrize(
    "rest",
    [
        "receive(); sleep_for_ever()",
        "answer(receive(), {'protocolVersion': 2}); sleep_for_ever()",
        "send(id=receive()['id'], error={'code': 1, 'message': 'no'}); sleep_for_ever()",
        "receive(); print('text\\n' * 200, flush=True); sleep_for_ever()",
        "receive(); os._exit(0)",
    ],
)
async def test_a_failed_start_leaves_no_process_of_the_agents_group(agents: Agents, rest: str) -> None:
    async with Lives() as lives:
        options = agents.options(STUBBORN + rest, lives, startup_timeout=1, shutdown_grace=0.05)
        with trio.fail_after(30):
            with pytest.raises((AgentStartError, UnsupportedProtocolVersion)):
                async with open_acp(options):
                    raise AssertionError("handed out")
        await lives.born("agent", "helper")
        await lives.dead("agent", "helper")


async def test_a_start_cancelled_from_outside_leaves_no_process(agents: Agents) -> None:
    async with Lives() as lives:
        options = agents.options(STUBBORN + "sleep_for_ever()", lives, shutdown_grace=0.05)
        with trio.fail_after(30), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def cancel_when_born() -> None:
                    await lives.born("agent", "helper")
                    scope.cancel()

                async with open_acp(options):
                    raise AssertionError("handed out")
        assert scope.cancelled_caught
        await lives.dead("agent", "helper")


async def test_a_start_in_a_cancelled_scope_does_not_hang(agents: Agents) -> None:
    with trio.fail_after(30), trio.CancelScope() as scope:
        scope.cancel()
        async with open_acp(agents.options("sleep_for_ever()")):
            raise AssertionError("handed out")
    assert scope.cancelled_caught


async def test_a_block_is_entered_once_only(agents: Agents) -> None:
    block = open_acp(agents.options("serve(polite_turn)"))
    with trio.fail_after(30):
        async with block:
            with pytest.raises(RuntimeError, match="call open_acp again"):
                await block.__aenter__()


def test_the_environment_of_the_options_is_not_shown() -> None:
    assert "secret" not in repr(AcpOptions(command="agent", env={"KEY": "secret"}))
    assert os.environ.get("KEY") is None

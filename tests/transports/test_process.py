"""An agent's process, and the end of everything that it started (W2)."""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import subprocess

import pytest
import trio

from tests.transports.agents import Lives, Scripts
from tests.transports.processes import GRACE, LONG, POLITE, STUBBORN, Running, read_all, read_until
from trio_acp.transports import AgentProcess, _group, _process

# --- Polite agents -----------------------------------------------------------------------------------------


async def test_an_agent_that_ends_with_its_input_is_not_signalled(script: Scripts) -> None:
    async with Running(script(POLITE), shutdown_grace=LONG) as process:
        await process.stream.send_all(b"hello\n")
        assert await read_until(process, b"\n") == b"hello\n"
        assert process.stream.send_nowait(b"again\n") == 6
        assert await read_until(process, b"\n") == b"again\n"
        assert process.returncode is None
        assert f"pid {process.pid}" in repr(process)
        with trio.fail_after(5):
            await process.aclose_gracefully()
        assert process.exited.is_set()
        assert process.returncode == 0
        assert not process.left_running
        assert "exited with 0" in repr(process)
        with pytest.raises(trio.ClosedResourceError):
            await process.stream.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await process.stream.send_all(b"x")


async def test_what_an_agent_says_while_it_ends_is_still_read(script: Scripts) -> None:
    """The pipe is far smaller than the farewell: the agent can only exit because somebody reads."""
    command = script("sys.stdin.buffer.read(); sys.stdout.buffer.write(bytes(3_000_000))")
    async with Running(command, shutdown_grace=LONG) as process:
        got = []

        async def reader() -> None:
            got.append(len(await read_all(process)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader)
            await process.stream.send_eof()
            await process.exited.wait()
        assert got == [3_000_000]
        assert process.returncode == 0


async def test_an_exit_status_and_the_last_words_survive_the_exit(script: Scripts) -> None:
    """Nothing that the agent wrote before its exit is lost, however late it is read (C4)."""
    async with Running(
        script("print('last', flush=True); print('words', file=sys.stderr); sys.exit(7)")
    ) as process:
        await process.exited.wait()
        assert process.returncode == 7
        assert await read_all(process) == b"last\n"
        assert await process.stream.receive_some() == b""
        with pytest.raises(trio.BrokenResourceError, match="has exited"):
            await process.stream.send_all(b"x")
        await process.stderr_ended.wait()
        assert process.stderr_tail() == "words\n"


async def test_an_agent_that_exits_at_once_is_no_special_case(script: Scripts) -> None:
    async with Running(["/bin/true"]) as process:
        assert await read_all(process) == b""
        await process.exited.wait()
        assert process.returncode == 0


async def test_a_death_by_signal_is_a_negative_return_code(script: Scripts) -> None:
    async with Running(script("os.kill(os.getpid(), signal.SIGKILL)")) as process:
        await process.exited.wait()
        assert process.returncode == -signal.SIGKILL


async def test_closing_ends_what_would_wait_for_the_agent(script: Scripts) -> None:
    """A send that the agent does not take, and a read, are ended by the closing."""
    async with Running(script("sleep_for_ever()")) as process:
        async with trio.open_nursery() as nursery:

            async def sender() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await process.stream.send_all(bytes(1_000_000))

            async def reader() -> None:
                assert await process.stream.receive_some() == b""

            nursery.start_soon(sender)
            nursery.start_soon(reader)
            await trio.testing.wait_all_tasks_blocked()
            await process.aclose_gracefully()
        assert process.returncode == -signal.SIGTERM


# --- Impolite agents ---------------------------------------------------------------------------------------


async def test_an_agent_that_ignores_the_end_of_its_input_is_terminated(script: Scripts) -> None:
    async with Lives() as lives, Running(script("report('agent'); sleep_for_ever()", lives)) as process:
        await lives.born("agent")
        await process.aclose_gracefully()
        assert process.returncode == -signal.SIGTERM
        await lives.dead("agent")


async def test_an_agent_that_ignores_sigterm_too_is_killed(script: Scripts) -> None:
    async with Lives() as lives, Running(script(STUBBORN, lives)) as process:
        await lives.born("agent")
        await process.aclose_gracefully(grace=0.05)
        assert process.returncode == -signal.SIGKILL
        assert not process.left_running
        await lives.dead("agent")


async def test_a_stopped_agent_is_killed(script: Scripts) -> None:
    async with Lives() as lives, Running(script("report('agent'); sleep_for_ever()", lives)) as process:
        await lives.born("agent")
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        await process.aclose_gracefully()
        assert process.returncode == -signal.SIGKILL


async def test_cancellation_does_not_cut_the_closing_short(script: Scripts) -> None:
    async with Lives() as lives, Running(script(STUBBORN, lives)) as process:
        await lives.born("agent")
        with trio.CancelScope() as scope:
            scope.cancel()
            await process.aclose_gracefully()
        assert process.returncode == -signal.SIGKILL
        await lives.dead("agent")


async def test_the_supervisor_outlives_a_cancellation_until_it_is_closed(script: Scripts) -> None:
    """A cancellation from outside must still be told to the agent: only closing ends the process."""
    process = AgentProcess(*(lambda c: (c[0], c[1:]))(script(POLITE)), shutdown_grace=LONG)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(process.run)
            scope.cancel()
            with trio.CancelScope(shield=True):
                await process.stream.send_all(b"still there\n")
                assert await read_until(process, b"\n") == b"still there\n"
            await process.aclose_gracefully()
    assert process.returncode == 0


async def test_kill_now_ends_the_patience_of_a_closing_under_way(script: Scripts) -> None:
    """The second Ctrl-C."""
    async with Lives() as lives, Running(script(STUBBORN, lives), shutdown_grace=LONG) as process:
        await lives.born("agent")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.aclose_gracefully)
            await trio.testing.wait_all_tasks_blocked()
            process.kill_now()
        assert process.returncode == -signal.SIGKILL
        await lives.dead("agent")
        process.kill_now()


async def test_a_process_that_is_killed_while_it_starts_does_not_live(script: Scripts) -> None:
    command = script(STUBBORN)
    process = AgentProcess(command[0], command[1:], shutdown_grace=LONG)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.run)
        await trio.lowlevel.checkpoint()
        process.kill_now()
    assert process.returncode == -signal.SIGKILL
    await process.aclose_gracefully()


async def test_kill_now_alone_ends_the_whole_group(script: Scripts) -> None:
    async with Lives() as lives:
        command = script(HELPER.format(trap=TRAP, then=TRAP + "; sleep_for_ever()"), lives)
        async with Running(command, shutdown_grace=LONG) as process:
            await lives.born("agent", "helper")
            process.kill_now()
            await process.exited.wait()
            await lives.died("agent", "helper")
            assert process.returncode == -signal.SIGKILL


# --- What an agent started ---------------------------------------------------------------------------------


HELPER = """
if os.fork() == 0:
    {trap}
    report("helper")
    sleep_for_ever()
report("agent")
{then}
"""
TRAP = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.mark.parametrize("trap", ["pass", TRAP])
@pytest.mark.parametrize("then", ["sys.stdin.buffer.read()", "sleep_for_ever()", TRAP + "; sleep_for_ever()"])
async def test_closing_ends_helpers_with_the_agent(script: Scripts, trap: str, then: str) -> None:
    """The group is signalled while it has members, not while its leader lives (C1, C3, C21)."""
    async with Lives() as lives, Running(script(HELPER.format(trap=trap, then=then), lives)) as process:
        await lives.born("agent", "helper")
        await process.aclose_gracefully()
        assert not process.left_running
        await lives.dead("agent", "helper")


@pytest.mark.parametrize("trap", ["pass", TRAP])
async def test_helpers_of_an_agent_that_died_are_ended_without_a_closing(script: Scripts, trap: str) -> None:
    async with Lives() as lives:
        command = script(HELPER.format(trap=trap, then="sys.stdin.buffer.readline(); os._exit(3)"), lives)
        process = AgentProcess(command[0], command[1:], shutdown_grace=GRACE)
        async with trio.open_nursery() as nursery:
            await nursery.start(process.run)
            await lives.born("agent", "helper")
            await process.stream.send_all(b"\n")
            # The nursery ends because the supervisor does.
        await lives.dead("agent", "helper")
        assert process.returncode == 3
        await process.aclose_gracefully()


ESCAPED = """
go, ready = os.pipe()
if os.fork() == 0:
    os.setsid()
    report("escaped")
    os.write(ready, b"x")
    sleep_for_ever()
os.read(go, 1)
sys.stdout.write("done\\n")
sys.stdout.flush()
sys.stdin.buffer.readline()
"""


async def test_pipes_that_an_escaped_helper_holds_open_block_nothing(
    script: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit of the agent is the end of its input and its stderr, whoever holds the pipes (C4)."""
    monkeypatch.setattr(_process, "EXIT_DRAIN_GRACE", 0.05)
    async with Lives() as lives:
        async with Running(script(ESCAPED, lives)) as process:
            await lives.born("escaped")
            assert await read_until(process, b"\n") == b"done\n"
            async with trio.open_nursery() as nursery:

                async def sender() -> None:
                    with pytest.raises(trio.BrokenResourceError, match="has exited"):
                        await process.stream.send_all(b"\n" + bytes(1_000_000))

                nursery.start_soon(sender)
                assert await process.stream.receive_some() == b""
            assert process.returncode == 0
            await process.aclose_gracefully()
        pid = next(
            int(name)
            for name in os.listdir("/proc")
            if name.isdigit() and _command_line(name).find(str(script._folder)) >= 0
        )
        os.kill(pid, signal.SIGKILL)
        await lives.died("escaped")


def _command_line(pid: str) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


async def test_a_group_that_does_not_end_is_reported_and_not_waited_for(
    script: Scripts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Closing is bounded even if SIGKILL does not help, and says that it could not confirm the end (C21)."""
    monkeypatch.setattr(_process, "KILL_GRACE", 0.05)
    monkeypatch.setattr(_group.ProcessGroup, "kill", lambda self: None)
    async with Lives() as lives:
        process = AgentProcess(*(lambda c: (c[0], c[1:]))(script(STUBBORN, lives)), shutdown_grace=0)
        async with trio.open_nursery() as nursery:
            await nursery.start(process.run)
            await lives.born("agent")
            with caplog.at_level(logging.WARNING, "trio_acp.transports"):
                await process.aclose_gracefully()
        assert process.left_running
        assert process.stderr_ended.is_set()
        assert process.returncode is None
        assert "does not end" in caplog.text
        monkeypatch.undo()
        process.kill_now()
        await lives.died("agent")
        assert process._group is not None
        with trio.fail_after(5):
            await process._group._process.wait()


def test_dead_members_that_nobody_reaps_do_not_count() -> None:
    """In a container without an init orphans stay as zombies for ever; they are no reason to wait."""
    with subprocess.Popen(["/bin/true"], start_new_session=True) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        os.killpg(child.pid, 0)  # the operating system still sees the zombie
        assert not _group._has_members(child.pid)
    assert not _group._has_members(child.pid)


def test_a_group_of_another_user_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    assert _group._has_members(os.getpid())


def test_a_process_that_vanishes_while_it_is_looked_at_is_no_member() -> None:
    assert not _group._is_live_member("999999999", 1)
    assert _group._is_live_member(str(os.getpid()), os.getpgid(0))


async def test_members_that_may_not_be_signalled_do_not_break_the_closing(
    script: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.killpg

    def killpg(group: int, number: int) -> None:
        if number == signal.SIGTERM:
            raise PermissionError
        real(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    async with Lives() as lives, Running(script(STUBBORN, lives)) as process:
        await lives.born("agent")
        await process.aclose_gracefully()
        assert process.returncode == -signal.SIGKILL


# --- stderr ------------------------------------------------------------------------------------------------


async def test_ten_megabytes_of_stderr_do_not_stop_the_agent(script: Scripts) -> None:
    """stderr is drained from birth (W2, C10)."""
    command = script(
        "sys.stderr.write('x' * 99 + '\\n' + 'y' * 10_000_000 + 'end'); print('done', flush=True)"
    )
    async with Running(command) as process:
        assert await read_all(process) == b"done\n"
        await process.aclose_gracefully()
        assert process.stderr_tail() == "y" * (65536 - 3) + "end"


async def test_stderr_lines_reach_the_callback_and_its_failure_stops_nothing(script: Scripts) -> None:
    got: list[str] = []

    def callback(line: str) -> None:
        got.append(line)
        raise ValueError(line)

    command = script("sys.stderr.buffer.write(b'one\\nt\\xffo\\nthree'); print('done', flush=True)")
    async with Running(command, on_stderr=callback) as process:
        assert await read_all(process) == b"done\n"
        await process.aclose_gracefully()
        assert got == ["one", "t\ufffdo", "three"]
        assert repr(process.stderr_callback_error) == "ValueError('one')"
        assert process.stderr_tail() == "one\nt\ufffdo\nthree"


async def test_what_leaves_the_stderr_callback_by_force_ends_the_process_and_stays_itself(
    script: Scripts,
) -> None:
    class Leave(BaseException):
        pass

    def callback(line: str) -> None:
        raise Leave

    async with Lives() as lives:
        command = script("report('agent'); print('x', file=sys.stderr, flush=True)\n" + STUBBORN, lives)
        process = AgentProcess(command[0], command[1:], on_stderr=callback, shutdown_grace=LONG)
        with pytest.raises(Leave):
            await process.run()
        assert process.returncode == -signal.SIGKILL
        await process.aclose_gracefully()
        await lives.born("agent")
        await lives.dead("agent")


async def test_activity_is_told_for_each_stream(script: Scripts) -> None:
    command = """
    print('x', file=sys.stderr, flush=True)
    sys.stdin.buffer.readline()
    print('y', flush=True)
    sleep_for_ever()
    """
    seen = trio.Event()
    async with Running(script(command), on_stderr=lambda line: seen.set()) as process:
        await seen.wait()
        assert process.stderr_activity is not None
        assert process.stdout_activity is None
        await process.stream.send_all(b"\n")
        await read_until(process, b"\n")
        assert process.stdout_activity is not None
        assert process.stdout_activity >= process.stderr_activity

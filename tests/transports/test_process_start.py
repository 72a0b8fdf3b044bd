"""The birth of an agent's process: what it gets, how it fails, and that a cancellation leaves none (W2)."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.transports.agents import Scripts
from tests.transports.processes import LONG, POLITE, Running, read_all
from trio_acp._errors import AgentStartError
from trio_acp.transports import AgentProcess
from trio_acp.transports._fd import widen

# --- Birth -------------------------------------------------------------------------------------------------


async def test_the_agent_gets_its_arguments_directory_and_environment(
    script: Scripts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    monkeypatch.setenv("DROPPED", "yes")
    command = script("print(ascii((sys.argv[1:], os.getcwd(), dict(os.environ))))")
    there = tmp_path / "there"
    there.mkdir()
    async with Running(
        [*command, "a b", "ü", ""], cwd=there, env={"MORE": "1", "DROPPED": None, "LC_ALL": "C.UTF-8"}
    ) as process:
        args, cwd, env = eval(await read_all(process))
    assert args == ["a b", "ü", ""]
    assert cwd == str(there)
    assert env["INHERITED"] == "yes"
    assert env["MORE"] == "1"
    assert "DROPPED" not in env
    async with Running(command, env={"ONLY": "1"}, inherit_env=False) as process:
        _, _, env = eval(await read_all(process))
    assert set(env) - {"LC_CTYPE"} == {"ONLY"}
    async with Running(command, env={"ONLY": "1"}, inherit_env=["INHERITED"]) as process:
        _, _, env = eval(await read_all(process))
    assert set(env) - {"LC_CTYPE"} == {"ONLY", "INHERITED"}


async def test_the_agent_leads_a_session_and_inherits_nothing_but_three_blocking_pipes(
    script: Scripts,
) -> None:
    """Ctrl-C in a terminal does not reach it, and our descriptors and their modes are ours (T4)."""
    read, write = os.pipe()
    os.set_inheritable(read, True)
    try:
        command = script(
            """
            leads = os.getpid() == os.getpgid(0) == os.getsid(0)
            fds = sorted(map(int, os.listdir("/proc/self/fd")))
            print((leads, fds, [os.get_blocking(fd) for fd in (0, 1, 2)]))
            """
        )
        async with Running(command) as process:
            leads, fds, blocking = eval(await read_all(process))
    finally:
        os.close(read)
        os.close(write)
    assert leads is True
    assert fds[:3] == [0, 1, 2]
    assert fds[3:] in ([], [3])  # the listing itself
    assert blocking == [True, True, True]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: AgentProcess(folder / "missing"), "not-found"),
        (lambda folder: AgentProcess("/bin/sh", cwd=folder / "missing"), "bad-cwd"),
        (lambda folder: AgentProcess(folder), "not-executable"),
        (lambda folder: AgentProcess(_file(folder, "#!/no/such/interpreter\n")), "not-found"),
        (lambda folder: AgentProcess(_file(folder, "no program\n")), "not-executable"),
        (lambda folder: AgentProcess("/bin/sh", ["nul\0"]), "os-error"),
        (lambda folder: AgentProcess("/bin/sh", ["x" * 10_000_000]), "os-error"),
    ],
)
async def test_each_way_not_to_start_is_told_apart(
    tmp_path: pathlib.Path, make: Callable[[pathlib.Path], AgentProcess], reason: str
) -> None:
    process = make(tmp_path)
    with pytest.raises(AgentStartError) as caught:
        await process.run()
    assert caught.value.reason == reason
    assert process.pid is None
    with pytest.raises(RuntimeError, match="not started"):
        _ = process.stream
    await process.aclose_gracefully()
    process.kill_now()


def _file(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "agent"
    path.write_text(text)
    path.chmod(0o755)
    return path


async def test_a_process_that_was_never_run_can_be_closed() -> None:
    process = AgentProcess("agent")
    assert "not started" in repr(process)
    assert process.stdout_activity is process.stderr_activity is None
    assert process.stderr_tail() == ""
    await process.aclose_gracefully()


async def test_a_process_runs_once(script: Scripts) -> None:
    async with Running(script(POLITE)) as process:
        with pytest.raises(RuntimeError, match="only once"):
            await process.run()


def test_one_string_is_no_list_of_arguments() -> None:
    with pytest.raises(TypeError, match="args"):
        AgentProcess("agent", "acp")


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when a task has made a number of steps."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self.left = steps

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith(("AgentProcess.run", "starter")):
            self.left -= 1
            if self.left == 0:
                self._scope.cancel()


async def test_a_cancellation_at_any_checkpoint_of_the_start_leaves_no_process(script: Scripts) -> None:
    """Cancelled before its birth there is no process; after it, closing finds and ends it."""
    command = script(POLITE)
    outcomes = set()
    for steps in range(1, 100):
        process = AgentProcess(command[0], command[1:], shutdown_grace=LONG)
        started = False
        finished = trio.Event()

        async def starter(process: AgentProcess = process, finished: trio.Event = finished) -> None:
            nonlocal started
            try:
                async with trio.open_nursery() as nursery:
                    try:
                        await nursery.start(process.run)
                        started = True
                    finally:
                        await process.aclose_gracefully()
            finally:
                finished.set()

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                instrument = CancelAtStep(nursery.cancel_scope, steps)
                trio.lowlevel.add_instrument(instrument)
                try:
                    nursery.start_soon(starter, name="starter")
                    await trio.lowlevel.checkpoint()
                    while nursery.child_tasks and not process.exited.is_set():
                        with trio.CancelScope(shield=True):
                            await trio.lowlevel.checkpoint()
                        if process._done.is_set():
                            break
                finally:
                    trio.lowlevel.remove_instrument(instrument)
        outcomes.add((process.pid is not None, started))
        assert not process.left_running
        assert (process.pid is None) == (process.returncode is None)
        if instrument.left > 0:
            break
    else:
        pytest.fail("the start never came to its end")
    assert {(False, False), (True, True)} <= outcomes


async def test_a_start_that_is_cancelled_while_the_process_is_born_kills_it(
    script: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody got the process, so nobody will close it: the supervisor must not wait for that."""
    command = script(POLITE)
    process = AgentProcess(command[0], command[1:], shutdown_grace=LONG)
    real = trio.lowlevel.open_process

    with trio.CancelScope() as scope:

        async def open_process(*args: Any, **options: Any) -> trio.Process:
            result = await real(*args, **options)
            scope.cancel()
            return result

        monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
        async with trio.open_nursery() as nursery:
            await nursery.start(process.run)
    assert process.returncode == -signal.SIGKILL


def test_an_interrupt_in_the_middle_of_a_closing_leaves_no_process(tmp_path: pathlib.Path) -> None:
    """Ctrl-C hits the body; the process is closed on the way out and ignores it itself."""
    script = Scripts(tmp_path)
    command = script(POLITE)
    process = AgentProcess(command[0], command[1:], shutdown_grace=LONG)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(process.run)
                signal.raise_signal(signal.SIGINT)
                await trio.sleep_forever()
            finally:
                await process.aclose_gracefully()

    with pytest.RaisesGroup(KeyboardInterrupt):
        trio.run(main)
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pipes have the size that they have")
def test_a_pipe_is_made_wider_where_the_system_agrees_and_left_alone_where_not() -> None:
    read, write = os.pipe()
    try:
        widen(read, 256 * 1024)
        assert fcntl.fcntl(read, fcntl.F_GETPIPE_SZ) == 256 * 1024
    finally:
        os.close(read)
        os.close(write)
    with open(os.devnull) as no_pipe:
        widen(no_pipe.fileno(), 256 * 1024)

"""How terminals end: by the agent, the host, their session or connection, a cancellation (F3, C1 to C4)."""

from __future__ import annotations

import os
import pathlib
import signal
import sys

import pytest
import trio

from tests.workspace.commands import PATIENCE, Desk, eventually, python, shell
from tests.workspace.scopes import scope
from trio_acp import InternalError, ResourceNotFound
from trio_acp.workspace import TerminalManager, _manager, _terminal, _tree
from trio_acp.workspace._tree import ProcessTree, new_mark


async def test_a_killed_terminal_stays_readable(tmp_path: pathlib.Path) -> None:
    """F3."""
    async with Desk(tmp_path) as desk:
        id = await desk.create(*shell("echo x; exec sleep 1000"))
        await desk.until(id, "x")
        with trio.fail_after(PATIENCE):
            await desk.kill(id)
        assert (await desk.wait(id)).signal == "SIGTERM"
        assert (await desk.output(id)).output == "x\n"
        await desk.kill(id)
        assert desk.living() == []


async def test_a_released_terminal_is_gone_for_the_agent_and_stays_for_the_host(
    tmp_path: pathlib.Path,
) -> None:
    """F3, L3: a tool call may refer to it for as long as it is shown."""
    async with Desk(tmp_path) as desk:
        id = await desk.create(*shell("echo x; exec sleep 1000"))
        await desk.until(id, "x")
        with trio.fail_after(PATIENCE):
            await desk.release(id)
        for call in (desk.output, desk.wait, desk.kill, desk.release):
            with pytest.raises(ResourceNotFound):
                await call(id)
        view = desk.view(id)
        assert (view.output, view.released) == ("x\n", True)
        assert view.exit_status is not None
        assert desk.living() == []


async def test_of_the_released_terminals_the_newest_are_remembered(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_manager, "MAX_RELEASED", 2)
    async with Desk(tmp_path) as desk:
        ids = [await desk.create("true") for _ in range(4)]
        for id in ids:
            await desk.release(id)
        assert [desk.manager.terminal(id) is not None for id in ids] == [False, False, True, True]


async def test_whoever_waits_for_the_exit_hears_of_a_release(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        id = await desk.create("sleep", "1000")
        signals: list[str | None] = []

        async def wait() -> None:
            signals.append((await desk.wait(id)).signal)

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
                await desk.release(id)
        assert signals == ["SIGTERM"]


async def test_the_host_can_end_a_command(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        view = desk.view(await desk.create("sleep", "1000"))
        view.kill()
        with trio.fail_after(PATIENCE):
            assert (await view.wait_exited()).signal == "SIGTERM"


async def test_a_command_that_takes_too_long_is_ended(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path, TerminalManager(max_run_time=0.05)) as desk:
        assert (await desk.run("sleep", "1000")).exit_status is not None
        assert desk.living() == []


STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
def fork():
    return os.fork() == 0
{how}
os.write(1, b"ready\\n")
while True: time.sleep(100)
"""
TREES = {
    "alone": "",
    "children": "fork(); fork()",
    "orphans": "if fork():\n  if not fork(): os._exit(0)",
    "double fork into a session of its own": "if fork():\n  os.setsid()\n  if not fork(): os._exit(0)",
    "group of its own": "if fork(): os.setpgid(0, 0)",
    "leader that leaves": "if not fork(): time.sleep(0.05); os._exit(0)",
}

if sys.platform != "linux":  # pragma: no cover - what has left the group is found by /proc only
    for name in ("double fork into a session of its own", "group of its own"):
        del TREES[name]


@pytest.mark.parametrize("how", ["kill", "release", "end_session", "end"])
@pytest.mark.parametrize("tree", TREES)
async def test_a_tree_that_ignores_sigterm_is_ended_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tree: str, how: str
) -> None:
    """C1, C2, C3, L6."""
    monkeypatch.setattr(_terminal, "TERMINATE_GRACE", 0.1)
    async with Desk(tmp_path) as desk:
        id = await desk.create(*python(STUBBORN.format(how=TREES[tree])))
        view = desk.view(id)
        count = {"children": 4, "alone": 1, "leader that leaves": 1}.get(tree, 2)
        await eventually(lambda: view.output.count("ready") == count == len(desk.living()))
        with trio.fail_after(PATIENCE):
            if how == "kill":
                await desk.kill(id)
            elif how == "release":
                await desk.release(id)
            elif how == "end_session":
                await desk.manager.end_session(desk.session)
            else:
                desk.nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    await eventually(lambda: not desk.manager._houses)
        assert desk.living() == []
        assert view.exit_status is not None
        wanted = (0, None) if tree == "leader that leaves" else (None, "SIGKILL")
        assert (view.exit_status.exit_code, view.exit_status.signal) == wanted


async def test_a_grandchild_that_holds_the_output_does_not_delay_the_exit(tmp_path: pathlib.Path) -> None:
    """C4: the wait status alone decides. What the grandchild writes is kept; release ends it."""
    line = "(while [ ! -e go ]; do sleep 0.01; done; echo late; exec sleep 1000) & echo early; exit 5"
    async with Desk(tmp_path) as desk:
        id = await desk.create(*shell(line))
        with trio.fail_after(PATIENCE):
            assert (await desk.wait(id)).exit_code == 5
        assert (await desk.output(id)).output == "early\n"
        assert desk.living() != []
        (tmp_path / "go").touch()
        await desk.until(id, "late")
        with trio.fail_after(PATIENCE):
            await desk.release(id)
        assert desk.living() == []
        assert desk.view(id).output == "early\nlate\n"


async def test_a_grandchild_that_floods_the_output_does_not_delay_the_exit(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path, TerminalManager(max_output_bytes=1000)) as desk:
        for _ in range(5):
            view = await desk.run(*shell("yes & sleep 0.05; exit 5"))
            assert view.exit_status is not None
            assert view.exit_status.exit_code == 5
            with trio.fail_after(PATIENCE):
                await desk.release(view.id)


async def test_of_what_others_go_on_writing_only_so_much_is_taken_at_the_exit(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        running = desk.manager._open[(await desk.run("true")).id]
        with trio.fail_after(PATIENCE):
            await running.over.wait()
        monkeypatch.setattr(running, "_read_some", lambda: b"x")
        running._drain()
        assert running.buffer.total == _terminal.DRAIN_READS


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_a_process_without_the_mark_is_never_signalled() -> None:
    """Its number may have belonged to a descendant a moment ago."""
    process = await trio.lowlevel.open_process(["sleep", "1000"], start_new_session=True)
    tree = ProcessTree(process, new_mark())
    tree._signal(os.getpid(), "SIGKILL")
    tree._signal(2**22 + 1, "SIGKILL")  # a number that no process can have
    assert tree.alive()
    tree.kill()
    with trio.fail_after(PATIENCE):
        await process.wait()
    assert not tree.alive()


async def test_a_process_is_found_that_becomes_another_program_at_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two programs a process has no environment for an instant: it is looked at twice."""
    mark = new_mark()
    process = await trio.lowlevel.open_process(["sleep", "1000"], env={**os.environ, mark: "1"})
    tree = ProcessTree(process, mark)
    honest = _tree._environment
    looks = 0

    def without_one_at_first(pid: int) -> bytes:
        nonlocal looks
        looks += pid == process.pid
        return b"" if looks == 1 else honest(pid)

    monkeypatch.setattr(_tree, "_environment", without_one_at_first)
    monkeypatch.setattr(_tree, "_processes", lambda: [process.pid])
    tree._signal_strays("SIGKILL")
    with trio.fail_after(PATIENCE):
        await process.wait()
    assert process.returncode == -signal.SIGKILL
    assert looks == 3


async def test_a_terminal_is_over_when_what_it_left_running_has_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_terminal, "WATCH_INTERVAL", 0.01)
    async with Desk(tmp_path) as desk:
        id = await desk.create(*shell("(sleep 0.1; echo late) & exit"))
        running = desk.manager._open[id]
        with trio.fail_after(PATIENCE):
            await running.over.wait()
        assert desk.view(id).output == "late\n"


async def test_ending_a_session_ends_its_terminals_and_no_others(tmp_path: pathlib.Path) -> None:
    """F3, L2."""
    async with Desk(tmp_path) as desk:
        other = scope(tmp_path, id="other")
        ours = desk.view(await desk.create("sleep", "1000"))
        theirs = desk.view(await desk.create("sleep", "1000", session=other))
        with trio.fail_after(PATIENCE):
            await desk.manager.end_session(desk.session)
        assert ours.exit_status is not None
        assert ours.released
        assert theirs.exit_status is None
        assert len(desk.living()) == 1


async def test_a_process_that_does_not_die_is_given_up_in_bounded_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_terminal, "KILL_GRACE", 0.05)
    monkeypatch.setattr(_terminal, "TERMINATE_GRACE", 0.05)
    honest = trio.lowlevel.open_process
    processes: list[trio.Process] = []

    async def noting(*args: object, **options: object) -> trio.Process:
        processes.append(await honest(*args, **options))  # type: ignore[call-overload]
        return processes[-1]

    monkeypatch.setattr(trio.lowlevel, "open_process", noting)
    async with Desk(tmp_path) as desk:
        id = await desk.create("sleep", "1000")
        view = desk.view(id)
        with monkeypatch.context() as stuck:
            for name in ("terminate", "kill"):
                stuck.setattr(ProcessTree, name, lambda tree: None)
            with trio.fail_after(PATIENCE):
                await desk.kill(id)
        assert view.exit_status is not None
        assert view.exit_status.signal == "SIGKILL"
        assert "does not end" in caplog.text
        assert desk.living() == [processes[0].pid]
        processes[0].kill()
        await processes[0].wait()


# --- Ends while it begins -----------------------------------------------------------------------------


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when the tasks of the run have made so many steps."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self.left = step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self._scope.cancel()


async def whole_life(tmp_path: pathlib.Path, what: str, step: int) -> int:
    """Run a manager and a command of it, and cancel one of the two at some step; return the steps left."""
    async with Desk(tmp_path) as desk:
        with trio.CancelScope() as scope:
            victim = desk.nursery.cancel_scope if what == "manager" else scope
            instrument = CancelAtStep(victim, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                id = await desk.create(*shell("(sleep 1000) & echo x; exit 1"))
                await desk.wait(id)
                await desk.output(id)
                await desk.release(id)
            except (ResourceNotFound, InternalError):
                assert what == "manager"
            finally:
                trio.lowlevel.remove_instrument(instrument)
        if what == "caller":
            # A terminal that is not there any more is being ended, one that is there goes on.
            await eventually(lambda: (desk.living() == []) == (desk.manager.terminals() == []))
    return instrument.left


@pytest.mark.parametrize("what", ["caller", "manager"])
async def test_a_life_cancelled_at_any_step_leaves_no_process(tmp_path: pathlib.Path, what: str) -> None:
    """F3, F4: `Desk` looks for what is left."""
    steps = -await whole_life(tmp_path, what, 0)
    assert steps > 15
    for step in range(1, steps + 3):
        with trio.fail_after(PATIENCE):
            await whole_life(tmp_path, what, step)


async def test_a_terminal_that_is_created_while_its_session_ends_is_ended_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        looking, found = trio.Event(), trio.Event()
        honest = trio.lowlevel.open_process

        async def slow(*args: object, **options: object) -> trio.Process:
            looking.set()
            await found.wait()
            return await honest(*args, **options)  # type: ignore[call-overload, no-any-return]

        monkeypatch.setattr(trio.lowlevel, "open_process", slow)

        async def create() -> None:
            with pytest.raises(ResourceNotFound, match="ended"):
                await desk.create("sleep", "1000")

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(create)
                await looking.wait()
                nursery.start_soon(desk.manager.end_session, desk.session)
                nursery.start_soon(desk.manager.end_session, scope(tmp_path, id="other"))
                await trio.testing.wait_all_tasks_blocked()
                found.set()
        assert desk.manager.terminals() == []
        await eventually(lambda: not desk.living())

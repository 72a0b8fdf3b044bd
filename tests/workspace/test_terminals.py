"""Terminals with real processes: what they give, what they refuse, and how they end (F2, F3)."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest
import trio

from tests.workspace.commands import PATIENCE, Desk, eventually, python, shell
from tests.workspace.scopes import scope
from trio_acp import InternalError, InvalidParams, ResourceNotFound
from trio_acp.client import SessionScope
from trio_acp.schema import EnvVariable
from trio_acp.workspace import Terminal, TerminalManager, _manager, in_shell, split_words

MANY = 3_000_000


# --- What a terminal gives ----------------------------------------------------------------------------


async def test_a_terminal_is_there_at_once_and_tells_how_its_command_ended(tmp_path: pathlib.Path) -> None:
    """F2, F3."""
    async with Desk(tmp_path) as desk:
        id = await desk.create(*shell("echo begun; read x; echo $x; exit 3"), env=[])
        await desk.until(id, "begun")
        with trio.fail_after(PATIENCE):
            status = await desk.wait(id)
        assert (status.exit_code, status.signal) == (3, None)
        output = await desk.output(id)
        assert (output.output, output.truncated) == ("begun\n\n", False)
        assert output.exit_status is not None
        assert output.exit_status.exit_code == 3
        view = desk.view(id)
        assert view.command == shell("echo begun; read x; echo $x; exit 3")
        assert (view.id, view.session, view.cwd) == (id, desk.session, str(tmp_path))
        assert "/bin/sh" in repr(view)
        assert desk.manager.terminals() == [view] == desk.manager.terminals(desk.session)
        assert desk.manager.terminals(scope(tmp_path, id="other")) == []
        assert not view.released


async def test_while_the_command_runs_there_is_no_exit_status(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        id = await desk.create(*shell("echo x; exec sleep 1000"))
        await desk.until(id, "x")
        assert (await desk.output(id)).exit_status is None
        assert desk.view(id).exit_status is None


async def test_stdout_and_stderr_come_in_the_order_of_the_command(tmp_path: pathlib.Path) -> None:
    """F2: one pipe for both."""
    code = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d ' % n)"
    async with Desk(tmp_path) as desk:
        view = await desk.run(*python(code))
        assert view.output.split() == [str(number) for number in range(2000)]


async def test_all_that_the_command_wrote_is_there_when_its_exit_is_told(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        for size in (0, 1, 65536, 65537, 200_000):
            view = await desk.run(*python(f"import os; os.write(1, b'x' * {size})"))
            assert len(view.output) == size


async def test_a_signal_is_told_by_its_name(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        for number, name in ((signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (40, "SIG40")):
            id = await desk.create(*shell(f"kill -{int(number)} $$"))
            with trio.fail_after(PATIENCE):
                status = await desk.wait(id)
            assert (status.exit_code, status.signal) == (None, name)


async def test_the_session_gives_the_directory_unless_the_agent_names_another(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    async with Desk(tmp_path) as desk:
        for cwd, wanted in ((None, tmp_path), ("sub", tmp_path / "sub"), ("/", pathlib.Path("/"))):
            view = await desk.run(*shell("pwd -P"), cwd=cwd)
            assert view.output.strip() == os.path.realpath(wanted)  # noqa: ASYNC240


async def test_variables_of_host_and_agent_are_laid_over_the_inherited_ones(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ABC":
        monkeypatch.setenv(f"VARIABLE_{name}", "inherited")
    overlay = {"VARIABLE_B": "host", "VARIABLE_C": None, "VARIABLE_D": "host"}
    asked = [EnvVariable("VARIABLE_D", "agent"), EnvVariable("VARIABLE_E", "agent")]
    line = "echo $VARIABLE_A,$VARIABLE_B,$VARIABLE_C,$VARIABLE_D,$VARIABLE_E"
    async with Desk(tmp_path, TerminalManager(env=overlay)) as desk:
        assert (await desk.run(*shell(line), env=asked)).output == "inherited,host,,agent,agent\n"
    async with Desk(tmp_path, TerminalManager(env=overlay, inherit_env=False)) as desk:
        assert (await desk.run(*shell(line), env=asked)).output == ",host,,agent,agent\n"


async def test_a_command_has_nothing_to_read(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        assert (await desk.run("cat")).output == ""


# --- How much it keeps --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "own", "kept"), [(1000, 5000, 1000), (5000, 1000, 1000), (None, 1000, 1000)]
)
async def test_of_a_flood_the_newest_bytes_are_kept_up_to_the_smaller_limit(
    tmp_path: pathlib.Path, asked: int | None, own: int, kept: int
) -> None:
    """F2: truncated exactly when bytes are gone."""
    code = (
        f"import os\nfor n in range({MANY} // 10000): os.write(1, b'x' * 9999 + b'\\n')\nos.write(1, b'end')"
    )
    async with Desk(tmp_path, TerminalManager(max_output_bytes=own)) as desk:
        id = await desk.create(*python(code), output_byte_limit=asked)
        with trio.fail_after(PATIENCE):
            await desk.wait(id)
        output = await desk.output(id)
        assert output.truncated
        assert output.output == "x" * (kept - 4) + "\nend"
        exactly = await desk.run(*shell("printf %1000s x"), output_byte_limit=asked)
        assert (len(exactly.output), exactly.truncated) == (1000, False)


async def test_a_flood_that_does_not_end_can_be_killed_and_does_not_hold_others_up(
    tmp_path: pathlib.Path,
) -> None:
    async with Desk(tmp_path, TerminalManager(max_output_bytes=10_000)) as desk:
        flood = await desk.create("yes", "flood")
        await desk.until(flood, "flood")
        assert (await desk.run("echo", "calm")).output == "calm\n"
        with trio.fail_after(PATIENCE):
            await desk.kill(flood)
        output = await desk.output(flood)
        assert output.exit_status is not None
        assert output.truncated
        assert len(output.output) <= 10_000


async def test_characters_that_are_printed_byte_by_byte_arrive_whole(tmp_path: pathlib.Path) -> None:
    """F2, B1."""
    pieces: list[str] = []
    text = "aé€😀" * 20
    code = (
        "import os, time\n"
        f"for byte in {text.encode()!r}: os.write(1, bytes([byte])); time.sleep(0.0005)\n"
        "os.write(1, b'\\xf0\\x9f')"
    )
    async with Desk(tmp_path, TerminalManager(on_output=lambda _, piece: pieces.append(piece))) as desk:
        id = await desk.create(*python(code))
        with trio.fail_after(PATIENCE):
            while desk.view(id).exit_status is None:
                seen = desk.view(id).output
                assert text.startswith(seen) or seen == text + "\ufffd"
                await trio.sleep(0.001)
            await desk.kill(id)
        assert desk.view(id).output == text + "\ufffd"
    assert "".join(pieces) == text + "\ufffd"
    assert len(pieces) > 10


async def test_output_is_shown_while_the_command_runs(tmp_path: pathlib.Path) -> None:
    seen: list[tuple[Terminal, str]] = []
    arrived = trio.Event()

    def show(terminal: Terminal, text: str) -> None:
        seen.append((terminal, text))
        arrived.set()

    async with Desk(tmp_path, TerminalManager(on_output=show)) as desk:
        id = await desk.create(*shell("echo now; exec sleep 1000"))
        with trio.fail_after(PATIENCE):
            await arrived.wait()
        assert seen == [(desk.view(id), "now\n")]


async def test_what_the_output_hook_raises_ends_the_manager_and_all_its_terminals(
    tmp_path: pathlib.Path,
) -> None:
    def refuse(terminal: Terminal, text: str) -> None:
        raise KeyError("the window is closed")

    async with Desk(tmp_path, TerminalManager(on_output=refuse)) as desk:
        quiet = await desk.create("sleep", "1000")
        view = desk.view(quiet)
        loud = await desk.create(*shell("echo x; exec sleep 1000"))
        loud_view = desk.manager.terminal(loud)
        with trio.fail_after(PATIENCE):
            await view.wait_exited()
            await eventually(lambda: desk.failure is not None)
        assert isinstance(desk.failure, KeyError)
        assert loud_view is None or loud_view.exit_status is not None
        with pytest.raises(InternalError, match="at this moment"):
            await desk.create("true")


async def test_several_hooks_that_fail_are_a_group(tmp_path: pathlib.Path) -> None:
    def refuse(terminal: Terminal, text: str) -> None:
        raise KeyError(terminal.id)

    line = "trap 'echo x; exit' TERM; touch ready$0; while :; do sleep 0.01; done"
    async with Desk(tmp_path, TerminalManager(on_output=refuse)) as desk:
        ids = [await desk.create("/bin/sh", "-c", line, str(number)) for number in range(2)]
        await eventually(lambda: len(os.listdir(tmp_path)) == 2)
        with trio.fail_after(PATIENCE):
            await desk.manager.end_session(desk.session)
            await eventually(lambda: desk.failure is not None)
    assert isinstance(desk.failure, ExceptionGroup)
    assert sorted(failure.args[0] for failure in desk.failure.exceptions) == ids


# --- What is refused ----------------------------------------------------------------------------------


async def test_what_cannot_be_run_is_refused_with_what_is_wrong(tmp_path: pathlib.Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    async with Desk(tmp_path) as desk:
        with pytest.raises(ResourceNotFound, match=r"no such program \(code"):
            await desk.create("no-such-program-here")
        with pytest.raises(ResourceNotFound, match=r"no such program \(code"):
            await desk.create("no such program", "argument")
        with pytest.raises(ResourceNotFound, match="in args"):
            await desk.create("ls -la /")
        with pytest.raises(InvalidParams, match="cannot be executed"):
            await desk.create(str(plain))
        with pytest.raises(InternalError, match="could not start"):
            await desk.create(str(script))
        with pytest.raises(InternalError, match="malformed"):
            await desk.create("echo", "\ud800")
        with pytest.raises(InvalidParams, match="no such directory"):
            await desk.create("true", cwd="/no/such/directory")
        with pytest.raises(InvalidParams, match="NUL"):
            await desk.create("echo", "a\0b")
        with pytest.raises(InvalidParams, match="env"):
            await desk.create("true", env=[EnvVariable("A=B", "x")])
        assert desk.manager.terminals() == []


async def test_whole_command_lines_are_taken_only_by_a_policy(tmp_path: pathlib.Path) -> None:
    """L1."""
    async with Desk(tmp_path, TerminalManager(command_line_policy=split_words)) as desk:
        assert (await desk.run("echo 'a  b' c | cat")).output == "a  b c | cat\n"
        for line in ("no-such-program x", "echo 'unbalanced", "   "):
            with pytest.raises(ResourceNotFound):
                await desk.create(line)
        with pytest.raises(ResourceNotFound):  # with arguments it is a program
            await desk.create("echo x", "y")
    async with Desk(tmp_path, TerminalManager(command_line_policy=in_shell)) as desk:
        view = await desk.run("echo a | tr a b; exit 4")
        assert view.output == "b\n"
        assert view.exit_status is not None
        assert view.exit_status.exit_code == 4
        assert view.command == ("/bin/sh", "-c", "echo a | tr a b; exit 4")
        assert (await desk.run("true")).command == ("true",)


async def test_a_session_may_have_so_many_terminals_open_and_no_more(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path, TerminalManager(max_terminals_per_session=2)) as desk:
        first = await desk.create("true")
        await desk.create("true")
        with pytest.raises(InternalError, match="as many as it may"):
            await desk.create("true")
        await desk.create("true", session=scope(tmp_path, id="other"))
        await desk.release(first)
        await desk.create("true")


async def test_the_output_of_all_terminals_is_bounded_and_released_ones_give_way(
    tmp_path: pathlib.Path,
) -> None:
    async with Desk(tmp_path, TerminalManager(max_output_bytes=100, max_total_bytes=250)) as desk:
        ids = [await desk.create("printf", "%100s", str(number)) for number in range(2)]
        with pytest.raises(InternalError, match="too much memory"):
            await desk.create("true")
        small = await desk.create("true", output_byte_limit=50)
        await desk.release(small)
        for id in ids:
            with trio.fail_after(PATIENCE):
                await desk.wait(id)
            await desk.release(id)
        assert [desk.manager.terminal(id) is not None for id in ids] == [True, True]
        kept = desk.view(ids[0])
        await desk.create("true")
        assert [desk.manager.terminal(id) is not None for id in ids] == [False, True]
        assert len(kept.output) == 100, "who holds a view keeps it"


async def test_a_terminal_of_another_session_is_not_there(tmp_path: pathlib.Path) -> None:
    """Also not one of a session with the same id on another connection."""
    async with Desk(tmp_path) as desk:
        id = await desk.create("sleep", "1000")
        for other in (scope(tmp_path, id="s2"), SessionScope("s1", str(tmp_path), connection="another")):
            for call in (desk.output, desk.wait, desk.kill, desk.release):
                with pytest.raises(ResourceNotFound):
                    await call(id, other)
        with pytest.raises(ResourceNotFound):
            await desk.output("terminal-999")
        assert desk.view(id).exit_status is None


def test_a_system_that_is_not_posix_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_manager.os, "name", "nt")  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="POSIX"):
        TerminalManager()


async def test_one_manager_runs_once_for_each_connection(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path) as desk:
        with pytest.raises(RuntimeError, match="already"):
            await desk.manager.run()
        await desk.nursery.start(desk.manager.run, "second")
        other = SessionScope("s1", str(tmp_path), connection="second")
        ours, theirs = await desk.create("true"), await desk.create("true", session=other)
        assert ours != theirs
        with pytest.raises(InternalError, match="at this moment"):
            await desk.create("true", session=SessionScope("s1", str(tmp_path), connection="third"))


# --- On a pty -----------------------------------------------------------------------------------------


async def test_on_request_a_command_gets_a_pty_of_its_own(tmp_path: pathlib.Path) -> None:
    code = (
        "import os; print([os.isatty(fd) for fd in range(3)], os.get_terminal_size(), "
        "os.getsid(0) == os.getpid());"
        "os.write(os.open('/dev/tty', os.O_RDWR), b'controlling')"
    )
    async with Desk(tmp_path, TerminalManager(use_pty=True)) as desk:
        view = await desk.run(*python(code))
        assert view.output == (
            "[True, True, True] os.terminal_size(columns=80, lines=24) True\r\ncontrolling"
        )
        assert view.command == python(code)


async def test_all_that_was_written_to_a_pty_is_there_when_the_exit_is_told(tmp_path: pathlib.Path) -> None:
    async with Desk(tmp_path, TerminalManager(use_pty=True)) as desk:
        for _ in range(5):
            assert (await desk.run(*shell("printf %10000s x; exit 2"))).output == " " * 9999 + "x"


async def test_a_grandchild_that_holds_a_pty_does_not_delay_the_exit_for_long(tmp_path: pathlib.Path) -> None:
    """C4."""
    async with Desk(tmp_path, TerminalManager(use_pty=True)) as desk:
        line = "trap '' HUP; (trap '' HUP; exec sleep 1000) & echo early; exit 5"
        id = await desk.create(*shell(line))
        with trio.fail_after(PATIENCE):
            assert (await desk.wait(id)).exit_code == 5
        assert (await desk.output(id)).output == "early\r\n"
        await desk.release(id)

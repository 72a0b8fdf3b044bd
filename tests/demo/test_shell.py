"""The demo agent's own commands: bounded, and gone with everything that they started."""

from __future__ import annotations

import os
import pathlib
import signal
import sys

import pytest
import trio

from trio_acp.demo._shell import MAX_OUTPUT_BYTES, run_shell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the lines are for a POSIX shell")


async def test_tells_output_of_both_kinds_and_the_exit_code(tmp_path: pathlib.Path) -> None:
    result = await run_shell("pwd; echo trouble >&2; cat; exit 3", str(tmp_path))
    assert result.output == f"{tmp_path}\ntrouble\n"
    assert (result.exit_code, result.signal, result.truncated, result.success) == (3, None, False, False)


async def test_tells_the_signal_that_ended_it(tmp_path: pathlib.Path) -> None:
    result = await run_shell("kill -TERM $$", str(tmp_path))
    assert (result.exit_code, result.signal) == (None, "SIGTERM")


async def test_keeps_the_end_of_much_output(tmp_path: pathlib.Path) -> None:
    result = await run_shell("yes | head -c 300000; echo the end", str(tmp_path))
    assert len(result.output) == MAX_OUTPUT_BYTES
    assert result.output.endswith("the end\n")
    assert result.truncated


async def test_a_child_that_keeps_the_output_open_is_not_waited_for_and_ends(tmp_path: pathlib.Path) -> None:
    with trio.fail_after(20):
        result = await run_shell("sleep 600 & echo $!", str(tmp_path))
    assert result.exit_code == 0
    await gone(int(result.output))


async def test_cancelling_ends_the_whole_group(tmp_path: pathlib.Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_shell, "trap '' TERM; sleep 600 & echo $! > pipe; wait", str(tmp_path))
        with trio.fail_after(20):
            pid = int(await trio.to_thread.run_sync(pipe.read_text))
        nursery.cancel_scope.cancel()
    await gone(pid)


async def test_a_child_that_left_the_group_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    """It cannot be found any more; the output that it keeps open is given up."""
    (tmp_path / "escape.py").write_text(
        "import os, time\nos.setsid()\nopen('pipe', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    with trio.fail_after(20):
        result = await run_shell(f"mkfifo pipe; {sys.executable} escape.py & cat pipe", str(tmp_path))
    assert result.exit_code == 0
    os.kill(int(result.output), signal.SIGKILL)


async def test_a_directory_that_is_not_there_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_shell("true", str(tmp_path / "nowhere"))


async def gone(pid: int) -> None:
    """Wait until a process that was killed runs no more; a zombie of somebody else's counts as gone."""
    with trio.fail_after(20):
        while True:
            if not runs(pid):
                return
            await trio.lowlevel.checkpoint()


def runs(pid: int) -> bool:
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"

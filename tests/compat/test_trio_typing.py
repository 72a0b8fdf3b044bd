"""An application that has trio-typing installed can use this library.

Its stubs replace Trio's own types for type checkers, so that this library cannot have it in its own type
check; what is checked here is the application's side.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import trio

from trio_acp.transports import AgentProcess

trio_typing = pytest.importorskip("trio_typing")


async def test_our_task_functions_take_and_give_what_trio_typing_calls_a_task_status() -> None:
    process = AgentProcess("/bin/cat")

    async def application(*, task_status: trio.TaskStatus[None]) -> None:
        assert isinstance(task_status, trio_typing.TaskStatus)
        await process.run(task_status=task_status)

    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(application)
            await process.stream.send_all(b"x")
            assert await process.stream.receive_some() == b"x"
        finally:
            await process.aclose_gracefully()


def test_an_application_passes_mypy_with_the_stubs_installed(tmp_path: pathlib.Path) -> None:
    """Without the plugin of trio-typing, which current mypy cannot load, and away from our sources."""
    source = pathlib.Path(__file__).with_name("consumer.py")
    target = tmp_path / "application.py"
    target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")
    }
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}/cache", target],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert result.returncode == 0, result.stdout + result.stderr

"""Commands for the tests of terminals, and a look at what is left of them."""

from __future__ import annotations

import os
import pathlib
import secrets
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import trio

from tests.workspace.scopes import scope
from trio_acp.client import SessionScope
from trio_acp.schema import (
    CreateTerminalRequest,
    EnvVariable,
    KillTerminalRequest,
    ReleaseTerminalRequest,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from trio_acp.workspace import Terminal, TerminalManager

__all__ = ["PATIENCE", "Desk", "eventually", "python", "shell"]

PATIENCE = 20.0
"""Real seconds for anything that has to happen."""


def shell(line: str) -> tuple[str, ...]:
    """Return a command that runs a line in a shell."""
    return ("/bin/sh", "-c", line)


def python(code: str) -> tuple[str, ...]:
    """Return a command that runs a piece of Python."""
    return (sys.executable, "-IS", "-c", code)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that other processes do, and that nobody reports."""
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)


class Desk:
    """A manager at work, an agent's calls for it, and a look at all that was started by it.

    Leaving the block ends the manager and checks that nothing is left.
    """

    def __init__(self, cwd: pathlib.Path, manager: TerminalManager | None = None) -> None:
        self.manager = TerminalManager() if manager is None else manager
        self.session = scope(cwd)
        self._mark = f"DESK_{secrets.token_hex(8)}"
        self.failure: BaseException | None = None

    async def __aenter__(self) -> Desk:
        self._managing = trio.open_nursery()
        self.nursery = await self._managing.__aenter__()
        await self.nursery.start(self._run)
        return self

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            await self.manager.run(task_status=task_status)
        except Exception as error:
            self.failure = error

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.nursery.cancel_scope.cancel()
        await self._managing.__aexit__(exc_type, exc, traceback)
        assert self.living() == []
        assert self.manager.terminals() == []

    def living(self) -> list[int]:
        """Processes that were started here and still run."""
        if sys.platform != "linux":  # pragma: no cover - no /proc
            return []
        found = list[int]()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                variables = pathlib.Path(f"/proc/{name}/environ").read_bytes()
                state = pathlib.Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if self._mark.encode() in variables and state not in (b"Z", b"X"):
                found.append(int(name))
        return found

    def request(self, *argv: str, **more: Any) -> CreateTerminalRequest:
        env = [EnvVariable(self._mark, "1"), *more.pop("env", [])]
        return CreateTerminalRequest("s1", argv[0], list(argv[1:]), env, **more)

    async def create(self, *argv: str, session: SessionScope | None = None, **more: Any) -> str:
        response = await self.manager.create(self.request(*argv, **more), session or self.session)
        return response.terminal_id

    async def run(self, *argv: str, **more: Any) -> Terminal:
        """Create a terminal, wait for its end, and return the host's view of it."""
        id = await self.create(*argv, **more)
        with trio.fail_after(PATIENCE):
            await self.wait(id)
        return self.view(id)

    def view(self, id: str) -> Terminal:
        view = self.manager.terminal(id)
        assert view is not None
        return view

    async def output(self, id: str, session: SessionScope | None = None) -> TerminalOutputResponse:
        return await self.manager.output(TerminalOutputRequest("s1", id), session or self.session)

    async def wait(self, id: str, session: SessionScope | None = None) -> WaitForTerminalExitResponse:
        return await self.manager.wait_for_exit(WaitForTerminalExitRequest("s1", id), session or self.session)

    async def kill(self, id: str, session: SessionScope | None = None) -> None:
        await self.manager.kill(KillTerminalRequest("s1", id), session or self.session)

    async def release(self, id: str, session: SessionScope | None = None) -> None:
        await self.manager.release(ReleaseTerminalRequest("s1", id), session or self.session)

    async def until(self, id: str, text: str) -> None:
        """Wait until a text is in the output of a terminal."""
        await eventually(lambda: text in self.view(id).output)

"""Clients of the demo agent that offer something: files and terminals that are real."""

from __future__ import annotations

import pathlib
import subprocess
from types import TracebackType

import trio

from trio_acp import (
    AcpOptions,
    ConnectedAgent,
    InvalidParams,
    ResourceNotFound,
    Session,
    SessionScope,
    Turn,
    connect_acp,
)
from trio_acp.agent import SessionStore
from trio_acp.demo import create_app
from trio_acp.schema import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    ReadTextFileRequest,
    ReleaseTerminalRequest,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
)


class DemoAgent:
    """The demo agent, at the other end of a pair of streams in memory, for an ``async with`` block."""

    def __init__(
        self, options: AcpOptions | None = None, store: SessionStore | None = None, pace: float = 0
    ) -> None:
        self._options = options
        self._app = create_app(store, pace=pace)
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> ConnectedAgent:
        nursery = await self._manager.__aenter__()
        self._agent = await connect_acp(nursery, self._app.connect_in_memory(nursery), self._options)
        return self._agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._agent.aclose()
        await self._manager.__aexit__(kind, error, traceback)


async def say(session: Session, text: str) -> Turn:
    """Run a turn to its end."""
    async with session.prompt(text) as turn:
        await turn.wait()
    return turn


class Terminals:
    """Runs each command to its end at once, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self._results: dict[str, subprocess.CompletedProcess[bytes]] = {}

    async def create(self, request: CreateTerminalRequest, session: SessionScope) -> CreateTerminalResponse:
        id = f"t{len(self._results)}"
        if "refuse" in (request.args or [""])[-1]:
            raise InvalidParams("not this one")
        self._results[id] = await trio.run_process(
            [request.command, *request.args], cwd=request.cwd, capture_stdout=True, check=False
        )
        self.done.append(("create", id))
        return CreateTerminalResponse(id)

    async def output(self, request: TerminalOutputRequest, session: SessionScope) -> TerminalOutputResponse:
        result = self._results[request.terminal_id]
        status = TerminalExitStatus(result.returncode)
        await trio.lowlevel.checkpoint()
        return TerminalOutputResponse(result.stdout.decode(), False, status)

    async def wait_for_exit(
        self, request: WaitForTerminalExitRequest, session: SessionScope
    ) -> WaitForTerminalExitResponse:
        await trio.lowlevel.checkpoint()
        return WaitForTerminalExitResponse(self._results[request.terminal_id].returncode)

    async def kill(self, request: KillTerminalRequest, session: SessionScope) -> None:
        await trio.lowlevel.checkpoint()

    async def release(self, request: ReleaseTerminalRequest, session: SessionScope) -> None:
        await trio.lowlevel.checkpoint()
        self.done.append(("release", request.terminal_id))


class Files:
    """Files that are only in the client's memory, as those of an editor that have not been saved."""

    def __init__(self, **contents: str) -> None:
        self.contents = contents

    async def read(self, request: ReadTextFileRequest) -> str:
        await trio.lowlevel.checkpoint()
        name = pathlib.Path(request.path).name
        if name == "secret":
            raise InvalidParams("not this one")
        if name not in self.contents:
            raise ResourceNotFound(f"no {name}")
        return self.contents[name]

    async def write(self, request: WriteTextFileRequest) -> None:
        await trio.lowlevel.checkpoint()
        name = pathlib.Path(request.path).name
        if name == "fixed":
            raise InvalidParams("not this one")
        self.contents[name] = request.content

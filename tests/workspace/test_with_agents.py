"""The services at work for agents: over a connection, with all that it does around them."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
import trio

from tests.workspace.commands import PATIENCE, eventually, shell
from trio_acp import AcpOptions, CapabilityError, InvalidParams, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import CreateTerminalRequest
from trio_acp.workspace import Terminal, TerminalManager, Workspace


def app_that(work: Any) -> AgentApp:
    app = AgentApp("worker", "1.0")
    app.on_prompt(work)

    @app.on_close_session
    async def close() -> None:
        pass

    return app


async def test_an_agent_reads_writes_and_runs_in_the_directory_of_its_session(tmp_path: pathlib.Path) -> None:
    """S5, F1 to F4."""
    (tmp_path / "in.txt").write_text("1\n2\n3\n")

    async def work(ctx: PromptContext) -> str:
        text = await ctx.read_file("in.txt", line=2, limit=1)
        await ctx.write_file("out.txt", text)
        with pytest.raises(InvalidParams, match="outside"):
            await ctx.read_file("/etc/passwd")
        result = await ctx.execute("cat", "out.txt")
        return f"{result.output!r} {result.exit_code} {result.truncated}"

    manager = TerminalManager()
    options = AcpOptions(cwd=str(tmp_path), files=Workspace(), terminals=manager)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            agent = await connect_acp(nursery, app_that(work).connect_in_memory(nursery), options)
            assert await agent.generate("go") == "'2\\n' 0 False"
            assert manager.terminals() == []
            await agent.aclose()
    assert (tmp_path / "out.txt").read_text() == "2\n"


@pytest.mark.parametrize("how", ["session", "connection", "cancelled"])
async def test_terminals_end_with_their_session_and_with_their_connection(
    tmp_path: pathlib.Path, how: str
) -> None:
    """F3, L2."""
    started: list[Terminal] = []
    manager = TerminalManager(on_output=lambda terminal, _: started.append(terminal))

    async def work(ctx: PromptContext) -> str:
        program, *args = shell("echo up; exec sleep 1000")
        await ctx.client.create_terminal(CreateTerminalRequest(ctx.session.id, program, args))
        return "left running"

    options = AcpOptions(cwd=str(tmp_path), terminals=manager)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            agent = await connect_acp(nursery, app_that(work).connect_in_memory(nursery), options)
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                await turn.wait()
            await eventually(lambda: bool(started))
            (terminal,) = started
            assert terminal.exit_status is None
            if how == "session":
                await session.close()
                assert (await terminal.wait_exited()).signal == "SIGTERM"
                assert manager.terminals() == []
                await agent.aclose()
            elif how == "connection":
                await agent.aclose()
            else:
                nursery.cancel_scope.cancel()
    assert terminal.exit_status is not None
    assert terminal.exit_status.signal == "SIGTERM"


async def test_a_read_only_host_is_no_place_to_write(tmp_path: pathlib.Path) -> None:
    """I3, I5."""

    async def work(ctx: PromptContext) -> str:
        assert ctx.client.capabilities.fs.read_text_file
        assert not ctx.client.capabilities.fs.write_text_file
        with pytest.raises(CapabilityError):
            await ctx.write_file("a", "x")
        return "no"

    options = AcpOptions(cwd=str(tmp_path), files=Workspace(read_only=True))
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            agent = await connect_acp(nursery, app_that(work).connect_in_memory(nursery), options)
            assert await agent.generate("go") == "no"
            await agent.aclose()
    assert os.listdir(tmp_path) == []

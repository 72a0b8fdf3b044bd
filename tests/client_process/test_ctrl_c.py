"""Ctrl-C: once is told to the agent and leaves as KeyboardInterrupt, twice does not wait for it.

The host is a program of its own, so that the signal is a real one.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from types import TracebackType

import trio

import trio_acp
from tests.client_process.agents import Agents, elapsed_since
from tests.transports.agents import Lives

REPOSITORY = pathlib.Path(trio_acp.__file__).parent.parent

HOST = """
import sys, trio
from trio_acp.client import AcpOptions, open_acp

options = AcpOptions(command=sys.argv[1], args=sys.argv[2:], {options})

async def main():
{body}

try:
    trio.run(main)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
except BaseException as error:
    print(repr(error), flush=True)
"""

ONE_TURN = """
async with open_acp(options) as agent:
    session = await agent.new_session()
    async with session.prompt("go") as turn:
        async for update in turn:
            print("update", flush=True)
"""


class Host:
    """A host program that runs; use as `async with`."""

    def __init__(self, agents: Agents, agent: list[str], body: str, options: str = "") -> None:
        path = agents.folder / "host.py"
        path.write_text(HOST.format(options=options, body=textwrap.indent(textwrap.dedent(body), "    ")))
        self._command = [sys.executable, str(path), *agent]
        self._process: trio.Process
        self._read = b""

    async def __aenter__(self) -> Host:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        self._process = await trio.lowlevel.open_process(
            self._command, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with trio.CancelScope(shield=True):
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            assert self._process.stdout is not None
            await self._process.stdout.aclose()

    async def says(self, line: str) -> None:
        """Wait until it has printed that line."""
        assert self._process.stdout is not None
        with trio.fail_after(20):
            while line not in self._read.decode().split("\n")[:-1]:
                chunk = await self._process.stdout.receive_some()
                assert chunk, f"the host ended after {self._read!r}"
                self._read += chunk

    def press_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    async def output(self) -> list[str]:
        """Wait for its end; return all that it has printed."""
        assert self._process.stdout is not None
        with trio.fail_after(20):
            async for chunk in self._process.stdout:
                self._read += chunk
            assert await self._process.wait() == 0
        return self._read.decode().split("\n")[:-1]


async def test_ctrl_c_in_a_turn_is_told_to_the_agent_and_leaves_as_itself(agents: Agents) -> None:
    """X1: session/cancel, then the end of the input; the agent itself gets no signal."""
    async with Lives() as lives:
        agent = agents.write("report('agent'); serve(until_cancelled)", lives)
        async with Host(agents, agent, ONE_TURN) as host:
            await lives.born("agent")
            await host.says("update")
            host.press_ctrl_c()
            assert await host.output() == ["update", "KeyboardInterrupt"]
        await lives.dead("agent")
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


async def test_ctrl_c_reaches_turns_in_other_tasks_as_a_cancellation(agents: Agents) -> None:
    body = """
    async with open_acp(options) as agent:
        async with trio.open_nursery() as nursery:
            @nursery.start_soon
            async def work():
                session = await agent.new_session()
                async with session.prompt("go") as turn:
                    async for update in turn:
                        print("update", flush=True)
            await trio.sleep_forever()
    """
    async with Lives() as lives:
        agent = agents.write("report('agent'); serve(until_cancelled)", lives)
        async with Host(agents, agent, body) as host:
            await lives.born("agent")
            await host.says("update")
            host.press_ctrl_c()
            (_, last) = await host.output()
        await lives.dead("agent")
    assert "KeyboardInterrupt()" in last  # in the group that the user's own nursery makes
    assert agents.seen == ["initialize", "session/new", "session/prompt", "session/cancel", "eof"]


async def test_ctrl_c_during_the_start_leaves_no_agent(agents: Agents) -> None:
    body = """
    async with open_acp(options):
        print("started", flush=True)
    """
    async with Lives() as lives:
        agent = agents.write("receive(); report('agent'); receive()", lives)
        async with Host(agents, agent, body) as host:
            await lives.born("agent")
            host.press_ctrl_c()
            assert await host.output() == ["KeyboardInterrupt"]
        await lives.dead("agent")
    assert agents.seen == ["initialize", "eof"]


LONG_GRACES = "cancel_grace=100, shutdown_grace=100"

IGNORES_ALL = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
report("agent")
def ignore(request):
    update("s", "working")
    while (message := receive()) is not None:
        if message.get("method") == "session/cancel":
            report("cancelled")
    report("input ended")
    sleep_for_ever()
serve(ignore)
report("input ended")
sleep_for_ever()
"""


async def test_a_second_ctrl_c_while_the_turn_is_being_cancelled_kills_the_agent_at_once(
    agents: Agents,
) -> None:
    async with Lives() as lives:
        agent = agents.write(IGNORES_ALL, lives)
        async with Host(agents, agent, ONE_TURN, LONG_GRACES) as host:
            await lives.born("agent")
            await host.says("update")
            start = trio.current_time()
            host.press_ctrl_c()
            await lives.born("cancelled")
            host.press_ctrl_c()
            assert await host.output() == ["update", "KeyboardInterrupt"]
            assert elapsed_since(start) < 15
        await lives.dead("agent")


async def test_a_second_ctrl_c_while_the_block_is_closing_kills_the_agent_at_once(agents: Agents) -> None:
    body = """
    async with open_acp(options) as agent:
        print("started", flush=True)
        await trio.sleep_forever()
    """
    async with Lives() as lives:
        agent = agents.write(IGNORES_ALL, lives)
        async with Host(agents, agent, body, LONG_GRACES) as host:
            await host.says("started")
            start = trio.current_time()
            host.press_ctrl_c()
            await lives.born("agent", "input ended")
            host.press_ctrl_c()
            assert await host.output() == ["started", "KeyboardInterrupt"]
            assert elapsed_since(start) < 15
        await lives.dead("agent")


async def test_ctrl_c_while_the_block_closes_after_its_normal_end_kills_the_agent_at_once(
    agents: Agents,
) -> None:
    body = """
    async with open_acp(options) as agent:
        pass
    """
    async with Lives() as lives:
        agent = agents.write(IGNORES_ALL, lives)
        async with Host(agents, agent, body, LONG_GRACES) as host:
            await lives.born("agent", "input ended")
            start = trio.current_time()
            host.press_ctrl_c()
            assert await host.output() == ["KeyboardInterrupt"]
            assert elapsed_since(start) < 15
        await lives.dead("agent")


async def test_a_host_that_survives_a_ctrl_c_has_its_agent_still(agents: Agents) -> None:
    """The process leads a group of its own: only the host decides what the interruption means to it."""
    body = """
    async with open_acp(options) as agent:
        session = await agent.new_session()
        try:
            async with session.prompt("go") as turn:
                async for update in turn:
                    print("update", flush=True)
        except KeyboardInterrupt:
            print(turn.stop_reason.value, flush=True)
        async with session.prompt("again") as turn:
            async for update in turn:
                print("second", flush=True)
                turn.cancel()
        print(turn.stop_reason.value, flush=True)
    """
    agent = agents.write("serve(until_cancelled)")
    async with Host(agents, agent, body) as host:
        await host.says("update")
        host.press_ctrl_c()
        assert await host.output() == ["update", "cancelled", "second", "cancelled"]
    assert agents.seen[-4:] == ["session/cancel", "session/prompt", "session/cancel", "eof"]

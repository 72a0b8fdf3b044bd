"""Every example runs by itself and does what its docstring says."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from trio_acp import (
    AcpOptions,
    AuthRequired,
    ConnectedAgent,
    PermissionRequest,
    Selected,
    SessionScope,
    connect_acp,
    open_acp,
)
from trio_acp.schema import (
    CreateElicitationFormRequest,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationAcceptAction,
    KillTerminalRequest,
    ReadTextFileRequest,
    ReleaseTerminalRequest,
    StopReason,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    ToolCallStatus,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from trio_acp.workspace import TerminalManager

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

OUTPUT = {
    "first_host": r"(?s).*AgentMessageChunk.*end_turn .*\bnotes\.txt\b.*",
    "live_updates": r"(?s).*\[[^\]]+: completed\].*notes\.txt.*",
    "stop_button": r"stopped: cancelled\nthe next turn: end_turn\n",
    "time_limit": r"stopped: True, the agent said cancelled\n",
    "permission_ask": r"(?s).*allow\? \[y/n\] .*hello\.txt.*",
    "many_sessions": r"3 answers from 3 sessions\n",
    "generate_text": r"(?s).+notes\.txt.*",
    "handle_errors": r"(?s)cannot start it \(spawn, not-found\)\n"
    r"cannot start it \(initialize, not-acp\)\n.*notes\.txt.*",
    "watch_wire": r"(?s)--> initialize\n<-- answer\n--> session/new\n.*--> session/prompt\n"
    r"(<-- session/update\n)+<-- answer\n",
    "extension_methods": r"3\n",
    "in_memory": r"You said: hello\n",
    "rude_agent": r"the agent is gone: .+\nseen: initialize, session/new, session/prompt\n",
    "every_checkpoint": r"cancelled at \d+ checkpoints, and legal each time\n",
    "own_stream": r"You said: hello\n",
    "serve_files": r"milk, bread\n\nno such file\n",
    "plan_mode": r"rejected: Write hello\.txt\nI may not write, so .*\nwritten: False\n",
    "live_transcript": r"(?s)  \(thinks: .*\[tool_call ls: .*  picked allow-once\n.*"
    r"reply: I have written hello\.txt\.\n",
    "stop_warm": r"stopped after: 'Thinking '\nI see notes\.txt\.\nsessions: 1\n",
    "approval_timeout": r"Write hello\.txt\? \[y/n\] I have written hello\.txt\.\nI may not write, .*\n",
    "model_stream": r"tool_call:ls:acp\ntool_result:ls:acp\nI see notes\.txt\.\n"
    r"ls-agent: 1 turn, 2 messages\n",
    "ten_agents": r"[1-9] answers, out of time: True\n",
    "workspace_host": r"Shout the notes: allow_once \(edits are fine\)\n"
    r"Post the notes: reject_once \(unattended\)\ncat: MILK, BREAD\n"
    r"refused: path: outside of the directories of this session\nexit code 0\n",
    "recover_session": r"saved: plan\nresumed\nreplayed: \[[^\n]*'user'[^\n]*'agent'[^\n]*\]\n",
    "check_agent": r"(pass: W3-[^\n]+\n){3,}",
    "content_blocks": r"TextContent ResourceLink \nnot sent: promptCapabilities\.image\n",
}
"""What a host prints, as a pattern for the whole of it. The working directory holds one file, notes.txt."""

AGENTS = {"first_agent", "tool_agent", "saved_sessions", "ls_agent", "class_agent"}
"""Agents, which have a test of their own below, or hosts above that drive them."""


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == OUTPUT.keys() | AGENTS


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("name", sorted(OUTPUT))
async def test_a_host_prints_what_it_should(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.txt").write_text("milk\n")
    result = await trio.run_process(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=environment(),
        stdin=b"y\n",
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert isinstance(result, subprocess.CompletedProcess)
    output = result.stdout.decode()
    assert result.returncode == 0, result.stderr.decode()
    assert re.fullmatch(OUTPUT[name], output), output


def options_for(agent: str, cwd: pathlib.Path, *args: str) -> AcpOptions:
    return AcpOptions(
        command=sys.executable,
        args=["-W", "error", str(EXAMPLES / f"{agent}.py"), *args],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.mark.parametrize(("allow", "answer"), [(True, "GOOD MORNING"), (False, "good morning")])
async def test_the_first_agent_shouts_only_if_it_may(
    allow: bool, answer: str, tmp_path: pathlib.Path
) -> None:
    async def decide(request: PermissionRequest) -> Selected:
        await trio.lowlevel.checkpoint()
        option = request.first_allow() if allow else request.first_reject()
        assert option is not None
        return Selected(option.option_id)

    options = options_for("first_agent", tmp_path)
    options.on_permission = decide
    async with open_acp(options) as agent:
        session = await agent.new_session()
        async with session.prompt("good morning") as turn:
            await turn.wait()
    assert turn.text == answer
    assert [message.role for message in turn.messages] == ["thought", "agent"]


async def test_an_agent_with_a_store_counts_prompts_and_takes_a_title(tmp_path: pathlib.Path) -> None:
    store = tmp_path / "store"
    async with open_acp(options_for("saved_sessions", tmp_path, str(store))) as agent:
        assert agent.capabilities.load_session
        session = await agent.new_session()
        texts: list[str] = []
        for prompt in ("one", "two", "/title Shopping"):
            async with session.prompt(prompt) as turn:
                await turn.wait()
            texts.append(turn.text)
        assert texts == ["This is prompt number 1.", "This is prompt number 2.", "Done."]
        assert session.state.title == "Shopping"
        assert [command.name for command in session.state.commands] == ["title"]
    (saved,) = store.glob("*.jsonl")
    assert "Shopping" in saved.read_text()


class Terminals:
    """Runs commands in one directory, one after the other; just enough for one agent."""

    def __init__(self, cwd: pathlib.Path) -> None:
        self.cwd = cwd
        self.output_text = ""
        self.open: set[str] = set()

    async def create(self, request: CreateTerminalRequest, session: SessionScope) -> CreateTerminalResponse:
        result = await trio.run_process(
            [request.command, *request.args], cwd=self.cwd, capture_stdout=True, check=True
        )
        self.output_text = result.stdout.decode()
        self.open.add("t")
        return CreateTerminalResponse("t")

    async def output(self, request: TerminalOutputRequest, session: SessionScope) -> TerminalOutputResponse:
        return TerminalOutputResponse(self.output_text, False, TerminalExitStatus(0))

    async def wait_for_exit(
        self, request: WaitForTerminalExitRequest, session: SessionScope
    ) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(0)

    async def kill(self, request: KillTerminalRequest, session: SessionScope) -> None:
        raise AssertionError("nothing runs long enough")

    async def release(self, request: ReleaseTerminalRequest, session: SessionScope) -> None:
        self.open.remove(request.terminal_id)


def counting_options() -> dict[str, Any]:
    async def fill_in(request: CreateElicitationFormRequest) -> ElicitationAcceptAction:
        await trio.lowlevel.checkpoint()
        return ElicitationAcceptAction({"end": "5"})

    return {"elicit_form": fill_in, "terminals": TerminalManager(), "auth": "agree"}


async def count(agent: ConnectedAgent) -> list[str]:
    """Two turns with the agent that counts, set up anew for the second one; what it thought and said."""
    session = await agent.new_session()
    said: list[str] = []
    for _ in range(2):
        async with session.prompt("count") as turn:
            await turn.wait()
        said += [message.text for message in turn.messages]
        assert {call.status for call in turn.tool_calls.values()} == {ToolCallStatus.COMPLETED}
        await session.set_mode("loud")
        await session.set_config_option("step", "2")
    return said


async def test_the_agent_that_is_a_class_wants_a_login_and_counts(tmp_path: pathlib.Path) -> None:
    async with open_acp(options_for("class_agent", tmp_path)) as agent:
        with pytest.raises(AuthRequired):
            await agent.new_session()
    options = attrs.evolve(options_for("class_agent", tmp_path), **counting_options())
    async with open_acp(options) as agent:
        thought, first, other, second = await count(agent)
        assert (thought.split(), first) == (["1", "2", "3", "4", "5"], "That was count 1.")
        assert (other.split(), second) == (["1", "3", "5"], "That was count 2!")
        assert await agent.request("_counter/limits", {}) == {"highest": 1000}


async def test_the_same_agent_serves_many_clients_at_a_port(tmp_path: pathlib.Path) -> None:
    from examples.class_agent import app

    async def be_a_client(port: int) -> None:
        async with trio.open_nursery() as connection:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            options = AcpOptions(cwd=tmp_path, **counting_options())
            agent = await connect_acp(connection, stream, options)
            said.append(await count(agent))
            await agent.aclose()

    said: list[list[str]] = []
    async with trio.open_nursery() as nursery:
        serve = partial(app.serve_listeners, await trio.open_tcp_listeners(0, host="127.0.0.1"))
        (listener,) = await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as clients:
            for _ in range(3):
                clients.start_soon(be_a_client, port)
        nursery.cancel_scope.cancel()
    assert [texts[1] for texts in said] == ["That was count 1."] * 3


async def test_the_agent_with_tools_reads_runs_and_asks(tmp_path: pathlib.Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("milk\nbread\n")

    async def read_text_file(request: ReadTextFileRequest) -> str:
        return await trio.Path(request.path).read_text()

    options = options_for("tool_agent", tmp_path)
    options.read_text_file = read_text_file
    options.terminals = terminals = Terminals(tmp_path)
    async with open_acp(options) as agent:
        session = await agent.new_session()
        async with session.prompt("count") as turn:
            await turn.wait()
        # Without a handler the first option is taken: yes, and words.
        assert turn.text == "The number of lines is 2."
        assert {call.status for call in turn.tool_calls.values()} == {ToolCallStatus.COMPLETED}
        assert turn.plan is not None
        assert [entry.content for entry in turn.plan] == ["read the notes", "count them"]
        assert not terminals.open

        notes.unlink()
        async with session.prompt("count") as turn:
            await turn.wait()
        assert turn.stop_reason is StopReason.REFUSAL
        assert [call.status for call in turn.tool_calls.values()] == [ToolCallStatus.FAILED]

"""Whole turns with agents that were built with the official SDKs, each test with each of them."""

from __future__ import annotations

import pathlib
import subprocess
from typing import Any

import pytest
import trio

from tests.interop.peers import Peer
from trio_acp import AuthRequired, InternalError, MethodNotFound, SessionScope
from trio_acp.client import (
    AcpOptions,
    Cancelled,
    PermissionRequest,
    Reject,
    Selected,
    Turn,
    open_acp,
)
from trio_acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CreateTerminalRequest,
    CreateTerminalResponse,
    Diff,
    ImageContent,
    KillTerminalRequest,
    Plan,
    PlanEntryStatus,
    ReadTextFileRequest,
    ReleaseTerminalRequest,
    StopReason,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    TextContent,
    ToolCall,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
)

pytestmark = pytest.mark.interop

LIMIT = 50
"""Seconds for one test: starting Node and Python on a busy machine included."""


async def one_turn(options: AcpOptions, word: str) -> tuple[Turn, list[Any]]:
    """Open, one session, one turn, close; return the turn and its updates."""
    updates: list[Any] = []
    with trio.fail_after(LIMIT):
        async with open_acp(options) as agent:
            session = await agent.new_session()
            async with session.prompt(word) as turn:
                updates.extend([update async for update in turn])
            statistics = agent.statistics()
    assert (statistics.junk_lines, statistics.updates_dropped, statistics.leniencies) == (0, 0, 0)
    assert (statistics.open_requests, statistics.open_agent_requests) == (0, 0)
    return turn, updates


async def test_introductions_and_a_session(peer: Peer) -> None:
    """I1, I2, S1, S7."""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            assert agent.info is not None
            assert (agent.info.name, agent.info.version) == (peer.name, "1")
            assert agent.protocol_version == 1
            assert agent.capabilities.prompt_capabilities.image
            assert agent.capabilities.load_session
            session = await agent.new_session()
            assert session.id == "session-0"
            assert session.state.modes is not None
            assert [mode.id for mode in session.state.modes.available_modes] == ["ask", "go"]
            await session.set_mode("go")
            assert session.state.modes.current_mode_id == "go"


async def test_messages_and_thoughts(peer: Peer) -> None:
    """T2, T5, and text beyond ASCII."""
    turn, updates = await one_turn(peer.options(), "talk")
    assert [type(update) for update in updates] == [AgentThoughtChunk, AgentMessageChunk, AgentMessageChunk]
    assert turn.text == "Hello, wörld 🎉"
    assert [message.text for message in turn.messages] == ["Let me see.", "Hello, wörld 🎉"]
    assert turn.stop_reason is StopReason.END_TURN


async def test_a_plan_replaces_the_one_before(peer: Peer) -> None:
    """S8."""
    turn, updates = await one_turn(peer.options(), "plan")
    assert [type(update) for update in updates] == [Plan, Plan]
    assert turn.plan is not None
    assert [(entry.content, entry.status) for entry in turn.plan] == [("Think", PlanEntryStatus.COMPLETED)]


@pytest.mark.parametrize(
    ("decision", "outcome", "status"),
    [
        (None, "yes", ToolCallStatus.COMPLETED),
        (Selected("always"), "always", ToolCallStatus.COMPLETED),
        (Reject(), "no", ToolCallStatus.FAILED),
        (Cancelled(), "cancelled", ToolCallStatus.FAILED),
    ],
)
async def test_a_tool_call_with_permission(
    peer: Peer, decision: Any, outcome: str, status: ToolCallStatus
) -> None:
    """P1 to P3, T4: announced, asked for, answered, settled."""
    asked: list[PermissionRequest] = []

    async def decide(request: PermissionRequest) -> Any:
        asked.append(request)
        return decision

    options = peer.options(on_permission=None if decision is None else decide)
    turn, updates = await one_turn(options, "tool")
    assert [type(update) for update in updates] == [ToolCall, ToolCallUpdate, AgentMessageChunk]
    assert turn.text == f"outcome: {outcome}"
    call = turn.tool_calls["call"]
    assert (call.title, call.kind, call.status) == ("Write the file", ToolKind.EDIT, status)
    assert call.raw_input == {"text": "new"}
    (diff,) = call.content
    assert isinstance(diff, Diff)
    assert (diff.path, diff.old_text, diff.new_text) == ("/x/file.txt", "old", "new")
    (location,) = call.locations
    assert (location.path, location.line) == ("/x/file.txt", 3)
    for request in asked:
        assert [option.option_id for option in request.options] == ["no", "yes", "always"]
        assert request.tool_call.title == "Write the file"
        assert request.tool_call.raw_input == {"text": "new"}  # merged with what was announced


async def test_the_stop_button_in_a_turn_and_a_second_prompt(peer: Peer) -> None:
    """X1, X2: the turn ends as cancelled with what was said until then, and the session is warm."""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            async with session.prompt("slow") as turn:
                async for _ in turn:
                    turn.cancel()
            assert turn.stop_reason is StopReason.CANCELLED
            assert turn.text == "working, stopped"
            async with session.prompt("talk") as turn:
                pass
            assert (turn.stop_reason, turn.text) == (StopReason.END_TURN, "Hello, wörld 🎉")


async def test_a_cancellation_while_a_permission_is_open(peer: Peer) -> None:
    """X1: the agent gets its answer, `cancelled`, and ends the turn."""
    with trio.fail_after(LIMIT):
        opened = trio.Event()

        async def never(request: PermissionRequest) -> Cancelled:
            opened.set()
            await trio.sleep_forever()
            raise AssertionError

        async with open_acp(peer.options(on_permission=never, permission_timeout=1000)) as agent:
            session = await agent.new_session()
            async with session.prompt("tool") as turn:
                await opened.wait()
                turn.cancel()
                await turn.wait()
            assert turn.stop_reason is StopReason.CANCELLED
            assert turn.text == "outcome: cancelled"
            assert turn.tool_calls["call"].status is ToolCallStatus.FAILED


async def test_a_cancelled_scope_around_a_turn(peer: Peer) -> None:
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            with trio.CancelScope() as scope:
                async with session.prompt("slow") as turn:
                    async for _ in turn:
                        scope.cancel()
            assert scope.cancelled_caught
            assert (turn.stop_reason, turn.abandoned) == (StopReason.CANCELLED, False)
            assert await agent.generate("talk") == "Hello, wörld 🎉"


async def test_a_cancelled_scope_around_everything(peer: Peer) -> None:
    with trio.fail_after(LIMIT), trio.CancelScope() as scope:
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            async with session.prompt("slow") as turn:
                async for _ in turn:
                    scope.cancel()
    assert scope.cancelled_caught
    assert turn.stop_reason is StopReason.CANCELLED


async def test_two_sessions_at_once_are_independent(peer: Peer) -> None:
    """T1: one works and is cancelled at last, while the other one has several turns."""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            slow, quick = await agent.new_session(), await agent.new_session()
            async with slow.prompt("slow") as working:
                for _ in range(3):
                    async with quick.prompt("talk") as turn:
                        texts = [update async for update in turn]
                    assert len(texts) == 3
                    assert turn.text == "Hello, wörld 🎉"
                assert working.stop_reason is None
                working.cancel()
            assert (working.stop_reason, working.text) == (StopReason.CANCELLED, "working, stopped")


async def test_files_of_the_client(peer: Peer, tmp_path: pathlib.Path) -> None:
    """F1, and W10 for a file that is not there."""
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    requests: list[ReadTextFileRequest] = []

    async def read(request: ReadTextFileRequest) -> str:
        requests.append(request)
        lines = (await trio.Path(request.path).read_text()).splitlines(keepends=True)
        start = (request.line or 1) - 1
        return "".join(lines[start : None if request.limit is None else start + request.limit])

    async def write(request: WriteTextFileRequest) -> None:
        await trio.Path(request.path).write_text(request.content)

    options = peer.options(cwd=str(tmp_path), read_text_file=read, write_text_file=write)
    turn, _ = await one_turn(options, "files")
    assert (tmp_path / "out.txt").read_text() == "TWO\n"
    assert [(request.line, request.limit) for request in requests] == [(2, 1), (None, None)]
    assert turn.text == "missing: -32002"


class Terminals:
    """Runs each command to its end and keeps what it printed."""

    def __init__(self) -> None:
        self.ended: list[subprocess.CompletedProcess[bytes]] = []
        self.released: list[str] = []

    async def create(self, request: CreateTerminalRequest, session: SessionScope) -> CreateTerminalResponse:
        command = [request.command, *request.args]
        self.ended.append(await trio.run_process(command, capture_stdout=True, cwd=request.cwd))
        return CreateTerminalResponse(terminal_id=f"t{len(self.ended) - 1}")

    def _ended(self, terminal_id: str) -> subprocess.CompletedProcess[bytes]:
        return self.ended[int(terminal_id[1:])]

    async def output(self, request: TerminalOutputRequest, session: SessionScope) -> TerminalOutputResponse:
        ended = self._ended(request.terminal_id)
        status = TerminalExitStatus(exit_code=ended.returncode)
        return TerminalOutputResponse(output=ended.stdout.decode(), truncated=False, exit_status=status)

    async def wait_for_exit(
        self, request: WaitForTerminalExitRequest, session: SessionScope
    ) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(exit_code=self._ended(request.terminal_id).returncode)

    async def kill(self, request: KillTerminalRequest, session: SessionScope) -> None:
        raise AssertionError("nobody asked for that")

    async def release(self, request: ReleaseTerminalRequest, session: SessionScope) -> None:
        self.released.append(request.terminal_id)


async def test_a_terminal_of_the_client(peer: Peer, tmp_path: pathlib.Path) -> None:
    """F2, F3."""
    terminals = Terminals()
    turn, _ = await one_turn(peer.options(cwd=str(tmp_path), terminals=terminals), "terminal")
    assert turn.text == "0: from here\n"
    assert terminals.released == ["t0"]


async def test_a_message_of_five_megabytes_arrives_whole(peer: Peer) -> None:
    """W1: far above what one read of a pipe brings."""
    turn, updates = await one_turn(peer.options(), "huge")
    assert len(updates) == 1
    assert turn.text == "0123456789" * 500_000


async def test_a_prompt_of_five_megabytes_is_sent_whole(peer: Peer) -> None:
    """The same in the other direction: the first block is the word, the second one is large."""
    image = ImageContent(data="QUJD" * 1_250_000, mime_type="image/png")
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            async with session.prompt([TextContent("talk"), image]) as turn:
                pass
            assert turn.text == "Hello, wörld 🎉"


async def test_many_updates_arrive_in_order(peer: Peer) -> None:
    turn, updates = await one_turn(peer.options(), "many")
    assert len(updates) == 2000
    assert turn.text == "".join(f"{count} " for count in range(2000))


async def test_an_extension_method_is_served(peer: Peer) -> None:
    """N1: names and values travel unchanged, null in a free-form value too."""

    async def echo(params: dict[str, Any]) -> dict[str, Any]:
        return {"echo": params["value"]}

    turn, _ = await one_turn(peer.options(extensions={"_peer/echo": echo}), "extension")
    assert turn.text == '[1,null,"ä"]'


async def test_a_method_that_is_not_offered_is_refused(peer: Peer) -> None:
    """W4, I3: the agent gets -32601, and the turn goes on."""
    turn, _ = await one_turn(peer.options(), "unoffered")
    assert turn.text == "refused: -32601"


async def test_a_prompt_that_is_refused_raises_what_the_agent_said(peer: Peer) -> None:
    """W10, and the session is usable after it."""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            with pytest.raises(AuthRequired, match="no account") as caught:
                async with session.prompt("fail") as turn:
                    await turn.wait()
            assert caught.value.data == {"hint": "log in"}
            async with session.prompt("talk") as turn:
                pass
            assert turn.text == "Hello, wörld 🎉"


async def test_an_agent_that_crashes_in_a_turn_stays_usable(peer: Peer) -> None:
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            with pytest.raises(InternalError):
                async with session.prompt("crash"):
                    pass
            assert await agent.generate("talk") == "Hello, wörld 🎉"


async def test_a_method_that_the_agent_does_not_know_fails_that_call_only(peer: Peer) -> None:
    """W4, W5: the request raises, the notification is ignored, the agent is as before."""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            with pytest.raises(MethodNotFound):
                await agent.request("_not/offered")
            await agent.notify("_not/offered")
            assert await agent.generate("talk") == "Hello, wörld 🎉"

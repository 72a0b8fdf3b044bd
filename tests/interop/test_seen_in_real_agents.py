"""What released coding agents were seen to do on the wire and one would not expect, as small scripted agents.

None of it may cost a turn. Each test plays the messages of one such agent, with its ids, its order of keys
and its additional fields.
"""

from __future__ import annotations

import pathlib
import textwrap
from typing import Any

import pytest
import trio

from tests.client_process.agents import Agents, elapsed_since
from tests.transports.agents import Lives
from trio_acp import LocalProtocolError, SessionScope
from trio_acp.client import Cancelled, PermissionRequest, Reject, Selected, open_acp
from trio_acp.schema import (
    AgentMessageChunk,
    AuthMethodAgent,
    AvailableCommandsUpdate,
    CreateTerminalRequest,
    CreateTerminalResponse,
    PermissionOptionKind,
    SessionConfigSelect,
    StopReason,
    ToolCallStatus,
    ToolCallUpdate,
    UnknownVariant,
    UsageUpdate,
    unstructure,
)

LIMIT = 30


@pytest.fixture
def agents(tmp_path: pathlib.Path) -> Agents:
    """Writes the agents of a test."""
    return Agents(tmp_path)


PLAY = """
import re

def raw(line):
    "A message as it stands, key order and all."
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()

def tell(**update):
    send(method="session/update", params={"sessionId": "s", "update": update})

def say(text, **more):
    tell(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}, **more)

OPTIONS = [
    {"kind": "allow_always", "name": "Always Allow", "optionId": "allow_always"},
    {"kind": "allow_once", "name": "Allow", "optionId": "allow"},
    {"kind": "reject_once", "name": "Reject", "optionId": "reject"},
]

def ask(id, **call):
    send(id=id, method="session/request_permission",
         params={"options": OPTIONS, "sessionId": "s", "toolCall": {"toolCallId": "t", **call}})
    message = receive()
    assert message["id"] == id and type(message["id"]) is type(id), message
    outcome = message["result"]["outcome"]
    return outcome.get("optionId", outcome["outcome"])
"""


def script(turn: str) -> str:
    """An agent whose turns are this code; `request` is the prompt."""
    return PLAY + "def turn(request):\n" + textwrap.indent(textwrap.dedent(turn), "    ") + "\nserve(turn)"


END = 'answer(request, {"stopReason": "end_turn"})'


# Ids and the order of keys -------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [0, 1, 3, "068b1e38-df8c-4fcf-99e6-3c9c89d6972a"])
async def test_ids_of_the_agent_start_at_zero_overlap_ours_or_are_strings(agents: Agents, id: object) -> None:
    """W3: each direction has its own; they come back with their exact type."""
    body = script(f"say(ask({id!r}, title='Write')); {END}")
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            assert await agent.generate("go") == "allow_always"
            assert await agent.generate("go") == "allow_always"


async def test_the_id_may_be_the_last_key_of_a_message(agents: Agents) -> None:
    """JSON objects have no order: requests and answers that end with their id are as good as others."""
    body = script(
        """
        params = json.dumps({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": OPTIONS})
        raw('{"jsonrpc":"2.0","method":"session/request_permission","params":%s,"id":"u"}' % params)
        say(receive()["result"]["outcome"]["optionId"])
        raw('{"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":%d}' % request["id"])
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            assert await agent.generate("go") == "allow_always"


# Capabilities ---------------------------------------------------------------------------------------------


async def test_a_client_method_that_was_not_offered_is_called_all_the_same(agents: Agents) -> None:
    """I3, W4: it gets -32601, and the turn goes on: one agent does so behind a file that it wrote itself."""
    body = script(
        f"""
        send(id=1, method="fs/write_text_file", params={{"sessionId": "s", "path": "/x", "content": "hi"}})
        say(str(receive()["error"]["code"]))
        {END}
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            assert await agent.generate("go") == "-32601"


async def test_capabilities_and_auth_methods_of_drafts_are_kept_and_not_used(agents: Agents) -> None:
    """W8, U1: unknown members stay readable; a method of an unknown kind cannot be chosen."""
    body = """
        initialize(
            agentCapabilities={"sessionCapabilities": {"fork": {}, "list": {}},
                               "mcpCapabilities": {"http": True, "sse": False, "acp": False},
                               "_meta": {"vendor": {"promptQueueing": True}}},
            authMethods=[{"description": "In the terminal", "name": "Log in", "id": "login"},
                         {"type": "env_var", "id": "key", "name": "Use KEY", "vars": [{"name": "KEY"}]}])
        receive()
        """
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            known, unknown = agent.auth_methods
            assert isinstance(known, AuthMethodAgent)
            assert isinstance(unknown, UnknownVariant)
            assert (unknown.tag, unknown.payload["vars"]) == ("env_var", [{"name": "KEY"}])
            with pytest.raises(LocalProtocolError, match="login"):
                await agent.authenticate("key")
            capabilities = unstructure(agent.capabilities)
            assert capabilities["sessionCapabilities"] == {"fork": {}, "list": {}}
            assert capabilities["mcpCapabilities"]["acp"] is False
            assert capabilities["_meta"] == {"vendor": {"promptQueueing": True}}
            assert agent.statistics().leniencies == 0
    assert agents.seen == ["initialize", "eof"]


async def test_legacy_models_in_a_new_session_do_no_harm(agents: Agents) -> None:
    """W8, S7: modes and config options next to them are read."""
    body = """
        initialize()
        modes = [{"id": "default", "name": "Default", "description": "Asks"}]
        option = {"id": "mode", "name": "Mode", "category": "mode", "type": "select",
                  "currentValue": "default", "options": [{"value": "default", "name": "Default"}]}
        answer(receive(), {"sessionId": "s",
            "models": {"availableModels": [{"modelId": "m", "name": "M"}], "currentModelId": "m"},
            "modes": {"currentModeId": "default", "availableModes": modes}, "configOptions": [option]})
        receive()
        """
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            assert session.state.modes is not None
            assert session.state.modes.current_mode_id == "default"
            (option,) = session.state.config_options
            assert isinstance(option, SessionConfigSelect)
            assert (option.id, option.current_value) == ("mode", "default")


# Tool calls -----------------------------------------------------------------------------------------------


async def test_a_tool_call_may_begin_with_an_update_and_have_no_status(agents: Agents) -> None:
    """T4: an agent that remembers a call's id from another session does not announce it again."""
    body = script(
        f"""
        tell(_meta={{"vendor": {{"toolName": "Write"}}}}, toolCallId="t", sessionUpdate="tool_call_update",
             rawInput={{}}, title="Write", kind="edit", content=[], locations=[])
        tell(toolCallId="t", sessionUpdate="tool_call_update", rawInput={{"file": "x"}}, title="Write x")
        {END}
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                updates = [update async for update in turn]
    assert [type(update) for update in updates] == [ToolCallUpdate, ToolCallUpdate]
    first = updates[0]
    assert isinstance(first, ToolCallUpdate)
    assert first.meta == {"vendor": {"toolName": "Write"}}
    call = turn.tool_calls["t"]
    assert (call.title, call.status, call.raw_input) == ("Write x", None, {"file": "x"})


async def test_the_same_call_id_in_two_sessions_is_two_calls(agents: Agents) -> None:
    """Ids are unique within a session only."""
    body = """
        initialize()
        for session in ("one", "two"):
            answer(receive(), {"sessionId": session})
        for session, title in (("one", "First"), ("two", "Second")):
            request = receive()
            send(method="session/update", params={"sessionId": session, "update":
                 {"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": title}})
            answer(request, {"stopReason": "end_turn"})
        receive()
        """
    titles: list[str] = []
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            for session in [await agent.new_session(), await agent.new_session()]:
                async with session.prompt("go") as turn:
                    pass
                titles += [call.title for call in turn.tool_calls.values()]
    assert titles == ["First", "Second"]


async def test_a_permission_request_may_put_a_call_back_and_rename_it(agents: Agents) -> None:
    """The last word counts, whoever says it: in progress, then pending again, another title at the end."""
    asked: list[PermissionRequest] = []

    async def allow(request: PermissionRequest) -> Selected:
        asked.append(request)
        return Selected("allow")

    body = script(
        f"""
        tell(sessionUpdate="tool_call", toolCallId="t", title="write", kind="edit", status="pending",
             locations=[], rawInput={{}})
        tell(sessionUpdate="tool_call_update", toolCallId="t", title="write", status="in_progress",
             locations=[{{"path": "/x"}}])
        ask(0, title="/x", status="pending", kind="edit")
        tell(sessionUpdate="tool_call_update", toolCallId="t", title="x", status="completed",
             rawOutput={{"output": "Wrote file successfully.", "metadata": {{"diagnostics": {{}}}}}})
        {END}
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body, on_permission=allow)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                pass
    (request,) = asked
    assert (request.tool_call.title, request.tool_call.status) == ("/x", ToolCallStatus.PENDING)
    assert [location.path for location in request.tool_call.locations] == ["/x"]
    call = turn.tool_calls["t"]
    assert (call.title, call.status) == ("x", ToolCallStatus.COMPLETED)


async def test_allow_always_may_be_listed_first_and_a_rejection_needs_no_allow_option(agents: Agents) -> None:
    """P2: kinds decide, never the position; without a handler the agent's order does, as documented."""
    decisions: list[Any] = []
    requests: list[PermissionRequest] = []

    async def decide(request: PermissionRequest) -> Any:
        requests.append(request)
        return decisions.pop(0)

    decisions += [Reject(), Selected("allow"), Cancelled()]
    body = script(f"say(ask(0)); {END}")
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body, on_permission=decide)) as agent:
            answers = [await agent.generate("go") for _ in range(3)]
    assert answers == ["reject", "allow", "cancelled"]
    first = requests[0].first_allow()
    assert first is not None
    assert first.kind is PermissionOptionKind.ALLOW_ALWAYS


async def test_a_command_line_may_stand_where_a_program_should(agents: Agents) -> None:
    """F1 and F2 leave it to the host's terminals: the request reaches them as it came, without a cwd."""
    requests: list[CreateTerminalRequest] = []

    class Terminals:
        async def create(
            self, request: CreateTerminalRequest, session: SessionScope
        ) -> CreateTerminalResponse:
            requests.append(request)
            return CreateTerminalResponse(terminal_id="t1")

        async def _unused(self, request: Any, session: SessionScope) -> Any:
            raise AssertionError("not asked for")

        output = wait_for_exit = kill = release = _unused

    body = script(
        f"""
        send(id=0, method="terminal/create", params={{"sessionId": "s", "command": "ls -la | head -n 3"}})
        say(receive()["result"]["terminalId"])
        {END}
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body, terminals=Terminals())) as agent:
            assert await agent.generate("go") == "t1"
    (request,) = requests
    assert (request.command, request.args, request.cwd) == ("ls -la | head -n 3", [], None)


# Ends of turns --------------------------------------------------------------------------------------------


async def test_a_rejection_may_end_the_turn_as_cancelled_with_the_call_left_pending(agents: Agents) -> None:
    """T3: the reason is the agent's; that it was not asked for by us can be seen."""

    async def reject(request: PermissionRequest) -> Reject:
        return Reject()

    body = script(
        """
        if "again" in json.dumps(request):
            say("warm")
            answer(request, {"stopReason": "end_turn"})
            return
        tell(sessionUpdate="tool_call", toolCallId="t", title="Edit", status="pending")
        ask("068b1e38", title="Edit")
        tell(sessionUpdate="usage_update", used=15, size=258400)
        answer(request, {"stopReason": "cancelled"})
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body, on_permission=reject)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                pass
            async with session.prompt("again") as again:
                pass
    assert (turn.stop_reason, turn.cancel_requested) == (StopReason.CANCELLED, False)
    assert turn.tool_calls["t"].status is ToolCallStatus.PENDING
    assert turn.usage == UsageUpdate(used=15, size=258400)
    assert again.text == "warm"


async def test_a_prompt_behind_a_cancelled_one_may_end_at_once_and_without_a_word(agents: Agents) -> None:
    """One agent takes the end of the cancelled work for that of the next prompt: an empty turn, no error."""
    body = script(
        """
        if "second" in json.dumps(request):
            answer(request, {"stopReason": "end_turn", "usage": {"inputTokens": 0, "totalTokens": 0}})
        elif "third" in json.dumps(request):
            polite_turn(request)
        else:
            until_cancelled(request)
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            async with session.prompt("first") as turn:
                async for _ in turn:
                    turn.cancel()
            async with session.prompt("second") as empty:
                assert [update async for update in empty] == []
            async with session.prompt("third") as third:
                pass
    assert (turn.stop_reason, empty.stop_reason) == (StopReason.CANCELLED, StopReason.END_TURN)
    assert (empty.text, empty.messages, empty.usage) == ("", [], None)
    assert third.text == "hello"


async def test_additional_fields_of_an_answer_to_a_prompt_do_no_harm(agents: Agents) -> None:
    """W8: token counts of a draft, and an empty `_meta`."""
    body = script(
        """
        say("done")
        answer(request, {"stopReason": "end_turn", "_meta": {},
                         "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}})
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                pass
            assert agent.statistics().leniencies == 0
    assert (turn.stop_reason, turn.text) == (StopReason.END_TURN, "done")
    assert turn.response is not None
    assert turn.response.meta == {}
    assert turn.response.extra == {"usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}}


# Updates --------------------------------------------------------------------------------------------------


async def test_commands_that_come_behind_the_new_session_are_of_the_session_and_of_the_next_turn(
    agents: Agents,
) -> None:
    """S8, G18: whether they arrive before the prompt or after it, the session's state has them."""
    body = script(
        f"""
        command = {{"name": "init", "description": "Write the guide", "input": None}}
        tell(sessionUpdate="available_commands_update", availableCommands=[command])
        say("")
        say("done")
        {END}
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                kinds = [type(update) async for update in turn]
            assert [command.name for command in session.state.commands] == ["init"]
    assert kinds == [AvailableCommandsUpdate, AgentMessageChunk, AgentMessageChunk]
    assert (turn.text, len(turn.messages)) == ("done", 1)


async def test_thoughts_and_messages_have_ids_of_different_kinds(agents: Agents) -> None:
    """T5: a messageId groups the chunks of one message, whatever it looks like."""
    body = script(
        f"""
        thought = {{"type": "text", "text": "Thinking."}}
        tell(sessionUpdate="agent_thought_chunk", messageId="prt_1", content=thought)
        say("I will write it.", messageId="msg_1")
        tell(sessionUpdate="agent_thought_chunk", messageId="prt_2", content=thought)
        say("do", messageId="msg_2")
        say("ne", messageId="msg_2")
        {END}
        """
    )
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body)) as agent:
            session = await agent.new_session()
            async with session.prompt("go") as turn:
                pass
    assert [message.text for message in turn.messages] == [
        "Thinking.",
        "I will write it.",
        "Thinking.",
        "done",
    ]
    assert turn.text == "I will write it.done"


# Ends of processes ----------------------------------------------------------------------------------------


async def test_an_agent_that_overlooks_the_end_of_its_input_is_ended_by_a_signal(agents: Agents) -> None:
    """Two of three agents do not exit by themselves: one grace, then SIGTERM, and no harm done."""
    body = "report('agent'); serve(polite_turn); sleep_for_ever()"
    async with Lives() as lives:
        with trio.fail_after(LIMIT):
            async with open_acp(agents.options(body, lives, shutdown_grace=0.2)) as agent:
                await lives.born("agent")
                assert await agent.generate("go") == "hello"
                start = trio.current_time()
            assert 0.2 <= elapsed_since(start) < 5
        await lives.dead("agent")


async def test_a_warning_on_stderr_at_the_start_is_no_failure(agents: Agents) -> None:
    lines: list[str] = []
    body = "print('WARNING: proceeding, even though ...', file=sys.stderr, flush=True)\nserve(polite_turn)"
    with trio.fail_after(LIMIT):
        async with open_acp(agents.options(body, on_stderr=lines.append)) as agent:
            assert await agent.generate("go") == "hello"
    assert lines == ["WARNING: proceeding, even though ..."]

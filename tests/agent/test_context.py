"""What a prompt handler can tell and ask: updates, tool calls, files, terminals, questions."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import EVERYTHING, HOLD, ScriptedClient, WireError, agent, connected
from trio_acp import _errors as errors
from trio_acp.agent import CommandResult, ConnectedClient, PromptContext, TerminalHandle, ToolCallContext
from trio_acp.agent._asking import check_answers
from trio_acp.agent._terminals import news_in
from trio_acp.schema import (
    AgentThoughtChunk,
    BooleanPropertySchema,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    CreateElicitationUrlRequest,
    CurrentModeUpdate,
    ElicitationAcceptAction,
    ElicitationSchema,
    EnumOption,
    ImageContent,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    PermissionOption,
    ReadTextFileRequest,
    RequestPermissionRequest,
    SessionInfoUpdate,
    StringMultiSelectItems,
    StringPropertySchema,
    TextContent,
    TitledMultiSelectItems,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
    UnknownVariant,
)


async def run(
    handler: Callable[[PromptContext], Awaitable[Any]],
    script: Callable[[ScriptedClient], Any] = lambda client: None,
    capabilities: dict[str, Any] | None = None,
) -> tuple[Any, ScriptedClient]:
    """Run a handler in one turn with a client set up by ``script``; return its result, and the client."""
    results: list[Any] = []

    async def prompt(ctx: PromptContext) -> None:
        results.append(await handler(ctx))

    async with connected(agent(prompt), capabilities) as client:
        script(client)
        assert await client.prompt(await client.new_session()) == {"stopReason": "end_turn"}
    return results[0], client


def replier(reply: Any) -> Callable[[dict[str, Any]], Any]:
    if isinstance(reply, list):
        left = iter(reply)
        return lambda params: next(left)
    return reply if callable(reply) else lambda params: reply


def answering(**replies: Any) -> Callable[[ScriptedClient], None]:
    """Set up a client that gives one reply, or replies in turn, to each method."""
    replies = {name.replace("__", "/"): reply for name, reply in replies.items()}

    def script(client: ScriptedClient) -> None:
        for method, reply in replies.items():
            client.on[method] = replier(reply)

    return script


# Updates (T2, T5) --------------------------------------------------------------------------------------


async def test_pieces_in_a_row_are_one_message_and_what_people_see_between_them_ends_it() -> None:
    """T5, S3: thoughts, tool calls and plans end a message; usage and titles do not."""

    async def handler(ctx: PromptContext) -> None:
        await ctx.send_message("a")
        await ctx.send_message("b")
        await ctx.send_usage(1, 2)
        await ctx.set_title("t")
        await ctx.send_message("c")
        await ctx.send_thought("d")
        await ctx.send_message("e")
        async with ctx.tool_call("t"):
            await ctx.send_message("f")
        await ctx.send_message("g")
        await ctx.send_plan(["p"])
        await ctx.send_message("h")
        ctx.new_message()
        await ctx.send_message("i")
        await ctx.send_message("j", message_id="own")
        await ctx.send_message("k")
        await ctx.send_update(CurrentModeUpdate("m"))
        await ctx.send_message("l")

    _, client = await run(handler)
    groups: dict[str, str] = {}
    for update in client.updates("agent_message_chunk", "agent_thought_chunk"):
        groups.setdefault(update["messageId"], "")
        groups[update["messageId"]] += update["content"]["text"]
    assert list(groups.values()) == ["abc", "d", "e", "f", "g", "h", "i", "jkl"]
    assert groups["own"] == "jkl"


async def test_any_content_block_can_be_a_message() -> None:
    async def handler(ctx: PromptContext) -> None:
        await ctx.send_message(ImageContent("aGk=", "image/png"))
        await ctx.send_thought(TextContent("t", meta={"a": 1}))

    _, client = await run(handler)
    assert [update["content"] for update in client.updates()] == [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "text", "text": "t", "_meta": {"a": 1}},
    ]


async def test_raw_updates_go_out_as_they_are_and_are_remembered() -> None:
    """W8"""

    async def handler(ctx: PromptContext) -> Any:
        await ctx.send_update(AgentThoughtChunk(TextContent("t")))
        await ctx.send_update({"sessionUpdate": "_odd", "x": [1]})
        await ctx.send_update(UnknownVariant("_other", {"sessionUpdate": "_other", "y": 2}))
        await ctx.send_update(SessionInfoUpdate(title="a title"))
        await ctx.send_update(SessionInfoUpdate(updated_at="now"))
        await ctx.send_update(ConfigOptionUpdate([]))
        await ctx.send_update(ToolCallUpdate("x", title="y"))
        for wrong in ({}, {"sessionUpdate": 5}):
            with pytest.raises(ValueError, match="sessionUpdate"):
                await ctx.send_update(wrong)
        return ctx.session.title, ctx.session.config_options

    result, client = await run(handler)
    assert result == ("a title", [])
    assert client.updates()[1:3] == [
        {"sessionUpdate": "_odd", "x": [1]},
        {"sessionUpdate": "_other", "y": 2},
    ]
    assert client.updates()[-1]["sessionUpdate"] == "tool_call_update"


async def test_updates_that_need_a_capability_are_not_sent_without_it() -> None:
    """I3"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(errors.CapabilityError, match=r"session\.notices"):
            await ctx.send_notice("info", "x")
        for tag in ("compaction_update", "compaction_summary_chunk"):
            with pytest.raises(errors.CapabilityError, match=r"session\.compaction"):
                await ctx.send_update({"sessionUpdate": tag})

    _, client = await run(handler, capabilities={"session": {"notices": None}})
    assert client.updates() == []

    async def allowed(ctx: PromptContext) -> None:
        await ctx.send_update(CompactionUpdate("c", "in_progress"))

    _, client = await run(allowed)
    assert client.updates("compaction_update") == [
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}
    ]


# Tool calls (T4) ---------------------------------------------------------------------------------------


def statuses(client: ScriptedClient) -> list[str]:
    return [
        update["status"] for update in client.updates("tool_call", "tool_call_update") if "status" in update
    ]


async def test_a_tool_call_is_pending_then_in_progress_then_completed() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        call = ctx.tool_call(
            "look",
            kind=ToolKind.READ,
            content=["text", Content(TextContent("block"))],
            locations=["a", ToolCallLocation("/b", 3)],
            raw_input={"q": 1},
            name="look_it_up",
        )
        for attempt in (call.start, lambda: call.add_content("x"), call.ask_permission):
            with pytest.raises(errors.LocalProtocolError, match="not running"):
                await attempt()
        async with call:
            await call.start()
            with pytest.raises(errors.LocalProtocolError, match="entered once"):
                await call.__aenter__()
        with pytest.raises(errors.LocalProtocolError, match="not running"):
            await call.add_content("x")

    _, client = await run(handler)
    start, *_ = client.updates("tool_call")
    assert start == {
        "sessionUpdate": "tool_call",
        "toolCallId": start["toolCallId"],
        "title": "look",
        "name": "look_it_up",
        "kind": "read",
        "status": "pending",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "text"}},
            {"type": "content", "content": {"type": "text", "text": "block"}},
        ],
        "locations": [{"path": "/work/a"}, {"path": "/b", "line": 3}],
        "rawInput": {"q": 1},
    }
    assert statuses(client) == ["pending", "in_progress", "completed"]


async def test_a_tool_call_tells_its_news_and_lists_are_replaced_whole() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        async with ctx.tool_call("t", start=False) as call:
            await call.add_content("one")
            await call.add_diff(pathlib.PurePosixPath("f"), "new", "old")
            await call.add_terminal("t1")
            await call.add_location("f", 2)
            with pytest.raises(ValueError, match="counted from 1"):
                await call.add_location("f", 0)
            await call.update(title="T", kind=ToolKind.EDIT, raw_input={"a": 1}, raw_output=[2])
            await call.update(content=[], locations=[])
            assert (call.title, call.kind, call.content, call.locations) == ("T", "edit", [], [])

    _, client = await run(handler)
    updates = client.updates("tool_call_update")
    assert [len(update["content"]) for update in updates[:3]] == [1, 2, 3]
    assert updates[2]["content"][1:] == [
        {"type": "diff", "path": "/work/f", "oldText": "old", "newText": "new"},
        {"type": "terminal", "terminalId": "t1"},
    ]
    assert updates[3]["locations"] == [{"path": "/work/f", "line": 2}]
    assert updates[4] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": updates[0]["toolCallId"],
        "title": "T",
        "kind": "edit",
        "rawInput": {"a": 1},
        "rawOutput": [2],
    }
    assert (updates[5]["content"], updates[5]["locations"]) == ([], [])
    assert updates[6]["status"] == "completed"


async def test_a_tool_call_that_raises_or_is_told_to_fails() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(ValueError, match="broken"):
            async with ctx.tool_call("a"):
                raise ValueError("broken")
        async with ctx.tool_call("b") as call:
            await call.fail("it did not work")
        async with ctx.tool_call("c") as call:
            await call.fail()
            await call.complete()
        async with ctx.tool_call("d") as call:
            await call.fail()
            await call.complete("it did work")

    _, client = await run(handler)
    assert [status for status in statuses(client) if status not in ("pending", "in_progress")] == [
        "failed",
        "failed",
        "completed",
        "completed",
    ]
    contents = [update["content"][0]["content"]["text"] for update in client.updates() if "content" in update]
    assert contents == ["it did not work", "it did work"]


async def test_a_tool_call_that_is_cancelled_anywhere_is_settled() -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        with trio.CancelScope() as scope:
            async with ctx.tool_call("a"):
                scope.cancel()
                await trio.lowlevel.checkpoint()
        with trio.CancelScope() as scope:
            async with ctx.tool_call("b"):
                scope.cancel()
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            scope.cancel()
            async with ctx.tool_call("never announced"):
                pytest.fail("entered in a cancelled scope")

    _, client = await run(handler)
    assert statuses(client) == ["pending", "in_progress", "failed", "pending", "in_progress", "completed"]


async def test_a_tool_call_that_is_cancelled_between_its_two_beginnings_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T4"""

    async def handler(ctx: PromptContext) -> None:
        with trio.CancelScope() as scope:
            real = ToolCallContext.start

            async def start(call: ToolCallContext) -> None:
                scope.cancel()
                await real(call)

            monkeypatch.setattr(ToolCallContext, "start", start)
            async with ctx.tool_call("a"):
                pytest.fail("entered in a cancelled scope")

    _, client = await run(handler)
    assert statuses(client) == ["pending", "failed"]


# Permission (P1, P2) -----------------------------------------------------------------------------------


def select(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


CANCELLED = {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize(
    ("answer", "allowed", "end"),
    [
        (select("allow-once"), True, "completed"),
        (select("reject-once"), False, "completed"),
        (CANCELLED, False, "failed"),
    ],
)
async def test_permission_is_asked_about_a_call_of_its_own(
    answer: dict[str, Any], allowed: bool, end: str
) -> None:
    """P1, P2"""

    async def handler(ctx: PromptContext) -> bool:
        return await ctx.ask_permission("Delete it?", kind=ToolKind.DELETE)

    result, client = await run(handler, answering(session__request_permission=answer))
    assert result is allowed
    assert statuses(client) == ["pending", end]
    asked = client.params("session/request_permission")[0]
    assert asked["toolCall"] == {
        "toolCallId": client.updates("tool_call")[0]["toolCallId"],
        "title": "Delete it?",
        "kind": "delete",
        "status": "pending",
    }
    assert [(option["optionId"], option["kind"]) for option in asked["options"]] == [
        ("allow-once", "allow_once"),
        ("reject-once", "reject_once"),
    ]
    # The call is announced before the question about it, and settled after the answer.
    methods = client.methods()
    at = methods.index("session/request_permission")
    assert methods[at - 1 : at + 2] == ["session/update", "session/request_permission", "session/update"]


OWN = [
    PermissionOption("yes", "Yes", "allow_once"),
    PermissionOption("yolo", "Yolo", "_allow_for_today"),
    PermissionOption("no", "No", "reject_always"),
]


@pytest.mark.parametrize(("option", "allowed"), [("yes", True), ("yolo", False), ("no", False)])
async def test_only_an_option_of_a_kind_that_allows_is_consent(option: str, allowed: bool) -> None:
    """P2, F5: an unknown kind never is."""

    async def handler(ctx: PromptContext) -> bool:
        return await ctx.ask_permission("?", options=OWN)

    result, _ = await run(handler, answering(session__request_permission=select(option)))
    assert result is allowed


@pytest.mark.parametrize(
    ("answer", "error", "word"),
    [
        (select("other"), errors.InternalError, "'other', which was not offered"),
        ({"outcome": {"outcome": "shrugged"}}, errors.InternalError, "'shrugged'"),
        ({"outcome": {"outcome": "selected"}}, errors.InvalidResponse, "optionId"),
        ({}, errors.InvalidResponse, "outcome"),
        (None, errors.InvalidResponse, "outcome"),
        (WireError(-32800), errors.RequestCancelled, "no"),
    ],
)
async def test_an_answer_that_was_not_offered_is_an_error_that_names_it(
    answer: Any, error: type[Exception], word: str
) -> None:
    """P1, F5"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(error, match=word):
            await ctx.ask_permission("?")
        with pytest.raises(error, match=word):
            await ctx.ask_choice("?", "a")
        async with ctx.tool_call("?", start=False) as call:
            with pytest.raises(error, match=word):
                await call.ask_permission()

    _, client = await run(handler, answering(session__request_permission=answer))
    assert statuses(client) == ["pending", "failed", "pending", "failed", "pending", "completed"]


async def test_a_tool_call_asks_about_itself_and_starts_when_it_may() -> None:
    """P1"""

    async def handler(ctx: PromptContext) -> list[bool]:
        results: list[bool] = []
        async with ctx.tool_call("edit", kind="edit", raw_input=[1], locations=["/f"], start=False) as call:
            await call.add_content("details")
            results.append(await call.ask_permission())
        async with ctx.tool_call("edit", start=True) as call:
            results.append(await call.ask_permission())
        async with ctx.tool_call("edit", start=False) as call:
            results.append(await call.ask_permission())
            await call.complete()
        return results

    script = answering(session__request_permission=[select("allow-once"), CANCELLED, select("reject-once")])
    result, client = await run(handler, script)
    assert result == [True, False, False]
    assert statuses(client) == [
        *("pending", "in_progress", "completed"),
        *("pending", "in_progress", "failed"),
        *("pending", "completed"),
    ]
    asked = client.params("session/request_permission")[0]["toolCall"]
    assert asked["toolCallId"] == client.updates("tool_call")[0]["toolCallId"]
    assert asked["rawInput"] == [1]
    assert asked["locations"] == [{"path": "/f"}]
    assert asked["content"][0]["content"]["text"] == "details"


@pytest.mark.parametrize(("option", "allowed"), [("allow-always", True), ("reject-always", False)])
async def test_always_is_remembered_in_its_session(option: str, allowed: bool) -> None:
    """F14"""

    async def handler(ctx: PromptContext) -> list[bool]:
        results = [await ctx.ask_permission("run ls?", remember="run") for _ in range(2)]
        async with ctx.tool_call("run", start=False) as call:
            results.append(await call.ask_permission(remember="run"))
        results.append(await ctx.ask_permission("other?", remember="other"))
        results.append(await ctx.ask_permission("other?", remember="other"))
        return results

    script = answering(
        session__request_permission=[select(option), select("allow-once"), select("reject-once")]
    )
    result, client = await run(handler, script)
    assert result == [allowed, allowed, allowed, True, False]
    assert [option["optionId"] for option in client.params("session/request_permission")[0]["options"]] == [
        "allow-once",
        "reject-once",
        "allow-always",
        "reject-always",
    ]


async def test_a_permission_request_without_options_is_refused_here() -> None:
    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(ValueError, match="at least one option"):
            await ctx.ask_permission("?", options=[])

    await run(handler)


@pytest.mark.parametrize(
    ("answer", "chosen", "end"), [(select("choice-2"), "XML", "completed"), (CANCELLED, None, "failed")]
)
async def test_a_choice_returns_what_was_chosen(answer: dict[str, Any], chosen: str | None, end: str) -> None:
    """P1"""

    async def handler(ctx: PromptContext) -> Any:
        with pytest.raises(ValueError, match="at least one thing"):
            await ctx.ask_choice("?")
        return await ctx.ask_choice("Which format?", "JSON", "XML", "XML")

    result, client = await run(handler, answering(session__request_permission=answer))
    assert result == chosen
    assert statuses(client) == ["pending", end]
    options = client.params("session/request_permission")[0]["options"]
    assert [option["name"] for option in options] == ["JSON", "XML", "XML"]
    assert len({option["optionId"] for option in options}) == 3


# Files (F1) --------------------------------------------------------------------------------------------


async def test_files_are_read_and_written_below_the_sessions_directory() -> None:
    """F1, S5"""

    async def handler(ctx: PromptContext) -> Any:
        await ctx.write_file("out/x", "text\r\n")
        return [
            await ctx.read_file("src/main.py"),
            await ctx.read_file(pathlib.PurePosixPath("/abs"), line=2, limit=0),
            await ctx.try_read_file("a"),
        ]

    script = answering(
        fs__read_text_file=lambda params: {"content": f"<{params['path']}>"}, fs__write_text_file=None
    )
    result, client = await run(handler, script)
    assert result == ["</work/src/main.py>", "</abs>", "</work/a>"]
    session = client.params("fs/write_text_file")[0].pop("sessionId")
    assert client.params("fs/write_text_file") == [{"path": "/work/out/x", "content": "text\r\n"}]
    assert client.params("fs/read_text_file")[1] == {
        "sessionId": session,
        "path": "/abs",
        "line": 2,
        "limit": 0,
    }


async def test_lines_that_cannot_be_are_refused_here() -> None:
    """F1, K1"""

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(ValueError, match="counted from 1"):
            await ctx.read_file("x", line=0)
        with pytest.raises(ValueError, match="negative"):
            await ctx.read_file("x", limit=-1)
        with pytest.raises(errors.LocalProtocolError, match="limit"):
            await ctx.read_file("x", limit=2**32)

    await run(handler)


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (WireError(-32002, "?"), True),
        (WireError(-32001, "?"), True),
        (WireError(-32603, "ENOENT: no such file"), True),
        (WireError(-32602, "File does not exist"), True),
        (WireError(-32603, "disk on fire"), False),
        (WireError(5, "denied"), False),
    ],
)
async def test_a_file_that_is_not_there_is_none_and_other_errors_are_raised(
    error: WireError, missing: bool
) -> None:
    """F1, H3"""

    async def handler(ctx: PromptContext) -> Any:
        try:
            return await ctx.try_read_file("x")
        except errors.RequestError as caught:
            return (caught.code, caught.message)

    result, _ = await run(handler, answering(fs__read_text_file=error))
    assert result is None if missing else result == (error.code, error.message)


CALLS: list[tuple[str, Callable[[PromptContext], Awaitable[object]]]] = [
    ("fs.readTextFile", lambda ctx: ctx.read_file("x")),
    ("fs.readTextFile", lambda ctx: ctx.try_read_file("x")),
    ("fs.writeTextFile", lambda ctx: ctx.write_file("x", "y")),
    ("terminal", lambda ctx: ctx.execute("x")),
    ("terminal", lambda ctx: ctx.terminal("x").__aenter__()),
    ("elicitation.form", lambda ctx: ctx.elicit("?", {})),
    ("elicitation.url", lambda ctx: ctx.elicit_url("?", "https://x")),
    ("elicitation.url", lambda ctx: ctx.client.complete_elicitation("x")),
    (
        "elicitation._own",
        lambda ctx: ctx.client.create_elicitation(UnknownVariant("_own", {"mode": "_own", "message": ""})),
    ),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
async def test_nothing_is_sent_that_the_client_does_not_offer(number: int) -> None:
    """I3"""
    capability, call = CALLS[number]

    async def handler(ctx: PromptContext) -> None:
        with pytest.raises(errors.CapabilityError, match=capability) as caught:
            await call(ctx)
        assert caught.value.capability == f"clientCapabilities.{capability}"

    nothing = {"fs": {}, "terminal": False, "elicitation": {"form": None}}
    _, client = await run(handler, capabilities=nothing)
    assert [message for message in client.log if "method" in message] == []


async def test_a_client_tells_what_it_offers() -> None:
    """I3"""

    async def handler(ctx: PromptContext) -> list[bool]:
        return [
            ctx.client.offers(name)
            for name in ("fs.readTextFile", "fs.writeTextFile", "terminal", "elicitation.form", "a.b.c")
        ]

    result, _ = await run(handler, capabilities={"fs": {"readTextFile": True}, "elicitation": {"form": {}}})
    assert result == [True, False, False, True, False]


# Terminals (F2 to F4) ----------------------------------------------------------------------------------

OUTPUT = {"output": "hello", "truncated": False, "exitStatus": {"exitCode": 0}}


async def test_a_command_is_created_waited_for_read_and_released() -> None:
    """F2, F3, F4"""

    async def handler(ctx: PromptContext) -> CommandResult:
        return await ctx.execute("ls", "-la", env={"A": "b"})

    script = answering(
        terminal__create={"terminalId": "t1"},
        terminal__wait_for_exit={"exitCode": 3},
        terminal__output={"output": "hello", "truncated": True},
        terminal__release={},
    )
    result, client = await run(handler, script)
    assert result == CommandResult("hello", 3, None, truncated=True)
    assert not result.success
    assert CommandResult("", 0, None).success
    assert client.methods()[-5:-1] == [
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/release",
    ]
    created = client.params("terminal/create")[0]
    del created["sessionId"]
    assert created == {
        "command": "ls",
        "args": ["-la"],
        "cwd": "/work",
        "env": [{"name": "A", "value": "b"}],
        "outputByteLimit": 1024 * 1024,
    }


async def test_a_line_for_the_shell_is_said_to_be_one() -> None:
    """L1"""

    async def handler(ctx: PromptContext) -> Any:
        for wrong in ({}, {"argv": "x"}):
            with pytest.raises(ValueError, match="one of the two"):
                await ctx.execute(*wrong.values(), shell="x" if wrong else None)
        with pytest.raises(ValueError, match="negative"):
            await ctx.execute("x", output_byte_limit=-1)
        return await ctx.execute(shell="ls | wc", cwd="sub", output_byte_limit=None)

    script = answering(
        terminal__create={"terminalId": "t1"},
        terminal__wait_for_exit={"signal": "SIGSEGV"},
        terminal__output=OUTPUT,
        terminal__release=None,
    )
    result, client = await run(handler, script)
    assert (result.exit_code, result.signal, result.success) == (None, "SIGSEGV", False)
    created = client.params("terminal/create")[0]
    assert (created["command"], created["args"]) == ("/bin/sh", ["-c", "ls | wc"])
    assert created["cwd"] == "/work/sub"
    assert "outputByteLimit" not in created


@pytest.mark.parametrize("status", [{"exitCode": None, "signal": "SIGKILL"}, None])
async def test_a_command_that_takes_too_long_is_killed_and_then_read(
    status: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """F3"""

    async def handler(ctx: PromptContext) -> CommandResult:
        return await ctx.execute("sleep", "100", timeout=5)

    script = answering(
        terminal__create={"terminalId": "t1"},
        terminal__wait_for_exit=HOLD,
        terminal__kill={},
        terminal__output={"output": "so far", "truncated": False, "exitStatus": status},
        terminal__release={},
    )
    result, client = await run(handler, script)
    assert result == CommandResult("so far", None, status and "SIGKILL", timed_out=True)
    assert not result.success
    assert client.methods()[-7:-1] == [
        "terminal/create",
        "terminal/wait_for_exit",
        "$/cancel_request",
        "terminal/kill",
        "terminal/output",
        "terminal/release",
    ]


async def test_a_terminal_is_streamed_while_it_runs(autojump_clock: trio.testing.MockClock) -> None:
    """F2"""

    async def handler(ctx: PromptContext) -> Any:
        async with ctx.terminal("make") as terminal:
            assert terminal.id == "t1"
            stream = terminal.stream_output(interval=0.5)
            begin = trio.current_time()
            pieces = [piece async for piece in stream]
            assert stream.exit_status is not None
            return pieces, stream.exit_status.exit_code, round(trio.current_time() - begin, 3)

    script = answering(
        terminal__create={"terminalId": "t1"},
        terminal__output=[
            {"output": "", "truncated": False},
            {"output": "ab", "truncated": False},
            {"output": "ab", "truncated": False},
            {"output": "abc", "truncated": False},
            {"output": "bcd", "truncated": True, "exitStatus": {"exitCode": 1}},
        ],
        terminal__release={},
    )
    result, _ = await run(handler, script)
    assert result == (["ab", "c", "d"], 1, 2.0)


@pytest.mark.parametrize(
    ("seen", "output", "news"),
    [
        ("", "", ""),
        ("abc", "abcd", "d"),
        ("abc", "bcd", "d"),
        ("abc", "xyz", "xyz"),
        ("abab", "abx", "x"),
        ("x" * 100 + "y" * 100, "y" * 100 + "z", "z"),
        ("0123456789" * 30, "789" + "0123456789" * 20 + "new", "new"),
        ("0123456789" * 30, "0123456789" * 6 + "0123ZZZ", "0123ZZZ"),
        ("abc", "", ""),
    ],
)
def test_news_is_what_was_not_seen_before(seen: str, output: str, news: str) -> None:
    """F2: also when the beginning was cut off meanwhile."""
    assert news_in(seen, output) == news


async def test_a_terminal_is_released_once_whatever_happens(autojump_clock: trio.testing.MockClock) -> None:
    """F4"""

    async def handler(ctx: PromptContext) -> None:
        terminal = ctx.terminal("x")
        with pytest.raises(errors.LocalProtocolError, match="no terminal yet"):
            _ = terminal.id
        await terminal.release()
        async with terminal:
            with pytest.raises(errors.LocalProtocolError, match="entered once"):
                await terminal.__aenter__()
            assert not terminal.released
            await terminal.kill()
            assert (await terminal.wait_for_exit()).exit_code == 0
            await terminal.release()
            await terminal.release()
            assert terminal.released
            for attempt in (terminal.output, terminal.wait_for_exit, terminal.kill):
                with pytest.raises(errors.LocalProtocolError, match="was released"):
                    await attempt()
        with pytest.raises(ValueError, match="mine"):
            async with ctx.terminal("x"):
                raise ValueError("mine")
        with trio.CancelScope() as scope:
            async with ctx.terminal("x"):
                scope.cancel()
                await trio.sleep_forever()
        with trio.CancelScope() as scope:
            scope.cancel()
            async with ctx.terminal("x"):
                pytest.fail("entered in a cancelled scope")

    numbers = iter(range(10))
    script = answering(
        terminal__create=lambda params: {"terminalId": f"t{next(numbers)}"},
        terminal__wait_for_exit={"exitCode": 0},
        terminal__kill={},
        # Errors on the way out never hide what the block did.
        terminal__release=[{}, WireError(-32002), HOLD],
    )
    _, client = await run(handler, script)
    assert [params["terminalId"] for params in client.params("terminal/release")] == ["t0", "t1", "t2"]


async def test_an_explicit_release_reports_its_error() -> None:
    """F3"""

    async def handler(ctx: PromptContext) -> None:
        async with ctx.terminal("x") as terminal:
            with pytest.raises(errors.ResourceNotFound):
                await terminal.release()

    await run(handler, answering(terminal__create={"terminalId": "t"}, terminal__release=WireError(-32002)))


@pytest.mark.parametrize("late", [{"terminalId": "t1"}, {}, None, WireError(-32800)])
async def test_a_terminal_that_is_made_too_late_is_released(late: Any) -> None:
    """F4: its creation was cancelled, but the client made it all the same."""

    async def prompt(ctx: PromptContext) -> None:
        await ctx.execute("x")

    async with connected(agent(prompt)) as client:
        client.on["terminal/create"] = lambda params: HOLD
        client.on["terminal/release"] = lambda params: {}
        session = await client.new_session()
        id = await client.start_prompt(session)
        create = await client.wait_for("terminal/create")
        await client.cancel(session)
        assert await client.answer(id) == {"stopReason": "cancelled"}
        assert client.withdrawn() == [create["id"]]
        await client.reply(create, late)
        await trio.testing.wait_all_tasks_blocked()
        released = client.params("terminal/release")
        assert [params["terminalId"] for params in released] == (
            ["t1"] if isinstance(late, dict) and late else []
        )
        if released:
            assert released[0]["sessionId"] == session


async def test_a_terminal_in_a_tool_call_is_shown_before_anything_can_release_it() -> None:
    """L3"""

    async def handler(ctx: PromptContext) -> None:
        async with ctx.tool_call("run") as call:
            assert (await call.execute("make")).success
            async with call.terminal("make") as terminal:
                assert isinstance(terminal, TerminalHandle)
            await call.add_terminal(terminal)

    script = answering(
        terminal__create=[{"terminalId": "t1"}, {"terminalId": "t2"}],
        terminal__wait_for_exit={"exitCode": 0},
        terminal__output=OUTPUT,
        terminal__release={},
    )
    _, client = await run(handler, script)
    shown = [
        [each["terminalId"] for each in update["content"]]
        for update in client.updates("tool_call_update")
        if "content" in update
    ]
    assert shown == [["t1"], ["t1", "t2"], ["t1", "t2", "t2"]]
    methods = client.methods()
    at = methods.index("terminal/create")
    assert methods[at + 1] == "session/update"


async def test_a_terminal_whose_showing_is_cancelled_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """F4"""

    async def handler(ctx: PromptContext) -> None:
        with trio.CancelScope() as scope:
            async with ctx.tool_call("run") as call:

                async def add_terminal(call: ToolCallContext, terminal: Any) -> None:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()

                monkeypatch.setattr(ToolCallContext, "add_terminal", add_terminal)
                async with call.terminal("x"):
                    pytest.fail("entered in a cancelled scope")

    script = answering(terminal__create={"terminalId": "t1"}, terminal__release={})
    _, client = await run(handler, script)
    assert len(client.params("terminal/release")) == 1


async def test_a_terminal_of_a_client_that_closed_its_end_is_released_without_waiting() -> None:
    """F4"""

    async def prompt(ctx: PromptContext) -> None:
        async with ctx.terminal("x"):
            await trio.sleep_forever()

    async with connected(agent(prompt)) as client:
        client.on["terminal/create"] = lambda params: {"terminalId": "t1"}
        client.on["terminal/release"] = lambda params: HOLD
        id = await client.start_prompt(await client.new_session())
        await client.wait_for("terminal/create")
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_eof()
        await client.ended.wait()
        assert await client.answer(id) == {"stopReason": "cancelled"}
        assert client.methods()[-2:] == ["terminal/release", f"={id}"]


# Elicitation (E1 to E3) --------------------------------------------------------------------------------


async def test_a_form_is_filled_in() -> None:
    """E1, E2"""

    async def handler(ctx: PromptContext) -> Any:
        async with ctx.tool_call("ask") as call:
            first = await ctx.elicit("who?", {"name": StringPropertySchema()}, tool_call=call)
        second = await ctx.elicit("who?", {"name": StringPropertySchema()}, required=[])
        third = await ctx.elicit("who?", ElicitationSchema(title="t"))
        return first, second, third

    script = answering(
        elicitation__create=[
            {"action": "accept", "content": {"name": "me", "more": 1}},
            {"action": "accept"},
            {"action": "accept", "content": None},
        ]
    )
    result, client = await run(handler, script)
    assert result == ({"name": "me"}, {}, {})
    first, second, third = client.params("elicitation/create")
    assert first == {
        "mode": "form",
        "message": "who?",
        "sessionId": first["sessionId"],
        "toolCallId": client.updates("tool_call")[0]["toolCallId"],
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    }
    assert "toolCallId" not in second
    assert third["requestedSchema"]["title"] == "t"


@pytest.mark.parametrize("action", ["decline", "cancel", "_shrug"])
async def test_anything_but_acceptance_of_a_form_is_none(action: str) -> None:
    """E2"""

    async def handler(ctx: PromptContext) -> Any:
        return await ctx.elicit("?", {}), await ctx.elicit_url("?", "https://x")

    result, _ = await run(handler, answering(elicitation__create={"action": action, "content": {"a": 1}}))
    assert result == (None, False)


async def test_a_url_is_opened_on_consent_and_completed_later() -> None:
    """E3"""

    async def handler(ctx: PromptContext) -> Any:
        assert await ctx.elicit_url("log in", "https://a.example/x")
        assert await ctx.elicit_url("log in", "https://a.example/x", elicitation_id="own")
        await ctx.client.complete_elicitation("own")

    _, client = await run(handler, answering(elicitation__create={"action": "accept"}))
    first, second = client.params("elicitation/create")
    assert (first["mode"], first["url"]) == ("url", "https://a.example/x")
    assert second["elicitationId"] == "own" != first["elicitationId"]
    assert client.params("elicitation/complete") == [{"elicitationId": "own"}]


TEXT = StringPropertySchema(min_length=2, max_length=3, pattern="^[a-z]+$")
ENUM = StringPropertySchema(enum=["a", "b"])
ONE_OF = StringPropertySchema(one_of=[EnumOption("a", "A")])
INTEGER = IntegerPropertySchema(minimum=1, maximum=3)
NUMBER = NumberPropertySchema(minimum=0.5, maximum=1.5)
MULTI = MultiSelectPropertySchema(StringMultiSelectItems(["a", "b"]), min_items=1, max_items=2)
TITLED = MultiSelectPropertySchema(TitledMultiSelectItems([EnumOption("a", "A")]))
ODD_ITEMS = MultiSelectPropertySchema(UnknownVariant("odd", {"type": "odd"}))


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (TEXT, ["ab"], [5, "a", "abcd", "AB"]),
        (StringPropertySchema(pattern=r"\p{Letter}"), ["anything"], [5]),
        (ENUM, ["a"], ["c"]),
        (ONE_OF, ["a"], ["b"]),
        (BooleanPropertySchema(), [True], [1, "true"]),
        (INTEGER, [1, 3], [0, 4, True, 1.5, "1"]),
        (IntegerPropertySchema(), [-5], ["x"]),
        (NUMBER, [0.5, 1], [0.4, 2, True, "1"]),
        (MULTI, [["a"], ["a", "b"]], [[], ["c"], ["a", "b", "a"], "a"]),
        (TITLED, [[], ["a"]], [["b"]]),
        (ODD_ITEMS, [["anything"]], ["x"]),
        (UnknownVariant("odd", {"type": "odd"}), ["anything", 5], []),
    ],
)
def test_answers_are_checked_against_the_form(field: Any, good: list[Any], bad: list[Any]) -> None:
    """E2"""
    form = ElicitationSchema(properties={"x": field})
    for value in good:
        assert check_answers(form, {"x": value}) == {"x": value}
    for value in bad:
        with pytest.raises(errors.InvalidResponse, match="'x'"):
            check_answers(form, {"x": value})
    assert check_answers(form, {}) == {}
    with pytest.raises(errors.InvalidResponse, match="lacks 'x'"):
        check_answers(ElicitationSchema(properties={"x": field}, required=["x"]), {})


# The client in full ------------------------------------------------------------------------------------


async def test_the_full_forms_take_requests_and_give_responses() -> None:
    async def handler(ctx: PromptContext) -> Any:
        client: ConnectedClient = ctx.client
        session = ctx.session.id
        read = await client.read_text_file(ReadTextFileRequest(session, "/x", meta={"a": 1}))
        asked = await client.request_permission(
            RequestPermissionRequest(session, ToolCallUpdate("c"), OWN, meta={"b": 2})
        )
        elicited = await client.create_elicitation(
            CreateElicitationUrlRequest("m", "e", "https://x", request_id=5)
        )
        assert isinstance(elicited, ElicitationAcceptAction)
        return read.meta, read.extra, asked.outcome

    script = answering(
        fs__read_text_file={"content": "", "_meta": {"c": 3}, "odd": 1},
        session__request_permission=CANCELLED,
        elicitation__create={"action": "accept"},
    )
    result, client = await run(handler, script)
    assert result[:2] == ({"c": 3}, {"odd": 1})
    assert client.params("fs/read_text_file")[0]["_meta"] == {"a": 1}
    assert client.params("elicitation/create")[0]["requestId"] == 5


async def test_an_answer_that_does_not_fit_fails_only_its_call() -> None:
    """W6"""

    async def handler(ctx: PromptContext) -> str:
        with pytest.raises(errors.InvalidResponse, match="content: "):
            await ctx.read_file("x")
        return await ctx.read_file("x")

    result, _ = await run(handler, answering(fs__read_text_file=[{"content": 5}, {"content": "ok"}]))
    assert result == "ok"


async def test_calls_after_the_client_closed_its_end_fail_at_once() -> None:
    """W11"""
    seen: list[Exception] = []

    async def prompt(ctx: PromptContext) -> None:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep_forever()
        with trio.CancelScope(shield=True):
            try:
                await ctx.read_file("x")
            except errors.ConnectionLost as error:
                seen.append(error)

    async with connected(agent(prompt), EVERYTHING) as client:
        id = await client.start_prompt(await client.new_session())
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_eof()
        await client.ended.wait()
        assert await client.answer(id) == {"stopReason": "cancelled"}
    assert "closed its end" in str(seen[0])

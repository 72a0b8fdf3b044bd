"""What a prompt handler can do with the client's files and terminals."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.driving import CANCELLED, OWN, answering, run
from tests.agent.scripted import EVERYTHING, HOLD, WireError, agent, connected
from trio_acp import _errors as errors
from trio_acp.agent import CommandResult, ConnectedClient, PromptContext, TerminalHandle, ToolCallContext
from trio_acp.agent._terminals import news_in
from trio_acp.schema import (
    CreateElicitationUrlRequest,
    ElicitationAcceptAction,
    ReadTextFileRequest,
    RequestPermissionRequest,
    ToolCallUpdate,
    UnknownVariant,
)

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
    assert result == ["</proj/src/main.py>", "</abs>", "</proj/a>"]
    session = client.params("fs/write_text_file")[0].pop("sessionId")
    assert client.params("fs/write_text_file") == [{"path": "/proj/out/x", "content": "text\r\n"}]
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
        "cwd": "/proj",
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
    assert created["cwd"] == "/proj/sub"
    assert "outputByteLimit" not in created


@pytest.mark.parametrize("kill", [{}, WireError(-32603, "it ended in this moment")])
@pytest.mark.parametrize("status", [{"exitCode": None, "signal": "SIGKILL"}, None])
async def test_a_command_that_takes_too_long_is_killed_and_then_read(
    status: Any, kill: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """F3: what it wrote is read also where the client refuses to kill it."""

    async def handler(ctx: PromptContext) -> CommandResult:
        return await ctx.execute("sleep", "100", timeout=5)

    script = answering(
        terminal__create={"terminalId": "t1"},
        terminal__wait_for_exit=HOLD,
        terminal__kill=kill,
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

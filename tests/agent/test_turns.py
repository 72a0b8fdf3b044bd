"""One turn after another: what a prompt is answered with, and what cancels it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import HOLD, ScriptedClient, WireError, agent, connected, prompt_params
from trio_acp import _errors as errors
from trio_acp.agent import AgentApp, AgentSession, PromptContext
from trio_acp.agent._live import MAX_QUEUED_PROMPTS
from trio_acp.schema import PromptCapabilities, PromptResponse, StopReason, TextContent, ToolKind

IMAGE = {"type": "image", "data": "", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "name": "a", "uri": "file:///a"}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}
HOLOGRAM = {"type": "hologram"}


async def sleeper(ctx: PromptContext) -> None:
    await trio.sleep_forever()


# Answers (T1, T3) --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "result", "said"),
    [
        (None, {"stopReason": "end_turn"}, ""),
        ("bye", {"stopReason": "end_turn"}, "bye"),
        ("", {"stopReason": "end_turn"}, ""),
        ("cancelled", {"stopReason": "end_turn"}, "cancelled"),
        (StopReason.REFUSAL, {"stopReason": "refusal"}, ""),
        (StopReason.CANCELLED, {"stopReason": "cancelled"}, ""),
        (PromptResponse("_odd", meta={"a": 1}), {"stopReason": "_odd", "_meta": {"a": 1}}, ""),
    ],
)
async def test_what_a_handler_returns_ends_the_turn(returned: Any, result: dict[str, Any], said: str) -> None:
    """T3"""

    async def prompt() -> Any:
        return returned

    async with connected(agent(prompt)) as client:
        assert await client.prompt(await client.new_session()) == result
        assert client.said() == said


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.RequestError(-7, "own", {"a": 1}), -7, "own"),
        (errors.AuthRequired("again"), -32000, "again"),
        (ExceptionGroup("", [errors.RequestError(-7, "own", {"a": 1})]), -7, "own"),
        (ValueError("secret"), -32603, "internal error"),
        (ExceptionGroup("", [ValueError("secret"), KeyError("secret")]), -32603, "internal error"),
        (FileNotFoundError(2, "No such file", "secret"), -32002, "no such file or directory"),
        (
            PermissionError(13, "Permission denied", "secret"),
            -32603,
            "the operating system refused: Permission denied",
        ),
        (errors.SchemaError(("a",), "expected b"), -32603, "internal error"),
    ],
)
async def test_what_a_handler_raises_is_answered_and_the_session_goes_on(
    error: Exception, code: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """W4: no traceback and no secret reaches the client."""

    async def prompt(text: str) -> None:
        if text == "go":
            raise error

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        with pytest.raises(WireError) as caught:
            await client.prompt(session)
        assert (caught.value.code, caught.value.message) == (code, message)
        assert b"secret" not in b"".join(client.raw)
        assert await client.prompt(session, "again") == {"stopReason": "end_turn"}
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == (0 if isinstance(errors_leaf(error), errors.RequestError) else 1)


def errors_leaf(error: BaseException) -> BaseException:
    return error.exceptions[0] if isinstance(error, ExceptionGroup) else error


@pytest.mark.parametrize("returned", [7, PromptResponse(5)])  # type: ignore[arg-type]
async def test_a_handler_that_returns_nonsense_is_an_internal_error(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def prompt() -> Any:
        return returned

    async with connected(agent(prompt)) as client:
        with pytest.raises(WireError) as caught:
            await client.prompt(await client.new_session())
        assert caught.value.code == -32603
    assert "returned" in caplog.text


async def test_prompts_hold_what_was_advertised_and_nothing_else() -> None:
    """T1: text and links always, the rest by capability."""
    seen: list[int] = []

    async def prompt(prompt: list[Any]) -> None:
        seen.append(len(prompt))

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        for block, word in [
            (IMAGE, "promptCapabilities.image"),
            (AUDIO, "promptCapabilities.audio"),
            (EMBEDDED, "promptCapabilities.embeddedContext"),
            (HOLOGRAM, "hologram"),
        ]:
            with pytest.raises(WireError) as caught:
                await client.call("session/prompt", sessionId=session, prompt=[LINK, block])
            assert caught.value.code == -32602
            assert "prompt[1]" in caught.value.message
            assert word in caught.value.message
        await client.call("session/prompt", sessionId=session, prompt=[LINK])
        assert seen == [1]
    every = PromptCapabilities(image=True, audio=True, embedded_context=True)
    async with connected(agent(prompt, prompt_capabilities=every)) as client:
        session = await client.new_session()
        await client.call("session/prompt", sessionId=session, prompt=[IMAGE, AUDIO, EMBEDDED, LINK])
        assert seen == [1, 4]


async def test_malformed_prompts_and_unknown_sessions_cost_nobody_else_anything() -> None:
    """W4"""
    async with connected(agent(sleeper)) as client:
        session = await client.new_session()
        running = await client.start_prompt(session)
        wrong: list[tuple[dict[str, Any], int, str]] = [
            ({}, -32602, "sessionId"),
            ({"sessionId": session, "prompt": "x"}, -32602, "prompt"),
            ({"sessionId": session, "prompt": [{"type": "text"}]}, -32602, "prompt[0].text"),
            ({"sessionId": "other", "prompt": []}, -32002, "other"),
        ]
        for params, code, word in wrong:
            with pytest.raises(WireError) as caught:
                await client.call("session/prompt", **params)
            assert caught.value.code == code
            assert word in caught.value.message
        await client.cancel(session)
        assert await client.answer(running) == {"stopReason": "cancelled"}


async def test_what_the_user_said_is_there_block_by_block_and_as_text() -> None:
    async def prompt(ctx: PromptContext, session: AgentSession[None]) -> str:
        assert isinstance(ctx.prompt[0], TextContent)
        assert ctx.session is session
        assert session.busy
        return repr((ctx.text, len(ctx.prompt), ctx.meta, ctx.cwd, ctx.cancel_requested))

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        text = {"type": "text", "text": "a"}
        await client.call("session/prompt", sessionId=session, prompt=[text, LINK, text], _meta={"m": 1})
        assert client.said() == repr(("a\na", 3, {"m": 1}, "/work", False))


async def test_a_command_is_dispatched_and_an_unknown_one_is_a_prompt() -> None:
    async def prompt(ctx: PromptContext) -> str:
        return f"[{ctx.text}]"

    app = agent(prompt)

    @app.command("plan", "plans", hint="what")
    async def plan(ctx: PromptContext, arguments: str) -> str:
        return f"plan<{arguments}>"

    @app.command("stop", "stops")
    async def stop() -> StopReason:
        return StopReason.REFUSAL

    async with connected(app) as client:
        session = await client.new_session()
        assert client.updates("available_commands_update") == [
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [
                    {"name": "plan", "description": "plans", "input": {"hint": "what"}},
                    {"name": "stop", "description": "stops"},
                ],
            }
        ]
        for text in (" /plan a b\nc", "/plan", "/plane x", "plan x", "  "):
            await client.prompt(session, text)
        assert client.said() == "plan<a b\nc>plan<>[/plane x][plan x][  ]"
        assert await client.prompt(session, "/stop now") == {"stopReason": "refusal"}
        await client.call("session/prompt", sessionId=session, prompt=[])
        await client.call("session/prompt", sessionId=session, prompt=[LINK])
        assert client.said().endswith("[][]")


# Overlapping prompts (T1) ------------------------------------------------------------------------------


async def test_a_second_prompt_during_a_turn_is_refused_and_the_first_goes_on() -> None:
    """T1"""
    go = trio.Event()

    async def prompt() -> str:
        await go.wait()
        return "done"

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        first = await client.start_prompt(session)
        with pytest.raises(WireError) as caught:
            await client.prompt(session)
        assert caught.value.code == -32600
        assert "a turn is running" in caught.value.message
        other = await client.new_session()
        second = await client.start_prompt(other)
        go.set()
        assert await client.answer(first) == {"stopReason": "end_turn"}
        assert await client.answer(second) == {"stopReason": "end_turn"}


async def test_queued_prompts_run_one_after_the_other() -> None:
    running = 0

    async def prompt(ctx: PromptContext) -> str:
        nonlocal running
        running += 1
        assert running == 1
        await trio.lowlevel.checkpoint()
        running -= 1
        return ctx.text

    async with connected(agent(prompt, overlapping_prompts="queue")) as client:
        session = await client.new_session()
        requests = [client.request("session/prompt", **prompt_params(session, str(n))) for n in range(5)]
        await client.send_many(*requests)
        for request in requests:
            assert await client.answer(request["id"]) == {"stopReason": "end_turn"}
        assert client.said() == "01234"


async def test_the_queue_of_prompts_is_bounded() -> None:
    async with connected(agent(sleeper, overlapping_prompts="queue")) as client:
        session = await client.new_session()
        ids = [await client.start_prompt(session) for _ in range(MAX_QUEUED_PROMPTS + 1)]
        with pytest.raises(WireError, match="wait in this session already"):
            await client.prompt(session)
        await client.cancel(session)
        for id in ids:
            assert await client.answer(id) == {"stopReason": "cancelled"}


async def test_a_queued_prompt_can_be_withdrawn_alone() -> None:
    """X4: it is still answered, as a cancelled turn."""
    async with connected(agent(sleeper, overlapping_prompts="queue")) as client:
        session = await client.new_session()
        first = await client.start_prompt(session)
        second = await client.start_prompt(session)
        await client.notify("$/cancel_request", requestId=second)
        assert await client.answer(second) == {"stopReason": "cancelled"}
        assert not client.answered(first)
        await client.notify("$/cancel_request", requestId=first)
        assert await client.answer(first) == {"stopReason": "cancelled"}


# Order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
async def test_requests_of_one_session_start_in_the_order_of_the_wire(seed: int) -> None:
    """Trio starts new tasks in random order; a session must not notice."""
    order: list[str] = []

    async def prompt() -> None:
        order.append("prompt")

    app = agent(prompt)

    @app.on_set_mode
    async def set_mode(mode_id: str) -> None:
        order.append(mode_id)
        await trio.lowlevel.checkpoint()

    @app.on_ext_notification("_x")
    async def note(params: dict[str, Any]) -> None:
        order.append("note")

    async with connected(app) as client:
        session = await client.new_session()
        modes = [client.request("session/set_mode", sessionId=session, modeId=str(n)) for n in range(4)]
        last = client.request("session/prompt", **prompt_params(session))
        await client.send_many(*modes, {"method": "_x", "params": {"sessionId": session}}, last)
        await client.answer(last["id"])
        assert order == ["0", "1", "2", "3", "note", "prompt"]


async def test_a_withdrawn_request_lets_those_behind_it_start() -> None:
    """X4"""
    order: list[str] = []

    async def prompt() -> str:
        return "prompted"

    app = agent(prompt)

    @app.on_set_mode
    async def set_mode(mode_id: str) -> None:
        order.append(mode_id)

    async with connected(app) as client:
        session = await client.new_session()
        mode = client.request("session/set_mode", sessionId=session, modeId="a")
        cancel = {"method": "$/cancel_request", "params": {"requestId": mode["id"]}}
        last = client.request("session/prompt", **prompt_params(session))
        await client.send_many(mode, cancel, last)
        assert await client.answer(last["id"]) == {"stopReason": "end_turn"}
        with pytest.raises(WireError) as caught:
            await client.answer(mode["id"])
        assert caught.value.code == -32800
        assert order == []


# Cancel (X) --------------------------------------------------------------------------------------------


async def test_a_cancelled_turn_is_answered_cancelled_after_its_last_updates() -> None:
    """X2"""

    async def prompt(ctx: PromptContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                assert ctx.cancel_requested
                await ctx.send_message("stopped")

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        await client.cancel(session)
        await client.cancel(session)
        assert await client.answer(id) == {"stopReason": "cancelled"}
        assert client.methods()[-2:] == ["session/update", f"={id}"]


async def raise_instead(ctx: PromptContext) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise errors.RequestError(-5, "aborted")


async def return_instead(ctx: PromptContext) -> str:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:  # noqa: ASYNC103 - what handlers ought not to do, but some do
        pass
    return "finished all the same"  # noqa: ASYNC104


async def raise_a_group(ctx: PromptContext) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_instead, ctx)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("handler", [raise_instead, return_instead, raise_a_group])
async def test_a_cancellation_is_never_answered_with_anything_but_cancelled(handler: Any) -> None:
    """X2, E1: whatever the handler makes of it."""
    async with connected(agent(handler)) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        await client.cancel(session)
        assert await client.answer(id) == {"stopReason": "cancelled"}
        assert client.said() == ""


async def test_a_cancel_right_behind_the_prompt_finds_its_turn_and_the_handler_never_runs() -> None:
    """E3: the turn is there when the prompt is, not when its task is."""
    ran = False

    async def prompt() -> None:
        nonlocal ran
        ran = True

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        request = client.request("session/prompt", **prompt_params(session))
        await client.send_many(request, {"method": "session/cancel", "params": {"sessionId": session}})
        assert await client.answer(request["id"]) == {"stopReason": "cancelled"}
        assert not ran


async def test_a_cancel_where_nothing_runs_is_ignored_and_does_not_hit_the_next_turn() -> None:
    """X3"""

    async def prompt() -> str:
        return "ok"

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        await client.cancel(session)
        await client.cancel("unknown")
        await client.notify("session/cancel")
        assert await client.prompt(session) == {"stopReason": "end_turn"}
        await client.cancel(session)
        assert await client.prompt(session) == {"stopReason": "end_turn"}


async def test_a_cancel_hits_one_session_only() -> None:
    """E4"""
    async with connected(agent(sleeper)) as client:
        one, two = await client.new_session(), await client.new_session()
        first, second = await client.start_prompt(one), await client.start_prompt(two)
        await client.cancel(one)
        await client.answer(first)
        await trio.testing.wait_all_tasks_blocked()
        assert not client.answered(second)


async def test_a_withdrawn_prompt_is_a_cancelled_turn() -> None:
    """X4"""
    async with connected(agent(sleeper)) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        await client.notify("$/cancel_request", requestId=id)
        assert await client.answer(id) == {"stopReason": "cancelled"}


async def test_a_handler_that_shields_itself_is_answered_for_and_can_say_nothing_more(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """X2, E16: the next prompt works meanwhile."""
    late: list[BaseException] = []

    async def prompt(ctx: PromptContext) -> None:
        if ctx.text == "next":
            return
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
            attempts: list[Callable[[], Any]] = [
                lambda: ctx.send_message("late"),
                lambda: ctx.send_plan([]),
                lambda: ctx.read_file("x"),
                lambda: ctx.ask_permission("late?"),
            ]
            for attempt in attempts:
                try:
                    await attempt()
                except errors.LocalProtocolError as error:
                    late.append(error)
            if ctx.text == "and fail":
                raise ValueError("late")

    async with connected(agent(prompt, cancel_grace=4)) as client:
        session = await client.new_session()
        for text in ("go", "and fail"):
            id = await client.start_prompt(session, text)
            await trio.testing.wait_all_tasks_blocked()
            begin = trio.current_time()
            await client.cancel(session)
            assert await client.answer(id) == {"stopReason": "cancelled"}
            assert trio.current_time() - begin == pytest.approx(4)
            assert await client.prompt(session, "next") == {"stopReason": "end_turn"}
        await trio.sleep(200)
        assert len(late) == 8
        assert "has been answered" in str(late[0])
        assert client.updates() == []
    assert "goes on 4 s after" in caplog.text
    assert "answered for" in caplog.text


async def test_a_cancel_after_the_handler_has_returned_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The answer is decided when the handler returns; here a slow store keeps it back."""
    saving = trio.Event()

    class SlowStore:
        async def save(self, record: Any, updates: Any) -> None:
            if updates and updates[-1]["sessionUpdate"] == "agent_message_chunk":
                saving.set()
                await trio.sleep(1)

        async def load(self, session_id: str) -> None: ...

        async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> Any: ...

        async def delete(self, session_id: str) -> None: ...

    async def prompt() -> str:
        return "done"

    async with connected(agent(prompt, store=SlowStore())) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        await saving.wait()
        await client.cancel(session)
        assert await client.answer(id) == {"stopReason": "end_turn"}


async def test_a_cancel_withdraws_what_the_handler_asked_its_client() -> None:
    """X5"""

    async def prompt(ctx: PromptContext) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.read_file, "a")
            nursery.start_soon(ctx.ask_permission, "b?")

    async with connected(agent(prompt)) as client:
        client.on["fs/read_text_file"] = client.on["session/request_permission"] = lambda params: HOLD
        session = await client.new_session()
        id = await client.start_prompt(session)
        read = await client.wait_for("fs/read_text_file")
        asked = await client.wait_for("session/request_permission")
        await client.cancel(session)
        assert await client.answer(id) == {"stopReason": "cancelled"}
        assert sorted(client.withdrawn()) == sorted([read["id"], asked["id"]])
        settled = client.updates("tool_call_update")[-1]
        assert settled["status"] == "failed"
        assert client.methods()[-1] == f"={id}"
        await client.reply(read, {"content": "late"})
        await client.reply(asked, {"outcome": {"outcome": "cancelled"}})


# Cancellation at every checkpoint ----------------------------------------------------------------------


async def busy(ctx: PromptContext) -> str:
    """Read, write, run, ask and elicit."""
    await ctx.send_message("begin")
    await ctx.read_file("a.txt")
    async with ctx.tool_call("edit", kind=ToolKind.EDIT, start=False) as call:
        if await call.ask_permission():
            await ctx.write_file("a.txt", "new")
            await call.add_diff("a.txt", "new", "old")
    async with ctx.tool_call("run", kind=ToolKind.EXECUTE) as call:
        await call.execute("make", timeout=10)
    async with ctx.terminal(shell="tail -f log") as terminal:
        async for _ in terminal.stream_output():
            pass
    await ctx.ask_choice("which?", "a", "b")
    await ctx.elicit("who?", {})
    await ctx.send_plan(["rest"])
    return "end"


class BusyClient:
    """Answers everything of `busy`, each answer held back until it is asked for."""

    def __init__(self, client: ScriptedClient) -> None:
        self.client = client
        self.terminals: list[str] = []
        self.released: list[str] = []
        for method in (
            "fs/read_text_file",
            "fs/write_text_file",
            "session/request_permission",
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release",
            "elicitation/create",
        ):
            client.on[method] = lambda params: HOLD
        self.answered: set[Any] = set()

    def pending(self) -> list[dict[str, Any]]:
        return [
            message
            for message in self.client.log
            if "method" in message and "id" in message and message["id"] not in self.answered
        ]

    async def answer_all(self) -> bool:
        found = False
        for message in self.pending():
            found = True
            self.answered.add(message["id"])
            await self.client.reply(message, self.result(message["method"], message["params"]))
        return found

    def result(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "fs/read_text_file":
                return {"content": "old"}
            case "session/request_permission":
                return {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}
            case "terminal/create":
                self.terminals.append(f"t{len(self.terminals)}")
                return {"terminalId": self.terminals[-1]}
            case "terminal/output":
                return {"output": "x", "truncated": False, "exitStatus": {"exitCode": 0}}
            case "terminal/wait_for_exit":
                return {"exitCode": 0}
            case "terminal/release":
                self.released.append(params["terminalId"])
                return {}
            case "elicitation/create":
                return {"action": "accept", "content": {}}
            case _:
                return None


async def run_busy(cancel_at: int) -> bool:
    """Run the busy turn and cancel it when that many answers have been given; return whether it was."""
    async with connected(agent(busy)) as client:
        script = BusyClient(client)
        session = await client.new_session()
        id = await client.start_prompt(session)
        step = 0
        cancelled = False
        with trio.fail_after(60):
            while not client.answered(id):
                await trio.testing.wait_all_tasks_blocked()
                if step == cancel_at:
                    cancelled = True
                    await client.cancel(session)
                    await trio.testing.wait_all_tasks_blocked()
                step += 1
                await script.answer_all()
                await trio.testing.wait_all_tasks_blocked()
        result = await client.answer(id)
        await script.answer_all()
        await trio.testing.wait_all_tasks_blocked()
        await script.answer_all()
        assert result == {"stopReason": "cancelled" if cancelled else "end_turn"}
        check_traces(client, script, id)
    return cancelled


def check_traces(client: ScriptedClient, script: BusyClient, id: str) -> None:
    # One legal answer: the client refuses a second one by itself. Updates all come before it.
    methods = client.methods()
    assert "session/update" not in methods[methods.index(f"={id}") :]
    # Every terminal that the client made was released once.
    assert sorted(script.released) == sorted(script.terminals)
    # Every tool call was settled.
    last: dict[str, str] = {}
    for update in client.updates("tool_call", "tool_call_update"):
        if "status" in update:
            assert last.get(update["toolCallId"]) not in ("completed", "failed")
            last[update["toolCallId"]] = update["status"]
    assert set(last.values()) <= {"completed", "failed"}


async def test_a_turn_cancelled_at_any_of_its_requests_leaves_nothing_behind() -> None:
    """X2, X5, F4"""
    steps = 0
    while await run_busy(steps):
        steps += 1
    assert steps >= 12


async def run_busy_ticks(ticks: int) -> bool:
    """The same, but the cancellation comes after a number of passes of the scheduler."""
    async with connected(agent(busy)) as client:
        script = BusyClient(client)
        session = await client.new_session()
        cancelled = False
        id = await client.start_prompt(session)
        with trio.fail_after(60):
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
                await script.answer_all()
                if client.answered(id):
                    break
            else:
                cancelled = True
                await client.cancel(session)
            while not client.answered(id):
                await trio.lowlevel.checkpoint()
                await script.answer_all()
            # What a late answer still makes the agent say: the release of a late terminal.
            for _ in range(20):
                await trio.lowlevel.checkpoint()
                await script.answer_all()
        if not cancelled:
            assert await client.answer(id) == {"stopReason": "end_turn"}
        check_traces(client, script, id)
    return cancelled


async def test_a_turn_cancelled_at_any_pass_of_the_scheduler_leaves_nothing_behind(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """X2, X5, F4"""
    ticks = 0
    while await run_busy_ticks(ticks):
        ticks += 1
    assert ticks >= 30


# The client goes ---------------------------------------------------------------------------------------


async def test_a_turn_whose_client_has_gone_ends_without_noise(caplog: pytest.LogCaptureFixture) -> None:
    """W11, T11"""
    ended = trio.Event()

    async def prompt(ctx: PromptContext) -> None:
        with pytest.raises(trio.Cancelled):
            await ctx.read_file("x")
        ended.set()
        with trio.CancelScope(shield=True), pytest.raises(errors.ConnectionLost):
            await ctx.read_file("y")
        await ctx.send_message("z")

    async with connected(agent(prompt)) as client:
        client.on["fs/read_text_file"] = lambda params: HOLD
        await client.start_prompt(await client.new_session())
        await client.wait_for("fs/read_text_file")
        await client.stream.aclose()
        await ended.wait()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_handlers_connection_error_is_no_failure_of_the_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def prompt() -> None:
        raise errors.ConnectionLost("gone")

    async with connected(agent(prompt)) as client:
        with pytest.raises(WireError) as caught:
            await client.prompt(await client.new_session())
        assert caught.value.code == -32603
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_interrupt_in_a_handler_ends_the_agent_and_is_raised_as_itself() -> None:
    class Stop(BaseException):
        pass

    answers: list[Any] = []

    async def prompt(text: str) -> None:
        if text == "in a group":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                raise Stop
        raise Stop

    async def main(text: str) -> None:
        async with connected(agent(prompt)) as client:
            id = await client.start_prompt(await client.new_session(), text)
            await client.wait_until(lambda: client.answered(id))
            answers.append(await client.answer(id))

    for text in ("alone", "in a group"):
        with pytest.RaisesGroup(Stop, flatten_subgroups=True):
            trio.run(main, text)
    assert answers == [{"stopReason": "cancelled"}] * 2


async def test_cancelling_the_agent_answers_its_turns_and_a_handlers_error_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """X2: also when it is the agent that ends."""
    caplog.set_level(logging.INFO, "trio_acp")

    async def prompt(ctx: PromptContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            if ctx.text == "fail":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
                    raise ValueError("unwinding")

    app = agent(prompt)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        client = await client_of(app, scope, nursery)
        await client.initialize()
        ids = []
        for text in ("go", "fail"):
            ids.append(await client.start_prompt(await client.new_session(), text))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await client.ended.wait()
        for id in ids:
            assert (await client.answer(id)) == {"stopReason": "cancelled"}
    assert "unwinding" in caplog.text


async def client_of(app: AgentApp, scope: trio.CancelScope, nursery: trio.Nursery) -> ScriptedClient:
    from trio_acp.transports import open_memory_pair

    ours, theirs = open_memory_pair()

    async def serve() -> None:
        with scope:
            await app.serve(theirs)

    nursery.start_soon(serve)
    client = ScriptedClient(ours)
    nursery.start_soon(client.read)
    return client

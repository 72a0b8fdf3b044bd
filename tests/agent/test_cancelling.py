"""What cancels a turn, and what is left of it then: nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import HOLD, ScriptedClient, WireError, agent, connected, prompt_params
from trio_acp import _errors as errors
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import ToolKind


async def sleeper(ctx: PromptContext) -> None:
    await trio.sleep_forever()


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

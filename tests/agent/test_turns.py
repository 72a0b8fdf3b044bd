"""One turn after another: what a prompt is answered with, and in which order."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from tests.agent.scripted import WireError, agent, connected, prompt_params
from trio_acp import _errors as errors
from trio_acp.agent import AgentSession, PromptContext
from trio_acp.agent._live import MAX_QUEUED_PROMPTS
from trio_acp.schema import PromptCapabilities, PromptResponse, StopReason, TextContent

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
        assert client.said() == repr(("a\na", 3, {"m": 1}, "/proj", False))


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
        await client.wait_until(lambda: bool(client.updates("available_commands_update")))
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

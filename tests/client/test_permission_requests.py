"""Permission requests outside of turns, and what a handler is given with each request (P2, P3, F10)."""

from __future__ import annotations

import contextvars
import logging
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._handlers import blocked, obstinate, punctual, run_turn, shielded
from tests.client._scripted import ALLOW_OR_REJECT, CANCELLED, Scene, Wire, chunk, notice, select
from trio_acp import (
    AcpOptions,
    PermissionRequest,
    Selected,
)

# Outside of a turn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", ["s1", "s9"])
@pytest.mark.parametrize(
    ("handler", "expected", "logged"),
    [
        (None, select("yes"), ""),
        (Selected("yes"), select("yes"), ""),
        (ValueError("secret"), select("no"), "failed outside of a turn"),
        (Selected("maybe"), select("no"), "failed outside of a turn"),
        (blocked, CANCELLED, "not decided in time"),
        (shielded, CANCELLED, "not decided in time"),
        (obstinate, CANCELLED, "not decided in time"),
        (punctual, CANCELLED, "not decided in time"),
    ],
)
async def test_outside_of_a_turn_the_same_rules_hold_and_failures_are_logged(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    session: str,
    handler: Any,
    expected: Any,
    logged: str,
) -> None:
    async def on_permission(request: PermissionRequest) -> Any:
        assert request.session_id == session
        if isinstance(handler, Exception):
            raise handler
        if isinstance(handler, Selected):
            return handler
        return await handler(request)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        asked_at = trio.current_time()
        id = await wire.ask_permission(session)
        assert await wire.answer(id) == expected
        assert trio.current_time() - asked_at == (30 if expected == CANCELLED else 0)
        await wire.end(await wire.prompt())

    options = AcpOptions(on_permission=None if handler is None else on_permission)
    async with Scene(script, options) as (agent, _wire):
        made = await agent.new_session()
        await trio.sleep(200)
        async with made.prompt("goes on"):
            pass
    assert logged in caplog.text


async def test_outside_of_a_turn_a_broken_late_handler_is_answered_cancelled_and_a_withdrawn_one_so(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise ValueError("mine") from None

    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.answer(await wire.ask_permission()) == CANCELLED
        id = await wire.ask_permission()
        await wire.withdraw(id)
        assert await wire.refusal(id) == -32800

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(100)
    assert "mine" in caplog.text


async def test_outside_of_a_turn_a_withdrawn_request_stays_answered_while_its_handler_goes_on(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        id = await wire.ask_permission()
        await trio.sleep(1)
        await wire.withdraw(id)
        assert await wire.refusal(id) == -32800

    async with Scene(script, AcpOptions(on_permission=shielded)) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(200)
    assert "in time" not in caplog.text


async def test_closing_the_session_cancels_requests_outside_of_turns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        id = await wire.ask_permission()
        await wire.result(await wire.expect("session/close"), {})
        assert await wire.answer(id) == CANCELLED

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        await trio.sleep(1)
        await session.close()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_outside_of_a_turn_what_is_no_exception_ends_the_connection(
    autojump_clock: trio.testing.MockClock, error: BaseException
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        raise error

    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.answer(await wire.ask_permission()) == select("no")

    with pytest.raises(BaseExceptionGroup) as caught:  # of the scene's own nursery
        async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
            await agent.new_session()
            await trio.sleep(10)
    assert caught.value.exceptions == (error,)


# What a handler is given ---------------------------------------------------------------------------------


async def test_a_request_comes_with_all_that_is_known_of_its_tool_call_and_merges_into_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """P3, F10: the updates before the request are folded when the handler starts."""
    requests: list[PermissionRequest] = []
    then: list[Any] = []

    async def handler(request: PermissionRequest) -> Any:
        requests.append(request)
        then.append((turn.text, turn.tool_calls["t1"].title))
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        request = wire.permission(status="pending", locations=[{"path": "/a"}])
        request["params"]["_meta"] = {"m": 1}
        await wire.burst(
            chunk("before"),
            notice(
                "s1", {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Remove", "kind": "delete"}
            ),
            request,
            chunk("after"),
            notice("s1", {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "title": "Removed"}),
        )
        await wire.answer(request["id"])
        other = await wire.ask_permission(toolCallId="t2", title="Unheard of")
        await wire.answer(other)
        await wire.end(prompt)

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            pass
        first, second = requests
        assert (first.tool_call.title, first.tool_call.kind, first.tool_call.status) == (
            "Remove",
            "delete",
            "pending",
        )
        assert first.raw_tool_call == {"toolCallId": "t1", "status": "pending", "locations": [{"path": "/a"}]}
        assert first.meta == {"m": 1}
        allow, reject = first.first_allow(), first.first_reject()
        assert allow is not None
        assert reject is not None
        assert (allow.option_id, reject.option_id) == ("yes", "no")
        assert first.option("yes") is allow
        assert second.tool_call.title == "Unheard of"
        assert [location.path for location in turn.tool_calls["t1"].locations] == ["/a"]
        assert list(turn.tool_calls) == ["t1", "t2"]
        assert session.state.tool_calls["t1"].title == "Removed"
        assert len(turn.messages) == 2  # the request parts the text before from the text after


async def test_handlers_run_in_the_context_of_the_task_that_opened_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    async def handler(request: PermissionRequest) -> Any:
        seen.append(variable.get())
        variable.set("changed by a handler")
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(2):
            await wire.answer(await wire.ask_permission())
        await wire.end(prompt)
        await wire.answer(await wire.ask_permission())

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        variable.set("of the opener")
        async with session.prompt("x"):
            variable.set("later")
        await trio.sleep(1)
        assert variable.get() == "later"
    assert seen == ["of the opener", "of the opener", "unset"]


async def test_requests_of_a_session_begin_in_wire_order(autojump_clock: trio.testing.MockClock) -> None:
    """Trio starts new tasks in any order."""
    begun: list[str] = []

    async def on_permission(request: PermissionRequest) -> Any:
        begun.append(request.tool_call.tool_call_id)
        await trio.sleep(1)
        return Selected("yes")

    async def read(request: Any) -> str:
        begun.append(request.path[1:])
        return ""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        for outside in (False, True):
            prompt = None if outside else await wire.prompt()
            burst = []
            for n in range(20):
                params = {"sessionId": "s1", "path": f"/{n}"}
                asking = (
                    wire.asking("fs/read_text_file", params) if n % 3 else wire.permission(toolCallId=str(n))
                )
                burst.append(asking)
            await wire.burst(*burst)
            for _ in range(20):
                await wire.receive()
            if prompt is not None:
                await wire.end(prompt)

    options = AcpOptions(on_permission=on_permission, read_text_file=read)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x"):
            pass
        await trio.sleep(10)
    assert begun == [str(n) for n in range(20)] * 2


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sessionId": "s1", "options": ALLOW_OR_REJECT},
        {"sessionId": 1, "toolCall": {"toolCallId": "t"}, "options": []},
        {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": "all"},
        {"sessionId": "s1", "toolCall": {}, "options": []},
    ],
)
async def test_a_malformed_request_is_refused_and_the_turn_goes_on(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, params: Any
) -> None:
    """W4: -32602, naming the field."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask("session/request_permission", params)
        assert await wire.refusal(id) == -32602
        await wire.end(prompt)

    with caplog.at_level(logging.DEBUG):
        turn = await run_turn(script, blocked)
    assert turn.stop_reason == "end_turn"

"""Permission requests: one answer whatever happens, and never a yes that nobody gave (P1 to P3, X1, X4)."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import ALLOW_OR_REJECT, CANCELLED, Scene, Wire, chunk, notice, option, select
from trio_acp import (
    AcpOptions,
    Cancelled,
    ConnectionLost,
    LocalProtocolError,
    PermissionRequest,
    PermissionTimeout,
    Reject,
    Selected,
    Turn,
)

Handler = Callable[[PermissionRequest], Awaitable[Any]]


def asking(
    *requests: dict[str, Any] | None, answers: list[Any], cancels: bool = False, session: str = "s1"
) -> Callable[[Wire], Awaitable[None]]:
    """Return a script that asks in a turn and checks the answers, and the cancellation after them."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for given, expected in zip(requests or (None,), answers, strict=True):
            request = wire.permission(session) if given is None else given
            await wire.burst(request)
            if isinstance(expected, int):
                assert await wire.refusal(request["id"]) == expected
            else:
                assert await wire.answer(request["id"]) == expected
        if cancels:
            await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled" if cancels else "end_turn")
        await wire.quiet()

    return script


async def run_turn(script: Any, handler: Handler | None, **options: Any) -> Turn:
    async with Scene(script, AcpOptions(on_permission=handler, **options)) as (agent, _wire):
        session = await agent.new_session()
        turn = session.prompt("x")
        failure: BaseException | None = None
        try:
            async with turn:
                await turn.wait()
        except BaseException as error:
            failure = error
    if failure is not None:
        raise failure  # outside of the scene, whose nursery would wrap it
    return turn


# Without a handler ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([option("a", "reject_once"), option("b", "allow_always"), option("c", "allow_once")], select("b")),
        ([option("c", "allow_once"), option("b", "allow_always")], select("c")),
        ([option("a", "allow"), option("b", "ALLOW_ONCE"), option("c", "yes")], CANCELLED),
        ([option("allow_once", "reject_once")], CANCELLED),
        ([], CANCELLED),
    ],
)
async def test_without_a_handler_the_first_allowing_option_is_taken_and_never_an_unknown_kind(
    autojump_clock: trio.testing.MockClock, options: Any, expected: Any
) -> None:
    """F5"""

    async def script(wire: Wire) -> None:
        await asking(wire.permission(options=options), answers=[expected])(wire)

    assert (await run_turn(script, None)).stop_reason == "end_turn"


# What a handler may return -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Selected("yes"), select("yes")),
        (Selected("no"), select("no")),
        (Selected(""), select("no")),
        (Reject(), select("no")),
        (Cancelled(), CANCELLED),
    ],
)
async def test_a_decision_is_answered_as_made(
    autojump_clock: trio.testing.MockClock, decision: Any, expected: Any
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        await trio.sleep(29)
        return decision

    turn = await run_turn(asking(answers=[expected]), handler)
    assert turn.stop_reason == "end_turn"
    assert not turn.cancel_requested


@pytest.mark.parametrize("decision", [Reject(), Selected("")])
@pytest.mark.parametrize("kind", ["reject_always", "reject"])
async def test_a_rejection_without_an_option_for_it_is_cancelled(
    autojump_clock: trio.testing.MockClock, decision: Any, kind: str
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        return decision

    async def script(wire: Wire) -> None:
        options = [option("yes", "allow_once"), option("never", kind)]
        expected = select("never") if kind == "reject_always" else CANCELLED
        await asking(wire.permission(options=options), answers=[expected])(wire)

    await run_turn(script, handler)


@pytest.mark.parametrize(
    ("decision", "error", "words"),
    [
        (Selected("maybe"), LocalProtocolError, "'maybe', which was not offered.*'yes', 'no'"),
        ("yes", TypeError, "must return Selected"),
        (None, TypeError, "must return Selected"),
        (True, TypeError, "must return Selected"),
    ],
)
async def test_what_is_no_possible_decision_is_a_rejection_and_an_error_of_the_turn(
    autojump_clock: trio.testing.MockClock, decision: Any, error: Any, words: str
) -> None:
    """P1: the agent is told no before it is told to stop."""

    async def handler(request: PermissionRequest) -> Any:
        return decision

    with pytest.raises(error, match=words):
        await run_turn(asking(answers=[select("no")], cancels=True), handler)


async def test_a_choice_where_nothing_was_offered_says_so(autojump_clock: trio.testing.MockClock) -> None:
    async def handler(request: PermissionRequest) -> Any:
        assert request.first_allow() is request.first_reject() is request.option("yes") is None
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await asking(wire.permission(options=[]), answers=[CANCELLED], cancels=True)(wire)

    with pytest.raises(LocalProtocolError, match="nothing was offered"):
        await run_turn(script, handler)


async def test_a_handler_that_raises_rejects_and_its_exception_leaves_the_block_as_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mine = ValueError("mine")

    async def handler(request: PermissionRequest) -> Any:
        raise mine

    with pytest.raises(ValueError, match="mine") as caught:
        await run_turn(asking(answers=[select("no")], cancels=True), handler)
    assert caught.value is mine
    assert mine.__context__ is None


@pytest.mark.parametrize("late", [False, True])
async def test_a_group_of_a_handler_passes_untouched(
    autojump_clock: trio.testing.MockClock, late: bool
) -> None:
    """Also through scopes that were cancelled: it is that very group."""
    mine = ExceptionGroup("mine", [ValueError("a"), KeyError("b")])

    async def handler(request: PermissionRequest) -> Any:
        with trio.CancelScope(shield=True):
            await trio.sleep(40 if late else 0)
        raise mine

    answer = CANCELLED if late else select("no")
    with pytest.raises(ExceptionGroup) as caught:
        await run_turn(asking(answers=[answer], cancels=True), handler)
    assert caught.value is mine


async def test_a_group_of_the_body_passes_untouched(autojump_clock: trio.testing.MockClock) -> None:
    mine = ExceptionGroup("mine", [ValueError("a")])

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ExceptionGroup) as caught:
            async with session.prompt("x") as turn:
                turn.cancel_scope.cancel()
                raise mine
        assert caught.value is mine


async def test_the_cancelled_part_of_a_handlers_group_stays_with_trio(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Only the rest of it is the user's; and the cancellation is not swallowed either."""

    async def handler(request: PermissionRequest) -> Any:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    raise ValueError("while unwinding")

            await trio.sleep_forever()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await wire.expect("session/cancel")
        assert await wire.answer(id) == CANCELLED
        await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(on_permission=handler)) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ExceptionGroup) as caught, trio.move_on_after(1):
            async with session.prompt("x"):
                await trio.sleep_forever()
        assert caught.group_contains(ValueError, match="while unwinding")
        assert not caught.group_contains(trio.Cancelled)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), trio.TooSlowError()])
async def test_exceptions_of_every_kind_leave_the_block(
    autojump_clock: trio.testing.MockClock, error: BaseException
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        raise error

    with pytest.raises(type(error)) as caught:
        await run_turn(asking(answers=[select("no")], cancels=True), handler)
    assert caught.value is error


# The deadline --------------------------------------------------------------------------------------------


async def blocked(request: PermissionRequest) -> Any:
    await trio.sleep_forever()


async def shielded(request: PermissionRequest) -> Any:
    with trio.CancelScope(shield=True):
        await trio.sleep(100)
    return Selected("yes")


async def obstinate(request: PermissionRequest) -> Any:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        return Selected("yes")


async def punctual(request: PermissionRequest) -> Any:
    """Decides in the very moment of the deadline: too late."""
    with trio.CancelScope(shield=True):
        await trio.sleep(30)
    return Selected("yes")


@pytest.mark.parametrize("handler", [blocked, shielded, obstinate, punctual])
async def test_a_decision_that_is_not_made_in_time_is_cancelled_at_that_very_moment(
    autojump_clock: trio.testing.MockClock, handler: Handler
) -> None:
    answered_at: list[float] = []

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        asked_at = trio.current_time()
        id = await wire.ask_permission(title="Delete everything")
        assert await wire.answer(id) == CANCELLED
        answered_at.append(trio.current_time() - asked_at)
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await wire.quiet()

    with pytest.raises(PermissionTimeout, match="Delete everything") as caught:
        await run_turn(script, handler)
    assert answered_at == [30]
    assert (caught.value.seconds, caught.value.title) == (30, "Delete everything")
    assert "permission_timeout" in str(caught.value)


async def test_a_handler_in_a_thread_does_not_delay_the_answer() -> None:
    """With real time, since a thread cannot wait for a virtual clock."""
    gate = threading.Event()
    answered: list[Any] = []

    async def handler(request: PermissionRequest) -> Any:
        await trio.to_thread.run_sync(gate.wait)
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        answered.append(await wire.answer(await wire.ask_permission()))
        await wire.expect("session/cancel")
        gate.set()
        await wire.end(prompt, "cancelled")

    with pytest.raises(PermissionTimeout):
        await run_turn(script, handler, permission_timeout=0.01)
    assert answered == [CANCELLED]


async def test_a_handler_that_breaks_because_its_time_is_up_has_its_error_raised_and_cancelled_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def handler(request: PermissionRequest) -> Any:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise ValueError("mine") from None

    with pytest.raises(ValueError, match="mine") as caught:
        await run_turn(asking(answers=[CANCELLED], cancels=True), handler)
    assert isinstance(caught.value.__context__, (PermissionTimeout, trio.Cancelled))


async def test_the_limit_may_be_none_and_each_request_has_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """F4"""

    async def handler(request: PermissionRequest) -> Any:
        await trio.sleep(3000)
        return Selected("yes")

    await run_turn(asking(None, None, answers=[select("yes")] * 2), handler, permission_timeout=float("inf"))

    async def quick(request: PermissionRequest) -> Any:
        await trio.sleep(20)
        return Selected("yes")

    await run_turn(asking(None, None, None, answers=[select("yes")] * 3), quick)


async def test_two_handlers_that_time_out_together_are_one_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        one, two = wire.permission(), wire.permission()
        await wire.burst(one, two)
        messages = [await wire.receive() for _ in range(3)]
        assert messages[1] is not None
        assert messages[1]["method"] == "session/cancel"
        answers = {message["id"]: message["result"] for message in (messages[0], messages[2]) if message}
        assert answers == {one["id"]: CANCELLED, two["id"]: CANCELLED}
        await wire.end(prompt, "cancelled")

    with pytest.raises(PermissionTimeout):
        await run_turn(script, blocked)


# Ends from the other side --------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [blocked, shielded])
async def test_a_request_that_the_agent_withdraws_is_answered_so_at_once(
    autojump_clock: trio.testing.MockClock, handler: Handler
) -> None:
    """X4: -32800, the handler ends, and the turn goes on."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await trio.sleep(1)
        await wire.withdraw(id)
        await wire.withdraw(id)
        assert await wire.refusal(id) == -32800
        request = wire.permission()
        await wire.burst(
            request, {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request["id"]}}
        )
        assert await wire.refusal(request["id"]) == -32800
        await wire.end(prompt)
        await wire.quiet()

    turn = await run_turn(script, handler, permission_timeout=1000)
    assert turn.stop_reason == "end_turn"
    assert not turn.cancel_requested


async def test_the_end_of_the_turn_ends_its_handlers(autojump_clock: trio.testing.MockClock) -> None:
    ended: list[str] = []

    async def handler(request: PermissionRequest) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(request.session_id)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        ids = [await wire.ask_permission() for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        await wire.end(prompt)
        for id in ids:
            assert await wire.answer(id) == CANCELLED
        await wire.quiet()

    turn = await run_turn(script, handler)
    assert turn.stop_reason == "end_turn"
    assert not turn.cancel_requested
    assert ended == ["s1"] * 3


async def test_the_end_of_the_connection_ends_its_handlers(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.prompt()
        await wire.ask_permission()
        await wire.ask("session/request_permission", wire.permission("s9")["params"])
        await trio.sleep(1)
        wire.close()

    async with Scene(script, AcpOptions(on_permission=blocked), peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ConnectionLost):
            async with session.prompt("x"):
                pass


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

"""Permission requests: one answer whatever happens, and never a yes that nobody gave (P1 to P3, X1, X4)."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._handlers import Handler, blocked, obstinate, punctual, run_turn, shielded
from tests.client._scripted import CANCELLED, Scene, Wire, option, select
from trio_acp import (
    AcpOptions,
    Cancelled,
    ConnectionLost,
    LocalProtocolError,
    PermissionRequest,
    PermissionTimeout,
    Reject,
    Selected,
)


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


async def test_what_a_request_says_wrongly_beside_the_point_is_noted_and_no_reason_to_refuse_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await asking(wire.permission(status=[1]), answers=[select("yes")])(wire)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            assert await turn.wait() == "end_turn"
        assert [leniency.path for leniency in agent.leniencies] == [("toolCall", "status")]


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


@pytest.mark.parametrize("spare", [False, True])
async def test_a_rejection_is_never_answered_with_an_id_that_means_consent_too(
    autojump_clock: trio.testing.MockClock, spare: bool
) -> None:
    """P2: the answer is an id and nothing else."""

    async def handler(request: PermissionRequest) -> Any:
        return Reject()

    async def script(wire: Wire) -> None:
        options = [option("x", "allow_once"), option("x", "reject_once")]
        options += [option("never", "reject_always")] * spare
        expected = select("never") if spare else CANCELLED
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

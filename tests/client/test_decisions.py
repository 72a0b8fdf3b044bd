"""What an audit hears of permission requests, and what happens when time is up (P1, F2, F3)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import ALLOW_OR_REJECT, CANCELLED, Scene, Wire, option, select
from trio_acp import (
    AcpOptions,
    Cancelled,
    DecidedPermission,
    PermissionRequest,
    PermissionTimeout,
    Reject,
    Selected,
)

ASKED = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "t1", "title": "Delete it"},
    "options": ALLOW_OR_REJECT,
}


class Audit:
    def __init__(self) -> None:
        self.entries: list[tuple[str | None, str, float]] = []
        self.decided: list[DecidedPermission] = []

    def __call__(self, decided: DecidedPermission) -> None:
        self.decided.append(decided)
        self.entries.append(
            (None if decided.option is None else decided.option.option_id, decided.reason, decided.seconds)
        )


async def sleeps(request: PermissionRequest) -> Any:
    await trio.sleep_forever()


def decides(decision: Any, after: float = 0) -> Any:
    async def handler(request: PermissionRequest) -> Any:
        await trio.sleep(after)
        if isinstance(decision, BaseException):
            raise decision
        return decision

    return handler


@pytest.mark.parametrize(
    ("handler", "entry", "error"),
    [
        (None, ("yes", "no handler", 0), None),
        (decides(Selected("yes"), 3), ("yes", "handler", 3), None),
        (decides(Selected("no", reason="policy: no"), 1), ("no", "policy: no", 1), None),
        (decides(Reject(), 2), ("no", "handler", 2), None),
        (decides(Reject(reason="")), ("no", "", 0), None),
        (decides(Cancelled(reason="nobody there")), (None, "nobody there", 0), None),
        (decides(ValueError("mine")), ("no", "handler failed", 0), ValueError),
        (decides("nonsense"), ("no", "invalid decision", 0), TypeError),
        (sleeps, (None, "timeout", 30), PermissionTimeout),
    ],
)
async def test_every_decision_is_told_with_its_reason_and_its_duration(
    autojump_clock: trio.testing.MockClock, handler: Any, entry: Any, error: type[Exception] | None
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.answer(await wire.ask("session/request_permission", ASKED))
        if error is not None:
            await wire.expect("session/cancel")
        await wire.end(prompt)

    audit = Audit()
    async with Scene(script, AcpOptions(on_permission=handler, on_decision=audit)) as (agent, _wire):
        session = await agent.new_session()
        failure: BaseException | None = None
        try:
            async with session.prompt("x"):
                pass
        except Exception as raised:
            failure = raised
    assert (None if failure is None else type(failure)) == error
    assert audit.entries == [entry]
    assert audit.decided[0].request.tool_call.title == "Delete it"


async def test_what_ends_a_question_without_a_decision_is_told_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await trio.sleep(1)
        await wire.withdraw(id)
        assert await wire.refusal(id) == -32800
        id = await wire.ask_permission()
        await trio.sleep(1)
        await wire.end(prompt)
        assert await wire.answer(id) == CANCELLED
        prompt = await wire.prompt()
        id = await wire.ask_permission()
        await wire.expect("session/cancel")
        assert await wire.answer(id) == CANCELLED
        assert await wire.answer(await wire.ask_permission()) == CANCELLED
        await wire.end(prompt, "cancelled")

    audit = Audit()
    options = AcpOptions(on_permission=sleeps, on_decision=audit, permission_timeout=1000)
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x"):
            pass
        async with session.prompt("x") as turn:
            await trio.sleep(2)
            turn.cancel()
    assert audit.entries == [
        (None, "withdrawn", 1),
        (None, "turn ended", 1),
        (None, "turn cancelled", 2),
        (None, "turn cancelled", 0),
    ]


async def test_time_that_is_up_may_mean_no_and_the_turn_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """F3: answered at that moment, also while the handler cannot be ended."""
    late: list[str] = []

    async def slow(request: PermissionRequest) -> Any:
        with trio.CancelScope(shield=True):
            await trio.sleep(8)
        late.append("yes")
        return Selected("yes")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for number in range(2):
            start = trio.current_time()
            assert await wire.answer(await wire.ask_permission()) == select("no")
            assert trio.current_time() - start == 5
            assert len(late) == number
            await trio.sleep(10)
        options = [option("yes", "allow_once")]
        assert await wire.answer(await wire.ask_permission(options=options)) == CANCELLED
        await wire.text("went on")
        await wire.end(prompt)

    audit = Audit()
    options = AcpOptions(
        on_permission=slow, on_decision=audit, permission_timeout=5, permission_timeout_action="reject"
    )
    async with Scene(script, options) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            await turn.wait()
        assert turn.text == "went on"
        assert not turn.cancel_requested
    assert audit.entries == [("no", "timeout", 5), ("no", "timeout", 5), (None, "timeout", 5)]


async def test_time_that_is_up_means_no_outside_of_a_turn_as_well(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.answer(await wire.ask_permission()) == select("no")

    options = AcpOptions(on_permission=sleeps, permission_timeout=5, permission_timeout_action="reject")
    async with Scene(script, options) as (agent, _wire):
        await agent.new_session()
    assert "not decided in time" in caplog.text


async def test_an_audit_that_fails_costs_no_answer_and_ends_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answers: list[Any] = []

    def fail(decided: DecidedPermission) -> None:
        raise KeyError("the log is full")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        answers.append(await wire.answer(await wire.ask_permission()))

    with pytest.raises(ExceptionGroup) as caught:  # the nursery is the scene's
        async with Scene(script, AcpOptions(on_decision=fail), peaceful=False) as (agent, _wire):
            await agent.new_session()
            await trio.sleep_forever()
    assert caught.value.split(KeyError)[1] is None
    assert answers == [select("yes")]


def test_the_action_at_the_end_of_time_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="permission_timeout_action"):
        AcpOptions(permission_timeout_action="allow")  # type: ignore[arg-type]

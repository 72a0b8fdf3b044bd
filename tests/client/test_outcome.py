"""When several things fail in a turn: which exception leaves the block, and where the others are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk
from trio_acp import (
    AcpOptions,
    ConnectedAgent,
    ConnectionLost,
    InternalError,
    PermissionTimeout,
    SlowConsumer,
    Turn,
)
from trio_acp._cancellation import trio_part, unwrapped, without_cancelled
from trio_acp.client._outcome import choose_outcome

# What fails, by precedence. Those of the user's code that can meet make a group.
SOURCES = ["interrupt", "body", "handler", "on_update", "slow", "timeout", "agent", "lost", "cancelled"]


# An agent that has gone does not answer.
PAIRS = [pair for pair in itertools.combinations(SOURCES, 2) if pair != ("agent", "lost")]


class Failures:
    """Makes chosen things fail in one turn, in an order that can be chosen too."""

    def __init__(self, first: str, second: str) -> None:
        self.chosen = (first, second)
        self.body = ValueError("body")
        self.handler = KeyError("handler")
        self.update = OSError("on_update")

    def __contains__(self, source: str) -> bool:
        return source in self.chosen

    async def on_permission(self, request: Any) -> Any:
        if "timeout" in self:
            with trio.CancelScope(shield=True):
                await trio.sleep(30)
        if "handler" in self:
            raise self.handler

    def on_update(self, params: dict[str, Any]) -> None:
        if "on_update" in self and params["update"]["content"]["text"] == "fail":
            raise self.update

    async def script(self, wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        if "handler" in self or "timeout" in self:
            await wire.ask_permission()
            await trio.testing.wait_all_tasks_blocked()
        if "slow" in self:
            await wire.burst(*[chunk("x")] * 20)
        if "on_update" in self:
            await wire.text("fail")
        while message := await wire.receive():
            if message.get("method") == "session/cancel":
                break
        if "agent" in self:
            await wire.error(prompt, -32603, "agent")
        elif "lost" in self:
            wire.close()
        else:
            await wire.end(prompt, "cancelled")

    async def run(self, agent: ConnectedAgent) -> BaseException | None:
        session = await agent.new_session()
        try:
            with trio.CancelScope() as outer:
                async with session.prompt("x") as turn:
                    await self._body(turn, outer)
        except BaseException as error:
            return error
        return None

    async def _body(self, turn: Turn, outer: trio.CancelScope) -> None:
        try:
            with trio.CancelScope(shield=True):
                await trio.sleep(40)
            if "cancelled" in self:
                outer.cancel()
            await trio.lowlevel.checkpoint()
            turn.cancel()
            await trio.sleep(1)
        finally:
            try:
                if "body" in self:
                    raise self.body
            finally:
                if "interrupt" in self:
                    raise KeyboardInterrupt


EXPECTED = {
    "interrupt": KeyboardInterrupt,
    "body": ValueError,
    "handler": KeyError,
    "on_update": OSError,
    "slow": SlowConsumer,
    "timeout": PermissionTimeout,
    "agent": type(None),  # after a cancellation, which this scene needs, it is a normal end
    "lost": ConnectionLost,
    "cancelled": type(None),
}


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and its contexts; fail on a ring."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None:
        assert not any(one is other for other in found), "the contexts make a ring"
        found.append(one)
        one = one.__context__
    return found


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_the_precedence_holds_for_every_two_things_that_fail_in_one_turn(
    autojump_clock: trio.testing.MockClock, first: str, second: str
) -> None:
    """KeyboardInterrupt, then the user's code, then the library, then a cancellation."""
    failures = Failures(first, second)
    options = AcpOptions(
        on_permission=failures.on_permission, on_update=failures.on_update, max_buffered_updates=8
    )
    async with Scene(failures.script, options, peaceful=False) as (agent, _wire):
        raised = await failures.run(agent)
    user = {"body", "handler", "on_update"}
    if first == "body" and second in user:
        # The one case of a group of the library's: body plus handler or hook.
        assert isinstance(raised, ExceptionGroup)
        assert [type(error) for error in raised.exceptions] == [ValueError, EXPECTED[second]]
        assert raised.__context__ is None
        return
    expected = [EXPECTED[source] for source in (first, second) if EXPECTED[source] is not type(None)]
    if second == "timeout" and first in ("slow", "on_update"):
        expected = expected[:1]  # the turn was being ended already when the time was up
    if {first, second} == {"handler", "on_update"}:
        assert type(raised) in expected  # both are callbacks: the one that came first
    else:
        assert type(raised) is (expected[0] if expected else type(None))
    if raised is not None:
        found = [type(error) for error in chain(raised)]
        for one in expected:
            assert one in found


@pytest.mark.parametrize("source", SOURCES)
async def test_one_failure_is_raised_as_itself(autojump_clock: trio.testing.MockClock, source: str) -> None:
    failures = Failures(source, source)
    options = AcpOptions(
        on_permission=failures.on_permission, on_update=failures.on_update, max_buffered_updates=8
    )
    async with Scene(failures.script, options, peaceful=False) as (agent, _wire):
        raised = await failures.run(agent)
    assert type(raised) is EXPECTED[source]


async def test_a_handlers_error_goes_before_an_agents_that_the_body_has_raised(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The body only passes on what the library told it."""

    async def handler(request: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.ask_permission()
        await trio.testing.wait_all_tasks_blocked()
        await wire.error(prompt, -32603, "agent")

    async with Scene(script, AcpOptions(on_permission=handler), peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ValueError, match="mine") as caught:
            async with session.prompt("x") as turn:
                await turn.wait()
        assert any(isinstance(error, InternalError) for error in chain(caught.value))


async def test_the_first_finding_of_the_library_is_the_one_that_counts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = Failures("timeout", "timeout")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.ask_permission()
        await trio.sleep(31)
        await wire.burst(*[chunk("x")] * 20)
        await wire.receive()
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")

    options = AcpOptions(on_permission=failures.on_permission, max_buffered_updates=8)
    async with Scene(script, options, peaceful=False) as (agent, _wire):
        raised = await failures.run(agent)
    assert type(raised) is PermissionTimeout


async def test_a_hook_that_fails_at_every_update_does_not_pile_up_errors(
    autojump_clock: trio.testing.MockClock,
) -> None:
    calls = 0

    def on_update(params: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        raise ValueError(calls)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for _ in range(100):
            await wire.text("x")
        await wire.expect("session/cancel")
        await wire.end(prompt)

    async with Scene(script, AcpOptions(on_update=on_update)) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ValueError, match=r"^1$") as caught:
            async with session.prompt("x"):
                await trio.sleep_forever()
        assert 1 < len(chain(caught.value)) <= 17
    assert calls == 100


async def test_on_update_of_an_abandoned_turn_fails_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody is in that turn's block any more who could be told."""

    def on_update(params: dict[str, Any]) -> None:
        raise ValueError("mine")

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(6)
        await wire.text("late")

    with pytest.raises(BaseExceptionGroup) as caught:  # of the scene's own nursery
        async with Scene(script, AcpOptions(on_update=on_update)) as (agent, _wire):
            session = await agent.new_session()
            async with session.prompt("x") as turn:
                turn.cancel()
            await trio.sleep(10)
    assert [repr(error) for error in caught.value.exceptions] == ["ValueError('mine')"]


# The rules themselves ------------------------------------------------------------------------------------


def cancelled() -> trio.Cancelled:
    async def main() -> BaseException:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                return error
        raise AssertionError

    error = trio.run(main)
    assert isinstance(error, trio.Cancelled)
    return error


def test_groups_without_cancellations_keep_their_identity() -> None:
    group = ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [KeyError()])])
    assert without_cancelled(group) is group
    error = ValueError()
    assert without_cancelled(error) is error


def test_cancellations_are_taken_out_of_groups_and_given_back() -> None:
    one = cancelled()
    error = ValueError()
    assert without_cancelled(one) is None
    assert without_cancelled(BaseExceptionGroup("g", [one])) is None
    rest = without_cancelled(BaseExceptionGroup("g", [one, error]))
    assert isinstance(rest, ExceptionGroup)
    assert rest.exceptions == (error,)
    assert trio_part(one) is one
    part = trio_part(BaseExceptionGroup("g", [one, error]))
    assert isinstance(part, BaseExceptionGroup)
    assert part.exceptions == (one,)


def test_what_comes_out_of_a_nursery_is_unwrapped_with_real_errors_first() -> None:
    one, error, other = cancelled(), ValueError(), KeyError()
    assert unwrapped(error) is error
    assert unwrapped(one) is one
    assert unwrapped(BaseExceptionGroup("g", [one, BaseExceptionGroup("h", [error])])) is error
    assert unwrapped(BaseExceptionGroup("g", [BaseExceptionGroup("h", [one, one])])) is one
    several = unwrapped(BaseExceptionGroup("g", [BaseExceptionGroup("h", [error, other]), one]))
    assert isinstance(several, ExceptionGroup)
    assert several.exceptions == (error, other)


def test_nothing_failed_and_only_cancelled() -> None:
    one = cancelled()
    assert choose_outcome(None, [], None) is None
    assert choose_outcome(one, [], None) is one
    assert choose_outcome(None, [], one) is one
    assert choose_outcome(one, [], one) is one


def test_an_interrupt_inside_a_group_of_the_bodys_goes_before_a_callback() -> None:
    group = BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError()])
    error = KeyError()
    assert choose_outcome(group, [error], None) is group
    assert group.__context__ is error
    interrupt = KeyboardInterrupt()
    mine = ValueError()
    assert choose_outcome(mine, [interrupt], None) is interrupt
    assert interrupt.__context__ is mine


def test_losers_are_hung_up_once_and_without_a_ring() -> None:
    winner, loser, earlier, third = ValueError("w"), KeyError("l"), OSError("e"), TypeError("t")
    winner.__context__ = earlier
    loser.__context__ = winner  # raised while the winner was handled
    third.__context__ = loser
    assert choose_outcome(winner, [], loser) is winner
    assert chain(winner) == [winner, earlier, loser]
    assert choose_outcome(winner, [], loser) is winner
    assert chain(winner) == [winner, earlier, loser]
    assert choose_outcome(winner, [], third) is winner
    assert chain(winner) == [winner, earlier, loser, third]


def test_a_loser_brings_its_own_context_along() -> None:
    winner, loser, cause = ValueError("w"), KeyError("l"), OSError("c")
    loser.__context__ = cause
    assert choose_outcome(winner, [], loser) is winner
    assert chain(winner) == [winner, loser, cause]


def test_a_ring_that_was_there_before_is_survived() -> None:
    winner, other, loser = ValueError("w"), KeyError("o"), OSError("l")
    winner.__context__ = other
    other.__context__ = winner
    assert choose_outcome(winner, [], loser) is winner
    assert chain(winner) == [winner, other, loser]


def test_one_exception_from_two_places_is_one() -> None:
    error = ValueError()
    assert choose_outcome(error, [error], None) is error
    assert choose_outcome(error, [error], error) is error
    assert choose_outcome(None, [error, error], error) is error
    assert error.__context__ is None


def test_body_and_callback_make_a_group_whose_losers_are_its_context() -> None:
    body, first, second, library = ValueError(), KeyError(), OSError(), TypeError()
    group = choose_outcome(body, [first, second], library)
    assert isinstance(group, ExceptionGroup)
    assert group.exceptions == (body, first)
    assert chain(group) == [group, second, library]

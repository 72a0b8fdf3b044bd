"""Agents tried from outside: a good one passes, a bad one is found, and its failure is made small."""

from __future__ import annotations

import contextlib
import json
import random
import types
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
import trio

from trio_acp.agent import AgentApp, PromptContext
from trio_acp.testing import (
    Failure,
    ScriptedAgent,
    fuzz_agent,
    make_steps,
    open_memory_pair,
    play_steps,
)


def good_app(*, closes: bool = True) -> AgentApp:
    app = AgentApp("good", "1")

    @app.on_prompt
    async def prompt(ctx: PromptContext) -> None:
        await ctx.send_message("hi")
        await ctx.ask_permission("Really?")
        await trio.sleep(1)

    if closes:

        @app.on_list_sessions
        async def list_sessions() -> list[Any]:
            return []

        @app.on_close_session
        async def close() -> None: ...

    return app


def serving(make: Callable[[], AgentApp]) -> Callable[[], Any]:
    """Connects to a fresh app each time."""

    @contextlib.asynccontextmanager
    async def connect() -> AsyncGenerator[trio.abc.Stream]:
        async with trio.open_nursery() as nursery:
            stream = make().connect_in_memory(nursery)
            yield stream
            await stream.aclose()

    return connect


def scripted(script: Callable[[ScriptedAgent], Awaitable[object]]) -> Callable[[], Any]:
    """Connects to a script each time."""

    @contextlib.asynccontextmanager
    async def connect() -> AsyncGenerator[trio.abc.Stream]:
        near, far = open_memory_pair()

        async def play() -> None:
            with contextlib.suppress(
                AssertionError, trio.BrokenResourceError
            ):  # another check than the one that it was written for
                await script(ScriptedAgent(far, strict=False))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(play)
            yield near
            nursery.cancel_scope.cancel()

    return connect


async def gone(agent: ScriptedAgent) -> None:
    await agent.aclose()


async def test_fuzzing_a_good_agent_finds_nothing(autojump_clock: Any) -> None:
    counts: list[int] = []
    report = await fuzz_agent(serving(good_app), seed=3, seconds=3, progress=counts.append)
    assert report.failure is None, "\n".join([report.failure.what, *report.failure.transcript])
    assert counts == list(range(1, report.programs + 1))
    assert report.programs > 5


async def test_a_failure_is_made_small_and_can_be_played_again(autojump_clock: Any) -> None:
    def make() -> AgentApp:
        app = good_app()

        @app.on_set_mode
        async def set_mode() -> None:
            await trio.sleep(10_000)

        return app

    report = await fuzz_agent(serving(make), seed=0, seconds=60)
    assert report.failure is not None
    assert (report.failure.rule, report.failure.what) == (
        "W11",
        "a request was not answered within 10 seconds",
    )
    assert [step[0] for step in report.failure.steps] == ["initialize", "new", "mode"]
    again = Failure.from_json(json.loads(json.dumps(report.failure.to_json())))
    assert again == report.failure
    played = await play_steps(serving(make), again.steps)
    assert played is not None
    assert played.rule == again.rule
    assert await play_steps(serving(good_app), again.steps) is None


async def test_shrinking_stops_when_its_time_is_over(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await fuzz_agent(scripted(gone), seed=0, seconds=0, shrink_seconds=0)
    assert report.failure is not None
    calls = 0

    def clock() -> float:
        nonlocal calls
        calls += 1
        return 0.0 if calls < 4 else 1e9

    monkeypatch.setattr("trio_acp.testing._outside.time", types.SimpleNamespace(monotonic=clock))
    cut = await fuzz_agent(scripted(gone), seed=0, seconds=0, shrink_seconds=5)
    assert cut.failure is not None
    assert cut.failure.steps
    assert (report.programs, report.failure.what) == (1, "the agent ended the connection")


async def test_an_agent_that_breaks_a_rule_is_blamed_by_its_tag(autojump_clock: Any) -> None:
    failure = await play_steps(scripted(lambda agent: agent.send_raw(b"banner\n")), [["initialize"]])
    assert failure is not None
    assert (failure.rule, failure.what) == ("W2", "a line that is no JSON object")
    assert len(failure.transcript) == 2


async def test_what_is_known_does_not_hide_the_rest(autojump_clock: Any) -> None:
    async def serves_all(agent: ScriptedAgent) -> None:
        while (message := await agent.receive()) is not None:
            if "id" in message:
                await agent.reply(message, {"sessionId": "s1"})

    early = [["new"], ["new"]]
    failure = await play_steps(scripted(serves_all), early)
    assert failure is not None
    # Not I4: the protocol does not ask an agent to refuse what comes too early.
    assert failure.rule == "S1"
    assert await play_steps(scripted(serves_all), early, ignore=("I4", "S1")) is None
    assert (await play_steps(scripted(serves_all), early, ignore=())).rule == "I4"  # type: ignore[union-attr]
    assert await play_steps(scripted(gone), early, ignore=("W4",)) is None


async def test_what_the_client_does_not_offer_is_refused(autojump_clock: Any) -> None:
    codes: list[int] = []

    async def asks(agent: ScriptedAgent) -> None:
        await agent.introduce()
        id = await agent.request("_more/please", {})
        alive = await agent.receive()
        codes.append((await agent.expect_error(id))["code"])
        await agent.reply_error(alive or {}, -32601)

    assert await play_steps(scripted(asks), [["initialize"]]) is None
    assert codes == [-32601]


def test_programs_are_made_from_their_seed_alone() -> None:
    programs = [make_steps(random.Random(seed)) for seed in range(300)]
    assert programs == [make_steps(random.Random(seed)) for seed in range(300)]
    assert json.loads(json.dumps(programs)) == programs
    assert {step[0] for program in programs for step in program} >= {"answer", "withdraw", "line", "unknown"}


@pytest.mark.parametrize("value", [[], {"acpFuzzFailure": 99}, {"acpFuzzFailure": 1}, 5])
def test_a_file_that_holds_something_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="failure"):
        Failure.from_json(value)


def kept(step: Any) -> dict[str, Any]:
    return Failure([step], "W4", "what", []).to_json()


def test_every_program_can_be_kept() -> None:
    for seed in range(300):
        for step in make_steps(random.Random(seed)):
            assert Failure.from_json(kept(step)).steps == [step]


@pytest.mark.parametrize(
    "step",
    [
        *(
            "new",
            {},
            [],
            ["dance"],
            ["new", 1],
            ["prompt"],
            ["prompt", "1"],
            ["prompt", True],
            ["prompt", 1, 2],
        ),
        *(["wait", -1], ["wait", 1e9], ["line", "\u20ac"], ["unknown", 1], ["answer", []], [["new"]]),
    ],
)
def test_a_program_with_a_step_that_is_none_is_refused_not_played_in_part(step: Any) -> None:
    with pytest.raises(ValueError, match="no failure"):
        Failure.from_json(kept(step))

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

from trio_acp import AuthRequired
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.testing import (
    CHECKS,
    CheckResult,
    Failure,
    Report,
    ScriptedAgent,
    check_agent,
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


async def test_an_agent_of_this_library_passes_every_check(autojump_clock: Any) -> None:
    seen: list[CheckResult] = []
    report = await check_agent(serving(good_app), done=seen.append)
    assert [(each.name, each.detail) for each in report.results if each.outcome != "passed"] == []
    assert report.passed
    assert (seen, len(seen)) == (report.results, len(CHECKS))
    assert json.loads(json.dumps(report.to_json()))["passed"] is True


async def test_what_an_agent_does_not_offer_is_skipped(autojump_clock: Any) -> None:
    report = await check_agent(serving(lambda: good_app(closes=False)))
    skipped = [each.detail for each in report.results if each.outcome == "skipped"]
    assert skipped == [
        "the agent does not offer sessionCapabilities.close",
        "the agent does not offer sessionCapabilities.list",
    ]
    assert report.passed


async def test_an_agent_that_wants_a_login_is_checked_as_far_as_that_goes(autojump_clock: Any) -> None:
    def make() -> AgentApp:
        app = good_app()

        @app.on_new_session
        async def new() -> None:
            raise AuthRequired("log in")

        return app

    report = await check_agent(serving(make))
    assert {each.detail for each in report.results if each.outcome == "skipped"} == {
        "the agent wants a login first"
    }
    assert report.passed


async def mute(agent: ScriptedAgent) -> None:
    await trio.sleep_forever()


async def gone(agent: ScriptedAgent) -> None:
    await agent.aclose()


async def says(agent: ScriptedAgent, result: Any) -> None:
    while (message := await agent.receive()) is not None:
        if "id" in message:
            await agent.reply(message, result)


async def refuses(agent: ScriptedAgent) -> None:
    while (message := await agent.receive()) is not None:
        await agent.reply_error(message, -32603)


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        (mute, "there was no answer within 30 seconds"),
        (gone, "the agent ended the connection"),
        (refuses, "a request was refused: -32603: no"),
        (lambda agent: says(agent, {}), "W6"),
        (lambda agent: says(agent, {"protocolVersion": 0}), "asked for version 1, the agent answered 0"),
        (lambda agent: agent.send_raw(b"banner\n"), "W2"),
    ],
)
async def test_a_bad_agent_is_told_what_is_wrong(autojump_clock: Any, script: Any, detail: str) -> None:
    report = await check_agent(scripted(script))
    assert not report.passed
    assert detail in report.results[0].detail or detail in "".join(each.detail for each in report.results)


async def test_a_broken_answer_is_a_failed_check(autojump_clock: Any) -> None:
    async def lists_nothing(agent: ScriptedAgent) -> None:
        await agent.introduce()
        await agent.new_session()
        await agent.reply(await agent.expect("session/list"), {"sessions": []})

    async def cancelled_by_error(agent: ScriptedAgent) -> None:
        await agent.introduce()
        await agent.new_session()
        prompt = await agent.prompt()
        await agent.expect("session/cancel")
        await agent.reply_error(prompt, -32603)

    async def makes_none(agent: ScriptedAgent) -> None:
        await agent.introduce()
        await agent.reply_error(await agent.expect("session/new"), -32603, "full")

    async def talks_first(agent: ScriptedAgent) -> None:
        await agent.introduce()
        await agent.notify("_note", {})
        await agent.reply_error({"id": None}, -32700)
        await agent.notify("_note", {})
        await agent.receive()
        await agent.reply_error({"id": "alive"}, -32601)

    none = await check_agent(scripted(makes_none), seconds=5)
    assert "a request was refused: -32603: full" in {each.detail for each in none.results}
    talking = {
        each.name: each.outcome for each in (await check_agent(scripted(talks_first), seconds=5)).results
    }
    assert talking["a line that is no JSON is answered -32700, and the connection lives"] == "passed"
    by_error = await check_agent(scripted(cancelled_by_error), seconds=5)
    details = {each.name: each.detail for each in by_error.results}
    assert "answered with an error" in details["a cancelled turn ends as cancelled, and the session lives"]
    assert "the agent ended" not in details["a turn ends with a stop reason"]
    listed = await check_agent(scripted(lists_nothing), seconds=5)
    assert [each.outcome for each in listed.results if each.name == "sessions are listed"] == ["passed"]
    assert Report([]).passed


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


def test_programs_are_made_from_their_seed_alone() -> None:
    programs = [make_steps(random.Random(seed)) for seed in range(300)]
    assert programs == [make_steps(random.Random(seed)) for seed in range(300)]
    assert json.loads(json.dumps(programs)) == programs
    assert {step[0] for program in programs for step in program} >= {"answer", "withdraw", "line", "unknown"}


@pytest.mark.parametrize("value", [[], {"acpFuzzFailure": 99}, {"acpFuzzFailure": 1}, 5])
def test_a_file_that_holds_something_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="failure"):
        Failure.from_json(value)

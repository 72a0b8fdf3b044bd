"""Addresses that were opened for the agent, and the news that what they were opened for is over (E3)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, ConnectedAgent
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.client import connect_acp
from trio_acp.schema import (
    CreateElicitationUrlRequest,
    ElicitationAcceptAction,
    ElicitationDeclineAction,
)

ACCEPTED = {"action": "accept"}


def url(id: str, session: str | None = "s1") -> dict[str, Any]:
    scope = {"requestId": 1} if session is None else {"sessionId": session}
    return {**scope, "mode": "url", "message": "Go", "url": "https://example.org", "elicitationId": id}


def completion(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "elicitation/complete", "params": {"elicitationId": id}}


async def accept(request: CreateElicitationUrlRequest) -> ElicitationAcceptAction:
    return ElicitationAcceptAction()


class Host:
    """Hears of completions, and waits for some."""

    def __init__(self) -> None:
        self.completed: list[str] = []
        self.waited: dict[str, bool] = {}

    def hook(self, request: CreateElicitationUrlRequest) -> None:
        self.completed.append(request.elicitation_id)

    async def wait(self, agent: ConnectedAgent, id: str) -> None:
        self.waited[id] = await agent.elicitation_completed(id)

    def options(self, **options: Any) -> AcpOptions:
        everything: dict[str, Any] = {"elicit_url": accept, "on_elicitation_complete": self.hook, **options}
        return AcpOptions(**everything)


async def test_the_end_of_what_was_accepted_is_told_once_to_the_hook_and_to_all_who_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    host = Host()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.answer(await wire.ask("elicitation/create", url("one"))) == ACCEPTED
        assert await wire.answer(await wire.ask("elicitation/create", url("two", None))) == ACCEPTED
        await trio.sleep(10)
        await wire.burst(completion("one"), completion("one"))
        await trio.sleep(10)
        await wire.burst(completion("two"))

    async with Scene(script, host.options()) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.wait, agent, "one")
            with trio.fail_after(10):
                assert await agent.elicitation_completed("one")
            assert (host.completed, agent.statistics().completions_ignored) == (["one"], 1)
            nursery.start_soon(host.wait, agent, "two")
        # Who comes late hears it too.
        assert await agent.elicitation_completed("one")
    assert host.completed == ["one", "two"]
    assert host.waited == {"one": True, "two": True}


async def test_an_agent_that_is_faster_than_the_answer_is_heard(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The person was quick, and the handler waits for the end itself before it answers."""
    host, agents = Host(), list[ConnectedAgent]()

    async def patient(request: CreateElicitationUrlRequest) -> ElicitationAcceptAction:
        assert await agents[0].elicitation_completed(request.elicitation_id)
        return ElicitationAcceptAction()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        message = wire.asking("elicitation/create", url("e"))
        await wire.burst(message, completion("e"))
        assert await wire.answer(message["id"]) == ACCEPTED

    async with Scene(script, host.options(elicit_url=patient)) as (agent, _wire):
        agents.append(agent)
        await agent.new_session()
        await trio.sleep(1)
    assert host.completed == ["e"]


async def test_the_completion_of_what_is_not_open_is_ignored_and_counted(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """E3: never asked, declined, withdrawn, malformed, or of a session that is no more."""
    host = Host()

    async def choose(request: CreateElicitationUrlRequest) -> Any:
        match request.elicitation_id:
            case "declined":
                return ElicitationDeclineAction()
            case "failed":
                raise ValueError("no browser")
            case "withdrawn":
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
            case _:
                pass
        return ElicitationAcceptAction()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.burst(completion("never"))
        assert await wire.answer(await wire.ask("elicitation/create", url("declined"))) == {
            "action": "decline"
        }
        assert await wire.refusal(await wire.ask("elicitation/create", url("failed"))) == -32603
        message = wire.asking("elicitation/create", url("withdrawn"))
        withdrawal = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": message["id"]}}
        await wire.burst(message, withdrawal)
        assert await wire.answer(message["id"]) == ACCEPTED
        assert await wire.refusal(await wire.ask("elicitation/create", {"mode": "url"})) == -32602
        assert await wire.answer(await wire.ask("elicitation/create", url("closed"))) == ACCEPTED
        await wire.result(await wire.expect("session/close"), {})
        stale = [completion(id) for id in ("declined", "failed", "withdrawn", "closed", 5)]
        await wire.burst(*stale)
        await wire.quiet()

    async with Scene(script, host.options(elicit_url=choose)) as (agent, _wire):
        session = await agent.new_session()
        await trio.sleep(5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.wait, agent, "closed")
            await trio.testing.wait_all_tasks_blocked()
            await session.close()
        assert not await agent.elicitation_completed("declined")
        await trio.sleep(5)
        assert agent.statistics().completions_ignored == 5
    assert (host.completed, host.waited) == ([], {"closed": False})
    assert "dropped a notification: elicitation/complete params: elicitationId" in caplog.text


async def test_an_id_that_is_used_again_means_the_newer_one_and_the_oldest_of_too_many_are_forgotten(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_acp.client._elicitations.MAX_OPEN_ELICITATIONS", 2)
    host = Host()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        for id in ("a", "a", "b", "c"):
            assert await wire.answer(await wire.ask("elicitation/create", url(id))) == ACCEPTED
            await trio.sleep(10)
        await wire.burst(*map(completion, "abc"))

    async with Scene(script, host.options()) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(5)
        assert not await agent.elicitation_completed("a")
        assert trio.current_time() < 20
        assert not await agent.elicitation_completed("a")
        await trio.sleep(30)
        assert agent.statistics().completions_ignored == 1
    assert host.completed == ["b", "c"]


async def test_whoever_waits_is_let_go_when_the_agent_goes(autojump_clock: trio.testing.MockClock) -> None:
    host = Host()

    async def script(wire: Wire) -> None:
        assert await wire.answer(await wire.ask("elicitation/create", url("e", None))) == ACCEPTED
        await trio.sleep(10)
        wire.stream.close()

    async with Scene(script, host.options(), peaceful=False) as (agent, _wire):
        await trio.sleep(5)
        assert not await agent.elicitation_completed("e")


async def test_what_the_hook_raises_leaves_the_block(autojump_clock: trio.testing.MockClock) -> None:
    def fail(request: CreateElicitationUrlRequest) -> None:
        raise ValueError("mine")

    async def script(wire: Wire) -> None:
        await wire.answer(await wire.ask("elicitation/create", url("e", None)))
        await wire.burst(completion("e"))
        await wire.drain()

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="mine")):
        async with Scene(
            script, AcpOptions(elicit_url=accept, on_elicitation_complete=fail), peaceful=False
        ) as (_agent, _wire):
            await trio.sleep_forever()


async def test_without_a_hook_and_without_a_handler_nothing_happens(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W5"""

    async def script(wire: Wire) -> None:
        await wire.burst(completion("e"))
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        await trio.sleep(1)
        assert agent.statistics().completions_ignored == 0


async def test_those_who_wait_need_no_hook(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        assert await wire.answer(await wire.ask("elicitation/create", url("e", None))) == ACCEPTED
        await wire.burst(completion("e"))

    async with Scene(script, AcpOptions(elicit_url=accept)) as (agent, _wire):
        await trio.sleep(1)
        assert await agent.elicitation_completed("e")


async def test_an_agent_of_this_library_tells_it_in_one_line() -> None:
    app, told = AgentApp("a", "1"), trio.Event()

    @app.on_prompt
    async def prompt(ctx: PromptContext) -> str:
        assert await ctx.elicit_url("Sign in", "https://example.org", elicitation_id="login")
        await ctx.client.complete_elicitation("login")
        return "signed in"

    def hook(request: CreateElicitationUrlRequest) -> None:
        assert (request.elicitation_id, request.url) == ("login", "https://example.org")
        told.set()

    async with trio.open_nursery() as nursery:
        stream = app.connect_in_memory(nursery)
        options = AcpOptions(elicit_url=accept, on_elicitation_complete=hook)
        agent = await connect_acp(nursery, stream, options)
        assert await agent.generate("go") == "signed in"
        assert told.is_set()
        nursery.cancel_scope.cancel()

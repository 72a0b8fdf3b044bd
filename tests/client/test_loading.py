"""Sessions that the agent has saved: loaded with a replay, resumed without one (S2)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk, notice
from tests.support.checkpoints import AtStep, every_step
from trio_acp import (
    AcpOptions,
    CapabilityError,
    ConnectedAgent,
    ConnectionClosed,
    ConnectionLost,
    InvalidResponse,
    LocalProtocolError,
    RequestError,
    SessionBusy,
)
from trio_acp.client import _replay
from trio_acp.schema import AgentMessageChunk, McpServerStdio, UserMessageChunk

MODES = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}


def user(text: str, session: str = "s1") -> dict[str, Any]:
    return notice(session, {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}})


def tool(id: str, session: str = "s1") -> dict[str, Any]:
    return notice(session, {"sessionUpdate": "tool_call", "toolCallId": id, "title": id.title()})


def title(text: str, session: str = "s1") -> dict[str, Any]:
    return notice(session, {"sessionUpdate": "session_info_update", "title": text})


def mode(id: str, session: str = "s1") -> dict[str, Any]:
    return notice(session, {"sessionUpdate": "current_mode_update", "currentModeId": id})


async def test_a_loaded_session_has_its_replay_apart_and_its_state_whole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S2, H1: what is replayed is not new; what it says of the session holds. Both fields are always sent."""
    seen: list[dict[str, Any]] = []

    async def script(wire: Wire) -> None:
        load = await wire.expect("session/load", sessionId="s1", cwd="/p", mcpServers=[])
        assert load["params"]["_meta"] == {"x": 1}
        await wire.burst(user("hel"), user("lo"), chunk("hi"), tool("t1"), chunk("there"), title("Greeting"))
        await wire.burst(mode("b"), wire.result_of(load, {"modes": MODES}), chunk("new"))
        await wire.end(await wire.prompt())

    async with Scene(script, AcpOptions(on_update=seen.append)) as (agent, _wire):
        session = await agent.load_session("s1", "/p", meta={"x": 1})
        assert (session.id, session.cwd, session.busy) == ("s1", "/p", False)
        assert [(m.role, m.text) for m in session.replay.messages] == [
            ("user", "hello"),
            ("agent", "hi"),
            ("agent", "there"),
        ]
        assert list(session.replay.tool_calls) == ["t1"]
        assert session.replay.plan is None
        assert (len(session.replay), session.replay.lost) == (7, 0)
        assert isinstance(session.replay.updates[0], UserMessageChunk)
        state = session.state
        assert state.title == "Greeting"
        assert list(state.tool_calls) == ["t1"]
        # The replay told of an old mode; the answer is newer.
        assert state.modes is not None
        assert state.modes.current_mode_id == "a"
        news: Any = await anext(session.updates())
        assert news.content.text == "new"
        assert [m.text for m in state.messages] == ["hello", "hi", "there", "new"]
        async with session.prompt("go on") as turn:
            pass
        assert turn.text == ""
        assert list(agent.sessions) == ["s1"]
    assert len(seen) == 8


@pytest.mark.parametrize("result", [None, {}])
async def test_a_load_that_replays_nothing_leaves_an_empty_conversation(
    autojump_clock: trio.testing.MockClock, result: Any
) -> None:
    """S2: the result may be null. What the agent does not speak of stays known."""

    async def script(wire: Wire) -> None:
        await wire.new_session(modes=MODES)
        await wire.burst(chunk("old"), tool("t1"), title("T"))
        load = await wire.expect("session/load", sessionId="s1")
        await wire.result(load, result)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        state = session.state
        await anext(session.updates())
        loaded = await agent.load_session("s1", "/elsewhere")
        assert session.state is loaded.state is state
        assert (list(state.messages), state.tool_calls, len(session.replay)) == ([], {}, 0)
        assert state.modes is not None
        assert state.title == "T"
        assert session.cwd == "/elsewhere"
        assert not session.closed


async def test_a_load_that_fails_leaves_an_open_session_as_it_was(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session(modes=MODES)
        await wire.burst(chunk("old"), tool("t1"), title("T"))
        for answer in ("error", "misfit", "cancel"):
            load = await wire.expect("session/load", sessionId="s1")
            await wire.burst(chunk("again"), tool("t2"), title("Other"), mode("b"))
            if answer == "error":
                await wire.error(load, -32603, "oh")
            elif answer == "misfit":
                await wire.result(load, [])
            else:
                await wire.expect("$/cancel_request", requestId=load["id"])
                await wire.text("more")
                await wire.result(load, None)
        await wire.text("news")
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await anext(session.updates())
        with pytest.raises(RequestError, match="oh"):
            await agent.load_session("s1")
        with pytest.raises(InvalidResponse):
            await agent.load_session("s1")
        with trio.move_on_after(1) as scope:
            await agent.load_session("s1")
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        state = session.state
        assert [m.text for m in state.messages] == ["old", "news"]
        assert list(state.tool_calls) == ["t1"]
        assert state.title == "T"
        assert state.modes is not None
        assert state.modes.current_mode_id == "a"
        assert (len(session.replay), session.busy, session.closed) == (0, False, False)


async def test_a_load_that_fails_opens_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        load = await wire.expect("session/load")
        await wire.text("again")
        await wire.error(load, -32002, "gone")
        load = await wire.expect("session/load")
        await wire.result(load, [])
        # It is open at the agent's, whatever it says.
        await wire.result(await wire.expect("session/close", sessionId="s1"), {})
        await wire.text("stray")

    async with Scene(script) as (agent, _wire):
        with pytest.raises(RequestError, match="gone"):
            await agent.load_session("s1")
        with pytest.raises(InvalidResponse):
            await agent.load_session("s1")
        assert dict(agent.sessions) == {}
        assert (await anext(agent.updates())).session_id == "s1"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize("late", ["result", "error"])
async def test_what_is_opened_for_nobody_is_closed(
    autojump_clock: trio.testing.MockClock, method: str, late: str
) -> None:
    """X4: the answer to a withdrawn load comes all the same; until then the session is busy."""

    async def script(wire: Wire) -> None:
        load = await wire.expect(method)
        await wire.expect("$/cancel_request", requestId=load["id"])
        await trio.sleep(10)
        await wire.text("again")
        if late == "result":
            await wire.result(load, {})
            await wire.result(await wire.expect("session/close", sessionId="s1"), {})
        else:
            await wire.error(load, -32800)
        await wire.result(await wire.expect(method), None)
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        call = agent.load_session if method == "session/load" else agent.resume_session
        with trio.move_on_after(1):
            await call("s1")
        with pytest.raises(SessionBusy, match="cancelled"):
            await call("s1")
        # At 6 s; this one waits for the answer, which comes at 11.
        await trio.sleep(1)
        session = await call("s1")
        assert trio.current_time() >= 11
        assert not session.busy
        assert list(agent.sessions) == ["s1"]


@pytest.mark.parametrize("was_open", [False, True])
async def test_an_answer_that_comes_with_the_cancellation_opens_nothing_new(
    autojump_clock: trio.testing.MockClock, was_open: bool
) -> None:
    """The read loop has taken it, but nobody gets it: a session that was not open before is closed."""

    async def script(wire: Wire) -> None:
        if was_open:
            await wire.new_session()
        load = await wire.expect("session/load")
        scope.cancel()
        await wire.burst(chunk("again"), wire.result_of(load, None))
        if not was_open:
            message = await wire.receive()
            assert message is not None
            if message["method"] == "$/cancel_request":
                message = await wire.receive()
                assert message is not None
            assert message["method"] == "session/close"
            await wire.result(message, {})

    scope = trio.CancelScope()
    async with Scene(script) as (agent, _wire):
        if was_open:
            await agent.new_session()
        with scope:
            await agent.load_session("s1")
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert list(agent.sessions) == (["s1"] if was_open else [])


async def test_a_taken_answer_is_freed_when_its_caller_is_cancelled_before_it_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        load = await wire.expect("session/load")
        await wire.result(load, None)
        await wire.result(await wire.expect("session/close", sessionId="s1"), {})

    async with Scene(script) as (agent, _wire):
        scope = trio.CancelScope()

        def on_answer(update: Any) -> None:
            raise AssertionError  # pragma: no cover  (there is no update)

        opened = agent._connection.table.opened

        def and_cancel(opening: Any) -> Any:
            scope.cancel()
            return opened(opening)

        agent._connection.table.opened = and_cancel  # type: ignore[method-assign]
        with scope:
            await agent.load_session("s1")
        assert scope.cancelled_caught
        assert dict(agent.sessions) == {}


async def test_a_session_is_busy_while_it_is_loaded_or_has_a_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T1"""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await gate.wait()
        await wire.end(prompt)
        load = await wire.expect("session/load", sessionId="s1")
        other = await wire.expect("session/resume", sessionId="s2")
        await loading.wait()
        await wire.result(load, None)
        await wire.result(other, None)
        await wire.quiet()

    gate, loading = trio.Event(), trio.Event()
    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x"):
            with pytest.raises(SessionBusy):
                await agent.load_session("s1")
            with pytest.raises(SessionBusy):
                await agent.resume_session("s1")
            gate.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.load_session, "s1")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(agent.resume_session, "s2")
            await trio.testing.wait_all_tasks_blocked()
            assert session.busy
            for call in (agent.load_session("s1"), agent.load_session("s2"), agent.resume_session("s2")):
                with pytest.raises(SessionBusy, match="loaded"):
                    await call
            with pytest.raises(SessionBusy, match="loaded"):
                async with session.prompt("y"):
                    pass  # pragma: no cover  (entering fails)
            loading.set()
        assert sorted(agent.sessions) == ["s1", "s2"]


async def test_a_load_waits_for_an_abandoned_turn_and_no_longer_than_the_grace(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await trio.sleep(12)
        await wire.end(prompt, "cancelled")
        await wire.result(await wire.expect("session/load"), None)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            turn.cancel()
        assert turn.abandoned
        with pytest.raises(SessionBusy, match="abandoned"):
            await agent.load_session("s1")
        await agent.load_session("s1")
        assert trio.current_time() == pytest.approx(12, abs=0.5)


async def test_what_the_agent_does_not_offer_is_not_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """I3"""
    async with Scene(Wire.quiet, capabilities={}) as (agent, _wire):
        for call, capability in [
            (agent.load_session("s1"), "loadSession"),
            (agent.resume_session("s1"), "sessionCapabilities.resume"),
            (agent.delete_session("s1"), "sessionCapabilities.delete"),
        ]:
            with pytest.raises(CapabilityError) as caught:
                await call
            assert caught.value.capability == capability
        with pytest.raises(CapabilityError, match="list"):
            agent.list_sessions()
    some = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    async with Scene(Wire.quiet, capabilities=some) as (agent, _wire):
        for method in (agent.load_session, agent.resume_session):
            with pytest.raises(CapabilityError, match="additionalDirectories"):
                await method("s1", additional_directories=["/x"])


async def test_a_resumed_session_has_no_replay_and_its_updates_are_news(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S2, S4: updates before the answer are kept; the session's own handlers can be asked meanwhile."""

    async def script(wire: Wire) -> None:
        resume = await wire.expect("session/resume", sessionId="s1", cwd="/p")
        assert [server["name"] for server in resume["params"]["mcpServers"]] == ["a"]
        assert resume["params"]["additionalDirectories"] == ["/q"]
        await wire.text("early")
        id = await wire.ask("fs/read_text_file", {"sessionId": "s1", "path": "/p/x"})
        assert await wire.answer(id) == {"content": "/p /q"}
        id = await wire.ask_permission()
        assert await wire.answer(id) == {"outcome": {"outcome": "selected", "optionId": "yes"}}
        await wire.result(resume, {"modes": MODES, "configOptions": []})

    class Files:
        writable = False

        async def read(self, request: Any, session: Any) -> str:
            return " ".join(session.roots)

        async def write(self, request: Any, session: Any) -> None:
            raise AssertionError

    async with Scene(script, AcpOptions(files=Files())) as (agent, _wire):
        session = await agent.resume_session(
            "s1", "/p", mcp_servers=[McpServerStdio("a", "/bin/a", [], [])], additional_directories=["/q"]
        )
        early = await anext(session.updates())
        assert isinstance(early, AgentMessageChunk)
        assert (len(session.replay), session.state.modes is not None) == (0, True)


async def test_a_session_that_is_closed_while_it_is_loaded_is_open_again_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        load = await wire.expect("session/load")
        await wire.result(await wire.expect("session/close"), {})
        await wire.text("replayed")
        await wire.result(load, None)
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        old = await agent.new_session()
        found: list[Any] = []

        async def load() -> None:
            found.append(await agent.load_session("s1"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await trio.testing.wait_all_tasks_blocked()
            await old.close()
        (session,) = found
        assert (old.closed, session.closed) == (True, False)
        assert list(agent.sessions) == ["s1"]


@pytest.mark.parametrize("was_open", [False, True])
async def test_the_end_of_the_connection_ends_a_load(
    autojump_clock: trio.testing.MockClock, was_open: bool
) -> None:
    """W11"""

    async def script(wire: Wire) -> None:
        if was_open:
            await wire.new_session()
        await wire.expect("session/load")
        await wire.text("again")
        wire.close()

    async with Scene(script, peaceful=False) as (agent, _wire):
        if was_open:
            await agent.new_session()
        with pytest.raises(ConnectionLost):
            await agent.load_session("s1")
        with pytest.raises(ConnectionLost):
            await agent.load_session("s1")


async def test_closing_ends_a_load_and_services_need_not_be_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They learn of the end of their sessions by their own."""

    class Living:
        writable = False
        ended = 0

        async def read(self, request: Any, session: Any) -> str:
            raise AssertionError

        async def write(self, request: Any, session: Any) -> None:
            raise AssertionError

        async def run(self, connection: Any) -> None:
            try:
                await trio.sleep_forever()
            finally:
                self.ended += 1

        async def end_session(self, session: Any) -> None:
            raise AssertionError

    async def script(wire: Wire) -> None:
        await wire.expect("session/load")

    async def load(agent: ConnectedAgent) -> None:
        with pytest.raises(ConnectionClosed):
            await agent.load_session("s1")

    living = Living()
    async with trio.open_nursery() as nursery:
        async with Scene(script, AcpOptions(files=living)) as (agent, _wire):
            nursery.start_soon(load, agent)
            await trio.testing.wait_all_tasks_blocked()
    assert living.ended == 1


async def test_a_replay_is_bounded(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replay, "REPLAY_UPDATES", 5)
    monkeypatch.setattr(_replay, "REPLAY_BYTES", 1000)

    async def script(wire: Wire) -> None:
        load = await wire.expect("session/load")
        await wire.burst(*[chunk(str(n)) for n in range(8)])
        await wire.result(load, None)
        load = await wire.expect("session/load")
        await wire.burst(chunk("a" * 900), chunk("b" * 900), chunk("c" * 5000))
        await wire.result(load, None)

    async with Scene(script) as (agent, _wire):
        session = await agent.load_session("s1")
        assert (session.replay.lost, session.replay.messages[0].text) == (3, "34567")
        # The state is bounded by limits of its own.
        assert session.state.messages[0].text == "01234567"
        session = await agent.load_session("s1")
        assert (session.replay.lost, session.replay.messages[0].text) == (2, "c" * 5000)


async def test_the_old_object_of_a_closed_session_stays_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.result(await wire.expect("session/close"), {})
        await wire.result(await wire.expect("session/load"), None)
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        old = await agent.new_session()
        await old.close()
        session = await agent.load_session("s1")
        with pytest.raises(LocalProtocolError, match="closed"):
            async with old.prompt("x"):
                pass  # pragma: no cover  (entering fails)
        async with session.prompt("x"):
            pass


class Reactive:
    """An agent that saves every session, and answers at once, or when asked to."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def serve(self) -> None:
        while (message := await self.wire.receive()) is not None:
            with contextlib.suppress(trio.BrokenResourceError):
                await self._take(message)
        self.wire.close()

    async def _take(self, message: dict[str, Any]) -> None:
        wire = self.wire
        match message.get("method"):
            case "session/load" | "session/resume":
                session = message["params"]["sessionId"]
                await wire.burst(chunk("a", session), chunk("b", session))
                await trio.lowlevel.checkpoint()
                await wire.burst(title("T", session), wire.result_of(message, {"modes": MODES}))
            case "session/new":
                await wire.result(message, {"sessionId": "s1"})
            case "session/close":
                await wire.result(message, {})
            case "session/prompt":
                await wire.burst(chunk("c", message["params"]["sessionId"]))
                await wire.end(message)
            case other:
                assert other in ("$/cancel_request", "session/cancel"), message


async def life(agent: ConnectedAgent, scope: trio.CancelScope) -> None:
    """Load a session, twice, and resume another; all of it may be cancelled."""
    with scope:
        for call in (agent.load_session, agent.load_session, agent.resume_session):
            session = await call("s1" if call is agent.load_session else "s2")
            assert session.state.title == "T"
            async with session.prompt("x") as turn:
                pass
            assert turn.text == "c"


def test_cancelled_at_every_step_a_load_leaves_nothing_behind_that_is_not_whole() -> None:
    """Every checkpoint: the conversation stays legal, and the session can be used afterwards."""

    async def run(step: int) -> bool:
        scope = trio.CancelScope()
        at = AtStep(step, scope.cancel)

        async def script(wire: Wire) -> None:
            await Reactive(wire).serve()

        scene = Scene(script)
        async with scene as (agent, _wire):
            at.arm()
            try:
                await life(agent, scope)
            finally:
                at.disarm()
            for id in ("s1", "s2"):
                session = await agent.load_session(id)
                assert [m.text for m in session.replay.messages] == ["ab"]
                assert [m.text for m in session.state.messages] == ["ab"]
                async with session.prompt("x") as turn:
                    pass
                assert (turn.text, session.busy) == ("c", False)
            assert sorted(agent.sessions) == ["s1", "s2"]
            await agent.aclose()
        return at.fired

    assert every_step(run) > 30

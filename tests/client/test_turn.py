"""A turn from its prompt to its answer: what the application is given, when, and how it ends (T1 to T5)."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk
from trio_acp import (
    AcpError,
    AcpOptions,
    CapabilityError,
    ConnectionLost,
    InternalError,
    InvalidResponse,
    LocalProtocolError,
    SessionBusy,
    Turn,
)
from trio_acp.schema import (
    AgentMessageChunk,
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    PlanEntry,
    ResourceLink,
    StopReason,
    TextContent,
    UnknownVariant,
)


def texts(updates: list[Any]) -> list[str]:
    chunks = [update for update in updates if isinstance(update, AgentMessageChunk)]
    return [chunk.content.text for chunk in chunks if isinstance(chunk.content, TextContent)]


async def test_updates_are_typed_in_order_and_all_delivered_before_the_iteration_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T2, also for updates in the very chunk of the answer."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "hello"}]
        await wire.text("a")
        await wire.burst(
            chunk("b"), chunk("c"), wire.result_of(prompt, {"stopReason": "end_turn"}), chunk("d")
        )

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("hello") as turn:
            assert turn.stop_reason is None
            assert "running" in repr(turn)
            got = [update async for update in turn]
        assert texts(got) == ["a", "b", "c"]
        assert turn.text == "abc"
        assert turn.stop_reason is StopReason.END_TURN
        assert not turn.cancel_requested
        assert not turn.abandoned
        assert "end_turn" in repr(turn)
        assert turn.session_id == "s1"
        late = await anext(session.updates())
        assert texts([late]) == ["d"]


async def test_updates_before_the_answer_that_names_their_session_are_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S4: before the answer, and right behind it in the same chunk."""

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.text("early")
        await wire.burst(chunk("other", "s9"), wire.result_of(new, {"sessionId": "s1"}), chunk("behind"))

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        stream = session.updates()
        assert stream is session.updates()
        assert texts([await anext(stream), await anext(stream)]) == ["early", "behind"]
        stray = await anext(agent.updates())
        assert stray.session_id == "s9"
        assert texts([stray.update]) == ["other"]


@pytest.mark.parametrize(
    "reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "tired"]
)
async def test_every_stop_reason_ends_the_turn_and_an_unknown_one_is_kept(
    autojump_clock: trio.testing.MockClock, reason: str
) -> None:
    """T3, W8."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.result(await wire.prompt(), {"stopReason": reason, "_meta": {"cost": 1}})

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            assert await turn.wait() == reason
        assert turn.stop_reason == reason
        assert turn.response is not None
        assert turn.response.meta == {"cost": 1}


async def test_breaking_out_of_the_iteration_waits_for_the_end_and_goes_on_folding(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("a")
        await trio.sleep(5)
        await wire.text("b")
        await trio.sleep(5)
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            async for _ in turn:
                break
            left = trio.current_time()
        assert trio.current_time() - left == pytest.approx(10)
        assert turn.text == "ab"
        assert turn.stop_reason is StopReason.END_TURN
        assert not turn.cancel_requested


async def test_waiting_keeps_the_updates_for_a_later_iteration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("a")
        await trio.sleep(5)
        await wire.text("b")
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            with trio.move_on_after(1):
                await turn.wait()
            assert await turn.wait() is StopReason.END_TURN
            assert texts([update async for update in turn]) == ["a", "b"]
            assert [update async for update in turn] == []


async def test_a_second_iterator_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await trio.sleep(5)
        await wire.text("a")
        await wire.end(prompt)

    got: list[Any] = []

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn, trio.open_nursery() as nursery:

            async def consume() -> None:
                async for update in turn:
                    got.append(update)

            nursery.start_soon(consume)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError, match="iterating"):
                await anext(turn)
        assert texts(got) == ["a"]


async def test_two_tasks_that_take_turns_never_see_a_false_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A full checkpoint in the middle of a batch lets the other task in; it must not take the last item."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.burst(*[chunk(str(n)) for n in range(250)])
        await trio.sleep(5)
        await wire.end(prompt)

    got: list[Any] = []
    busy = 0

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn, trio.open_nursery() as nursery:

            async def consume() -> None:
                nonlocal busy
                while True:
                    try:
                        got.append(await anext(turn))
                    except trio.BusyResourceError:
                        busy += 1
                        await trio.sleep(0.01)
                        if turn.stop_reason is not None:
                            return
                    except StopAsyncIteration:
                        assert turn.stop_reason is not None
                        return

            nursery.start_soon(consume)
            await trio.sleep(1)
            nursery.start_soon(consume)
        assert sorted(map(int, texts(got))) == list(range(250))
        assert busy


async def test_a_turn_is_entered_once_and_asked_only_when_entered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        turn = session.prompt("x")
        assert "not entered" in repr(turn)
        with pytest.raises(RuntimeError, match="enter the turn first"):
            turn.cancel()
        async with turn:
            assert session.busy
            with pytest.raises(RuntimeError, match="entered once"):
                async with turn:
                    pass  # pragma: no cover  (entering fails)
        assert not session.busy
        with pytest.raises(RuntimeError, match="entered once"):
            await turn.__aenter__()


async def test_a_second_prompt_is_refused_before_anything_is_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T1, also when two tasks enter at the same moment."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.quiet()
        await trio.sleep(10)
        await wire.end(prompt)
        await wire.quiet()

    refused = 0

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()

        async def go() -> None:
            nonlocal refused
            try:
                async with session.prompt("x") as turn:
                    with pytest.raises(SessionBusy) as caught:
                        async with session.prompt("y"):
                            pass  # pragma: no cover  (entering fails)
                    assert caught.value.session_id == "s1"
                    await turn.wait()
            except SessionBusy:
                refused += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go)
            nursery.start_soon(go)
        assert refused == 1


@pytest.mark.parametrize("listening", ["iterating", "waiting", "leaving", "breaking"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": {"code": -32603, "message": "boom", "data": {"x": 1}}}, InternalError),
        ({"result": {"stopReason": 5}}, InvalidResponse),
        ({"result": {}}, InvalidResponse),
        ({"result": None}, InvalidResponse),
        ({"result": [], "error": {"code": 1, "message": "both"}}, InvalidResponse),
        (None, ConnectionLost),
    ],
)
async def test_what_fails_the_prompt_is_raised_after_the_buffer(
    autojump_clock: trio.testing.MockClock, listening: str, answer: Any, expected: type[AcpError]
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        if answer is None:
            await wire.text("last words")
            wire.close()
        else:
            await wire.burst(chunk("last words"), {"jsonrpc": "2.0", "id": prompt["id"], **answer})

    got: list[Any] = []
    turn = None

    async with Scene(script, peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(expected) as caught:
            async with session.prompt("x") as turn:
                await trio.testing.wait_all_tasks_blocked()
                if listening == "iterating":
                    async for update in turn:
                        got.append(update)
                elif listening == "waiting":
                    await turn.wait()
                elif listening == "breaking":
                    async for update in turn:
                        got.append(update)
                        break
        assert type(caught.value) is expected
        assert caught.value.__context__ is caught.value.__cause__
        assert turn is not None
        assert turn.stop_reason is None
        assert turn.text == "last words"
        if listening in ("iterating", "breaking"):
            assert texts(got) == ["last words"]


async def test_an_error_that_the_body_has_dealt_with_is_not_raised_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.error(await wire.prompt(), -32603, "boom")
        await wire.end(await wire.prompt())

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            with pytest.raises(InternalError, match="boom"):
                async for _ in turn:
                    pass  # pragma: no cover  (there are none)
            assert [update async for update in turn] == []
            with pytest.raises(InternalError, match="boom"):
                await turn.wait()
        async with session.prompt("the session goes on"):
            pass


async def test_an_own_error_of_the_body_goes_before_the_agents_which_is_its_context(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.error(await wire.prompt(), -32603, "boom")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(ValueError, match="mine") as caught:
            async with session.prompt("x"):
                await trio.testing.wait_all_tasks_blocked()
                raise ValueError("mine")
        assert isinstance(caught.value.__context__, InternalError)


async def test_unknown_updates_are_kept_and_malformed_ones_dropped_and_counted(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """W8, W5: neither ends the turn."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.update("telepathy", strength=9)
        await wire.update("agent_message_chunk", content="no block")
        await wire.burst(
            {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": 5, "update": {}}}
        )
        await wire.burst({"jsonrpc": "2.0", "method": "session/update", "params": {"update": {}}})
        await wire.burst({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1"}})
        await wire.burst({"jsonrpc": "2.0", "method": "session/gossip", "params": {}})
        await wire.update("tool_call", toolCallId="t", title="T", kind="teleport", status=[1])
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        with caplog.at_level(logging.INFO, "trio_acp"):
            async with session.prompt("x") as turn:
                got: list[Any] = [update async for update in turn]
        assert isinstance(got[0], UnknownVariant)
        assert got[0].tag == "telepathy"
        assert got[0].payload["strength"] == 9
        assert len(got) == 2
        statistics = agent.statistics()
        assert statistics.updates_dropped == 4
        assert statistics.leniencies == 1
        assert statistics.open_requests == statistics.open_agent_requests == statistics.outbox_bytes == 0
        assert [leniency.path for leniency in agent.leniencies] == [("status",)]
        assert turn.tool_calls["t"].kind == "teleport"
        assert "content" in caplog.text
        assert "status" in caplog.text


async def test_turns_of_several_sessions_are_independent(autojump_clock: trio.testing.MockClock) -> None:
    sessions = [f"s{n}" for n in range(1, 6)]

    async def script(wire: Wire) -> None:
        for id in sessions:
            await wire.new_session(id)
        prompts: dict[str, Any] = {}
        for _ in sessions:
            prompt = await wire.expect("session/prompt")
            prompts[prompt["params"]["sessionId"]] = prompt
        for n in range(10):
            await wire.burst(*[chunk(f"{id}.{n} ", id) for id in sessions])
        await wire.error(prompts["s1"], -32603)
        for id in sessions[1:]:
            await wire.text("last", id)
            await wire.end(prompts[id])

    ended: dict[str, str] = {}

    async with Scene(script) as (agent, _wire):

        async def run(session: Any) -> None:
            try:
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        pass
                ended[session.id] = turn.text
            except InternalError:
                ended[session.id] = "failed"

        async with trio.open_nursery() as nursery:
            for session in [await agent.new_session() for _ in sessions]:
                nursery.start_soon(run, session)
        assert set(agent.sessions) == set(sessions)
    assert ended.pop("s1") == "failed"
    assert ended == {id: "".join(f"{id}.{n} " for n in range(10)) + "last" for id in sessions[1:]}


IMAGE = ImageContent("aGk=", "image/png")
AUDIO = AudioContent("aGk=", "audio/wav")
RESOURCE = EmbeddedResource(BlobResourceContents("aGk=", "file:///a"))


@pytest.mark.parametrize(
    ("content", "capability"),
    [
        (IMAGE, "promptCapabilities.image"),
        (["look", AUDIO], "promptCapabilities.audio"),
        ([RESOURCE], "promptCapabilities.embeddedContext"),
    ],
)
async def test_content_that_the_agent_does_not_take_is_not_sent(
    autojump_clock: trio.testing.MockClock, content: Any, capability: str
) -> None:
    """T1, I3."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.quiet()

    async with Scene(script, capabilities={}) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(CapabilityError) as caught:
            async with session.prompt(content):
                pass  # pragma: no cover  (entering fails)
        assert caught.value.capability == capability
        assert capability in str(caught.value)
        assert not session.busy


async def test_content_that_the_agent_takes_is_sent_as_blocks(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        assert [block["type"] for block in prompt["params"]["prompt"]] == [
            "text",
            "text",
            "image",
            "audio",
            "resource",
            "resource_link",
            "smell",
        ]
        await wire.end(prompt)
        prompt = await wire.prompt()
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "alone"}]
        await wire.end(prompt)

    smell = UnknownVariant("smell", {"type": "smell", "of": "smoke"})
    link = ResourceLink("a", "file:///a")
    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt(["a", TextContent("b"), IMAGE, AUDIO, RESOURCE, link, smell]):
            pass
        async with session.prompt(TextContent("alone")):
            pass


@pytest.mark.parametrize("content", [[], 5, ["a", 5], [PlanEntry("a", "high", "pending")]])
async def test_content_that_is_none_is_a_mistake_of_the_caller(
    autojump_clock: trio.testing.MockClock, content: Any
) -> None:
    async with Scene(Wire.new_session) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(LocalProtocolError):
            async with session.prompt(content):
                pass  # pragma: no cover  (entering fails)


async def test_what_on_update_sees_is_raw_and_comes_before_everything_else(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """P3: also the malformed ones, in wire order, before the snapshots change."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.burst(chunk("a", _meta={"n": 1}), chunk("b"))
        await wire.update("agent_message_chunk", content=None)
        await wire.end(prompt)

    seen: list[Any] = []
    text_then: list[str] = []

    def on_update(params: dict[str, Any]) -> None:
        seen.append(params["update"]["content"])
        text_then.append(turn.text)

    async with Scene(script, AcpOptions(on_update=on_update)) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            pass
    assert seen == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, None]
    assert text_then == ["", "a", "ab"]


async def test_each_who_waits_for_a_failed_turn_gets_an_error_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Tracebacks must not grow with every one who raises it, nor contexts mix."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await trio.testing.wait_all_tasks_blocked()
        await wire.error(prompt, -32603, "agent", {"detail": 1})

    got: list[InternalError] = []

    async def wait(turn: Turn) -> None:
        try:
            raise KeyError("whatever goes on here")
        except KeyError:
            with pytest.raises(InternalError) as caught:
                await turn.wait()
        got.append(caught.value)

    async with Scene(script, peaceful=False) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(InternalError) as caught:
            async with session.prompt("x") as turn:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(wait, turn)
                    nursery.start_soon(wait, turn)
                await turn.wait()
    got.append(caught.value)
    assert len({id(error) for error in got}) == 3
    assert [(error.message, error.data) for error in got] == [("agent", {"detail": 1})] * 3
    assert [type(error.__context__) for error in got] == [KeyError, KeyError, type(None)]
    depths = [sum(1 for _ in traceback.walk_tb(error.__traceback__)) for error in got[:2]]
    assert depths[0] == depths[1]

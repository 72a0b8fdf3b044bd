"""Hostile and broken agents: each input has its outcome, and none costs another session its turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire, chunk, frame
from trio_acp import AcpOptions, ConnectionLost, MessageTooLarge, RemoteProtocolError


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def call(method: Any, params: Any, **more: Any) -> bytes:
    return line({"jsonrpc": "2.0", "method": method, "params": params, **more})


SURROGATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":' + (
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\\ud83d"}}}}\n'
)

# What is sent, and the answers that it gets: (id, code) of each error, in order.
HARMLESS: dict[str, tuple[bytes, list[tuple[Any, int]]]] = {
    "junk": (b"npm WARN deprecated\n\x1b]0;title\x07\n", []),
    "blank lines": (b"\n  \n\r\n", []),
    "invalid UTF-8": (b'{"method": "\xff\xfe"\n', []),
    "truncated JSON": (frame(chunk("x"))[:40] + b"\n", []),
    "deep nesting": (b"[" * 100_000 + b"\n", []),
    "deep nesting, closed": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n", []),
    "a batch": (line([{"jsonrpc": "2.0", "method": "x"}]), [(None, -32600)]),
    "a number": (b"5\n", [(None, -32600)]),
    "null": (b"null\n", [(None, -32600)]),
    "NaN": (b'{"jsonrpc":"2.0","method":"session/update","params":NaN}\n', []),
    "an object that is no message": (line({"hello": "world"}), [(None, -32600)]),
    "an id of a wrong type": (call("session/request_permission", {}, id=1.5), [(None, -32600)]),
    "a bool as id": (call("session/request_permission", {}, id=True), [(None, -32600)]),
    "an unknown request": (call("session/imagine", {}, id="r"), [("r", -32601)]),
    "a request of the wrong side": (call("session/prompt", {}, id="r"), [("r", -32601)]),
    "a request without params": (
        line({"jsonrpc": "2.0", "id": "r", "method": "fs/read_text_file"}),
        [("r", -32602)],
    ),
    "params that are an array": (call("fs/read_text_file", [1], id="r"), [("r", -32602)]),
    "params that do not fit": (call("fs/read_text_file", {"path": []}, id="r"), [("r", -32602)]),
    "a permission request that does not fit": (
        call("session/request_permission", {}, id="r"),
        [("r", -32602)],
    ),
    "an unknown notification": (call("session/imagine", {}) + call("$/unheard", {}) + call("_x", {}), []),
    "a notification without params": (line({"jsonrpc": "2.0", "method": "session/update"}), []),
    "a notification with an array": (call("session/update", []), []),
    "an update of a wrong type": (call("session/update", {"sessionId": "s1", "update": 5}), []),
    "an update of nothing": (call("session/update", {"sessionId": "s1", "update": {}}), []),
    "an update for nobody": (call("session/update", {"sessionId": ["s1"], "update": {}}), []),
    "a stray answer": (line({"jsonrpc": "2.0", "id": 9999, "result": {}}), []),
    "a stray answer by text id": (line({"jsonrpc": "2.0", "id": "4", "result": {}}), []),
    "a stray error without id": (
        line({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "?"}}),
        [],
    ),
    "a withdrawal of nothing": (
        call("$/cancel_request", {"requestId": 5}) + call("$/cancel_request", {}),
        [],
    ),
    "a lone surrogate": (SURROGATE, []),
    "a key twice": (b'{"jsonrpc":"2.0","method":"a","method":"session/imagine","params":{}}\n', []),
}


async def serve_good(wire: Wire, evil: Any) -> None:
    """Two turns: in the first the agent misbehaves, the second is to end as if nothing had been."""
    await wire.new_session("s1")
    await wire.new_session("s2")
    victim, other = await wire.prompt("s1"), await wire.prompt("s2")
    await wire.text("be", "s2")
    await evil(wire, victim)
    await wire.text("fore", "s2")
    await wire.end(other)


async def both(evil: Any, **options: Any) -> tuple[Any, Any]:
    """Run the two turns; return the first turn, or what it raised, and the second."""
    victim: Any = None

    async def script(wire: Wire) -> None:
        await serve_good(wire, evil)

    async def read(request: Any) -> str:
        return ""

    scene = Scene(script, AcpOptions(read_text_file=read, **options), peaceful=False)
    async with scene as (agent, _wire):
        first, second = await agent.new_session(), await agent.new_session()

        async def run_victim() -> None:
            nonlocal victim
            try:
                async with first.prompt("x") as victim:
                    started.set()
                    await victim.wait()
            except Exception as error:
                victim = error

        started = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_victim)
            await started.wait()
            async with second.prompt("y") as turn:
                await turn.wait()
    return victim, turn


@pytest.mark.parametrize("name", HARMLESS)
async def test_what_is_wrong_but_harmless_costs_nobody_anything(
    autojump_clock: trio.testing.MockClock, name: str
) -> None:
    """W3 to W6: answered where an answer is owed, dropped and logged where not."""
    data, answers = HARMLESS[name]

    async def evil(wire: Wire, victim: Any) -> None:
        wire.referee.from_agent({"method": "any", "id": "r", "params": {}})
        await wire.raw(data)
        for id, code in answers:
            assert await wire.refusal(id) == code
        await wire.end(victim)

    victim, turn = await both(evil)
    assert victim.stop_reason == "end_turn"
    assert (turn.text, turn.stop_reason) == ("before", "end_turn")


async def test_a_lone_surrogate_arrives_as_a_replacement(autojump_clock: trio.testing.MockClock) -> None:
    async def evil(wire: Wire, victim: Any) -> None:
        await wire.raw(SURROGATE)
        await wire.end(victim)

    victim, _ = await both(evil)
    assert victim.text == "\ufffd"


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"stopReason": None}},
        {"result": "end_turn"},
        {"result": {}, "error": {"code": 1, "message": "both"}},
        {"error": "text"},
        {"error": {"code": "1", "message": "?"}},
        {"error": {"code": 1, "message": None}},
        {},
    ],
)
async def test_a_wrong_answer_fails_its_own_turn_only(
    autojump_clock: trio.testing.MockClock, answer: Any
) -> None:
    """W6"""

    async def evil(wire: Wire, victim: Any) -> None:
        await wire.burst({"jsonrpc": "2.0", "id": victim["id"], **answer})

    victim, turn = await both(evil)
    assert isinstance(victim, RemoteProtocolError)
    assert turn.text == "before"


async def test_a_second_answer_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    async def evil(wire: Wire, victim: Any) -> None:
        await wire.end(victim)
        await wire.end(victim, "refusal")
        await wire.error(victim, -32603)

    victim, turn = await both(evil)
    assert victim.stop_reason == "end_turn"
    assert turn.text == "before"


async def test_answers_after_a_cancellation_and_after_the_abandonment_are_taken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def evil(wire: Wire, victim: Any) -> None:
        await trio.sleep(1)
        assert (await wire.receive() or {}).get("method") == "session/cancel"
        await trio.sleep(20)
        await wire.text("late", "s1")
        await wire.end(victim)
        await wire.end(victim)

    async def script(wire: Wire) -> None:
        await serve_good(wire, evil)

    async with Scene(script) as (agent, _wire):
        first, second = await agent.new_session(), await agent.new_session()
        async with first.prompt("x") as victim, second.prompt("y") as turn:
            victim.cancel()
            await turn.wait()
        assert victim.abandoned
        assert turn.text == "before"


async def test_a_session_that_is_made_twice_is_one(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        prompt = await wire.prompt("s1")
        await wire.new_session("s1")
        await wire.text("one")
        await trio.sleep(1)
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        first = await agent.new_session()
        async with first.prompt("x") as turn:
            again = await agent.new_session()
            assert again.busy
        assert turn.text == "one"


@pytest.mark.parametrize("kind", ["too large", "too much junk", "gone", "gone in the middle"])
async def test_what_ends_the_connection_is_told_to_every_turn(
    autojump_clock: trio.testing.MockClock, kind: str
) -> None:
    """W11: typed, at once, with what came before delivered."""
    raised: list[Any] = []

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await wire.new_session("s2")
        for _ in range(2):
            await wire.expect("session/prompt")
        await wire.burst(chunk("a", "s1"), chunk("b", "s2"))
        if kind == "too large":
            await wire.raw(b"x" * 20_000)
        elif kind == "too much junk":
            await wire.raw(b"junk\n" * 100)
        elif kind == "gone":
            wire.close()
        else:
            await wire.raw(frame(chunk("half", "s1"))[:50])
            wire.close()

    expected = {"too large": MessageTooLarge, "too much junk": RemoteProtocolError}.get(kind, ConnectionLost)
    async with Scene(script, AcpOptions(max_message_bytes=10_000), peaceful=False) as (agent, _wire):

        async def run(session: Any, text: str) -> None:
            with pytest.raises(expected) as caught:
                async with session.prompt("x") as turn:
                    async for _ in turn:
                        pass
            assert turn.text == text
            raised.append(caught.value)

        sessions = [await agent.new_session(), await agent.new_session()]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, sessions[0], "a")
            nursery.start_soon(run, sessions[1], "b")
        with pytest.raises(expected):
            await agent.new_session()
    assert raised[0] is not raised[1]


CONVERSATION = [
    chunk("a"),
    {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s1", "update": {"sessionUpdate": "x"}},
    },
    chunk("b"),
]
WIRE_BYTES = b"".join(map(frame, CONVERSATION))


async def test_death_at_every_byte_ends_the_turn_with_all_whole_messages_delivered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """At every boundary of a message and in the middle of each; the last line needs no newline (W1)."""
    ends: list[int] = []
    for message in CONVERSATION:
        ends.append((ends[-1] if ends else 0) + len(frame(message)))
    for cut in range(0, len(WIRE_BYTES) + 1, 7):

        async def script(wire: Wire, cut: int = cut) -> None:
            await wire.new_session()
            await wire.prompt()
            await wire.raw(WIRE_BYTES[:cut])
            wire.close()

        async with Scene(script, peaceful=False) as (agent, _wire):
            session = await agent.new_session()
            got = 0
            with pytest.raises(ConnectionLost):
                async with session.prompt("x") as turn:
                    async for _ in turn:
                        got += 1
            assert got == sum(end - 1 <= cut for end in ends)


async def test_silence_is_ended_by_the_idle_time_only(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await trio.sleep(1000)
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            pass
        assert turn.stop_reason == "end_turn"

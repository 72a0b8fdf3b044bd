"""The agent as a model: streams of events, content blocks, conversations side by side, tokens that stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._conversations import IMAGE, WIRE_IMAGE, events_of, reply, wire_text
from tests.client._scripted import EVERYTHING, Scene, Wire
from trio_acp import (
    CapabilityError,
    ConnectedAgent,
    LocalProtocolError,
    TurnCancelled,
)
from trio_acp.client import (
    Done,
    ErrorEvent,
    ModelMessage,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
)
from trio_acp.client import _generate as rooms
from trio_acp.schema import ResourceLink, TextContent

Clock = trio.testing.MockClock


# --- Stopping -----------------------------------------------------------------------------------------


async def test_the_stop_button_ends_a_stream_with_an_error(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("half")
        await wire.expect("session/cancel")
        await wire.update("tool_call", toolCallId="t", title="late")
        await wire.end(prompt, "cancelled")
        await reply(wire, "again", "yes")

    async with Scene(script) as (agent, _wire):
        kinds: list[type] = []
        with pytest.raises(TurnCancelled) as caught:
            async with agent.generate_stream("x") as events:
                async for event in events:
                    kinds.append(type(event))
                    agent.cancel()
        assert caught.value.text == "half"
        assert kinds == [TextDelta, ToolCallEvent, ToolResultEvent, ErrorEvent]
        assert await agent.generate("again") == "yes"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_token_stops_a_call(autojump_clock: Clock, stream: bool) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("half")
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await reply(wire, "again", "yes")

    async with Scene(script) as (agent, _wire), trio.open_nursery() as nursery:
        token = trio.Event()

        @nursery.start_soon
        async def _() -> None:
            await trio.sleep(1)
            token.set()

        with pytest.raises(TurnCancelled) as caught:
            if stream:
                await events_of(agent.generate_stream("x", cancel=token))
            else:
                await agent.generate("x", cancel=token)
        assert caught.value.text == "half"
        # A token that nobody sets makes no difference.
        assert await agent.generate("again", cancel=trio.Event()) == "yes"


async def test_a_token_that_is_set_already_stops_everything_before_it_begins(autojump_clock: Clock) -> None:
    async with Scene(Wire.quiet) as (agent, _wire):
        token = trio.Event()
        token.set()
        with pytest.raises(TurnCancelled):
            await agent.generate("x", cancel=token)
        with pytest.raises(TurnCancelled):
            await events_of(agent.generate_stream("x", cancel=token))


async def test_a_token_takes_a_call_out_of_the_line(autojump_clock: Clock) -> None:
    """And the stop button ends only the call that runs."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await reply(wire, "third", "tres")

    token = trio.Event()
    outcomes: list[str] = []

    async with Scene(script) as (agent, _wire):

        async def ask(text: str, cancel: trio.Event | None = None) -> None:
            try:
                outcomes.append(await agent.generate(text, cancel=cancel))
            except TurnCancelled:
                outcomes.append(f"{text} stopped")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "first")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, "second", token)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, "third")
            await trio.testing.wait_all_tasks_blocked()
            token.set()
            await trio.testing.wait_all_tasks_blocked()
            assert outcomes == ["second stopped"]
            agent.cancel()
    assert outcomes == ["second stopped", "first stopped", "tres"]


@pytest.mark.parametrize("where", ["line", "creating", "turn"])
async def test_a_scope_around_a_call_with_a_token_cancels_it(autojump_clock: Clock, where: str) -> None:
    async def script(wire: Wire) -> None:
        if where == "creating":
            request = await wire.expect("session/new")
            await wire.expect("$/cancel_request")
            await wire.error(request, -32800)
            await wire.new_session("s1")
        else:
            await wire.new_session("s1")
            prompt = await wire.prompt()
            if where == "turn":
                await wire.expect("session/cancel")
            else:
                await trio.sleep(5)
            await wire.end(prompt, "cancelled" if where == "turn" else "end_turn")
        await reply(wire, "again", "yes")

    async with Scene(script) as (agent, _wire), trio.open_nursery() as nursery:
        if where == "line":
            nursery.start_soon(agent.generate, "first")
            await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1) as scope:
            await agent.generate("x", cancel=trio.Event())
        assert scope.cancelled_caught
        assert await agent.generate("again") == "yes"


async def test_a_cancellation_that_comes_when_all_is_over_still_counts(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "x", "a")

    async with Scene(script) as (agent, _wire):
        with trio.CancelScope() as scope:
            async with agent.generate_stream("x", cancel=trio.Event()) as events:
                await events.turn.wait()
                scope.cancel()
            raise AssertionError("the block was left normally")
        assert scope.cancelled_caught


@pytest.mark.parametrize("others", [False, True])
async def test_a_cancellation_in_the_last_step_of_a_token_is_not_lost(
    autojump_clock: Clock, others: bool
) -> None:
    call = rooms._Call()
    with trio.CancelScope() as scope:
        if others:
            with pytest.raises(KeyError, match="mine"):
                async with rooms._Watcher(trio.Event(), call):
                    scope.cancel()
                    raise KeyError("mine")
        async with rooms._Watcher(trio.Event(), call):
            scope.cancel()
        raise AssertionError("the block was left normally")
    assert scope.cancelled_caught
    assert not call.stopped


# --- Conversations ------------------------------------------------------------------------------------


async def test_conversations_have_sessions_of_their_own_and_run_side_by_side(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        first = await wire.prompt("s1")
        await wire.new_session("s2")
        second = await wire.prompt("s2")
        await wire.expect("session/cancel", sessionId="s2")
        await wire.end(second, "cancelled")
        await wire.text("one", "s1")
        await wire.end(first)

    outcomes: list[str] = []

    async with Scene(script) as (agent, _wire):

        async def ask(conversation: str | None) -> None:
            try:
                outcomes.append(await agent.generate("x", conversation=conversation))
            except TurnCancelled:
                outcomes.append("stopped")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, None)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, "two")
            await trio.testing.wait_all_tasks_blocked()
            agent.cancel("three")
            agent.cancel("two")
    assert outcomes == ["stopped", "one"]


async def test_the_conversation_that_was_idle_longest_is_given_up(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the default one, never one in use."""
    monkeypatch.setattr(rooms, "MAX_CONVERSATIONS", 3)

    async def script(wire: Wire) -> None:
        for name in ("default", "a", "b"):
            await wire.new_session(name)
            await reply(wire, "x", name, name)
        await reply(wire, "x", "a again", "a")
        await wire.expect("session/close", sessionId="b")
        await wire.new_session("c")
        busy = await wire.prompt("c")
        await reply(wire, "x", "a once more", "a")
        await wire.expect("session/close", sessionId="a")
        await wire.new_session("d")
        await reply(wire, "x", "d", "d")
        await reply(wire, "x", "default", "default")
        await wire.end(busy)

    async with Scene(script) as (agent, _wire):
        assert await agent.generate("x") == "default"
        for name in ("a", "b"):
            assert await agent.generate("x", conversation=name) == name
        assert await agent.generate("x", conversation="a") == "a again"
        async with agent.generate_stream("x", conversation="c") as events:
            assert await agent.generate("x", conversation="a") == "a once more"
            assert await agent.generate("x", conversation="d") == "d"
            assert await agent.generate("x") == "default"
            assert [type(event) async for event in events] == [Done]


async def test_a_conversation_given_up_before_it_had_a_session_costs_nothing(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "MAX_CONVERSATIONS", 1)
    token = trio.Event()
    token.set()
    async with Scene(Wire.quiet) as (agent, _wire):
        for name in ("a", "b", "c"):
            with pytest.raises(TurnCancelled):
                await agent.generate("x", conversation=name, cancel=token)


async def test_a_session_that_somebody_closed_is_replaced(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await reply(wire, "one", "uno", "s1")
        await wire.expect("session/close")
        await wire.new_session("s2")
        await reply(wire, "User: one\n\nAssistant: uno\n\nUser: two", "dos", "s2")

    async with Scene(script) as (agent, _wire):
        assert await agent.generate("one") == "uno"
        (session,) = agent.sessions.values()
        session.discard()
        assert session.closed
        assert await agent.generate([("user", "one"), ("assistant", "uno"), ("user", "two")]) == "dos"


# --- Messages -----------------------------------------------------------------------------------------


async def test_messages_may_hold_any_content(autojump_clock: Clock) -> None:
    """T1: blocks as the next message, and blocks in a history, each under its role."""
    link = ResourceLink("notes", "file:///notes")
    wire_link = {"type": "resource_link", "name": "notes", "uri": "file:///notes"}
    noted = TextContent("two", meta={"x": 1})

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await reply(wire, [wire_text("look"), WIRE_IMAGE], "a cat")
        await reply(wire, [wire_link], "a list")
        await reply(wire, [wire_text("a"), wire_text("b")], "c")
        await wire.result(await wire.expect("session/close"), {})
        await wire.new_session("s2")
        marked = {**wire_text("two"), "_meta": {"x": 1}}
        expected = [
            wire_text("User: look"),
            WIRE_IMAGE,
            wire_text("Assistant: a cat\n\nUser:"),
            WIRE_IMAGE,
            wire_text("one"),
            marked,
        ]
        await reply(wire, expected, "cats", "s2")
        await reply(wire, [WIRE_IMAGE], "yes", "s2")

    async with Scene(script) as (agent, _wire):
        assert await agent.generate(["look", IMAGE]) == "a cat"
        assert await agent.generate(link) == "a list"
        assert await agent.generate(("a", "b")) == "c"
        history: list[Any] = [
            ("user", ["look", IMAGE]),
            ("assistant", "a cat"),
            ("user", [IMAGE, "one", noted]),
        ]
        assert await agent.generate(history) == "cats"
        history += [("assistant", "cats"), ("user", IMAGE)]
        assert await agent.generate(history) == "yes"


async def test_a_history_with_tools_of_the_host_is_told_in_words(autojump_clock: Clock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        expected = 'User: add\n\nAssistant: [called the tool add with {"a": 1}]\n\nTool: 2'
        await reply(wire, expected, "It is 2.")
        await reply(wire, "thanks", "welcome")

    call = ToolCallEvent("t", "add", {"a": 1})
    history: list[Any] = [
        ModelMessage("user", "add"),
        ModelMessage("assistant", "", [call]),
        ModelMessage("tool", "2", tool_call_id="t"),
    ]
    async with Scene(script) as (agent, _wire):
        assert await agent.generate(history) == "It is 2."
        more = [*history, ("assistant", "It is 2."), ModelMessage("user", ["thanks"])]
        assert await agent.generate(more) == "welcome"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "no messages"),
        (("user", "hello"), "list of pairs"),
        ([("user", "a", "b")], "not of tuple"),
        ([("user", "a"), "b"], "not of str"),
        ([("user", [])], "at least one"),
        ([("user", "a"), ModelMessage("assistant", "b")], "last message"),
        ({"role": "user"}, "not of dict"),
        (5, "not of int"),
    ],
)
async def test_what_is_no_message_is_refused_before_anything_is_sent(
    autojump_clock: Clock, messages: Any, words: str
) -> None:
    async with Scene(Wire.quiet) as (agent, _wire):
        with pytest.raises(LocalProtocolError, match=words):
            await agent.generate(messages)


async def test_content_that_the_agent_does_not_take_is_refused_before_anything_is_sent(
    autojump_clock: Clock,
) -> None:
    messages: Sequence[Any]
    async with Scene(Wire.quiet, capabilities={}) as (agent, _wire):
        for messages in ([IMAGE], [("user", IMAGE)]):
            with pytest.raises(CapabilityError):
                await agent.generate(messages)


def test_the_text_of_a_message_is_its_text_blocks() -> None:
    assert ModelMessage("user", "a").text == "a"
    assert ModelMessage("user", ["a", IMAGE, TextContent("b")]).text == "a\n\nb"


async def test_other_threads_are_told_how_to_press_the_button(autojump_clock: Clock) -> None:
    async with Scene(capabilities=EVERYTHING) as (agent, _wire):

        def press(agent: ConnectedAgent) -> None:
            agent.cancel("x")

        with pytest.raises(RuntimeError, match="from_thread"):
            await trio.to_thread.run_sync(press, agent)

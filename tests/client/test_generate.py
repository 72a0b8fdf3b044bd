"""The agent as a model: messages in, text out, one warm session."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import EVERYTHING, Scene, Wire, select
from trio_acp import (
    AcpOptions,
    InternalError,
    LocalProtocolError,
    PermissionRequest,
    Selected,
    SessionBusy,
    TurnCancelled,
)

BARE: dict[str, Any] = {}
"""An agent that cannot even close sessions."""


def text_of(prompt: dict[str, Any]) -> str:
    (block,) = prompt["params"]["prompt"]
    text: str = block["text"]
    return text


async def reply(wire: Wire, expected: str, answer: str, session: str = "s1") -> None:
    """Expect a prompt and answer it."""
    prompt = await wire.prompt(session)
    assert text_of(prompt) == expected
    await wire.text(answer, session)
    await wire.end(prompt)


async def test_a_string_is_the_next_message_of_one_conversation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The session is made on first use, in the directory of the options."""

    async def script(wire: Wire) -> None:
        request = await wire.new_session()
        assert request["params"]["cwd"] == "/project"
        await reply(wire, "one", "uno")
        await reply(wire, "two", "dos")
        await wire.quiet()

    async with Scene(script, AcpOptions(cwd="/project")) as (agent, _wire):
        assert await agent.generate("one") == "uno"
        assert await agent.generate("two") == "dos"
        agent.cancel()  # nothing runs: nothing happens


async def test_only_the_agents_own_words_are_the_reply(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        for kind in ("agent_thought_chunk", "user_message_chunk", "agent_message_chunk"):
            await wire.update(kind, content={"type": "text", "text": kind})
        content = {"type": "content", "content": {"type": "text", "text": "tool output"}}
        await wire.update("tool_call", toolCallId="t", title="T", content=[content])
        await wire.text("!")
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        assert await agent.generate("x") == "agent_message_chunk!"


async def test_a_history_that_goes_on_sends_only_what_is_new(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "System: be brief\n\nUser: one", "uno")
        await reply(wire, "two", "dos")
        await reply(wire, "three\n\nfour", "tres cuatro")
        await reply(wire, "five", "cinco")
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        history = [("system", "be brief"), ("user", "one")]
        assert await agent.generate(history) == "uno"
        history += [("assistant", " uno\n"), ("user", "two")]
        assert await agent.generate(history) == "dos"
        history += [("assistant", "dos"), ("user", "three"), ("user", "four")]
        assert await agent.generate(tuple(history)) == "tres cuatro"
        assert await agent.generate("five") == "cinco"


async def test_a_system_message_in_the_middle_is_named_as_one(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "one", "uno")
        await reply(wire, "System: louder\n\nUser: two", "DOS")

    async with Scene(script) as (agent, _wire):
        assert await agent.generate([("user", "one")]) == "uno"
        history = [("user", "one"), ("assistant", "uno"), ("system", "louder"), ("user", "two")]
        assert await agent.generate(history) == "DOS"


@pytest.mark.parametrize(
    "history",
    [
        [("user", "ONE"), ("assistant", "uno"), ("user", "two")],
        [("user", "one"), ("assistant", "eins"), ("user", "two")],
        [("user", "two")],
        [("user", "one"), ("assistant", "uno"), ("user", "x"), ("assistant", "y"), ("user", "two")],
    ],
)
@pytest.mark.parametrize("capabilities", [BARE, EVERYTHING])
async def test_an_edited_history_gets_a_fresh_session_and_the_transcript(
    autojump_clock: trio.testing.MockClock, history: Any, capabilities: Any
) -> None:
    """What the old session has seen cannot be unsaid; it is freed where the agent can (Q2)."""

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        await reply(wire, "one", "uno")
        if capabilities is EVERYTHING:
            await wire.result(await wire.expect("session/close", sessionId="s1"), {})
        await wire.new_session("s2")
        names = {"user": "User", "assistant": "Assistant"}
        expected = "\n\n".join(f"{names[role]}: {text}" for role, text in history)
        await reply(wire, expected if len(history) > 1 else "two", "dos", "s2")
        await reply(wire, "three", "tres", "s2")

    async with Scene(script, capabilities=capabilities) as (agent, _wire):
        assert await agent.generate([("user", "one")]) == "uno"
        assert await agent.generate(history) == "dos"
        assert await agent.generate([*history, ("assistant", "dos"), ("user", "three")]) == "tres"
        assert list(agent.sessions) == ["s2"]


async def test_the_stop_button_raises_and_the_session_stays_warm(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A cancelled, unanswered message is sent again if repeated."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.text("half")
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await reply(wire, "one", "uno")
        await reply(wire, "two", "dos")

    async with Scene(script) as (agent, _wire):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                await trio.sleep(1)
                agent.cancel()
                agent.cancel()

            with pytest.raises(TurnCancelled) as caught:
                await agent.generate([("user", "one")])
        assert caught.value.text == "half"
        assert await agent.generate([("user", "one")]) == "uno"
        assert await agent.generate([("user", "one"), ("assistant", "uno"), ("user", "two")]) == "dos"


@pytest.mark.parametrize("capabilities", [BARE, EVERYTHING])
async def test_an_unanswered_message_that_is_not_repeated_is_an_edited_history(
    autojump_clock: trio.testing.MockClock, capabilities: Any
) -> None:
    """Q2: the session has seen it, and it cannot be unsaid."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "one", "uno")
        for text in ("delete it", "now", "delete it\n\nnow\n\nplease"):
            prompt = await wire.prompt()
            assert prompt["params"]["prompt"] == [{"type": "text", "text": text}]
            await wire.error(prompt, -32603)
        if capabilities is EVERYTHING:
            await wire.result(await wire.expect("session/close", sessionId="s1"), {})
        await wire.new_session("s2")
        await reply(wire, "User: one\n\nAssistant: uno\n\nUser: list it", "fine", "s2")
        await reply(wire, "thanks", "welcome", "s2")

    history = [("user", "one"), ("assistant", "uno")]
    async with Scene(script, capabilities=capabilities) as (agent, _wire):
        assert await agent.generate("one") == "uno"
        for text in ("delete it", "now"):
            with pytest.raises(InternalError):
                await agent.generate(text)
        repeated = [*history, *[("user", text) for text in ("delete it", "now", "please")]]
        with pytest.raises(InternalError):
            await agent.generate(repeated)
        assert await agent.generate([*history, ("user", "list it")]) == "fine"
        assert await agent.generate("thanks") == "welcome"


async def test_a_cancelled_scope_ends_the_turn_and_the_session_stays_warm(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")
        await reply(wire, "one", "uno")

    async with Scene(script) as (agent, _wire):
        with trio.move_on_after(1) as scope:
            await agent.generate("one")
        assert scope.cancelled_caught
        assert await agent.generate("one") == "uno"


@pytest.mark.parametrize("moment", ["creating", "entering"])
async def test_the_stop_button_works_before_the_turn_has_begun(
    autojump_clock: trio.testing.MockClock, moment: str
) -> None:
    """E3: while the session is being made, and while the prompt waits to be sent."""

    async def script(wire: Wire) -> None:
        if moment == "creating":
            await trio.sleep(2)
            await wire.new_session()
        else:
            await wire.new_session()
            prompt = await wire.prompt()
            await wire.expect("session/cancel")
            await trio.sleep(7)
            await wire.end(prompt, "cancelled")  # the turn was abandoned: the next one waits for this
            prompt = await wire.prompt()
            await wire.expect("session/cancel")
            await wire.end(prompt, "cancelled")
        await reply(wire, "again", "yes")

    async with Scene(script) as (agent, _wire):
        if moment == "entering":
            with trio.move_on_after(1):
                await agent.generate("one")
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                await trio.sleep(1)
                agent.cancel()

            with pytest.raises(TurnCancelled):
                await agent.generate("two")
        assert await agent.generate("again") == "yes"


async def test_calls_take_turns_and_a_failed_one_leaves_no_trace(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        for _ in range(3):
            prompt = await wire.prompt()
            await wire.quiet()
            await wire.text(text_of(prompt).upper())
            await wire.end(prompt)
        prompt = await wire.prompt()
        await wire.error(prompt, -32603)
        await reply(wire, "again", "yes")

    replies: list[str] = []

    async with Scene(script) as (agent, _wire):

        async def ask(text: str) -> None:
            replies.append(await agent.generate(text))

        async with trio.open_nursery() as nursery:
            for text in ("a", "b", "c"):
                nursery.start_soon(ask, text)
        assert sorted(replies) == ["A", "B", "C"]
        with pytest.raises(InternalError):
            await agent.generate("fail")
        assert await agent.generate("again") == "yes"


async def test_a_handler_of_the_turn_that_it_would_wait_for_is_told_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And another session is a way out."""

    async def on_permission(request: PermissionRequest) -> Selected:
        with pytest.raises(SessionBusy, match="handler of the turn"):
            await agent.generate("inner")
        session = await agent.new_session()
        async with session.prompt("inner") as turn:
            await turn.wait()
        return Selected(turn.text)

    async def script(wire: Wire) -> None:
        await wire.new_session("s1")
        prompt = await wire.prompt("s1")
        id = await wire.ask_permission("s1")
        await wire.new_session("s2")
        await reply(wire, "inner", "yes", "s2")
        assert await wire.answer(id) == select("yes")
        await wire.text("outer")
        await wire.end(prompt)
        await reply(wire, "later", "fine", "s1")

    async with Scene(script, AcpOptions(on_permission=on_permission)) as (agent, _wire):
        assert await agent.generate("x") == "outer"
        assert await agent.generate("later") == "fine"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [("assistant", "a")],
        [("user", "a"), ("assistant", "b")],
        [("developer", "a")],
    ],
)
async def test_a_history_that_asks_nothing_is_refused(
    autojump_clock: trio.testing.MockClock, messages: Any
) -> None:
    async with Scene(Wire.quiet) as (agent, _wire):
        with pytest.raises(LocalProtocolError):
            await agent.generate(messages)


async def test_a_fresh_session_that_cannot_be_made_is_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        await reply(wire, "one", "uno")
        await wire.result(await wire.expect("session/close"), {})
        await wire.error(await wire.expect("session/new"), -32603)
        await wire.new_session("s2")
        await reply(wire, "two", "dos", "s2")

    async with Scene(script) as (agent, _wire):
        await agent.generate("one")
        with pytest.raises(InternalError):
            await agent.generate([("user", "two")])
        assert await agent.generate([("user", "two")]) == "dos"

"""Extension methods with types and with their session, in both directions (N1, O1, O3, O4, O6)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, Extensions, InvalidResponse, LocalProtocolError, SessionScope
from trio_acp.schema import WireObject


@attrs.define(repr=False, eq=False)
class Question(WireObject):
    """What is asked."""

    text: str
    how_often: int = 1


@attrs.define(repr=False, eq=False)
class Answer(WireObject):
    """What is answered."""

    text: str


async def test_typed_handlers_get_and_give_objects_and_know_the_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    extensions = Extensions()
    seen: list[Any] = []

    @extensions.method("_x/ask", Question, Answer)
    async def ask(question: Question, session: SessionScope | None) -> Answer:
        seen.append((question, session))
        return Answer(question.text * question.how_often)

    @extensions.method("_x/any", Question)
    async def anything(question: Question, session: SessionScope | None) -> Any:
        return Answer("object") if question.how_often == 1 else [1, None]

    @extensions.method("_x/wrong", Question, Answer)
    async def wrong(question: Question, session: SessionScope | None) -> Answer:
        return "no object"  # type: ignore[return-value]

    async def script(wire: Wire) -> None:
        await wire.new_session()
        more = {"sessionId": "s1", "other": 5}
        id = await wire.ask("_x/ask", {"text": "ab", "howOften": 2, **more})
        assert await wire.answer(id) == {"text": "abab"}
        id = await wire.ask("_x/ask", {"text": "c", "sessionId": "nobody"})
        assert await wire.answer(id) == {"text": "c"}
        id = await wire.ask("_x/any", {"text": "c"})
        assert await wire.answer(id) == {"text": "object"}
        id = await wire.ask("_x/any", {"text": "c", "howOften": 7})
        assert await wire.answer(id) == [1, None]
        assert await wire.refusal(await wire.ask("_x/ask", {"text": 5})) == -32602
        assert await wire.refusal(await wire.ask("_x/wrong", {"text": "x"})) == -32603
        assert await wire.refusal(await wire.ask("_x/unknown", {})) == -32601
        for method in ("_x/unknown", "_x/ask", "_x/ask"):
            params = {"text": "told", **more}
            await wire.burst({"jsonrpc": "2.0", "method": method, "params": params})
        await wire.quiet()

    async with Scene(script, AcpOptions(extensions=extensions)) as (agent, _wire):
        await agent.new_session()
    question, session = seen[0]
    assert (question.text, question.how_often, question.extra) == ("ab", 2, {"sessionId": "s1", "other": 5})
    assert session.id == "s1"
    assert seen[1][1] is None
    assert [(question.text, session.id) for question, session in seen[2:]] == [("told", "s1")] * 2
    assert ask in [extension.handler for extension in extensions.values()]
    assert (len(extensions), list(extensions)) == (3, ["_x/ask", "_x/any", "_x/wrong"])


async def test_calls_take_and_give_objects_too(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        wire.referee.odd_methods.add("cursor/ask")
        await wire.result(await wire.expect("_x/ask", text="q", howOften=3), {"text": "a", "more": 1})
        await wire.result(await wire.expect("_x/ask"), {"text": 5})
        await wire.expect("_x/tell", text="t")
        await wire.result(await wire.expect("cursor/ask"), 5)
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        answer = await agent.request("_x/ask", Question("q", 3), result=Answer)
        assert (answer.text, answer.extra) == ("a", {"more": 1})
        with pytest.raises(InvalidResponse, match="_x/ask"):
            await agent.request("_x/ask", Question("q"), result=Answer)
        await agent.notify("_x/tell", Question("t"))
        # Against the protocol, but there are such agents; the name travels unchanged.
        with pytest.warns(UserWarning, match="underscore"):
            assert await agent.request("cursor/ask") == 5
        for name in ("session/prompt", "$/progress", ""):
            with pytest.raises(LocalProtocolError, match="underscore"):
                await agent.request(name)


@attrs.define(repr=False, eq=False)
class Unsendable(WireObject):
    """Has a field that is no JSON."""

    where: complex


async def handler(params: Any, session: SessionScope | None = None) -> None:
    raise AssertionError


async def nothing_to_take(*, session: Any = None) -> None:
    raise AssertionError


def test_a_registry_refuses_what_cannot_work_and_warns_of_what_should_not() -> None:
    extensions = Extensions()
    extensions.method("_x", Question)(handler)
    with pytest.raises(ValueError, match="already"):
        extensions.method("_x", Question)
    with pytest.raises(ValueError, match="underscore"):
        extensions.method("session/update", Question)
    with pytest.raises(TypeError, match="complex"):
        extensions.method("_y", complex)
    with pytest.raises(TypeError, match="complex"):
        extensions.method("_y", Question, complex)
    with pytest.raises(TypeError, match="take the parameters"):
        extensions.method("_y")(nothing_to_take)
    with pytest.raises(TypeError, match="complex"):
        extensions.method("_y", Unsendable)
    with pytest.warns(UserWarning, match="underscore"):
        extensions.method("x", Question)
    with pytest.warns(UserWarning, match="underscore"):
        AcpOptions(extensions={"x": handler})
    with pytest.raises(ValueError, match="underscore"):
        AcpOptions(extensions={"fs/read_text_file": handler})

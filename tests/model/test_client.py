"""The model client: runs with tools and hooks, streams of them, conversations that are kept."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from tests.model._models import ACP_CALL, ACP_RESULT, add, call, scripted, streaming
from trio_acp import LocalProtocolError
from trio_acp.model import (
    ConversationStore,
    Hooks,
    InProcessClient,
    MemoryConversationStore,
    ModelMessage,
    ModelReply,
    RunResult,
    ToolCallEvent,
    ToolError,
    ToolResultEvent,
    TurnLimit,
    tool,
)
from trio_acp.schema import UsageUpdate

Clock = trio.testing.MockClock


# --- Runs ---------------------------------------------------------------------------------------------


async def test_a_run_gives_text_messages_turns_usage_and_model() -> None:
    model, client = scripted(ModelReply("Hello.", usage={"tokens": 3}, stop_reason="end_turn"))
    result = await client.run("hi")
    user, assistant = ModelMessage("user", "hi"), ModelMessage("assistant", "Hello.")
    assert result == RunResult("Hello.", (user, assistant), (), 1, {"tokens": 3}, "m", "end_turn")
    assert model.asked == [[user]]


async def test_a_text_is_a_reply_and_a_history_is_sent_whole() -> None:
    model, client = scripted("fine")
    history: list[Any] = [("system", "be brief"), ModelMessage("user", "how are you?")]
    result = await client.run(history)
    assert (result.text, result.usage) == ("fine", None)
    assert [(message.role, message.text) for message in model.asked[0]] == [
        ("system", "be brief"),
        ("user", "how are you?"),
    ]


async def test_tools_are_run_and_their_results_given_to_the_model() -> None:
    @tool
    async def words() -> str:
        return "many words"

    model, client = scripted(
        ModelReply("Let me see.", [call(a=1, b=2), call("words", "c2")], usage={"tokens": 1, "on": True}),
        ModelReply("It is 3.", usage={"tokens": 2, "more": 1.5, "on": False}, model="m-large"),
        tools=[add, words],
    )
    result = await client.run("add")
    assert [(each.name, each.output, each.is_error, each.status, each.via) for each in result.tool_calls] == [
        ("add", 3, False, "completed", "local"),
        ("words", "many words", False, "completed", "local"),
    ]
    assert (result.text, result.turns, result.model) == ("It is 3.", 2, "m-large")
    assert result.usage == {"tokens": 3, "more": 1.5, "on": False}
    assert model.asked[1] == [
        ModelMessage("user", "add"),
        ModelMessage("assistant", "Let me see.", (call(a=1, b=2), call("words", "c2"))),
        ModelMessage("tool", "3", tool_call_id="c1"),
        ModelMessage("tool", "many words", tool_call_id="c2"),
    ]


async def test_what_the_model_does_wrong_is_told_to_the_model() -> None:
    async def fails() -> None:
        raise ToolError("the disk is full")

    model, client = scripted(
        ModelReply("", [call("sub"), call(a="1"), call("fails", "c3")]), "sorry", tools=[add, fails]
    )
    result = await client.run("x")
    assert [each.is_error for each in result.tool_calls] == [True, True, True]
    assert [message.text for message in model.asked[1][2:]] == [
        "there is no tool 'sub'; there is: add, fails",
        "the arguments do not fit: arguments lacks b",
        "the disk is full",
    ]
    assert all(message.is_error for message in model.asked[1][2:])


async def test_what_a_tool_raises_leaves_the_run_as_itself() -> None:
    async def fails() -> None:
        raise KeyError("mine")

    for make in (scripted, streaming):
        _, client = make(ModelReply("", [call("fails")]), tools=[fails])
        with pytest.raises(KeyError, match="mine"):
            await client.run("x")


@pytest.mark.parametrize("make", [scripted, streaming])
async def test_tools_that_an_agent_runs_itself_are_never_run_here(make: Any) -> None:
    async def ls(path: str) -> str:
        raise AssertionError("run")

    reply = ModelReply("one file", [ACP_CALL], [ACP_RESULT], usage=UsageUpdate(1, 10))
    _, client = make(reply, tools=[ls])
    result = await client.run("look")
    assert result.tool_calls == (ACP_RESULT,)
    assert (result.turns, result.usage) == (1, UsageUpdate(1, 10))
    assert result.messages == (ModelMessage("user", "look"), ModelMessage("assistant", "one file"))


async def test_an_agents_reports_on_its_context_are_not_added_up() -> None:
    usages = [UsageUpdate(1, 10), None, UsageUpdate(5, 10)]
    replies = [ModelReply("", [call(a=1, b=1)], usage=usage) for usage in usages]
    _, client = scripted(*replies, "done", tools=[add])
    assert (await client.run("x")).usage == UsageUpdate(5, 10)


async def test_a_model_that_goes_round_in_circles_is_stopped() -> None:
    model, client = scripted(*[ModelReply("again", [call(a=1, b=1)])] * 5, tools=[add], max_turns=3)
    with pytest.raises(TurnLimit, match="after 3 calls; raise max_turns") as caught:
        await client.run("x")
    assert len(model.asked) == caught.value.result.turns == 3
    assert len(caught.value.result.tool_calls) == 2
    for again in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert (again.result, str(again)) == (caught.value.result, str(caught.value))


async def test_what_the_model_raises_leaves_the_run_as_itself() -> None:
    _, client = scripted(KeyError("mine"))
    with pytest.raises(KeyError, match="mine"):
        await client.run("x")


async def test_functions_are_given_what_they_take() -> None:
    seen: list[Any] = []

    async def generate(messages: Any, *, tools: Any, conversation: str | None = None, model: str = "") -> str:
        seen.append((conversation, [each.name for each in tools], model))
        return "a"

    client = InProcessClient(model="m", generate=generate, tools=[add])
    await client.run("x")
    await client.run("x", id="id")
    assert seen == [(None, ["add"], "m"), ("id", ["add"], "m")]

    async def bare(tools: Any, /, **more: Any) -> str:
        assert isinstance(tools[0], ModelMessage)
        assert not more
        return "b"

    assert (await InProcessClient(generate=bare).run("x", id="id")).text == "b"


async def test_a_function_that_cannot_say_what_it_takes_gets_the_messages_alone() -> None:
    class Silent:
        __signature__ = 5  # no signature, as of some functions that are written in C

        async def __call__(self, messages: Sequence[ModelMessage]) -> str:
            return messages[0].text

    silent: Any = Silent()

    def signature(function: Any) -> Any:
        raise ValueError("no signature found")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trio_acp.model._source.inspect.signature", signature)
        client = InProcessClient(generate=silent)
    assert (await client.run("x")).text == "x"


async def test_what_is_no_reply_is_refused() -> None:
    async def generate(messages: Any) -> Any:
        return None

    with pytest.raises(TypeError, match="a text or a ModelReply, not NoneType"):
        await InProcessClient(generate=generate).run("x")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, TypeError, "give generate="),
        ({"generate": add, "max_turns": 0}, ValueError, "at least 1"),
        ({"generate": add, "tools": [add, add]}, ValueError, "one name: add, add"),
        ({"generate": add, "tools": [len]}, TypeError, "parameters="),
    ],
)
def test_a_client_that_cannot_work_is_refused(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        InProcessClient(**options)


async def test_messages_that_ask_nothing_are_refused() -> None:
    _, client = scripted()
    with pytest.raises(LocalProtocolError):
        await client.run([("assistant", "a")])


# --- Hooks --------------------------------------------------------------------------------------------


async def test_hooks_see_and_change_every_step() -> None:
    seen: list[Any] = []

    async def before_model(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage] | None:
        seen.append(("before model", len(messages)))
        return [ModelMessage("system", "secret"), *messages] if len(messages) == 1 else None

    async def after_model(reply: ModelReply) -> ModelReply | None:
        seen.append(("after model", reply.text))
        return ModelReply("changed") if reply.text == "done" else None

    async def before_tool(wanted: ToolCallEvent) -> ToolCallEvent | ToolResultEvent | None:
        seen.append(("before tool", wanted.id))
        match wanted.id:
            case "c1":
                return None
            case "c2":
                return call(id="c2", a=10, b=10)
            case _:
                return ToolResultEvent("c3", "add", {}, "denied", True, None, via="local")

    async def after_tool(result: ToolResultEvent) -> ToolResultEvent | None:
        seen.append(("after tool", result.output))
        if result.id == "c1":
            return ToolResultEvent("c1", "add", {}, "[hidden]", False, "completed", via="local")
        return None

    calls = [call(id=id, a=1, b=2) for id in ("c1", "c2", "c3")]
    model, client = scripted(
        ModelReply("tools", calls),
        "done",
        tools=[add],
        hooks=Hooks(
            before_model=before_model, after_model=after_model, before_tool=before_tool, after_tool=after_tool
        ),
    )
    result = await client.run("x")
    assert seen == [
        ("before model", 1),
        ("after model", "tools"),
        ("before tool", "c1"),
        ("after tool", 3),
        ("before tool", "c2"),
        ("after tool", 20),
        ("before tool", "c3"),
        ("after tool", "denied"),
        ("before model", 5),
        ("after model", "done"),
    ]
    assert result.text == "changed"
    assert [message.text for message in model.asked[0]] == ["secret", "x"]
    assert [each.output for each in result.tool_calls] == ["[hidden]", 20, "denied"]
    assert [message.text for message in result.messages] == [
        "x",
        "tools",
        "[hidden]",
        "20",
        "denied",
        "changed",
    ]


async def test_what_a_hook_raises_leaves_the_run_as_itself() -> None:
    async def refuse(wanted: ToolCallEvent) -> None:
        raise PermissionError(wanted.name)

    _, client = scripted(ModelReply("", [call()]), tools=[add], hooks=Hooks(before_tool=refuse))
    with pytest.raises(PermissionError, match="add"):
        await client.run("x")


# --- Conversations ------------------------------------------------------------------------------------


async def test_a_conversation_goes_on_where_it_ended() -> None:
    model, client = scripted("uno", "dos", "tres")
    await client.run("one", id="a")
    await client.run("other", id="b")
    result = await client.run("two", id="a")
    assert [message.text for message in result.messages] == ["one", "uno", "two", "tres"]
    assert [[message.text for message in asked] for asked in model.asked] == [
        ["one"],
        ["other"],
        ["one", "uno", "two"],
    ]


async def test_a_run_that_fails_leaves_the_conversation_as_it_was() -> None:
    model, client = scripted("uno", KeyError("mine"), "dos")
    await client.run("one", id="a")
    with pytest.raises(KeyError):
        await client.run("two", id="a")
    await client.run("again", id="a")
    assert [message.text for message in model.asked[-1]] == ["one", "uno", "again"]


async def test_runs_of_one_conversation_take_turns_and_others_run_meanwhile(autojump_clock: Clock) -> None:
    running: list[str] = []
    most: dict[str, int] = {}

    async def generate(messages: Any, *, conversation: str) -> str:
        running.append(conversation)
        for id in ("a", "b"):
            most[id] = max(most.get(id, 0), running.count(id))
        most["all"] = max(most.get("all", 0), len(running))
        await trio.sleep(1)
        running.remove(conversation)
        return str(len(messages))

    client = InProcessClient(generate=generate)
    async with trio.open_nursery() as nursery:
        for id in ("a", "a", "b", "a", "b"):
            nursery.start_soon(partial(client.run, "x", id=id))
    assert most == {"a": 1, "b": 1, "all": 2}
    assert (await client.run("x", id="a")).text == "7"
    assert len(client._lines) == 0


async def test_a_memory_store_keeps_the_newest_conversations() -> None:
    store: ConversationStore = MemoryConversationStore(2)
    messages = [ModelMessage("user", "x")]
    for id in ("a", "b", "a", "c"):
        await store.save(id, messages)
    assert [len(await store.load(id)) for id in ("a", "b", "c")] == [1, 0, 1]
    with pytest.raises(ValueError):
        MemoryConversationStore(0)

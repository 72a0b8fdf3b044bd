"""What updates add up to: messages, tool calls, plan, usage, the session's state (T4, T5, S7, S8)."""

from __future__ import annotations

from typing import Any

import pytest
import trio.testing

from tests.client._scripted import Scene, Wire, chunk, notice
from trio_acp.client import Message, SessionState, Turn, _snapshots
from trio_acp.schema import ImageContent, TextContent, ToolCall, ToolCallStatus


def piece(kind: str, text: str, **more: Any) -> dict[str, Any]:
    return notice("s1", {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more})


async def turn_of(*messages: dict[str, Any]) -> tuple[Turn, SessionState]:
    """Run a turn in which the agent sends these messages."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.burst(*messages)
        await wire.end(prompt)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        async with session.prompt("x") as turn:
            pass
        return turn, session.state


def told(messages: Any) -> list[tuple[str, str | None, str]]:
    return [(message.role, message.message_id, message.text) for message in messages]


async def test_chunks_with_one_id_are_one_message_even_when_another_comes_between(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T5"""
    turn, _ = await turn_of(
        piece("agent_message_chunk", "a", messageId="1"),
        piece("agent_message_chunk", "b", messageId="2"),
        piece("agent_message_chunk", "c", messageId="1"),
        piece("agent_thought_chunk", "d", messageId="1"),
        notice("s1", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}),
        piece("agent_message_chunk", "e", messageId="1"),
    )
    assert told(turn.messages) == [("agent", "1", "ace"), ("agent", "2", "b"), ("thought", "1", "d")]
    assert turn.text == "aceb"


@pytest.mark.parametrize(
    "between",
    [
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t"},
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}},
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hm"}},
        {"sessionUpdate": "agent_message_chunk", "messageId": "7", "content": {"type": "text", "text": "hm"}},
        {"sessionUpdate": "news_from_the_future"},
    ],
)
async def test_chunks_without_an_id_are_one_message_until_something_else_comes(
    autojump_clock: trio.testing.MockClock, between: dict[str, Any]
) -> None:
    """T5"""
    turn, _ = await turn_of(chunk("a"), chunk("b"), notice("s1", between), chunk("c"))
    messages = [one for one in told(turn.messages) if one[2] != "hm"]
    assert messages == [("agent", None, "ab"), ("agent", None, "c")]


@pytest.mark.parametrize(
    "between",
    [
        {"sessionUpdate": "usage_update", "used": 5, "size": 10},
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
        {"sessionUpdate": "current_mode_update", "currentModeId": "m"},
        {"sessionUpdate": "session_info_update", "title": "t"},
        {"sessionUpdate": "config_option_update", "configOptions": []},
    ],
)
async def test_news_about_the_session_does_not_part_a_message(
    autojump_clock: trio.testing.MockClock, between: dict[str, Any]
) -> None:
    turn, _ = await turn_of(chunk("a"), notice("s1", between), chunk("b"))
    assert told(turn.messages) == [("agent", None, "ab")]


async def test_a_message_keeps_what_is_not_text(autojump_clock: trio.testing.MockClock) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    marked = {"type": "text", "text": "!", "annotations": {"priority": 1}}
    turn, _ = await turn_of(
        chunk("a"),
        chunk("b"),
        notice("s1", {"sessionUpdate": "agent_message_chunk", "content": image}),
        notice("s1", {"sessionUpdate": "agent_message_chunk", "content": marked}),
        chunk("c"),
    )
    (message,) = turn.messages
    assert message.text == "ab!c"
    first, second, third, last = message.content
    assert first == TextContent("ab")
    assert isinstance(second, ImageContent)
    assert isinstance(third, TextContent)
    assert third.annotations is not None
    assert last == TextContent("c")
    assert "ab!c" in repr(message)


def test_a_message_may_begin_with_any_content() -> None:
    image = ImageContent("aGk=", "image/png")
    assert Message("agent", None, image).content == [image]
    assert Message("agent", None, TextContent("a")).content == [TextContent("a")]


def test_a_message_of_very_many_chunks_takes_little_more_than_its_text() -> None:
    message = Message("agent", None)
    for n in range(10_000):
        message.add(TextContent(f"{n},"))
    assert message.text == "".join(f"{n}," for n in range(10_000))
    assert message.content == [TextContent(message.text)]
    assert message.pieces < 10_000 / 100


async def test_a_tool_call_is_merged_from_all_that_is_told_about_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """T4: an update may come first; lists are replaced; what is left out stays."""

    def tool(kind: str, /, **fields: Any) -> dict[str, Any]:
        return notice("s1", {"sessionUpdate": kind, "toolCallId": "t", **fields})

    content = {"type": "content", "content": {"type": "text", "text": "out"}}
    turn, state = await turn_of(
        tool("tool_call_update", status="in_progress", locations=[{"path": "/a"}, {"path": "/b"}]),
        tool("tool_call", title="Read", kind="read", rawInput={"x": 1}, _meta={"m": 1}),
        tool("tool_call_update", content=[content, content], rawOutput=[1], name="reader"),
        tool("tool_call_update", locations=[{"path": "/c"}], title="Read it", content=None),
    )
    call = turn.tool_calls["t"]
    assert state.tool_calls["t"] is call
    assert (call.title, call.kind, call.status, call.name) == (
        "Read it",
        "read",
        ToolCallStatus.IN_PROGRESS,
        "reader",
    )
    assert [location.path for location in call.locations] == ["/c"]
    assert len(call.content) == 2
    assert (call.raw_input, call.raw_output, call.meta) == ({"x": 1}, [1], {"m": 1})


@pytest.mark.parametrize("field", ["content", "locations"])
async def test_a_list_of_a_tool_call_is_replaced_whole_by_the_next_one(
    autojump_clock: trio.testing.MockClock, field: str
) -> None:
    """T4: also by an empty one; but a call that is announced late and without lists hides nothing."""

    def item(name: str) -> dict[str, Any]:
        text = {"type": "content", "content": {"type": "text", "text": name}}
        return text if field == "content" else {"path": name}

    seen: list[int] = []
    for lists in ([["/a", "/b"], ["/c"]], [["/a"], ["/b", "/c", "/d"]], [["/a"], []], [["/a", "/b"], None]):
        updates = [
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", field: [item(name) for name in names]}
            if names is not None
            else {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}
            for names in lists
        ]
        turn, _ = await turn_of(*[notice("s1", update) for update in updates])
        seen.append(len(getattr(turn.tool_calls["t"], field)))
    assert seen == [1, 3, 0, 2]


async def test_the_session_forgets_its_oldest_tool_calls_and_the_turn_keeps_its_own(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_snapshots, "MAX_TOOL_CALLS", 3)
    turn, state = await turn_of(
        *[notice("s1", {"sessionUpdate": "tool_call", "toolCallId": str(n), "title": "T"}) for n in range(5)]
    )
    assert list(state.tool_calls) == ["2", "3", "4"]
    assert list(turn.tool_calls) == ["0", "1", "2", "3", "4"]


async def test_plan_usage_and_state_are_the_newest_told(autojump_clock: trio.testing.MockClock) -> None:
    """S7, S8"""
    entry = {"content": "do", "priority": "high", "status": "pending"}
    options = [{"id": "o", "name": "O", "type": "boolean", "currentValue": True}]
    turn, state = await turn_of(
        notice("s1", {"sessionUpdate": "plan", "entries": [entry, entry]}),
        notice("s1", {"sessionUpdate": "plan", "entries": [entry]}),
        notice("s1", {"sessionUpdate": "usage_update", "used": 1, "size": 10}),
        notice("s1", {"sessionUpdate": "usage_update", "used": 2, "size": 10}),
        notice("s1", {"sessionUpdate": "current_mode_update", "currentModeId": "a"}),
        notice("s1", {"sessionUpdate": "current_mode_update", "currentModeId": "b"}),
        notice(
            "s1",
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"name": "n", "description": "d"}],
            },
        ),
        notice("s1", {"sessionUpdate": "config_option_update", "configOptions": options}),
        notice("s1", {"sessionUpdate": "session_info_update", "title": "T", "updatedAt": "now"}),
        notice("s1", {"sessionUpdate": "session_info_update", "title": None}),
        notice("s1", {"sessionUpdate": "session_info_update", "updatedAt": "later"}),
    )
    assert turn.plan is not None
    assert len(turn.plan) == 1
    assert state.plan == turn.plan
    assert turn.usage is not None
    assert turn.usage.used == 2
    assert state.usage is turn.usage
    assert state.modes is not None
    assert state.modes.current_mode_id == "b"
    assert [command.name for command in state.commands] == ["n"]
    assert len(state.config_options) == 1
    assert (state.title, state.updated_at) == (None, "later")


async def test_a_turn_without_plan_and_usage_has_none(autojump_clock: trio.testing.MockClock) -> None:
    turn, _ = await turn_of(chunk("a"))
    assert turn.plan is None
    assert turn.usage is None
    assert turn.tool_calls == {}


async def test_state_is_kept_up_between_turns(autojump_clock: trio.testing.MockClock) -> None:
    """G8, S7: such updates go to session.updates() and into the state."""

    async def script(wire: Wire) -> None:
        await wire.new_session(modes={"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]})
        await wire.update("current_mode_update", currentModeId="b")
        await wire.update("tool_call", toolCallId="t", title="T")
        await wire.update("plan", entries=[])
        await wire.update("usage_update", used=2, size=3)
        await wire.update("future_update")
        await wire.text("between turns")
        await wire.update("agent_thought_chunk", content={"type": "text", "text": "hm"})
        await wire.update("user_message_chunk", content={"type": "text", "text": "hm"})

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        for _ in range(8):
            await anext(session.updates())
        assert session.state.modes is not None
        assert session.state.modes.current_mode_id == "b"
        assert session.state.plan == []
        assert session.state.usage is not None
        assert session.state.tool_calls["t"].title == "T"


def test_a_copy_of_a_tool_call_stands_still() -> None:
    state = SessionState()
    call = state.merge_tool_call(ToolCall("t", "T"))
    copied = call.copy()
    state.merge_tool_call(ToolCall("t", "U"))
    assert (call.title, copied.title) == ("U", "T")

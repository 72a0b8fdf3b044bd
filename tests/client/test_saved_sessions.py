"""Finding, deleting and recovering sessions, and knowing when one is gone (S3, H3, H4)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import (
    AuthRequired,
    ConnectionLost,
    InternalError,
    InvalidParams,
    InvalidResponse,
    MethodNotFound,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    no_such_session,
)
from trio_acp.client import _life


def info(id: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": id, "cwd": "/p", **more}


async def test_a_list_goes_over_all_pages_as_they_are_needed(autojump_clock: trio.testing.MockClock) -> None:
    """S3: cursors are opaque; a page may be empty; no nextCursor is the end."""

    async def script(wire: Wire) -> None:
        page = await wire.expect("session/list")
        assert page["params"] == {"cwd": "/p"}
        await wire.result(page, {"sessions": [info("a", title="A"), info("b"), 5], "nextCursor": "x\u00e9"})
        await trio.sleep(1)
        await wire.quiet()
        asked.set()
        page = await wire.expect("session/list", cwd="/p", cursor="x\u00e9")
        await wire.result(page, {"sessions": [], "nextCursor": ""})
        page = await wire.expect("session/list", cursor="")
        await wire.result(page, {"sessions": [info("c", updatedAt="now")], "nextCursor": None})
        page = await wire.expect("session/list")
        assert page["params"] == {}
        await wire.result(page, {"sessions": []})

    asked = trio.Event()
    async with Scene(script) as (agent, _wire):
        sessions = agent.list_sessions("/p")
        assert aiter(sessions) is sessions
        first = await anext(sessions)
        assert (first.session_id, first.title) == ("a", "A")
        assert (await anext(sessions)).session_id == "b"
        await asked.wait()
        assert [(one.session_id, one.updated_at) async for one in sessions] == [("c", "now")]
        assert [one async for one in agent.list_sessions()] == []


async def test_a_cancelled_list_goes_on_where_it_was(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        page = await wire.expect("session/list")
        await wire.expect("$/cancel_request", requestId=page["id"])
        await wire.error(page, -32800)
        page = await wire.expect("session/list")
        await wire.result(page, {"sessions": [info("a")]})

    async with Scene(script) as (agent, _wire):
        sessions = agent.list_sessions()
        with trio.move_on_after(1):
            await anext(sessions)
        assert [one.session_id async for one in sessions] == ["a"]


async def test_one_task_may_iterate_over_a_list(autojump_clock: trio.testing.MockClock) -> None:
    async def script(wire: Wire) -> None:
        page = await wire.expect("session/list")
        await refused.wait()
        await wire.result(page, {"sessions": [info("a")]})

    refused = trio.Event()
    async with Scene(script) as (agent, _wire):
        sessions = agent.list_sessions()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(anext, sessions)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await anext(sessions)
            refused.set()


async def test_a_list_that_does_not_end_is_an_error(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(wire: Wire) -> None:
        for _ in range(2):
            await wire.result(await wire.expect("session/list"), {"sessions": [info("a")], "nextCursor": "1"})
        for n in range(3):
            await wire.result(await wire.expect("session/list"), {"sessions": [], "nextCursor": str(n)})
        await wire.result(await wire.expect("session/list"), {"sessions": "none"})
        await wire.result(await wire.expect("session/list"), [])
        await wire.error(await wire.expect("session/list"), -32603, "oh")

    monkeypatch.setattr(_life, "MAX_PAGES", 2)
    async with Scene(script) as (agent, _wire):
        for _ in range(2):
            with pytest.raises(InvalidResponse, match="does not end"):
                async for _one in agent.list_sessions():
                    pass
        assert [one async for one in agent.list_sessions()] == []
        with pytest.raises(InvalidResponse, match="session/list"):
            await anext(agent.list_sessions())
        with pytest.raises(InternalError):
            await anext(agent.list_sessions())


async def test_a_deleted_session_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    """S3: unknown ids are no error; a running turn is cancelled."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.result(await wire.expect("session/delete", sessionId="nobody"), {})
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        delete = await wire.expect("session/delete", sessionId="s1")
        await wire.end(prompt, "cancelled")
        await wire.result(delete, None)
        await wire.new_session("s2")
        delete = await wire.expect("session/delete", sessionId="s2")
        await wire.expect("$/cancel_request")
        await wire.result(delete, {})
        await wire.error(await wire.expect("session/delete"), -32603, "no")

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await agent.delete_session("nobody")
        async with session.prompt("x") as turn:
            await agent.delete_session("s1")
        assert turn.stop_reason == "cancelled"
        assert (session.closed, dict(agent.sessions)) == (True, {})
        other = await agent.new_session()
        with trio.move_on_after(1):
            await agent.delete_session("s2")
        await trio.testing.wait_all_tasks_blocked()
        assert other.closed
        with pytest.raises(InternalError):
            await agent.delete_session("s3")


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (ResourceNotFound("whatever"), True),
        (RequestError(-32001, "Not found"), True),
        (RequestError(-32001, "too many sessions"), False),
        (InvalidParams("Session not found: abc"), True),
        (InvalidParams("unknown session abc"), True),
        (InvalidParams("Invalid params", {"sessionId": {"_errors": ["Session abc does not exist"]}}), True),
        (InvalidParams("cwd: expected a string"), False),
        (InvalidParams("sessionId: expected a string"), False),
        (InternalError("Internal error", {"details": "no rollout found for thread id abc"}), True),
        (
            InternalError(
                "Internal error", {"details": "Query closed: No conversation found with session ID: x"}
            ),
            True,
        ),
        (InternalError("Internal error", [{"name": "SessionNotFoundError"}]), True),
        (InternalError("NotFoundError", {"data": {"message": "no such session"}}), True),
        (InternalError("Internal error", {"a": {"b": {"c": {"d": {"e": "no such session"}}}}}), False),
        (InternalError("Internal error"), False),
        (InternalError("the file /p/session.py was not readable"), False),
        (RequestError(404, "could not find session x"), True),
        (AuthRequired("session not found"), False),
        (MethodNotFound("session not found"), False),
        (RequestCancelled("session not found"), False),
        (ConnectionLost("session not found"), False),
    ],
)
def test_no_such_session_is_recognised_under_its_many_codes(error: BaseException, gone: bool) -> None:
    """H3"""
    assert no_such_session(error) is gone


BOTH = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
LOAD = {"loadSession": True}
RESUME: Any = {"sessionCapabilities": {"resume": {}}}
GONE = (-32603, "Internal error", {"details": "Session not found"})
BROKEN = (-32603, "disk full")


@pytest.mark.parametrize(
    ("capabilities", "answers", "how"),
    [
        (BOTH, [("session/resume", None)], "resumed"),
        (BOTH, [("session/resume", GONE), ("session/load", None)], "loaded"),
        # What the agent cannot resume, for whatever reason, it may be able to load.
        (BOTH, [("session/resume", BROKEN), ("session/load", None)], "loaded"),
        (BOTH, [("session/resume", GONE), ("session/load", GONE), ("session/new", None)], "replaced"),
        (LOAD, [("session/load", None)], "loaded"),
        (LOAD, [("session/load", GONE), ("session/new", None)], "replaced"),
        (RESUME, [("session/resume", GONE), ("session/new", None)], "replaced"),
        ({}, [("session/new", None)], "replaced"),
    ],
)
async def test_a_session_is_recovered_in_the_best_way_there_is(
    autojump_clock: trio.testing.MockClock, capabilities: Any, answers: list[Any], how: str
) -> None:
    """H4, H6: it says what it did."""

    async def script(wire: Wire) -> None:
        for method, error in answers:
            request = await wire.expect(method, cwd="/p", mcpServers=[])
            if error is not None:
                await wire.error(request, *error)
            else:
                await wire.result(request, {"sessionId": "new"} if method == "session/new" else None)
        await wire.quiet()

    async with Scene(script, capabilities=capabilities) as (agent, _wire):
        recovered = await agent.recover_session("old", "/p")
        assert recovered.how == how
        assert recovered.session.id == ("new" if how == "replaced" else "old")
        session, told = recovered
        assert (session.id, told) == (recovered.session.id, how)


async def test_an_agent_that_does_not_say_what_is_wrong_is_asked_for_its_list(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """H3: real agents answer -32603 to everything."""
    listed: list[Any] = [
        (-32603, "also broken"),
        {"sessions": [info("other"), info("old")]},
        [],
        {"sessions": [info("other")]},
    ]

    async def script(wire: Wire) -> None:
        for answer in listed:
            await wire.error(await wire.expect("session/load"), *BROKEN)
            request = await wire.expect("session/list")
            await (wire.error(request, *answer) if type(answer) is tuple else wire.result(request, answer))
        await wire.new_session("new")

    capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}}}
    async with Scene(script, capabilities=capabilities) as (agent, _wire):
        for _ in range(3):
            with pytest.raises(InternalError, match="disk full"):
                await agent.recover_session("old")
        assert (await agent.recover_session("old")).how == "replaced"


@pytest.mark.parametrize(
    ("capabilities", "answers"),
    [
        (BOTH, [("session/resume", GONE), ("session/load", BROKEN)]),
        (BOTH, [("session/resume", (-32000, "log in"))]),
        (BOTH, [("session/resume", (-32800, "no"))]),
        (RESUME, [("session/resume", BROKEN)]),
        (LOAD, [("session/load", BROKEN)]),
    ],
)
async def test_a_session_that_may_still_be_there_is_not_replaced(
    autojump_clock: trio.testing.MockClock, capabilities: Any, answers: list[Any]
) -> None:
    """H4"""

    async def script(wire: Wire) -> None:
        for method, error in answers:
            await wire.error(await wire.expect(method), *error)
        await wire.quiet()

    async with Scene(script, capabilities=capabilities) as (agent, _wire):
        with pytest.raises(RequestError) as caught:
            await agent.recover_session("old")
        assert caught.value.code == answers[-1][1][0]
        assert dict(agent.sessions) == {}

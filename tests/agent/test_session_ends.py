"""Sessions: listed, closed, deleted (S3)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected
from tests.agent.sessions import echo
from trio_acp import _errors as errors
from trio_acp.agent import (
    AgentSession,
    MemorySessionStore,
    PromptContext,
)
from trio_acp.schema import (
    ListSessionsResponse,
    SessionInfo,
)

# List (S3) ---------------------------------------------------------------------------------------------


async def test_sessions_are_listed_page_by_page_the_latest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3"""
    monkeypatch.setattr("trio_acp.agent._store.page.__defaults__", (2,))
    app = agent(echo, store=MemorySessionStore(), additional_directories=True)
    async with connected(app) as client:
        sessions = [await client.new_session(f"/{n}", additionalDirectories=["/x"]) for n in range(5)]
        await client.prompt(sessions[0], "\n the first line \nthe second")
        found: list[Any] = []
        cursor: dict[str, Any] = {}
        sizes: list[int] = []
        while True:
            page = await client.call("session/list", **cursor)
            found.extend(page["sessions"])
            sizes.append(len(page["sessions"]))
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sizes == [2, 2, 1]
        assert [info["sessionId"] for info in found] == [sessions[n] for n in (0, 4, 3, 2, 1)]
        assert found[0]["title"] == "the first line"
        assert found[0]["additionalDirectories"] == ["/x"]
        assert "title" not in found[1]
        assert found[0]["updatedAt"].endswith("Z")
        only = await client.call("session/list", cwd="/3")
        assert [info["sessionId"] for info in only["sessions"]] == [sessions[3]]
        for params in ({"cursor": "nonsense"}, {"cursor": "e30="}, {"cursor": "é"}, {"cwd": "here"}):
            with pytest.raises(WireError) as caught:
                await client.call("session/list", **params)
            assert caught.value.code == -32602


@pytest.mark.parametrize(
    "returned", [[SessionInfo("a", "/a")], ListSessionsResponse([SessionInfo("a", "/a")]), None]
)
async def test_a_list_handler_takes_the_place_of_the_store(returned: Any) -> None:
    """S3"""
    app = agent(echo, store=MemorySessionStore())

    @app.on_list_sessions
    async def list_sessions(cwd: str | None, cursor: str | None) -> Any:
        assert (cwd, cursor) == ("/a", "c")
        return returned

    async with connected(app) as client:
        result = await client.call("session/list", cwd="/a", cursor="c")
        assert result == {"sessions": [{"sessionId": "a", "cwd": "/a"}] if returned else []}


# Close and delete (S3) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_ending_a_session_cancels_its_turn_and_then_it_is_gone(method: str) -> None:
    """S3"""
    told: list[Any] = []

    async def prompt(ctx: PromptContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            told.append(ctx.session)

    app = agent(prompt, store=MemorySessionStore())

    @app.on_close_session
    async def close(session: AgentSession[None]) -> None:
        told.append("closed")
        with pytest.raises(errors.LocalProtocolError, match="is closed"):
            await session.set_title("too late")

    @app.on_delete_session
    async def delete(session_id: str) -> None:
        told.append("deleted")

    async with connected(app) as client:
        session = await client.new_session()
        turn = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        end = await client.start(method, sessionId=session)
        assert await client.answer(turn) == {"stopReason": "cancelled"}
        assert await client.answer(end) == {}
        assert told[1:] == (["closed"] if method == "session/close" else ["closed", "deleted"])
        assert told[0].closed
        assert client.methods()[-2:] == [f"={turn}", f"={end}"]
        with pytest.raises(WireError) as caught:
            await client.prompt(session)
        assert caught.value.code == -32002
        listed = (await client.call("session/list"))["sessions"]
        assert [info["sessionId"] for info in listed] == ([session] if method == "session/close" else [])


async def test_deleting_what_is_not_there_is_a_success_and_closing_it_is_not() -> None:
    """S3"""
    async with connected(agent(echo, store=MemorySessionStore())) as client:
        assert await client.call("session/delete", sessionId="nope") == {}
        with pytest.raises(WireError) as caught:
            await client.call("session/close", sessionId="nope")
        assert caught.value.code == -32002
        session = await client.new_session()
        assert await client.call("session/close", sessionId=session) == {}
        assert await client.call("session/delete", sessionId=session) == {}
        assert await client.call("session/list") == {"sessions": []}


async def test_handlers_alone_make_close_and_delete_work() -> None:
    """S3, I5"""
    app = agent(echo)

    @app.on_close_session
    async def close() -> dict[str, Any]:
        return {"_meta": {"a": 1}}

    @app.on_delete_session
    async def delete() -> dict[str, Any]:
        return {"_meta": {"b": 1}}

    async with connected(app) as client:
        session = await client.new_session()
        assert await client.call("session/close", sessionId=session) == {"_meta": {"a": 1}}
        assert await client.call("session/delete", sessionId=session) == {"_meta": {"b": 1}}


async def test_a_session_is_freed_once_whatever_else_becomes_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S3, Q2: closed and then deleted, deleted twice, deleted while freeing fails, and left open."""
    log: list[str] = []
    store = MemorySessionStore()
    app = agent(echo, store=store)

    @app.on_close_session
    async def close(session: AgentSession[None], session_id: str) -> None:
        assert session.id == session_id
        log.append(f"close {names[session_id]}")
        if names[session_id] == "failing":
            raise ValueError("cannot be freed")

    @app.on_delete_session
    async def delete(session_id: str) -> None:
        log.append(f"delete {names.get(session_id, session_id)}")

    async with connected(app) as client:
        names = {await client.new_session(): name for name in ("closed", "deleted", "failing", "left")}
        closed, deleted, failing, _left = names
        await client.prompt(deleted)
        assert await client.call("session/close", sessionId=closed) == {}
        for session in (closed, deleted, deleted, failing, "unknown"):
            assert await client.call("session/delete", sessionId=session) == {}
        listed = (await client.call("session/list"))["sessions"]
        assert [names[info["sessionId"]] for info in listed] == ["left"]
    assert log == [
        "close closed",
        "delete closed",
        "close deleted",
        "delete deleted",
        "delete deleted",
        "close failing",
        "delete failing",
        "delete unknown",
        "close left",
    ]
    assert "cannot be freed" in caplog.text


async def test_sessions_that_are_open_when_the_client_goes_are_closed_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Q2: also when one of the handlers fails."""
    app = agent(echo)
    closed: list[str] = []

    @app.on_close_session
    async def close(session: AgentSession[None], session_id: str) -> None:
        assert session.id == session_id
        closed.append(session.id)
        if len(closed) == 1:
            raise ValueError("cannot close")

    async with connected(app) as client:
        sessions = [await client.new_session() for _ in range(3)]
    assert closed == sessions
    assert "cannot close" in caplog.text


async def test_closing_sessions_of_a_client_that_has_gone_takes_a_bounded_time(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    app = agent(echo)

    @app.on_close_session
    async def close() -> None:
        await trio.sleep_forever()

    async with connected(app) as client:
        await client.new_session()
        await client.new_session()
    assert trio.current_time() < 10
    assert "were not closed in 2 s" in caplog.text


async def test_session_data_is_kept_by_the_store() -> None:
    """S2"""

    async def prompt(session: AgentSession[None]) -> str:
        session.data["count"] = session.data.get("count", 0) + 1
        return str(session.data["count"])

    app = agent(prompt, store=MemorySessionStore())
    async with connected(app) as client:
        session = await client.new_session()
        await client.prompt(session)
        await client.prompt(session)
    async with connected(app) as client:
        await client.call("session/resume", sessionId=session, cwd="/w")
        await client.prompt(session)
        assert client.said() == "3"


# A close that is withdrawn (S3, X4) --------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["at once", "while the turn unwinds"])
@pytest.mark.parametrize("client_goes", [False, True])
@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_a_withdrawn_end_frees_the_session_all_the_same_and_once(
    autojump_clock: trio.testing.MockClock, moment: str, client_goes: bool, method: str
) -> None:
    """Hosts put a time limit around a close; what the session holds must not stay for that."""
    log: list[str] = []

    async def slow_to_end(ctx: PromptContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)
            log.append("turn")

    app = agent(slow_to_end, store=MemorySessionStore())

    @app.on_close_session
    async def free(session: AgentSession[Any]) -> None:
        await trio.lowlevel.checkpoint()
        log.append(session.id)

    async with connected(app) as client:
        session = await client.new_session()
        prompt = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        close = client.request(method, sessionId=session)
        withdrawal = {"method": "$/cancel_request", "params": {"requestId": close["id"]}}
        if moment == "at once":
            await client.send_many(close, withdrawal)
        else:
            await client.send_many(close)
            await trio.sleep(0.1)
            await client.send_many(withdrawal)
        with pytest.raises(WireError) as caught:
            await client.answer(close["id"])
        assert caught.value.code == -32800
        if not client_goes:
            assert await client.answer(prompt) == {"stopReason": "cancelled"}
            await trio.sleep(0.1)
            assert log == ["turn", session]
    assert log == ["turn", session]


async def test_a_withdrawn_close_where_no_turn_runs_frees_the_session_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    freed: list[str] = []
    app = agent(echo)

    @app.on_close_session
    async def free(session: AgentSession[Any]) -> None:
        freed.append(session.id)

    async with connected(app) as client:
        session = await client.new_session()
        close = client.request("session/close", sessionId=session)
        await client.send_many(close, {"method": "$/cancel_request", "params": {"requestId": close["id"]}})
        with pytest.raises(WireError) as caught:
            await client.answer(close["id"])
        assert caught.value.code == -32800
        await trio.testing.wait_all_tasks_blocked()
        assert freed == [session]
    assert freed == [session]

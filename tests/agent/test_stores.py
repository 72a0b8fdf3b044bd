"""Where sessions are kept: in memory, and in files that outlive anything."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected
from trio_acp.agent import (
    FileSessionStore,
    InvalidCursor,
    MemorySessionStore,
    PromptContext,
    SessionDamaged,
    SessionRecord,
    SessionStore,
)
from trio_acp.agent._recording import MAX_PENDING_BYTES, MAX_PENDING_UPDATES


def record(session_id: str, at: str = "2026-01-01T00:00:00Z", cwd: str = "/w", **more: Any) -> SessionRecord:
    return SessionRecord(session_id, cwd, updated_at=at, **more)


def said(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> SessionStore:
    return (
        MemorySessionStore() if request.param == "memory" else FileSessionStore(tmp_path / "s", durable=False)
    )


# Any store ---------------------------------------------------------------------------------------------


async def test_a_session_is_kept_with_all_that_was_said(store: SessionStore) -> None:
    """S2"""
    first = record("a", title="t", mode_id="m", config_values={"x": True}, data={"n": [1]})
    assert isinstance(store, SessionStore)
    assert await store.load("a") is None
    await store.save(first, [said("1")])
    await store.save(first, [])
    first.title = "u"
    await store.save(first, [said("2"), said("\u2028")])
    first.data["n"].append("not saved")
    loaded, updates = await store.load("a") or (None, [])
    assert loaded is not None
    assert loaded.data == {"n": [1]}
    assert (loaded.title, loaded.mode_id, loaded.config_values) == ("u", "m", {"x": True})
    assert updates == [said("1"), said("2"), said("\u2028")]


async def test_the_latest_sessions_are_listed_first_and_pages_do_not_move(store: SessionStore) -> None:
    """S3"""
    assert await store.list_sessions() == ([], None)
    for number in range(120):
        await store.save(record(f"s{number:03}", f"2026-01-01T00:00:{number // 2:02}Z"), [])
    names: list[str] = []
    page, cursor = await store.list_sessions()
    assert cursor is not None
    names += [each.session_id for each in page]
    await store.save(record("s999", "2027-01-01T00:00:00Z"), [])
    await store.delete("s100")
    while cursor is not None:
        page, cursor = await store.list_sessions(None, cursor)
        names += [each.session_id for each in page]
    assert names == [f"s{number:03}" for number in range(119, -1, -1)]
    await store.save(record("here", cwd="/here"), [])
    page, cursor = await store.list_sessions("/here")
    assert ([each.session_id for each in page], cursor) == (["here"], None)


@pytest.mark.parametrize("cursor", ["", "x", "e30=", "W10=", "bnVsbA==", "é", "eyJhdCI6IDEsICJpZCI6ICJ4In0="])
async def test_a_cursor_that_was_not_given_out_is_refused(store: SessionStore, cursor: str) -> None:
    """S3"""
    with pytest.raises(InvalidCursor, match="begin without one"):
        await store.list_sessions(None, cursor)


async def test_a_session_that_was_deleted_is_gone_and_deleting_it_again_is_fine(store: SessionStore) -> None:
    """S3"""
    await store.save(record("a"), [said("x")])
    await store.save(record("b"), [])
    await store.delete("a")
    await store.delete("a")
    assert await store.load("a") is None
    assert [each.session_id for each in (await store.list_sessions())[0]] == ["b"]


HOSTILE_IDS = [
    "../../etc/passwd",
    "/abs",
    "",
    ".",
    "a/b",
    "a\x00b",
    "A",
    "a",
    "x" * 300,
    "con\nfig",
    "ü",
    "\ud800",
]


async def test_any_id_is_kept_apart_and_inside(store: SessionStore) -> None:
    ids = HOSTILE_IDS if isinstance(store, MemorySessionStore) else HOSTILE_IDS[:-1]
    for number, id in enumerate(ids):
        await store.save(record(id, data={"n": number}), [])
    for number, id in enumerate(ids):
        loaded = await store.load(id)
        assert loaded is not None
        assert loaded[0].data == {"n": number}
    if isinstance(store, FileSessionStore):
        assert len(list(store.directory.iterdir())) == len(ids)
        assert store.path("\ud800").parent == store.directory
        assert await store.load("\ud800") is None
        for each in store.directory.iterdir():
            assert each.stat().st_mode & 0o077 == 0


# In memory ---------------------------------------------------------------------------------------------


async def test_the_memory_store_is_bounded_and_the_longest_idle_sessions_go_first() -> None:
    store = MemorySessionStore(max_sessions=3, max_bytes=1000)
    for name in "abcd":
        await store.save(record(name), [said("x" * 100)])
    await store.save(record("b"), [said("y" * 100)])
    await store.save(record("e"), [])
    assert [await store.load(name) is not None for name in "abcde"] == [False, True, False, True, True]
    await store.save(record("e"), [said("z" * 100) for _ in range(20)])
    assert await store.load("b") is None
    loaded = await store.load("e")
    assert loaded is not None
    assert 0 < len(loaded[1]) < 8


@pytest.mark.parametrize("options", [{"max_sessions": 0}, {"max_bytes": 0}])
def test_a_memory_store_without_room_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        MemorySessionStore(**options)


# In files ----------------------------------------------------------------------------------------------


async def test_sessions_outlive_the_program(tmp_path: pathlib.Path) -> None:
    """S2, with one argument"""

    async def echo(ctx: PromptContext) -> str:
        return f"you said {ctx.text}"

    async with connected(agent(echo, store=FileSessionStore(tmp_path))) as client:
        session = await client.new_session()
        await client.prompt(session, "hi")
    async with connected(agent(echo, store=FileSessionStore(tmp_path, durable=False))) as client:
        listed = (await client.call("session/list"))["sessions"]
        assert [(info["sessionId"], info["title"]) for info in listed] == [(session, "hi")]
        await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[])
        assert client.said() == "you said hi"
        await client.prompt(session, "again")
        await client.call("session/delete", sessionId=session)
        assert await client.call("session/list") == {"sessions": []}
    assert os.listdir(tmp_path) == []


async def saved(tmp_path: pathlib.Path) -> tuple[FileSessionStore, pathlib.Path]:
    store = FileSessionStore(tmp_path)
    for number in range(3):
        await store.save(record("a", title=str(number)), [said(str(number))])
    return store, store.path("a")


async def test_an_unfinished_last_line_counts_as_not_written_at_any_length(tmp_path: pathlib.Path) -> None:
    """What a program leaves behind that was killed while it wrote."""
    store, path = await saved(tmp_path)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        loaded = await store.load("a")
        assert loaded is not None
        assert (loaded[0].title, len(loaded[1])) == ("1", 2)
        assert (await store.list_sessions())[0][0].title == "1"
    path.write_bytes(whole[:-5])
    await store.save(record("a", title="after"), [said("after")])
    loaded = await store.load("a")
    assert loaded is not None
    assert [update["content"]["text"] for update in loaded[1]] == ["0", "1", "after"]


async def test_a_long_last_line_is_found_from_the_end(tmp_path: pathlib.Path) -> None:
    store, path = await saved(tmp_path)
    await store.save(record("a", title="long"), [said("x" * 200_000)])
    assert (await store.list_sessions())[0][0].title == "long"
    with path.open("ab") as file:
        file.write(b"y" * 300_000)
    assert (await store.list_sessions())[0][0].title == "long"


DAMAGE: list[tuple[bytes, bytes, str]] = [
    (b'{"format"', b'{"formal"', "no header"),
    (b'{"format"', b"[5]#", "first line is not JSON"),
    (b'"version":1', b'"version":9', "version 9, this program reads 1"),
    (b'"sessionId":"a"', b'"sessionId":"b"', "belongs to session 'b'"),
    (b'{"record"', b"{'record'", "line 2 is not JSON"),
    (b'{"record"', b'{"recorf"', "line 2 is no record"),
    (b'"session_id"', b'"surprise"', "line 2 is no record"),
    (b'"title"', b'"future"', "line 2 has fields of another version"),
    (b'"sessionUpdate"', b'"wessionUpdate"', "line 2 holds something that is no update"),
    (b'"updates"', b'"updatez"', "line 2 is no record"),
    (b'"updates":[', b'"updates":5,"x":[', "line 2 is no record"),
]


@pytest.mark.parametrize(("what", "by", "words"), DAMAGE)
async def test_a_damaged_file_is_refused_and_kept(
    tmp_path: pathlib.Path, what: bytes, by: bytes, words: str
) -> None:
    store, path = await saved(tmp_path)
    await store.save(record("fine"), [])
    damaged = path.read_bytes().replace(what, by, 1)
    path.write_bytes(damaged)
    with pytest.raises(SessionDamaged, match=words) as caught:
        await store.load("a")
    assert caught.value.path == str(path)
    assert "left as it is" in str(caught.value)
    if "line 2" not in words:
        with pytest.raises(SessionDamaged):
            await store.save(record("a"), [said("more")])
    assert path.read_bytes() == damaged or "line 2" in words
    assert "fine" in [each.session_id for each in (await store.list_sessions())[0]]
    await store.delete("a")
    assert not path.exists()


MISFITS: list[tuple[str, Any]] = [
    ("session_id", "b"),
    ("additional_directories", "/x"),
    ("additional_directories", [5]),
    ("title", 5),
    ("created_at", None),
    ("updated_at", 5),
    ("mode_id", []),
    ("config_values", []),
    ("config_values", {"a": 1.5}),
    ("data", None),
]


@pytest.mark.parametrize(("field", "value"), MISFITS)
async def test_a_record_whose_fields_hold_something_else_costs_no_other_session(
    tmp_path: pathlib.Path, field: str, value: Any
) -> None:
    store, path = await saved(tmp_path)
    await store.save(record("fine"), [])
    header, *_, last = path.read_text().splitlines()
    entry = json.loads(last)
    entry["record"][field] = value
    path.write_text(f"{header}\n{json.dumps(entry)}\n")
    assert [each.session_id for each in (await store.list_sessions())[0]] == ["fine"]
    with pytest.raises(SessionDamaged, match=f"line 2 has no valid {field}"):
        await store.load("a")


@pytest.mark.parametrize(("field", "value"), MISFITS[1:])
async def test_a_record_that_could_not_be_read_is_not_written(
    tmp_path: pathlib.Path, field: str, value: Any
) -> None:
    store = FileSessionStore(tmp_path)
    with pytest.raises(TypeError, match=f"cannot be saved with {field}="):
        await store.save(attrs.evolve(record("a"), **{field: value}), [])
    assert await store.load("a") is None


async def test_what_cannot_be_opened_hides_no_other_session(tmp_path: pathlib.Path) -> None:
    store, _ = await saved(tmp_path)
    (tmp_path / "directory.jsonl").mkdir()
    assert [each.session_id for each in (await store.list_sessions())[0]] == ["a"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"format":"trio-acp-session","version":1,"sessionId":"a"}\n']
)
async def test_a_file_that_is_cut_short_is_damaged(tmp_path: pathlib.Path, content: bytes) -> None:
    store, path = await saved(tmp_path)
    path.write_bytes(content)
    (tmp_path / "notes.txt").write_text("not ours")
    with pytest.raises(SessionDamaged):
        await store.load("a")
    assert await store.list_sessions() == ([], None)
    assert path.read_bytes() == content


async def test_a_damaged_last_line_hides_a_session_from_the_list_only(tmp_path: pathlib.Path) -> None:
    store, path = await saved(tmp_path)
    path.write_bytes(path.read_bytes() + b"{}\n")
    assert await store.list_sessions() == ([], None)
    with pytest.raises(SessionDamaged, match="line 5 is no record"):
        await store.load("a")


async def test_a_client_is_told_that_its_session_is_damaged_and_another_one_works(
    tmp_path: pathlib.Path,
) -> None:
    async def nothing() -> None: ...

    store, path = await saved(tmp_path)
    path.write_bytes(b"junk\n")
    async with connected(agent(nothing, store=store)) as client:
        with pytest.raises(WireError) as caught:
            await client.call("session/load", sessionId="a", cwd="/w", mcpServers=[])
        assert caught.value.code == -32603
        assert "damaged" in caught.value.message
        assert str(tmp_path) not in caught.value.message
        await client.prompt(await client.new_session())
    assert path.read_bytes() == b"junk\n"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_conversation_that_is_not_what_it_says_is_damaged_and_never_replayed(method: str) -> None:
    async def nothing() -> None: ...

    store = MemorySessionStore()
    await store.save(record("a"), [said("x"), {"sessionUpdate": "agent_message_chunk"}])
    async with connected(agent(nothing, store=store)) as client:
        with pytest.raises(WireError, match=r"damaged.*content") as caught:
            await client.call(method, sessionId="a", cwd="/w", mcpServers=[])
        assert caught.value.code == -32603
        assert client.updates() == []


async def test_a_file_that_cannot_be_made_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    store = FileSessionStore(tmp_path / "file" / "s")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError):
        await store.save(record("a"), [])
    assert os.listdir(tmp_path) == ["file"]


def test_errors_of_stores_copy_and_pickle() -> None:
    for error in (SessionDamaged("a", "broken", "/x"), SessionDamaged("a", "broken"), InvalidCursor()):
        for clone in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert str(clone) == str(error)
            assert clone.__dict__ == error.__dict__


KILLED = """
    import os, sys, trio
    from trio_acp.agent import FileSessionStore, SessionRecord
    async def main():
        store = FileSessionStore(sys.argv[1])
        number = 0
        while True:
            text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 20000}}
            await store.save(SessionRecord("a", "/w", data={"n": number}), [text, text])
            number += 1
            os.write(1, b".")
    trio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_store_outlives_kill_9_at_any_moment(tmp_path: pathlib.Path) -> None:
    """Killed again and again in the middle of its work, it loses nothing that was saved."""
    store = FileSessionStore(tmp_path)
    before = -1
    for round in range(4):
        code = textwrap.dedent(KILLED)
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(1 + round * 3):
                assert process.stdout.read(1) == b"."
            os.kill(process.pid, signal.SIGKILL)
            rest = process.stdout.read()
        assert process.returncode == -signal.SIGKILL
        saves = 1 + round * 3 + len(rest)
        loaded = trio.run(store.load, "a")
        assert loaded is not None
        assert loaded[0].data["n"] >= saves - 1
        assert len(loaded[1]) > before
        assert len(loaded[1]) % 2 == 0
        before = len(loaded[1])


# The recorder ------------------------------------------------------------------------------------------


class Counting:
    """Counts what is saved; fails or waits on demand."""

    def __init__(self) -> None:
        self.saves: list[list[dict[str, Any]]] = []
        self.fail = False
        self.stall = False

    async def save(self, record: SessionRecord, updates: Any) -> None:
        if self.stall:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        if self.fail:
            raise OSError(28, "No space left on device")
        self.saves.append(list(updates))

    async def load(self, session_id: str) -> Any:
        return None

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> Any:
        return [], None

    async def delete(self, session_id: str) -> None: ...


async def test_a_long_turn_is_saved_as_it_goes_and_its_pieces_grow_together() -> None:
    async def prompt(ctx: PromptContext) -> str:
        for _ in range(10):
            await ctx.send_message("x" * (MAX_PENDING_BYTES // 5))
        for _ in range(3 * MAX_PENDING_UPDATES):
            await ctx.send_plan([])
        return "end"

    counting = Counting()
    async with connected(agent(prompt, store=counting)) as client:
        await client.prompt(await client.new_session())
    new, prompted, *rest, at_the_end, closed = counting.saves
    assert (new, len(prompted), closed) == ([], 1, [])
    # Neither too many updates nor too many bytes ever wait.
    assert len(rest[0]) == 1
    assert len(rest[0][0]["content"]["text"]) == MAX_PENDING_BYTES // 5 * 6
    assert all(len(save) <= MAX_PENDING_UPDATES for save in rest)
    everything = [update for save in [*rest, at_the_end] for update in save]
    assert sum(update["sessionUpdate"] == "plan" for update in everything) == 3 * MAX_PENDING_UPDATES
    texts = [update["content"]["text"] for update in everything if "content" in update]
    assert sum(map(len, texts)) == 10 * (MAX_PENDING_BYTES // 5) + len("end")


async def test_only_plain_pieces_of_one_message_grow_together() -> None:
    async def prompt(ctx: PromptContext) -> None:
        await ctx.send_message("a")
        await ctx.send_message("b")
        await ctx.send_update({**said("c"), "messageId": "m"})
        await ctx.send_update({**said("d"), "messageId": "m"})
        await ctx.send_update({**said("e"), "messageId": "m", "_meta": {}})
        await ctx.send_update(said("f"))
        await ctx.send_update(said("g"))
        await ctx.send_message("h")
        await ctx.send_thought("i")

    counting = Counting()
    async with connected(agent(prompt, store=counting)) as client:
        await client.prompt(await client.new_session())
    texts = [update["content"]["text"] for update in counting.saves[2]]
    assert texts == ["ab", "cd", "e", "f", "g", "h", "i"]


async def test_a_save_that_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def prompt(ctx: PromptContext) -> str:
        counting.fail = ctx.text != "works"
        if ctx.text == "big":
            await ctx.send_message("x" * MAX_PENDING_BYTES)
            await ctx.send_thought("that was much")
        return ctx.text

    counting = Counting()
    async with connected(agent(prompt, store=counting)) as client:
        session = await client.new_session()
        for text in ("fails", "works", "big", "works"):
            assert await client.prompt(session, text) == {"stopReason": "end_turn"}
    texts = [update["content"]["text"] for save in counting.saves for update in save]
    # What is too big to be kept for another try is lost, and that is in the log.
    assert texts == ["fails", "fails", "works", "works", "big", "that was much", "big", "works", "works"]
    assert caplog.text.count("could not be saved") >= 2


async def test_a_store_that_hangs_does_not_hold_the_answer(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def prompt() -> str:
        counting.stall = True
        return "done"

    counting = Counting()
    async with connected(agent(prompt, store=counting)) as client:
        session = await client.new_session()
        begin = trio.current_time()
        assert await client.prompt(session) == {"stopReason": "end_turn"}
        assert trio.current_time() - begin == pytest.approx(5)
    assert "was not saved within 5 s" in caplog.text


async def test_a_session_that_cannot_be_saved_at_its_opening_is_not_opened() -> None:
    async def nothing() -> None: ...

    counting = Counting()
    counting.fail = True
    async with connected(agent(nothing, store=counting)) as client:
        with pytest.raises(WireError) as caught:
            await client.new_session()
        assert caught.value.code == -32603
        assert "No space left" in caught.value.message


async def test_what_a_prompt_holds_besides_text_is_recorded_too(tmp_path: pathlib.Path) -> None:
    async def nothing() -> None: ...

    link = {"type": "resource_link", "name": "a", "uri": "file:///a"}
    store = FileSessionStore(tmp_path)
    async with connected(agent(nothing, store=store)) as client:
        session = await client.new_session()
        await client.call("session/prompt", sessionId=session, prompt=[link])
        await client.call("session/load", sessionId=session, cwd="/w", mcpServers=[])
        assert [update["content"] for update in client.updates()] == [link]
    lines = [json.loads(line) for line in store.path(session).read_text().splitlines()]
    assert lines[-1]["record"]["title"] is None

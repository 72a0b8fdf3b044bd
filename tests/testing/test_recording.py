"""Conversations are recorded without secrets, kept in files, and replayed as either side."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import trio

from trio_acp import AcpOptions, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import EnvVariable, McpServerStdio
from trio_acp.testing import (
    Recorded,
    Recording,
    Replay,
    ReplayMismatch,
    WireRecorder,
    assert_conversation_legal,
    open_memory_pair,
)


def make_app() -> AgentApp:
    app = AgentApp("a", "1")

    @app.on_prompt
    async def prompt(ctx: PromptContext) -> None:
        allowed = await ctx.ask_permission("Delete?")
        await ctx.send_message("deleted" if allowed else "kept")

    return app


async def one_turn(nursery: trio.Nursery, stream: trio.abc.Stream, secret: str = "s3cret") -> str:
    server = McpServerStdio("m", "/bin/m", [], [EnvVariable("KEY", secret)])
    agent = await connect_acp(nursery, stream, AcpOptions(cwd="/"))
    session = await agent.new_session(mcp_servers=[server])
    async with session.prompt("go") as turn:
        await turn.wait()
    await agent.aclose()
    return turn.text


async def record(tmp_path: pathlib.Path, *, redacted: bool = True) -> Recording:
    async with trio.open_nursery() as nursery:
        recorder = WireRecorder(make_app().connect_in_memory(nursery), "client", redacted=redacted)
        assert await one_turn(nursery, recorder) == "deleted"
    path = tmp_path / "talk.jsonl"
    recorder.recording.save(path)
    assert ("s3cret" in path.read_text()) == (not redacted)
    return Recording.load(path)


async def test_a_recording_is_a_legal_transcript_that_keeps_no_secret(tmp_path: pathlib.Path) -> None:
    recording = await record(tmp_path)
    assert_conversation_legal(recording.transcript(), finished=True)
    assert recording.seen_at == "client"
    assert [each.seconds for each in recording.lines] == sorted(each.seconds for each in recording.lines)


@pytest.mark.parametrize("redacted", [True, False])
async def test_a_host_meets_the_recorded_agent(tmp_path: pathlib.Path, redacted: bool) -> None:
    recording = await record(tmp_path, redacted=redacted)
    near, far = open_memory_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Replay(recording, "agent", match="messages" if redacted else "bytes").run, far)
        assert await one_turn(nursery, near) == "deleted"


async def test_an_agent_meets_the_recorded_host_whatever_ids_it_uses(tmp_path: pathlib.Path) -> None:
    recording = await record(tmp_path)
    recording.lines = [
        Recorded(each.sender, each.seconds, each.line.replace(b'"id":1,', b'"id":71,'))
        if b"request_permission" in each.line or b"outcome" in each.line
        else each
        for each in recording.lines
    ]
    async with trio.open_nursery() as nursery:
        stream = make_app().connect_in_memory(nursery)
        await Replay(recording, "client").run(stream)
        await stream.aclose()


async def test_an_id_stands_for_one_thing_only() -> None:
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s"}}'
    near, far = open_memory_pair()
    await far.send_all(update % b"x" + b"\n" + update % b"x" + b"\n" + update % b"y" + b"\n")
    recording = talk(*[("agent", update % b"s1")] * 2, ("client", update % b"s1"), ("agent", update % b"s1"))
    with pytest.raises(ReplayMismatch, match="line 3"):
        await Replay(recording, "client").run(near)
    assert await far.receive_some() == update % b"x" + b"\n"


def talk(*lines: tuple[Any, bytes]) -> Recording:
    return Recording([Recorded(sender, 0, line) for sender, line in lines])


ASKED = talk(
    ("agent", b'{"jsonrpc":"2.0","id":7,"method":"_m","params":["***"]}'),
    ("agent", b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}'),
    ("client", b'{"jsonrpc":"2.0","id":7,"result":null}'),
    ("client", b'{"jsonrpc":"2.0","id":null,"result":null}'),
    ("client", b'{"jsonrpc":"2.0","method":"_n"}'),
    ("client", b"no json"),
    ("agent", b"banner"),
)


async def test_answers_and_cancellations_follow_the_live_ids() -> None:
    near, far = open_memory_pair()
    await far.send_all(b'{"jsonrpc":"2.0","id":"x","method":"_m","params":[1]}\n\n')
    await far.send_all(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x"}}\nbanner\n')
    await Replay(ASKED, "client").run(near)
    assert (await far.receive_some()).splitlines() == [
        b'{"jsonrpc":"2.0","id":"x","result":null}',
        *[each.line for each in ASKED.lines[3:6]],
    ]


@pytest.mark.parametrize(
    "said",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"_m","params":[]}\n',
        b'{"jsonrpc":"2.0","id":7,"method":"_m"}\n',
        b'{"jsonrpc":"2.0","id":7,"method":5,"params":[1]}\n',
        b"junk\n",
        b"[]\n",
        b"",
    ],
)
async def test_another_word_is_a_mismatch(said: bytes) -> None:
    near, far = open_memory_pair()
    await far.send_all(said)
    far.close()
    with pytest.raises(ReplayMismatch):
        await Replay(ASKED, "client").run(near)


async def test_silence_is_not_waited_out(autojump_clock: Any) -> None:
    with pytest.raises(trio.TooSlowError):
        await Replay(ASKED, "client", patience=5).run(open_memory_pair()[0])


async def test_what_is_no_text_is_kept_in_a_file_and_lines_are_recorded_as_they_are(
    tmp_path: pathlib.Path,
) -> None:
    near, far = open_memory_pair()
    recorder = WireRecorder(near, "agent")
    await far.send_all(b"\xff\xfe\nbanner\n\n")
    await recorder.receive_some()
    recorder.recording.save(tmp_path / "r")
    again = Recording.load(tmp_path / "r")
    assert [(each.sender, each.line, each.message) for each in again.lines] == [
        ("client", b"\xff\xfe", None),
        ("client", b"banner", None),
    ]
    (tmp_path / "r").write_text('{"acpRecording": 99}')
    with pytest.raises(ValueError, match="no recording of version 1"):
        Recording.load(tmp_path / "r")

"""Serving: over any stream, over stdio, to many clients; and every way in which that ends."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import HOLD, ScriptedClient, WireError, agent, connected, prompt_params, raw_client
from trio_acp import _errors as errors
from trio_acp.agent import AgentApp, ConnectedClient, PromptContext
from trio_acp.transports import open_memory_pair


async def echo(ctx: PromptContext) -> str:
    return f"you said {ctx.text}"


INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
NEW = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}


# Any stream --------------------------------------------------------------------------------------------


async def test_any_stream_of_trios_carries_a_client() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent(echo).serve, theirs)
        client = ScriptedClient(ours)
        nursery.start_soon(client.read)
        await client.initialize()
        await client.prompt(await client.new_session(), "hi")
        assert client.said() == "you said hi"
        await ours.aclose()


async def test_every_split_of_the_bytes_is_read_alike() -> None:
    """W1"""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent(echo).serve, theirs)
        client = ScriptedClient(ours)
        nursery.start_soon(client.read)
        client._open.update({0: "initialize", 1: "session/new"})
        for byte in b"".join(json.dumps(message).encode() + b"\r\n\n" for message in (INITIALIZE, NEW)):
            await ours.send_all(bytes([byte]))
        assert (await client.answer(0))["protocolVersion"] == 1
        assert (await client.answer(1))["sessionId"]
        await ours.aclose()


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"junk", -32700, None),
        (b"[]", -32600, None),
        (b"5", -32600, None),
        (b'{"id":3}', -32600, 3),
        (b'{"id":1.5,"method":"initialize"}', -32600, None),
        (b'{"id":"x","method":"session/new","params":[]}', -32602, "x"),
        (b'{"id":"x","method":5}', -32600, "x"),
    ],
)
async def test_what_is_no_request_is_answered_so_and_the_connection_goes_on(
    line: bytes, code: int, id: Any
) -> None:
    """W3, W4"""
    async with connected(agent(echo)) as client:
        client._open[id] = ""
        before = len(client.log)
        for _ in range(150):
            await client.send_line(line)
            client._answers.pop(id, None)
            await client.wait_until(lambda: id in client._answers)
        answers = client.log[before:]
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(id, code)] * 150
        del client._open[id]
        await client.prompt(await client.new_session())


@pytest.mark.parametrize("id", ["1", 1, "", 0, -5, None])
async def test_ids_come_back_as_they_were(id: Any) -> None:
    """W3"""
    async with raw_client(agent(echo)) as client:
        client._open[id] = "initialize"
        await client.send(id=id, method="initialize", params={"protocolVersion": 1})
        await client.wait_until(lambda: bool(client.log))
        assert client.log[0]["id"] == id
        assert type(client.log[0]["id"]) is type(id)


async def test_a_message_that_is_too_large_ends_the_connection_with_a_reason() -> None:
    """A3"""
    ours, theirs = open_memory_pair()
    client = ScriptedClient(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.read)
        await client.send_line(b"x" * 2000)
        with pytest.raises(errors.MessageTooLarge, match="1000 bytes"):
            await agent(echo, max_message_bytes=1000).serve(theirs)
    with pytest.raises(trio.BrokenResourceError):
        await ours.send_all(b"x")


async def test_the_wire_can_be_watched_and_a_watcher_that_raises_ends_its_connection() -> None:
    """A12, C12"""
    seen: list[Any] = []

    def watch(direction: str, message: Any) -> None:
        seen.append((direction, message))
        if "stop" in str(message):
            raise KeyError("watcher")

    app = agent(echo, on_wire=watch)
    with pytest.RaisesGroup(KeyError, flatten_subgroups=True):
        async with connected(app) as client:
            server = {"name": "a", "command": "/a", "args": [], "env": [{"name": "T", "value": "s3cret"}]}
            await client.call("session/new", cwd="/w", mcpServers=[server])
            await client.notify("stop")
            await client.ended.wait()
    assert [direction for direction, _ in seen] == ["received", "sent", "received", "sent", "received"]
    assert "s3cret" not in str(seen)


async def test_raw_frames_can_be_watched() -> None:
    seen: list[Any] = []
    app = agent(echo, on_wire=lambda direction, frame: seen.append(frame), redact_wire=False)
    async with connected(app):
        pass
    assert json.loads(seen[0])["method"] == "initialize"


# Many clients ------------------------------------------------------------------------------------------


async def test_many_clients_are_served_and_what_ends_one_leaves_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D6"""
    app = agent(echo, max_message_bytes=10_000)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(app.serve_listeners, listeners)
        clients = []
        for _ in range(3):
            client = ScriptedClient(await trio.testing.open_stream_to_socket_listener(listeners[0]))
            clients.append(client)
            nursery.start_soon(client.read)
            await client.initialize()
        await clients[0].send_line(b"x" * 20_000)
        await clients[0].ended.wait()
        await clients[1].stream.aclose()
        await clients[2].prompt(await clients[2].new_session(), "hi")
        assert clients[2].said() == "you said hi"
        nursery.cancel_scope.cancel()
    for client in clients:
        await client.stream.aclose()
    assert "MessageTooLarge" in caplog.text


# Ends --------------------------------------------------------------------------------------------------


async def test_a_client_that_only_closed_its_end_gets_its_answers() -> None:
    """A file as stdin: everything that was asked for is answered, as far as it goes."""
    go = trio.Event()

    async def prompt() -> None:
        await trio.sleep_forever()

    app = agent(prompt)

    @app.on_ext_request("_slow")
    async def slow() -> str:
        await go.wait()
        return "done"

    @app.on_new_session
    async def new() -> None:
        await trio.lowlevel.checkpoint()

    async with connected(app) as client:
        session = await client.new_session()
        slow_id = await client.start("_slow")
        turn = await client.start_prompt(session)
        last = client.request("session/new", cwd="/w", mcpServers=[])
        await client.send_many(last)
        await client.stream.send_eof()
        assert await client.answer(turn) == {"stopReason": "cancelled"}
        assert (await client.answer(last["id"]))["sessionId"]
        go.set()
        assert await client.answer(slow_id) == "done"
        await client.ended.wait()


async def test_a_request_that_takes_too_long_does_not_keep_the_agent_of_a_client_that_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """C6"""
    app = agent(echo)

    @app.on_ext_request("_slow")
    async def slow() -> None:
        await trio.sleep_forever()

    async with connected(app) as client:
        await client.start("_slow")
        await trio.testing.wait_all_tasks_blocked()
        begin = trio.current_time()
        await client.stream.send_eof()
        await client.ended.wait()
    assert trio.current_time() - begin == pytest.approx(1)


async def test_a_client_that_vanishes_is_a_normal_end(caplog: pytest.LogCaptureFixture) -> None:
    """T11"""

    async def prompt(ctx: PromptContext) -> None:
        while True:
            await ctx.send_message("x" * 1000)

    app = agent(prompt)

    @app.on_ext_request("_ask")
    async def ask(client: ConnectedClient) -> None:
        await client.ext_request("_back", {})

    async with connected(app) as client:
        client.on["_back"] = lambda params: HOLD
        await client.start_prompt(await client.new_session())
        await client.start("_ask")
        await client.wait_for("_back")
        await client.stream.aclose()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_client_that_stops_reading_makes_its_turn_wait_and_nothing_grows() -> None:
    """Backpressure: an agent that talks is slowed down, not buffered."""
    sent = 0

    async def prompt(ctx: PromptContext) -> None:
        nonlocal sent
        for _ in range(10_000):
            await ctx.send_message("x" * 1000)
            sent += 1

    ours, theirs = open_memory_pair(64 * 1024)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent(prompt).serve, theirs)
        client = ScriptedClient(ours)
        reading = trio.CancelScope()
        nursery.start_soon(run_in, reading, client.read)
        await client.initialize()
        session = await client.new_session()
        reading.cancel()
        await trio.testing.wait_all_tasks_blocked()
        id = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        assert 500 < sent < 2500
        await client.cancel(session)
        client._changed, client.ended = trio.Event(), trio.Event()
        nursery.start_soon(client.read)
        assert await client.answer(id) == {"stopReason": "cancelled"}
        await ours.aclose()


async def run_in(scope: trio.CancelScope, function: Callable[[], Any]) -> None:
    with scope:
        await function()


async def test_an_agent_in_a_cancelled_scope_ends_at_once() -> None:
    ours, theirs = open_memory_pair()
    with trio.move_on_after(0):
        await agent(echo).serve(theirs)
    assert await ours.receive_some() == b""


async def test_a_request_during_the_end_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    app = agent(echo)
    app.on_ext_request("_x")(echo_params)

    @app.on_close_session
    async def close() -> None:
        await trio.sleep(1)

    ours, theirs = open_memory_pair()
    client = ScriptedClient(ours)
    async with trio.open_nursery() as nursery:
        serving = trio.CancelScope()
        nursery.start_soon(run_in, serving, lambda: app.serve(theirs))
        nursery.start_soon(client.read)
        await client.initialize()
        session = await client.new_session()
        serving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        for request in (
            client.request("_x"),
            client.request("session/prompt", **prompt_params(session)),
            client.request("session/list"),
        ):
            await client.send_many(request)
            with pytest.raises(WireError) as caught:
                await client.answer(request["id"])
            assert caught.value.code in (-32603, -32601)
        await client.cancel(session)
        await client.ended.wait()


async def echo_params(params: dict[str, Any]) -> Any:
    return params


async def test_a_turn_that_is_cancelled_while_the_agent_ends_is_not_watched(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A handler that shields itself is waited for, whatever the client wants meanwhile."""
    done: list[str] = []

    async def prompt() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(50)
        done.append("prompt")

    async with connected(agent(prompt)) as client:
        session = await client.new_session()
        id = await client.start_prompt(session)
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_eof()
        await client.ended.wait()
        assert not client.answered(id) or (await client.answer(id)) == {"stopReason": "cancelled"}
    assert done == ["prompt"]


async def test_what_a_shielded_handler_still_holds_when_the_client_is_gone_is_let_go_in_silence(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """F4, W11: nothing can be released or told any more, and nothing hangs on that."""
    done: list[str] = []

    async def prompt(ctx: PromptContext) -> None:
        with trio.CancelScope(shield=True):
            async with ctx.tool_call("a"), ctx.terminal("x"):
                await trio.sleep(50)
            done.append("let go")

    async with connected(agent(prompt, cancel_grace=100)) as client:
        client.on["terminal/create"] = lambda params: {"terminalId": "t1"}
        await client.start_prompt(await client.new_session())
        await client.wait_for("terminal/create")
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.aclose()
    assert done == ["let go"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_failure_and_an_interrupt_at_once_stay_a_group() -> None:
    class One(BaseException): ...

    class Two(BaseException): ...

    go = trio.Event()

    async def prompt(text: str) -> None:
        await go.wait()
        raise One if text == "one" else Two

    ours, theirs = open_memory_pair()
    client = ScriptedClient(ours)

    async def drive() -> None:
        await client.initialize()
        for text in ("one", "two"):
            await client.start_prompt(await client.new_session(), text)
        await trio.testing.wait_all_tasks_blocked()
        go.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.read)
        nursery.start_soon(drive)
        with pytest.RaisesGroup(One, Two, flatten_subgroups=True):
            await agent(prompt).serve(theirs)
        await ours.aclose()


async def test_one_failure_is_raised_as_itself_with_its_cause() -> None:
    class Stop(BaseException): ...

    cause = ValueError("why")

    async def prompt() -> None:
        raise Stop from cause

    ours, theirs = open_memory_pair()
    client = ScriptedClient(ours)

    async def drive() -> None:
        await client.initialize()
        await client.start_prompt(await client.new_session())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.read)
        nursery.start_soon(drive)
        with pytest.raises(Stop) as caught:
            await agent(prompt).serve(theirs)
        assert caught.value.__cause__ is cause
        await ours.aclose()


# Own stdio ---------------------------------------------------------------------------------------------

STDIO = """
    import os, subprocess, sys, trio
    from trio_acp.agent import AgentApp, PromptContext
    app = AgentApp("stdio", "1")
    @app.on_prompt
    async def prompt(ctx: PromptContext) -> str:
        print("a print")
        os.write(1, b"a stray write\\n")
        subprocess.run([sys.executable, "-c", "print('a child'); import sys; print(repr(sys.stdin.read()))"])
        return "done"
    trio.run(app.serve_stdio)
    print("back to normal")
"""


def test_stdout_carries_the_protocol_alone_and_the_end_of_stdin_is_a_good_end() -> None:
    """W2, S1, A7"""
    code = textwrap.dedent(STDIO)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(**message: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            while "id" not in (answer := json.loads(process.stdout.readline())):
                pass
            return answer["result"]

        ask(**INITIALIZE)
        session = ask(**NEW)["sessionId"]
        assert ask(id=2, method="session/prompt", params=prompt_params(session)) == {"stopReason": "end_turn"}
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == "back to normal\n"
    for text in ("a print", "a stray write", "a child", "''"):
        assert text in err


def test_a_file_as_stdin_is_answered_to_its_end() -> None:
    """W2"""
    lines = "".join(json.dumps(message) + "\n" for message in (INITIALIZE, NEW))
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STDIO)],
        input=lines,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert result.returncode == 0
    answers = [json.loads(line) for line in result.stdout.splitlines()[:2]]
    assert [answer["id"] for answer in answers] == [0, 1]


def test_an_app_can_be_made_before_any_trio_run() -> None:
    app: AgentApp = agent(echo)

    async def main() -> None:
        async with connected(app) as client:
            await client.prompt(await client.new_session())

    trio.run(main)
    trio.run(main)

"""What the host does for the agent: files, terminals, elicitation, extensions (I5, F, E, N1)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, RequestError, SessionScope
from trio_acp.schema import (
    CreateElicitationFormRequest,
    CreateElicitationUrlRequest,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationAcceptAction,
    ElicitationDeclineAction,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
)

FORM = {
    "sessionId": "s1",
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
URL = {"sessionId": "s1", "mode": "url", "message": "Go", "url": "https://example.org", "elicitationId": "e"}

REQUESTS: dict[str, dict[str, Any]] = {
    "fs/read_text_file": {"sessionId": "s1", "path": "/a", "line": 2, "limit": 3},
    "fs/write_text_file": {"sessionId": "s1", "path": "/a", "content": "text"},
    "terminal/create": {"sessionId": "s1", "command": "ls", "args": ["-l"]},
    "terminal/output": {"sessionId": "s1", "terminalId": "t"},
    "terminal/wait_for_exit": {"sessionId": "s1", "terminalId": "t"},
    "terminal/kill": {"sessionId": "s1", "terminalId": "t"},
    "terminal/release": {"sessionId": "s1", "terminalId": "t"},
}


class Terminals:
    """Answers by type; the last two as most people would write them."""

    async def create(self, request: CreateTerminalRequest, session: SessionScope) -> CreateTerminalResponse:
        assert (request.command, request.args) == ("ls", ["-l"])
        return CreateTerminalResponse("t")

    async def output(self, request: TerminalOutputRequest, session: SessionScope) -> TerminalOutputResponse:
        return TerminalOutputResponse("out", False)

    async def wait_for_exit(
        self, request: WaitForTerminalExitRequest, session: SessionScope
    ) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(exit_code=3)

    async def kill(self, request: KillTerminalRequest, session: SessionScope) -> KillTerminalResponse | None:
        return None

    async def release(
        self, request: ReleaseTerminalRequest, session: SessionScope
    ) -> ReleaseTerminalResponse | None:
        return ReleaseTerminalResponse(meta={"m": 1})


async def read(request: ReadTextFileRequest) -> str:
    return f"{request.path} {request.line} {request.limit}"


async def write(request: WriteTextFileRequest) -> int:
    return len(request.content)


ALL = AcpOptions(read_text_file=read, write_text_file=write, terminals=Terminals())

RESULTS: dict[str, Any] = {
    "fs/read_text_file": {"content": "/a 2 3"},
    "fs/write_text_file": {},
    "terminal/create": {"terminalId": "t"},
    "terminal/output": {"output": "out", "truncated": False},
    "terminal/wait_for_exit": {"exitCode": 3},
    "terminal/kill": {},
    "terminal/release": {"_meta": {"m": 1}},
}


@pytest.mark.parametrize("in_turn", [False, True])
async def test_each_method_is_served_with_types_in_and_out_of_a_turn(
    autojump_clock: trio.testing.MockClock, in_turn: bool
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt() if in_turn else None
        for method, params in REQUESTS.items():
            assert await wire.answer(await wire.ask(method, params)) == RESULTS[method]
        if prompt is not None:
            await wire.end(prompt)

    async with Scene(script, ALL) as (agent, _wire):
        session = await agent.new_session()
        if in_turn:
            async with session.prompt("x"):
                pass
        else:
            await trio.sleep(1)


@pytest.mark.parametrize(
    "method", [*REQUESTS, "elicitation/create", "_x/unknown", "session/unknown", "initialize"]
)
async def test_what_is_not_offered_is_refused_as_unknown(
    autojump_clock: trio.testing.MockClock, method: str
) -> None:
    """-32601 always, never silence (O3)."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.refusal(await wire.ask(method, REQUESTS.get(method, {}))) == -32601

    async with Scene(script) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(1)


async def answer(request: Any) -> Any:
    return ElicitationDeclineAction()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"read_text_file": read}, {"fs": {"readTextFile": True}}),
        ({"write_text_file": write}, {"fs": {"writeTextFile": True}}),
        ({"terminals": Terminals()}, {"terminal": True}),
        ({"elicit_form": answer}, {"elicitation": {"form": {}}}),
        ({"elicit_url": answer}, {"elicitation": {"url": {}}}),
        ({"elicit_form": answer, "elicit_url": answer}, {"elicitation": {"form": {}, "url": {}}}),
        ({"extensions": {"_x": answer}}, {}),
    ],
)
async def test_exactly_what_is_given_is_advertised(
    autojump_clock: trio.testing.MockClock, options: Any, expected: Any
) -> None:
    """I5"""
    async with Scene(Wire.quiet, AcpOptions(**options)) as (_agent, wire):
        pass
    params = wire.referee.sent[0]["params"]
    assert params["protocolVersion"] == 1
    assert params["clientInfo"]["name"] == "trio_acp"
    capabilities = dict(params["clientCapabilities"])
    assert capabilities.pop("session") == {"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}}
    assert capabilities == expected


async def test_a_file_may_be_answered_as_a_typed_result(autojump_clock: trio.testing.MockClock) -> None:
    async def typed(request: ReadTextFileRequest) -> ReadTextFileResponse:
        return ReadTextFileResponse("text", meta={"m": 1})

    async def script(wire: Wire) -> None:
        id = await wire.ask("fs/read_text_file", REQUESTS["fs/read_text_file"])
        assert await wire.answer(id) == {"content": "text", "_meta": {"m": 1}}

    async with Scene(script, AcpOptions(read_text_file=typed)):
        await trio.sleep(1)


FAILURES: list[tuple[Exception, int, str, bool]] = [
    (RequestError(-32002, "gone", {"uri": "x"}), -32002, "gone", False),
    (RequestError(77, "odd"), 77, "odd", False),
    (FileNotFoundError(2, "No such file", "/secret/path"), -32002, "no such file", True),
    (PermissionError(13, "Permission denied", "/secret/path"), -32603, "Permission denied", True),
    (ValueError("a secret"), -32603, "internal error", True),
    (ExceptionGroup("g", [RequestError(-32002, "gone")]), -32002, "gone", False),
    (ExceptionGroup("g", [ValueError("a secret"), KeyError("secret")]), -32603, "internal error", True),
]


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(("error", "code", "words", "logged"), FAILURES)
async def test_an_exception_is_answered_by_its_meaning_logged_and_not_raised(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    in_turn: bool,
    error: Exception,
    code: int,
    words: str,
    logged: bool,
) -> None:
    """W4: no path, traceback or secret reaches the agent."""

    async def broken(request: Any) -> Any:
        raise error

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt() if in_turn else None
        id = await wire.ask("fs/read_text_file", REQUESTS["fs/read_text_file"])
        message = await wire.receive()
        assert message is not None
        assert message["id"] == id
        assert message["error"]["code"] == code
        assert words in message["error"]["message"]
        assert "secret" not in str(message)
        if prompt is not None:
            await wire.end(prompt)

    async with Scene(script, AcpOptions(read_text_file=broken)) as (agent, _wire):
        session = await agent.new_session()
        if in_turn:
            async with session.prompt("x") as turn:
                pass
            assert turn.stop_reason == "end_turn"
            assert not turn.cancel_requested
        else:
            await trio.sleep(1)
    assert ("fs/read_text_file" in caplog.text) == logged


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("fs/read_text_file", None),
        ("fs/read_text_file", b"bytes"),
        ("terminal/create", None),
        ("terminal/create", "t"),
        ("terminal/output", ("out", False)),
        ("terminal/wait_for_exit", 0),
        ("elicitation/create", None),
        ("_x/ask", object()),
    ],
)
async def test_a_result_that_is_none_is_the_hosts_failure_and_no_answer_of_a_wrong_shape(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, method: str, result: Any
) -> None:
    async def wrong(request: Any, session: object = None) -> Any:
        return result

    class Wrong:
        create = output = wait_for_exit = kill = release = staticmethod(wrong)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.refusal(await wire.ask(method, REQUESTS.get(method, FORM))) == -32603

    options = AcpOptions(
        read_text_file=wrong,
        terminals=Wrong(),
        elicit_form=wrong,
        extensions={"_x/ask": wrong},
    )
    async with Scene(script, options) as (agent, _wire):
        await agent.new_session()
        await trio.sleep(1)
    assert caplog.text


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("fs/read_text_file", {"sessionId": "s1"}, "path"),
        ("fs/read_text_file", {"sessionId": "s1", "path": 5}, "path"),
        ("fs/write_text_file", {"sessionId": "s1", "path": "/a"}, "content"),
        ("terminal/create", {"sessionId": "s1", "command": ["ls"]}, "command"),
        ("elicitation/create", {"sessionId": "s1", "mode": "form", "message": 5}, "message"),
    ],
)
async def test_parameters_that_do_not_fit_are_refused_by_name(
    autojump_clock: trio.testing.MockClock, method: str, params: Any, field: str
) -> None:
    """W4: -32602."""

    async def script(wire: Wire) -> None:
        id = await wire.ask(method, params)
        message = await wire.receive()
        assert message is not None
        assert (message["id"], message["error"]["code"]) == (id, -32602)
        assert field in message["error"]["message"]

    options = AcpOptions(
        read_text_file=read, write_text_file=write, terminals=Terminals(), elicit_form=answer
    )
    async with Scene(script, options):
        await trio.sleep(1)


@pytest.mark.parametrize("end", ["scope", "answer", "withdrawn", "leaving", "button"])
async def test_handlers_of_a_turn_end_with_it(autojump_clock: trio.testing.MockClock, end: str) -> None:
    """-32800; by the stop button alone they go on until the answer: the agent may need them to stop."""
    ended: list[float] = []

    async def slow(request: Any) -> str:
        try:
            await trio.sleep(2 if end == "button" else 1000)
            return "done"
        finally:
            ended.append(trio.current_time())

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask("fs/read_text_file", REQUESTS["fs/read_text_file"])
        await trio.sleep(0.5)
        if end in ("scope", "button"):
            await wire.expect("session/cancel")
        elif end == "withdrawn":
            await wire.withdraw(id)
        else:
            await wire.end(prompt)
        if end == "button":
            assert await wire.answer(id) == {"content": "done"}
        else:
            assert await wire.refusal(id) == -32800
        if end not in ("answer", "leaving"):
            await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(read_text_file=slow)) as (agent, _wire):
        session = await agent.new_session()
        began = trio.current_time()
        async with session.prompt("x") as turn:
            if end == "leaving":
                pass
            elif end == "scope":
                await trio.sleep(1)
                turn.cancel_scope.cancel()
                await trio.sleep_forever()
            else:
                await trio.sleep(1)
                if end == "button":
                    turn.cancel()
                await turn.wait()
                await trio.testing.wait_all_tasks_blocked()
                assert ended
        assert ended[0] - began <= 2


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_is_no_exception_leaves_the_turns_block_as_itself(
    autojump_clock: trio.testing.MockClock, error: BaseException
) -> None:
    async def quits(request: Any) -> str:
        raise error

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask("fs/read_text_file", REQUESTS["fs/read_text_file"])
        assert await wire.refusal(id) == -32800
        await wire.expect("session/cancel")
        await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(read_text_file=quits)) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(type(error)) as caught:
            async with session.prompt("x"):
                await trio.sleep_forever()
        assert caught.value is error


async def test_what_breaks_beside_a_cancellation_leaves_it_to_trio(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(request: Any) -> str:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    raise SystemExit(4)

            await trio.sleep_forever()
        raise AssertionError

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        id = await wire.ask("fs/read_text_file", REQUESTS["fs/read_text_file"])
        await wire.expect("session/cancel")
        assert await wire.refusal(id) == -32800
        await wire.end(prompt, "cancelled")

    async with Scene(script, AcpOptions(read_text_file=breaks)) as (agent, _wire):
        session = await agent.new_session()
        with pytest.raises(BaseExceptionGroup) as caught, trio.move_on_after(1):
            async with session.prompt("x"):
                await trio.sleep_forever()
        assert caught.group_contains(SystemExit)
        assert not caught.group_contains(trio.Cancelled)


async def test_elicitation_goes_to_the_handler_of_its_mode(autojump_clock: trio.testing.MockClock) -> None:
    """E1, E2, N2"""
    seen: list[Any] = []

    async def form(request: CreateElicitationFormRequest) -> ElicitationAcceptAction:
        seen.append(request.message)
        return ElicitationAcceptAction({"name": "me"})

    async def url(request: CreateElicitationUrlRequest) -> ElicitationDeclineAction:
        seen.append(request.url)
        return ElicitationDeclineAction()

    async def script(wire: Wire) -> None:
        assert await wire.answer(await wire.ask("elicitation/create", FORM)) == {
            "action": "accept",
            "content": {"name": "me"},
        }
        assert await wire.answer(await wire.ask("elicitation/create", URL)) == {"action": "decline"}
        odd = {**FORM, "mode": "hypnosis"}
        assert await wire.refusal(await wire.ask("elicitation/create", odd)) == -32602

    async with Scene(script, AcpOptions(elicit_form=form, elicit_url=url)):
        await trio.sleep(1)
    assert seen == ["Who?", "https://example.org"]


@pytest.mark.parametrize(("offered", "asked"), [("elicit_form", URL), ("elicit_url", FORM)])
async def test_a_mode_of_elicitation_that_is_not_offered_is_invalid(
    autojump_clock: trio.testing.MockClock, offered: str, asked: Any
) -> None:
    """E1, J9"""

    async def script(wire: Wire) -> None:
        assert await wire.refusal(await wire.ask("elicitation/create", asked)) == -32602

    options: dict[str, Any] = {offered: answer}
    async with Scene(script, AcpOptions(**options)):
        await trio.sleep(1)


async def test_extensions_take_requests_and_notifications_by_name(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """N1: notifications in wire order, one after the other; what fails is logged."""
    seen: list[Any] = []

    async def take(params: dict[str, Any]) -> Any:
        await trio.sleep(1)
        seen.append(params["n"])
        if params["n"] == 1:
            raise ValueError("mine")
        return {"n": params["n"] + 1}

    async def script(wire: Wire) -> None:
        notices = [{"jsonrpc": "2.0", "method": "_x", "params": {"n": n}} for n in range(4)]
        await wire.burst(*notices, {"jsonrpc": "2.0", "method": "_unknown", "params": {}})
        await trio.sleep(10)
        assert await wire.answer(await wire.ask("_x", {"n": 9})) == {"n": 10}

    with caplog.at_level(logging.DEBUG):
        async with Scene(script, AcpOptions(extensions={"_x": take})):
            await trio.sleep(20)
    assert seen == [0, 1, 2, 3, 9]
    assert "mine" in caplog.text
    assert "_unknown" in caplog.text


async def test_extension_notifications_are_bounded(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stuck(params: dict[str, Any]) -> Any:
        await trio.sleep_forever()

    async def script(wire: Wire) -> None:
        await wire.burst(*[{"jsonrpc": "2.0", "method": "_x", "params": {}}] * 4200)

    async with Scene(script, AcpOptions(extensions={"_x": stuck})):
        await trio.sleep(1)
    assert "too slow" in caplog.text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"extensions": {"session/prompt": answer}}, ValueError),
        ({"args": "--acp"}, TypeError),
        ({"permission_timeout": 0}, ValueError),
        ({"cancel_grace": -1}, ValueError),
        ({"idle_timeout": float("nan")}, ValueError),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options: Any, error: Any) -> None:
    with pytest.raises(error):
        AcpOptions(**options)


def test_options_do_not_show_the_values_of_variables() -> None:
    """C12"""
    assert "secret" not in repr(AcpOptions(env={"KEY": "secret"}))
    assert "KEY" in repr(AcpOptions(env={"KEY": "secret"}))

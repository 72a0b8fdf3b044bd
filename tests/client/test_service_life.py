"""Services that know the session that asks, and that have tasks of their own (F1 to F3, S5, I5)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, SessionScope
from trio_acp.schema import ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest

READ = {"sessionId": "s1", "path": "/w/a"}
WRITE = {**READ, "content": "new"}


class Files:
    """A file service that notes what it is asked."""

    def __init__(self, *, writable: bool = True) -> None:
        self.writable = writable
        self.calls: list[tuple[str, str, SessionScope]] = []

    async def read(self, request: ReadTextFileRequest, session: SessionScope) -> str | ReadTextFileResponse:
        self.calls.append(("read", request.path, session))
        return ReadTextFileResponse("typed") if request.line else "plain"

    async def write(self, request: WriteTextFileRequest, session: SessionScope) -> object:
        self.calls.append(("write", request.content, session))
        return "not looked at"


class Living(Files):
    """One that has a life, too."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: list[str] = []
        self.connections: list[Hashable] = []
        self.ended: list[SessionScope] = []
        self.end_fails = False

    async def run(self, connection: Hashable) -> None:
        self.connections.append(connection)
        self.lives.append("begun")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            self.lives.append("ended")

    async def end_session(self, session: SessionScope) -> None:
        self.ended.append(session)
        if self.end_fails:
            raise OSError("too bad")

    create: Any = None
    output: Any = None
    wait_for_exit: Any = None
    kill: Any = None
    release: Any = None


async def test_a_file_service_is_told_the_session_that_asks(autojump_clock: trio.testing.MockClock) -> None:
    """S5: its id, its directories, and which connection it is on."""

    async def script(wire: Wire) -> None:
        await wire.new_session()
        await wire.new_session("s2")
        assert await wire.answer(await wire.ask("fs/read_text_file", READ)) == {"content": "plain"}
        assert await wire.answer(await wire.ask("fs/read_text_file", {**READ, "line": 1})) == {
            "content": "typed"
        }
        assert await wire.answer(await wire.ask("fs/write_text_file", {**WRITE, "sessionId": "s2"})) == {}

    files = Files()
    async with Scene(script, AcpOptions(files=files)) as (agent, _wire):
        await agent.new_session("/w", additional_directories=["/x", "/y"])
        await agent.new_session("/v")
    (_, _, first), (_, _, same), (_, content, second) = files.calls
    assert content == "new"
    assert (first.id, first.cwd, first.roots) == ("s1", "/w", ("/w", "/x", "/y"))
    assert (second.id, second.cwd, second.roots) == ("s2", "/v", ("/v",))
    assert first == same
    assert first.key != second.key
    assert first.connection == second.connection is not None


@pytest.mark.parametrize("writable", [True, False])
async def test_a_file_service_that_only_reads_is_advertised_and_served_so(
    autojump_clock: trio.testing.MockClock, writable: bool
) -> None:
    """I5."""
    options = AcpOptions(files=Files(writable=writable))
    fs = options.client_capabilities().fs
    assert (fs.read_text_file, fs.write_text_file) == (True, writable)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        id = await wire.ask("fs/write_text_file", WRITE)
        assert (await wire.answer(id) == {}) if writable else (await wire.refusal(id) == -32601)

    async with Scene(script, options) as (agent, _wire):
        await agent.new_session("/w")


async def test_a_session_that_is_not_open_gets_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def closing(wire: Wire) -> None:
        # The close and the cancellation come in the order in which they were sent.
        assert await wire.refusal(await wire.ask("fs/read_text_file", READ)) == -32002
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        close = await wire.expect("session/close")
        await wire.result(close, {})
        assert await wire.refusal(await wire.ask("fs/read_text_file", READ)) == -32002
        await wire.end(prompt, "cancelled")

    files = Files()
    async with Scene(closing, AcpOptions(files=files)) as (agent, _wire):
        await trio.sleep(1)
        session = await agent.new_session("/w")
        async with session.prompt("x"):
            await session.close()
    assert files.calls == []


def test_files_and_simple_handlers_are_not_given_together() -> None:
    async def handler(request: Any) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="not both"):
        AcpOptions(files=Files(), read_text_file=handler)
    with pytest.raises(ValueError, match="not both"):
        AcpOptions(files=Files(), write_text_file=handler)


async def test_a_service_lives_as_long_as_its_connection(autojump_clock: trio.testing.MockClock) -> None:
    """One object that serves files and terminals has one life for each connection, whose end is awaited."""
    service = Living()
    options = AcpOptions(files=service, terminals=service)

    async def script(wire: Wire) -> None:
        await wire.new_session()

    for number in (1, 2):
        async with Scene(script, options) as (agent, _wire):
            await agent.new_session("/w")
            assert service.lives.count("begun") == number
        assert service.lives.count("ended") == number
    assert len(set(service.connections)) == 2


async def test_a_service_is_told_of_a_session_that_was_closed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    service = Living()

    async def script(wire: Wire) -> None:
        for id in ("s1", "s2"):
            await wire.new_session(id)
        for _ in range(2):
            await wire.result(await wire.expect("session/close"), {})

    async with Scene(script, AcpOptions(files=service)) as (agent, _wire):
        first, second = await agent.new_session("/w"), await agent.new_session("/v")
        await first.close()
        await trio.testing.wait_all_tasks_blocked()
        assert [(scope.id, scope.cwd) for scope in service.ended] == [("s1", "/w")]
        assert service.ended[0].connection == service.connections[0]
        assert caplog.records == []
        service.end_fails = True
        await second.close()
        await trio.testing.wait_all_tasks_blocked()
        assert "failed to end session 's2'" in caplog.text
        assert agent.closed_reason is None


@pytest.mark.parametrize("moment", ["at once", "later", "while it ends"])
async def test_what_a_service_raises_in_its_life_ends_the_connection_as_itself(
    autojump_clock: trio.testing.MockClock, moment: str
) -> None:
    class Broken(Living):
        async def run(self, connection: Hashable) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.fail)
                await trio.sleep_forever()

        async def fail(self) -> None:
            try:
                if moment == "while it ends":
                    await trio.sleep_forever()
                elif moment == "later":
                    await trio.sleep(1)
            finally:
                raise KeyError("broken")

    async def script(wire: Wire) -> None:
        await wire.new_session()

    with pytest.raises(ExceptionGroup) as caught:  # the nursery is the scene's
        async with Scene(script, AcpOptions(files=Broken()), peaceful=False) as (agent, _wire):
            await agent.new_session("/w")
            if moment != "while it ends":
                await trio.sleep_forever()
    leaves: list[BaseException] = [caught.value]
    while isinstance(leaves[0], BaseExceptionGroup):
        leaves = [*leaves[0].exceptions, *leaves[1:]]
    assert [type(leaf) for leaf in leaves] == [KeyError]


async def test_a_service_may_have_nothing_left_to_do(autojump_clock: trio.testing.MockClock) -> None:
    class Brief(Living):
        async def run(self, connection: Hashable) -> None:
            self.lives.append("over")

    service = Brief()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        assert await wire.answer(await wire.ask("fs/read_text_file", READ)) == {"content": "plain"}

    async with Scene(script, AcpOptions(files=service)) as (agent, _wire):
        await agent.new_session("/w")
    assert service.lives == ["over"]


async def test_a_service_whose_connection_ends_is_not_told_of_its_sessions_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    service = Living()

    async def script(wire: Wire) -> None:
        await wire.new_session()

    async with Scene(script, AcpOptions(files=service)) as (agent, wire):
        session = await agent.new_session("/w")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.drain)
            await agent.aclose()
        session.discard()
    assert service.ended == []
    assert service.lives == ["begun", "ended"]


async def test_a_session_is_given_up_once_however_often_that_is_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S3: also where the agent uses the id again, for a session that the old object must not touch."""
    service = Living()

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        await wire.expect("session/cancel")
        await wire.result(await wire.expect("session/close"), {})
        await wire.end(prompt, "cancelled")
        await wire.new_session()
        await wire.end(await wire.prompt())
        await wire.quiet()

    async with Scene(script, AcpOptions(files=service)) as (agent, _wire):
        session = await agent.new_session("/w")
        async with session.prompt("x") as turn:
            session.discard()
            session.discard()
            await turn.wait()
        again = await agent.new_session("/w")
        session.discard()
        async with again.prompt("y"):
            pass
        await trio.testing.wait_all_tasks_blocked()
        assert not again.closed
    assert [scope.id for scope in service.ended] == ["s1"]

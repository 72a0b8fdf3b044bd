"""Introductions over any stream: `connect_acp` has the same errors, in a nursery of the caller's (I1, I2)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_acp import open_memory_pair
from trio_acp._errors import (
    AgentStartError,
    ConnectionClosed,
    ConnectionLost,
    UnsupportedProtocolVersion,
)
from trio_acp.client import AcpOptions, connect_acp


class FarEnd:
    """The agent at the other end, byte by byte."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._read = b""

    async def receive(self) -> Any:
        """The next message; None at the end of the input."""
        while b"\n" not in self._read:
            chunk = await self.stream.receive_some()
            if not chunk:
                return None
            self._read += chunk
        line, self._read = self._read.split(b"\n", 1)
        return json.loads(line)

    async def send(self, **message: Any) -> None:
        await self.stream.send_all(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def introduce(self) -> None:
        request = await self.receive()
        await self.send(id=request["id"], result={"protocolVersion": 1})


Play = Callable[[FarEnd], Awaitable[object]]


async def start_error(play: Play, **options: Any) -> AgentStartError:
    """Connect and fail; check that nothing is left, and return the error."""
    near, far = open_memory_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(play, FarEnd(far))
        with trio.fail_after(1000), pytest.raises(AgentStartError) as caught:
            await connect_acp(nursery, near, AcpOptions(**options))
        with pytest.raises(trio.ClosedResourceError):  # the stream was closed
            await near.send_all(b"x")
        nursery.cancel_scope.cancel()
    assert (caught.value.phase, caught.value.command, caught.value.returncode) == ("initialize", (), None)
    return caught.value


async def test_the_stream_may_be_a_socket() -> None:
    ours, theirs = trio.socket.socketpair()
    far = FarEnd(trio.SocketStream(theirs))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(far.introduce)
            agent = await connect_acp(nursery, trio.SocketStream(ours))
            assert agent.protocol_version == 1
            assert agent.info is None
            await agent.aclose()
        assert await far.receive() is None
        with pytest.raises(ConnectionClosed):
            await agent.new_session()
        await far.stream.aclose()


async def test_a_silent_far_end_is_given_up_in_time(autojump_clock: trio.testing.MockClock) -> None:
    async def play(far: FarEnd) -> None:
        await trio.sleep_forever()

    start = trio.current_time()
    error = await start_error(play, startup_timeout=90)
    assert 90 <= trio.current_time() - start < 91
    assert error.reason == "timeout"
    assert "the agent did not answer initialize within 90 s; is it" in str(error)


async def test_a_timeout_that_is_only_just_kept_is_kept(autojump_clock: trio.testing.MockClock) -> None:
    near, far = open_memory_pair()

    async def play(far: FarEnd) -> None:
        request = await far.receive()
        await trio.sleep(89)
        await far.send(id=request["id"], result={"protocolVersion": 1})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play, FarEnd(far))
        agent = await connect_acp(nursery, near, AcpOptions(startup_timeout=90))
        await agent.aclose()


async def test_a_far_end_that_closes_is_reported() -> None:
    error = await start_error(lambda far: far.stream.aclose())
    assert error.reason == "exited"
    assert "the agent closed the connection before it answered initialize" in str(error)
    assert isinstance(error.__cause__, ConnectionLost)


async def test_a_far_end_that_only_sends_text_and_closes_is_no_agent() -> None:
    async def play(far: FarEnd) -> None:
        await far.stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await far.stream.aclose()

    error = await start_error(play)
    assert error.reason == "not-acp"
    assert "'HTTP/1.1 400 Bad Request\\r'" in str(error)


async def test_a_far_end_that_sent_messages_and_then_closes_was_an_agent() -> None:
    """Its text in between is not what it died of."""

    async def play(far: FarEnd) -> None:
        await far.send(method="_hello")
        await far.stream.send_all(b"some text\n")
        await far.stream.aclose()

    error = await start_error(play)
    assert error.reason == "exited"
    assert "some text" not in str(error)


async def test_a_far_end_that_refuses_is_quoted() -> None:
    async def play(far: FarEnd) -> None:
        request = await far.receive()
        await far.send(id=request["id"], error={"code": -32000, "message": "log in first"})

    error = await start_error(play)
    assert error.reason == "refused"
    assert "log in first" in str(error)


async def test_a_far_end_of_another_version_is_refused() -> None:
    near, far = open_memory_pair()

    async def play(far: FarEnd) -> None:
        request = await far.receive()
        assert request["params"]["protocolVersion"] == 1
        await far.send(id=request["id"], result={"protocolVersion": 0})
        assert await far.receive() is None

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play, FarEnd(far))
            with pytest.raises(UnsupportedProtocolVersion):
                await connect_acp(nursery, near)


class Mine(Exception):
    """What a hook of these tests raises."""


@pytest.mark.parametrize("direction", ["sent", "received"])
async def test_what_a_hook_raises_during_the_introduction_leaves_the_nursery_alone(direction: str) -> None:
    """In a group of one, as a nursery does it, and without the error that the hook's failure has caused."""
    near, far = open_memory_pair()

    def fail(where: str, message: Any) -> None:
        if where == direction:
            raise Mine

    async def play(far: FarEnd) -> None:
        with trio.move_on_after(0.01):
            await far.receive()
        await far.stream.send_all(b'{"jsonrpc": "2.0", "method": "_hello"}\n')
        await trio.sleep_forever()

    with trio.fail_after(30), pytest.RaisesGroup(Mine):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play, FarEnd(far))
            await connect_acp(nursery, near, AcpOptions(on_wire=fail))


async def test_a_hook_that_fails_for_a_caller_outside_of_the_nursery_is_a_closed_connection_there() -> None:
    near, _ = open_memory_pair()
    errors: list[ConnectionClosed] = []
    ready = trio.Event()
    nurseries: list[trio.Nursery] = []

    def fail(where: str, message: Any) -> None:
        raise Mine

    async def owner() -> None:
        with pytest.RaisesGroup(Mine):
            async with trio.open_nursery() as nursery:
                nurseries.append(nursery)
                ready.set()
                await trio.sleep_forever()

    with trio.fail_after(30):
        async with trio.open_nursery() as outer:
            outer.start_soon(owner)
            await ready.wait()
            try:
                await connect_acp(nurseries[0], near, AcpOptions(on_wire=fail))
            except ConnectionClosed as error:
                errors.append(error)
    assert len(errors) == 1


async def test_a_connection_that_is_cancelled_while_it_is_made_closes_the_stream() -> None:
    near, far = open_memory_pair()
    end = FarEnd(far)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                scope.cancel()
                await connect_acp(nursery, near)
            assert scope.cancelled_caught
            assert await end.receive() is None  # nothing was said


async def test_the_cancellation_of_the_nursery_closes_the_connection() -> None:
    near, far = open_memory_pair()
    end = FarEnd(far)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end.introduce)
            agent = await connect_acp(nursery, near)
            nursery.cancel_scope.cancel()
        assert await end.receive() is None
        assert agent.closed
        await agent.aclose()


async def test_aclose_in_a_cancelled_scope_closes_all_the_same_and_tells_of_the_cancellation() -> None:
    near, far = open_memory_pair()
    end = FarEnd(far)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end.introduce)
            agent = await connect_acp(nursery, near)
            with trio.CancelScope() as scope:
                scope.cancel()
                await agent.aclose()
            assert scope.cancelled_caught
            assert await end.receive() is None


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_stream_that_cannot_be_closed_properly_holds_up_nobody(
    autojump_clock: trio.testing.MockClock, hangs: bool
) -> None:
    """Closing is bounded, and what the far end did is no failure of the close."""
    near, far = open_memory_pair()
    end = FarEnd(far)

    class Stubborn(trio.abc.Stream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await near.send_all(data)

        async def wait_send_all_might_not_block(self) -> None:
            await near.wait_send_all_might_not_block()

        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            return await near.receive_some(max_bytes)

        async def aclose(self) -> None:
            try:
                if hangs:
                    await trio.sleep_forever()
                raise trio.BrokenResourceError("the far end did not say goodbye")
            finally:
                await trio.aclose_forcefully(near)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end.introduce)
        agent = await connect_acp(nursery, Stubborn())
        start = trio.current_time()
        await agent.aclose()
        assert trio.current_time() - start <= 1
    assert await end.receive() is None

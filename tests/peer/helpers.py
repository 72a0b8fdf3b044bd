"""A peer under test with a recording dispatcher, and the raw far end of its wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any

import trio
import trio.testing

from trio_acp._core import JunkLine
from trio_acp._errors import AcpError, ConnectionLost
from trio_acp._peer import IncomingRequest, Peer
from trio_acp.transports import MEMORY_PIPE_BYTES, MemoryStream, open_memory_pair

__all__ = [
    "PlainStream",
    "Recorder",
    "Rig",
    "answer",
]


class Recorder:
    """A dispatcher that keeps what it is given; tests hook in where they want something done."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, dict[str, Any], int]] = []
        self.requests: list[IncomingRequest] = []
        self.junk_lines: list[JunkLine] = []
        self.failures: list[BaseException] = []
        self.reasons: list[AcpError] = []
        self.on_notification: Callable[[str], None] | None = None
        self.on_request: Callable[[IncomingRequest], None] | None = None
        self.reason: AcpError = ConnectionLost("the far end has gone; open a new one")
        self.reason_known = trio.Event()
        self.reason_known.set()
        self.reading = trio.Event()
        self.reading.set()

    def notification(self, method: str, params: dict[str, Any], size: int) -> None:
        self.notifications.append((method, params, size))
        if self.on_notification is not None:
            self.on_notification(method)

    def request(self, request: IncomingRequest) -> None:
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)

    def junk(self, event: JunkLine) -> None:
        self.junk_lines.append(event)

    def callback_failed(self, error: BaseException) -> None:
        self.failures.append(error)

    def disconnected(self, reason: AcpError) -> None:
        self.reasons.append(reason)

    async def input_ends(self) -> None:
        self.input_has_ended = True

    async def loss(self) -> AcpError:
        await self.reason_known.wait()
        return self.reason

    def pauses(self) -> bool:
        return not self.reading.is_set()

    async def may_read(self) -> None:
        await self.reading.wait()


class PlainStream(trio.abc.HalfCloseableStream):
    """A stream with nothing but what Trio asks for, which counts its writes and can be broken."""

    def __init__(self, inner: MemoryStream) -> None:
        self.inner = inner
        self.writes: list[int] = []
        self.broken = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.broken:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError("broken on purpose")
        self.writes.append(len(data))
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self.inner.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self.inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Rig:
    """A running peer, and the far end of its wire in the hands of the test.

    Args:
        limit: bytes that the wire holds on its way to the far end.
        plain: give the peer a stream that cannot be written to without waiting.
        reading: read the far end from the start.
        options: go to `Peer`.
    """

    def __init__(
        self, *, limit: int = MEMORY_PIPE_BYTES, plain: bool = False, reading: bool = True, **options: Any
    ) -> None:
        near, self.far = open_memory_pair(limit)
        self.far._out.limit = MEMORY_PIPE_BYTES
        self.near: MemoryStream | PlainStream = PlainStream(near) if plain else near
        self.recorder = Recorder()
        self.peer = Peer(self.near, self.recorder, **options)
        self.wire: list[Any] = []
        """The messages that have arrived at the far end."""
        self.unfinished = b""
        """What arrived there of a line that has not ended."""
        self._manager = trio.open_nursery()
        self._reading = reading

    async def __aenter__(self) -> Rig:
        self.nursery = await self._manager.__aenter__()
        await self.nursery.start(self.peer.run)
        if self._reading:
            self.read_on()
        await self.settled()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.peer.stop()
        self.nursery.cancel_scope.cancel()
        return await self._manager.__aexit__(kind, error, trace)

    @property
    def plain(self) -> PlainStream:
        assert isinstance(self.near, PlainStream)
        return self.near

    def read_on(self) -> None:
        """Read the far end from now on."""
        self.nursery.start_soon(self._read)

    async def _read(self) -> None:
        try:
            while data := await self.far.receive_some():
                *lines, self.unfinished = (self.unfinished + data).split(b"\n")
                self.wire += [json.loads(line) for line in lines]
        except trio.ClosedResourceError:
            pass  # the test closed it

    def send(self, *messages: Any) -> None:
        """Put messages on the wire from the far end, all at once; bytes as they are."""
        data = b"".join(
            message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            for message in messages
        )
        assert self.far.send_nowait(data) == len(data)

    async def settled(self) -> None:
        """Wait until everybody waits for something."""
        await trio.testing.wait_all_tasks_blocked()

    def ask(self, method: str = "m", params: Any = None, **options: Any) -> Asking:
        """Have a task wait for the answer to a request."""
        asking = Asking(self.peer, method, params, options)
        self.nursery.start_soon(asking.run)
        return asking


class Asking:
    """A task that waits for an answer, and what came of it."""

    def __init__(self, peer: Peer, method: str, params: Any, options: dict[str, Any]) -> None:
        self._peer = peer
        self._method = method
        self._params = params
        self._options = options
        self.scope = trio.CancelScope()
        self.result: Any = None
        self.error: BaseException | None = None
        self.cancelled = False
        self.done = trio.Event()

    async def run(self) -> None:
        try:
            with self.scope:
                self.result = await self._peer.request(self._method, self._params, **self._options)
        except Exception as error:
            self.error = error
        self.cancelled = self.scope.cancelled_caught
        self.done.set()


def answer(id: int, result: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}

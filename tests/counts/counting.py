"""Counting what the library does for a given piece of work: task switches, tasks, reads, writes, objects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, final

import attrs
import trio

from trio_acp.transports import open_memory_pair

__all__ = ["Counters", "CountingStream", "Wire", "counted", "text_update"]


@final
class Counters(trio.abc.Instrument):
    """Counts while it is installed; see `counted`.

    Attributes:
        steps_of: how often each task was given the processor: the scheduler's work. By the last part of the
            task's name.
        steps: the same for all of them.
        tasks: tasks that were started.
    """

    def __init__(self) -> None:
        self.steps_of: Counter[str] = Counter()
        self.tasks = 0

    @property
    def steps(self) -> int:
        return self.steps_of.total()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps_of[task.name.rpartition(".")[2]] += 1

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.tasks += 1


@contextmanager
def counted() -> Generator[Counters]:
    """Count what all tasks of this Trio run do in the block."""
    counters = Counters()
    trio.lowlevel.add_instrument(counters)
    try:
        yield counters
    finally:
        trio.lowlevel.remove_instrument(counters)


@attrs.define
class Calls:
    """How often a stream was used: the system calls of a pipe."""

    reads: int = 0
    writes: int = 0


@final
class CountingStream(trio.abc.Stream):
    """A stream around another one that counts its reads and writes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.calls = Calls()

    def send_nowait(self, data: bytes | memoryview) -> int:
        self.calls.writes += 1
        sent: int = self._stream.send_nowait(data)
        return sent

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.writes += 1
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        self.calls.reads += 1
        data: bytes = await self._stream.receive_some(max_bytes)
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()


class Wire:
    """The far end of a connection, written and read by hand; its buffers hold whatever a test writes."""

    def __init__(self) -> None:
        near, self._far = open_memory_pair(limit=2**24)
        self.near = CountingStream(near)

    def send(self, *messages: dict[str, Any]) -> None:
        """Write messages all at once."""
        data = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)
        assert self._far.send_nowait(data) == len(data)

    async def receive(self) -> list[dict[str, Any]]:
        """Read what there is, at least one message."""
        data = b""
        while not data.endswith(b"\n"):
            data += await self._far.receive_some()
        return [json.loads(line) for line in data.splitlines()]


def text_update(session_id: str, text: str, **more: Any) -> dict[str, Any]:
    """A notification with a piece of the agent's message."""
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, **more}
    return {"method": "session/update", "params": {"sessionId": session_id, "update": update}}

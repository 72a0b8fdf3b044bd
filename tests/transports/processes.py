"""Agent processes under supervision, for the tests."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import trio

from trio_acp.transports import AgentProcess

GRACE = 0.1
"""Real seconds that a process which ignores us is given: it could have an hour, it would not end."""

LONG = 20.0
"""Real seconds that no test may come near: what is tested ends by itself, or fails."""

POLITE = "for line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"

STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
report("agent")
sleep_for_ever()
"""


class Running:
    """`async with` a process that is supervised."""

    def __init__(self, command: list[str], shutdown_grace: float = GRACE, **options: Any) -> None:
        self.process = AgentProcess(command[0], command[1:], shutdown_grace=shutdown_grace, **options)

    async def __aenter__(self) -> AgentProcess:
        self._manager = trio.open_nursery()
        nursery = await self._manager.__aenter__()
        await nursery.start(self.process.run)
        return self.process

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.process.aclose_gracefully()
        await self._manager.__aexit__(kind, error, trace)


async def read_all(process: AgentProcess) -> bytes:
    data = b""
    while chunk := await process.stream.receive_some():
        data += chunk
    return data


async def read_until(process: AgentProcess, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        chunk = await process.stream.receive_some()
        assert chunk, data
        data += chunk
    return data

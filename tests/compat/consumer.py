"""An application that type-checks with trio-typing's stubs installed: it is checked, not run."""

from __future__ import annotations

import trio

from trio_acp import AgentStartError
from trio_acp.transports import AgentProcess, open_stdio


async def supervise(process: AgentProcess) -> int | None:
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(process.run)
            await process.stream.send_all(b"\n")
        except AgentStartError as error:
            print(error.reason)
        finally:
            await process.aclose_gracefully()
    return process.returncode


async def serve() -> None:
    async with open_stdio() as stream:
        await stream.send_all(await stream.receive_some())

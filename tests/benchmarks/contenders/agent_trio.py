"""What no agent under Trio can be much faster than: its loop, a task for a prompt, a write for a message."""

from __future__ import annotations

import os

import trio

from tests.benchmarks.contenders.agent_limit import serve


async def main() -> None:
    stdin = trio.lowlevel.FdStream(os.dup(0))

    async def work(line: bytes) -> None:
        serve(line)

    async with trio.open_nursery() as nursery:
        async for data in stdin:
            for line in data.splitlines():
                nursery.start_soon(work, bytes(line))


if __name__ == "__main__":
    trio.run(main)

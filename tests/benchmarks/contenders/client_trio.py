"""What Trio itself takes for permission requests: a loop that reads, and a task with a time limit for each.

Decided by a plain function, a request is answered in the loop.
"""

from __future__ import annotations

import os
import time
from typing import Any

import orjson
import trio

from tests.benchmarks.contenders.client_limit import Pipe, connect, permit, prompts
from tests.benchmarks.probe import job, peak_bytes, report


async def answer(pipe: Pipe, message: dict[str, Any]) -> None:
    with trio.move_on_after(30):  # noqa: ASYNC100 - what it costs is the question
        permit(pipe, message)


async def permissions(pipe: Pipe, order: dict[str, Any]) -> None:
    """Answer every request."""
    pipe.send(*prompts(order, 1))
    partial = b""
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(pipe.read_fd)
            data = os.read(pipe.read_fd, 65536)
            if not data:
                raise EOFError("the agent has gone")
            *lines, partial = (partial + data).split(b"\n")
            for line in lines:
                message = orjson.loads(line)
                if "method" not in message:
                    return
                if order.get("plain"):
                    permit(pipe, message)
                else:
                    nursery.start_soon(answer, pipe, message)


async def main() -> None:
    pipe = connect(1)
    os.set_blocking(pipe.read_fd, False)
    await permissions(pipe, job["warm"])
    before, peak = time.process_time(), peak_bytes()
    await permissions(pipe, job["order"])
    report(time.process_time() - before, job["expected"], peak, {})
    pipe.process.kill()
    pipe.process.communicate()


if __name__ == "__main__":
    trio.run(main)

"""This library as the client."""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import trio

from tests.benchmarks.probe import job, peak_bytes, report, writer_command
from tests.benchmarks.workloads import digest
from trio_acp import AcpOptions, PermissionRequest, Selected, Session, open_acp
from trio_acp.schema import unstructure_update


async def permit(request: PermissionRequest) -> Selected:
    return Selected(request.options[0].option_id)


def permit_at_once(request: PermissionRequest) -> Selected:
    return Selected(request.options[0].option_id)


async def take(session: Session, order: dict[str, Any], kept: dict[str, list[Any]] | None) -> int:
    """Run one turn; return how many updates were delivered before its end."""
    count = 0
    async with session.prompt(json.dumps(order)) as turn:
        async for update in turn:
            count += 1
            if kept is not None:
                kept.setdefault(session.id, []).append(unstructure_update(update))
    assert turn.stop_reason == "end_turn", turn.stop_reason
    return count


async def run(
    sessions: list[Session], order: dict[str, Any], kept: dict[str, list[Any]] | None = None
) -> int:
    """Run an order in all sessions at once."""
    if len(sessions) == 1:
        return await take(sessions[0], order, kept)
    counts: list[int] = []

    async def one(session: Session) -> None:
        counts.append(await take(session, order, kept))

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(one, session)
    return sum(counts)


async def main() -> None:
    command, *args = writer_command()
    handler = permit_at_once if job["order"].get("plain") else permit
    options = AcpOptions(command=command, args=args, on_permission=handler, max_buffered_bytes=2**30)
    async with open_acp(options) as agent:
        sessions = [await agent.new_session("/") for _ in range(job.get("sessions", 1))]
        await run(sessions, job["warm"])
        kept: dict[str, list[Any]] = {}
        await run(sessions, job["check"], kept)
        gc.collect()  # what starting up has left is not a part of the work
        before, peak = time.process_time(), peak_bytes()
        delivered = await run(sessions, job["order"])
        cpu = time.process_time() - before
        report(cpu, delivered, peak, {name: digest(updates) for name, updates in kept.items()})


if __name__ == "__main__":
    trio.run(main)
    sys.exit(0)

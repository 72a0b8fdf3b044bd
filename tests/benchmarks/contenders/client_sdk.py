"""The official Python SDK as the client."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

import acp
from acp import schema

from tests.benchmarks.probe import job, peak_bytes, report, writer_command
from tests.benchmarks.workloads import digest


class Client:
    """Counts what it is given."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: dict[str, list[Any]] | None = None

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        self.count += 1
        if self.kept is not None:
            wire = update.model_dump(mode="json", by_alias=True, exclude_none=True)
            self.kept.setdefault(session_id, []).append(wire)

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **rest: Any
    ) -> schema.RequestPermissionResponse:
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)


async def main() -> None:
    client = Client()
    as_client: Any = client
    command, *args = writer_command()
    limits = {"limit": 128 * 1024 * 1024}  # the default does not let the large update through
    async with acp.spawn_agent_process(lambda _: as_client, command, *args, transport_kwargs=limits) as (
        agent,
        _,
    ):
        await agent.initialize(protocol_version=1)
        sessions = [
            (await agent.new_session(cwd="/", mcp_servers=[])).session_id
            for _ in range(job.get("sessions", 1))
        ]

        async def run(order: dict[str, Any], expected: int) -> int:
            """Run an order in all sessions; return how many updates were delivered before its end."""
            client.count = 0
            prompt: list[Any] = [acp.text_block(json.dumps(order))]
            answers = await asyncio.gather(
                *[agent.prompt(session_id=name, prompt=prompt) for name in sessions]
            )
            assert all(answer.stop_reason == "end_turn" for answer in answers)
            delivered: int = client.count
            while client.count < expected:  # noqa: ASYNC110 - an event for each update would cost time
                await asyncio.sleep(0)
            return delivered

        await run(job["warm"], 0)
        await asyncio.sleep(0.1)
        client.kept = {}
        await run(job["check"], job["expected_check"])
        kept, client.kept = client.kept, None
        gc.collect()  # what starting up has left is not a part of the work
        before, peak = time.process_time(), peak_bytes()
        delivered = await run(job["order"], job["expected"])
        cpu = time.process_time() - before
        report(cpu, delivered, peak, {name: digest(updates) for name, updates in kept.items()})


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(0)

"""The official Python SDK as the agent: a turn is ten pieces of a message."""

from __future__ import annotations

import asyncio
from typing import Any

import acp


class Agent:
    """Answers every prompt with the same."""

    client: Any

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **rest: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **rest: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="session-0")

    async def prompt(self, prompt: Any, session_id: str, **rest: Any) -> acp.PromptResponse:
        for number in range(10):
            block = acp.text_block(f"{number:08d} ".ljust(60, "x"))
            await self.client.session_update(session_id, acp.update_agent_message(block))
        return acp.PromptResponse(stop_reason="end_turn")


async def run() -> None:
    agent: Any = Agent()
    await acp.run_agent(agent)


if __name__ == "__main__":
    asyncio.run(run())

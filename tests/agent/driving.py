"""Run one handler in one turn against a client that answers as told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.agent.scripted import ScriptedClient, agent, connected
from trio_acp.agent import PromptContext
from trio_acp.schema import (
    PermissionOption,
)


async def run(
    handler: Callable[[PromptContext], Awaitable[Any]],
    script: Callable[[ScriptedClient], Any] = lambda client: None,
    capabilities: dict[str, Any] | None = None,
) -> tuple[Any, ScriptedClient]:
    """Run a handler in one turn with a client set up by ``script``; return its result, and the client."""
    results: list[Any] = []

    async def prompt(ctx: PromptContext) -> None:
        results.append(await handler(ctx))

    async with connected(agent(prompt), capabilities) as client:
        script(client)
        assert await client.prompt(await client.new_session()) == {"stopReason": "end_turn"}
    return results[0], client


def replier(reply: Any) -> Callable[[dict[str, Any]], Any]:
    if isinstance(reply, list):
        left = iter(reply)
        return lambda params: next(left)
    return reply if callable(reply) else lambda params: reply


def answering(**replies: Any) -> Callable[[ScriptedClient], None]:
    """Set up a client that gives one reply, or replies in turn, to each method."""
    replies = {name.replace("__", "/"): reply for name, reply in replies.items()}

    def script(client: ScriptedClient) -> None:
        for method, reply in replies.items():
            client.on[method] = replier(reply)

    return script


def statuses(client: ScriptedClient) -> list[str]:
    return [
        update["status"] for update in client.updates("tool_call", "tool_call_update") if "status" in update
    ]


def select(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


CANCELLED = {"outcome": {"outcome": "cancelled"}}

OWN = [
    PermissionOption("yes", "Yes", "allow_once"),
    PermissionOption("yolo", "Yolo", "_allow_for_today"),
    PermissionOption("no", "No", "reject_always"),
]

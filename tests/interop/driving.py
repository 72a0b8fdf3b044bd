"""What clients built with the official SDKs are told to do with an agent, and what they report.

A plan goes to a client's stdin as one JSON object, its report comes out of its stdout as another. Each step
has its answer, or its error, and what the client has seen meanwhile: updates, and what was asked of it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import sys
from typing import Any

import attrs
import pytest
import trio

HERE = pathlib.Path(__file__).parent
NODE = HERE / "node"
ROOT = HERE.parents[1]
LIMIT = 55
"""Seconds for one run of a client: starting Node and Python on a busy machine included."""


@attrs.frozen
class Step:
    """What became of one step.

    Attributes:
        result: the answer; None if it was an error.
        code: the code of the error; None if there was none.
        message: that of the error.
        updates: the updates that came meanwhile, as JSON.
        requests: what the agent asked of the client meanwhile: the name and the parameters of each.
        sessions: the session of each update.
    """

    result: Any
    code: int | None
    message: str
    updates: list[dict[str, Any]]
    requests: list[tuple[str, dict[str, Any]]]
    sessions: list[str]

    @property
    def text(self) -> str:
        """The messages of the agent, together."""
        return self.joined("agent_message_chunk")

    def joined(self, kind: str) -> str:
        """The text of all chunks of one kind."""
        return "".join(update["content"]["text"] for update in self.of_kind(kind))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def asked(self) -> list[str]:
        """The names of what the agent asked for."""
        return [name for name, _ in self.requests]

    @property
    def statuses(self) -> list[str]:
        """The statuses of its tool calls, in order."""
        return [
            update["status"]
            for update in self.updates
            if update["sessionUpdate"] in {"tool_call", "tool_call_update"} and update.get("status")
        ]

    @classmethod
    def read(cls, told: dict[str, Any]) -> Step:
        """Make one of what a client reports."""
        error = told.get("error", {})
        return cls(
            told.get("result"),
            error.get("code"),
            error.get("message", ""),
            [seen["update"] for seen in told["seen"] if "update" in seen],
            [(seen["request"], seen["params"]) for seen in told["seen"] if "request" in seen],
            [seen["session"] for seen in told["seen"] if "session" in seen],
        )


@attrs.frozen
class SdkClient:
    """A client built with an official SDK.

    Attributes:
        command: starts it.
    """

    command: tuple[str, ...]

    async def drive(
        self,
        *steps: dict[str, Any],
        offers: tuple[str, ...] = (),
        permission: str = "allow_once",
        form: dict[str, Any] | None = None,
        files: dict[str, str] | None = None,
        store: pathlib.Path | None = None,
        pace: float = 0,
        program: str | None = None,
    ) -> tuple[dict[str, Any], list[Step]]:
        """Have it go through some steps with the demo agent, close its stdin, and wait for the agent's end.

        Args:
            steps: what it does.
            offers: what it tells to offer.
            permission: the kind of option that it selects; ``hold`` to cancel the turn when asked first.
            form: what it fills into forms; None to decline.
            files: the files of its editor, by their names.
            store: the directory of the agent's store.
            pace: the agent's.
            program: an agent in a file of this directory, instead of the demo agent.

        Returns:
            The agent's answer to ``initialize``, and what became of each step.
        """
        agent = [sys.executable, "-m", "trio_acp.demo", "--pace", str(pace)]
        if program is not None:
            agent = [sys.executable, str(HERE / program)]
        if store is not None:
            agent += ["--store", str(store)]
        plan = {
            "agent": agent,
            "env": {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            "steps": steps,
            "offers": offers,
            "permission": permission,
            "form": form,
            "files": files or {},
        }
        with trio.fail_after(LIMIT):
            ended = await trio.run_process(
                list(self.command), stdin=json.dumps(plan).encode(), capture_stdout=True
            )
        report = json.loads(ended.stdout)
        assert report["status"] == 0, "the agent exits by itself when its stdin ends"
        return report["hello"], [Step.read(told) for told in report["steps"]]


def python_client() -> SdkClient:
    """The client of the official Python SDK; skips where that is not installed."""
    if importlib.util.find_spec("acp") is None:
        pytest.skip("the official Python SDK (agent-client-protocol) is not installed")
    return SdkClient((sys.executable, str(HERE / "python_sdk_client.py")))


def typescript_client() -> SdkClient:
    """The client of the official TypeScript SDK; skips where that or Node is not installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    if not (NODE / "node_modules" / "@agentclientprotocol" / "sdk").is_dir():
        pytest.skip("the official TypeScript SDK is not installed: npm install --prefix tests/interop/node")
    return SdkClient((node, str(NODE / "client.mjs")))


CLIENTS = {"python": python_client, "typescript": typescript_client}

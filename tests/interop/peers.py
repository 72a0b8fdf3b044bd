"""The agents that nobody here wrote the protocol part of, and the words that all of them understand.

`talk` sends a thought and a message, `plan` a plan twice, `tool` a tool call for which it asks, `slow` works
until it is cancelled, `files` and `terminal` use those of the client, `huge` and `many` send much,
`form` and `url` ask the user, `extension` and `unoffered` call extension methods, `fail` answers with an
error, `crash` raises.
"""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import sys
from typing import Any

import attrs
import pytest

from trio_acp.client import AcpOptions

HERE = pathlib.Path(__file__).parent
NODE = HERE / "node"


@attrs.frozen
class Peer:
    """One agent.

    Attributes:
        name: what it calls itself.
        command: starts it.
    """

    name: str
    command: tuple[str, ...]

    def options(self, **options: Any) -> AcpOptions:
        """Return options that start it."""
        command, *args = self.command
        return AcpOptions(command=command, args=args, **options)


def python_peer() -> Peer:
    """The agent of the official Python SDK; skips where that is not installed."""
    if importlib.util.find_spec("acp") is None:
        pytest.skip("the official Python SDK (agent-client-protocol) is not installed")
    return Peer("python-peer", (sys.executable, str(HERE / "python_sdk_agent.py")))


def typescript_peer() -> Peer:
    """The agent of the official TypeScript SDK; skips where that or Node is not installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    if not (NODE / "node_modules" / "@agentclientprotocol" / "sdk").is_dir():
        pytest.skip("the official TypeScript SDK is not installed: npm install --prefix tests/interop/node")
    return Peer("typescript-peer", (node, str(NODE / "agent.mjs")))


PEERS = {"python": python_peer, "typescript": typescript_peer}

"""Fixtures of trio_acp for pytest-trio. pytest finds this file; trio_acp is imported by the fixtures alone.

It stands outside of the package for that reason: who does not use the fixtures pays nothing for them, and
coverage of a program sees its imports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trio_acp.testing import MemoryStream, ScriptedAgent, ScriptedClient

__all__ = ["acp_memory_pair", "scripted_agent", "scripted_client"]


@pytest.fixture
def acp_memory_pair() -> Iterator[tuple[MemoryStream, MemoryStream]]:
    """Two connected streams in memory: `trio_acp.testing.open_memory_pair`. Both are closed at the end."""
    from trio_acp.testing import open_memory_pair

    near, far = open_memory_pair()
    yield near, far
    near.close()
    far.close()


@pytest.fixture
def scripted_agent() -> Iterator[ScriptedAgent]:
    """An agent that does what the test says; its ``far_end`` is the stream for `connect_acp`.

    What the host sends is judged as it arrives. Both ends are closed at the end of the test.
    """
    from trio_acp.testing import ScriptedAgent

    agent = ScriptedAgent.in_memory()
    yield agent
    _close(agent)


@pytest.fixture
def scripted_client() -> Iterator[ScriptedClient]:
    """A host that does what the test says; its ``far_end`` is the stream for `AgentApp.serve`.

    What the agent sends is judged as it arrives. Both ends are closed at the end of the test.
    """
    from trio_acp.testing import ScriptedClient

    client = ScriptedClient.in_memory()
    yield client
    _close(client)


def _close(peer: ScriptedAgent | ScriptedClient) -> None:
    from trio_acp.testing import MemoryStream

    assert isinstance(peer.stream, MemoryStream)
    peer.stream.close()
    peer.far_end.close()

"""Fixtures of the interoperability tests."""

from __future__ import annotations

import pytest

from tests.interop.driving import CLIENTS, SdkClient
from tests.interop.peers import PEERS, Peer


@pytest.fixture(params=list(PEERS))
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each of the agents built with an official SDK."""
    name: str = request.param
    return PEERS[name]()


@pytest.fixture(params=list(CLIENTS))
def sdk_client(request: pytest.FixtureRequest) -> SdkClient:
    """Each of the clients built with an official SDK."""
    name: str = request.param
    return CLIENTS[name]()

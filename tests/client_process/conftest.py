"""Fixtures of the tests with agents in processes of their own."""

from __future__ import annotations

import pathlib

import pytest

from tests.client_process.agents import Agents


@pytest.fixture
def agents(tmp_path: pathlib.Path) -> Agents:
    """Writes agents and knows what they have seen."""
    return Agents(tmp_path)

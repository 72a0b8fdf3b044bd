"""Fixtures of the transports' tests."""

from __future__ import annotations

import pathlib

import pytest

from tests.transports.agents import Scripts


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Scripts:
    """Writes helper scripts and returns the commands that run them."""
    return Scripts(tmp_path)

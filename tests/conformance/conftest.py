"""Which agent is checked."""

from __future__ import annotations

import os
import pathlib
import shlex
import sys

import attrs
import pytest

from trio_acp.testing.conformance import DEMO_PROMPTS, Prompts

ROOT = pathlib.Path(__file__).parents[2]


@attrs.frozen
class Candidate:
    """An agent to check, and what to say to it."""

    command: tuple[str, ...]
    prompts: Prompts


@pytest.fixture
def candidate() -> Candidate:
    """The agent that ``TRIO_ACP_AGENT_COMMAND`` starts, else the demo agent."""
    command = os.environ.get("TRIO_ACP_AGENT_COMMAND")
    if command:
        return Candidate(tuple(shlex.split(command)), Prompts())
    return Candidate((sys.executable, "-m", "trio_acp.demo", "--pace", "0"), DEMO_PROMPTS)

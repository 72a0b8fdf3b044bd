"""The demo agent does all that the protocol asks for; or another one, that of ``TRIO_ACP_AGENT_COMMAND``."""

from __future__ import annotations

import os

import pytest

from tests.conformance.conftest import ROOT, Candidate
from trio_acp.testing.conformance import CHECKS, Check, Outcome, run_checks


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
async def test_it_does_what_the_protocol_asks(check: Check, candidate: Candidate) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    (result,) = await run_checks(
        candidate.command, prompts=candidate.prompts, checks=[check], env={"PYTHONPATH": path}, limit=20
    )
    if result.outcome is Outcome.NOT_APPLICABLE:
        pytest.skip(result.message)
    assert result.outcome is Outcome.PASS, "\n".join([result.message, *result.transcript])

"""The demo agent does all that the protocol asks for; or another one, that of ``TRIO_ACP_AGENT_COMMAND``."""

from __future__ import annotations

import functools
import os

import pytest
import trio

from tests.conformance.conftest import ROOT, Candidate
from trio_acp.testing.conformance import CHECKS, Check, Outcome, run_checks


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_it_does_what_the_protocol_asks(check: Check, candidate: Candidate) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    # Not in a task of pytest-trio's, which would lose the reason of a skip.
    (result,) = trio.run(
        functools.partial(
            run_checks,
            candidate.command,
            prompts=candidate.prompts,
            checks=[check],
            env={"PYTHONPATH": path},
            limit=20,
        )
    )
    if result.outcome is Outcome.NOT_APPLICABLE:
        pytest.skip(result.message)
    assert result.outcome is Outcome.PASS, "\n".join([result.message, *result.transcript])

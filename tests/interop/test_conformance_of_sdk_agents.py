"""The conformance checks ask for nothing that agents built with the official SDKs do not do as well.

Where these do less than the protocol asks, which is seldom the SDK's fault, the checks are not listed.
"""

from __future__ import annotations

import pytest

from tests.interop.peers import Peer
from trio_acp.testing.conformance import CHECKS, Outcome, Prompts, run_checks

pytestmark = pytest.mark.interop

PROMPTS = Prompts("talk", slow="slow", command="terminal", read="files")

AGREED = {
    "W1-carriage-returns",
    "W1-blank-lines",
    "W1-messages-in-pieces",
    "W1-several-messages-at-once",
    "W2-only-messages-on-stdout",
    "W3-ids-come-back",
    "W4-unknown-methods",
    "W5-unknown-notifications",
    "W6-answers-to-nothing",
    "W7-meta",
    "W8-unknown-fields",
    "I2-the-version-asked-for",
    "I2-its-introduction",
    "S1-sessions-are-distinct",
    "S2-loading-replays",
    "S4-updates-name-a-session",
    "S7-config-options",
    "T2-a-turn",
    "T1-links",
    "T3-the-reason-to-stop",
    "T1-two-sessions-at-once",
    "X2-cancelling",
    "X2-the-next-turn",
    "X2-cancelling-at-once",
    "X4-cancelling-unknown-requests",
    "N1-extensions",
}


async def test_what_agents_with_the_official_sdks_do_as_well(peer: Peer) -> None:
    checks = [check for check in CHECKS if check.name in AGREED]
    assert len(checks) == len(AGREED)
    results = await run_checks(peer.command, prompts=PROMPTS, checks=checks, limit=20)
    failed = [str(result) for result in results if result.outcome is not Outcome.PASS]
    assert failed == []

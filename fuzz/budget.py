"""How long one round of a fuzzer is: small by default, so that it can run with every change."""

from __future__ import annotations

import os

import hypothesis

__all__ = ["budget"]

_SHRINK = os.environ.get("FUZZ_SHRINK", "1") != "0"
"""Without shrinking, a failure is found sooner: enough where it matters only whether there is one."""


def budget(share: float = 1.0) -> hypothesis.settings:
    """Return settings for a fuzzer.

    Args:
        share: of the examples that ``FUZZ_EXAMPLES`` (100 if not set) allows; less than 1 for slow fuzzers.
    """
    examples = max(1, int(int(os.environ.get("FUZZ_EXAMPLES", "100")) * share))
    return hypothesis.settings(
        deadline=None,
        max_examples=examples,
        stateful_step_count=60,
        print_blob=True,
        database=None,
        phases=[each for each in hypothesis.Phase if _SHRINK or each.name not in ("shrink", "explain")],
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
    )

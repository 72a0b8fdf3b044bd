"""``trio-acp check``: what an agent owes its clients, as a report for people and one for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import attrs

from trio_acp.testing.conformance import CHECKS, Check, CheckResult, Outcome, Prompts, run_checks

from ._text import one_line

__all__ = ["CheckSettings", "choose_checks", "list_checks", "run_check"]

SUBJECTS: Final = {
    "W": "Wire",
    "I": "Introduction",
    "U": "Logging in",
    "S": "Sessions",
    "T": "Turns",
    "X": "Cancellation",
    "P": "Permission",
    "F": "Files and terminals",
    "E": "Questions to the user",
    "N": "Extensions",
}
"""What the rules are about, by the first letter of their tags."""


@attrs.frozen
class CheckSettings:
    """What to check.

    Attributes:
        command: the agent's program and its arguments.
        prompts: what to say to it.
        checks: the checks.
        cwd: where it is started; None for a directory of its own.
        seconds: that each answer is waited for.
        strict: what the protocol does not demand counts as well.
        json: where to write the report as JSON; None for nowhere.
    """

    command: Sequence[str]
    prompts: Prompts
    checks: Sequence[Check]
    cwd: str | None
    seconds: float
    strict: bool
    json: str | None


def choose_checks(words: Sequence[str]) -> list[Check]:
    """Return the checks of these names, tags of rules, or letters of subjects; all for no words.

    Raises:
        ValueError: there is no such check.
    """
    for word in words:
        if not any(_fits(check, word) for check in CHECKS):
            raise ValueError(f"there is no check {word!r}; `trio-acp check --list` shows them all")
    return [check for check in CHECKS if not words or any(_fits(check, word) for word in words)]


def _fits(check: Check, word: str) -> bool:
    return word in (check.name, check.rule, check.rule[0])


def list_checks(checks: Sequence[Check], out: TextIO) -> None:
    """Write what there is to check."""
    subject = ""
    for check in checks:
        subject = _head(check, subject, out)
        out.write(f"  {check.name}: {check.says}{'' if check.required else ' (not demanded)'}\n")


async def run_check(settings: CheckSettings, out: TextIO) -> bool:
    """Run the checks, write how each went, and return whether the agent passes."""
    subject = ""

    def write(result: CheckResult) -> None:
        nonlocal subject
        subject = _head(result.check, subject, out)
        verdict = _verdict(result)
        if verdict == "ok":
            out.write(f"  ok    {result.check.name}\n")
        elif verdict == "n/a":
            out.write(f"  n/a   {result.check.name}: {one_line(result.message)}\n")
        else:
            out.write(f"  {verdict:5} {result.check.name}: {result.check.says}\n")
            out.write(f"          {one_line(result.message)}\n")
        out.flush()

    results = await run_checks(
        settings.command,
        prompts=settings.prompts,
        checks=settings.checks,
        cwd=settings.cwd,
        limit=settings.seconds,
        on_result=write,
    )
    verdicts = [_verdict(result) for result in results]
    counts = {
        "passed": verdicts.count("ok"),
        "failed": verdicts.count("FAIL"),
        "weak": verdicts.count("weak"),
        "notApplicable": verdicts.count("n/a"),
    }
    out.write(
        f"\n{counts['passed']} passed, {counts['failed']} failed, {counts['weak']} weak, "
        f"{counts['notApplicable']} not applicable\n"
    )
    passed = not counts["failed"] and not (settings.strict and counts["weak"])
    if settings.json is not None:
        report: dict[str, Any] = {
            "passed": passed,
            "counts": counts,
            "results": [result.to_json() for result in results],
        }
        Path(settings.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")  # noqa: ASYNC240 - nothing else runs
    return passed


def _head(check: Check, before: str, out: TextIO) -> str:
    """Write a line between two subjects; return the subject."""
    letter = check.rule[0]
    if letter != before:
        out.write(f"{SUBJECTS[letter]} ({letter})\n")
    return letter


def _verdict(result: CheckResult) -> str:
    if result.outcome is Outcome.FAIL:
        return "FAIL" if result.required else "weak"
    return "ok" if result.outcome is Outcome.PASS else "n/a"

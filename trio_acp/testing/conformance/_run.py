"""Running checks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from trio_acp.testing import Violation
from trio_acp.transports import AgentProcess

from . import _calls, _sessions, _start, _turns, _wire
from ._model import Broken, Check, CheckResult, NotApplicable, Outcome, Prompts
from ._probe import Probe

__all__ = ["CHECKS", "DEFAULT_LIMIT", "DEMO_PROMPTS", "WAITS_OF_A_CHECK", "run_checks"]

SUBJECTS: Final = "WIUSTXPFEN"
"""The letters of the rules' tags, in the order in which a client comes across them."""

CHECKS: Final[tuple[Check, ...]] = tuple(
    sorted(
        [
            *_wire.check.checks,
            *_start.check.checks,
            *_sessions.check.checks,
            *_turns.check.checks,
            *_calls.check.checks,
        ],
        key=lambda check: (SUBJECTS.index(check.rule[0]), int(check.rule[1:])),
    )
)
"""All checks, by rule."""

DEFAULT_LIMIT: Final = 10.0
"""Seconds that an agent has for an answer: agents with a runtime of their own need some for the first one."""

WAITS_OF_A_CHECK: Final = 12
"""Times the limit of one answer that a whole check may take: none needs more from an agent that is slow."""

NOTES: Final = "milk\n"
"""What is in the file ``notes.txt`` of each session's directory, and of the two directories in there."""

DEMO_PROMPTS: Final = Prompts(
    hello="think",
    slow="slow 600",
    write="write conformance.txt: written",
    command="run echo hello",
    read="read notes.txt",
    elicit="form",
)
"""What to say to the demo agent."""


async def run_checks(
    command: Sequence[str],
    *,
    prompts: Prompts | None = None,
    checks: Sequence[Check] = CHECKS,
    cwd: str | None = None,
    env: Mapping[str, str | None] | None = None,
    limit: float = DEFAULT_LIMIT,
    on_result: Callable[[CheckResult], object] | None = None,
) -> list[CheckResult]:
    """Run checks on an agent, one after the other, each on a process of its own.

    Each has a directory of its own for its sessions, empty but for small files. All that the agent says is
    judged by a `Referee` besides. A check that is not over after `WAITS_OF_A_CHECK` times the limit has
    failed. Cancellation: ends the agent that runs, and the rest is left undone.

    Args:
        command: the program that starts the agent, and its arguments.
        prompts: what to say to it; None for a greeting, which leaves many checks not applicable.
        checks: which checks to run.
        cwd: where the agent is started; None for the directory of each check.
        env: laid over the environment; a value of None removes a variable.
        limit: seconds that each answer is waited for.
        on_result: called with each result as it comes.

    Returns:
        One result for each check, in their order.

    Raises:
        AgentStartError: there is no such program, or it cannot be started.
        ValueError: the command is empty.
    """
    if not command:
        raise ValueError("the command is empty; give the program that starts the agent")
    results: list[CheckResult] = []
    for check in checks:
        result = await _run(check, command, prompts or Prompts(), cwd, env, limit)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


async def _run(
    check: Check,
    command: Sequence[str],
    prompts: Prompts,
    cwd: str | None,
    env: Mapping[str, str | None] | None,
    limit: float,
) -> CheckResult:
    # What the agent has left running may still write there.
    with tempfile.TemporaryDirectory(prefix="acp-check-", ignore_cleanup_errors=True) as made:
        directory = _furnish(made)
        process = AgentProcess(
            command[0], command[1:], cwd=cwd or directory, env=env, shutdown_grace=min(limit, 2.0)
        )
        probe = Probe(process, directory, prompts, limit)
        failure, violations = await _talk(check, process, probe)
        outcome, message, required = _judge(check, failure, violations)
        return CheckResult(check, outcome, message, required, tuple(probe.transcript))


def _judge(
    check: Check, failure: Exception | None, violations: Sequence[Violation]
) -> tuple[Outcome, str, bool]:
    """Return what came of a check: the outcome, what to say about it, and whether it is demanded.

    Raises:
        Exception: what has failed is not the agent.
    """
    if isinstance(failure, NotApplicable):
        return Outcome.NOT_APPLICABLE, str(failure), check.required
    if failure is None and not violations:
        return Outcome.PASS, "", check.required
    told = [f"{violation.rule}: {violation.what}" for violation in violations[:1]]
    if isinstance(failure, Broken):
        told.insert(0, str(failure))
    elif isinstance(failure, (KeyError, TypeError, IndexError, AttributeError)):
        # The check took something apart that is not made as it should be; mostly the referee says what.
        told = told or [f"an answer is not made as it should be: {failure!r}"]
    elif failure is not None:
        raise failure
    # The rule of the check itself is demanded as much as the check says.
    required = check.required or any(violation.rule != check.rule for violation in violations[:1])
    return Outcome.FAIL, "; besides, ".join(told), required


def _furnish(made: str) -> str:
    directory = os.path.realpath(made)
    for where in (directory, f"{directory}/one", f"{directory}/two"):
        os.makedirs(where, exist_ok=True)
        with open(f"{where}/notes.txt", "w", encoding="utf-8") as notes:
            notes.write(NOTES)
    return directory


async def _talk(
    check: Check, process: AgentProcess, probe: Probe
) -> tuple[Exception | None, list[Violation]]:
    """Have the conversation of a check; return why the agent fails, and the rules that it has broken."""
    failure: Exception | None = None
    violations: list[Violation] = []
    seconds = WAITS_OF_A_CHECK * probe.limit
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(process.run)
            nursery.start_soon(probe.read)
            with trio.move_on_after(seconds) as scope:
                await check.body(probe)
            if scope.cancelled_caught:
                failure = Broken(f"the check was not over after {seconds:g} s")
        except Exception as error:
            failure = error
        finally:
            # Only these: what it says while it is being ended is judged no more.
            violations += probe.violations
            await process.aclose_gracefully()  # noqa: ASYNC102 - shields itself, and is bounded
            nursery.cancel_scope.cancel()
    return failure, violations

"""Running checks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from trio_acp import AgentStartError
from trio_acp.transports import AgentProcess

from . import _calls, _sessions, _start, _turns, _wire
from ._model import Broken, Check, CheckResult, NotApplicable, Outcome, Prompts
from ._probe import Probe

__all__ = ["CHECKS", "DEFAULT_LIMIT", "DEMO_PROMPTS", "run_checks"]

CHECKS: Final[tuple[Check, ...]] = (
    *_wire.check.checks,
    *_start.check.checks,
    *_sessions.check.checks,
    *_turns.check.checks,
    *_calls.check.checks,
)
"""All checks, by subject."""

DEFAULT_LIMIT: Final = 10.0
"""Seconds that an agent has for an answer: agents with a runtime of their own need some for the first one."""

NOTES: Final = "milk\n"
"""What is in the file ``notes.txt`` of each session's directory."""

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
    env: Mapping[str, str | None] | None = None,
    limit: float = DEFAULT_LIMIT,
    on_result: Callable[[CheckResult], object] | None = None,
) -> list[CheckResult]:
    """Run checks on an agent, one after the other, each on a process of its own.

    Each has an empty directory of its own to work in, but for one small file. Cancellation: ends the
    agent that runs, and the rest is left undone.

    Args:
        command: the program that starts the agent, and its arguments.
        prompts: what to say to it; None for a greeting, which leaves many checks not applicable.
        checks: which checks to run.
        env: laid over the environment; a value of None removes a variable.
        limit: seconds that each answer is waited for.
        on_result: called with each result as it comes.

    Returns:
        One result for each check, in their order.

    Raises:
        ValueError: the command is empty.
    """
    if not command:
        raise ValueError("the command is empty; give the program that starts the agent")
    results: list[CheckResult] = []
    for check in checks:
        result = await _run(check, command, prompts or Prompts(), env, limit)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


async def _run(
    check: Check,
    command: Sequence[str],
    prompts: Prompts,
    env: Mapping[str, str | None] | None,
    limit: float,
) -> CheckResult:
    with tempfile.TemporaryDirectory(prefix="acp-check-") as made:
        directory = _furnish(made)
        process = AgentProcess(command[0], command[1:], env=env, shutdown_grace=min(limit, 2.0))
        probe = Probe(process, directory, prompts, limit)
        outcome, message = Outcome.PASS, ""
        try:
            await _talk(check, process, probe)
        except Broken as error:
            outcome, message = Outcome.FAIL, str(error)
        except NotApplicable as error:
            outcome, message = Outcome.NOT_APPLICABLE, str(error)
        except AgentStartError as error:
            outcome, message = Outcome.FAIL, f"the agent does not start: {error}"
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            # A check took something apart that is not made as it should be; the watch has said what.
            complaints = probe.watch.complaints or [f"an answer is not made as it should be: {error!r}"]
            outcome, message = Outcome.FAIL, complaints[0]
        return CheckResult(check, outcome, message, tuple(probe.transcript))


def _furnish(made: str) -> str:
    directory = os.path.realpath(made)
    with open(f"{directory}/notes.txt", "w", encoding="utf-8") as notes:
        notes.write(NOTES)
    return directory


async def _talk(check: Check, process: AgentProcess, probe: Probe) -> None:
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(process.run)
            nursery.start_soon(probe.read)
            await check.body(probe)
            probe.watch.check()
        except Exception as error:
            failure = error
        finally:
            await process.aclose_gracefully()  # noqa: ASYNC102 - shields itself, and is bounded
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure

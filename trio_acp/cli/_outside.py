"""``trio-acp check`` and ``trio-acp fuzz``: an agent tried from outside, for its own test suite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import attrs
import trio

from trio_acp.testing import (
    CheckResult,
    Failure,
    check_agent,
    fuzz_agent,
    play_steps,
)
from trio_acp.transports import AgentProcess

from ._text import one_line, plural

__all__ = ["CheckSettings", "FuzzSettings", "run_check", "run_fuzz"]

SHUTDOWN_GRACE = 1.0
"""Seconds that the agent has to exit between two programs: hundreds of them are run."""


@attrs.frozen
class CheckSettings:
    """What to check.

    Attributes:
        command: the agent's program and its arguments.
        cwd: the directory for sessions, absolute.
        prompt: what turns are started with.
        seconds: that one check, or one program, may take.
        json: where to write the report as JSON; None for nowhere.
    """

    command: Sequence[str]
    cwd: str
    prompt: str
    seconds: float
    json: str | None


@attrs.frozen
class FuzzSettings(CheckSettings):
    """What to fuzz.

    Attributes:
        seed: what the programs are made from.
        duration: seconds after which no program begins.
        failure: where a failure is kept.
        replay: a failure to play again instead; None to look for one.
    """

    seed: int
    duration: float
    failure: str
    replay: str | None


class _Connection(AbstractAsyncContextManager[trio.abc.Stream]):
    """A run of the agent, from its start to its end."""

    def __init__(self, settings: CheckSettings) -> None:
        self._process = AgentProcess(
            settings.command[0], settings.command[1:], cwd=settings.cwd, shutdown_grace=SHUTDOWN_GRACE
        )
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> trio.abc.Stream:
        nursery = await self._manager.__aenter__()
        try:
            await nursery.start(self._process.run)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)  # noqa: ASYNC102 - shielded and bounded in itself
            raise  # pragma: no cover - the nursery has raised it
        return self._process.stream

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self._process.aclose_gracefully()  # noqa: ASYNC102 - shielded and bounded in itself
        return await self._manager.__aexit__(kind, error, trace)  # noqa: ASYNC102 - shielded and bounded in itself


async def run_check(settings: CheckSettings, out: TextIO) -> bool:
    """Run all checks, write how each went, and return whether none failed."""

    def write(result: CheckResult) -> None:
        sign = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}[result.outcome]
        detail = f": {one_line(result.detail)}" if result.detail else ""
        out.write(f"{sign} {result.rule:4} {result.name}{detail}\n")
        out.flush()

    report = await check_agent(
        lambda: _Connection(settings),
        cwd=settings.cwd,
        prompt=settings.prompt,
        seconds=settings.seconds,
        done=write,
    )
    count = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for result in report.results:
        count[result.outcome] += 1
    out.write(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped\n")
    _write_json(settings.json, report.to_json())
    return report.passed


async def run_fuzz(settings: FuzzSettings, out: TextIO) -> bool:
    """Look for a program that breaks the agent, or play one again; return whether the agent stood it."""

    def connect() -> _Connection:
        return _Connection(settings)

    if settings.replay is not None:
        kept = Failure.from_json(json.loads(await trio.Path(settings.replay).read_text(encoding="utf-8")))
        failure = await play_steps(
            connect, kept.steps, cwd=settings.cwd, prompt=settings.prompt, seconds=settings.seconds
        )
        programs = 1
    else:
        report = await fuzz_agent(
            connect,
            seed=settings.seed,
            seconds=settings.duration,
            cwd=settings.cwd,
            prompt=settings.prompt,
            answer_seconds=settings.seconds,
        )
        failure, programs = report.failure, report.programs
    summary: dict[str, Any] = {
        "passed": failure is None,
        "programs": programs,
        "seed": settings.seed,
        "failure": None if failure is None else failure.to_json(),
    }
    _write_json(settings.json, summary)
    if failure is None:
        out.write(f"{plural(programs, 'program')}, seed {settings.seed}: nothing broke\n")
        return True
    out.write(f"broken after {plural(programs, 'program')}, seed {settings.seed}\n")
    out.write(f"{failure.rule}: {one_line(failure.what)}\n")
    for step in failure.steps:
        out.write(f"  {one_line(json.dumps(step))}\n")
    out.writelines(f"{one_line(line)}\n" for line in failure.transcript)
    if settings.replay is None:
        _write_json(settings.failure, failure.to_json())
        out.write(f"kept in {settings.failure}; play it again with --replay {settings.failure}\n")
    return False


def _write_json(path: str | None, value: Any) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

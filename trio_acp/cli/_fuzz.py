"""``trio-acp fuzz``: an agent tried from outside by chance, for its own test suite."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import attrs
import trio

from trio_acp.testing import NOT_DEMANDED, Failure, fuzz_agent, play_steps
from trio_acp.transports import AgentProcess

from ._text import one_line, plural

__all__ = ["FuzzSettings", "run_fuzz"]

SHUTDOWN_GRACE = 1.0
"""Seconds that the agent has to exit between two programs: hundreds of them are run."""


@attrs.frozen
class FuzzSettings:
    """What to fuzz.

    Attributes:
        command: the agent's program and its arguments.
        cwd: where it is started; None for an empty directory that goes when all is over.
        prompt: what turns are started with.
        seconds: that one program may take.
        json: where to write the report as JSON; None for nowhere.
        seed: what the programs are made from.
        duration: seconds after which no program begins.
        failure: where a failure is kept.
        replay: a failure to play again instead; None to look for one.
        ignore: tags of rules that the agent may break.
    """

    command: Sequence[str]
    cwd: str | None
    prompt: str
    seconds: float
    json: str | None
    seed: int
    duration: float
    failure: str
    replay: str | None
    ignore: Collection[str]


class _Connection(AbstractAsyncContextManager[trio.abc.Stream]):
    """A run of the agent, from its start to its end."""

    def __init__(self, command: Sequence[str], cwd: str) -> None:
        self._process = AgentProcess(command[0], command[1:], cwd=cwd, shutdown_grace=SHUTDOWN_GRACE)
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


async def run_fuzz(settings: FuzzSettings, out: TextIO) -> bool:
    """Look for a program that breaks the agent, or play one again; return whether the agent stood it."""
    # Nobody knows what an agent does when chance tells it to; what it left running may still write there.
    with tempfile.TemporaryDirectory(prefix="acp-fuzz-", ignore_cleanup_errors=True) as made:
        return await _run_fuzz(settings, str(await trio.Path(made).resolve()), out)


async def _run_fuzz(settings: FuzzSettings, directory: str, out: TextIO) -> bool:
    def connect() -> _Connection:
        return _Connection(settings.command, settings.cwd or directory)

    ignore = NOT_DEMANDED.union(settings.ignore)
    if settings.replay is not None:
        kept = _read_failure(await trio.Path(settings.replay).read_bytes())
        failure = await play_steps(
            connect,
            kept.steps,
            cwd=directory,
            prompt=settings.prompt,
            seconds=settings.seconds,
            ignore=ignore,
        )
        programs = 1
    else:
        report = await fuzz_agent(
            connect,
            seed=settings.seed,
            seconds=settings.duration,
            cwd=directory,
            prompt=settings.prompt,
            answer_seconds=settings.seconds,
            ignore=ignore,
        )
        failure, programs = report.failure, report.programs
    summary: dict[str, Any] = {
        "passed": failure is None,
        "programs": programs,
        "seed": settings.seed,
        "failure": None if failure is None else failure.to_json(),
    }
    if failure is None:
        out.write(f"{plural(programs, 'program')}, seed {settings.seed}: nothing broke\n")
        _write_json(settings.json, summary)
        return True
    out.write(f"broken after {plural(programs, 'program')}, seed {settings.seed}\n")
    out.write(f"{failure.rule}: {one_line(failure.what)}\n")
    for step in failure.steps:
        out.write(f"  {one_line(json.dumps(step))}\n")
    out.writelines(f"{one_line(line)}\n" for line in failure.transcript)
    # Told before: a file that cannot be written must not take the failure with it.
    out.flush()
    _write_json(settings.json, summary)
    if settings.replay is None:
        _write_json(settings.failure, failure.to_json())
        out.write(f"kept in {settings.failure}; play it again with --replay {settings.failure}\n")
    return False


def _read_failure(text: bytes) -> Failure:
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    return Failure.from_json(value)


def _write_json(path: str | None, value: Any) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

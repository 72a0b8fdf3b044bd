"""What is written: a Markdown table, the same as CSV for the documentation, and the plots."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import io
import os
import pathlib
import platform
from collections.abc import Iterable

from tests.benchmarks.plot import bars, lines
from tests.benchmarks.run import CONTENDERS, WORKLOADS, Results, cost, ratio
from tests.benchmarks.scaling import LINES

__all__ = ["HEADER", "table", "write"]

HEADER = ("Work", "trio_acp", "Python SDK", "ratio", "TypeScript SDK", "ratio", "limits", "peak memory")
NAMES = {"trio_acp": "trio_acp", "sdk": "Python SDK", "node": "TypeScript SDK"}
LIMITS = ("read", "split", "decode", "trio")


def _time(results: Results, name: str, contender: str) -> str:
    seconds = cost(results, name, contender)
    if seconds is None:
        return "fails" if (name, contender) in results else "-"
    if seconds >= 0.01:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-4 else f"{seconds * 1e6:.0f} µs"


def _memory(results: Results, name: str) -> str:
    parts: list[str] = []
    for contender in ("trio_acp", "sdk", "node"):
        samples = [sample for sample in results.get((name, contender), []) if not sample.problem]
        parts.append(f"{max(sample.memory for sample in samples) / 2**20:.0f}" if samples else "-")
    return " / ".join(parts) + " MiB" if name not in ("W3", "W3p", "W5") else "-"


def table(results: Results, names: Iterable[str]) -> list[list[str]]:
    """Return the rows of the table."""
    rows: list[list[str]] = []
    for name in names:
        workload = WORKLOADS[name]
        row = [f"{name} {workload.title}, one {workload.unit}", _time(results, name, "trio_acp")]
        for contender in ("sdk", "node"):
            times = ratio(results, name, contender)
            row.append(_time(results, name, contender))
            row.append("-" if times is None else f"{times:.2f}")
        limits = [f"{limit} {_time(results, name, limit)}" for limit in LIMITS if (name, limit) in results]
        rows.append([*row, ", ".join(limits) or "-", _memory(results, name)])
    return rows


def _late(results: Results) -> list[str]:
    """Say which contender returned from a prompt before its updates were delivered."""
    found: dict[str, set[str]] = {}
    for (name, contender), samples in results.items():
        if any(not sample.complete and not sample.problem for sample in samples):
            found.setdefault(contender, set()).add(name)
    return [
        f"{NAMES.get(contender, contender)} returned from the prompt before the application had all updates: "
        f"{', '.join(sorted(names))}."
        for contender, names in found.items()
    ]


def _problems(results: Results) -> list[str]:
    return sorted(
        {
            f"{name} {NAMES.get(contender, contender)}: {sample.problem}"
            for (name, contender), samples in results.items()
            for sample in samples
            if sample.problem
        }
    )


def _versions() -> str:
    sdk = importlib.metadata.version("agent-client-protocol")
    return (
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"trio {importlib.metadata.version('trio')}, Python SDK {sdk}, {os.cpu_count()} cores, "
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    )


def write(
    results: Results,
    names: Iterable[str],
    rounds: int,
    scaling: dict[str, list[tuple[int, float]]],
    to: pathlib.Path,
) -> str:
    """Write all files into a directory; return the Markdown."""
    names = list(names)
    to.mkdir(parents=True, exist_ok=True)
    rows = table(results, names)
    notes = [
        f"CPU time of the code under test for one unit, median of {rounds} "
        f"interleaved rounds; the ratios are medians over the rounds. {_versions()}.",
        *_late(results),
        *_problems(results),
    ]
    markdown = ["| " + " | ".join(HEADER) + " |", "| --- |" + " --: |" * (len(HEADER) - 1)]
    markdown += ["| " + " | ".join(row) + " |" for row in rows]
    text = "\n".join([*markdown, "", *(note + "\n" for note in notes)])
    (to / "results.md").write_text(text, encoding="utf-8")
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([HEADER, *rows])
    (to / "results.csv").write_text(buffer.getvalue(), encoding="utf-8")
    (to / "notes.txt").write_text("\n".join(f"* {note}" for note in notes) + "\n", encoding="utf-8")
    groups: list[tuple[str, list[tuple[str, float]]]] = []
    for name in names:
        found = [(NAMES[c], ratio(results, name, c)) for c in CONTENDERS if c in NAMES]
        groups.append(
            (
                f"{name} {WORKLOADS[name].title}",
                [(shown, value) for shown, value in found if value is not None],
            )
        )
    (to / "workloads.svg").write_text(bars(groups), encoding="utf-8")
    if scaling:
        panels = [
            (line.name, f"µs a {line.unit}", [(size, seconds * 1e6) for size, seconds in scaling[line.name]])
            for line in LINES
        ]
        (to / "scaling.svg").write_text(lines(panels), encoding="utf-8")
    return text

"""How the cost of a unit grows with the size of the problem: each line is to be flat."""

from __future__ import annotations

import statistics
import sys
from typing import Any, Final

import attrs

from tests.benchmarks.run import Workload, run_client

__all__ = ["LINES", "Line", "measure_lines"]


@attrs.frozen
class Line:
    """One line of the plot.

    Attributes:
        name: what grows.
        unit: what the cost is for.
        sizes: where it is measured.
    """

    name: str
    unit: str
    sizes: tuple[int, ...]


MIB: Final = 2**20

LINES: Final = (
    Line("sessions that stream at once", "update", (1, 10, 100, 1000)),
    Line(
        "bytes of an update",
        "update and its KiB",
        (200, 2_000, 20_000, 200_000, 2_000_000, 20_000_000, 64 * MIB),
    ),
    Line("permission requests that are open", "request", (1, 10, 100, 1_000, 10_000)),
    Line(
        "bytes of a tool call's output, told anew 50 times",
        "update and its KiB",
        (1_000, 10_000, 100_000, 1_000_000),
    ),
)


def _job(line: Line, size: int) -> tuple[dict[str, Any], float]:
    """Return the job for one point of a line, and how many units it is."""
    small = {"work": "chunks", "count": 20}
    order: dict[str, Any]
    sessions = 1
    match LINES.index(line):
        case 0:
            sessions = size
            order = {"work": "chunks", "count": max(100, 10_000 // size), "sessions": sessions}
            small = {**small, "count": 2, "sessions": sessions}
            units: float = order["count"] * sessions
        case 1:
            order = {"work": "chunks", "count": max(1, min(10_000, 64 * MIB // size)), "size": size}
            units = order["count"] * (1 + size / 1024)
        case 2:
            order = {"work": "permission", "count": max(1_000, size), "at_once": size}
            units = order["count"]
        case _:
            order = {"work": "snapshots", "count": 50, "size": size}
            units = 50 * (1 + size / 2 / 1024)
    return {"sessions": sessions, "order": order, "warm": small, "check": small}, units


def measure_lines(rounds: int) -> dict[str, list[tuple[int, float]]]:
    """Measure this library at every point; return points of size and seconds for a unit, by line."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in LINES:
        points = found[line.name] = []
        for size in line.sizes:
            job, units = _job(line, size)
            count = job["order"]["count"] * job["sessions"]
            workload = Workload(line.name, line.name, line.unit, count, job, ("trio_acp",))
            samples = [run_client(workload, "trio_acp") for _ in range(rounds)]
            problems = [sample.problem for sample in samples if sample.problem]
            if problems:
                raise RuntimeError(f"{line.name}, {size}: {problems[0]}")
            cost = statistics.median(sample.cpu * count / units for sample in samples)
            points.append((size, cost))
            print(f"{line.name}: {size}: {cost * 1e6:.2f} us a {line.unit}", file=sys.stderr, flush=True)
    return found

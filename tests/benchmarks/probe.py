"""What the Python contenders share: their job, the scripted agent's command, and the report."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

__all__ = ["job", "peak_bytes", "report", "writer_command"]

HERE = pathlib.Path(__file__).parent

job: dict[str, Any] = json.loads(os.environ.get("BENCHMARK_JOB", "{}"))
"""What to do; see `run.py`."""


def writer_command() -> list[str]:
    """Return the command of the scripted agent."""
    return [sys.executable, str(HERE / "writer.py")]


def peak_bytes() -> int:
    """Return the most memory that this process ever had resident (Linux; elsewhere 0)."""
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def report(cpu: float, delivered: int, peak_before: int, digests: dict[str, str]) -> None:
    """Print the result for the runner.

    Args:
        cpu: seconds of this process's time.
        delivered: updates that the application had when its prompts returned.
        peak_before: bytes, `peak_bytes` before the work.
        digests: a fingerprint of what each session received in the checked turn.
    """
    print(
        json.dumps(
            {
                "cpu": cpu,
                "delivered": delivered,
                "peak": peak_bytes(),
                "peak_before": peak_before,
                "digests": digests,
            }
        )
    )

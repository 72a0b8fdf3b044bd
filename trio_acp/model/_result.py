"""What a run gives back, and how it fails by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from trio_acp import AcpError
from trio_acp.client import (
    Done,
    ErrorEvent,
    ModelMessage,
    TextDelta,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
    UsageEvent,
)
from trio_acp.schema import StopReason, UsageUpdate

__all__ = ["RunEvent", "RunResult", "TurnLimit", "added"]


@attrs.frozen
class RunResult:
    """A whole run: as many model calls as it took until the model asked for no more tools.

    Attributes:
        text: the text of the last reply.
        messages: the whole history, the last reply included.
        tool_calls: every tool call with its result, the agent's own (``via="acp"``) among them.
        turns: how many model calls it took.
        usage: what was used: the numbers of all model calls added up, by their names; of an agent its newest
            report.
        model: the name of the model.
        stop_reason: why the last reply ended, where the model tells.
    """

    text: str
    messages: Sequence[ModelMessage]
    tool_calls: Sequence[ToolResultEvent]
    turns: int
    usage: Usage | None
    model: str | None
    stop_reason: StopReason | str | None = None


RunEvent: TypeAlias = TextDelta | ToolCallEvent | ToolResultEvent | UsageEvent | Done[RunResult] | ErrorEvent
"""An event of a run."""


class TurnLimit(AcpError):
    """The model still asked for tools when ``max_turns`` model calls had been made.

    Attributes:
        result: the run so far; the tools that were asked for last were not run.
    """

    result: RunResult

    def __init__(self, result: RunResult) -> None:
        self.result = result
        super().__init__(
            f"the model asks for tools after {result.turns} calls; raise max_turns, "
            "or look at `result.tool_calls` for what it tries"
        )


def added(total: Usage | None, usage: Usage | None) -> Usage | None:
    """Add the usage of one more model call up."""
    if total is None or usage is None:
        return total if usage is None else usage
    if isinstance(total, UsageUpdate) or isinstance(usage, UsageUpdate):
        return usage  # reports on a context, in which the earlier ones are contained
    return _sum(total, usage)


def _sum(total: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    numbers = dict(total)
    for key, value in usage.items():
        old = numbers.get(key)
        both = _is_number(old) and _is_number(value)
        numbers[key] = old + value if both else value
    return numbers


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""What a host may put before and after the steps of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs

from trio_acp.client import ModelMessage, ModelReply, ToolCallEvent, ToolResultEvent

__all__ = ["Hooks"]


@attrs.frozen(kw_only=True)
class Hooks:
    """Async functions that see, and may change, the steps of a run; None as their result changes nothing.

    What a hook raises leaves the run as itself. Tools that an agent runs itself have no hooks: their time is
    over when they are told. Decide about those in ``on_permission``.

    Attributes:
        before_model: is given the history; what it returns is sent instead, this time.
        after_model: is given the reply; what it returns counts instead.
        before_tool: is given a tool call; may return another one to run instead, or a result, so that nothing
            is run.
        after_tool: is given a result; what it returns counts instead.
    """

    before_model: Callable[[Sequence[ModelMessage]], Awaitable[Sequence[ModelMessage] | None]] | None = None
    after_model: Callable[[ModelReply], Awaitable[ModelReply | None]] | None = None
    before_tool: Callable[[ToolCallEvent], Awaitable[ToolCallEvent | ToolResultEvent | None]] | None = None
    after_tool: Callable[[ToolResultEvent], Awaitable[ToolResultEvent | None]] | None = None

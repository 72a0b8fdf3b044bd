"""The functions that a model client is made of, called with what they take."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

from trio_acp.client import ModelEvent, ModelMessage, ModelReply

__all__ = ["ReplySource", "Source", "StreamSource"]

ReplySource: TypeAlias = Callable[..., Awaitable[str | ModelReply]]
"""Takes a history (a list of `ModelMessage`) and returns the reply: its text, or a `ModelReply`.

`ConnectedAgent.generate` is one. If it has a parameter with one of these names, it is given ``conversation``,
the id of the run where it has one; ``tools``, the list of `Tool`; ``model``, the name of the model."""

StreamSource: TypeAlias = Callable[..., AbstractAsyncContextManager[AsyncIterable[ModelEvent], bool | None]]
"""Takes what a `ReplySource` takes, and returns an async context manager over the events of the reply, the
last one `Done`. `ConnectedAgent.generate_stream` is one."""

OFFERED: Final = ("conversation", "tools", "model")

T = TypeVar("T")


@final
class Source(Generic[T]):
    """A function and which of the offered arguments it takes.

    Args:
        function: the function; its first parameter is the history.
    """

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except ValueError:  # some that are written in C cannot say
            parameters = []
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = {parameter.name for parameter in parameters[1:] if parameter.kind in named}
        self._takes = [name for name in OFFERED if name in names]

    def __call__(self, messages: Sequence[ModelMessage], **offered: Any) -> T:
        given = {name: offered[name] for name in self._takes if offered[name] is not None}
        return self._function(list(messages), **given)

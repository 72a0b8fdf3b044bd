"""A model client in the process: what applications know from hosted models, over an agent or any function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from trio_acp._nesting import Inside
from trio_acp.client import Messages, ModelMessage

from ._hooks import Hooks
from ._result import RunEvent, RunResult
from ._run import Emit, Machine, Run
from ._source import ReplySource, StreamSource
from ._store import ConversationStore, Lines, MemoryConversationStore
from ._stream import RunStream
from ._tools import Tool, ToolFunction, tool

__all__ = ["DEFAULT_MAX_TURNS", "InProcessClient"]

DEFAULT_MAX_TURNS: Final = 10
"""Model calls of one run: a model that goes round in circles must come to an end."""


@final
class InProcessClient:
    """Runs a model with tools, hooks and a store of conversations.

    The model is an agent, ``InProcessClient(generate_stream=agent.generate_stream)``, or any async function.
    When a reply asks for tools of the host, they are run one after the other and their results given to the
    model, until it asks for none. The tools that an agent runs itself (``via="acp"``) are told of, and never
    run here.

    Args:
        model: the name of the model, for results and for functions that take it.
        generate: returns a reply, see `ReplySource`.
        generate_stream: gives the events of a reply, see `StreamSource`. `run` uses it where there is no
            ``generate``; it tells of an agent's own tool calls, which a text cannot.
        tools: async functions, or `Tool`.
        hooks: what to call before and after the steps.
        max_turns: model calls of one run, at most.
        store: where histories are kept; by default in memory.

    Raises:
        TypeError: there is no model, or something that cannot be a tool.
        ValueError: two tools have one name, or ``max_turns`` is less than 1.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        generate: ReplySource | None = None,
        generate_stream: StreamSource | None = None,
        tools: Iterable[Tool | ToolFunction] = (),
        hooks: Hooks | None = None,
        max_turns: int = DEFAULT_MAX_TURNS,
        store: ConversationStore | None = None,
    ) -> None:
        if generate is None and generate_stream is None:
            raise TypeError("give generate=... or generate_stream=...; for an agent, agent.generate")
        if max_turns < 1:
            raise ValueError("max_turns must be at least 1")
        made = [each if isinstance(each, Tool) else tool(each) for each in tools]
        names = [each.name for each in made]
        if len(set(names)) < len(names):
            raise ValueError(f"two tools have one name: {', '.join(names)}")
        self._machine = Machine.of(model, generate, generate_stream, made, hooks or Hooks(), max_turns)
        self._store: ConversationStore = MemoryConversationStore() if store is None else store
        self._lines = Lines()

    async def run(self, messages: Messages, *, id: str | None = None) -> RunResult:
        """Run the model until it asks for no more tools.

        Runs of one conversation take turns, others run at the same time. The history is saved when the run
        has ended well, and only then.

        Cancellation: cancels the model call or the tool that runs; nothing is saved.

        Args:
            messages: the next message, or a history; see `Messages`.
            id: a conversation of the store, of your choice: the messages follow what it holds, and an agent
                has a session for it. None: the messages are all there is.

        Raises:
            TurnLimit: the model still asks for tools after ``max_turns`` calls.
            LocalProtocolError: the messages are none, or ask nothing.
            SessionBusy: called from inside a run of the same conversation, by its tool or hook or in the body
                of its stream; nothing was done.
            Exception: what the model, a tool or a hook raises, as itself; but see `ToolError`.
        """
        inside = Inside()
        inside.enter()
        try:
            return await self._run(messages, id, False, _ignore, inside)
        finally:
            inside.leave()

    def stream(self, messages: Messages, *, id: str | None = None) -> RunStream:
        """Run the model and return the events of the run; see `RunStream`. The rest is as for `run`.

        Args:
            messages: the next message, or a history; see `Messages`.
            id: a conversation of the store.

        Raises:
            TypeError: the client has no ``generate_stream``.
        """
        if self._machine.stream is None:
            raise TypeError(
                "this client has no stream: pass generate_stream=... to InProcessClient "
                "(for an agent, generate_stream=agent.generate_stream), or use run"
            )

        inside = Inside()

        async def drive(emit: Emit) -> RunResult:
            return await self._run(messages, id, True, emit, inside)

        return RunStream(drive, inside)

    async def _run(
        self, messages: Messages, id: str | None, streaming: bool, emit: Emit, inside: Inside
    ) -> RunResult:
        new = ModelMessage.history(messages)
        if id is None:
            return await Run(self._machine, new, None, streaming, emit, inside).drive()
        run = object()
        lock = self._lines.join(id, run)
        inside.calls.add(run)
        try:
            async with lock:
                history = [*await self._store.load(id), *new]
                result = await Run(self._machine, history, id, streaming, emit, inside).drive()
                await self._store.save(id, result.messages)
                return result
        finally:
            inside.calls.remove(run)
            self._lines.leave(id, run)


async def _ignore(event: RunEvent) -> None:
    """Nobody listens."""

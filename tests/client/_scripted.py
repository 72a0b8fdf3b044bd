"""An agent that does what a test says, byte by byte, at the other end of a pair in memory.

Not a `ScriptedAgent` of the test kit: it counts what it could send while a pipe is full, and its referee asks
for what this library promises beyond the protocol.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final

import trio
import trio.testing

from tests.support.legality import Referee
from trio_acp import AcpOptions, ConnectedAgent, connect_acp, open_memory_pair
from trio_acp.testing import ALLOW_OR_REJECT as TWO_OPTIONS
from trio_acp.testing import FULL_AGENT, permission_option
from trio_acp.transports import MEMORY_PIPE_BYTES, MemoryStream

__all__ = ["ALLOW_OR_REJECT", "EVERYTHING", "Scene", "Wire", "chunk", "frame", "option", "select"]

PATIENCE: Final = 3600.0
"""Virtual seconds that the agent waits for a message: longer than any clock of the library."""

EVERYTHING: Final = FULL_AGENT
"""Capabilities of an agent that can do all that this library calls."""

option: Final = permission_option

ALLOW_OR_REJECT: Final = [*TWO_OPTIONS]


def select(option_id: str) -> dict[str, Any]:
    """Return the result of a permission request that was decided."""
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


def frame(message: Any) -> bytes:
    """Return a message as it goes over the wire."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def chunk(text: str, session: str = "s1", **more: Any) -> dict[str, Any]:
    """Return the notification of one piece of the agent's message."""
    content = {"type": "text", "text": text}
    return notice(session, {"sessionUpdate": "agent_message_chunk", "content": content, **more})


def notice(session: str, update: Any) -> dict[str, Any]:
    """Return the notification of an update."""
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    }


class Wire:
    """The agent's end. Everything that it waits for is bounded."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self.referee = Referee()
        self.sent_bytes = 0
        """Bytes that the agent could write so far."""
        self._inbox: deque[dict[str, Any]] = deque()
        self._ids = 0
        self.ended = False

    # Receiving -----------------------------------------------------------------------------------------

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message of the client, None when it has closed its end."""
        with trio.fail_after(PATIENCE):
            while not self._inbox and not self.ended:
                data = await self.stream.receive_some()
                self._take(data)
        return self._inbox.popleft() if self._inbox else None

    def _take(self, data: bytes) -> None:
        self._inbox.extend(self.referee.bytes_from_client(data))
        self.ended = self.ended or not data

    async def expect(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the next message, which has to be a call of that method with (at least) these parameters."""
        message = await self.receive()
        assert message is not None, f"the client closed the connection instead of {method}"
        assert message.get("method") == method, message
        assert {key: message["params"].get(key) for key in params} == params, message
        return message

    async def answer(self, id: Any) -> Any:
        """Return the result that the client sends next, which has to answer that request."""
        message = await self.receive()
        assert message is not None, "the client closed the connection instead of an answer"
        assert (message.get("id", "none"), "method" in message) == (id, False), message
        assert "result" in message, message
        return message["result"]

    async def refusal(self, id: Any) -> int:
        """Return the code of the error that the client sends next, which has to answer that request."""
        message = await self.receive()
        assert message is not None, "the client closed the connection instead of an answer"
        assert (message.get("id", "none"), "method" in message) == (id, False), message
        code: int = message["error"]["code"]
        return code

    async def quiet(self) -> None:
        """Let everything run that can, and check that the client has sent nothing more."""
        assert not self._inbox, list(self._inbox)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_on)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert not self._inbox, list(self._inbox)

    async def _read_on(self) -> None:
        while not self.ended:
            self._take(await self.stream.receive_some())

    async def drain(self) -> None:
        """Read until the client closes its end."""
        while await self.receive() is not None:
            pass

    # Sending -------------------------------------------------------------------------------------------

    async def raw(self, data: bytes) -> None:
        """Send bytes; the referee does not look at them."""
        view = memoryview(data)
        while view:
            with trio.fail_after(PATIENCE):
                sent = self.stream.send_nowait(view)
                if not sent:
                    await self.stream.wait_send_all_might_not_block()
            self.sent_bytes += sent
            view = view[sent:]
        await trio.lowlevel.checkpoint()

    async def burst(self, *messages: dict[str, Any]) -> None:
        """Send messages as one piece."""
        for message in messages:
            self.referee.from_agent(message)
        await self.raw(b"".join(map(frame, messages)))

    async def text(self, text: str, session: str = "s1", **more: Any) -> None:
        """Send a piece of the agent's message."""
        await self.burst(chunk(text, session, **more))

    async def update(self, kind: str, /, session: str = "s1", **fields: Any) -> None:
        """Send an update."""
        await self.burst(notice(session, {"sessionUpdate": kind, **fields}))

    def result_of(self, request: dict[str, Any], result: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    def error_of(
        self, request: dict[str, Any], code: int, text: str = "no", data: Any = None
    ) -> dict[str, Any]:
        error = {"code": code, "message": text} | ({} if data is None else {"data": data})
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}

    async def result(self, request: dict[str, Any], result: Any) -> None:
        """Answer a request of the client."""
        await self.burst(self.result_of(request, result))

    async def error(self, request: dict[str, Any], code: int, text: str = "no", data: Any = None) -> None:
        """Refuse a request of the client."""
        await self.burst(self.error_of(request, code, text, data))

    async def end(self, prompt: dict[str, Any], stop_reason: str = "end_turn") -> None:
        """Answer a prompt."""
        await self.result(prompt, {"stopReason": stop_reason})

    def asking(self, method: str, params: dict[str, Any], id: Any = None) -> dict[str, Any]:
        self._ids += 1
        return {
            "jsonrpc": "2.0",
            "id": f"a{self._ids}" if id is None else id,
            "method": method,
            "params": params,
        }

    async def ask(self, method: str, params: dict[str, Any], id: Any = None) -> Any:
        """Send a request and return its id."""
        request = self.asking(method, params, id)
        await self.burst(request)
        return request["id"]

    def permission(
        self, session: str = "s1", options: list[dict[str, str]] = ALLOW_OR_REJECT, **tool_call: Any
    ) -> dict[str, Any]:
        """Return a permission request."""
        call = {"toolCallId": "t1", **tool_call}
        params = {"sessionId": session, "toolCall": call, "options": options}
        return self.asking("session/request_permission", params)

    async def ask_permission(
        self, session: str = "s1", options: list[dict[str, str]] = ALLOW_OR_REJECT, **tool_call: Any
    ) -> Any:
        """Send a permission request and return its id."""
        request = self.permission(session, options, **tool_call)
        await self.burst(request)
        return request["id"]

    async def withdraw(self, id: Any) -> None:
        """Take a request back."""
        await self.burst({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})

    def close(self) -> None:
        """Close the agent's end, as the end of its process would."""
        self.stream.close()

    # Whole conversations -------------------------------------------------------------------------------

    async def introduce(self, capabilities: dict[str, Any] | None = None, **more: Any) -> None:
        """Answer ``initialize``."""
        request = await self.expect("initialize", protocolVersion=1)
        capabilities = EVERYTHING if capabilities is None else capabilities
        await self.result(request, {"protocolVersion": 1, "agentCapabilities": capabilities, **more})

    async def new_session(self, id: str = "s1", **more: Any) -> dict[str, Any]:
        """Answer ``session/new``."""
        request = await self.expect("session/new")
        await self.result(request, {"sessionId": id, **more})
        return request

    async def prompt(self, session: str = "s1") -> dict[str, Any]:
        """Return the prompt that comes next."""
        return await self.expect("session/prompt", sessionId=session)


Script = Callable[[Wire], Awaitable[object]]


class Scene:
    """A connected agent and a script for it: ``async with Scene(script) as (agent, wire)``.

    Leaving the block closes the connection, and checks that the conversation was legal to its end.

    Args:
        script: what the agent does after its introduction; by default nothing: the test drives the wire.
        options: what the host offers.
        capabilities: what the agent offers; by default `EVERYTHING`.
        limit: bytes that the pipes between the two hold.
        peaceful: the connection is closed in order, so that every request has to be answered.
    """

    def __init__(
        self,
        script: Script | None = None,
        options: AcpOptions | None = None,
        *,
        capabilities: dict[str, Any] | None = None,
        limit: int = MEMORY_PIPE_BYTES,
        peaceful: bool = True,
        **introduction: Any,
    ) -> None:
        self._script = script
        self._options = AcpOptions() if options is None else options
        self._capabilities = capabilities
        self._limit = limit
        self._peaceful = peaceful
        self._introduction = introduction
        self._script_done = trio.Event()

    async def __aenter__(self) -> tuple[ConnectedAgent, Wire]:
        ours, theirs = open_memory_pair(self._limit)
        self.wire = wire = Wire(theirs)
        self._manager = trio.open_nursery()
        nursery = await self._manager.__aenter__()
        try:
            nursery.start_soon(self._run, wire)
            self.agent = await connect_acp(nursery, ours, self._options)
        except BaseException as error:
            nursery.cancel_scope.cancel()
            if not await self._manager.__aexit__(type(error), error, error.__traceback__):
                raise
        self._nursery = nursery
        return self.agent, wire

    async def _run(self, wire: Wire) -> None:
        await wire.introduce(self._capabilities, **self._introduction)
        if self._script is not None:
            await self._script(wire)
        self._script_done.set()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if exc is None:
            try:
                await self._close()
            except BaseException as error:
                exc = error
        if exc is not None:
            self._nursery.cancel_scope.cancel()
        if await self._manager.__aexit__(None if exc is None else type(exc), exc, traceback):
            return True
        if exc is not None and exc_type is None:
            raise exc
        return None

    async def _close(self) -> None:
        with trio.fail_after(PATIENCE):
            await self._script_done.wait()
            async with trio.open_nursery() as nursery:
                if not self.wire.ended:
                    nursery.start_soon(self._drain)
                await self.agent.aclose()
        if self._peaceful:
            self.wire.referee.end_of_client()
        self.wire.close()

    async def _drain(self) -> None:
        try:
            await self.wire.drain()
        except trio.ClosedResourceError:
            pass  # the script has closed the agent's end

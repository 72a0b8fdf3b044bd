"""A raw client for tests of the agent side: it speaks JSON lines, answers as told, tolerates no mistake.

Not a `ScriptedClient` of the test kit: it reads in the background, so that a test can wait for what it is
about and pass over the rest.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import trio

from trio_acp.agent import AgentApp
from trio_acp.schema import AGENT_METHODS, CLIENT_METHODS, structure, structure_update
from trio_acp.testing import FULL_CLIENT

SECONDS: Final = 30.0
"""How long anything is waited for."""

HOLD: Final = object()
"""Leave a request unanswered; `ScriptedClient.reply` or nobody answers it."""

EVERYTHING: Final = FULL_CLIENT


class WireError(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        super().__init__(f"{code}: {message} {data!r}")
        self.code = code
        self.message = message
        self.data = data


class ScriptedClient:
    """One raw connection to an agent."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self.log: list[dict[str, Any]] = []
        """Every message of the agent, in order."""
        self.on: dict[str, Callable[[dict[str, Any]], Any]] = {}
        """What to answer to a method of the client: a result, `HOLD`, or a `WireError`."""
        self.raw: list[bytes] = []
        self._next_id = 0
        self._open: dict[Any, str] = {}
        self._answers: dict[Any, dict[str, Any]] = {}
        self._theirs: dict[int, str] = {}
        self._changed = trio.Event()
        self.ended = trio.Event()

    # Sending -----------------------------------------------------------------------------------------

    async def send_line(self, line: bytes) -> None:
        await self.stream.send_all(line + b"\n")

    async def send(self, **message: Any) -> None:
        await self.send_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def send_many(self, *messages: dict[str, Any]) -> None:
        """Send messages so that the agent reads them in one piece."""
        for message in messages:
            if "id" in message and "method" in message:
                self._open[message["id"]] = message["method"]
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        await self.stream.send_all(b"".join(lines))

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Make a request, to be sent with `send_many`."""
        self._next_id += 1
        return {"id": f"c{self._next_id}", "method": method, "params": params}

    async def start(self, method: str, **params: Any) -> str:
        """Send a request and return its id."""
        request = self.request(method, **params)
        await self.send_many(request)
        return str(request["id"])

    async def notify(self, method: str, **params: Any) -> None:
        await self.send(method=method, params=params)

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.start(method, **params))

    async def answer(self, id: Any) -> Any:
        """Wait for an answer; an error is raised as `WireError`."""
        await self.wait_until(lambda: id in self._answers)
        message = self._answers[id]
        if "error" in message:
            error = message["error"]
            raise WireError(error["code"], error["message"], error.get("data"))
        return message["result"]

    def answered(self, id: Any) -> bool:
        return id in self._answers

    async def reply(self, request: dict[str, Any], result: Any) -> None:
        """Answer a request that was held."""
        if isinstance(result, WireError):
            await self.send(id=request["id"], error={"code": result.code, "message": result.message})
        else:
            await self.send(id=request["id"], result=result)

    # The usual beginnings ----------------------------------------------------------------------------

    async def initialize(self, capabilities: dict[str, Any] | None = None) -> Any:
        offered = EVERYTHING if capabilities is None else capabilities
        return await self.call(
            "initialize",
            protocolVersion=1,
            clientCapabilities=offered,
            clientInfo={"name": "scripted", "version": "1"},
        )

    async def new_session(self, cwd: str = "/proj", **params: Any) -> str:
        result = await self.call("session/new", cwd=cwd, mcpServers=[], **params)
        return str(result["sessionId"])

    async def prompt(self, session: str, text: str = "go") -> Any:
        return await self.answer(await self.start_prompt(session, text))

    async def start_prompt(self, session: str, text: str = "go") -> str:
        return await self.start("session/prompt", **prompt_params(session, text))

    async def cancel(self, session: str) -> None:
        await self.notify("session/cancel", sessionId=session)

    # What came ---------------------------------------------------------------------------------------

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(SECONDS):
            while not condition():
                assert not self.ended.is_set(), f"the agent ended the connection; it sent {self.log}"
                await self._changed.wait()

    async def wait_for(self, method: str, count: int = 1) -> dict[str, Any]:
        """Wait for the agent's request or notification with that method, the first one or a later one."""
        await self.wait_until(lambda: len(self.got(method)) >= count)
        return self.got(method)[count - 1]

    def got(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.log if message.get("method") == method]

    def params(self, method: str) -> list[dict[str, Any]]:
        return [message["params"] for message in self.got(method)]

    def updates(self, *tags: str) -> list[dict[str, Any]]:
        found = [message["params"]["update"] for message in self.got("session/update")]
        return [update for update in found if not tags or update["sessionUpdate"] in tags]

    def said(self) -> str:
        return "".join(update["content"]["text"] for update in self.updates("agent_message_chunk"))

    def withdrawn(self) -> list[Any]:
        return [params["requestId"] for params in self.params("$/cancel_request")]

    def methods(self) -> list[str]:
        """The order of things: methods, and ``=id`` for answers."""
        return [message["method"] if "method" in message else f"={message['id']}" for message in self.log]

    # Reading -----------------------------------------------------------------------------------------

    async def read(self) -> None:
        buffer = b""
        try:
            while data := await self.stream.receive_some():
                buffer += data
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    self.raw.append(line)
                    await self._take(json.loads(line))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.ended.set()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _take(self, message: dict[str, Any]) -> None:
        assert message.pop("jsonrpc") == "2.0"
        self.log.append(message)
        method = message.get("method")
        if method is None:
            self._take_answer(message)
        else:
            if method in CLIENT_METHODS:
                structure(CLIENT_METHODS[method].params, message["params"])
            if method == "session/update":
                structure_update(message["params"]["update"])
            if "id" in message:
                assert message["id"] not in self._theirs, "an id was used twice"
                self._theirs[message["id"]] = method
                await self._answer(message)
        self._wake()

    def _take_answer(self, message: dict[str, Any]) -> None:
        id = message["id"]
        assert id is None or id in self._open, f"an answer to nothing: {message}"
        assert id not in self._answers or id is None, f"a second answer: {message}"
        assert ("result" in message) != ("error" in message)
        self._answers[id] = message
        if id is not None and "result" in message and self._open[id] in AGENT_METHODS:
            structure(AGENT_METHODS[self._open[id]].result, message["result"])

    async def _answer(self, message: dict[str, Any]) -> None:
        handler = self.on.get(message["method"])
        if handler is None:
            raise AssertionError(f"the agent asked for something that was not expected: {message}")
        result = handler(message["params"])
        if result is not HOLD:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.reply(message, result)


def prompt_params(session: str, text: str = "go") -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


@contextlib.asynccontextmanager
async def raw_client(app: AgentApp) -> AsyncGenerator[ScriptedClient]:
    """Connect without initializing; at the end the client goes, and the agent has to end."""
    async with trio.open_nursery() as nursery:
        client = ScriptedClient(app.connect_in_memory(nursery))
        nursery.start_soon(client.read)
        try:
            yield client
        finally:
            with trio.CancelScope(shield=True):
                await client.stream.aclose()


@contextlib.asynccontextmanager
async def connected(
    app: AgentApp, capabilities: dict[str, Any] | None = None
) -> AsyncGenerator[ScriptedClient]:
    """Connect and initialize, with a client that offers everything unless told otherwise."""
    async with raw_client(app) as client:
        await client.initialize(capabilities)
        yield client


def agent(handler: Callable[..., Awaitable[object]], **options: Any) -> AgentApp:
    """Make an app of a prompt handler."""
    app = AgentApp("test-agent", "1.0", **options)
    app.on_prompt(handler)
    return app

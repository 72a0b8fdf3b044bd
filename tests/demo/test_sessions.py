"""Sessions of the demo agent over its whole life, seen from outside on raw messages."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import trio

from trio_acp.agent import FileSessionStore
from trio_acp.demo import create_app


class RawClient:
    """Sends requests as JSON lines, and keeps the updates that come before each answer."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._rest = b""
        self._last_id = 0
        self.updates: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer, whole."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        await self._stream.send_all(json.dumps(message).encode() + b"\n")
        self.updates = []
        with trio.fail_after(20):
            while True:
                answer = await self._receive()
                if answer.get("id") == self._last_id:
                    return answer
                assert answer["method"] == "session/update"
                self.updates.append(answer["params"]["update"])

    async def _receive(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            data = await self._stream.receive_some(65536)
            assert data
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


async def start(nursery: trio.Nursery, store: FileSessionStore) -> tuple[RawClient, trio.abc.Stream]:
    """Start an agent that knows nothing but the store."""
    stream = create_app(store, pace=0).connect_in_memory(nursery)
    client = RawClient(stream)
    answer = await client.call("initialize", protocolVersion=1, clientCapabilities={})
    assert answer["result"]["agentCapabilities"]["loadSession"] is True
    return client, stream


async def test_a_session_is_listed_loaded_resumed_closed_and_deleted_by_later_agents(
    tmp_path: pathlib.Path,
) -> None:
    """S2, S3, S7: what was said is replayed, and what was chosen is in force again."""
    store = FileSessionStore(tmp_path / "store")
    place: dict[str, Any] = {"cwd": str(tmp_path), "mcpServers": []}
    async with trio.open_nursery() as nursery:
        client, stream = await start(nursery, store)
        id = (await client.call("session/new", **place))["result"]["sessionId"]
        await client.call("session/set_mode", sessionId=id, modeId="auto")
        await client.call("session/set_config_option", sessionId=id, configId="detail", value="full")
        prompt = [{"type": "text", "text": "write a.txt: hello"}]
        answer = await client.call("session/prompt", sessionId=id, prompt=prompt)
        assert answer["result"]["stopReason"] == "end_turn"
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        client, stream = await start(nursery, store)
        (listed,) = (await client.call("session/list"))["result"]["sessions"]
        assert (listed["sessionId"], listed["title"]) == (id, "write a.txt: hello")
        loaded = (await client.call("session/load", sessionId=id, **place))["result"]
        replayed = client.updates
        assert replayed[0]["sessionUpdate"] == "user_message_chunk"
        assert replayed[0]["content"]["text"] == "write a.txt: hello"
        said = [update for update in replayed if update["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(update["content"]["text"] for update in said) == "I have written `a.txt`."
        assert loaded["modes"]["currentModeId"] == "auto"
        values = {option["id"]: option["currentValue"] for option in loaded["configOptions"]}
        # Without the option of type boolean: this client did not say that it can show one.
        assert values == {"mode": "auto", "detail": "full"}
        assert "error" not in await client.call("session/close", sessionId=id)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        client, stream = await start(nursery, store)
        resumed = (await client.call("session/resume", sessionId=id, **place))["result"]
        assert client.updates == []
        assert resumed["modes"]["currentModeId"] == "auto"
        prompt = [{"type": "text", "text": "write b.txt: hello"}]
        await client.call("session/prompt", sessionId=id, prompt=prompt)
        assert "error" not in await client.call("session/close", sessionId=id)
        assert "error" not in await client.call("session/delete", sessionId=id)
        assert (await client.call("session/list"))["result"]["sessions"] == []
        assert "error" in await client.call("session/load", sessionId=id, **place)
        await stream.aclose()
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "b.txt").read_text() == "hello\n"

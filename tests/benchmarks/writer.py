"""The scripted agent of the client workloads: plain blocking Python, all bytes made before they are sent.

Runs on the core that its environment names, so that it takes nothing from the code under test.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.benchmarks.workloads import OPTIONS, PERMISSION, line, updates


class Wire:
    """Lines in and out."""

    def __init__(self) -> None:
        self._out = open(os.dup(1), "wb", buffering=0)  # noqa: SIM115 - for the whole life of the process
        self._in = sys.stdin.buffer

    def send(self, data: bytes) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            view = view[self._out.write(view) :]

    def tell(self, **message: Any) -> None:
        """Send one message."""
        self.send(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end."""
        data = self._in.readline()
        return json.loads(data) if data else None


def permissions(wire: Wire, session_id: str, count: int, at_once: int) -> None:
    """Ask for permission again and again, ``at_once`` requests open at a time."""
    for start in range(0, count, at_once):
        asked = range(start, min(count, start + at_once))
        requests = [
            {
                "jsonrpc": "2.0",
                "id": f"ask-{number}",
                "method": "session/request_permission",
                "params": {
                    "sessionId": session_id,
                    "toolCall": PERMISSION,
                    "options": OPTIONS,
                },
            }
            for number in asked
        ]
        wire.send(b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in requests))
        answered = set[str]()
        while len(answered) < len(asked):
            answer = wire.receive()
            assert answer is not None, "the client has gone"
            assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}, answer
            answered.add(answer["id"])
        assert answered == {f"ask-{number}" for number in asked}


def main() -> None:
    """Serve until the client closes its end."""
    if core := os.environ.get("BENCHMARK_PEER_CORE"):
        os.sched_setaffinity(0, {int(core)})
    wire = Wire()
    sessions = 0
    waiting: list[tuple[Any, str, dict[str, Any]]] = []
    while (message := wire.receive()) is not None:
        match message.get("method"):
            case "initialize":
                wire.tell(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                wire.tell(id=message["id"], result={"sessionId": f"session-{sessions}"})
                sessions += 1
            case "session/prompt":
                params = message["params"]
                waiting.append((message["id"], params["sessionId"], json.loads(params["prompt"][0]["text"])))
                if len(waiting) < waiting[0][2].get("sessions", 1):
                    continue  # all sessions stream at once, as soon as all of them have asked
                order = waiting[0][2]
                if order["work"] == "permission":
                    permissions(wire, waiting[0][1], order["count"], order.get("at_once", 1))
                else:
                    lines: list[bytes] = []
                    for update in updates(order):
                        lines += [line(session_id, update) for _, session_id, _ in waiting]
                    wire.send(b"\n".join([*lines, b""]))
                for id, _, _ in waiting:
                    wire.tell(id=id, result={"stopReason": "end_turn"})
                waiting.clear()
            case None if "id" in message:
                raise AssertionError(f"an answer that nobody waits for: {message}")
            case _ if "id" in message:
                wire.tell(id=message["id"], result={})
            case _:
                pass


if __name__ == "__main__":
    main()

"""What no agent in Python can be much faster than: decode, encode, and one write for each message."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson


def send(**message: Any) -> None:
    os.write(1, orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n")


def serve(line: bytes) -> None:
    """Do what a message asks for."""
    message = orjson.loads(line)
    match message["method"]:
        case "initialize":
            send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            send(id=message["id"], result={"sessionId": "session-0"})
        case _:
            for number in range(10):
                content = {"type": "text", "text": f"{number:08d} ".ljust(60, "x")}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                send(method="session/update", params={"sessionId": "session-0", "update": update})
            send(id=message["id"], result={"stopReason": "end_turn"})


if __name__ == "__main__":
    for each in sys.stdin.buffer:
        serve(each)

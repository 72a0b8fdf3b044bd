"""The least that is an agent, in plain Python, so that it starts in no time; one word makes it a bad one."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator
from typing import Any


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def refuse(id: Any, code: int) -> None:
    send(id=id, error={"code": code, "message": "no"})


def lines(waiting: dict[str, Any]) -> Iterator[str]:
    """The lines of the input, and an empty one when a turn has waited long enough for its cancellation."""
    rest = b""
    while True:
        while b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            yield line.decode("utf-8", "replace")
        if waiting and not select.select([0], [], [], 0.2)[0]:
            yield ""
            continue
        data = os.read(0, 65536)
        if not data:
            return
        rest += data


def main(bad: bool) -> None:
    sessions: list[str] = []
    waiting: dict[str, Any] = {}
    introduced = False
    for line in lines(waiting):
        for session, id in list(waiting.items()):
            del waiting[session]
            cancelled = '"session/cancel"' in line and session in line
            send(id=id, result={"stopReason": "cancelled" if cancelled else "end_turn"})
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except ValueError:
            refuse(None, -32700)
            continue
        if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
            if bad:
                sys.exit(3)
            refuse(None, -32600)
            continue
        id, method = message.get("id"), message.get("method")
        params: Any = message.get("params") or {}
        if isinstance(id, (list, dict, float, bool)) or (
            method is None and not {"result", "error"} & set(message)
        ):
            refuse(id if isinstance(id, (str, int)) else None, -32600)
        elif method is None or "id" not in message:
            continue
        elif not introduced and method != "initialize":
            refuse(id, -32600)
        elif not isinstance(params, dict):
            refuse(id, -32602)
        elif method == "initialize":
            if introduced or not isinstance(params.get("protocolVersion"), int):
                refuse(id, -32600)
            else:
                introduced = True
                send(id=id, result={"protocolVersion": 1})
        elif method == "session/new":
            if isinstance(params.get("cwd"), str) and isinstance(params.get("mcpServers"), list):
                sessions.append(f"s{len(sessions)}")
                send(id=id, result={"sessionId": sessions[-1]})
            else:
                refuse(id, -32602)
        elif method == "session/prompt" and params.get("sessionId") in sessions:
            waiting[params["sessionId"]] = id
        else:
            refuse(id, -32602 if method == "session/prompt" else -32601)


if __name__ == "__main__":
    main(bad="bad" in sys.argv)

"""The work: what the scripted peers send, as JSON values. Plain Python, to check every contender against.

An *order* is a JSON object in the text of a prompt; it tells the scripted agent what to do in that turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

__all__ = ["OPTIONS", "PERMISSION", "W4_BYTES", "digest", "line", "updates"]

LINE_BYTES: Final = 200
"""Length of an ordinary chunk on the wire, its newline not counted."""

W4_BYTES: Final = 64 * 1024 * 1024
"""Length of the one large update: the library's default limit for a message."""

OPTIONS: Final = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

PERMISSION: Final = {
    "toolCallId": "call",
    "title": "Edit src/main.py",
    "kind": "edit",
    "status": "pending",
    "content": [
        {
            "type": "diff",
            "path": "/project/src/main.py",
            "oldText": "old line of code\n" * 60,
            "newText": "new line of code\n" * 60,
        }
    ],
    "locations": [{"path": "/project/src/main.py", "line": 12}],
    "rawInput": {"path": "/project/src/main.py", "edits": 1},
}
"""What permission is asked for: an edit of 2 KB, as coding agents show it."""


def line(session_id: str, update: dict[str, Any]) -> bytes:
    """Return a ``session/update`` as it travels, without its newline."""
    params = {"sessionId": session_id, "update": update}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def _text(number: int, length: int) -> str:
    """Return text that is different for each number: what is lost, doubled or out of order shows."""
    return f"{number:08d} ".ljust(length, "x")


def chunk(number: int, length: int, kind: str = "agent_message_chunk") -> dict[str, Any]:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": _text(number, length)}}


_OVERHEAD: Final = len(line("session-0", chunk(0, 9))) - 9


def chunks(count: int, size: int = LINE_BYTES) -> Iterator[dict[str, Any]]:
    """Yield chunks whose lines have ``size`` bytes."""
    for number in range(count):
        yield chunk(number, max(9, size - _OVERHEAD))


def _tool_call(number: int) -> dict[str, Any]:
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": f"call-{number}",
        "title": "Edit src/main.py",
        "kind": "edit",
        "status": "in_progress",
        "locations": [{"path": "/project/src/main.py", "line": number % 1000}],
        "rawInput": {"path": "/project/src/main.py", "number": number},
    }


def _tool_update(number: int, of: int, size: int) -> dict[str, Any]:
    half = size // 2
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": f"call-{of}",
        "status": "completed",
        "content": [
            {
                "type": "diff",
                "path": "/project/src/main.py",
                "oldText": "old line of code\n" * (half // 17),
                "newText": _text(number, 16) + "\n" + "new line of code\n" * (half // 17),
            }
        ],
    }


def mix(count: int) -> Iterator[dict[str, Any]]:
    """Yield what a coding agent sends in a working turn.

    In 40 updates there are 20 chunks, 8 thoughts, 4 tool calls with an update each (diffs of 2 to 20 KB),
    2 plans, a usage and the commands.
    """
    for number in range(count):
        place = number % 40
        if place in (3, 13, 23, 33):
            yield _tool_call(number)
        elif place in (8, 18, 28, 38):
            yield _tool_update(number, number - 5, (2048, 4096, 8192, 20480)[place // 10])
        elif place % 5 == 1:
            yield chunk(number, 60, "agent_thought_chunk")
        elif place in (4, 24):
            entries = [
                {"content": f"Step {step} of {number}", "priority": "medium", "status": "pending"}
                for step in range(6)
            ]
            yield {"sessionUpdate": "plan", "entries": entries}
        elif place == 9:
            yield {
                "sessionUpdate": "usage_update",
                "used": number,
                "size": 200000,
                "cost": {"amount": 0.5, "currency": "USD"},
            }
        elif place == 19:
            commands = [
                {"name": f"command-{each}", "description": "Does what its name says"} for each in range(8)
            ]
            yield {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        else:
            yield chunk(number, 60)


def snapshots(count: int, size: int) -> Iterator[dict[str, Any]]:
    """Yield updates of one tool call, each with all of its output so far, ``size`` bytes in the end."""
    yield _tool_call(0)
    for number in range(1, count):
        output = _text(number, max(9, size * number // count))
        yield {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call-0",
            "content": [{"type": "content", "content": {"type": "text", "text": output}}],
        }


def updates(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the updates that an order asks for."""
    match order["work"]:
        case "chunks":
            yield from chunks(order["count"], order.get("size", LINE_BYTES))
        case "mix":
            yield from mix(order["count"])
        case "snapshots":
            yield from snapshots(order["count"], order["size"])
        case work:
            raise ValueError(f"no such work: {work!r}")


def _plain(value: Any) -> Any:
    """Return a JSON value without what says nothing: nulls and empty lists."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if each is not None and each != []}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def digest(received: Iterable[dict[str, Any]]) -> str:
    """Return a fingerprint of updates, in order, whatever the order of their keys."""
    total = hashlib.sha256()
    for update in received:
        total.update(json.dumps(_plain(update), sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return total.hexdigest()

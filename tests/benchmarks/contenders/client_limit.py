"""What no client can be faster than: reading alone, with splitting into lines, with decoding each line.

The ``limit`` of the job says which. Permission requests are answered with ready bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import orjson

from tests.benchmarks.probe import job, peak_bytes, report, writer_command

END = b'"result":{"stopReason"'
"""Stands in the answers to prompts only."""


class Pipe:
    """The scripted agent, and the bytes to and from it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(writer_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.read_fd = self.process.stdout.fileno()
        self.write_fd = self.process.stdin.fileno()
        self.lines = self.process.stdout

    def send(self, *messages: dict[str, Any]) -> None:
        os.write(self.write_fd, b"".join(orjson.dumps(each) + b"\n" for each in messages))


def prompts(order: dict[str, Any], sessions: int) -> list[dict[str, Any]]:
    return [
        {
            "jsonrpc": "2.0",
            "id": f"prompt-{number}",
            "method": "session/prompt",
            "params": {
                "sessionId": f"session-{number}",
                "prompt": [{"type": "text", "text": json.dumps(order)}],
            },
        }
        for number in range(sessions)
    ]


def stream(pipe: Pipe, order: dict[str, Any], sessions: int, limit: str) -> None:
    """Take everything up to the last answer."""
    pipe.send(*prompts(order, sessions))
    left = sessions
    partial = bytearray()
    while left:
        data = os.read(pipe.read_fd, 65536)
        left -= data.count(END) if limit == "read" else 0
        if limit == "read":
            continue
        if b"\n" not in data:
            partial += data
            continue
        first, *lines = data.split(b"\n")
        partial += first
        whole: list[bytes | bytearray] = [partial, *lines]
        partial = bytearray(whole.pop())
        for each in whole:
            if limit == "decode":
                message = orjson.loads(each)
                left -= "id" in message
            else:
                left -= END in each[:80]


def permit(pipe: Pipe, message: dict[str, Any]) -> None:
    """Answer a permission request."""
    outcome = {"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]}
    pipe.send({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})


def permissions(pipe: Pipe, order: dict[str, Any]) -> None:
    """Answer every request."""
    pipe.send(*prompts(order, 1))
    while "method" in (message := orjson.loads(pipe.lines.readline())):
        permit(pipe, message)


def connect(sessions: int) -> Pipe:
    """Start the scripted agent and open its sessions."""
    pipe = Pipe()
    for number in range(sessions):
        pipe.send({"jsonrpc": "2.0", "id": number, "method": "session/new", "params": {}})
        pipe.lines.readline()
    return pipe


def main() -> None:
    sessions = job.get("sessions", 1)
    pipe = connect(sessions)

    def run(order: dict[str, Any]) -> None:
        if order["work"] == "permission":
            permissions(pipe, order)
        else:
            stream(pipe, order, sessions, job["limit"])

    run(job["warm"])
    before, peak = time.process_time(), peak_bytes()
    run(job["order"])
    report(time.process_time() - before, job["expected"], peak, {})
    pipe.process.kill()
    pipe.process.communicate()


if __name__ == "__main__":
    main()

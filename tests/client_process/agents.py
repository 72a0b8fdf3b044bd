"""Agents for these tests: small scripts that speak raw JSON-RPC, and share no line with the library."""

from __future__ import annotations

import pathlib
import sys
import textwrap
from typing import Any

import trio

from tests.transports.agents import PRELUDE as PROCESS_PRELUDE
from tests.transports.agents import Lives
from trio_acp.client import AcpOptions

AGENT_PRELUDE = """
import json

def note(what):
    "Tell the test, in a file, what this agent has seen."
    with open({seen!r}, "a") as file:
        file.write(what + "\\n")

def send(**message):
    sys.stdout.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\\n")
    sys.stdout.flush()

def receive():
    line = sys.stdin.readline()
    if not line:
        note("eof")
        return None
    message = json.loads(line)
    note(message.get("method", "answer"))
    return message

def answer(request, result):
    send(id=request["id"], result=result)

def update(session, text):
    content = {{"type": "text", "text": text}}
    send(method="session/update", params={{"sessionId": session,
         "update": {{"sessionUpdate": "agent_message_chunk", "content": content}}}})

def initialize(**extra):
    answer(receive(), {{"protocolVersion": 1, "agentInfo": {{"name": "script", "version": "1"}}, **extra}})

def new_session():
    answer(receive(), {{"sessionId": "s"}})

def serve(prompt):
    "Introduce this agent, then give every prompt to a function, until the end of the input."
    initialize()
    while (message := receive()) is not None:
        if message.get("method") == "session/new":
            answer(message, {{"sessionId": "s"}})
        elif message.get("method") == "session/prompt":
            prompt(message)

def until_cancelled(request):
    "A turn that ends only by a cancellation."
    update("s", "working")
    while (message := receive()) is not None:
        if message.get("method") == "session/cancel":
            answer(request, {{"stopReason": "cancelled"}})
            return

def polite_turn(request):
    update("s", "hello")
    answer(request, {{"stopReason": "end_turn"}})
"""


class Agents:
    """Writes the agents of one test, and reads what they have seen."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._seen = folder / "seen"
        self._count = 0

    def write(self, body: str, lives: Lives | None = None) -> list[str]:
        """Make an agent; return the command that runs it."""
        self._count += 1
        path = self.folder / f"agent{self._count}.py"
        prelude = PROCESS_PRELUDE.format(port=lives.port if lives is not None else 0)
        prelude += AGENT_PRELUDE.format(seen=str(self._seen))
        path.write_text(prelude + textwrap.dedent(body), encoding="utf-8")
        return [sys.executable, "-I", "-S", str(path)]

    def options(self, body: str, lives: Lives | None = None, **options: Any) -> AcpOptions:
        """Make an agent; return the options that start it."""
        command, *args = self.write(body, lives)
        options.setdefault("cwd", str(self.folder))
        return AcpOptions(command=command, args=args, **options)

    @property
    def seen(self) -> list[str]:
        """What the agents have received and noted, in order."""
        return self._seen.read_text().split("\n")[:-1] if self._seen.exists() else []

    def forget(self) -> None:
        """Begin a new list."""
        self._seen.unlink(missing_ok=True)


def is_running(pid: int) -> bool:
    """Whether there is a process of that id that is no zombie (Linux)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def elapsed_since(start: float) -> float:
    """Seconds of this run's clock."""
    return trio.current_time() - start

"""Real child processes for the tests: small scripts, and a way to know without sleeping that they died.

Each process that is to be watched connects to a listener of the test and says its name. The connection
ends when the process does, by whatever death.
"""

from __future__ import annotations

import pathlib
import sys
import textwrap
from types import TracebackType

import trio

PRELUDE = """
import os, signal, socket, sys, time

def report(name):
    "Tell the test that this process lives; it notices the end by itself."
    s = socket.create_connection(("127.0.0.1", {port}))
    s.sendall(name.encode() + b"\\n")
    globals().setdefault("kept", []).append(s)

def sleep_for_ever():
    while True:
        time.sleep(1000)
"""


class Lives:
    """The processes that have reported; use as `async with`."""

    def __init__(self) -> None:
        self._listener: trio.SocketListener
        self._streams: dict[str, trio.SocketStream] = {}

    async def __aenter__(self) -> Lives:
        (self._listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with trio.CancelScope(shield=True):
            for stream in self._streams.values():
                await trio.aclose_forcefully(stream)
            await trio.aclose_forcefully(self._listener)

    @property
    def port(self) -> int:
        port = self._listener.socket.getsockname()[1]
        assert isinstance(port, int)
        return port

    async def born(self, *names: str) -> None:
        """Wait until processes of these names have reported, in any order."""
        with trio.fail_after(20):
            while not set(names) <= set(self._streams):
                stream = await self._listener.accept()
                line = b""
                while not line.endswith(b"\n"):
                    byte = await stream.receive_some(1)
                    assert byte, "a process died before it could report"
                    line += byte
                self._streams[line.decode().strip()] = stream

    async def died(self, *names: str) -> None:
        """Wait until they have ended."""
        with trio.fail_after(20):
            for name in names:
                try:
                    assert await self._streams[name].receive_some(1) == b""
                except trio.BrokenResourceError:
                    pass  # killed with something unread: the same end

    async def dead(self, *names: str) -> None:
        """Check that they have ended already: nothing is waited for but the loopback device."""
        with trio.fail_after(1):
            await self.died(*names)


class Scripts:
    """Writes the scripts of one test."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(self, body: str, lives: Lives | None = None) -> list[str]:
        """Make a script; return the command that runs it, without loading anything it does not need."""
        self._count += 1
        path = self._folder / f"script{self._count}.py"
        prelude = PRELUDE.format(port=lives.port if lives is not None else 0)
        path.write_text(prelude + textwrap.dedent(body), encoding="utf-8")
        return [sys.executable, "-I", "-S", str(path)]

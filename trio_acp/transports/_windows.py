"""The pipes of a process on Windows: Trio's own, with what the supervisor needs beside (untested)."""

from __future__ import annotations

from typing import Protocol

import trio

from ._pair import Busy

__all__ = ["WindowsReceiveHalf", "WindowsSendHalf"]


class ClosableSendStream(Protocol):
    """What Trio's pipe to a child is, beside what its type says."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes."""

    def close(self) -> None:
        """Close without a checkpoint."""


class ClosableReceiveStream(Protocol):
    """What Trio's pipe from a child is, beside what its type says."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive bytes."""
        ...

    def close(self) -> None:
        """Close without a checkpoint."""


class WindowsSendHalf:
    """Sends through an overlapped pipe, which has no send that does not wait."""

    def __init__(self, stream: ClosableSendStream) -> None:
        self._stream = stream
        self._busy = Busy("another task is already sending to this stream")
        self._broken: str | None = None

    def send_nowait(self, data: bytes | bytearray | memoryview) -> int:
        """Take nothing: the caller goes on with `send_all`."""
        self._busy.check()
        return 0

    def check_idle(self) -> None:
        """Raise `trio.BusyResourceError` while a task is sending."""
        self._busy.check()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes, as `trio.abc.SendStream.send_all`."""
        with self._busy:
            try:
                await self._stream.send_all(data)
            except trio.ClosedResourceError:
                if self._broken is not None:
                    raise trio.BrokenResourceError(self._broken) from None
                raise

    async def wait_send_all_might_not_block(self) -> None:
        """Checkpoint: Windows does not tell."""
        with self._busy:
            await trio.lowlevel.checkpoint()

    def break_off(self, reason: str) -> None:
        """Close because the other side is gone."""
        self._broken = reason
        self.close()

    def close(self) -> None:
        """Close now."""
        self._stream.close()


class WindowsReceiveHalf:
    """Receives from an overlapped pipe; its end can be declared."""

    def __init__(self, stream: ClosableReceiveStream) -> None:
        self._stream = stream
        self._finished = False
        self.last_activity: float | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return the next bytes, `b""` at the end."""
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.ClosedResourceError:
            if self._finished:
                return b""
            raise
        if data:
            self.last_activity = trio.current_time()
        return data

    def hung_up(self) -> bool:
        """Unknown: the caller waits its grace."""
        return False

    def finish(self) -> None:
        """Let the input end here."""
        self._finished = True
        self._stream.close()

    def close(self) -> None:
        """Close now."""
        self._finished = False
        self._stream.close()

"""This process's own stdin and stdout as the way to a client: what an agent serves on (W2)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, Any, Final, final

import trio

from ._blocking import BlockingReceiveStream, BlockingSendStream
from ._pair import ReceiveHalf, SendHalf, StreamPair

if sys.platform != "win32":  # pragma: no branch - tested on POSIX only
    from ._fd import FdReceiveStream, FdSendStream

__all__ = ["StdioStream", "open_stdio"]

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2


def open_stdio() -> StdioStream:
    """Take this process's stdin and stdout for the protocol, until the returned stream is closed.

    From then on nothing else can get between the messages: the protocol goes through private duplicates
    that child processes do not inherit, descriptor 0 reads from the null device, descriptor 1 is stderr, and
    `sys.stdout` is `sys.stderr`, so that `print` and a child's output end up there. Closing the stream puts
    all of it back.

    stdin and stdout may be pipes, sockets, terminals or files. What shares them with this process does not
    see them go into non-blocking mode, if the system lets us open them a second time; else pipes and
    sockets are in that mode until the stream is closed, and terminals are read by a thread.

    What `sys.stdin` has read ahead by now is not seen: do not read from it before.

    Returns:
        The stream: Trio's stream methods, and `send_nowait`.

    Raises:
        trio.BusyResourceError: it is open already.
        OSError: stdin or stdout is closed.
    """
    return StdioStream()


@final
class StdioStream(trio.abc.Stream):
    """The way to the client; made by `open_stdio`."""

    _open: StdioStream | None = None

    def __init__(self) -> None:
        if StdioStream._open is not None:
            raise trio.BusyResourceError("this process's stdio is open already; one connection can use it")
        # Before anything is duplicated: a duplicate would get the number of what is closed.
        check_open(STDIN, "stdin", sys.__stdin__)
        check_open(STDOUT, "stdout", sys.__stdout__)
        flush(sys.stdout)
        flush(sys.stderr)
        # Undone last in, first out, also if one of the steps fails.
        with contextlib.ExitStack() as undo:
            fill_stderr(undo)
            receive, send = claim_stdin(undo), claim_stdout(undo)
            self._pair = StreamPair(send, receive)
            self.receiving_half: ReceiveHalf = receive
            """The half that receives; see `StreamPair`."""
            self.send_nowait: Callable[[bytes | bytearray | memoryview], int] = send.send_nowait
            """Hand over what the operating system takes at once; return how many bytes that were."""
            stdout, sys.stdout = sys.stdout, sys.stderr
            undo.callback(restore_sys_stdout, stdout, sys.stderr)
            self._undo = undo.pop_all()
        StdioStream._open = self

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes, as `trio.abc.SendStream.send_all`."""
        await self._pair.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for some bytes."""
        await self._pair.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return the next bytes, `b""` when the client has closed its end."""
        return await self._pair.receive_some(max_bytes)

    def close(self) -> None:
        """Close now, and put everything back."""
        if StdioStream._open is self:
            StdioStream._open = None
            self._undo.close()

    async def aclose(self) -> None:
        """Close and put everything back, then checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()


def check_open(fd: int, name: str, file: object) -> None:
    """Raise OSError if a standard descriptor is closed, or was when the program began.

    Python has no file for it then, and what has its number by now is something else, such as Trio's own.
    """
    try:
        os.fstat(fd)
    except OSError:
        file = None
    if file is None:
        raise OSError(errno.EBADF, f"{name} is closed, so that there is no client to serve")


def claim_stdin(undo: contextlib.ExitStack) -> ReceiveHalf:
    """Move the input of the protocol away from descriptor 0."""
    half: ReceiveHalf
    fd, waits = move_away(STDIN, os.O_RDONLY, undo)
    if sys.platform != "win32" and waits:
        half = FdReceiveStream(fd)
    else:
        half = BlockingReceiveStream(fd, abandon=not is_file(fd))
    undo.callback(half.close)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, STDIN)
    os.close(null)
    return half


def claim_stdout(undo: contextlib.ExitStack) -> SendHalf:
    """Move the output of the protocol away from descriptor 1, and let that be stderr."""
    half: SendHalf
    fd, waits = move_away(STDOUT, os.O_WRONLY, undo)
    if sys.platform != "win32" and waits:
        half = FdSendStream(fd)
    else:
        half = BlockingSendStream(fd, abandon=not is_file(fd))
    undo.callback(half.close)
    os.dup2(STDERR, STDOUT)
    # What was written to the old sys.stdout must leave its buffer while that still means stderr.
    undo.callback(flush, sys.stdout)
    return half


def move_away(fd: int, access: int, undo: contextlib.ExitStack) -> tuple[int, bool]:
    """Duplicate a standard descriptor, privately if possible; `undo` puts it back.

    Returns:
        The duplicate, and whether it is in non-blocking mode.
    """
    kept = os.dup(fd)
    undo.callback(os.close, kept)
    undo.callback(os.dup2, kept, fd)
    if sys.platform == "win32":  # pragma: no cover - Windows
        import msvcrt

        copy = os.dup(fd)
        msvcrt.setmode(copy, os.O_BINARY)
        return copy, False
    else:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or os.isatty(fd):
            own = reopen(fd, access)
            if own is not None:
                return own, True
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            undo.callback(os.set_blocking, kept, os.get_blocking(kept))
            os.set_blocking(kept, False)
            return os.dup(fd), True
        return os.dup(fd), False


def reopen(fd: int, access: int) -> int | None:
    """Open what `fd` refers to once more, in a non-blocking mode of its own; None if that cannot be."""
    if sys.platform == "win32":  # pragma: no cover - Windows
        return None
    else:
        path = f"/proc/self/fd/{fd}" if os.path.isdir("/proc/self/fd") else None
        try:
            own = os.open(path or os.ttyname(fd), access | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return None
        if os.path.sameopenfile(fd, own):
            return own
        os.close(own)
        return None


def fill_stderr(undo: contextlib.ExitStack) -> None:
    """Let descriptor 2 be the null device where it is closed, so that no duplicate gets its number."""
    try:
        os.fstat(STDERR)
    except OSError:
        # stdin and stdout are open, so that this is the lowest free number: that of stderr.
        os.set_inheritable(os.open(os.devnull, os.O_WRONLY), True)
        undo.callback(os.close, STDERR)


def is_file(fd: int) -> bool:
    """Whether reading and writing never waits for anybody."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def flush(file: IO[Any] | None) -> None:
    """Flush one of `sys`'s files, which may be missing, closed or broken; that is not for us to report."""
    try:
        if file is not None:
            file.flush()
    except (OSError, ValueError):
        pass


def restore_sys_stdout(stdout: Any, ours: Any) -> None:
    """Put `sys.stdout` back, unless somebody has replaced it meanwhile."""
    if sys.stdout is ours:
        sys.stdout = stdout

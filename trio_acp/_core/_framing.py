"""Cutting a byte stream into lines (W1): linear in the input, bounded in memory, nothing decoded."""

from __future__ import annotations

from io import BytesIO
from typing import Final

__all__ = ["DEFAULT_MAX_MESSAGE_BYTES", "LineFramer"]

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Screenshots of several megabytes are ordinary tool output; beyond this a line is no message."""


class LineFramer:
    """Collects chunks of bytes and hands out the complete lines in them.

    The work is linear in the bytes fed, however they are chunked: each chunk is searched once, and
    what has no newline yet is appended to one growing buffer.

    Args:
        max_message_bytes: longest line allowed, in bytes, its newline not counted.
    """

    __slots__ = ("_max", "_partial", "overflowed")

    overflowed: bool
    """A line passed the limit: nothing more is framed."""

    def __init__(self, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._max = max_message_bytes
        self._partial = bytearray()
        self.overflowed = False

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a line that has not ended yet."""
        return len(self._partial)

    def feed(self, data: bytes | bytearray) -> list[bytes | bytearray]:
        """Take a chunk and return the lines that it completes, each with its newline.

        When a line passes the limit, the lines before it are returned, ``overflowed`` turns true,
        and what was held of the line is dropped. The caller has then to give up the stream.

        Args:
            data: the bytes received; not empty.
        """
        if self.overflowed:
            return []
        held = len(self._partial)
        lines: list[bytes | bytearray] = []
        rest = data
        if b"\n" in data:
            # `split` looks at one byte after the other, this at many at once: 0.1 us for 1 KB, and not 0.8.
            lines += BytesIO(data).readlines()
            rest = b"" if data.endswith(b"\n") else lines.pop()
        if held + len(data) > self._max:
            # Only now can any line be too long, so that ordinary chunks skip this walk.
            for index, line in enumerate(lines):
                if len(line) - 1 + (held if index == 0 else 0) > self._max:
                    return self._overflow(lines, index)
            if len(rest) + (0 if lines else held) > self._max:
                return self._overflow(lines, len(lines))
        if lines and held:
            self._partial += lines[0]
            lines[0] = self._partial
            self._partial = bytearray()
        self._partial += rest
        return lines

    def _overflow(self, lines: list[bytes | bytearray], good: int) -> list[bytes | bytearray]:
        self.overflowed = True
        del lines[good:]
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = self._partial
        self._partial = bytearray()
        return lines

    def end(self) -> bytearray | None:
        """Return the last line, and a newline, if the stream ended without one after it, else None."""
        rest, self._partial = self._partial, bytearray()
        return rest + b"\n" if rest else None

"""The output of a command, of which the newest bytes are kept (F2)."""

from __future__ import annotations

import codecs
from collections import deque
from typing import final

__all__ = ["OutputBuffer"]

_LONGEST_REST = 3
"""Bytes of a character that can be left when its first one is cut off."""


@final
class OutputBuffer:
    """Keeps the newest bytes of a stream, up to a limit, and gives them as text.

    Args:
        limit: bytes to keep, and bytes that the text has at most when encoded.
    """

    __slots__ = ("_chunks", "limit", "size", "total")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.size: int = 0
        """Bytes that are kept."""
        self.total: int = 0
        """Bytes that have come."""
        self._chunks: deque[bytes] = deque()

    def feed(self, data: bytes) -> None:
        """Take the next bytes; the oldest ones go."""
        self.total += len(data)
        data = data[-self.limit :] if self.limit else b""
        if data:
            self._chunks.append(data)
        self.size += len(data)
        while (excess := self.size - self.limit) > 0:
            oldest = self._chunks.popleft()
            if excess < len(oldest):
                self._chunks.appendleft(oldest[excess:])
            self.size -= min(excess, len(oldest))

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """Return what is kept as text, and whether older output is gone.

        Begins with a whole character. What is no UTF-8 becomes replacement characters.

        Args:
            ended: no more bytes will come; else the beginning of a character at the end is left out,
                which is not gone but to come.
        """
        data = b"".join(self._chunks)
        self._chunks = deque([data] if data else [])
        truncated = self.total > self.limit
        if truncated:
            data = _from_character(data)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=ended)
        encoded = text.encode("utf-8")
        if len(encoded) > self.limit:
            # Replacement characters are longer than what they stand for.
            return _from_character(encoded[len(encoded) - self.limit :]).decode("utf-8"), True
        return text, truncated


def _from_character(data: bytes) -> bytes:
    """Leave out the rest of a character whose beginning was cut off."""
    start = 0
    while start < min(len(data), _LONGEST_REST) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]

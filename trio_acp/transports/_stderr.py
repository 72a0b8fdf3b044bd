"""What an agent writes to stderr: a bounded tail for error messages, lines for whoever wants them (W2)."""

from __future__ import annotations

import logging
from collections.abc import Callable

__all__ = ["STDERR_LINE_BYTES", "STDERR_TAIL_BYTES", "StderrLog"]

logger = logging.getLogger("trio_acp.transports")

STDERR_TAIL_BYTES = 64 * 1024
"""The newest bytes that are kept: some hundred lines, more than anybody reads of an error message."""

STDERR_LINE_BYTES = 16 * 1024
"""A longer line is handed on in pieces: a progress bar may never end its line."""


class StderrLog:
    """Takes chunks of bytes; keeps the tail of them, passes lines on."""

    def __init__(self, on_line: Callable[[str], object] | None = None) -> None:
        self._on_line = on_line
        self._tail = bytearray()
        self._cut = False
        self._line = bytearray()
        self.callback_error: Exception | None = None

    def feed(self, data: bytes | bytearray) -> None:
        """Take the next bytes, `b""` for the end: a last line needs no line end to be passed on.

        An `Exception` of the callback is logged and kept, not raised.
        """
        if not data:
            if self._line:
                self._emit()
            return
        self._tail += data
        if len(self._tail) > STDERR_TAIL_BYTES:
            self._cut = True
            del self._tail[:-STDERR_TAIL_BYTES]
        if self._on_line is None:
            return
        *whole, rest = data.split(b"\n")
        for end in whole:
            self._add(end)
            self._emit()
        self._add(rest)

    def mute(self) -> None:
        """Pass on no more lines."""
        self._on_line = None
        self._line.clear()

    def _add(self, piece: bytes | bytearray) -> None:
        self._line += piece
        while len(self._line) > STDERR_LINE_BYTES:
            rest = self._line[STDERR_LINE_BYTES:]
            del self._line[STDERR_LINE_BYTES:]
            self._emit()
            self._line += rest

    def _emit(self) -> None:
        text = self._line.decode("utf-8", "replace").removesuffix("\r")
        self._line.clear()
        assert self._on_line is not None
        try:
            self._on_line(text)
        except Exception as error:
            # The log text of an agent must not end the connection to it; one log line tells of the bug.
            if self.callback_error is None:
                self.callback_error = error
                logger.exception("the on_stderr callback failed; further failures of it are not logged")

    def tail(self) -> str:
        """The newest output, at most `STDERR_TAIL_BYTES`, decoded with replacement characters."""
        tail = bytes(self._tail)
        if self._cut:
            # The cut may have gone through a character: leave out what is left of it.
            start = 0
            while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:
                start += 1
            tail = tail[start:]
        return tail.decode("utf-8", "replace")

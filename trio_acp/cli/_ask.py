"""Asking the user at the terminal, in a thread that nobody has to wait for."""

from __future__ import annotations

import os
import select
import sys
from typing import Final, final

import trio

from trio_acp import Decision, PermissionRequest, Reject, Selected
from trio_acp.schema import PermissionOption, PermissionOptionKind

from ._content import call_title, question_lines
from ._screen import kind_words
from ._text import one_line

if sys.platform != "win32":  # pragma: no branch - Windows has no such module
    import termios

__all__ = ["NoTerminal", "TerminalAsker"]

MAX_ANSWER_BYTES: Final = 1000
"""Bytes of one answer that are looked at: answers have a letter or a number."""

TERMINAL: Final = "/dev/tty"
"""The terminal itself: answers come from a person, also when stdin or stdout is a pipe."""


class NoTerminal(Exception):
    """There is nobody to ask."""


@final
class TerminalAsker:
    """Lets the user decide permission requests.

    Args:
        terminal: the device to ask on.
    """

    def __init__(self, terminal: str = TERMINAL) -> None:
        self._terminal = terminal

    async def ask(self, request: PermissionRequest, *, cwd: str, show_request: bool) -> Decision:
        """Ask until there is an answer that can be understood. No answer is a rejection.

        Cancellation: the thread that reads is told to stop, and not waited for.

        Args:
            request: what to ask.
            cwd: the directory of the session, for short paths.
            show_request: write what it is about as well, because the user cannot see that elsewhere.

        Raises:
            NoTerminal: there is none, or it has gone.
        """
        text = _menu(request, cwd, show_request)
        while True:
            decision = understand(await self._exchange(text), request)
            if decision is not None:
                return decision
            text = f"Please answer with a number from 1 to {len(request.options)}: "

    async def _exchange(self, text: str) -> str:
        """Write a text and return the line that the user types; empty at the end of input."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            terminal = os.open(self._terminal, os.O_RDWR | getattr(os, "O_NOCTTY", 0))
        except OSError:
            raise NoTerminal from None
        told_to_stop, stop = os.pipe()
        # From here to the start of the thread nothing can be cancelled: the thread closes what it is given.
        try:
            return await trio.to_thread.run_sync(
                _converse,
                terminal,
                told_to_stop,
                text,
                abandon_on_cancel=True,
                limiter=trio.CapacityLimiter(1),
            )
        except OSError:
            raise NoTerminal from None
        finally:
            os.close(stop)


def _converse(terminal: int, told_to_stop: int, text: str) -> str:
    """Run in a thread: write, and read one line, until told to stop by the end of a pipe."""
    try:
        # What was typed before the question is no answer to it.
        if sys.platform != "win32":  # pragma: no branch - Windows has no such call
            try:
                termios.tcflush(terminal, termios.TCIFLUSH)
            except termios.error as error:
                raise OSError(*error.args) from None
        _write_all(terminal, text)
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([terminal, told_to_stop], [], [])
            if told_to_stop in ready:
                _write_all(terminal, "\n")
                return ""
            piece = os.read(terminal, MAX_ANSWER_BYTES)
            if not piece:
                _write_all(terminal, "\n")
                return ""
            answer = (answer + piece)[-MAX_ANSWER_BYTES:]
        return answer.decode("utf-8", "replace")
    finally:
        os.close(terminal)
        os.close(told_to_stop)


def _write_all(terminal: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(terminal, data) :]


def _menu(request: PermissionRequest, cwd: str, show_request: bool) -> str:
    lines: list[str] = []
    if show_request:
        lines.append(f"The agent asks: {call_title(request.tool_call)}")
        lines += [f"    {line.text}" for line in question_lines(request.tool_call, cwd)]
    lines += [
        f"  {number}) {one_line(option.name)} ({kind_words(option.kind)})"
        for number, option in enumerate(request.options, start=1)
    ]
    return "\n".join([*lines, f"Choose 1-{len(request.options)}, or press Enter to reject: "])


def understand(answer: str, request: PermissionRequest) -> Decision | None:
    """Return the decision that an answer means: a number, y, n, or nothing to reject; None if it is none."""
    word = answer.strip().lower()
    if not word or word in ("n", "no"):
        return Reject()
    if word in ("y", "yes"):
        option = least_consent(request)
        return None if option is None else Selected(option.option_id)
    if word.isdecimal() and word.isascii() and len(word) < 5 and 1 <= int(word) <= len(request.options):
        return Selected(request.options[int(word) - 1].option_id)
    return None


def least_consent(request: PermissionRequest) -> PermissionOption | None:
    """Return the option that allows the least: once rather than always; None where nothing allows."""
    once = (option for option in request.options if option.kind == PermissionOptionKind.ALLOW_ONCE)
    return next(once, request.first_allow())

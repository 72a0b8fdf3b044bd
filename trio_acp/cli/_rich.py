"""Colours, and a place for what is going on. The only module that needs rich, imported when it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO, final

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

__all__ = ["RichOutput"]

STYLES: Final = {
    "text": "",
    "thought": "dim italic",
    "title": "bold",
    "path": "bold",
    "result": "dim",
    "added": "green",
    "removed": "red",
    "place": "cyan",
    "question": "bold yellow",
    "remark": "dim",
    "warning": "yellow",
    "pending": "dim",
    "in_progress": "cyan",
    "completed": "green",
    "failed": "bold red",
}

MARKS: Final = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}

MAX_SHOWN_ACTIVITIES: Final = 8
"""Titles below the text at a time: what moves must not fill the screen."""


@final
class RichOutput:
    """Writes to a terminal in colours.

    Args:
        stream: the terminal.
    """

    shows_activity = True
    to_terminal = True

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._spinner = Spinner("dots", style="cyan")
        self._live: Live | None = None
        self._titles: list[str] = []

    def mark(self, status: str) -> str:
        """Return a status as a sign; one that is not known as a word."""
        return MARKS.get(status, f"[{status.replace('_', ' ')}]")

    def write(self, text: str, style: str) -> None:
        """Write text in its style; the terminal breaks long lines."""
        self._stop()
        # Lines one by one, so that no colour runs over the end of one.
        for part in text.splitlines(keepends=True):
            line = part.rstrip("\n")
            self._console.print(Text(line, STYLES.get(style, "")), end=part[len(line) :], soft_wrap=True)

    def activity(self, titles: Sequence[str]) -> None:
        """Show titles with a spinner each, in place of those before."""
        if self._live is not None and list(titles) == self._titles:
            return
        self._titles = list(titles)
        if not titles:
            self._stop()
            return
        shown = Group(
            *[Columns([self._spinner, _ellipsis(title)]) for title in titles[:MAX_SHOWN_ACTIVITIES]]
        )
        if self._live is not None:
            # Seen at the next turn of the spinner: commands may write much faster than anybody can read.
            self._live.update(shown)
            return
        self._live = Live(
            shown,
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    def close(self) -> None:
        """Take the spinners away and give the cursor back."""
        self._stop()

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def _ellipsis(title: str) -> Text:
    return Text(title, "bold", no_wrap=True, overflow="ellipsis")

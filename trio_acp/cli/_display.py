"""What a display has to be able to do, whatever it looks like."""

from __future__ import annotations

from typing import Protocol

from trio_acp import ConnectedAgent, Decision, PermissionRequest, Session, Turn
from trio_acp.schema import SessionUpdate

from ._content import TerminalLookup

__all__ = ["Display"]


class Display(Protocol):
    """Shows a turn as it happens. All methods are synchronous, and write to the standard output."""

    @property
    def shows_questions(self) -> bool:
        """Whoever is asked at the terminal sees what `question` writes."""
        ...

    def waiting(self, what: str) -> None:
        """Nothing is there yet but a reason to wait."""
        ...

    def start(self, agent: ConnectedAgent, session: Session, terminals: TerminalLookup) -> None:
        """The session is there, the turn begins. Commands that it runs here are found by `terminals`."""
        ...

    def update(self, update: SessionUpdate) -> None:
        """The agent tells something."""
        ...

    def terminal_output(self, terminal_id: str, text: str) -> None:
        """A command that runs here has written something."""
        ...

    def question(self, request: PermissionRequest) -> None:
        """The agent asks for permission; an answer follows."""
        ...

    def answered(self, request: PermissionRequest, decision: Decision) -> None:
        """Its question has been answered so."""
        ...

    def cancelling(self) -> None:
        """The user has asked for the end of the turn."""
        ...

    def end(self, turn: Turn) -> None:
        """The turn is over."""
        ...

    def failed(self, error: BaseException, message: str) -> None:
        """There is no turn, or no more of it, because of an error that is told on stderr too."""
        ...

    def close(self) -> None:
        """Leave the terminal in order. Called once, on every path."""
        ...

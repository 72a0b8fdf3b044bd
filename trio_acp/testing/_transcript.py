"""What was said on a connection, by whom, in the order in which it passed one place on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from ._shapes import is_object

__all__ = ["Entry", "Party", "Transcript", "other_party"]

Party: TypeAlias = Literal["client", "agent"]
"""One of the two sides of a connection."""

MAX_SHOWN: Final = 200
"""Characters of a message that a transcript shows in a diagnostic."""


def other_party(party: Party) -> Party:
    """Return the other side."""
    return "agent" if party == "client" else "client"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


@attrs.frozen
class Entry:
    """One message, or one line that was none.

    Attributes:
        sender: who sent it.
        message: the decoded JSON; None for a line that is no JSON.
        line: the bytes of the line without its newline, where they are known.
    """

    sender: Party
    message: Any
    line: bytes | None = None

    def __str__(self) -> str:
        arrow = "->" if self.sender == "client" else "<-"
        shown = repr(self.line) if self.message is None else json.dumps(self.message, ensure_ascii=False)
        return f"{arrow} {shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '...'}"


@final
class Transcript:
    """A conversation, in order. Messages are added whole, or as bytes in any chunking.

    Args:
        entries: what has been said so far: entries, or pairs of a sender and a message.
        seen_at: at whose end the order was observed; None for any other place. Some rules can be judged at
            the agent's end only, since messages cross each other.
    """

    def __init__(
        self, entries: Iterable[Entry | tuple[Party, Any]] = (), *, seen_at: Party | None = None
    ) -> None:
        self.entries: list[Entry] = [
            entry if isinstance(entry, Entry) else Entry(entry[0], entry[1]) for entry in entries
        ]
        self.seen_at: Party | None = seen_at
        self._partial: dict[Party, bytes] = {"client": b"", "agent": b""}

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __str__(self) -> str:
        return "\n".join(f"{index:4} {entry}" for index, entry in enumerate(self.entries))

    def add(self, sender: Party, message: Any) -> Entry:
        """Add a message.

        Args:
            sender: who sent it.
            message: it, as JSON values.
        """
        entry = Entry(sender, message)
        self.entries.append(entry)
        return entry

    def add_line(self, sender: Party, line: bytes) -> Entry | None:
        """Add a line; return its entry, None for a blank one (W1).

        Args:
            sender: who sent it.
            line: its bytes, without the newline.
        """
        if not line.strip():
            return None
        try:
            # Not straight from the bytes: that would take UTF-16, and a byte order mark, as well (W1).
            message = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            message = None
        entry = Entry(sender, message, line)
        self.entries.append(entry)
        return entry

    def feed(self, sender: Party, data: bytes | bytearray) -> list[Entry]:
        """Add bytes as they come; return the entries that they complete.

        Args:
            sender: who sent them.
            data: any part of what was sent.
        """
        *lines, self._partial[sender] = (self._partial[sender] + data).split(b"\n")
        return [entry for line in lines if (entry := self.add_line(sender, line)) is not None]

    def unfinished(self, sender: Party) -> bytes:
        """Return what a side has sent of a line that has not ended."""
        return self._partial[sender]

    def sent_by(self, sender: Party, method: str | None = None) -> list[Any]:
        """Return the messages of one side.

        Args:
            sender: the side.
            method: only calls of this method.
        """
        return [
            entry.message
            for entry in self.entries
            if entry.sender == sender
            and (method is None or (is_object(entry.message) and entry.message.get("method") == method))
        ]

    def wire_tap(self, own: Party) -> Callable[[Literal["sent", "received"], Any], None]:
        """Return a callback for ``on_wire`` of `AcpOptions` or `AgentApp` that adds what it is given.

        Args:
            own: the side that has this tap; the order is the one at that side's end.
        """
        self.seen_at = own

        def on_wire(direction: Literal["sent", "received"], message: Any) -> None:
            sender = own if direction == "sent" else other_party(own)
            if isinstance(message, bytes):
                self.add_line(sender, message)
            elif isinstance(message, str):
                self.entries.append(Entry(sender, None, message.encode()))
            else:
                self.add(sender, message)

        return on_wire

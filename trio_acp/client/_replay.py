"""What an agent told again of a conversation that was there before (S2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, final

from trio_acp.schema import PlanEntry, SessionUpdate

from ._snapshots import Message, SessionState, ToolCallState, Transcript, fold

__all__ = ["REPLAY_BYTES", "REPLAY_UPDATES", "Replay"]

REPLAY_UPDATES: Final = 65536
"""Updates of a replay that are kept; the oldest are dropped first."""

REPLAY_BYTES: Final = 64 * 1024 * 1024
"""Bytes of these, as they were on the wire."""


@final
class Replay:
    """The conversation that an agent replayed while a session was loaded; see `Session.replay`.

    None of it is new: these updates are in no turn and not in `Session.updates`. A long replay is cut at its
    old end.

    Attributes:
        lost: updates at its beginning that were dropped.
    """

    lost: int

    def __init__(self) -> None:
        self.lost = 0
        self._kept: deque[tuple[SessionUpdate, int]] = deque()
        self._size = 0
        self._transcript: Transcript | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, update: SessionUpdate, size: int) -> None:
        """Add an update. Called in the read loop.

        Args:
            update: the update.
            size: its bytes, as it was on the wire.
        """
        self._transcript = None
        self._kept.append((update, size))
        self._size += size
        while len(self._kept) > REPLAY_UPDATES or (self._size > REPLAY_BYTES and len(self._kept) > 1):
            _, dropped = self._kept.popleft()
            self._size -= dropped
            self.lost += 1

    @property
    def updates(self) -> Sequence[SessionUpdate]:
        """The updates as they came."""
        return tuple(update for update, _ in self._kept)

    @property
    def messages(self) -> Sequence[Message]:
        """The messages, the user's and thoughts among them, each put together from its chunks (T5)."""
        return self._folded().messages

    @property
    def tool_calls(self) -> Mapping[str, ToolCallState]:
        """The tool calls by id, each merged from all that was told about it (T4)."""
        return self._folded().tool_calls

    @property
    def plan(self) -> Sequence[PlanEntry] | None:
        """The newest plan; None if there was none."""
        return self._folded().plan

    def _folded(self) -> Transcript:
        if self._transcript is None:
            # Only when asked for: the state has been kept in the read loop already.
            self._transcript, state = Transcript(), SessionState()
            for update, _ in self._kept:
                fold(update, state, self._transcript)
        return self._transcript

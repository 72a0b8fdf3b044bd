"""Conversations in files: recorded from a live connection, and replayed as either side."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from trio_acp._core import redact

from ._faults import FaultyStream
from ._shapes import is_array, is_object
from ._transcript import Party, Transcript, other_party

__all__ = ["FORMAT_VERSION", "MASK", "Recorded", "Recording", "Replay", "ReplayMismatch", "WireRecorder"]

FORMAT_VERSION: Final = 1
"""Of the files that `Recording.save` writes."""

MASK: Final = "***"
"""What stands for a secret in a recording; in a replay it matches anything."""

Match: TypeAlias = Literal["bytes", "messages"]
"""How a replay compares lines: exactly, or as messages, whatever their ids are."""

ID_KEYS: Final = frozenset(
    {
        "compactionId",
        "elicitationId",
        "messageId",
        "requestId",
        "sessionId",
        "terminalId",
        "toolCallId",
    }
)
"""Fields whose values a side makes up, and the other one repeats."""


@attrs.frozen
class Recorded:
    """One line of a recording.

    Attributes:
        sender: who sent it.
        seconds: when, counted from the beginning of the recording.
        line: its bytes, without the newline.
    """

    sender: Party
    seconds: float
    line: bytes

    @property
    def message(self) -> Any:
        """The JSON in it, None if it holds none."""
        try:
            return json.loads(self.line)
        except ValueError:
            return None


@final
class Recording:
    """A recorded conversation.

    Args:
        lines: what was said.
        seen_at: at whose end it was recorded.
    """

    def __init__(self, lines: Iterable[Recorded] = (), seen_at: Party = "client") -> None:
        self.lines: list[Recorded] = list(lines)
        self.seen_at: Party = seen_at

    def transcript(self) -> Transcript:
        """Return it as a transcript, to be judged for example."""
        transcript = Transcript(seen_at=self.seen_at)
        for each in self.lines:
            transcript.add_line(each.sender, each.line)
        return transcript

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file: one JSON object a line, which a person can read and edit.

        Args:
            path: the file; what is in it is replaced.
        """
        head = {"acpRecording": FORMAT_VERSION, "seenAt": self.seen_at}
        rows: list[dict[str, Any]] = [head]
        for each in self.lines:
            row: dict[str, Any] = {"from": each.sender, "at": round(each.seconds, 6)}
            try:
                row["line"] = each.line.decode()
            except UnicodeDecodeError:
                row["base64"] = base64.b64encode(each.line).decode()
            rows.append(row)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a file that `save` has written.

        Args:
            path: the file.

        Raises:
            ValueError: it is no recording, or one of another version.
        """
        rows = [json.loads(row) for row in Path(path).read_text(encoding="utf-8").split("\n") if row]
        if not rows or rows[0].get("acpRecording") != FORMAT_VERSION:
            raise ValueError(f"{os.fspath(path)} is no recording of version {FORMAT_VERSION}")
        lines = [
            Recorded(
                row["from"],
                row["at"],
                row["line"].encode() if "line" in row else base64.b64decode(row["base64"]),
            )
            for row in rows[1:]
        ]
        return cls(lines, rows[0]["seenAt"])


@final
class WireRecorder(FaultyStream):
    """A stream that records what goes through it, both ways, without changing anything.

    Give it to `connect_acp` or `AgentApp.serve` in place of the stream that it wraps. Every env and header
    value is masked in the recording; what is masked cannot be replayed byte for byte.

    Args:
        inner: the stream to listen to.
        own: the side whose end this is.
        redacted: mask every env and header value. If false, the recording holds secrets.
    """

    def __init__(self, inner: trio.abc.Stream, own: Party, *, redacted: bool = True) -> None:
        super().__init__(inner)
        self.recording: Recording = Recording(seen_at=own)
        """What was recorded so far."""
        self._own: Party = own
        self._redacted = redacted
        self._start = trio.current_time()
        self._partial: dict[Party, bytes] = {"client": b"", "agent": b""}

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything, and record it before it can be answered."""
        self._record(self._own, bytes(data))
        await self.inner.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive some bytes, and record them."""
        data = await self.inner.receive_some(max_bytes)
        self._record(other_party(self._own), bytes(data))
        return data

    def _record(self, sender: Party, data: bytes) -> None:
        *lines, self._partial[sender] = (self._partial[sender] + data).split(b"\n")
        for line in lines:
            if line.strip():
                seconds = trio.current_time() - self._start
                self.recording.lines.append(Recorded(sender, seconds, self._cleaned(line)))

    def _cleaned(self, line: bytes) -> bytes:
        if not self._redacted:
            return line
        try:
            message = json.loads(line)
        except ValueError:
            return line
        masked = redact(message)
        if masked == message:
            return line
        return json.dumps(masked, ensure_ascii=False, separators=(",", ":")).encode()


class ReplayMismatch(AssertionError):
    """The live side did not say what the recording has."""


@final
class Replay:
    """Plays one side of a recording to a live peer, and checks that the peer says what was recorded.

    A line is sent when everything that the other side had said before it has arrived. What the peer says is
    compared in its own order, so that messages may cross differently than they did.

    Args:
        recording: the conversation.
        party: the side to play.
        match: ``"bytes"``: every line has to be the recorded one; ``"messages"``: every message has to equal
            the recorded one but for ids that the peer makes up (of requests, sessions, terminals, tool calls,
            messages); what is sent has the live ids.
        patience: seconds to wait for each of the peer's messages.
    """

    def __init__(
        self, recording: Recording, party: Party, *, match: Match = "messages", patience: float = 60.0
    ) -> None:
        self._recording = recording
        self._party: Party = party
        self._match: Match = match
        self._patience = patience
        self._live_ids: dict[str, Any] = {}
        """Live ids by what was recorded: of the peer's requests, and of everything else that has one."""

    async def run(self, stream: trio.abc.Stream) -> None:
        """Play it to its end, over a stream. The stream stays open.

        Raises:
            ReplayMismatch: the peer said something else, or less.
            trio.TooSlowError: it said nothing.
        """
        lines = _Lines(stream)
        for index, each in enumerate(self._recording.lines):
            if each.sender == self._party:
                with trio.fail_after(self._patience):
                    await stream.send_all(self._live(each) + b"\n")
                continue
            with trio.fail_after(self._patience):
                line = await lines.next()
            if line is None:
                raise ReplayMismatch(f"line {index}: the connection ended, recorded is {each.line[:500]!r}")
            if not self._fits(each, line):
                raise ReplayMismatch(
                    f"line {index}: the {each.sender} said {line[:500]!r}, recorded is {each.line[:500]!r}"
                )

    def _fits(self, recorded: Recorded, line: bytes) -> bool:
        if self._match == "bytes":
            return recorded.line == line
        then = recorded.message
        try:
            now = json.loads(line)
        except ValueError:
            return recorded.line == line
        if is_object(then) and is_object(now) and "method" in then and "id" in then and "id" in now:
            self._live_ids[_name("requestId", then["id"])] = now["id"]
            then = {**then, "id": now["id"]}
        return self._same(then, now)

    def _live(self, recorded: Recorded) -> bytes:
        """What was recorded, as an answer to the live request."""
        message = recorded.message
        if self._match == "bytes" or not is_object(message):
            return recorded.line
        live = self._with_live_ids(message)
        if "id" in message and "method" not in message:
            live["id"] = self._live_ids.get(_name("requestId", message["id"]), message["id"])
        if live == message:
            return recorded.line
        return json.dumps(live, ensure_ascii=False, separators=(",", ":")).encode()

    def _with_live_ids(self, value: Any) -> Any:
        if is_object(value):
            return {
                key: self._live_ids.get(_name(key, item), item)
                if key in ID_KEYS
                else self._with_live_ids(item)
                for key, item in value.items()
            }
        return [self._with_live_ids(item) for item in value] if is_array(value) else value

    def _same(self, then: Any, now: Any) -> bool:
        """Equal as JSON, with masked values equal to anything, and ids to what they have stood for so far."""
        if then == MASK:
            return True
        if is_object(then) and is_object(now):
            return then.keys() == now.keys() and all(
                now[key] == self._live_ids.setdefault(_name(key, then[key]), now[key])
                if key in ID_KEYS
                else self._same(then[key], now[key])
                for key in then
            )
        if is_array(then) and is_array(now):
            return len(then) == len(now) and all(map(self._same, then, now))
        return type(then) is type(now) and bool(then == now)


def _name(key: str, value: Any) -> str:
    return f"{key} {json.dumps(value)}"


class _Lines:
    """Whole lines of a stream, blank ones left out."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = b""

    async def next(self) -> bytes | None:
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if line.strip():
                    return line
                continue
            data = await self._stream.receive_some()
            if not data:
                return None
            self._buffer += data

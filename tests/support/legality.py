"""The referee of the test kit, and what this library promises of its client beyond the protocol."""

from __future__ import annotations

import json
from typing import Any

from trio_acp.testing import Entry, IllegalConversation, Transcript
from trio_acp.testing import Referee as ProtocolReferee

__all__ = ["Referee"]


class Referee:
    """Checks what a client sends, given what the agent sends; it watches at the agent's end.

    Attributes:
        sent: messages of the client, in wire order.
    """

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._transcript = Transcript(seen_at="agent")
        self._referee = ProtocolReferee(seen_at="agent")
        self._prompts: set[Any] = set()
        self._models = False
        self.odd_methods = set[str]()
        """Extension methods without an underscore, which the test has the client call."""

    def bytes_from_client(self, data: bytes) -> list[dict[str, Any]]:
        """Take bytes as they come; return the whole messages in them."""
        entries = self._transcript.feed("client", data)
        for entry in entries:
            self._judge(entry)
            self._own_rules(entry)
        messages = [entry.message for entry in entries]
        self.sent += messages
        return messages

    def _judge(self, entry: Entry) -> None:
        odd = entry.message.get("method") in self.odd_methods
        if entry.sender == "client" and entry.message.get("method") == "session/set_model":
            assert self._models, "session/set_model to an agent that offers no models"
            odd = True
        for violation in self._referee.see(entry):
            if violation.side == "client" and not (odd and violation.rule == "N1"):
                raise IllegalConversation(violation, self._transcript)

    def _own_rules(self, entry: Entry) -> None:
        message = entry.message
        assert entry.line is not None
        # W1: compact, one message a line.
        compact = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        assert len(entry.line) <= len(compact), f"not compact: {entry.line[:200]!r}"
        if message.get("method") == "session/prompt":
            self._prompts.add(message["id"])
        elif message.get("method") == "$/cancel_request":
            asked = message["params"]["requestId"]
            assert asked not in self._prompts, "a prompt is cancelled by session/cancel only"

    def from_agent(self, message: dict[str, Any]) -> None:
        """Take note of a message of the agent's; it may be as illegal as a test likes."""
        self._judge(self._transcript.add("agent", message))
        result = message.get("result")
        self._models = self._models or (isinstance(result, dict) and "models" in result)

    def end_of_client(self) -> None:
        """The client has closed its end, in peace: everything is said and whole."""
        self._referee.unfinished_line("client", self._transcript.unfinished("client"))
        for violation in self._referee.finish():
            if violation.side == "client":
                raise IllegalConversation(violation, self._transcript)

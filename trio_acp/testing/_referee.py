"""What a legal conversation is, told from its messages alone.

Written from the protocol's rules and not from the library: it shares the wire types with it, and no state
machine. Only what can be judged whatever crosses on the wire is judged; the rules that need the agent's own
view are left out unless the transcript was taken there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, final

import attrs

from trio_acp.schema import METHODS, SchemaError, structure

from ._rules import (
    Conversation,
    Request,
    check_agent_request,
    check_answer_content,
    check_client_notification,
    check_client_request,
    follow_answer,
    id_key,
)
from ._shapes import is_object
from ._transcript import Entry, Party, Transcript, other_party

__all__ = ["IllegalConversation", "Referee", "Violation", "assert_conversation_legal"]


@attrs.frozen
class Violation:
    """A rule that was broken.

    Attributes:
        rule: the tag of the rule in the documentation, for example ``"X1"``.
        side: who broke it.
        index: by which entry of the transcript; its length for what is missing at the end.
        what: what was wrong, for people.
    """

    rule: str
    side: Party
    index: int
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: the {self.side}'s message {self.index}: {self.what}"


class IllegalConversation(AssertionError):
    """A conversation breaks a rule of the protocol.

    Attributes:
        violation: the first rule that was broken.
        transcript: the conversation.
    """

    def __init__(self, violation: Violation, transcript: Transcript) -> None:
        super().__init__(violation, transcript)
        self.violation = violation
        self.transcript = transcript

    def __str__(self) -> str:
        return f"{self.violation}\n{self.transcript}"


def assert_conversation_legal(
    transcript: Transcript | Iterable[Entry | tuple[Party, Any]],
    *,
    side: Party | None = None,
    finished: bool = False,
) -> None:
    """Check that a conversation follows the ordering rules of the protocol.

    Args:
        transcript: the conversation, or its entries, or pairs of a sender and a message.
        side: blame only this side, for example because the other one is a script that breaks rules on
            purpose; None for both.
        finished: the connection was closed in peace: every request has to have its answer (W11), and every
            terminal its release (F4).

    Raises:
        IllegalConversation: a rule was broken; it names the rule, the message and the side.
    """
    whole = transcript if isinstance(transcript, Transcript) else Transcript(transcript)
    referee = Referee(seen_at=whole.seen_at)
    for entry in whole:
        referee.see(entry)
    if finished:
        for party in ("client", "agent"):
            referee.unfinished_line(party, whole.unfinished(party))
        referee.finish()
    for violation in referee.violations:
        if side is None or violation.side == side:
            raise IllegalConversation(violation, whole)


@final
class Referee:
    """Judges a conversation entry by entry; `assert_conversation_legal` does the same for a whole one.

    Args:
        seen_at: at whose end the entries are observed; None for any other place.
    """

    def __init__(self, *, seen_at: Party | None = None) -> None:
        self._talk = Conversation(seen_at)
        self._index = 0
        self._mentioned: dict[Party, set[tuple[str, Any]]] = {"client": set(), "agent": set()}
        """Ids in messages of each side that were no requests: an error may name them (W4)."""
        self.violations: list[Violation] = []
        """All rules that were broken so far."""

    def see(self, entry: Entry) -> list[Violation]:
        """Judge the next entry; return the rules that it breaks.

        Args:
            entry: the message, or the line that is none.
        """
        before = len(self.violations)
        for rule, what in self._judge(entry.sender, entry.message):
            self.violations.append(Violation(rule, entry.sender, self._index, what))
        self._index += 1
        return self.violations[before:]

    def unanswered(self, side: Party) -> list[Any]:
        """Return the ids of the requests that a side still has to answer."""
        return [request.id for request in self._talk.open[other_party(side)].values()]

    def unfinished_line(self, side: Party, data: bytes) -> None:
        """Judge what a side has sent behind its last newline when the connection ended.

        Args:
            side: who sent it.
            data: the bytes; empty for nothing.
        """
        if data:
            self.violations.append(
                Violation("W1", side, self._index, f"half a line at the end: {data[:80]!r}")
            )

    def finish(self) -> list[Violation]:
        """Judge the end of a conversation that was closed in peace; return the rules that were broken."""
        before = len(self.violations)
        for asker in ("client", "agent"):
            for request in self._talk.open[asker].values():
                what = f"{request.method} (id {request.id!r}) was never answered"
                self.violations.append(Violation("W11", other_party(asker), self._index, what))
        for terminal, state in self._talk.terminals.items():
            if state == "open":
                what = f"terminal {terminal!r} was never released"
                self.violations.append(Violation("F4", "agent", self._index, what))
        return self.violations[before:]

    # ---------------------------------------------------------------------------------------------------

    def _judge(self, sender: Party, raw: Any) -> Iterable[tuple[str, str]]:
        if not is_object(raw):
            rule = "W2" if sender == "agent" and raw is None else "W4"
            return [(rule, "a line that is no JSON object")]
        message = raw
        found: list[tuple[str, str]] = (
            [] if message.get("jsonrpc") == "2.0" else [("W1", 'jsonrpc is not "2.0"')]
        )
        if "id" in message and type(message["id"]) not in (str, int, type(None)):
            return [*found, ("W3", f"the id {message['id']!r} is no string, integer or null")]
        if "method" not in message:
            broken = self._answer(sender, message)
            if broken and "id" in message:
                self._mentioned[sender].add(id_key(message["id"]))
            return [*found, *broken]
        method = message["method"]
        params: Any = message.get("params")
        params = {} if params is None else params
        if not isinstance(method, str) or not is_object(params):
            if "id" in message:
                self._mentioned[sender].add(id_key(message["id"]))
            return [*found, ("W4", "the method is no string, or the parameters are no object")]
        if "id" in message:
            return [*found, *self._request(sender, Request(message["id"], method, params))]
        return [*found, *self._notification(sender, method, params)]

    def _known(self, sender: Party, method: str, kind: str, params: dict[str, Any]) -> list[tuple[str, str]]:
        """Judge a call by itself: its direction, its kind, its parameters."""
        info = METHODS.get(method)
        if info is None:
            if method.startswith("_") or (method.startswith("$/") and kind == "notification"):
                return []
            return [("N1", f"there is no method {method!r}, and it has no leading underscore")]
        if info.side not in (other_party(sender), "protocol"):
            return [("W4", f"{method} is a method of the {sender} itself")]
        if info.kind != kind:
            rule = "X1" if method == "session/cancel" else "X4" if method == "$/cancel_request" else "W4"
            return [(rule, f"{method} is a {info.kind}, and was sent as a {kind}")]
        try:
            structure(info.params, params)
        except SchemaError as error:
            return [("W4", f"the parameters of {method} do not fit: {error}")]
        return []

    def _request(self, sender: Party, request: Request) -> list[tuple[str, str]]:
        talk = self._talk
        found: list[tuple[str, str]] = []
        key = id_key(request.id)
        if key in talk.used[sender]:
            found.append(("W3", f"the id {request.id!r} was used before"))
        talk.used[sender].add(key)
        misfit = self._known(sender, request.method, "request", request.params)
        found += misfit
        if not misfit:
            check = check_client_request if sender == "client" else check_agent_request
            found += check(talk, request)
        # A second request under the id of an open one cannot be told from it: the first stays.
        talk.open[sender].setdefault(key, request)
        return found

    def _notification(self, sender: Party, method: str, params: dict[str, Any]) -> list[tuple[str, str]]:
        talk = self._talk
        misfit = self._known(sender, method, "notification", params)
        if misfit:
            return misfit
        if method == "$/cancel_request":
            key = id_key(params["requestId"])
            if key not in talk.used[sender]:
                return [("X4", f"a request was withdrawn that was never made: {params['requestId']!r}")]
            if key in talk.open[sender]:
                talk.open[sender][key].withdrawn = True
            return []
        if sender == "client":
            return check_client_notification(talk, method, params)
        if talk.introduced or talk.provoked:
            return []
        return [("I1", f"{method} before the answer to initialize")]

    def _answer(self, sender: Party, message: dict[str, Any]) -> list[tuple[str, str]]:
        talk = self._talk
        has_result, has_error = "result" in message, "error" in message
        if "id" not in message:
            what = (
                "an answer without an id" if has_result or has_error else "neither method, result nor error"
            )
            return [("W3" if has_result or has_error else "W4", what)]
        key = id_key(message["id"])
        request = talk.open[other_party(sender)].pop(key, None)
        if request is None and not has_result and not has_error:
            return [("W4", "neither method, result nor error")]
        if request is None:
            if has_error and (message["id"] is None or key in self._mentioned[other_party(sender)]):
                return []  # the answer to something that was no request (W4)
            if key in talk.used[other_party(sender)]:
                return [("W6", f"a second answer to request {message['id']!r}")]
            return [("W6", f"an answer to a request that was never made: {message['id']!r}")]
        if not has_result and not has_error:
            return self._invalid(request, f"the answer to {request.method} has neither result nor error")
        if has_result and has_error:
            return self._invalid(request, f"the answer to {request.method} has both result and error")
        found: list[tuple[str, str]] = []
        if has_error:
            error = message["error"]
            if not (
                is_object(error) and type(error.get("code")) is int and isinstance(error.get("message"), str)
            ):
                what = f"the error for {request.method} lacks an integer code or a text message"
                return self._invalid(request, what)
            if "Traceback (most recent call last)" in json.dumps(error):
                found.append(("W4", f"the error for {request.method} tells a traceback"))
            return found + follow_answer(talk, request, None, error)
        result = message["result"]
        info = METHODS.get(request.method)
        if info is not None and info.kind == "request":
            try:
                # Null is a good answer wherever nothing is required (W6).
                structure(info.result, {} if result is None else result)
            except SchemaError as misfit:
                return self._invalid(request, f"the result of {request.method} does not fit: {misfit}")
            found = check_answer_content(talk, request, {} if result is None else result)
        return found + follow_answer(talk, request, {} if result is None else result, None)

    def _invalid(self, request: Request, what: str) -> list[tuple[str, str]]:
        """An invalid answer ends its request all the same: it fails (W6)."""
        follow_answer(self._talk, request, None, {"code": 0})
        if request.method in ("session/load", "session/resume"):
            # The agent may have opened it, so that the client may want to close it.
            self._talk.sessions.setdefault(request.params["sessionId"], "open")
        return [("W6", what)]

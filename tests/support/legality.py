"""What a legal ACP conversation is, told from the bytes alone: a referee for tests.

It watches both directions at the agent's end and knows nothing of the library's inner life. A rule that is
broken is an AssertionError that names it.
"""

from __future__ import annotations

import json
from typing import Any

from trio_acp.schema import METHODS, UnknownVariant, structure

__all__ = ["Referee"]


class _Turn:
    def __init__(self) -> None:
        self.cancels = 0
        self.live = True


class Referee:
    """Checks what a client sends, given what the agent sends.

    Attributes:
        sent: messages of the client, in wire order.
    """

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._line = b""
        self._initialized = "no"
        self._models = False
        self.odd_methods = set[str]()
        """Extension methods without an underscore, which the test has the client call."""
        self._client_requests: dict[Any, dict[str, Any]] = {}
        self._client_ids: set[Any] = set()
        self._agent_requests: dict[Any, dict[str, Any]] = {}
        self._answered_ids: list[Any] = []
        self._turns: dict[str, _Turn] = {}
        self._prompts: dict[Any, str] = {}

    # The client's side ---------------------------------------------------------------------------------

    def bytes_from_client(self, data: bytes) -> list[dict[str, Any]]:
        """Take bytes as they come; return the whole messages in them."""
        *lines, self._line = (self._line + data).split(b"\n")
        messages: list[dict[str, Any]] = []
        for line in lines:
            message = json.loads(line)
            # W1: compact, one message a line.
            compact = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
            assert len(line) <= len(compact), f"not compact: {line[:200]!r}"
            self._from_client(message)
            self.sent.append(message)
            messages.append(message)
        return messages

    def _from_client(self, message: dict[str, Any]) -> None:
        assert message["jsonrpc"] == "2.0"
        method = message.get("method")
        if method is None:
            self._answer(message)
        elif "id" in message:
            self._request(method, message)
        else:
            self._notification(method, message["params"])

    def _request(self, method: str, message: dict[str, Any]) -> None:
        if method == "initialize":
            assert self._initialized == "no", "I1: a second initialize"
            self._initialized = "asked"
        else:
            assert self._initialized == "yes", f"I1: {method} before the answer to initialize"
        assert message["id"] not in self._client_ids, "W3: an id was used again"
        self._client_ids.add(message["id"])
        self._client_requests[message["id"]] = message
        params = message["params"]
        if method in METHODS:
            info = METHODS[method]
            assert (info.side, info.kind) == ("agent", "request"), f"{method} is no request to an agent"
            assert not isinstance(structure(info.params, params), UnknownVariant)
        elif method == "session/set_model":
            # Not in the protocol any more; for agents that have told of models so.
            assert self._models, "session/set_model to an agent that offers no models"
        else:
            known = method.startswith("_") or method in self.odd_methods
            assert known, f"N1: an unknown method {method}"
        if method == "session/prompt":
            turn = self._turns.get(params["sessionId"])
            assert turn is None or not turn.live, "T1: a prompt while a turn runs"
            self._turns[params["sessionId"]] = _Turn()
            self._prompts[message["id"]] = params["sessionId"]

    def _notification(self, method: str, params: dict[str, Any]) -> None:
        assert self._initialized == "yes" or method == "$/cancel_request", f"I1: {method} too early"
        if method == "session/cancel":
            turn = self._turns.get(params["sessionId"])
            assert turn is not None, "X1: cancel of a session that never had a turn"
            turn.cancels += 1
            assert turn.cancels == 1, "X1: a turn was cancelled twice"
        elif method == "$/cancel_request":
            asked = self._client_requests.get(params["requestId"]) or params["requestId"] in self._client_ids
            assert asked, "X4: a request was withdrawn that was never made"
            assert params["requestId"] not in self._prompts, "a prompt is cancelled by session/cancel only"
        else:
            assert method.startswith("_"), f"an unknown notification {method}"

    def _answer(self, message: dict[str, Any]) -> None:
        id = message["id"]
        assert ("result" in message) != ("error" in message), "an answer has a result or an error"
        if id is None and id not in self._agent_requests:
            assert "error" in message
            return
        assert id in self._agent_requests, f"an answer to no open request: {message}"
        request = self._agent_requests.pop(id)
        self._answered_ids.append(id)
        if "error" in message:
            assert type(message["error"]["code"]) is int
            assert type(message["error"]["message"]) is str
            return
        if request["method"] in METHODS:
            structure(METHODS[request["method"]].result, message["result"])
        if request["method"] == "session/request_permission":
            self._permission(request, message["result"]["outcome"])

    def _permission(self, request: dict[str, Any], outcome: dict[str, Any]) -> None:
        if outcome == {"outcome": "cancelled"}:
            return
        assert outcome["outcome"] == "selected"
        offered = [option["optionId"] for option in request["params"]["options"]]
        assert outcome["optionId"] in offered, "P1: an option was selected that was not offered"
        turn = self._turns.get(request["params"]["sessionId"])
        assert turn is None or not turn.live or not turn.cancels, "X1: a decision after the cancellation"

    # The agent's side ----------------------------------------------------------------------------------

    def from_agent(self, message: dict[str, Any]) -> None:
        """Take note of a message of the agent's; it may be as illegal as a test likes."""
        method = message.get("method")
        if method is not None:
            if "id" in message and message["id"] not in self._agent_requests:
                self._agent_requests[message["id"]] = message
        else:
            request = self._client_requests.pop(message.get("id"), None)
            if request is None:
                return
            if request["method"] == "initialize":
                self._initialized = "yes"
            elif isinstance(message.get("result"), dict) and "models" in message["result"]:
                self._models = True
            elif request["method"] == "session/prompt":
                self._turns[request["params"]["sessionId"]].live = False

    @property
    def unanswered(self) -> list[Any]:
        """Ids of the agent's requests that have no answer."""
        return list(self._agent_requests)

    def end_of_client(self) -> None:
        """The client has closed its end, in peace: everything is said and whole."""
        assert not self._line, f"half a message was sent: {self._line!r}"
        assert not self._agent_requests, f"never answered: {self.unanswered}"

"""The rules of a conversation that are about what a message means where it stands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final, Literal, final

import attrs

from ._shapes import is_array, is_object
from ._transcript import Party

__all__ = [
    "Broken",
    "Conversation",
    "Request",
    "check_agent_request",
    "check_answer_content",
    "check_client_notification",
    "check_client_request",
    "follow_answer",
    "id_key",
]

Broken = list[tuple[str, str]]
"""Rules that a message breaks: their tags, and what is wrong."""

IdKey = tuple[str, Any]
"""An id with its type, so that ``1`` and ``"1"`` are two ids (W3)."""


def id_key(id: Any) -> IdKey:
    """Return what an id is looked up by."""
    return type(id).__name__, id


@attrs.define(eq=False)
class Request:
    """A request that has not been answered.

    Attributes:
        id: its id.
        method: its method.
        params: its parameters.
        withdrawn: its sender has sent ``$/cancel_request`` for it.
        after_cancel: it has to be answered ``cancelled``, for its turn was cancelled.
        illegal: it came when it may not come; success would be wrong.
    """

    id: Any
    method: str
    params: dict[str, Any]
    withdrawn: bool = False
    after_cancel: bool = False
    illegal: bool = False


@attrs.define(eq=False)
class Turn:
    """A prompt that has not been answered."""

    prompt: Request
    cancelled: bool = False


@final
class Conversation:
    """What both sides know of each other at one place on the wire."""

    def __init__(self, seen_at: Party | None) -> None:
        self.seen_at = seen_at
        self.open: dict[Party, dict[IdKey, Request]] = {"client": {}, "agent": {}}
        """Open requests by the side that made them."""
        self.used: dict[Party, set[IdKey]] = {"client": set(), "agent": set()}
        self.asked_to_initialize = False
        self.introduced = False
        self.provoked = False
        """The client has asked for something too early; the agent may speak about it."""
        self.client_can: dict[str, Any] = {}
        self.agent_can: dict[str, Any] = {}
        self.auth_methods: list[dict[str, Any]] = []
        self.sessions: dict[str, Literal["open", "closed"]] = {}
        self.turns: dict[str, Turn] = {}
        self.terminals: dict[str, Literal["open", "released"]] = {}

    def open_requests(self, side: Party, *methods: str) -> Iterator[Request]:
        return (request for request in self.open[side].values() if request.method in methods)

    def knows(self, session_id: str) -> bool:
        """A session that was revealed, or that may be revealed by an answer under way (S4)."""
        if session_id in self.sessions or any(self.open_requests("client", "session/new")):
            return True
        opening = self.open_requests("client", "session/load", "session/resume")
        return any(request.params["sessionId"] == session_id for request in opening)


def _offers(capabilities: dict[str, Any], path: str) -> bool:
    """A capability that is left out, null or false is not there; an empty object is (I3)."""
    value: Any = capabilities
    for key in path.split("."):
        value = value.get(key) if is_object(value) else None
    return value is not None and value is not False


def _objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; what does not fit is left out, as a lenient decoder does (W9)."""
    return [each for each in value if is_object(each)] if is_array(value) else []


def _absolute(path: str) -> bool:
    return posixpath.isabs(path) or re.match(r"[A-Za-z]:[\\/]|\\\\", path) is not None


# What a client sends ------------------------------------------------------------------------------------

AGENT_CAPABILITIES: Final = {
    "session/load": ("S2", "loadSession"),
    "session/resume": ("S2", "sessionCapabilities.resume"),
    "session/list": ("S3", "sessionCapabilities.list"),
    "session/delete": ("S3", "sessionCapabilities.delete"),
    "session/close": ("S3", "sessionCapabilities.close"),
    "logout": ("U3", "auth.logout"),
}

OF_OPEN_SESSIONS: Final = {
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
    "session/close",
}

CONTENT_CAPABILITIES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}


def check_client_request(talk: Conversation, request: Request) -> Broken:
    """Judge a request of the client, and keep what it changes."""
    method, params = request.method, request.params
    if method == "initialize":
        if talk.asked_to_initialize:
            request.illegal = True
            return [("I4", "a second initialize")]
        talk.asked_to_initialize = True
        talk.client_can = params.get("clientCapabilities") or {}
        return []
    if not talk.introduced:
        request.illegal = talk.provoked = True
        return [("I1", f"{method} before the answer to initialize")]
    found: Broken = []
    if method in AGENT_CAPABILITIES:
        rule, capability = AGENT_CAPABILITIES[method]
        if not _offers(talk.agent_can, capability):
            found.append((rule, f"{method} without the agent's capability {capability}"))
    if method == "authenticate":
        found += _authenticate(talk, params)
    if method in ("session/new", "session/load", "session/resume"):
        found += _roots(talk, params)
    if method in OF_OPEN_SESSIONS and talk.sessions.get(params["sessionId"]) != "open":
        found.append(("S2", f"{method} for a session that is not open: {params['sessionId']!r}"))
    if method == "session/load" and params["sessionId"] in talk.turns:
        found.append(("T1", "a load while a turn of that session runs"))
    if method == "session/prompt":
        found += _prompt(talk, request)
    return found


def _authenticate(talk: Conversation, params: dict[str, Any]) -> Broken:
    offered = {method.get("id"): method.get("type", "agent") for method in talk.auth_methods}
    kind = offered.get(params["methodId"])
    if kind is None:
        return [("U1", f"authenticate by a method that was not offered: {params['methodId']!r}")]
    if kind == "terminal":
        return [("U2", "authenticate by a method of type terminal")]
    return []


def _roots(talk: Conversation, params: dict[str, Any]) -> Broken:
    more: list[Any] = params.get("additionalDirectories") or []
    found: Broken = [
        ("S1", f"a root that is not absolute: {root!r}")
        for root in [params["cwd"], *more]
        if not _absolute(root)
    ]
    if more and not _offers(talk.agent_can, "sessionCapabilities.additionalDirectories"):
        found.append(("S1", "additional directories without the agent's capability"))
    for server in _objects(params.get("mcpServers")):
        kind = server.get("type")
        if kind in ("http", "sse") and not _offers(talk.agent_can, f"mcpCapabilities.{kind}"):
            found.append(("S6", f"an MCP server over {kind} without the agent's capability"))
    return found


def _prompt(talk: Conversation, request: Request) -> Broken:
    session = request.params["sessionId"]
    found: Broken = []
    if session in talk.turns:
        found.append(("T1", "a prompt while a turn of that session runs"))
    else:
        talk.turns[session] = Turn(request)
    for block in request.params["prompt"]:
        capability = CONTENT_CAPABILITIES.get(block.get("type"))
        if capability and not _offers(talk.agent_can, f"promptCapabilities.{capability}"):
            found.append(("T1", f"content of type {block['type']} without the agent's capability"))
    return found


def check_client_notification(talk: Conversation, method: str, params: dict[str, Any]) -> Broken:
    """Judge a notification of the client, and keep what it changes."""
    if not talk.introduced:
        return [("I1", f"{method} before the answer to initialize")]
    if method == "session/cancel":
        turn = talk.turns.get(params["sessionId"])
        if turn is None:
            return []  # crossed with the answer, or idle: ignored (X3)
        if turn.cancelled:
            return [("X1", "a turn was cancelled twice")]
        turn.cancelled = True
        for request in talk.open_requests("agent", "session/request_permission"):
            if request.params["sessionId"] == params["sessionId"]:
                request.after_cancel = True
    return []


# What an agent sends ------------------------------------------------------------------------------------

CLIENT_CAPABILITIES: Final = {
    "fs/read_text_file": "fs.readTextFile",
    "fs/write_text_file": "fs.writeTextFile",
    "terminal/create": "terminal",
    "terminal/output": "terminal",
    "terminal/wait_for_exit": "terminal",
    "terminal/kill": "terminal",
    "terminal/release": "terminal",
}


def check_agent_request(talk: Conversation, request: Request) -> Broken:
    """Judge a request of the agent, and keep what it changes."""
    method, params = request.method, request.params
    if not talk.introduced and not talk.provoked:
        return [("I1", f"{method} before the answer to initialize")]
    found: Broken = []
    capability = CLIENT_CAPABILITIES.get(method)
    if capability is not None and not _offers(talk.client_can, capability):
        found.append(("I3", f"{method} without the client's capability {capability}"))
    session = params.get("sessionId")
    if isinstance(session, str) and not talk.knows(session):
        found.append(("S4", f"{method} for a session that was never revealed: {session!r}"))
    if method == "session/request_permission":
        turn = talk.turns.get(params["sessionId"])
        request.after_cancel = turn is not None and turn.cancelled
    if method == "elicitation/create":
        mode = params["mode"]
        if not _offers(talk.client_can, f"elicitation.{mode}"):
            found.append(("E1", f"an elicitation of mode {mode} without the client's capability"))
    if method.startswith("fs/") and not _absolute(params["path"]):
        found.append(("F1", f"a path that is not absolute: {params['path']!r}"))
    if method == "terminal/create" and params.get("cwd") and not _absolute(params["cwd"]):
        found.append(("F1", f"a path that is not absolute: {params['cwd']!r}"))
    if "terminalId" in params:
        found += _terminal(talk, method, params["terminalId"])
    return found


def _terminal(talk: Conversation, method: str, terminal: str) -> Broken:
    state = talk.terminals.get(terminal)
    if state is None:
        return [("F3", f"{method} for a terminal that was never made: {terminal!r}")]
    if state == "released":
        rule = "F4" if method == "terminal/release" else "F3"
        return [(rule, f"{method} for a terminal that was released: {terminal!r}")]
    if method == "terminal/release":
        talk.terminals[terminal] = "released"
    return []


# Answers ------------------------------------------------------------------------------------------------


def check_answer_content(talk: Conversation, request: Request, result: dict[str, Any]) -> Broken:
    """Judge a result that has the right form."""
    if request.illegal:
        return [("I4", f"{request.method} came when it may not, and succeeded")]
    if request.method == "session/request_permission":
        outcome = result["outcome"]
        if outcome.get("outcome") == "selected":
            offered = [option["optionId"] for option in request.params["options"]]
            if outcome["optionId"] not in offered:
                return [("P1", f"an option was selected that was not offered: {outcome['optionId']!r}")]
            if request.after_cancel:
                return [("X1", "an option was selected after the turn was cancelled")]
    if request.method in ("session/new", "session/load", "session/resume", "session/set_config_option"):
        boolean = [each for each in _objects(result.get("configOptions")) if each.get("type") == "boolean"]
        if boolean and not _offers(talk.client_can, "session.configOptions.boolean"):
            return [("S7", "a boolean config option without the client's capability")]
    return []


def follow_answer(
    talk: Conversation, request: Request, result: dict[str, Any] | None, error: dict[str, Any] | None
) -> Broken:
    """Keep what an answer changes; ``result`` is None for an error."""
    method, params = request.method, request.params
    if method == "session/prompt":
        return _end_of_turn(talk, request, error)
    if result is None:
        return []
    match method:
        case "initialize" if not request.illegal:
            talk.introduced = True
            talk.agent_can = result.get("agentCapabilities") or {}
            talk.auth_methods = _objects(result.get("authMethods"))
            if result["protocolVersion"] > params["protocolVersion"]:
                return [("I2", "the answered protocol version is newer than the one that was asked for")]
        case "session/new":
            if talk.sessions.get(result["sessionId"]) == "open":
                return [("S1", f"a new session has the id of an open one: {result['sessionId']!r}")]
            talk.sessions[result["sessionId"]] = "open"
        case "session/load" | "session/resume":
            talk.sessions[params["sessionId"]] = "open"
        case "session/close":
            talk.sessions[params["sessionId"]] = "closed"
        case "terminal/create":
            talk.terminals[result["terminalId"]] = "open"
        case _:
            pass
    return []


def _end_of_turn(talk: Conversation, request: Request, error: dict[str, Any] | None) -> Broken:
    session = request.params.get("sessionId")
    turn = talk.turns.get(session) if isinstance(session, str) else None
    if turn is None or turn.prompt is not request:
        return []  # it was a prompt too many
    del talk.turns[request.params["sessionId"]]
    # Elsewhere than at the agent's end the cancellation may have crossed the answer.
    if not turn.cancelled or talk.seen_at != "agent":
        return []
    if error is not None:
        return [("X2", f"a cancelled turn ended with the error {error['code']}")]
    return [
        ("X5", f"the turn ended, and its request {open_request.method} was not withdrawn")
        for open_request in talk.open["agent"].values()
        if open_request.params.get("sessionId") == session
        and open_request.method != "session/request_permission"
        and not open_request.withdrawn
    ]

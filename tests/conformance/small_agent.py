"""A small agent made of nothing but the standard library, and the mistakes that it makes when told to.

``python small_agent.py MISTAKE…``. Without a mistake it does all that the protocol asks for. It understands
`hello`, `slow`, `write`, `command`, `read`, `form` and `link`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

MISTAKES = set(sys.argv[1:])

CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
KNOWN = {
    "protocolVersion", "clientCapabilities", "clientInfo", "sessionId", "cwd", "mcpServers", "prompt",
    "modeId", "additionalDirectories", "configId", "value", "type", "methodId", "cursor",
}  # fmt: skip

LINES = {
    "banner": b"Welcome!",
    "blank": b"\r",
    "scalars": b"5",
    "odd-methods": b'{"jsonrpc": "2.0", "method": 5}',
    "empty-messages": b'{"jsonrpc": "2.0"}',
    "not-a-number": b'{"jsonrpc": "2.0", "method": "x", "params": {"x": NaN}}',
}
"""What stands at the beginning of its output, by mistake."""


def does(mistake: str) -> bool:
    return mistake in MISTAKES


class Refusal(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Session:
    def __init__(self, id: str, cwd: str) -> None:
        self.id = id
        self.cwd = cwd
        self.said: list[dict[str, Any]] = []
        self.prompt: Any = None
        self.busy = False
        self.asked: list[Any] = []
        self.mode = "ask"
        self.detail = "brief"
        self.calls = 0


class Agent:
    def __init__(self) -> None:
        self.initialized = False
        self.client: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self.kept: dict[str, Session] = {}
        self.waiting: dict[Any, tuple[Session, Callable[[dict[str, Any]], None]]] = {}
        self.next_id = 0
        self.numbers = 0
        self.all_cancelled = False
        self.logged_in = False

    # The wire ------------------------------------------------------------------------------------------

    def write(self, message: Any) -> None:
        indent = 1 if does("pretty") else None
        os.write(1, json.dumps({"jsonrpc": "2.0", **message}, indent=indent).encode() + b"\n")

    def run(self) -> int:
        for mistake, line in LINES.items():
            if does(mistake):
                os.write(1, line + b"\n")
        if does("mumbles"):
            os.write(1, b"m" * 100)
        if does("silent") or does("mumbles"):
            while os.read(0, 65536):
                pass
            return 0
        rest = b""
        while data := os.read(0, 1 << 20):
            if does("takes-reads-for-lines"):
                lines = [data.strip()]
            else:
                *lines, rest = (rest + data).split(b"\n")
            for line in lines[:1] if does("one-a-read") else lines:
                self.line(line)
            if does("goes-deaf"):
                os.read(os.pipe()[0], 1)
        if rest and not does("needs-an-end"):
            self.line(rest)
        if does("stays"):
            os.read(os.pipe()[0], 1)
        if does("half-a-line"):
            os.write(1, b'{"jsonrpc"')
        return 3 if does("status-3") else 0

    def line(self, line: bytes) -> None:
        if line.endswith(b"\r") and does("no-carriage-returns"):
            line = b"?"
        if not line.strip() and not does("no-blank-lines"):
            return
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            if does("dies-of-junk") or (does("dies-of-depth") and isinstance(error, RecursionError)):
                raise
            if not does("skips-junk"):
                self.fail(None, -32700, "this is no JSON")
            return
        if isinstance(message, list) and does("batches"):
            for each in message:
                self.message(each)
        elif isinstance(message, dict):
            self.message(message)
        elif not does("skips-scalars"):
            self.fail(None, -32600, "this is no message")

    def message(self, message: dict[str, Any]) -> None:
        id, method = message.get("id"), message.get("method")
        if method is None and {"result", "error"} & set(message):
            self.take_answer(id, message)
        elif not isinstance(method, str):
            if not does("skips-odd-methods"):
                self.fail(id, -32600, "method is no string")
        elif "id" not in message:
            self.notification(method, message.get("params"))
        elif (isinstance(id, bool) or not isinstance(id, (str, int, type(None)))) and not does("any-id"):
            self.fail(None, -32600, "this is no id")
        elif id is not None or not does("no-null-ids"):
            self.request(id, method, message.get("params"))

    def take_answer(self, id: Any, message: dict[str, Any]) -> None:
        if id not in self.waiting:
            if does("dies-of-answers"):
                raise KeyError(id)
            return
        session, then = self.waiting.pop(id)
        if id in session.asked:
            session.asked.remove(id)
            if "error" in message and "result" in message:
                if does("hangs-on-both"):
                    return
                message = {"error": {"code": -32600}}
            then(message)

    def ok(self, id: Any, result: Any) -> None:
        self.write({"id": str(id) if does("ids-are-strings") else id, "result": result})
        if does("answers-twice"):
            self.write({"id": id, "result": result})

    def fail(self, id: Any, code: int, message: str) -> None:
        error: dict[str, Any] = {"code": code, "message": message}
        if does("odd-errors"):
            error["code"] = str(code)
        if does("tracebacks"):
            error["data"] = "Traceback (most recent call last): secret"
        self.write({"id": str(id) if does("ids-are-strings") and id is not None else id, "error": error})

    def ask(self, session: Session, method: str, params: Any, then: Callable[[dict[str, Any]], None]) -> None:
        self.next_id += 1
        id: Any = 1 if does("one-id") else self.next_id
        id = 1.5 if does("odd-ids") else id
        self.waiting[id] = (session, then)
        session.asked.append(id)
        self.write({"id": id, "method": method, "params": {"sessionId": session.id, **params}})

    def update(self, session: Session, **update: Any) -> None:
        id = "nobody" if does("odd-update-sessions") else session.id
        self.write({"method": "session/update", "params": {"sessionId": id, "update": update}})

    def say(self, session: Session, text: str) -> None:
        self.numbers += 1
        chunk: dict[str, Any] = {
            "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text},
            "messageId": "message" if does("one-message-id") else f"message-{self.numbers}",
        }  # fmt: skip
        if does("no-message-ids"):
            del chunk["messageId"]
        session.said.append(chunk)
        if does("odd-updates"):
            chunk = {"sessionUpdate": "agent_message_chunk"}
        if not does("says-nothing"):
            self.update(session, **chunk)

    # Notifications -------------------------------------------------------------------------------------

    def notification(self, method: str, params: Any) -> None:
        if does("answers-notifications"):
            self.fail(None, -32601, "no such notification")
        params = params if isinstance(params, dict) else {}
        if method == "session/cancel":
            id = params.get("sessionId")
            if does("dies-of-cancel") and id not in self.sessions:
                raise KeyError(id)
            for session in list(self.sessions.values()):
                if session.id == id or does("cancels-all"):
                    self.cancel(session)
            if does("cancels-the-future"):
                self.all_cancelled = True
        if does("dies-of-unknown-withdrawals") and method == "$/cancel_request":
            raise KeyError(params["requestId"])
        if method == "$/cancel_request" and not does("no-cancel-request"):
            for session in list(self.sessions.values()):
                if session.busy and session.prompt == params.get("requestId"):
                    if does("odd-request-cancel"):
                        session.busy = False
                        self.fail(session.prompt, -32603, "cancelled")
                    self.cancel(session)

    def cancel(self, session: Session) -> None:
        if not session.busy or does("no-cancel"):
            return
        if does("waits-for-answers") and session.asked:
            return
        for id in session.asked:
            if not does("no-cascade"):
                self.write({"method": "$/cancel_request", "params": {"requestId": id}})
        session.asked.clear()
        self.end(session, "cancelled")
        if does("late-updates"):
            self.say(session, "still here")

    def end(self, session: Session, reason: str) -> None:
        prompt, session.busy = session.prompt, False
        terminal = getattr(session, "terminal", None)
        if terminal is not None and not does("leaks-terminals"):
            self.ask(session, "terminal/release", {"terminalId": terminal}, lambda answer: None)
            if does("releases-twice"):
                self.ask(session, "terminal/release", {"terminalId": terminal}, lambda answer: None)
            session.terminal = None  # type: ignore[attr-defined]
        if reason == "cancelled" and does("cancel-is-an-error"):
            self.fail(prompt, -32800, "cancelled")
        elif reason == "cancelled" and does("cancel-is-an-end"):
            self.ok(prompt, {"stopReason": "end_turn"})
        else:
            self.ok(prompt, {"stopReason": "no_such_reason" if does("odd-reasons") else reason})
        if does("late-words") and reason != "cancelled":
            self.say(session, "and another thing")

    # Requests ------------------------------------------------------------------------------------------

    def request(self, id: Any, method: str, params: Any) -> None:
        try:
            if not isinstance(params, dict):
                if does("dies-of-params"):
                    raise TypeError
                raise Refusal(-32602, "params: an object")
            if does("strict") and not set(params) <= KNOWN:
                raise Refusal(-32602, "unknown field")
            if method == "initialize":
                self.initialize(id, params)
            elif not self.initialized and not does("no-introduction"):
                raise Refusal(-32600, "initialize first")
            else:
                act = getattr(self, "do_" + method.replace("/", "_"), None)
                if act is None and does("knows-all-methods"):
                    self.ok(id, {})
                elif act is None:
                    raise Refusal(-32601, "no such method")
                else:
                    act(id, params)
        except Refusal as refusal:
            self.fail(id, refusal.code, refusal.message)

    def initialize(self, id: Any, params: dict[str, Any]) -> None:
        if self.initialized and not does("initializes-again"):
            raise Refusal(-32600, "a second initialize")
        self.initialized = True
        wanted = params["protocolVersion"]
        client = params.get("clientCapabilities")
        self.client = client if isinstance(client, dict) else {}
        if does("strict-about-capabilities") and not isinstance(self.client.get("fs", {}), dict):
            raise Refusal(-32602, "fs")
        answer: dict[str, Any] = {
            "protocolVersion": wanted if does("speaks-all-versions") else 2 if does("version-2") else 1,
            "agentCapabilities": {} if does("offers-nothing") else CAPABILITIES,
            "agentInfo": {"name": "small", "version": "1"},
            "authMethods": [],
        }
        if does("offers-more"):
            answer["agentCapabilities"] = {
                **CAPABILITIES,
                "auth": {"logout": {}},
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {
                    **CAPABILITIES["sessionCapabilities"],
                    "additionalDirectories": {},
                },
            }
        if does("odd-introduction"):
            answer["agentInfo"] = "small"
        if does("offers-less"):
            answer["agentCapabilities"] = {"loadSession": True, "sessionCapabilities": {"delete": {}}}
        if does("wants-a-login") and not does("no-way-to-log-in"):
            answer["authMethods"] = [{"id": "key", "name": "A key"}]
        if does("logs-out"):
            answer["agentCapabilities"] = {**CAPABILITIES, "auth": {"logout": {}}}
        if does("terminal-login"):
            answer["authMethods"] = [{"type": "terminal", "id": "t", "name": "At a terminal"}]
        self.ok(id, answer)

    def do_authenticate(self, id: Any, params: dict[str, Any]) -> None:
        if not does("anybody") and not (does("wants-a-login") and params.get("methodId") == "key"):
            raise Refusal(-32602, "no such method")
        self.logged_in = not does("login-in-vain")
        self.ok(id, {})

    def do_logout(self, id: Any, params: dict[str, Any]) -> None:
        if not does("logs-out") and not does("knows-all-methods"):
            raise Refusal(-32601, "no such method")
        self.logged_in = does("stays-logged-in")
        self.ok(id, {})

    def make(self, id: str, cwd: str) -> Session:
        session = self.sessions[id] = Session(id, cwd)
        return session

    def choices(self, session: Session) -> dict[str, Any]:
        if does("no-choices"):
            return {}
        modes = [{"id": name, "name": name} for name in ("ask", "auto")]
        return {
            "modes": {
                "currentModeId": "none" if does("odd-modes") else session.mode,
                "availableModes": modes,
            },
            "configOptions": self.options(session),
        }

    def options(self, session: Session) -> list[dict[str, Any]]:
        values = [{"value": value, "name": value} for value in ("brief", "full")]
        shown: list[Any] = [{"group": "g", "name": "G", "options": values}] if does("groups") else values
        current = "none" if does("odd-options") else session.detail
        options: list[dict[str, Any]] = [
            {"type": "select", "id": "detail", "name": "Detail", "currentValue": current, "options": shown}
        ]
        told = self.client.get("session")
        if (isinstance(told, dict) and told.get("configOptions")) or does("boolean-for-all"):
            options.append({"type": "boolean", "id": "loud", "name": "Loud", "currentValue": False})
        return options

    def check_roots(self, params: dict[str, Any]) -> None:
        if not isinstance(params.get("cwd"), str):
            raise Refusal(-32602, "field" if does("nameless-fields") else "cwd: a string")
        if not os.path.isabs(params["cwd"]) and not does("relative"):
            raise Refusal(-32602, "cwd: an absolute path")
        more = params.get("additionalDirectories") or []
        if (more and not does("offers-more")) or not all(map(os.path.isabs, more)):
            raise Refusal(-32602, "additionalDirectories")
        servers = [] if does("any-server") or does("offers-more") else params.get("mcpServers", ())
        if any("type" in server for server in servers):
            raise Refusal(-32602, "mcpServers")

    def do_session_new(self, id: Any, params: dict[str, Any]) -> None:
        if does("wants-a-login") and not self.logged_in:
            raise Refusal(-32603 if does("odd-login") else -32000, "log in first")
        self.check_roots({**params, "additionalDirectories": []} if does("any-directories") else params)
        self.numbers += 1
        session = self.make("one" if does("one-session-id") else f"s{self.numbers}", params["cwd"])
        answer = {"sessionId": session.id, **self.choices(session)}
        if does("no-session-ids"):
            del answer["sessionId"]
        self.ok(id, {"sessionId": 5} if does("odd-sessions") else answer)

    def find(self, params: dict[str, Any]) -> Session:
        id = params.get("sessionId")
        if not isinstance(id, str):
            raise Refusal(-32602, "sessionId: a string")
        if id not in self.sessions:
            if does("makes-sessions-up"):
                return self.make(id, "/")
            raise Refusal(-32002, "no such session")
        return self.sessions[id]

    def reopen(self, id: Any, params: dict[str, Any], *, replay: bool) -> None:
        self.check_roots(params)
        session = self.kept.get(params["sessionId"]) or self.find(params)
        self.sessions[session.id] = session
        if replay and not does("no-replay"):
            for update in list(session.said)[:1] if does("half-a-replay") else list(session.said):
                self.update(session, **update)
        self.ok(id, None)

    def do_session_load(self, id: Any, params: dict[str, Any]) -> None:
        self.reopen(id, params, replay=True)

    def do_session_resume(self, id: Any, params: dict[str, Any]) -> None:
        self.reopen(id, params, replay=does("replays-always"))

    def do_session_list(self, id: Any, params: dict[str, Any]) -> None:
        ids = [] if does("lists-nothing") else sorted({**self.kept, **self.sessions})
        cursor = params.get("cursor")
        if does("lists-for-ever"):
            self.ok(id, {"sessions": [], "nextCursor": "more" if does("one-cursor") else f"{cursor or ''}x"})
            return
        half = len(ids) // 2
        page = ids[half:] if cursor else ids[:half]
        told = {"sessions": [{"sessionId": each, "cwd": "/"} for each in page]}
        self.ok(id, told if cursor or does("no-pages") else {**told, "nextCursor": "second"})

    def do_session_close(self, id: Any, params: dict[str, Any]) -> None:
        session = self.find(params)
        if not does("closing-forgets-turns"):
            self.cancel(session)
        if not does("closes-nothing"):
            self.kept[session.id] = self.sessions.pop(session.id)
        self.ok(id, {})

    def do_session_delete(self, id: Any, params: dict[str, Any]) -> None:
        known = params["sessionId"] in self.sessions or params["sessionId"] in self.kept
        if not known and does("deletes-once"):
            raise Refusal(-32002, "no such session")
        if not does("deletes-nothing"):
            self.sessions.pop(params["sessionId"], None)
            self.kept.pop(params["sessionId"], None)
        self.ok(id, {})

    def do_session_set_mode(self, id: Any, params: dict[str, Any]) -> None:
        session = self.find(params)
        if params["modeId"] not in ("ask", "auto") and not does("any-mode"):
            raise Refusal(-32602, "no such mode")
        session.mode = params["modeId"]
        self.ok(id, {})

    def do_session_set_config_option(self, id: Any, params: dict[str, Any]) -> None:
        session = self.find(params)
        options = self.options(session)
        for option in options:
            if option["id"] == params["configId"] and not does("sets-nothing"):
                if option["type"] == "select" and params["value"] not in ("brief", "full"):
                    raise Refusal(-32602, "no such value")
                session.detail = params["value"] if option["id"] == "detail" else session.detail
                option["currentValue"] = params["value"]
                break
        else:
            if not does("sets-nothing"):
                raise Refusal(-32602, "no such option")
        self.ok(id, {"configOptions": options})

    # Turns ---------------------------------------------------------------------------------------------

    def do_session_prompt(self, id: Any, params: dict[str, Any]) -> None:
        session = self.find(params)
        prompt = params.get("prompt")
        if not isinstance(prompt, list):
            raise Refusal(-32603 if does("skips-misfits") else -32602, "prompt: an array")
        if session.busy:
            if does("drops-prompts"):
                return
            raise Refusal(-32600, "a turn is running")
        for block in prompt:
            kind = block.get("type")
            if kind == "resource_link" and does("no-links"):
                raise Refusal(-32602, "a link")
            if kind not in ("text", "resource_link") and not (does("any-content") or does("offers-more")):
                raise Refusal(-32602, "content")
            if kind == "text" and not isinstance(block.get("text"), str):
                raise Refusal(-32602, "prompt[0].text: a string")
        session.prompt, session.busy = id, True
        text = str(prompt[0]["text"])
        session.said.append(
            {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}}
        )
        if self.all_cancelled or does("cancels-all-turns"):
            self.all_cancelled = False
            self.end(session, "cancelled")
            return
        getattr(self, f"turn_{text}")(session)

    def turn_hello(self, session: Session) -> None:
        self.say(session, "Hello.")
        if not does("says-nothing"):
            step = {"content": "win", "priority": "high", "status": "pending"}
            self.update(session, sessionUpdate="plan", entries=[5, step] if does("odd-plans") else [step])
        self.end(session, "end_turn")

    def turn_slow(self, session: Session) -> None:
        if does("slow-is-quick"):
            self.turn_hello(session)
        else:
            self.say(session, "working")

    def permission(self, session: Session, then: Callable[[bool], None]) -> None:
        session.calls += 0 if does("one-call") else 1
        call = {"toolCallId": f"call-{session.calls}", "title": "Do it"}
        if does("updates-first"):
            self.update(session, sessionUpdate="tool_call_update", **call)
        elif not does("no-tool-calls"):
            self.update(session, sessionUpdate="tool_call", **call)
            self.update(session, sessionUpdate="tool_call_update", **call)

        def decide(answer: dict[str, Any]) -> None:
            outcome = answer.get("result", {}).get("outcome", {})
            chosen = outcome.get("optionId")
            allowed = chosen == "yes"
            if does("all-but-no"):
                allowed = chosen != "no"
            if does("no-is-yes"):
                allowed = chosen in ("yes", "no")
            if does("yes-is-no"):
                allowed = False
            if does("dies-of-unknown-outcomes") and outcome.get("outcome") not in ("selected", "cancelled"):
                raise KeyError("outcome")
            then(allowed)

        options = [{**option, "optionId": "same"} for option in OPTIONS] if does("same-options") else OPTIONS
        options = options[:1] if does("no-way-to-reject") else options
        self.ask(session, "session/request_permission", {"toolCall": call, "options": options}, decide)

    def turn_write(self, session: Session) -> None:
        def write(allowed: bool) -> None:
            if allowed:
                with open(f"{session.cwd}/written.txt", "w") as file:
                    file.write("written")
            self.say(session, "written" if allowed else "not written")
            self.end(session, "end_turn")

        if does("writes-first"):
            with open(f"{session.cwd}/written.txt", "w") as file:
                file.write("written")
        self.permission(session, write)

    def offers(self, *path: str) -> bool:
        value: Any = self.client
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return does("asks-for-all") or (value is not None and value is not False)

    def turn_read(self, session: Session) -> None:
        if does("reads-alone") or not self.offers("fs", "readTextFile"):
            self.turn_hello(session)
            return

        def read(answer: dict[str, Any]) -> None:
            if "error" in answer and does("hangs-on-errors"):
                return
            self.turn_hello(session)

        where = next(iter(self.sessions.values())).cwd if does("reads-elsewhere") else session.cwd
        path = "notes.txt" if does("relative-paths") else f"{where}/notes.txt"
        params: dict[str, Any] = {"path": 5 if does("odd-paths") else path}
        self.ask(session, "fs/read_text_file", params, read)

    def turn_form(self, session: Session) -> None:
        if not self.offers("elicitation", "form"):
            self.turn_hello(session)
            return

        def filled(answer: dict[str, Any]) -> None:
            if "error" in answer and does("hangs-on-errors"):
                return
            self.turn_hello(session)

        fields = {} if does("empty-forms") else {"name": {"type": "string"}}
        form = {"type": "object", "properties": fields}
        self.ask(
            session,
            "elicitation/create",
            {"mode": "form", "message": "Who?", "requestedSchema": form},
            filled,
        )

    def turn_link(self, session: Session) -> None:
        def opened(answer: dict[str, Any]) -> None:
            if answer["result"]["action"] == "accept":
                done = "another" if does("odd-completions") else id
                self.write({"method": "elicitation/complete", "params": {"elicitationId": done}})
            self.turn_hello(session)

        session.calls += 1
        id = f"link-{session.calls}"
        link: dict[str, Any] = {"mode": "url", "message": "Open?", "elicitationId": id}
        link["url"] = "example" if does("odd-addresses") else "https://example.com/"
        self.ask(session, "elicitation/create", link, opened)

    def turn_command(self, session: Session) -> None:
        if does("runs-alone") or not self.offers("terminal"):
            self.turn_hello(session)
            return

        def made(answer: dict[str, Any]) -> None:
            if "error" in answer:
                if not does("hangs-on-errors"):
                    self.turn_hello(session)
                return
            terminal = answer["result"]["terminalId"]
            session.terminal = terminal  # type: ignore[attr-defined]
            self.ask(session, "terminal/wait_for_exit", {"terminalId": terminal}, exited)

        def exited(answer: dict[str, Any]) -> None:
            self.turn_hello(session)

        self.ask(session, "terminal/create", {"command": "echo", "args": ["hello"]}, made)


if __name__ == "__main__":
    sys.exit(Agent().run())

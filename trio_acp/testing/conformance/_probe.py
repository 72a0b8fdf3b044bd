"""One agent's process for one check: bytes in, bytes out, and everything that was said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, final

import attrs
import trio

from trio_acp.testing import Entry, Referee, Transcript, Violation
from trio_acp.transports import AgentProcess

from ._model import Broken, Prompts, is_object, look_up, not_applicable, require

__all__ = ["AUTH_REQUIRED", "CANCELLED", "HOLD", "Answer", "Failure", "Probe", "allow", "reject"]

MAX_SHOWN: Final = 300
"""Characters of one message that a transcript shows."""

MAX_TRANSCRIPT: Final = 200
"""Messages of a transcript that are kept, the newest."""

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longest line that is read: as long as what the library itself accepts."""

MAX_MESSAGES: Final = 100_000
"""Messages of an agent that are taken in one check: more is a flood."""

NOT_ACTED_UPON: Final = {"W1", "W2", "W4"}
"""A call that breaks one of these is not made as it should be, so that nothing can be done with it."""

LAST_WORDS_GRACE: Final = 1.0
"""Seconds that the end of stderr is waited for when stdout has ended."""

HOLD: Final = object()
"""A client's answer that does not come."""

AUTH_REQUIRED: Final = -32000

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
"""What a client answers to a permission request of a turn that it has cancelled."""


@attrs.frozen
class Failure:
    """An error that the client answers with."""

    code: int
    message: str = "not here"


@attrs.frozen
class Answer:
    """What the agent answered to a request.

    Attributes:
        method: the method of the request.
        message: the answer, as JSON.
        index: how many messages of the agent came before it.
    """

    method: str
    message: dict[str, Any]
    index: int

    @property
    def result(self) -> Any:
        """The result; an error is none."""
        self.succeeded()
        return self.message.get("result")

    @property
    def code(self) -> Any:
        """The code of the error; None for a result."""
        error = self.message.get("error")
        return error.get("code") if is_object(error) else None

    def succeeded(self) -> None:
        """Check that it is no error."""
        require("error" not in self.message, f"{self.method} was answered with {self._error()}")

    def failed(self, *codes: int) -> dict[str, Any]:
        """Return the error; anything else, or another code, is not what was wanted."""
        wanted = " or ".join(map(str, codes)) or "an error"
        require("error" in self.message, f"{self.method} was answered with a result instead of {wanted}")
        error: dict[str, Any] = self.message["error"]
        require(
            not codes or error.get("code") in codes,
            f"{self.method} was answered with {self._error()} instead of {wanted}",
        )
        return error

    def _error(self) -> str:
        error = self.message.get("error")
        return f"the error {json.dumps(error, ensure_ascii=False)[:MAX_SHOWN]}"


def allow(params: dict[str, Any]) -> Any:
    """Answer a permission request with the first option that allows."""
    return choose(params, "allow")


def reject(params: dict[str, Any]) -> Any:
    """Answer a permission request with the first option that rejects."""
    return choose(params, "reject")


def choose(params: dict[str, Any], beginning: str) -> Any:
    """Answer a permission request with the first option of a kind that begins so, else ``cancelled``."""
    for option in params.get("options", ()):
        if str(option.get("kind")).startswith(beginning):
            return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return CANCELLED


@final
class Probe:
    """A client made of bytes.

    Args:
        process: the agent.
        cwd: the directory of its sessions.
        prompts: what to say to it.
        limit: seconds that anything is waited for.
    """

    def __init__(self, process: AgentProcess, cwd: str, prompts: Prompts, limit: float) -> None:
        self.cwd = cwd
        self.prompts = prompts
        self.limit = limit
        self.transcript: list[str] = []
        self.messages: list[dict[str, Any]] = []
        """Everything that the agent has sent."""
        self.on: dict[str, Any] = {"session/request_permission": reject}
        """What the client answers to a method: JSON, `Failure`, `HOLD`, or a function of the parameters. What
        does not stand here is refused as unknown; only permission can be asked of every client."""
        self.hello: dict[str, Any] = {}
        """The answer to ``initialize``."""
        self.violations: list[Violation] = []
        """The rules that the agent has broken, whatever the check is about."""
        self.any_id = False
        """Answers may have ids that were never sent, since what was sent has none that is good."""
        self._said = Transcript(seen_at="client")
        self._referee = Referee(seen_at="client")
        self._process = process
        self._next_id = 0
        self._answers: dict[tuple[str, Any], Answer] = {}
        self._methods: dict[tuple[str, Any], str] = {}
        self._nameless: list[dict[str, Any]] = []
        self._changed = trio.Event()
        self._output_ended = trio.Event()
        self._writing = trio.Lock()

    # Bytes -------------------------------------------------------------------------------------------

    async def read(self) -> None:
        """Read what the agent writes, and answer what it asks, to the end of its output."""
        buffer = bytearray()
        while len(buffer) <= MAX_LINE_BYTES and len(self.messages) <= MAX_MESSAGES:
            data = await self._receive()
            if not data:
                if buffer.strip():
                    self._referee.unfinished_line("agent", bytes(buffer))
                    self.violations += self._referee.violations[-1:]
                break
            first, *more = data.split(b"\n")
            buffer += first
            for piece in more:
                await self._take_line(bytes(buffer))
                buffer = bytearray(piece)
        else:
            self._note("--", "that is more than is read")
        self._output_ended.set()
        self._change()

    async def _receive(self) -> bytes | bytearray:
        try:
            return await self._process.stream.receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def _take_line(self, line: bytes) -> None:
        entry = self._said.add_line("agent", line)
        if entry is None:
            return
        broken = self._judge(entry)
        message = entry.message
        if not is_object(message) or ("method" in message and broken & NOT_ACTED_UPON):
            return
        self.messages.append(message)
        if "method" not in message:
            self._take_answer(message)
        elif "id" in message:
            await self._serve(message)
        self._change()

    def _judge(self, entry: Entry) -> set[str]:
        """Keep what the agent breaks with a message; return the tags of the rules."""
        del self._said.entries[:]
        self._note("->" if entry.sender == "client" else "<-", (entry.line or b"").decode("utf-8", "replace"))
        broken = [each for each in self._referee.see(entry) if each.side == "agent"]
        self.violations += [each for each in broken if each.rule != "W3" or not self.any_id]
        return {violation.rule for violation in broken}

    def _take_answer(self, message: dict[str, Any]) -> None:
        id = message.get("id")
        if self.any_id or (id is None and ("NoneType", None) not in self._methods):
            self._nameless.append(message)
            return
        key = (type(id).__name__, id)
        method = self._methods.get(key)
        if method is not None:
            self._answers.setdefault(key, Answer(method, message, len(self.messages) - 1))

    async def _serve(self, message: dict[str, Any]) -> None:
        answer = self.on.get(message["method"], Failure(-32601, "this client does not offer it"))
        if callable(answer):
            answer = answer(message.get("params") or {})
        if answer is not HOLD:
            await self.reply(message, answer)

    async def reply(self, request: dict[str, Any], answer: Any) -> None:
        """Answer a request of the agent's."""
        told: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if isinstance(answer, Failure):
            await self.send({**told, "error": {"code": answer.code, "message": answer.message}})
        else:
            await self.send({**told, "result": answer})

    async def send_bytes(self, data: bytes) -> None:
        """Write bytes to the agent; that it has gone is seen elsewhere."""
        for entry in self._said.feed("client", data):
            self._judge(entry)
        try:
            async with self._writing:
                await self._process.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._note("--", "the agent does not read any more")

    async def send(self, message: Any) -> None:
        """Write one message to the agent."""
        await self.send_bytes(json.dumps(message).encode() + b"\n")

    async def end_input(self) -> None:
        """Close the agent's stdin."""
        for entry in self._said.feed("client", b"\n"):
            self._judge(entry)  # a last line without an end is one
        self._note("--", "stdin closed")
        await self._process.stream.send_eof()

    async def exit_status(self) -> int:
        """Wait for the end of the agent's process."""
        with trio.move_on_after(self.limit):
            await self._process.exited.wait()
            await self._output_ended.wait()
        status = self._process.returncode
        if status is None:
            raise Broken(f"the process was still there {self.limit:g} s after the end of its stdin")
        return status

    def _note(self, direction: str, text: str) -> None:
        shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
        self.transcript.append(f"{direction} {shown}")
        del self.transcript[:-MAX_TRANSCRIPT]

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # Waiting -----------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until something is so, and return what the condition returned.

        Raises:
            Broken: it did not become so in time, or never can, because the agent has gone.
        """
        with trio.move_on_after(self.limit):
            while True:
                found = condition()
                if found:
                    return found
                if self._output_ended.is_set():
                    raise Broken(f"the agent closed its output before {what}{await self._last_words()}")
                await self._changed.wait()
        raise Broken(f"no {what} within {self.limit:g} s")

    async def _last_words(self) -> str:
        with trio.move_on_after(LAST_WORDS_GRACE):
            await self._process.stderr_ended.wait()
        lines = [line.strip() for line in self._process.stderr_tail().splitlines() if line.strip()]
        return f"; the last line on its stderr is {lines[-1]!r:.200}" if lines else ""

    def more_than(self, count: int) -> bool:
        """Return whether the agent has sent more than so many messages."""
        return len(self.messages) > count

    async def sync(self) -> None:
        """Have the agent read everything so far: a request behind it, which it answers somehow."""
        await self.ask("_conformance/are_you_there")

    # Calls -------------------------------------------------------------------------------------------

    def request(self, method: str, params: Any = None, id: Any = HOLD) -> dict[str, Any]:
        """Make a request, to be sent with `send`; its answer will be known."""
        if id is HOLD:
            self._next_id += 1
            id = f"check-{self._next_id}"
        self._methods[(type(id).__name__, id)] = method
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params}

    async def start(self, method: str, params: Any = None, id: Any = HOLD) -> Any:
        """Send a request and return its id."""
        request = self.request(method, params, id)
        await self.send(request)
        return request["id"]

    def answered(self, id: Any) -> Answer | None:
        """Return the answer to a request, if it has come."""
        return self._answers.get((type(id).__name__, id))

    async def answer(self, id: Any) -> Answer:
        """Wait for the answer to a request."""
        method = self._methods[(type(id).__name__, id)]
        found: Answer = await self.until(lambda: self.answered(id), f"answer to {method}")
        return found

    async def ask(self, method: str, params: Any = None) -> Answer:
        """Send a request and wait for its answer."""
        return await self.answer(await self.start(method, params))

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def nameless_error(self, code: int, what: str) -> None:
        """Wait for an error whose id is null, as it comes for what has no readable id."""
        await self.until(lambda: self._nameless, f"answer to {what}")
        error = self._nameless[0].get("error")
        fits = is_object(error) and error.get("code") == code
        require(fits, f"{what} was answered with {error!r:.200} instead of {code}")

    def nothing_nameless(self, count: int = 0) -> None:
        """Check that no more than so many answers without an id have come."""
        more = self._nameless[count:]
        require(not more, f"there was an answer where none belongs: {more!r:.200}")

    # The usual beginnings ------------------------------------------------------------------------------

    async def initialize(self, capabilities: Any = None, **more: Any) -> dict[str, Any]:
        """Introduce this client, and return what the agent says about itself."""
        params = {
            "protocolVersion": 1,
            "clientCapabilities": {} if capabilities is None else capabilities,
            "clientInfo": {"name": "conformance", "version": "1"},
            **more,
        }
        self.hello = (await self.ask("initialize", params)).result
        return self.hello

    async def new_session(self, capabilities: Any = None) -> str:
        """Introduce this client and make a session."""
        await self.initialize(capabilities)
        return (await self.another_session())["sessionId"]  # type: ignore[no-any-return]

    async def another_session(self, **more: Any) -> dict[str, Any]:
        """Make a session; one that needs a login is out of reach."""
        params: dict[str, Any] = {"cwd": self.cwd, "mcpServers": [], **more}
        answer = await self.ask("session/new", params)
        if answer.code == AUTH_REQUIRED and self.prompts.login is not None:
            await self.log_in(self.prompts.login)
            answer = await self.ask("session/new", params)
        elif answer.code == AUTH_REQUIRED:
            not_applicable("the agent wants somebody to log in first")
        result: dict[str, Any] = answer.result
        return result

    async def log_in(self, way: str) -> None:
        """Log in by one of the ways that the agent offers."""
        (await self.ask("authenticate", {"methodId": way})).succeeded()

    async def start_prompt(self, session: str, text: str | None, what: str = "") -> Any:
        """Send a prompt and return its id; where nothing is known to say, the check is not applicable."""
        if text is None:
            not_applicable(f"no prompt is known that has the agent {what}")
        return await self.start("session/prompt", self.prompt_params(session, text))

    def prompt_params(self, session: str, *content: Any) -> dict[str, Any]:
        """Make the parameters of a prompt out of texts and content blocks."""
        blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
        return {"sessionId": session, "prompt": blocks}

    async def prompt(self, session: str, text: str | None, what: str = "") -> str:
        """Have a whole turn, and return its stop reason."""
        answer = await self.answer(await self.start_prompt(session, text, what))
        return str(answer.result["stopReason"])

    async def say_hello(self, session: str) -> None:
        """Have a turn that ends by itself: the session is alive."""
        self.on["session/request_permission"] = reject
        reason = await self.prompt(session, self.prompts.hello)
        require(reason != "cancelled", "a turn was answered cancelled that nobody has cancelled")

    async def cancel(self, session: str) -> None:
        """Cancel the turn of a session."""
        await self.notify("session/cancel", {"sessionId": session})

    async def first_update(self, session: str, since: int, prompt: Any) -> None:
        """Wait for the first message, thought, plan or tool call of a turn."""

        def begun() -> Any:
            return self.content_updates(session, since) or self.answered(prompt)

        found = await self.until(begun, "sign of life of the turn")
        if isinstance(found, Answer):
            reason = found.result["stopReason"]
            raise Broken(
                f"a turn that should go on for a while was answered {reason!r}, and nothing was said"
            )

    def content_updates(self, session: str, since: int = 0, until: int | None = None) -> list[dict[str, Any]]:
        """Return the updates of a session that belong to the conversation, of some messages."""
        kinds = ("agent_", "user_", "tool_call", "plan")
        return [
            message["params"]["update"]
            for message in self.updates(since, until)
            if message["params"]["sessionId"] == session
            and message["params"]["update"]["sessionUpdate"].startswith(kinds)
        ]

    def updates(self, since: int = 0, until: int | None = None) -> list[dict[str, Any]]:
        """Return the notifications with updates among some messages."""
        return [each for each in self.messages[since:until] if each.get("method") == "session/update"]

    def requests(self, *methods: str) -> list[dict[str, Any]]:
        """Return what the agent has asked of the client."""
        return [message for message in self.messages if message.get("method") in methods and "id" in message]

    async def asked_for(self, method: str) -> dict[str, Any]:
        """Wait for the first request of a method, and return it."""
        await self.until(lambda: self.requests(method), f"{method} request of the agent")
        return self.requests(method)[0]

    def needs(self, path: str) -> None:
        """Give up unless the agent advertises something."""
        if not self.offers(path):
            not_applicable(f"the agent does not advertise {path}")

    def offers(self, path: str) -> bool:
        """Return whether the agent advertises something: left out, null and false are no (I3)."""
        return look_up(self.hello.get("agentCapabilities"), path)

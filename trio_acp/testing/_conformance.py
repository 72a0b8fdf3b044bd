"""The checks of ``trio-acp check``: what an agent owes its client, each over its own connection."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from ._referee import IllegalConversation
from ._roles import FULL_CLIENT, ScriptedClient
from ._scripted import PeerError
from ._shapes import is_object

__all__ = ["CHECKS", "Check", "CheckResult", "Report", "check_agent"]

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[trio.abc.Stream]]
"""Starts the agent anew and connects to it; leaving the block ends it."""

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]


class Skip(Exception):
    """A check that does not apply to this agent."""


@attrs.frozen
class CheckResult:
    """How one check went.

    Attributes:
        name: of the check.
        rule: the tag of the rule that it is about.
        outcome: how it went.
        detail: why, for people; empty where it passed.
        seconds: how long it took.
    """

    name: str
    rule: str
    outcome: Outcome
    detail: str
    seconds: float


@attrs.frozen
class Report:
    """How all checks went."""

    results: list[CheckResult]

    @property
    def passed(self) -> bool:
        """No check failed."""
        return all(result.outcome != "failed" for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values: ``passed`` and the ``results``."""
        return {"passed": self.passed, "results": [attrs.asdict(result) for result in self.results]}


@attrs.frozen
class Check:
    """One check.

    Attributes:
        name: what the agent is expected to do.
        rule: the tag of the rule.
        run: tries it; raises AssertionError where the agent fails.
    """

    name: str
    rule: str
    run: Callable[[Agent], Awaitable[None]]


@final
class Agent:
    """The agent under test, as the checks see it."""

    def __init__(self, client: ScriptedClient, cwd: str, prompt: str) -> None:
        self.client = client
        self.cwd = cwd
        self.words = prompt

    async def session(self) -> str:
        """Introduce the client and make a session.

        Raises:
            Skip: the agent wants a login first.
        """
        await self.client.initialize(CAPABILITIES)
        return await self.new_session()

    async def new_session(self) -> str:
        try:
            return await self.client.new_session(self.cwd)
        except PeerError as error:
            if error.code == AUTH_REQUIRED:
                raise Skip("the agent wants a login first") from None
            raise

    async def refused(self, line: bytes, id: Any, *codes: int) -> None:
        """Send a line that has to be answered with an error under that id."""
        await self.client.send_raw(line + b"\n")
        while True:
            message = await self.client.receive()
            assert message is not None, "the agent ended the connection"
            if "method" not in message:
                break
        assert message.get("id") == id, f"the answer has the id {message.get('id')!r} instead of {id!r}"
        assert type(message.get("id")) is type(id), f"the id {id!r} came back as {message.get('id')!r}"
        code = message.get("error", {}).get("code")
        assert code in codes, f"answered {code if code is not None else 'with a result'}, expected {codes}"


AUTH_REQUIRED: Final = -32000

CAPABILITIES: Final = {key: FULL_CLIENT[key] for key in ("session", "auth")}
"""No files, no terminals, no forms: an agent that asks for them breaks I3."""

CHECKS: Final[list[Check]] = []
"""All checks, in the order in which they are run."""

Body: TypeAlias = Callable[[Agent], Awaitable[None]]


def _check(rule: str, name: str) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        CHECKS.append(Check(name, rule, body))
        return body

    return register


@_check("I2", "initialize is answered with the version that was asked for")
async def _initialize(agent: Agent) -> None:
    result = await agent.client.initialize(CAPABILITIES)
    version = result["protocolVersion"]
    assert version == 1, f"asked for version 1, the agent answered {version!r}"


@_check("I2", "a version from the future is answered with one that the agent speaks")
async def _future_version(agent: Agent) -> None:
    result = await agent.client.call("initialize", {"protocolVersion": 65535, "clientCapabilities": {}})
    assert 1 <= result["protocolVersion"] < 65535, f"it claims version {result['protocolVersion']!r}"


@_check("I4", "a request before initialize is refused")
async def _too_early(agent: Agent) -> None:
    line = b'{"jsonrpc":"2.0","id":"early","method":"session/new","params":{"cwd":"/","mcpServers":[]}}'
    await agent.refused(line, "early", -32600, -32000, -32002, -32603)


@_check("W4", "a line that is no JSON is answered -32700, and the connection lives")
async def _parse_error(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    await agent.refused(b"this is not JSON", None, -32700)
    await agent.refused(b'{"jsonrpc":"2.0","id":"alive","method":"_no/such","params":{}}', "alive", -32601)


@_check("W4", "an unknown method is answered -32601 under its id, whatever type that has")
async def _unknown_method(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    for id, text in (("1", b'"1"'), (7, b"7"), ("\u00e4\U0001f600", '"\u00e4\U0001f600"'.encode())):
        line = b'{"jsonrpc":"2.0","id":' + text + b',"method":"no/such","params":{}}'
        await agent.refused(line, id, -32601)


@_check("W4", "JSON that is no message is answered -32600")
async def _invalid_request(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    await agent.refused(b'{"jsonrpc":"2.0","id":"x"}', "x", -32600)


@_check("W4", "parameters that do not fit are answered -32602")
async def _invalid_params(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    line = b'{"jsonrpc":"2.0","id":"x","method":"session/new","params":{"cwd":5,"mcpServers":[]}}'
    await agent.refused(line, "x", -32602, AUTH_REQUIRED)


@_check("W5", "unknown notifications and unexpected answers are ignored")
async def _ignored(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    await agent.client.notify("_no/such", {})
    await agent.client.notify("$/no_such", {})
    await agent.client.send({"jsonrpc": "2.0", "id": "never", "result": {}})
    await agent.client.withdraw("never")
    await agent.client.notify("session/cancel", {"sessionId": "never"})
    await agent.refused(b'{"jsonrpc":"2.0","id":"alive","method":"_no/such","params":{}}', "alive", -32601)


@_check("W1", "blank lines, carriage returns and messages in pieces are read")
async def _lines(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    await agent.client.send_raw(b"\n\r\n")
    await agent.client.send_raw(b'{"jsonrpc":"2.0","id":"a","meth')
    await agent.refused(b'od":"_no/such","params":{}}\r', "a", -32601)


@_check("S1", "two sessions have two ids")
async def _two_sessions(agent: Agent) -> None:
    first = await agent.session()
    second = await agent.new_session()
    assert first != second, f"both have the id {first!r}"


@_check("W4", "a prompt for a session that does not exist is refused, and the connection lives")
async def _unknown_session(agent: Agent) -> None:
    await agent.session()
    line = b'{"jsonrpc":"2.0","id":"x","method":"session/prompt","params":{"sessionId":"never","prompt":[]}}'
    await agent.refused(line, "x", -32602, -32002, -32600, -32603)
    await agent.new_session()


@_check("T2", "a turn ends with a stop reason")
async def _turn(agent: Agent) -> None:
    session = await agent.session()
    reason = await agent.client.prompt(session, agent.words)
    assert reason in STOP_REASONS, f"the stop reason {reason!r} is not in the protocol"


STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")


@_check("X2", "a cancelled turn ends as cancelled, and the session lives")
async def _cancel(agent: Agent) -> None:
    session = await agent.session()
    prompt = await agent.client.start_prompt(session, agent.words)
    await agent.client.cancel(session)
    # From here on every permission request has to be answered `cancelled` (X1).
    agent.client.replies["session/request_permission"] = {"outcome": {"outcome": "cancelled"}}
    try:
        reason = (await agent.client.wait_for_answer(prompt))["stopReason"]
    except PeerError as error:
        raise AssertionError(f"the cancelled turn was answered with an error: {error}") from None
    assert reason == "cancelled", f"the stop reason is {reason!r}"
    await agent.client.prompt(session, agent.words)


@_check("X3", "cancelling an idle session does nothing")
async def _cancel_idle(agent: Agent) -> None:
    session = await agent.session()
    await agent.client.cancel(session)
    reason = await agent.client.prompt(session, agent.words)
    assert reason != "cancelled", "the turn after it was cancelled"


@_check("S3", "a closed session takes no more prompts")
async def _close(agent: Agent) -> None:
    session = await agent.session()
    await _optional(agent, "session/close", {"sessionId": session}, "sessionCapabilities.close")
    params = f'{{"sessionId":"{session}","prompt":[]}}'.encode()
    line = b'{"jsonrpc":"2.0","id":"x","method":"session/prompt","params":' + params + b"}"
    await agent.refused(line, "x", -32602, -32002, -32600, -32603)


@_check("S3", "sessions are listed")
async def _list(agent: Agent) -> None:
    await agent.session()
    result = await _optional(agent, "session/list", {}, "sessionCapabilities.list")
    assert isinstance(result["sessions"], list), "there is no list of sessions"


async def _optional(agent: Agent, method: str, params: dict[str, Any], capability: str) -> Any:
    """Call a method where it is advertised; where it is not, it has to be refused."""
    offered: Any = agent.client.transcript.sent_by("agent")[0]["result"].get("agentCapabilities") or {}
    for key in capability.split("."):
        offered = offered.get(key) if is_object(offered) else None
    if offered is None or offered is False:
        raise Skip(f"the agent does not offer {capability}")
    return await agent.client.call(method, params)


@_check("W11", "the agent ends when its input ends")
async def _end(agent: Agent) -> None:
    await agent.client.initialize(CAPABILITIES)
    await agent.client.send_eof()
    await agent.client.serve_until_closed()


async def check_agent(
    connect: Connect,
    *,
    cwd: str = "/",
    prompt: str = "hello",
    seconds: float = 30.0,
    done: Callable[[CheckResult], object] = lambda result: None,
) -> Report:
    """Run all checks against an agent, each over a connection of its own.

    Besides what each check looks for, everything that the agent sends is judged by a `Referee`. Permission
    requests are answered with the first option.

    Cancellation: ends the check that runs, and raises.

    Args:
        connect: called for each check: starts the agent and connects to it, as an async context manager.
        cwd: the directory for sessions, absolute.
        prompt: what turns are started with; it should be harmless and not end at once.
        seconds: that one check may take.
        done: called with each result as it is known.
    """
    results: list[CheckResult] = []
    for check in CHECKS:
        start = time.monotonic()
        outcome, detail = await _run(check, connect, cwd, prompt, seconds)
        result = CheckResult(check.name, check.rule, outcome, detail, round(time.monotonic() - start, 3))
        results.append(result)
        done(result)
    return Report(results)


async def _run(check: Check, connect: Connect, cwd: str, prompt: str, seconds: float) -> tuple[Outcome, str]:
    detail = ""
    outcome: Outcome = "passed"
    with trio.move_on_after(seconds) as limit:
        async with connect() as stream:
            client = ScriptedClient(stream)
            client.replies["session/request_permission"] = _first_option
            try:
                await check.run(Agent(client, cwd, prompt))
            except Skip as skip:
                outcome, detail = "skipped", str(skip)
            except IllegalConversation as illegal:
                outcome, detail = "failed", str(illegal.violation)
            except AssertionError as error:
                outcome, detail = "failed", str(error).partition("\n")[0]
            except PeerError as error:
                outcome, detail = "failed", f"a request was refused: {error}"
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                outcome, detail = "failed", "the agent ended the connection"
    if limit.cancelled_caught:
        return "failed", f"there was no answer within {seconds:g} seconds"
    return outcome, detail


def _first_option(params: dict[str, Any]) -> Any:
    return {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}

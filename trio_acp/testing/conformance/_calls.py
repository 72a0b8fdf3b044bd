"""Checks of what an agent asks of its client: files, terminals, forms, and extensions (F, E, N)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ._model import Registry, not_applicable, require
from ._probe import HOLD, Failure, Probe, allow

__all__ = ["check"]

check = Registry()

FILES = {"fs": {"readTextFile": True}}
TERMINAL = {"terminal": True}
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}


@check("F1", "reading")
async def reading(probe: Probe) -> None:
    """Where the client reads files the agent reads through it, by absolute paths."""
    session = await probe.new_session(FILES)
    probe.on["fs/read_text_file"] = {"content": "in the editor\n"}
    await probe.prompt(session, probe.prompts.read, "read a file")
    if not probe.requests("fs/read_text_file"):
        not_applicable("the agent reads files by itself")


@check("F1", "files-that-cannot-be-read", required=False)
async def files_that_cannot_be_read(probe: Probe) -> None:
    """That the client cannot read a file ends neither the turn nor the session."""
    session = await probe.new_session(FILES)
    for code in (-32002, -32603):
        probe.on["fs/read_text_file"] = Failure(code)
        await probe.answer(await probe.start_prompt(session, probe.prompts.read, "read a file"))
    await probe.say_hello(session)


class Terminals:
    """The client's terminals, none of which runs anything."""

    def __init__(self, probe: Probe, wait: Any) -> None:
        self.made = 0
        probe.on |= {
            "session/request_permission": allow,
            "terminal/create": self.create,
            "terminal/output": {"output": "hello\n", "truncated": False, "exitStatus": {"exitCode": 0}},
            "terminal/wait_for_exit": wait,
            "terminal/kill": {},
            "terminal/release": {},
        }

    def create(self, params: dict[str, Any]) -> Any:
        self.made += 1
        return {"terminalId": f"terminal-{self.made}"}


async def with_terminals(probe: Probe, wait: Any) -> tuple[str, Any]:
    """Start a turn that runs a command; return its session and the prompt's id."""
    session = await probe.new_session(TERMINAL)
    Terminals(probe, wait)
    return session, await probe.start_prompt(session, probe.prompts.command, "run a command")


async def released_once(probe: Probe) -> None:
    """Check that each terminal that was made is released, and once."""
    made = len(probe.requests("terminal/create"))
    await probe.until(lambda: len(probe.requests("terminal/release")) >= made, "release of each terminal")
    await probe.sync()
    released = [request["params"]["terminalId"] for request in probe.requests("terminal/release")]
    require(len(set(released)) == len(released) == made, f"of {made} terminals it released {released!r}")


@check("F4", "terminals-are-released")
async def terminals_are_released(probe: Probe) -> None:
    """A terminal is released once when its command has ended."""
    _, id = await with_terminals(probe, {"exitCode": 0})
    await probe.answer(id)
    if not probe.requests("terminal/create"):
        not_applicable("the agent runs commands by itself")
    await released_once(probe)


@check("F4", "terminals-of-cancelled-turns")
async def terminals_of_cancelled_turns(probe: Probe) -> None:
    """A terminal of a turn that is cancelled while its command runs is released once."""
    session, id = await with_terminals(probe, HOLD)
    await probe.until(lambda: probe.requests("terminal/create") or probe.answered(id), "command of the agent")
    if not probe.requests("terminal/create"):
        not_applicable("the agent runs commands by itself")
    await probe.cancel(session)
    reason = (await probe.answer(id)).result["stopReason"]
    require(reason == "cancelled", f"the cancelled turn was answered {reason!r}")
    await released_once(probe)


@check("F3", "terminals-that-fail", required=False)
async def terminals_that_fail(probe: Probe) -> None:
    """A terminal that cannot be made, or fails later, ends neither the turn nor the session."""
    session, id = await with_terminals(probe, Failure(-32603))
    await probe.answer(id)
    await released_once(probe)
    probe.on["terminal/create"] = Failure(-32603)
    await probe.answer(await probe.start_prompt(session, probe.prompts.command))
    await probe.say_hello(session)


@check("E1", "forms")
async def forms(probe: Probe) -> None:
    """A form has a scope and a flat schema, and is asked for where the client shows forms."""
    session = await probe.new_session(FORMS)
    probe.on["elicitation/create"] = {"action": "decline"}
    await probe.prompt(session, probe.prompts.elicit, "ask with a form")
    request = await probe.asked_for("elicitation/create")
    params = request["params"]
    require(params["mode"] == "form", f"the mode {params['mode']!r} was not advertised")
    require("sessionId" in params or "requestId" in params, "it belongs to no session and no request")
    require(params["requestedSchema"].get("properties"), "the form has no fields")


@check("E2", "answers-to-forms")
async def answers_to_forms(probe: Probe) -> None:
    """Whatever a form is answered with, the turn comes to an end, and the session lives."""
    session = await probe.new_session(FORMS)
    answers: list[Any] = [
        {"action": "accept"},
        {"action": "accept", "content": {"no such field": 1}},
        {"action": "cancel"},
        {"action": "_conformance_unknown"},
        Failure(-32602),
    ]
    for answer in answers:
        probe.on["elicitation/create"] = answer
        await probe.answer(await probe.start_prompt(session, probe.prompts.elicit, "ask with a form"))
    await probe.say_hello(session)


LINKS: dict[str, Any] = {"elicitation": {"url": {}}}


@check("E3", "links")
async def links(probe: Probe) -> None:
    """An address to open is one; the turn ends whatever is answered; nothing else is told to be complete."""
    session = await probe.new_session(LINKS)
    for action in ("decline", "cancel", "accept"):
        probe.on["elicitation/create"] = {"action": action}
        await probe.prompt(session, probe.prompts.link, "ask to open an address")
    await probe.asked_for("elicitation/create")
    ids: list[str] = []
    for request in probe.requests("elicitation/create"):
        params = request["params"]
        address = str(params["url"])
        require(urlsplit(address).scheme, f"{address!r:.200} is no address")
        ids.append(params["elicitationId"])
    await probe.say_hello(session)
    for message in probe.messages:
        if message.get("method") == "elicitation/complete":
            id = message["params"]["elicitationId"]
            require(id in ids, f"{id!r:.100} is complete, and was never asked for")


@check("N1", "extensions")
async def extensions(probe: Probe) -> None:
    """An extension request that nobody handles is answered with -32601, a notification is ignored."""
    session = await probe.new_session()
    await probe.notify("_conformance/told", {"sessionId": session})
    (await probe.ask("_conformance/asked", {"sessionId": session})).failed(-32601)
    probe.nothing_nameless()
    await probe.say_hello(session)

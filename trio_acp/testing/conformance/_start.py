"""Checks of the introduction, and of logging in (I, U)."""

from __future__ import annotations

from typing import Any

from trio_acp.schema import InitializeResponse, Leniency, structure

from ._model import Registry, not_applicable, require
from ._probe import AUTH_REQUIRED, Probe

__all__ = ["check"]

check = Registry()

OPTIONAL = {
    "session/load": "loadSession",
    "session/resume": "sessionCapabilities.resume",
    "session/list": "sessionCapabilities.list",
    "session/close": "sessionCapabilities.close",
    "session/delete": "sessionCapabilities.delete",
    "logout": "auth.logout",
}
"""Methods that an agent may leave out, and what it says if it does not."""


@check("I2", "the-version-asked-for")
async def the_version_asked_for(probe: Probe) -> None:
    """The version that the client asks for is spoken, if it is known."""
    version = (await probe.initialize())["protocolVersion"]
    require(version == 1, f"it answered version {version!r} to version 1")


@check("I2", "versions-of-the-future")
async def versions_of_the_future(probe: Probe) -> None:
    """A version that the agent does not know is answered with the newest one that it does."""
    version = (await probe.initialize(protocolVersion=65_000))["protocolVersion"]
    require(version != 65_000, "it claims to speak version 65000")
    require(isinstance(version, int) and version >= 1, f"{version!r} is no version")


@check("I2", "its-introduction")
async def its_introduction(probe: Probe) -> None:
    """What the agent says about itself is made as the schema wants it, in every field."""
    report: list[Leniency] = []
    structure(InitializeResponse, await probe.initialize(), report)
    require(not report, f"a field of the answer does not fit: {report!r:.300}")


@check("I4", "nothing-before-initialize", required=False)
async def nothing_before_initialize(probe: Probe) -> None:
    """Requests before `initialize` are answered with -32600, and `initialize` works afterwards."""
    params: dict[str, Any] = {"cwd": probe.cwd, "mcpServers": []}
    (await probe.ask("session/new", params)).failed(-32600)
    await probe.initialize()


@check("I4", "initialize-once", required=False)
async def initialize_once(probe: Probe) -> None:
    """A second `initialize` is answered with -32600, and the connection lives."""
    session = await probe.new_session()
    (await probe.ask("initialize", {"protocolVersion": 1})).failed(-32600)
    await probe.say_hello(session)


@check("I3", "methods-that-are-not-advertised", required=False)
async def methods_that_are_not_advertised(probe: Probe) -> None:
    """Methods that the agent does not advertise are answered with -32601."""
    session = await probe.new_session()
    missing = [method for method, capability in OPTIONAL.items() if not probe.offers(capability)]
    if not missing:
        not_applicable("the agent advertises all methods that can be left out")
    params: dict[str, Any] = {"sessionId": session, "cwd": probe.cwd, "mcpServers": []}
    for method in missing:
        (await probe.ask(method, params)).failed(-32601)


@check("I3", "nothing-unasked")
async def nothing_unasked(probe: Probe) -> None:
    """A client that offers nothing is asked for no files, terminals or forms."""
    session = await probe.new_session()
    told = [probe.prompts.read, probe.prompts.command, probe.prompts.elicit]
    known = [text for text in told if text is not None]
    if not known:
        not_applicable("no prompt is known that has the agent use files, commands or forms")
    for text in known:
        await probe.answer(await probe.start_prompt(session, text))


def methods_of(hello: dict[str, Any]) -> list[dict[str, Any]]:
    return hello.get("authMethods") or []


@check("U1", "ways-to-log-in", required=False)
async def ways_to_log_in(probe: Probe) -> None:
    """`authenticate` with an id that was not offered is answered with an error."""
    await probe.initialize()
    (await probe.ask("authenticate", {"methodId": "no such method"})).failed()


@check("U1", "logging-in")
async def logging_in(probe: Probe) -> None:
    """After `authenticate` with a way that is offered, sessions can be made."""
    way = probe.prompts.login
    if way is None:
        not_applicable("no way to log in is known that needs nobody's help")
    hello = await probe.initialize()
    ways = {method["id"]: method.get("type", "agent") for method in methods_of(hello)}
    if ways.get(way) != "agent":
        not_applicable(f"{way!r} is none of the agent's own ways to log in, which are {ways!r:.200}")
    await probe.log_in(way)
    answer = await probe.ask("session/new", {"cwd": probe.cwd, "mcpServers": []})
    await probe.say_hello(answer.result["sessionId"])


@check("U3", "sessions-before-a-login")
async def sessions_before_a_login(probe: Probe) -> None:
    """An agent that wants somebody to log in first says so with -32000, and offers a way to."""
    hello = await probe.initialize({"auth": {"terminal": True}})
    answer = await probe.ask("session/new", {"cwd": probe.cwd, "mcpServers": []})
    if "error" not in answer.message:
        not_applicable("the agent makes sessions without a login")
    answer.failed(AUTH_REQUIRED)
    require(methods_of(hello), "it offers no way to log in")


@check("U3", "logging-out")
async def logging_out(probe: Probe) -> None:
    """After `logout` an agent that wants somebody to log in wants that again."""
    await probe.initialize()
    probe.needs("auth.logout")
    params: dict[str, Any] = {"cwd": probe.cwd, "mcpServers": []}
    first = await probe.ask("session/new", params)
    if first.code == AUTH_REQUIRED and probe.prompts.login is not None:
        await probe.log_in(probe.prompts.login)
        (await probe.ask("session/new", params)).succeeded()
    (await probe.ask("logout")).succeeded()
    if first.code == AUTH_REQUIRED:
        (await probe.ask("session/new", params)).failed(AUTH_REQUIRED)


@check("U2", "logging-in-at-a-terminal")
async def logging_in_at_a_terminal(probe: Probe) -> None:
    """Ways to log in at a terminal are offered only to clients that can show one."""
    hello = await probe.initialize()
    terminal = [method for method in methods_of(hello) if method.get("type") == "terminal"]
    require(not terminal, f"it offers {terminal!r:.200} to a client without auth.terminal")

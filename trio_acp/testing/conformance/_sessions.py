"""Checks of sessions: made, found, opened again, set up, closed and deleted (S)."""

from __future__ import annotations

import os
from typing import Any

from trio_acp.schema import Leniency, SessionNotification, structure

from ._model import Registry, not_applicable, require
from ._probe import Probe

__all__ = ["check"]

check = Registry()

INVALID_PARAMS = -32602


@check("S1", "sessions-are-distinct")
async def sessions_are_distinct(probe: Probe) -> None:
    """Each new session has an id of its own."""
    await probe.initialize()
    ids = [(await probe.another_session())["sessionId"] for _ in range(3)]
    require(len(set(ids)) == 3, f"the ids of three sessions are {ids!r}")


@check("S1", "relative-directories", required=False)
async def relative_directories(probe: Probe) -> None:
    """A working directory that is not absolute is refused with -32602."""
    await probe.new_session()
    (await probe.ask("session/new", {"cwd": "some/where", "mcpServers": []})).failed(INVALID_PARAMS)


@check("S1", "additional-directories", required=False)
async def additional_directories(probe: Probe) -> None:
    """Additional directories are refused where the agent does not take any, or if they are not absolute."""
    await probe.new_session()
    taken = probe.offers("sessionCapabilities.additionalDirectories")
    more = ["some/where"] if taken else [probe.cwd]
    params = {"cwd": probe.cwd, "mcpServers": [], "additionalDirectories": more}
    (await probe.ask("session/new", params)).failed(INVALID_PARAMS)


@check("S6", "mcp-servers-that-cannot-be-reached", required=False)
async def mcp_servers_that_cannot_be_reached(probe: Probe) -> None:
    """MCP servers over what the agent does not advertise are refused with -32602."""
    await probe.new_session()
    missing = [kind for kind in ("http", "sse") if not probe.offers(f"mcpCapabilities.{kind}")]
    if not missing:
        not_applicable("the agent advertises all kinds of MCP servers")
    for kind in missing:
        server: dict[str, Any] = {"type": kind, "name": "none", "url": "http://127.0.0.1:9/", "headers": []}
        (await probe.ask("session/new", {"cwd": probe.cwd, "mcpServers": [server]})).failed(INVALID_PARAMS)


@check("S2", "sessions-that-do-not-exist")
async def sessions_that_do_not_exist(probe: Probe) -> None:
    """A session that does not exist cannot be loaded, resumed, or prompted."""
    session = await probe.new_session()
    where: dict[str, Any] = {"sessionId": "no-such-session", "cwd": probe.cwd, "mcpServers": []}
    if probe.offers("loadSession"):
        (await probe.ask("session/load", where)).failed()
    if probe.offers("sessionCapabilities.resume"):
        (await probe.ask("session/resume", where)).failed()
    # Which error it is does not stand anywhere.
    (await probe.ask("session/prompt", probe.prompt_params("no-such-session", probe.prompts.hello))).failed()
    await probe.say_hello(session)


async def reopen(probe: Probe, method: str) -> tuple[str, int, int]:
    """Have a turn, close the session if that can be, and open it again; return where in the messages."""
    session = await probe.new_session()
    probe.needs("loadSession" if method == "session/load" else "sessionCapabilities.resume")
    await probe.say_hello(session)
    if probe.offers("sessionCapabilities.close"):
        (await probe.ask("session/close", {"sessionId": session})).succeeded()
    before = len(probe.messages)
    answer = await probe.ask(method, {"sessionId": session, "cwd": probe.cwd, "mcpServers": []})
    answer.succeeded()
    return session, before, answer.index


@check("S2", "loading-replays")
async def loading_replays(probe: Probe) -> None:
    """Loading a session replays its conversation before the answer, and the session goes on."""
    session, before, answered = await reopen(probe, "session/load")
    kinds = {update["sessionUpdate"] for update in probe.content_updates(session, before, answered)}
    require("user_message_chunk" in kinds, f"the user's message was not replayed, but {sorted(kinds)}")
    require(len(kinds) > 1, "nothing of the agent's was replayed")
    await probe.say_hello(session)


@check("S2", "resuming-does-not-replay")
async def resuming_does_not_replay(probe: Probe) -> None:
    """Resuming a session replays nothing, and the session goes on."""
    session, before, answered = await reopen(probe, "session/resume")
    await probe.sync()
    replayed = probe.content_updates(session, before)
    require(not replayed, f"{len(replayed)} updates were replayed")
    require(answered >= before, "the answer came early")
    await probe.say_hello(session)


MAX_PAGES = 100
"""Pages of a list of sessions that are asked for."""


async def listed(probe: Probe) -> list[str]:
    """Return the ids of the sessions that are listed."""
    found: list[str] = []
    cursors: list[str] = []
    for _ in range(MAX_PAGES):
        page = (await probe.ask("session/list", {"cursor": cursors[-1]} if cursors else {})).result
        found += [entry["sessionId"] for entry in page["sessions"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
        require(cursor not in cursors, f"the cursor {cursor!r:.100} came twice")
        cursors.append(cursor)
    return found


@check("S3", "sessions-are-listed")
async def sessions_are_listed(probe: Probe) -> None:
    """A list of sessions holds a session that has had a turn, on one of its pages, and comes to an end."""
    session = await probe.new_session()
    probe.needs("sessionCapabilities.list")
    await probe.say_hello(session)
    found = await listed(probe)
    require(session in found, f"the session is not among the {len(found)} that are listed")


@check("S3", "deleting")
async def deleting(probe: Probe) -> None:
    """A session that was deleted is not listed any more."""
    session = await probe.new_session()
    probe.needs("sessionCapabilities.delete")
    await probe.say_hello(session)
    (await probe.ask("session/delete", {"sessionId": session})).succeeded()
    if probe.offers("sessionCapabilities.list"):
        require(session not in await listed(probe), "it is still listed")


@check("S3", "deleting-again", required=False)
async def deleting_again(probe: Probe) -> None:
    """Deleting a session that is not there succeeds."""
    session = await probe.new_session()
    probe.needs("sessionCapabilities.delete")
    for id in (session, session, "no-such-session"):
        (await probe.ask("session/delete", {"sessionId": id})).succeeded()


@check("S3", "closing", required=False)
async def closing(probe: Probe) -> None:
    """A closed session takes no prompts, and others go on."""
    session = await probe.new_session()
    probe.needs("sessionCapabilities.close")
    other = (await probe.another_session())["sessionId"]
    (await probe.ask("session/close", {"sessionId": session})).succeeded()
    (await probe.ask("session/prompt", probe.prompt_params(session, probe.prompts.hello))).failed()
    await probe.say_hello(other)


@check("S3", "closing-cancels")
async def closing_cancels(probe: Probe) -> None:
    """Closing a session cancels the turn that runs in it, which is answered `cancelled`."""
    session = await probe.new_session()
    probe.needs("sessionCapabilities.close")
    before = len(probe.messages)
    id = await probe.start_prompt(session, probe.prompts.slow, "work for a while")
    await probe.first_update(session, before, id)
    (await probe.ask("session/close", {"sessionId": session})).succeeded()
    reason = (await probe.answer(id)).result["stopReason"]
    require(reason == "cancelled", f"the turn was answered {reason!r}")


@check("S7", "modes")
async def modes(probe: Probe) -> None:
    """The current mode is one of the modes; each can be set."""
    await probe.initialize()
    made = await probe.another_session()
    state = made.get("modes")
    if state is None:
        not_applicable("its sessions have no modes")
    ids = [mode["id"] for mode in state["availableModes"]]
    require(state["currentModeId"] in ids, f"{state['currentModeId']!r} is none of {ids!r}")
    session = made["sessionId"]
    for id in ids:
        answer = await probe.ask("session/set_mode", {"sessionId": session, "modeId": id})
        answer.succeeded()


def values_of(option: dict[str, Any]) -> list[Any]:
    """Return the values that an option can have, those of groups too."""
    if option["type"] != "select":
        return [True, False]
    return [value["value"] for entry in option["options"] for value in entry.get("options", [entry])]


@check("S7", "config-options")
async def config_options(probe: Probe) -> None:
    """Setting a config option is answered with all options, the new value among them."""
    await probe.initialize({"session": {"configOptions": {"boolean": {}}}})
    made = await probe.another_session()
    options = made.get("configOptions")
    if not options:
        not_applicable("its sessions have no config options")
    session = made["sessionId"]
    for option in options:
        values = values_of(option)
        require(option["currentValue"] in values, f"the value of {option['id']!r} is none of {values!r:.200}")
        value = values[-1]
        typed = {"type": "boolean"} if option["type"] == "boolean" else {}
        params = {"sessionId": session, "configId": option["id"], "value": value, **typed}
        told = (await probe.ask("session/set_config_option", params)).result["configOptions"]
        now = {each["id"]: each["currentValue"] for each in told}
        require(
            now.get(option["id"]) == value, f"after {option['id']!r} was set to {value!r} it is {now!r:.200}"
        )


@check("S7", "choices-that-do-not-exist", required=False)
async def choices_that_do_not_exist(probe: Probe) -> None:
    """A mode, an option or a value that does not exist is refused."""
    await probe.initialize()
    made = await probe.another_session()
    session = made["sessionId"]
    wrong: list[tuple[str, dict[str, Any]]] = []
    if made.get("modes"):
        wrong.append(("session/set_mode", {"modeId": "no such mode"}))
    if made.get("configOptions"):
        wrong.append(("session/set_config_option", {"configId": "no such option", "value": "x"}))
        option = made["configOptions"][0]["id"]
        wrong.append(("session/set_config_option", {"configId": option, "value": "no such value"}))
    if not wrong:
        not_applicable("its sessions have neither modes nor config options")
    for method, params in wrong:
        (await probe.ask(method, {"sessionId": session, **params})).failed()


@check("S7", "boolean-options")
async def boolean_options(probe: Probe) -> None:
    """Boolean options are shown only to clients that say that they know them."""
    await probe.initialize()
    options: list[dict[str, Any]] = (await probe.another_session()).get("configOptions") or []
    boolean = [option["id"] for option in options if option.get("type") == "boolean"]
    require(not boolean, f"{boolean!r} are boolean")


@check("S4", "updates-name-a-session")
async def updates_name_a_session(probe: Probe) -> None:
    """An update is about a session that the client knows when the call that makes it has been answered."""
    one = await probe.new_session()
    two = (await probe.another_session())["sessionId"]
    await probe.say_hello(one)
    await probe.say_hello(two)
    told = {message["params"]["sessionId"] for message in probe.updates()}
    require(told <= {one, two}, f"there are updates of {sorted(told - {one, two})!r}, which nobody knows")


@check("S5", "the-directory-of-the-session")
async def the_directory_of_the_session(probe: Probe) -> None:
    """Names of files belong to the directory of their own session, wherever the agent was started."""
    await probe.initialize({"fs": {"readTextFile": True}})
    probe.on["fs/read_text_file"] = {"content": "in the editor\n"}
    for name in ("one", "two"):
        where = os.path.join(probe.cwd, name)
        session = (await probe.another_session(cwd=where))["sessionId"]
        before = len(probe.requests("fs/read_text_file"))
        await probe.prompt(session, probe.prompts.read, "read a file")
        paths = [each["params"]["path"] for each in probe.requests("fs/read_text_file")[before:]]
        if not paths:
            not_applicable("the agent reads files by itself")
        wanted = os.path.join(where, "notes.txt")
        require(wanted in paths, f"{wanted!r} was to be read, and it asked for {paths!r:.300}")


TELLING = ("plan", "usage_update", "session_info_update", "available_commands_update")
"""Updates that tell something about a session as a whole."""


@check("S8", "what-is-told-of-a-session")
async def what_is_told_of_a_session(probe: Probe) -> None:
    """Plans, usage, commands and titles are made as the schema wants them, in every field."""
    session = await probe.new_session()
    await probe.say_hello(session)
    told = [message for message in probe.updates() if message["params"]["update"]["sessionUpdate"] in TELLING]
    if not told:
        not_applicable("the agent told nothing of that kind")
    for message in told:
        report: list[Leniency] = []
        structure(SessionNotification, message["params"], report)
        require(not report, f"a field of {message['params']['update']!r:.200} does not fit: {report!r:.200}")

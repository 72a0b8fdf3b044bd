"""Checks of turns, of their cancellation, and of permission (T, X, P)."""

from __future__ import annotations

import os
from typing import Any

from ._model import Registry, not_applicable, require
from ._probe import CANCELLED, HOLD, Failure, Probe, allow, reject
from ._wire import encode

__all__ = ["check"]

check = Registry()

KNOWN_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}

CONTENT: dict[str, dict[str, Any]] = {
    "image": {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    "embeddedContext": {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}},
}
"""Content that an agent may exclude, by what it says if it does not."""


async def slow_turn(probe: Probe, session: str) -> Any:
    """Start a turn that goes on, and wait for its first sign of life."""
    before = len(probe.messages)
    id = await probe.start_prompt(session, probe.prompts.slow, "work for a while")
    await probe.first_update(session, before, id)
    return id


async def asking_turn(probe: Probe, session: str) -> tuple[Any, dict[str, Any]]:
    """Start a turn that asks for permission, and wait for the request, which is left open."""
    probe.on["session/request_permission"] = HOLD
    id = await probe.start_prompt(session, probe.prompts.write, "ask for permission")
    return id, await probe.asked_for("session/request_permission")


async def was_cancelled(probe: Probe, id: Any) -> int:
    """Wait for the answer of a turn that was cancelled, and return how many messages came before it."""
    answer = await probe.answer(id)
    reason = answer.result["stopReason"]
    require(reason == "cancelled", f"the cancelled turn was answered {reason!r}")
    return answer.index


def written(probe: Probe) -> bool:
    """Tell whether the agent has done what it asks permission for."""
    return probe.prompts.written is not None and os.path.exists(
        os.path.join(probe.cwd, probe.prompts.written)
    )


def needs_to_see(probe: Probe) -> None:
    """Give up where nothing can be seen of what the agent has permission for."""
    if probe.prompts.written is None:
        not_applicable("it is not known what the agent writes when it has permission")


@check("T2", "a-turn")
async def a_turn(probe: Probe) -> None:
    """What the agent says in a turn comes before the answer."""
    session = await probe.new_session()
    before = len(probe.messages)
    answer = await probe.answer(await probe.start_prompt(session, probe.prompts.hello))
    answer.succeeded()
    require(probe.content_updates(session, before, answer.index), "nothing came before the answer")


@check("T2", "nothing-behind-the-answer", required=False)
async def nothing_behind_the_answer(probe: Probe) -> None:
    """Nothing that belongs to a turn comes behind its answer."""
    session = await probe.new_session()
    answer = await probe.answer(await probe.start_prompt(session, probe.prompts.hello))
    await probe.sync()
    late = probe.content_updates(session, answer.index)
    require(not late, f"{len(late)} updates of the turn came behind its answer")


@check("T3", "the-reason-to-stop")
async def the_reason_to_stop(probe: Probe) -> None:
    """A turn that ends by itself has a reason to stop that the protocol knows, and not `cancelled`."""
    session = await probe.new_session()
    reason = await probe.prompt(session, probe.prompts.hello)
    require(reason in KNOWN_REASONS, f"the reason {reason!r} is not in the protocol")
    require(reason != "cancelled", "a turn was answered cancelled that nobody has cancelled")


@check("T4", "tool-calls")
async def tool_calls(probe: Probe) -> None:
    """Each tool call of a session has an id of its own."""
    session = await probe.new_session()
    probe.on["session/request_permission"] = allow
    for _ in range(2):
        await probe.prompt(session, probe.prompts.write, "ask for permission")
    made: list[str] = []
    for update in probe.content_updates(session):
        if update["sessionUpdate"] == "tool_call":
            made.append(update["toolCallId"])
        elif update["sessionUpdate"] == "tool_call_update" and update["toolCallId"] not in made:
            # One for an unknown id creates it.
            made.append(update["toolCallId"])
    if not made:
        not_applicable("the agent reports no tool calls")
    twice = {id for id in made if made.count(id) > 1}
    require(not twice, f"two tool calls have the id {', '.join(map(repr, sorted(twice)))}")


@check("T5", "message-ids")
async def message_ids(probe: Probe) -> None:
    """Where pieces of a message have ids, another message has another one."""
    session = await probe.new_session()
    owners: dict[str, tuple[int, str]] = {}
    for turn in range(2):
        before = len(probe.messages)
        await probe.say_hello(session)
        for update in probe.content_updates(session, before):
            id = update.get("messageId")
            if id is not None:
                owner = (turn, update["sessionUpdate"])
                seen = owners.setdefault(id, owner)
                require(seen == owner, f"the id {id!r:.100} is that of two messages: {seen!r} and {owner!r}")
    if not owners:
        not_applicable("the agent gives its messages no ids")


@check("T1", "links")
async def links(probe: Probe) -> None:
    """A prompt may hold links to resources."""
    session = await probe.new_session()
    link = {"type": "resource_link", "name": "notes", "uri": f"file://{probe.cwd}/notes.txt"}
    params = probe.prompt_params(session, probe.prompts.hello, link)
    (await probe.ask("session/prompt", params)).succeeded()


@check("T1", "content-that-is-excluded", required=False)
async def content_that_is_excluded(probe: Probe) -> None:
    """Content that the agent does not advertise is refused with -32602, and the session lives."""
    session = await probe.new_session()
    excluded = [kind for kind in CONTENT if not probe.offers(f"promptCapabilities.{kind}")]
    if not excluded:
        not_applicable("the agent takes content of every kind")
    for kind in excluded:
        params = probe.prompt_params(session, probe.prompts.hello, CONTENT[kind])
        (await probe.ask("session/prompt", params)).failed(-32602)
    await probe.say_hello(session)


@check("T1", "a-prompt-during-a-turn")
async def a_prompt_during_a_turn(probe: Probe) -> None:
    """A prompt during a turn is refused or waits; both are answered, and the session lives."""
    session = await probe.new_session()
    first = await slow_turn(probe, session)
    second = await probe.start_prompt(session, probe.prompts.hello)
    await probe.sync()
    await probe.cancel(session)
    await was_cancelled(probe, first)
    await probe.answer(second)
    await probe.say_hello(session)


@check("T1", "two-sessions-at-once")
async def two_sessions_at_once(probe: Probe) -> None:
    """Turns of two sessions run side by side, and a cancellation reaches only its own."""
    one = await probe.new_session()
    two = (await probe.another_session())["sessionId"]
    slow = await slow_turn(probe, one)
    await probe.cancel(two)
    await probe.say_hello(two)
    ended = probe.answered(slow)
    if ended is None:
        await probe.cancel(one)
        await was_cancelled(probe, slow)
    else:
        # That it came to its end by itself meanwhile is no mistake.
        require(ended.result["stopReason"] != "cancelled", "the other session's turn was cancelled as well")


@check("X2", "cancelling")
async def cancelling(probe: Probe) -> None:
    """A cancelled turn is answered with the reason `cancelled`, no error, and nothing comes behind it."""
    session = await probe.new_session()
    id = await slow_turn(probe, session)
    await probe.cancel(session)
    answered = await was_cancelled(probe, id)
    await probe.sync()
    late = probe.content_updates(session, answered)
    require(not late, f"{len(late)} updates came behind the answer")


@check("X2", "the-next-turn")
async def the_next_turn(probe: Probe) -> None:
    """The turn after a cancelled one is a turn like any other."""
    session = await probe.new_session()
    for _ in range(2):
        id = await slow_turn(probe, session)
        await probe.cancel(session)
        await was_cancelled(probe, id)
    before = len(probe.messages)
    await probe.say_hello(session)
    require(probe.content_updates(session, before), "nothing was said in it")


@check("X2", "cancelling-at-once")
async def cancelling_at_once(probe: Probe) -> None:
    """A cancellation right behind its prompt is not lost."""
    session = await probe.new_session()
    if probe.prompts.slow is None:
        not_applicable("no prompt is known that has the agent work for a while")
    prompt = probe.request("session/prompt", probe.prompt_params(session, probe.prompts.slow))
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
    await probe.send_bytes(encode(prompt) + b"\n" + encode(cancel) + b"\n")
    await was_cancelled(probe, prompt["id"])


@check("X2", "cancelling-while-it-asks")
async def cancelling_while_it_asks(probe: Probe) -> None:
    """A turn that is cancelled while it asks for permission is answered `cancelled`."""
    session = await probe.new_session()
    id, request = await asking_turn(probe, session)
    await probe.cancel(session)
    await probe.reply(request, CANCELLED)
    await was_cancelled(probe, id)
    require(not written(probe), "the file was written without permission")


@check("X3", "cancelling-nothing", required=False)
async def cancelling_nothing(probe: Probe) -> None:
    """A cancellation where no turn runs, or for an unknown session, is ignored."""
    session = await probe.new_session()
    await probe.cancel(session)
    await probe.cancel("no-such-session")
    await probe.sync()
    probe.nothing_nameless()
    await probe.say_hello(session)


@check("X4", "cancelling-a-request", required=False)
async def cancelling_a_request(probe: Probe) -> None:
    """A request that is cancelled by its id is answered: with a result, or with -32800."""
    session = await probe.new_session()
    id = await slow_turn(probe, session)
    await probe.notify("$/cancel_request", {"requestId": id})
    answer = await probe.answer(id)
    if "error" in answer.message:
        answer.failed(-32800)
    await probe.say_hello(session)


@check("X4", "cancelling-unknown-requests", required=False)
async def cancelling_unknown_requests(probe: Probe) -> None:
    """The cancellation of a request that is unknown, or has been answered, is ignored."""
    session = await probe.new_session()
    await probe.start("session/new", {"cwd": probe.cwd, "mcpServers": []}, id="answered")
    await probe.answer("answered")
    for id in ("answered", "never sent", 4711, None):
        await probe.notify("$/cancel_request", {"requestId": id})
    await probe.sync()
    probe.nothing_nameless()
    await probe.say_hello(session)


@check("X5", "cancelling-cascades", required=False)
async def cancelling_cascades(probe: Probe) -> None:
    """An agent whose turn is cancelled withdraws what it has asked, and does not wait for the answer."""
    session = await probe.new_session()
    id, request = await asking_turn(probe, session)
    await probe.cancel(session)
    await was_cancelled(probe, id)
    withdrawn = [
        message["params"]["requestId"]
        for message in probe.messages
        if message.get("method") == "$/cancel_request"
    ]
    require(request["id"] in withdrawn, "it did not withdraw its permission request")
    await probe.reply(request, CANCELLED)
    await probe.say_hello(session)


@check("P1", "an-allowance")
async def an_allowance(probe: Probe) -> None:
    """With permission the agent does what it has asked for."""
    needs_to_see(probe)
    session = await probe.new_session()
    probe.on["session/request_permission"] = allow
    await probe.prompt(session, probe.prompts.write, "ask for permission")
    await probe.asked_for("session/request_permission")
    require(written(probe), "the file was not written")


@check("P1", "a-rejection")
async def a_rejection(probe: Probe) -> None:
    """A rejection is no permission."""
    needs_to_see(probe)
    session = await probe.new_session()
    probe.on["session/request_permission"] = reject
    await probe.prompt(session, probe.prompts.write, "ask for permission")
    await probe.asked_for("session/request_permission")
    require(not written(probe), "the file was written against the rejection")
    await probe.say_hello(session)


@check("P1", "what-was-never-offered", required=False)
async def what_was_never_offered(probe: Probe) -> None:
    """An option that was not offered is no permission; nor is an outcome that nobody knows, or an error."""
    needs_to_see(probe)
    session = await probe.new_session()
    for outcome in ({"outcome": "selected", "optionId": "never offered"}, {"outcome": "no such outcome"}):
        probe.on["session/request_permission"] = {"outcome": outcome}
        await probe.answer(await probe.start_prompt(session, probe.prompts.write, "ask for permission"))
        require(not written(probe), f"the file was written after the answer {outcome!r}")
    probe.on["session/request_permission"] = Failure(-32603)
    await probe.answer(await probe.start_prompt(session, probe.prompts.write))
    require(not written(probe), "the file was written after an error")
    await probe.say_hello(session)


@check("P2", "options")
async def options(probe: Probe) -> None:
    """The options of a permission request have ids of their own."""
    session = await probe.new_session()
    id, request = await asking_turn(probe, session)
    offered = request["params"]["options"]
    ids = [option["optionId"] for option in offered]
    require(ids and len(set(ids)) == len(ids), f"the ids of the options are {ids!r}")
    await probe.reply(request, CANCELLED)
    await probe.answer(id)


@check("P2", "a-way-to-reject", required=False)
async def a_way_to_reject(probe: Probe) -> None:
    """One of the options of a permission request rejects."""
    session = await probe.new_session()
    id, request = await asking_turn(probe, session)
    kinds = [option["kind"] for option in request["params"]["options"]]
    require(any(kind.startswith("reject") for kind in kinds), f"none of {kinds!r} rejects")
    await probe.reply(request, CANCELLED)
    await probe.answer(id)

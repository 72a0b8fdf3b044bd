"""Checks of the wire: lines, ids, malformed messages, what is unknown, and the end (W)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trio

from ._model import Registry, is_object, require
from ._probe import HOLD, Probe

__all__ = ["check"]

check = Registry()

METHOD_NOT_FOUND = -32601
UNKNOWN = "_conformance/no_such_method"


def encode(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def introduction(probe: Probe) -> dict[str, Any]:
    info = {"name": "conformance", "version": "1"}
    return probe.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info})


@check("W1", "carriage-returns", required=False)
async def carriage_returns(probe: Probe) -> None:
    """A carriage return before the end of a line is accepted."""
    request = introduction(probe)
    await probe.send_bytes(encode(request) + b"\r\n")
    require((await probe.answer(request["id"])).result, "initialize has no result")


@check("W1", "blank-lines", required=False)
async def blank_lines(probe: Probe) -> None:
    """Blank lines are skipped."""
    request = introduction(probe)
    await probe.send_bytes(b"\n\r\n\n" + encode(request) + b"\n\n")
    require((await probe.answer(request["id"])).result, "initialize has no result")
    await probe.sync()
    probe.nothing_nameless()


@check("W1", "messages-in-pieces")
async def messages_in_pieces(probe: Probe) -> None:
    """A message that comes in pieces, cut within a character too, is one message."""
    await probe.initialize()
    request = probe.request(UNKNOWN, {"text": "prüfung 🎉"})
    data = encode(request) + b"\n"
    middle = data.index("🎉".encode()) + 2
    for piece in (data[:1], data[1:middle], data[middle:-1], data[-1:]):
        await probe.send_bytes(piece)
        await trio.sleep(0.05)  # so that they are read one by one
    (await probe.answer(request["id"])).failed(METHOD_NOT_FOUND)
    await probe.sync()
    probe.nothing_nameless()


@check("W1", "several-messages-at-once")
async def several_messages_at_once(probe: Probe) -> None:
    """Messages that come together are all answered."""
    await probe.initialize()
    requests = [probe.request(UNKNOWN) for _ in range(20)]
    await probe.send_bytes(b"".join(encode(request) + b"\n" for request in requests))
    for request in requests:
        (await probe.answer(request["id"])).failed(METHOD_NOT_FOUND)


@check("W1", "last-line-without-an-end", required=False)
async def last_line_without_an_end(probe: Probe) -> None:
    """A last line that has no end is read all the same when the input ends."""
    await probe.initialize()
    request = probe.request(UNKNOWN)
    await probe.send_bytes(encode(request))
    await probe.end_input()
    (await probe.answer(request["id"])).failed(METHOD_NOT_FOUND)


@check("W2", "only-messages-on-stdout")
async def only_messages_on_stdout(probe: Probe) -> None:
    """Nothing but messages is written to stdout, one a line, during a whole turn."""
    session = await probe.new_session()
    await probe.say_hello(session)


@check("W3", "ids-come-back")
async def ids_come_back(probe: Probe) -> None:
    """Ids come back with their exact type: strings, integers, and a string of digits is no number."""
    await probe.initialize()
    ids: list[Any] = ["", "1", 1, 0, -7, 2**53 - 1, 'id with "quotes" and ü']
    for id in ids:
        await probe.start(UNKNOWN, id=id)
    for id in ids:
        (await probe.answer(id)).failed(METHOD_NOT_FOUND)


@check("W3", "null-is-an-id", required=False)
async def null_is_an_id(probe: Probe) -> None:
    """A request whose id is null is answered."""
    await probe.initialize()
    await probe.start(UNKNOWN, id=None)
    (await probe.answer(None)).failed()


@check("W3", "other-ids-are-refused", required=False)
async def other_ids_are_refused(probe: Probe) -> None:
    """An id that is a fraction, a bool, an array or an object makes an invalid request."""
    await probe.initialize()
    probe.any_id = True
    ids: list[Any] = [1.5, True, [1], {"a": 1}]
    for id in ids:
        before = len(probe.messages)
        await probe.send({"jsonrpc": "2.0", "id": id, "method": "session/new", "params": {}})
        await probe.until(partial(probe.more_than, before), f"answer to a request with the id {id!r}")
        error = probe.messages[before].get("error")
        fits = is_object(error) and error.get("code") == -32600
        require(fits, f"the id {id!r} was answered with {error!r:.200}, not with -32600")


@check("W4", "no-json")
async def no_json(probe: Probe) -> None:
    """A line that is no JSON is answered with -32700 and the id null, and the connection lives."""
    await probe.initialize()
    await probe.send_bytes(b'{"jsonrpc": "2.0", "id": 1, "meth\n')
    await probe.nameless_error(-32700, "a line that is no JSON")
    await probe.sync()
    probe.nothing_nameless(1)


@check("W4", "no-utf-8")
async def no_utf8(probe: Probe) -> None:
    """A line that is no UTF-8 is answered with -32700 and the id null, and the connection lives."""
    await probe.initialize()
    await probe.send_bytes(b"\xff\xfe\xc3\n")
    await probe.nameless_error(-32700, "a line that is no UTF-8")
    await probe.sync()


@check("W4", "depth", required=False)
async def depth(probe: Probe) -> None:
    """JSON that is nested a hundred thousand times does no harm."""
    await probe.initialize()
    await probe.send_bytes(b"[" * 100_000 + b"]" * 100_000 + b"\n")
    await probe.sync()


@check("W4", "scalars")
async def scalars(probe: Probe) -> None:
    """JSON that is no object is answered with -32600 and the id null, and the connection lives."""
    await probe.initialize()
    await probe.send_bytes(b'"hello"\n')
    await probe.nameless_error(-32600, "a string in place of a message")
    await probe.sync()
    probe.nothing_nameless(1)


@check("W4", "batches", required=False)
async def batches(probe: Probe) -> None:
    """A batch is answered with a single -32600 whose id is null; there are no batches."""
    await probe.initialize()
    batch = [{"jsonrpc": "2.0", "id": f"batch-{number}", "method": UNKNOWN} for number in range(2)]
    await probe.send(batch)
    await probe.nameless_error(-32600, "a batch")
    await probe.sync()
    probe.nothing_nameless(1)


@check("W4", "methods-that-are-no-strings")
async def methods_that_are_no_strings(probe: Probe) -> None:
    """A request whose method is no string is answered with -32600."""
    await probe.initialize()
    id = probe.request(UNKNOWN)["id"]
    await probe.send({"jsonrpc": "2.0", "id": id, "method": 5})
    (await probe.answer(id)).failed(-32600)


@check("W4", "no-message", required=False)
async def no_message(probe: Probe) -> None:
    """An object that is neither a call nor an answer is answered with -32600."""
    await probe.initialize()
    id = probe.request(UNKNOWN)["id"]
    await probe.send({"jsonrpc": "2.0", "id": id})
    (await probe.answer(id)).failed(-32600)


@check("W4", "unknown-methods")
async def unknown_methods(probe: Probe) -> None:
    """A request for an unknown method is answered with -32601."""
    await probe.initialize()
    (await probe.ask("session/no_such_method")).failed(METHOD_NOT_FOUND)


def misfits(session: str) -> list[tuple[str, dict[str, Any], str]]:
    """Return parameters that do not fit: the method, them, and the field."""
    return [
        ("session/new", {"cwd": 5, "mcpServers": []}, "cwd"),
        ("session/prompt", {"sessionId": session}, "prompt"),
        ("session/prompt", {"sessionId": session, "prompt": "text"}, "prompt"),
        ("session/prompt", {"sessionId": 5, "prompt": []}, "sessionId"),
        ("session/prompt", {"sessionId": session, "prompt": [{"type": "text"}]}, "text"),
    ]


@check("W4", "params-that-do-not-fit")
async def params_that_do_not_fit(probe: Probe) -> None:
    """Parameters that do not fit are answered with -32602, and the session lives."""
    session = await probe.new_session()
    for method, params, _ in misfits(session):
        (await probe.ask(method, params)).failed(-32602)
    await probe.say_hello(session)


@check("W4", "the-field-that-does-not-fit", required=False)
async def the_field_that_does_not_fit(probe: Probe) -> None:
    """An error for parameters that do not fit names the field."""
    session = await probe.new_session()
    for method, params, field in misfits(session):
        error = (await probe.ask(method, params)).failed()
        require(field in json.dumps(error), f"the error does not name {field}: {error!r:.200}")


@check("W4", "params-that-are-no-object")
async def params_that_are_no_object(probe: Probe) -> None:
    """Parameters that are no object are answered with an error, and the connection lives."""
    await probe.initialize()
    odd: list[Any] = [[1, 2], "text", 5]
    for params in odd:
        (await probe.ask("session/new", params)).failed(-32602, -32600)


@check("W5", "unknown-notifications")
async def unknown_notifications(probe: Probe) -> None:
    """Notifications that are unknown or malformed are never answered."""
    session = await probe.new_session()
    await probe.notify("no/such/notification", {})
    await probe.notify("$/no_such_notification", {"a": 1})
    await probe.notify("_conformance/no_such_notification", {"a": 1})
    await probe.notify("session/cancel", {"sessionId": 5})
    await probe.notify("session/cancel", [])
    await probe.notify("$/cancel_request", {})
    await probe.sync()
    probe.nothing_nameless()
    await probe.say_hello(session)


@check("W6", "answers-to-nothing", required=False)
async def answers_to_nothing(probe: Probe) -> None:
    """An answer that nobody waits for is ignored."""
    session = await probe.new_session()
    await probe.send({"jsonrpc": "2.0", "id": "never asked", "result": {}})
    await probe.send({"jsonrpc": "2.0", "id": 4711, "error": {"code": -32603, "message": "no"}})
    await probe.sync()
    probe.nothing_nameless()
    await probe.say_hello(session)


@check("W6", "answers-that-say-both", required=False)
async def answers_that_say_both(probe: Probe) -> None:
    """An answer with a result and an error fails that request, and the turn comes to an end."""
    session = await probe.new_session()
    probe.on["session/request_permission"] = HOLD
    id = await probe.start_prompt(session, probe.prompts.write, "ask for permission")
    request = await probe.asked_for("session/request_permission")
    error = {"code": -32603, "message": "no"}
    await probe.send({"jsonrpc": "2.0", "id": request["id"], "result": {}, "error": error})
    await probe.answer(id)
    await probe.say_hello(session)


@check("W7", "meta")
async def meta(probe: Probe) -> None:
    """`_meta` may stand everywhere, and may be null."""
    told = {
        "_meta": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x": [1, None]}
    }
    await probe.initialize({"_meta": None}, **told)
    session = (await probe.another_session(**told))["sessionId"]
    block = {"type": "text", "text": probe.prompts.hello, **told}
    answer = await probe.ask("session/prompt", {**probe.prompt_params(session, block), **told})
    require(answer.result["stopReason"] != "cancelled", "the turn was cancelled")


@check("W8", "unknown-fields")
async def unknown_fields(probe: Probe) -> None:
    """Fields and capabilities that nobody knows are ignored."""
    more = {"conformanceUnknown": {"a": [1]}}
    await probe.initialize({**more, "fs": {**more}}, **more)
    session = (await probe.another_session(**more))["sessionId"]
    block = {"type": "text", "text": probe.prompts.hello, **more}
    answer = await probe.ask("session/prompt", {**probe.prompt_params(session, block), **more})
    require(answer.result["stopReason"] != "cancelled", "the turn was cancelled")


@check("W9", "lenient-fields", required=False)
async def lenient_fields(probe: Probe) -> None:
    """Fields of which the schema says that they may be malformed fall back to their defaults."""
    # Not by `initialize`: what is offered here is odd on purpose.
    params = {
        "protocolVersion": 1,
        "clientCapabilities": {"fs": "yes", "terminal": "maybe", "session": 5},
        "clientInfo": {"name": 5},
    }
    require((await probe.ask("initialize", params)).result, "initialize has no result")


@check("W11", "ends-with-its-input", required=False)
async def ends_with_its_input(probe: Probe) -> None:
    """When its input ends the agent exits by itself, with status 0."""
    await probe.new_session()
    await probe.end_input()
    status = await probe.exit_status()
    require(status == 0, f"its exit status is {status}")


@check("W11", "ends-with-its-input-in-a-turn", required=False)
async def ends_with_its_input_in_a_turn(probe: Probe) -> None:
    """When its input ends while a turn runs the agent exits by itself, with status 0."""
    session = await probe.new_session()
    before = len(probe.messages)
    id = await probe.start_prompt(session, probe.prompts.slow, "work for a while")
    await probe.first_update(session, before, id)
    await probe.end_input()
    status = await probe.exit_status()
    require(status == 0, f"its exit status is {status}")


@check("W11", "ends-with-its-input-while-it-asks", required=False)
async def ends_with_its_input_while_it_asks(probe: Probe) -> None:
    """When its input ends while it waits for an answer the agent exits by itself, with status 0."""
    session = await probe.new_session()
    probe.on["session/request_permission"] = HOLD
    await probe.start_prompt(session, probe.prompts.write, "ask for permission")
    await probe.asked_for("session/request_permission")
    await probe.end_input()
    status = await probe.exit_status()
    require(status == 0, f"its exit status is {status}")

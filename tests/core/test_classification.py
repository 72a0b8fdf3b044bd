"""What each kind of message is taken for (W1-W11, X4): one table, and the bookkeeping around it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trio_acp._core import (
    AuthRequired,
    CancelRequested,
    Connection,
    Event,
    InvalidResponse,
    JunkLine,
    LateResponse,
    MessageDropped,
    MessageRefused,
    NotificationReceived,
    RequestError,
    RequestReceived,
    RequestState,
    ResponseReceived,
)
from trio_acp._core import _connection as module


def connection(**options: Any) -> Connection:
    """A connection with one request of its own open (id 1), one given up (id 2), and "open" asked of it."""
    core = Connection(**options)
    core.request("ours/open", {})
    given_up, _ = core.request("ours/given_up", {})
    assert core.give_up(given_up) is not None
    (event,) = core.receive(b'{"jsonrpc":"2.0","id":"open","method":"theirs/open","params":{}}\n')
    assert isinstance(event, RequestReceived)
    return core


def take(core: Connection, line: bytes) -> list[Event]:
    return list(core.receive(line + b"\n"))


def reply_of(event: Event) -> Any:
    assert isinstance(event, MessageRefused | JunkLine)
    return None if event.reply is None else json.loads(event.reply)


def error_reply(id: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


# --- Requests ---

REQUESTS: list[tuple[str, bytes, Any, dict[str, Any]]] = [
    ("W3 integer id", b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}', 7, {"a": 1}),
    ("W3 string id", b'{"jsonrpc":"2.0","id":"7","method":"m","params":{"a":1}}', "7", {"a": 1}),
    ("W3 null id", b'{"jsonrpc":"2.0","id":null,"method":"m","params":{}}', None, {}),
    ("W3 negative id", b'{"jsonrpc":"2.0","id":-1,"method":"m"}', -1, {}),
    ("W3 empty id", b'{"jsonrpc":"2.0","id":"","method":"m"}', "", {}),
    ("W3 largest id", b'{"jsonrpc":"2.0","id":18446744073709551615,"method":"m"}', 2**64 - 1, {}),
    ("W3 an id that is also one of ours", b'{"jsonrpc":"2.0","id":1,"method":"m"}', 1, {}),
    ("W4 no params", b'{"jsonrpc":"2.0","id":7,"method":"m"}', 7, {}),
    ("W4 null params", b'{"jsonrpc":"2.0","id":7,"method":"m","params":null}', 7, {}),
    ("W8 unknown fields", b'{"id":7,"method":"m","params":{"x":[]},"more":1}', 7, {"x": []}),
    ("shape first: a method beside a result", b'{"id":1,"method":"m","result":{}}', 1, {}),
    (
        "X4 the cancel method as a request",
        b'{"id":7,"method":"$/cancel_request","params":{"requestId":"open"}}',
        7,
        {"requestId": "open"},
    ),
    (
        "W1 lone surrogate",
        b'{"id":"\\ud800","method":"m","params":{"t":"\\udfff"}}',
        "\ufffd",
        {"t": "\ufffd"},
    ),
]


@pytest.mark.parametrize(
    ("line", "id", "params"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS]
)
def test_a_request_is_taken_and_answered_under_its_very_id(
    line: bytes, id: Any, params: dict[str, Any]
) -> None:
    core = connection()
    (event,) = take(core, line)
    assert isinstance(event, RequestReceived)
    assert event.request.id == id
    assert type(event.request.id) is type(id)
    assert event.params == params
    assert event.size == len(line)
    assert event.request in core.open_inbound
    answer = core.answer(event.request, {"ok": True})
    assert answer.endswith(b"\n")
    sent = json.loads(answer)
    assert sent == {"jsonrpc": "2.0", "id": id, "result": {"ok": True}}
    assert type(sent["id"]) is type(id)
    assert event.request not in core.open_inbound


# --- Notifications ---

NOTIFICATIONS: list[tuple[str, bytes, str, dict[str, Any]]] = [
    (
        "W5 known or not",
        b'{"jsonrpc":"2.0","method":"session/update","params":{"a":1}}',
        "session/update",
        {"a": 1},
    ),
    ("W5 $/", b'{"method":"$/progress","params":{}}', "$/progress", {}),
    ("N1 extension", b'{"method":"_x.y/z","params":{}}', "_x.y/z", {}),
    ("no params", b'{"method":"m"}', "m", {}),
    ("null params", b'{"method":"m","params":null}', "m", {}),
    ("W1 carriage return", b'{"method":"m","params":{}}\r', "m", {}),
    ("W1 byte order mark", b'\xef\xbb\xbf{"method":"m","params":{}}', "m", {}),
    ("W1 invalid UTF-8", b'{"method":"m","params":{"t":"\xff"}}', "m", {"t": "\ufffd"}),
    ("a method and a result", b'{"method":"m","result":1}', "m", {}),
]


@pytest.mark.parametrize(
    ("line", "method", "params"), [row[1:] for row in NOTIFICATIONS], ids=[row[0] for row in NOTIFICATIONS]
)
def test_a_notification_is_taken(line: bytes, method: str, params: dict[str, Any]) -> None:
    core = connection()
    received = core.messages_received
    (event,) = take(core, line)
    assert isinstance(event, NotificationReceived)
    assert (event.method, event.params, event.size) == (method, params, len(line))
    assert core.messages_received == received + 1


# --- What is refused with an answer (W4) ---

NEITHER = "the message has neither method, result nor error"
REFUSED: list[tuple[str, bytes, Any, int, str]] = [
    (
        "batch",
        b'[{"jsonrpc":"2.0","id":7,"method":"m"}]',
        None,
        -32600,
        "the message is an array (ACP has no batches)",
    ),
    ("empty batch", b"[]", None, -32600, "the message is an array (ACP has no batches)"),
    ("string", b'"hello"', None, -32600, "the message is no object"),
    ("number", b"5", None, -32600, "the message is no object"),
    ("null", b"null", None, -32600, "the message is no object"),
    ("true", b"true", None, -32600, "the message is no object"),
    ("empty object", b"{}", None, -32600, NEITHER),
    ("an id alone", b'{"id":7}', 7, -32600, NEITHER),
    ("a string id alone", b'{"id":"x"}', "x", -32600, NEITHER),
    ("a bad id alone", b'{"id":[7]}', None, -32600, NEITHER),
    ("the id of an open request alone", b'{"id":"open"}', None, -32600, NEITHER),
    ("params alone", b'{"jsonrpc":"2.0","params":{}}', None, -32600, NEITHER),
    ("a result without id", b'{"jsonrpc":"2.0","result":{}}', None, -32600, NEITHER),
    ("W3 float id", b'{"id":1.0,"method":"m"}', None, -32600, "id: expected a string, an integer or null"),
    ("W3 bool id", b'{"id":true,"method":"m"}', None, -32600, "id: expected a string, an integer or null"),
    ("W3 object id", b'{"id":{},"method":"m"}', None, -32600, "id: expected a string, an integer or null"),
    ("W3 array id", b'{"id":[1],"method":"m"}', None, -32600, "id: expected a string, an integer or null"),
    (
        "W3 an id of more than 64 bits",
        b'{"id":99999999999999999999,"method":"m"}',
        None,
        -32600,
        "id: expected a string, an integer or null",
    ),
    (
        "W3 the same in a line with a lone surrogate",
        b'{"id":99999999999999999999,"method":"m","params":{"t":"\\ud800"}}',
        None,
        -32600,
        "id: expected a string, an integer or null",
    ),
    ("method is no string", b'{"id":7,"method":5}', 7, -32600, "method: expected a string"),
    ("method is null", b'{"id":7,"method":null}', 7, -32600, "method: expected a string"),
    (
        "method is no string, under the id of an open request",
        b'{"id":"open","method":5}',
        None,
        -32600,
        "method: expected a string",
    ),
    ("method is no string, no id", b'{"method":{}}', None, -32600, "method: expected a string"),
    (
        "params are an array",
        b'{"id":7,"method":"m","params":[1]}',
        7,
        -32602,
        "m: params: expected an object",
    ),
    (
        "params are a string",
        b'{"id":7,"method":"m","params":"x"}',
        7,
        -32602,
        "m: params: expected an object",
    ),
    (
        "the id is in use",
        b'{"id":"open","method":"m"}',
        None,
        -32600,
        "id: 'open' belongs to a request that is still open",
    ),
    (
        "the id is in use, and the params are an array",
        b'{"id":"open","method":"m","params":[]}',
        None,
        -32600,
        "id: 'open' belongs to a request that is still open",
    ),
]


@pytest.mark.parametrize(
    ("line", "id", "code", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_w4_a_message_that_cannot_be_served_is_answered_with_an_error(
    line: bytes, id: Any, code: int, message: str
) -> None:
    core = connection()
    before = core.open_inbound
    (event,) = take(core, line)
    assert isinstance(event, MessageRefused)
    assert reply_of(event) == error_reply(id, code, message)
    assert type(reply_of(event)["id"]) is type(id)
    assert event.reason
    assert core.open_inbound == before
    assert len(core.open_outbound) == 1


def test_w4_more_open_requests_than_anybody_needs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_INBOUND_REQUESTS", 2)
    core = Connection()
    first, second, third = core.receive(b"".join(b'{"id":%d,"method":"m"}\n' % n for n in range(3)))
    assert isinstance(first, RequestReceived)
    assert isinstance(second, RequestReceived)
    assert reply_of(third)["error"]["code"] == -32603
    core.answer(first.request, None)
    (fourth,) = take(core, b'{"id":3,"method":"m"}')
    assert isinstance(fourth, RequestReceived)


# --- What is dropped without an answer (W5, W6, X4) ---

DROPPED: list[tuple[str, bytes]] = [
    ("W5 params of a notification are an array", b'{"method":"m","params":[]}'),
    ("W5 params of a cancel are a string", b'{"method":"$/cancel_request","params":"open"}'),
    ("W6 an answer to nothing", b'{"id":99,"result":{}}'),
    ("W6 a string id is none of ours", b'{"id":"1","result":{}}'),
    ("W6 a float id is none of ours", b'{"id":1.0,"result":{}}'),
    ("W6 a bool id is none of ours", b'{"id":true,"result":{}}'),
    ("W6 an object is none of ours", b'{"id":{"a":1},"result":{}}'),
    ("W6 an error with null id", b'{"id":null,"error":{"code":-32700,"message":"what?"}}'),
    ("W6 a result with null id", b'{"id":null,"result":1}'),
    ("W6 an id nested as deep as JSON goes", b'{"id":' + b"[" * 1000 + b"]" * 1000 + b',"result":{}}'),
    ("W6 an error nested as deep as JSON goes", b'{"id":null,"error":' + b"[" * 1000 + b"]" * 1000 + b"}"),
    ("X4 cancel of an unknown id", b'{"method":"$/cancel_request","params":{"requestId":"other"}}'),
    ("X4 cancel of an id of ours", b'{"method":"$/cancel_request","params":{"requestId":1}}'),
    ("X4 cancel without id", b'{"method":"$/cancel_request","params":{}}'),
    ("X4 cancel without params", b'{"method":"$/cancel_request"}'),
    ("X4 cancel of null where none is open", b'{"method":"$/cancel_request","params":{"requestId":null}}'),
    ("X4 cancel of a bad id", b'{"method":"$/cancel_request","params":{"requestId":["open"]}}'),
]


@pytest.mark.parametrize("line", [row[1] for row in DROPPED], ids=[row[0] for row in DROPPED])
def test_what_says_nothing_to_us_is_dropped(line: bytes) -> None:
    core = connection()
    (event,) = take(core, line)
    assert isinstance(event, MessageDropped)
    assert 0 < len(event.reason) < 1000
    assert [request.id for request in core.open_outbound] == [1]
    assert [request.id for request in core.open_inbound] == ["open"]


def test_w6_an_error_without_id_is_quoted_since_it_may_explain_a_failure() -> None:
    (event,) = take(connection(), b'{"id":null,"error":{"code":-32700,"message":"what?"}}')
    assert isinstance(event, MessageDropped)
    assert "what?" in event.reason


# --- Answers to our requests (W6) ---

ANSWERS: list[tuple[str, bytes, Any, type[Exception] | None]] = [
    ("result", b'"result":{"a":1}', {"a": 1}, None),
    ("W6 null result", b'"result":null', None, None),
    ("result and null error", b'"result":{"a":1},"error":null', {"a": 1}, None),
    ("null result and null error", b'"result":null,"error":null', None, None),
    ("error", b'"error":{"code":-1,"message":"no","data":[1]}', None, RequestError),
    (
        "error and null result",
        b'"result":null,"error":{"code":-32000,"message":"log in"}',
        None,
        AuthRequired,
    ),
    ("W6 both", b'"result":{},"error":{"code":-1,"message":"no"}', None, InvalidResponse),
    ("W6 neither", b'"more":1', None, InvalidResponse),
    ("W6 null error alone", b'"error":null', None, InvalidResponse),
    ("W6 error is a string", b'"error":"no"', None, InvalidResponse),
    ("W6 result and error is a string", b'"result":1,"error":"no"', None, InvalidResponse),
    ("W6 no code", b'"error":{"message":"no"}', None, InvalidResponse),
    ("W6 code is a float", b'"error":{"code":1.0,"message":"no"}', None, InvalidResponse),
    ("W6 code is a bool", b'"error":{"code":true,"message":"no"}', None, InvalidResponse),
    (
        "W6 code of more than 64 bits",
        b'"error":{"code":99999999999999999999,"message":"\\ud800"}',
        None,
        InvalidResponse,
    ),
    ("W6 largest code", b'"error":{"code":18446744073709551615,"message":"no"}', None, RequestError),
    ("W6 no message", b'"error":{"code":1}', None, InvalidResponse),
    ("W6 message is null", b'"error":{"code":1,"message":null}', None, InvalidResponse),
    ("W1 lone surrogate", b'"result":{"t":"\\ud83e"}', {"t": "\ufffd"}, None),
]


@pytest.mark.parametrize(
    ("answer", "result", "error"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
@pytest.mark.parametrize("late", [False, True])
def test_w6_an_answer_settles_its_request_and_no_other(
    answer: bytes, result: Any, error: type[Exception] | None, late: bool
) -> None:
    core = connection()
    other, _ = core.request("ours/other", {})
    (event,) = take(core, b'{"jsonrpc":"2.0","id":%d,%s}' % (2 if late else 1, answer))
    assert isinstance(event, LateResponse if late else ResponseReceived)
    assert event.request.method == ("ours/given_up" if late else "ours/open")
    assert event.request.state is RequestState.ANSWERED
    assert event.result == result
    assert (None if event.error is None else type(event.error)) is error
    assert core.open_outbound == ([core.open_outbound[0], other] if late else [other])
    assert core.outbound_count == len(core.open_outbound)
    assert core.inbound_count == len(core.open_inbound) == 1
    (again,) = take(core, b'{"jsonrpc":"2.0","id":%d,"result":{}}' % (2 if late else 1))
    assert isinstance(again, MessageDropped)


def test_w3_our_ids_count_up_and_are_never_used_again() -> None:
    core = Connection()
    ids = []
    for _ in range(100):
        request, frame = core.request("m", {})
        ids.append(request.id)
        assert json.loads(frame)["id"] == request.id
        list(take(core, b'{"id":%d,"result":null}' % request.id))
    assert ids == list(range(1, 101))


def test_w3_the_two_directions_may_use_the_same_ids_at_once() -> None:
    core = Connection()
    ours, _ = core.request("ours", {})
    (theirs,) = take(core, b'{"id":1,"method":"theirs"}')
    assert isinstance(theirs, RequestReceived)
    (answered,) = take(core, b'{"id":1,"result":"for ours"}')
    assert isinstance(answered, ResponseReceived)
    assert answered.request is ours
    assert core.open_inbound == [theirs.request]
    assert json.loads(core.answer(theirs.request, "for theirs"))["id"] == 1


def test_w3_a_string_and_an_integer_that_look_alike_are_two_requests() -> None:
    core = Connection()
    events = list(core.receive(b'{"id":1,"method":"a"}\n{"id":"1","method":"b"}\n{"id":null,"method":"c"}\n'))
    assert [event.request.method for event in events if isinstance(event, RequestReceived)] == ["a", "b", "c"]
    (cancel,) = take(core, b'{"method":"$/cancel_request","params":{"requestId":"1"}}')
    assert isinstance(cancel, CancelRequested)
    assert cancel.request.method == "b"
    (cancel,) = take(core, b'{"method":"$/cancel_request","params":{"requestId":null}}')
    assert isinstance(cancel, CancelRequested)
    assert cancel.request.method == "c"


# --- Cancellation (X4) ---


@pytest.mark.parametrize("answer", ["result", "refuse"])
def test_x4_a_cancelled_request_is_still_answered_once(answer: str) -> None:
    core = connection()
    line = b'{"method":"$/cancel_request","params":{"requestId":"open"}}'
    (event,) = take(core, line)
    assert isinstance(event, CancelRequested)
    assert event.request.state is RequestState.CANCELLING
    (again,) = take(core, line)
    assert isinstance(again, MessageDropped)
    if answer == "result":
        frame = core.answer(event.request, {"partial": True})
    else:
        frame = core.refuse(event.request, RequestError(-32800, "cancelled"))
    assert json.loads(frame)["id"] == "open"
    (after,) = take(core, line)
    assert isinstance(after, MessageDropped)


def test_x4_giving_up_asks_the_peer_to_cancel_and_takes_the_late_answer() -> None:
    core = Connection()
    request, _ = core.request("m", {})
    frame = core.give_up(request)
    assert frame is not None
    assert json.loads(frame) == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}
    assert core.open_outbound == []
    assert core.give_up(request) is None
    (event,) = take(core, b'{"id":1,"result":"late"}')
    assert isinstance(event, LateResponse)
    assert event.result == "late"
    assert core.give_up(request) is None


def test_x4_giving_up_what_has_its_answer_or_its_end_asks_for_nothing() -> None:
    core = Connection()
    answered, _ = core.request("m", {})
    lost, _ = core.request("m", {})
    list(take(core, b'{"id":1,"result":null}'))
    assert core.disconnect() == [lost]
    assert core.give_up(answered) is None
    assert core.give_up(lost) is None
    assert (answered.state, lost.state) == (RequestState.ANSWERED, RequestState.LOST)


def test_only_so_many_given_up_requests_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GIVEN_UP_REQUESTS", 2)
    core = Connection()
    for _ in range(3):
        core.give_up(core.request("m", {})[0])
    first, second, third = core.receive(b"".join(b'{"id":%d,"result":null}\n' % id for id in (1, 2, 3)))
    assert isinstance(first, MessageDropped)
    assert isinstance(second, LateResponse)
    assert isinstance(third, LateResponse)

"""What the core keeps count of: answers given, junk, ends, and the order of it all (W1, W3, W4, W11)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.test_classification import connection, error_reply, reply_of, take
from trio_acp._core import (
    JUNK_SAMPLE_BYTES,
    Connection,
    ConnectionFailed,
    EndOfInput,
    JunkLine,
    LocalProtocolError,
    MessageRefused,
    MessageTooLarge,
    NotificationReceived,
    RemoteProtocolError,
    RequestError,
    RequestReceived,
    RequestState,
    ResponseReceived,
)

# --- Answering ---


def test_a_second_answer_is_a_mistake_of_ours_and_is_not_sent() -> None:
    core = connection()
    (request,) = core.open_inbound
    core.answer(request, None)
    with pytest.raises(LocalProtocolError, match="once"):
        core.answer(request, None)
    with pytest.raises(LocalProtocolError, match="once"):
        core.refuse(request, RequestError(1, "x"))


def test_an_answer_that_is_no_json_leaves_the_request_open_for_another() -> None:
    core = connection()
    (request,) = core.open_inbound
    with pytest.raises(LocalProtocolError, match="JSON"):
        core.answer(request, object())
    with pytest.raises(LocalProtocolError, match="JSON"):
        core.refuse(request, RequestError(1, "\ud800"))
    assert core.open_inbound == [request]
    assert json.loads(core.answer(request, 1)) == {"jsonrpc": "2.0", "id": "open", "result": 1}


def test_a_tap_that_is_shown_an_answer_finds_the_request_answered() -> None:
    found: list[list[Any]] = []
    core = connection()
    (request,) = core.open_inbound

    def tap(direction: str, frame: bytes | bytearray, message: Any) -> None:
        found.append([direction, request.state])
        with pytest.raises(LocalProtocolError, match="once"):
            core.answer(request, 2)

    core.tap = tap
    core.answer(request, 1)
    assert found == [["sent", RequestState.ANSWERED]]


def test_a_request_whose_params_are_no_json_is_not_opened() -> None:
    core = Connection()
    with pytest.raises(LocalProtocolError, match="JSON"):
        core.request("m", object())
    assert core.open_outbound == []


def test_callbacks_are_kept_on_the_request_and_not_called_by_the_core() -> None:
    core = Connection()
    calls: list[Any] = []

    def on_answer(result: Any, error: Any) -> None:
        calls.append(result)

    request, _ = core.request("m", {}, on_answer, calls.append)
    list(take(core, b'{"id":1,"result":5}'))
    assert request.on_answer is on_answer
    assert request.on_late == calls.append
    assert calls == []


# --- Junk (W4) ---


@pytest.mark.parametrize(
    "line", [b"Welcome!", b"\x1b[2J", b"{'a': 1}", b"{", b"\xff\xfe\x00", b"NaN", b"[" * 5000]
)
def test_w4_a_client_passes_over_lines_that_are_no_json(line: bytes) -> None:
    core = connection()
    (event,) = take(core, line)
    assert isinstance(event, JunkLine)
    assert event.reply is None
    assert event.sample == line[:JUNK_SAMPLE_BYTES]
    assert core.junk_lines == 1


@pytest.mark.parametrize("line", [b"Welcome!", b"{", b"\xff"])
def test_w4_an_agent_answers_them_with_a_parse_error_under_a_null_id(line: bytes) -> None:
    (event,) = take(connection(answer_junk=True), line)
    assert reply_of(event) == error_reply(None, -32700, "this line is not JSON")


def test_a_message_behind_other_output_in_one_line_is_named_as_such() -> None:
    (event,) = take(Connection(), b'\x1b]0;title\x07{"jsonrpc":"2.0","id":1,"result":{}}')
    assert isinstance(event, JunkLine)
    assert "after other output" in event.reason
    (event,) = take(Connection(), b'{"jsonrpc":"2.0","id":1,"resu')
    assert isinstance(event, JunkLine)
    assert "not JSON" in event.reason


@pytest.mark.parametrize("blank", [b"", b" ", b"\r", b"\t \r"])
def test_w1_blank_lines_are_nothing(blank: bytes) -> None:
    core = Connection(max_junk_lines=1)
    assert take(core, blank) == []
    assert core.junk_lines == 0


@pytest.mark.parametrize("junk", [b"banner", b"[]", b"{}", b'{"method":5}'])
def test_w4_too_much_junk_in_a_row_ends_the_connection_with_a_sample(junk: bytes) -> None:
    core = connection(max_junk_lines=3)
    (ours,) = core.open_outbound
    events = list(core.receive((junk + b"\n") * 5))
    assert [type(event).__name__ for event in events[-2:]] == [type(events[0]).__name__, "ConnectionFailed"]
    assert len(events) == 4
    failed = events[-1]
    assert isinstance(failed, ConnectionFailed)
    assert isinstance(failed.error, RemoteProtocolError)
    assert repr(junk) in str(failed.error)
    assert "stderr" in str(failed.error)
    assert failed.lost == [ours]
    assert list(core.receive(b'{"method":"m"}\n')) == []
    assert list(core.receive(b"")) == []


@pytest.mark.parametrize(
    "good",
    [
        b'{"method":"m","params":{}}',
        b'{"method":"m"}',
        b'{"method":"m","params":[]}',
        b'{"id":5,"method":"m"}',
        b'{"id":5,"method":"m","params":[]}',
        b'{"id":1,"result":1}',
        b'{"id":77,"result":1}',
    ],
)
def test_w4_a_message_between_the_junk_starts_the_count_again(good: bytes) -> None:
    core = connection(max_junk_lines=2)
    events = list(core.receive(b"junk\n" + good + b"\njunk\n"))
    assert len(events) == 3
    assert core.junk_in_a_row == 1
    assert core.junk_lines == 2


@pytest.mark.parametrize("limit", [0, 1])
def test_w4_no_junk_allowed_means_that_the_first_line_of_it_ends_the_connection(limit: int) -> None:
    core = Connection(max_junk_lines=limit)
    good, junk, failed = core.receive(b'{"id":1,"method":"m"}\njunk\n')
    assert isinstance(good, RequestReceived)
    assert isinstance(junk, JunkLine)
    assert isinstance(failed, ConnectionFailed)


def test_w4_without_a_limit_junk_never_ends_the_connection() -> None:
    core = Connection(max_junk_lines=None)
    assert len(list(core.receive(b"junk\n" * 1000))) == 1000
    (event,) = take(core, b'{"method":"m"}')
    assert isinstance(event, NotificationReceived)


def test_a_long_method_name_does_not_make_a_long_diagnostic() -> None:
    name = b"x" * 10_000
    (event,) = take(Connection(), b'{"id":"%s","method":"%s","params":[]}' % (name, name))
    assert isinstance(event, MessageRefused)
    assert len(event.reason) < 1000


# --- Ends (W11) ---


def test_w11_the_end_of_the_input_loses_every_open_request_at_once() -> None:
    core = connection()
    (ours,), (theirs,) = core.open_outbound, core.open_inbound
    (event,) = core.receive(b"")
    assert isinstance(event, EndOfInput)
    assert event.lost == [ours]
    assert ours.state is theirs.state is RequestState.LOST
    assert (core.open_outbound, core.open_inbound) == ([], [])
    assert not core._given_up
    assert list(core.receive(b"")) == []
    assert core.disconnect() == []


def test_w11_an_answer_that_is_ready_after_the_end_is_no_mistake() -> None:
    core = connection()
    (theirs,) = core.open_inbound
    core.disconnect()
    core.answer(theirs, 1)
    assert theirs.state is RequestState.LOST


def test_w11_nothing_can_be_asked_after_the_end() -> None:
    core = Connection()
    core.disconnect()
    with pytest.raises(LocalProtocolError, match="ended"):
        core.request("m", {})


def test_w1_a_last_line_without_newline_counts() -> None:
    core = connection()
    assert list(core.receive(b'{"id":1,"result":"last"}')) == []
    answer, end = core.receive(b"")
    assert isinstance(answer, ResponseReceived)
    assert answer.result == "last"
    assert isinstance(end, EndOfInput)
    assert end.lost == []


def test_a_last_line_that_was_cut_off_is_junk_and_then_the_end() -> None:
    core = connection()
    assert list(core.receive(b'{"id":1,"resu')) == []
    junk, end = core.receive(b"")
    assert isinstance(junk, JunkLine)
    assert isinstance(end, EndOfInput)
    assert [request.id for request in end.lost] == [1]


def test_a_last_line_of_junk_over_the_limit_is_the_failure_and_not_the_end_too() -> None:
    core = Connection(max_junk_lines=1)
    assert list(core.receive(b"junk")) == []
    assert [type(event) for event in core.receive(b"")] == [JunkLine, ConnectionFailed]


def test_a_message_over_the_limit_ends_the_connection_after_the_messages_before_it() -> None:
    core = connection(max_message_bytes=100)
    first, failed = core.receive(b'{"method":"m"}\n' + b"x" * 101)
    assert isinstance(first, NotificationReceived)
    assert isinstance(failed, ConnectionFailed)
    assert isinstance(failed.error, MessageTooLarge)
    assert failed.error.limit == 100
    assert [request.id for request in failed.lost] == [1]
    assert list(core.receive(b'\n{"method":"m"}\n')) == []


def test_junk_that_ends_the_connection_counts_before_an_overflow_behind_it() -> None:
    core = Connection(max_message_bytes=10, max_junk_lines=1)
    events = list(core.receive(b"junk\n" + b"x" * 11))
    assert [type(event) for event in events] == [JunkLine, ConnectionFailed]
    assert isinstance(events[1], ConnectionFailed)
    assert not isinstance(events[1].error, MessageTooLarge)


# --- Laziness: what the caller does about one event holds for the next ---


@pytest.mark.parametrize(
    "line", [b"junk", b"[]", b'{"method":"m","params":{}}', b'{"id":1,"method":"m"}', b'{"method":"m"}']
)
@pytest.mark.parametrize("limit", [1, 100])
def test_disconnecting_between_two_events_ends_the_rest(line: bytes, limit: int) -> None:
    core = Connection(max_junk_lines=limit)
    seen = []
    for event in core.receive((line + b"\n") * 3):
        seen.append(event)
        core.disconnect()
    assert len(seen) == 1


@pytest.mark.parametrize("line", [b'{"method":"m","params":{}}', b'{"method":"m"}', b'{"id":1,"method":"m"}'])
def test_disconnecting_when_told_of_a_message_ends_the_rest(line: bytes) -> None:
    core = Connection()
    told: list[Any] = []

    def tell(*message: Any) -> None:
        told.append(message)
        core.disconnect()

    assert list(core.receive((line + b"\n") * 3, tell, tell)) == []
    assert len(told) == 1


def test_an_answer_given_between_two_events_frees_the_id_for_the_next_message() -> None:
    core = Connection()
    taken = 0
    for event in core.receive(b'{"id":5,"method":"m"}\n' * 3):
        assert isinstance(event, RequestReceived)
        core.answer(event.request, None)
        taken += 1
    assert taken == 3


# --- The tap ---


def test_the_tap_sees_every_frame_of_both_directions_in_order() -> None:
    seen: list[tuple[str, bytes, Any]] = []

    def tap(direction: str, frame: bytes | bytearray, message: Any) -> None:
        seen.append((direction, bytes(frame), message))

    core = Connection(tap=tap, answer_junk=True)
    core.request("m", {})
    list(core.receive(b'\n{"id":1,"result":2}\njunk\n{"id":3,"method":"n","params":[]}\n'))
    assert [(direction, message) for direction, _, message in seen] == [
        ("sent", {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {}}),
        ("received", {"id": 1, "result": 2}),
        ("received", None),
        ("sent", error_reply(None, -32700, "this line is not JSON")),
        ("received", {"id": 3, "method": "n", "params": []}),
        ("sent", error_reply(3, -32602, "n: params: expected an object")),
    ]
    assert seen[1][1] == b'{"id":1,"result":2}'
    assert seen[2][1] == b"junk"
    assert all(not frame.endswith(b"\n") for _, frame, _ in seen)

"""Properties of the core that hold for any bytes, in any chunking, from any peer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.core.machine import TwoConnections
from trio_acp._core import (
    Connection,
    ConnectionFailed,
    EndOfInput,
    Event,
    JunkLine,
    LineFramer,
    MessageRefused,
    MessageTooLarge,
    RequestReceived,
    decode_leniently,
    encode,
    redact,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
IDS: st.SearchStrategy[Any] = st.sampled_from([None, 1, 2, 3, "1", "a", 1.0, True, -5, 2**64 - 1, [], {}])
METHODS: st.SearchStrategy[Any] = st.sampled_from(["m", "$/cancel_request", "$/other", "_x/y", 5, None, []])
PARAMS: st.SearchStrategy[Any] = (
    st.sampled_from([{}, None, [], "x", {"requestId": 1}, {"requestId": "a"}, {"requestId": None}]) | VALUES
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": IDS,
        "method": METHODS,
        "params": PARAMS,
        "result": VALUES,
        "error": VALUES
        | st.fixed_dictionaries({"code": st.integers() | VALUES, "message": st.text() | VALUES}),
    },
)
"""Anything that has a part of a message's shape."""

LINES = st.one_of(
    MESSAGES.map(lambda message: json.dumps(message).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b" ",
            b"\r",
            b"\xef\xbb\xbf",
            b"NaN",
            b'"\\ud800"',
            b"[" * 2000,
            b'{"id":1,"result":1e999}',
            b"9" * 5000,
        ]
    ),
    st.builds(
        lambda message, junk, at: (
            (text := json.dumps(message).encode())[: at % (len(text) + 1)]
            + junk
            + text[at % (len(text) + 1) :]
        ),
        MESSAGES,
        st.binary(max_size=4),
        st.integers(0, 200),
    ),
)
STREAMS = st.tuples(st.lists(LINES, max_size=12), st.sampled_from([b"", b"\n"])).map(
    lambda parts: b"\n".join(parts[0]) + parts[1]
)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data cut at the given places, wherever those are sensible."""
    edges = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


CUTS = st.lists(st.integers(0, 4096), max_size=12)


def described(event: Event) -> Any:
    """An event as something that can be compared."""
    fields = {name: getattr(event, name) for name in attrs.fields_dict(type(event))}
    for name, value in fields.items():
        if name == "request":
            fields[name] = (type(value).__name__, value.id, value.method)
        elif name == "lost":
            fields[name] = [request.id for request in value]
        elif isinstance(value, Exception):
            fields[name] = (type(value).__name__, str(value))
    return type(event).__name__, repr(fields)


def conversation(data: list[bytes], **options: Any) -> list[Any]:
    """All that a connection with two open requests makes of the data, its end included."""
    core = Connection(**options)
    core.request("a", {})
    core.give_up(core.request("b", {})[0])
    return [described(event) for chunk in [*data, b""] for event in core.receive(chunk)]


@given(
    STREAMS | st.binary(max_size=200),
    CUTS,
    st.booleans(),
    st.sampled_from([None, 2, 100]),
    st.sampled_from([10, 50, 2**20]),
)
@example(b"a\n\nb", [1, 2, 3], True, 2, 10)
def test_w1_any_bytes_give_the_same_events_in_any_chunking_and_never_an_exception(
    data: bytes, cuts: list[int], answer_junk: bool, max_junk_lines: int | None, limit: int
) -> None:
    options: dict[str, Any] = {
        "answer_junk": answer_junk,
        "max_junk_lines": max_junk_lines,
        "max_message_bytes": limit,
    }
    whole = conversation([data] if data else [], **options)
    assert conversation(chunks(data, cuts), **options) == whole
    assert conversation([data[i : i + 1] for i in range(len(data))], **options) == whole
    assert whole[-1][0] in ("EndOfInput", "ConnectionFailed")
    assert [name for name, _ in whole[:-1] if name in ("EndOfInput", "ConnectionFailed")] == []


def reference_frames(data: bytes, limit: int) -> tuple[list[bytes], bool]:
    """Framing as one would explain it: split, then look at each length."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    framed = [line + b"\n" for line in lines]
    for index, line in enumerate(lines):
        if len(line) > limit:
            return framed[:index], True
    return framed, False


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\n\n", b"\r\n", b"xyzw"]), max_size=30),
    CUTS,
    st.integers(0, 12),
)
def test_w1_framing_agrees_with_the_naive_reference(parts: list[bytes], cuts: list[int], limit: int) -> None:
    data = b"".join(parts)
    framer = LineFramer(limit)
    lines = [bytes(line) for chunk in chunks(data, cuts) for line in framer.feed(chunk)]
    last = framer.end()
    if last is not None:
        lines.append(bytes(last))
    assert (lines, framer.overflowed) == reference_frames(data, limit)


@given(STREAMS, CUTS)
def test_each_request_is_answered_once_and_under_its_own_id(data: bytes, cuts: list[int]) -> None:
    core = Connection(answer_junk=True, max_junk_lines=None)
    asked: list[Any] = []
    answered: list[Any] = []
    refused = 0
    for chunk in chunks(data, cuts):
        for event in core.receive(chunk):
            if isinstance(event, RequestReceived):
                asked.append(event.request.id)
                if len(asked) % 2:
                    answered.append(json.loads(core.answer(event.request, len(asked)))["id"])
            elif isinstance(event, MessageRefused | JunkLine) and event.reply is not None:
                assert json.loads(event.reply)["error"]["code"] in (-32700, -32600, -32602)
                refused += 1
    # What is still open has ids of its own: two answers could not be told apart otherwise.
    left = [(type(request.id), request.id) for request in core.open_inbound]
    assert len(set(left)) == len(left)
    answered += [json.loads(core.answer(request, None))["id"] for request in core.open_inbound]
    assert sorted(map(repr, asked)) == sorted(map(repr, answered))
    assert core.open_inbound == []


@given(VALUES)
def test_what_is_sent_is_received(value: Any) -> None:
    one, other = Connection(), Connection()
    _, frame = one.request("m", {"value": value})
    (event,) = other.receive(frame)
    assert isinstance(event, RequestReceived)
    assert event.params == {"value": value}
    assert event.size == len(frame) - 1


@given(st.binary(max_size=60) | LINES)
def test_what_the_lenient_decoder_accepts_can_be_sent_again(line: bytes) -> None:
    try:
        value = decode_leniently(line)
    except ValueError:
        return
    assert encode({"value": value}).endswith(b"\n")


@given(
    st.dictionaries(
        st.sampled_from(["env", "headers", "a", "name", "value"]), VALUES | st.just("s3cret"), max_size=5
    ),
    st.data(),
)
def test_no_value_below_env_or_headers_survives_redaction(
    message: dict[str, Any], data: st.DataObject
) -> None:
    secret = data.draw(
        st.sampled_from(["s3cret", ["s3cret"], {"k": "s3cret"}, [{"name": "N", "value": "s3cret"}]])
    )
    for key in ("env", "headers"):
        shown = repr(
            redact({"params": [{**{k: v for k, v in message.items() if v != "s3cret"}, key: secret}]})
        )
        assert "s3cret" not in shown


@pytest.mark.parametrize("limit", [1, 7])
def test_a_failure_for_size_is_the_last_word_in_any_chunking(limit: int) -> None:
    core = Connection(max_message_bytes=limit)
    (event,) = core.receive(b"x" * (limit + 1))
    assert isinstance(event, ConnectionFailed)
    assert isinstance(event.error, MessageTooLarge)
    assert not [event for event in core.receive(b"") if isinstance(event, EndOfInput)]


def test_two_connections_keep_their_books_alike_whatever_happens() -> None:
    run_state_machine_as_test(
        TwoConnections, settings=settings(settings.default, stateful_step_count=40, max_examples=60)
    )

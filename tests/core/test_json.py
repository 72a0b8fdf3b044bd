"""JSON from and to the wire: strict where we send, lenient where we receive."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from trio_acp._core import (
    MAX_LENIENT_DEPTH,
    LocalProtocolError,
    TextFrames,
    decode,
    decode_leniently,
    encode,
)
from trio_acp._core._brief import BRIEF_CHARACTERS, brief
from trio_acp._core._json import SEARCHED_BYTES


def test_w1_a_message_is_written_compactly_on_one_line() -> None:
    frame = encode({"jsonrpc": "2.0", "method": "m", "params": {"text": "a\nb\r\u2028\x00é🦊"}})
    expected = '{"jsonrpc":"2.0","method":"m","params":{"text":"a\\nb\\r\u2028\\u0000é🦊"}}\n'
    assert frame == expected.encode()
    assert frame.count(b"\n") == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("around", "path"),
    [
        (lambda value: {"value": value}, "value"),
        (
            lambda value: {"id": None, "params": {"a": [1, 2.5, "x", None, {"b": value}]}},
            r"params\.a\[4\]\.b",
        ),
        (lambda value: {"text": "null", "params": ((), (value,))}, r"params\[1\]\[0\]"),
        (lambda value: {"text": "n" * SEARCHED_BYTES, "value": value}, "value"),
    ],
    ids=["shallow", "deep", "in tuples", "large"],
)
def test_numbers_that_json_has_no_words_for_are_refused_by_their_place(
    value: float, around: Callable[[float], dict[str, Any]], path: str
) -> None:
    with pytest.raises(LocalProtocolError, match=rf"\({path}: NaN or infinite\); send None"):
        encode(around(value))


@pytest.mark.parametrize("text", ["null", "n" * SEARCHED_BYTES])
def test_null_and_texts_that_speak_of_it_are_sent(text: str) -> None:
    value = {"id": None, "a": [text, 1.5, []]}
    assert decode(encode(value)) == value


def nested(depth: int, inner: Any = 0) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, "\ud800", {"\udfff": 1}, 2**64, -(2**63) - 1, {1, 2}, b"bytes", nested(300)],
    ids=["object", "integer-key", "surrogate", "surrogate-key", "big", "small", "set", "bytes", "deep"],
)
def test_what_json_cannot_carry_is_refused_with_a_hint(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"cannot be sent as JSON.*pass only") as caught:
        encode({"params": {"secret": "hunter2", "value": value}})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'"\\ud83d"', "\ufffd"),
        (b'"\\udd8a"', "\ufffd"),
        (b'"a\\ud83db\\udd8ac"', "a\ufffdb\ufffdc"),
        (b'"\\udd8a\\ud83d"', "\ufffd\ufffd"),
        (b'"whole \\ud83e\\udd8a, half \\ud83e"', "whole 🦊, half \ufffd"),
        (b'"\xf0\x9f"', "\ufffd"),
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b'"\xed\xa0\xbd"', "\ufffd\ufffd\ufffd"),
        (b'{"\\ud800":["\\udfff",{"x":"\xff"}]}', {"\ufffd": ["\ufffd", {"x": "\ufffd"}]}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":"\xff"}\r', {"a": "\ufffd"}),
        (b'[1,-2,3.5,true,false,null,"\xff"]', [1, -2, 3.5, True, False, None, "\ufffd"]),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_halves_of_characters_and_a_byte_order_mark_are_borne(line: bytes, value: Any, kind: type) -> None:
    with pytest.raises(ValueError):
        decode(line)
    assert decode_leniently(kind(line)) == value


@pytest.mark.parametrize(
    "line",
    [
        b"NaN",
        b"[1,NaN]",
        b"Infinity",
        b"-Infinity",
        b'{"a":1e999,"b":"\xff"}',
        b"-1e999",
        b"9" * 400,
        b"9" * 5000,
        b"-" + b"9" * 400,
        b"",
        b"\xef\xbb\xbf",
        b"plain text",
        b"{'a': 1}",
        b'{"a":1',
        b'{"a":1}}',
        b'{"a":1} {"b":2}',
        b'"line\x01break"',
        b"\x00",
        b"undefined",
    ],
)
def test_what_nobody_would_call_json_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)
    with pytest.raises(ValueError):
        decode_leniently(line)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [MAX_LENIENT_DEPTH, 1025, 100_000])
def test_nesting_that_is_too_deep_is_refused_by_the_lenient_decoder(opening: bytes, depth: int) -> None:
    closing = b"]" if opening == b"[" else b"}"
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_leniently(opening * depth + b"0" + closing * depth)


def test_nesting_within_the_bound_is_accepted() -> None:
    depth = MAX_LENIENT_DEPTH - 1
    assert decode_leniently(b"[" * depth + b'"\xff"' + b"]" * depth) == nested(depth, "\ufffd")


def test_deep_nesting_is_an_ordinary_refusal_also_where_little_of_the_stack_is_left() -> None:
    def from_depth(frames: int) -> Any:
        return from_depth(frames - 1) if frames else decode_leniently(line)

    depth = MAX_LENIENT_DEPTH - 1
    line = b"[" * depth + b'"\xff"' + b"]" * depth
    used = 0
    frame: Any = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back
    with pytest.raises(ValueError, match="nested too deeply"):
        from_depth(sys.getrecursionlimit() - used - 40)


@pytest.mark.parametrize("text", [b"18446744073709551615", b"-9223372036854775808", b"0", b"-0", b"12"])
def test_integers_of_64_bits_are_the_same_by_both_decoders(text: bytes) -> None:
    value = decode_leniently(text)
    assert type(value) is int
    assert value == decode(text)


@pytest.mark.parametrize(
    "text", [b"18446744073709551616", b"-9223372036854775809", b"1" * 100, b"1.5", b"1e5"]
)
def test_larger_integers_are_floats_by_both_decoders_so_that_they_can_be_sent_again(text: bytes) -> None:
    value = decode_leniently(text)
    assert type(value) is float
    assert math.isclose(value, decode(text))
    assert encode({"value": value})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        ("a'b", '"a\'b"'),
        ({"a": [1, True, {}]}, "{'a': [1, True, {}]}"),
        ([[[[[1]]]]], "[[[[[...]]]]]"),
        ([[[[{"k": 1}]]]], "[[[[{...}]]]]"),
        ([[[[[], {}]]]], "[[[[[], {}]]]]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        (
            {str(n): n for n in range(9)},
            "{'0': 0, '1': 1, '2': 2, '3': 3, '4': 4, '5': 5, '6': 6, '7': 7, ...}",
        ),
    ],
)
def test_a_value_is_quoted_as_python_writes_it_cut_short(value: Any, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    "value",
    [nested(100_000), "x" * 10**6, ["y" * 10**6] * 10**4, {"k" * 1000 + str(n): n for n in range(99)}],
)
def test_a_quoted_value_is_never_long_nor_deep(value: Any) -> None:
    assert len(brief(value)) <= BRIEF_CHARACTERS + 3


def of_text(text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "m", "params": {"a": "b", "text": text, "after": [1]}}


@pytest.mark.parametrize("text", ["", "plain", 'quoted "', "line\nfeed", "é🦊\x00", "hole-"])
def test_frames_that_differ_in_one_text_are_those_of_the_whole_messages(text: str) -> None:
    frames = TextFrames(of_text(TextFrames.HOLE))
    assert frames.frame(text) == encode(of_text(text))
    assert frames.frame("again") == encode(of_text("again"))


@pytest.mark.parametrize("id", ["", "plain", 'quoted "', "é🦊\x00", "hole-"])
def test_frames_that_share_an_id_are_those_of_the_whole_messages(id: str) -> None:
    def of(text: str, id: str) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": "m", "params": {"text": text, "id": id, "after": [1]}}

    common = TextFrames(of(TextFrames.HOLE, TextFrames.ID))
    assert common.with_id(id).frame("text") == encode(of("text", id))
    assert common.with_id(TextFrames.HOLE).frame("text") == encode(of("text", TextFrames.HOLE))
    assert common.with_id("other").frame(TextFrames.ID) == encode(of(TextFrames.ID, "other"))


def test_an_id_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent as JSON"):
        TextFrames(of_text(TextFrames.HOLE)).with_id("\ud800")


def test_a_text_that_json_cannot_carry_is_refused_with_the_same_hint() -> None:
    frames = TextFrames(of_text(TextFrames.HOLE))
    with pytest.raises(LocalProtocolError, match=r"cannot be sent as JSON.*pass only") as caught:
        frames.frame("hunter2 \ud800")
    assert "hunter2" not in str(caught.value)

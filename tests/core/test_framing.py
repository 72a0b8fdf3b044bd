"""Cutting bytes into lines (W1): right, linear and bounded, whatever the chunking."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest

from trio_acp._core import DEFAULT_MAX_MESSAGE_BYTES, LineFramer

TEXT = b'{"a":1}\n\r\n\n{"emoji":"\xf0\x9f\xa6\x8a"}\r\n \n{"b":2}\nlast'
LINES = [b'{"a":1}\n', b"\r\n", b"\n", b'{"emoji":"\xf0\x9f\xa6\x8a"}\r\n', b" \n", b'{"b":2}\n', b"last\n"]


def frames(framer: LineFramer, chunks: Iterable[bytes]) -> list[bytes]:
    """What the framer makes of the chunks, the end of the stream included."""
    lines = [bytes(line) for chunk in chunks for line in framer.feed(chunk)]
    last = framer.end()
    return lines if last is None else [*lines, bytes(last)]


@pytest.mark.parametrize("cut", range(1, len(TEXT)))
def test_w1_lines_are_the_same_wherever_the_bytes_are_split_in_two(cut: int) -> None:
    assert frames(LineFramer(), [TEXT[:cut], TEXT[cut:]]) == LINES


def test_w1_lines_are_the_same_one_byte_at_a_time() -> None:
    assert frames(LineFramer(), [TEXT[i : i + 1] for i in range(len(TEXT))]) == LINES


def test_w1_a_line_is_handed_out_with_its_newline_and_not_before() -> None:
    framer = LineFramer()
    assert framer.feed(b"{}") == []
    assert framer.pending_bytes == 2
    assert framer.feed(b"\n") == [b"{}\n"]
    assert framer.pending_bytes == 0


def test_w1_a_stream_that_ends_with_a_newline_has_no_last_line() -> None:
    framer = LineFramer()
    assert framer.feed(b"{}\n") == [b"{}\n"]
    assert framer.end() is None


def test_w1_the_last_line_is_handed_out_once_and_with_a_newline() -> None:
    framer = LineFramer()
    assert framer.feed(b"{}") == []
    last = framer.end()
    assert last is not None
    assert bytes(last) == b"{}\n"
    assert framer.end() is None


def test_ten_thousand_messages_in_one_read_are_ten_thousand_lines() -> None:
    lines = [b'{"n":%d}\n' % n for n in range(10_000)]
    assert LineFramer().feed(b"".join(lines)) == lines


class CountingBytes(bytes):
    """Bytes that know how many of them have been searched for newlines."""

    searched = 0

    def __contains__(self, what: Any) -> bool:
        CountingBytes.searched += len(self)
        return bytes.__contains__(self, what)


@pytest.fixture
def searched() -> type[CountingBytes]:
    CountingBytes.searched = 0
    return CountingBytes


def test_each_byte_of_a_64_mb_message_is_searched_once_and_copied_a_bounded_number_of_times(
    searched: type[CountingBytes],
) -> None:
    size = 64 * 1024 * 1024
    chunk = CountingBytes(b"x" * 65536)
    framer = LineFramer()
    moved, room = 0, 0
    for _ in range(size // len(chunk)):
        assert framer.feed(chunk) == []
        now = sys.getsizeof(framer._partial)
        if now != room:  # the buffer grew: at worst, all that it held was moved
            room, moved = now, moved + framer.pending_bytes
    assert searched.searched == size
    assert moved < 12 * size
    (line,) = framer.feed(b"\n")
    assert len(line) == size + 1


def test_one_byte_at_a_time_costs_the_same_few_calls_for_each_byte(searched: type[CountingBytes]) -> None:
    def calls(length: int) -> int:
        framer = LineFramer()
        count = 0

        def profile(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        byte = CountingBytes(b"x")
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            for _ in range(length):
                framer.feed(byte)
        finally:
            sys.setprofile(before)
        return count

    few, many = calls(1000), calls(10_000)
    assert searched.searched == 11_000
    assert many <= 10 * few + 10


@pytest.mark.parametrize("size", [1, 3, 8, 9, 1000])
def test_a_line_as_long_as_the_limit_passes_in_any_chunking(size: int) -> None:
    data = b"12345678\n" * 3
    framer = LineFramer(8)
    assert frames(framer, [data[i : i + size] for i in range(0, len(data), size)]) == [b"12345678\n"] * 3
    assert not framer.overflowed


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 11, 1000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nok\n"])
def test_a_line_over_the_limit_overflows_and_costs_no_earlier_line(size: int, end: bytes) -> None:
    data = b"12345678\nab\n123456789" + end
    framer = LineFramer(8)
    lines = frames(framer, [data[i : i + size] for i in range(0, len(data), size)])
    assert lines == [b"12345678\n", b"ab\n"]
    assert framer.overflowed
    assert framer.pending_bytes == 0


def test_a_line_that_began_in_an_earlier_chunk_survives_an_overflow_in_the_same_chunk() -> None:
    framer = LineFramer(8)
    assert framer.feed(b"ab") == []
    assert framer.feed(b"cd\n" + b"x" * 9) == [b"abcd\n"]
    assert framer.overflowed


def test_nothing_is_framed_after_an_overflow() -> None:
    framer = LineFramer(4)
    assert framer.feed(b"12345") == []
    assert framer.feed(b"\nok\n") == []
    assert framer.end() is None


def test_the_limit_holds_while_the_line_has_not_ended_so_that_no_peer_can_fill_the_memory() -> None:
    framer = LineFramer(1000)
    held = 0
    for _ in range(100):
        framer.feed(b"x" * 99)
        held = max(held, framer.pending_bytes)
    assert held <= 1000
    assert framer.overflowed


def test_by_default_a_message_may_have_64_mib() -> None:
    assert DEFAULT_MAX_MESSAGE_BYTES == 64 * 1024 * 1024
    framer = LineFramer()
    assert len(framer.feed(b"x" * DEFAULT_MAX_MESSAGE_BYTES + b"\n")) == 1
    assert framer.feed(b"x" * (DEFAULT_MAX_MESSAGE_BYTES + 1)) == []
    assert framer.overflowed

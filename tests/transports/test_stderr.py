"""What is kept and passed on of an agent's stderr."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_acp.transports._stderr import STDERR_LINE_BYTES, STDERR_TAIL_BYTES, StderrLog


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))), st.data())
def test_lines_come_out_as_written_however_they_are_cut_into_chunks(
    lines: list[str], data: st.DataObject
) -> None:
    got: list[str] = []
    log = StderrLog(got.append)
    rest = "".join(line + "\n" for line in lines).encode()
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        log.feed(rest[:size])
        rest = rest[size:]
    log.feed(b"")
    assert got == lines


def test_a_last_line_without_an_end_is_passed_on_at_the_end() -> None:
    got: list[str] = []
    log = StderrLog(got.append)
    log.feed(b"one\r\ntwo")
    assert got == ["one"]
    log.feed(b"")
    log.feed(b"")
    assert got == ["one", "two"]


def test_an_endless_line_is_passed_on_in_bounded_pieces() -> None:
    got: list[str] = []
    log = StderrLog(got.append)
    log.feed(b"x" * (3 * STDERR_LINE_BYTES + 1))
    log.feed(b"")
    assert [len(line) for line in got] == [STDERR_LINE_BYTES] * 3 + [1]


def test_bytes_that_are_no_text_are_replaced() -> None:
    got: list[str] = []
    log = StderrLog(got.append)
    log.feed(b"a\xff\xfeb\n")
    assert got == ["a\ufffd\ufffdb"]
    assert log.tail() == "a\ufffd\ufffdb\n"


def test_the_tail_is_the_newest_64_kib_cut_between_characters() -> None:
    log = StderrLog()
    log.feed("€".encode() * STDERR_TAIL_BYTES)
    assert log.tail() == "€" * (STDERR_TAIL_BYTES // 3)


def test_a_tail_of_nothing_but_pieces_of_characters_is_still_given() -> None:
    log = StderrLog()
    log.feed(b"\x80" * (STDERR_TAIL_BYTES + 1))
    assert log.tail() == "\ufffd" * (STDERR_TAIL_BYTES - 3)


def test_a_failing_callback_is_kept_logged_once_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    got: list[str] = []

    def fail(line: str) -> None:
        got.append(line)
        raise LookupError(line)

    log = StderrLog(fail)
    with caplog.at_level(logging.ERROR, "trio_acp.transports"):
        log.feed(b"one\ntwo\n")
    assert got == ["one", "two"]
    assert repr(log.callback_error) == "LookupError('one')"
    assert len(caplog.records) == 1

"""What agents send is shown, and does nothing to the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_acp.cli import _text


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("dos\r\nlines", "dos\nlines"),
        ("over\rwritten", "over␍written"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset", "charset"),
        ("\x1b", "␛"),
        ("\x1b]52;c;unfinished", "␛]52;c;unfinished"),
        ("\x9b2J", "�2J"),
        ("\x7f\x00", "␡␀"),
        ("turned \u202eround", "turned �round"),
        ("half \ud83d", "half �"),
    ],
)
def test_controls_are_taken_out_or_made_visible(sent: str, shown: str) -> None:
    assert _text.clean(sent) == shown


@given(st.text(alphabet=st.characters()))
def test_nothing_that_controls_a_terminal_is_left_in_any_text(sent: str) -> None:
    shown = _text.clean(sent)
    assert all(unicodedata.category(c) not in ("Cc", "Cs") or c in "\n\t" for c in shown)
    shown.encode("utf-8")
    assert "\n" not in _text.one_line(sent)


@given(st.text(alphabet="\x1b[]0;12mJ\x07\\a\n"), st.integers(0, 20))
def test_a_text_that_comes_in_pieces_is_as_safe(sent: str, cut: int) -> None:
    assert "\x1b" not in _text.clean(sent[:cut]) + _text.clean(sent[cut:])


def test_a_line_cannot_look_like_several() -> None:
    assert _text.one_line("Delete?\n\n  1) no\r\n") == "Delete? 1) no"


def test_long_lines_and_many_lines_are_cut_and_say_so() -> None:
    assert _text.one_line("x" * 3000) == "x" * 2000 + "…"
    assert _text.limit_lines(["a", "y" * 3000, "b", "c"], 2) == ["a", "y" * 2000 + "…", "… 2 more lines"]
    assert _text.limit_lines(["a", "b", "c"], 2) == ["a", "b", "… 1 more line"]
    assert _text.limit_lines(["a", "b", "c", "d"], 2, 1) == ["a", "… 2 more lines", "d"]
    assert _text.limit_lines(["a"], 2) == ["a"]

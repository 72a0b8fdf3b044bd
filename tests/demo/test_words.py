"""What the demo agent understands."""

from __future__ import annotations

import pytest

from trio_acp.demo import HELP
from trio_acp.demo._app import pieces
from trio_acp.demo._words import (
    Choose,
    Form,
    Help,
    ListFiles,
    MakePlan,
    Read,
    Run,
    Slow,
    Think,
    Unknown,
    Word,
    Write,
    understand,
)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("help", Help()),
        ("  HELP! ", Help()),
        ("list the files", ListFiles()),
        ("List files.", ListFiles()),
        ("list", ListFiles()),
        ("read a file with spaces", Read("a file with spaces")),
        ("Read A.txt", Read("A.txt")),
        ("write a.txt: some: text", Write("a.txt", "some: text")),
        ("write a.txt:", Write("a.txt", "")),
        ("write sub/a.txt :  two\nlines", Write("sub/a.txt", " two\nlines")),
        ("run ls -l | wc", Run("ls -l | wc")),
        ("slow 1.5", Slow(1.5)),
        ("slow 0", Slow(0.0)),
        ("choose", Choose()),
        ("form", Form()),
        ("plan", MakePlan()),
        ("think", Think()),
    ],
)
def test_each_word_is_understood(text: str, word: Word) -> None:
    assert understand(text) == word


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "I am a demo agent without a model"),
        ("what is love?", "I am a demo agent without a model"),
        ("read", "`read FILE`"),
        ("write a.txt", "`write FILE: TEXT`"),
        ("write : text", "`write FILE: TEXT`"),
        ("run", "`run COMMAND`"),
        ("slow", "`slow 10`"),
        ("slow down", "`slow 10`"),
        ("slow -1", "`slow 10`"),
        ("slow inf", "`slow 10`"),
        ("slow nan", "`slow 10`"),
    ],
)
def test_what_is_not_understood_is_answered_with_what_would_be(text: str, problem: str) -> None:
    word = understand(text)
    assert isinstance(word, Unknown)
    assert problem in word.problem


def test_help_names_every_word() -> None:
    for word in ("help", "list the files", "read", "write", "run", "slow", "choose", "form", "plan", "think"):
        assert f"- `{word}" in HELP


@pytest.mark.parametrize("text", ["", "  ", "one", "one two\n\nthree ", " lead", "x " * 5000, HELP])
def test_an_answer_in_pieces_is_the_answer(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert len(pieces(text)) <= 80

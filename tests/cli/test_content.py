"""Content of every kind has a form that can be shown."""

from __future__ import annotations

from typing import Any

import pytest

from trio_acp import ToolCallState
from trio_acp.cli._content import (
    Line,
    block_text,
    call_title,
    content_lines,
    diff_lines,
    question_lines,
    usage_words,
)
from trio_acp.schema import (
    AudioContent,
    BlobResourceContents,
    Content,
    ContentBlock,
    Cost,
    Diff,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    Terminal,
    TerminalExitStatus,
    TextContent,
    TextResourceContents,
    UnknownVariant,
    UsageUpdate,
)


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (TextContent("a\x1b[1mb"), "ab"),
        (ImageContent("", "image/png"), "[image: image/png]"),
        (AudioContent("", "audio/wav"), "[audio: audio/wav]"),
        (ResourceLink("a", "file:///a"), "[link: file:///a]"),
        (EmbeddedResource(TextResourceContents("words", "file:///b")), "[resource: file:///b]\nwords"),
        (EmbeddedResource(BlobResourceContents("", "file:///c")), "[resource: binary]"),
        (UnknownVariant("smell", {"type": "smell"}), "[content of unknown type 'smell']"),
        (UnknownVariant(None, {}), "[content of unknown type '']"),
    ],
)
def test_each_kind_of_content_block_becomes_text(block: ContentBlock, shown: str) -> None:
    assert block_text(block) == shown


def test_a_tool_call_has_a_name_whatever_the_agent_told_of_it() -> None:
    assert call_title(ToolCallState("1", title="Read\na file")) == "Read a file"
    assert call_title(ToolCallState("1", name="read_file", kind="read")) == "read_file"
    assert call_title(ToolCallState("1", kind="read")) == "read"
    assert call_title(ToolCallState("1", title=" ")) == "tool call"


def test_the_result_of_a_tool_call_is_cut_after_some_lines() -> None:
    text = "\n".join(map(str, range(20))) + "\n"
    lines = content_lines([Content(TextContent(text)), Terminal("t"), UnknownVariant("new", {})], "/d")
    assert [line.text for line in lines] == [
        *map(str, range(8)),
        "… 8 more lines",
        *map(str, range(16, 20)),
        "[terminal t]",
        "[result of unknown type 'new']",
    ]


class Command:
    """What is looked at of a command that runs here."""

    def __init__(self, output: str, status: TerminalExitStatus | None, *, truncated: bool = False) -> None:
        self.output = output
        self.exit_status = status
        self.truncated = truncated


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (Command("one\r\ntwo\n\n", TerminalExitStatus(exit_code=0)), ["one", "two"]),
        (Command("", TerminalExitStatus(exit_code=0)), ["(no output)"]),
        (Command("\n", None), ["(still running)"]),
        (Command("10 %\r20 %\rdone\r\nx\r", TerminalExitStatus(exit_code=3)), ["done", "x", "(exit code 3)"]),
        (Command("a\x1b]0;t\x07b", TerminalExitStatus(signal="SIGKILL")), ["ab", "(ended by SIGKILL)"]),
        (
            Command("\n".join(map(str, range(20))), TerminalExitStatus(exit_code=0), truncated=True),
            ["… earlier output is gone", *"01234567", "… 8 more lines", "16", "17", "18", "19"],
        ),
    ],
)
def test_a_command_is_its_output_and_how_it_ended(command: Any, shown: list[str]) -> None:
    """F2, F3"""
    lines = content_lines([Terminal("t")], "/d", {"t": command}.get)
    assert lines == [Line(line, "result") for line in shown]


def test_a_change_of_a_file_is_a_diff_with_a_short_path() -> None:
    assert content_lines([Diff("/d/sub/a.txt", "one\nthree\n", "one\ntwo\n")], "/d") == [
        Line("sub/a.txt (changed)", "path"),
        Line("@@ -1,2 +1,2 @@", "place"),
        Line(" one", "result"),
        Line("-two", "removed"),
        Line("+three", "added"),
    ]


def test_a_new_file_is_all_additions_and_a_file_elsewhere_keeps_its_path() -> None:
    assert diff_lines(Diff("/else/a.txt", "one"), "/d") == [
        Line("/else/a.txt (new file)", "path"),
        Line("@@ -0,0 +1 @@", "place"),
        Line("+one", "added"),
    ]


def test_an_emptied_file_and_an_unchanged_one_are_fine() -> None:
    assert [line.text for line in diff_lines(Diff("/a", "", "x\n"), "/")] == [
        "a (changed)",
        "@@ -1 +0,0 @@",
        "-x",
    ]
    assert [line.text for line in diff_lines(Diff("/a", "x\n", "x\n"), "/")] == ["a (changed)"]


def test_huge_changes_are_counted_rather_than_compared() -> None:
    lines = diff_lines(Diff("/a", "x\n" * 5000, "y"), "/")
    assert lines[1:] == [Line("1 line before, 5,001 lines after", "result")]


def test_a_long_diff_is_cut() -> None:
    lines = diff_lines(Diff("/a", "x\n" * 500, "y\n" * 500), "/")
    assert len(lines) == 202
    assert lines[-1].text == "… 801 more lines"


def test_usage_is_told_with_its_share_and_its_cost() -> None:
    assert (
        usage_words(UsageUpdate(1500, 2000, Cost(0.25, "EUR")))
        == "context 1,500 of 2,000 tokens (75%), 0.25 EUR"
    )
    assert usage_words(UsageUpdate(1, 1000)) == "context 1 of 1,000 tokens (<1%)"
    assert usage_words(UsageUpdate(0, 1000)) == "context 0 of 1,000 tokens (0%)"
    assert usage_words(UsageUpdate(5, 0)) == "context 5 of 0 tokens"


@pytest.mark.parametrize(
    ("raw_input", "shown"),
    [
        (None, []),
        ("rm -rf /", []),
        ({}, []),
        ({"command": 5}, []),
        ({"command": ""}, []),
        ({"command": "make all"}, []),
        ({"command": "rm -rf /\x1b[2J"}, ["$ rm -rf /"]),
        ({"command": "cd /\nls\n"}, ["$ cd /", "  ls"]),
        ({"command": ["echo", "a b", 5]}, ["$ echo 'a b'"]),
    ],
)
def test_a_question_shows_the_command_unless_the_title_does(raw_input: Any, shown: list[str]) -> None:
    call = ToolCallState("t", title="Run make all", raw_input=raw_input)
    call.content = [Diff("/p/x", "new")]
    lines = [line.text for line in question_lines(call, "/p")]
    assert lines == [*shown, "x (new file)", "@@ -0,0 +1 @@", "+new"]

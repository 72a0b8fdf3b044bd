"""What agents produce, as lines to show: content blocks, results of tool calls, changes of files, usage."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from trio_acp import ToolCallState
from trio_acp.schema import (
    AudioContent,
    Content,
    ContentBlock,
    Diff,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    Terminal,
    TextContent,
    TextResourceContents,
    ToolCallContent,
    UsageUpdate,
)

from ._text import clean, limit_lines, one_line, plural

if TYPE_CHECKING:
    from trio_acp import workspace

__all__ = [
    "Line",
    "TerminalLookup",
    "as_overwritten",
    "block_text",
    "call_title",
    "command_lines",
    "content_lines",
    "diff_lines",
    "no_terminals",
    "question_lines",
    "usage_words",
]

MAX_RESULT_LINES: Final = 12
"""Lines of a tool call's result that are shown: enough to see what it did, and not the whole of a file."""

LAST_RESULT_LINES: Final = 4
"""How many of them are the last ones: commands come to the point there."""

MAX_DIFF_LINES: Final = 200
"""Lines of a change that are shown."""

MAX_COMPARED_LINES: Final = 5000
"""Lines of a file, before and after together, that are compared: comparing takes time that grows faster."""


TerminalLookup: TypeAlias = Callable[[str], "workspace.Terminal | None"]
"""Finds a command by the id of its terminal."""


def no_terminals(terminal_id: str) -> None:
    """There are none that are known here."""


class Line(NamedTuple):
    """A line to show, and what it is: the name of a style."""

    text: str
    style: str = "text"


def block_text(block: ContentBlock) -> str:
    """Return a content block as text; what is no text is named."""
    match block:
        case TextContent(text=text):
            return clean(text)
        case ImageContent(mime_type=kind) | AudioContent(mime_type=kind):
            what = "image" if isinstance(block, ImageContent) else "audio"
            return f"[{what}: {one_line(kind)}]"
        case ResourceLink(uri=uri):
            return f"[link: {one_line(uri)}]"
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return f"[resource: {one_line(uri)}]\n{clean(text)}"
        case EmbeddedResource():
            return "[resource: binary]"
        case unknown:
            return f"[content of unknown type {one_line(unknown.tag or '')!r}]"


def call_title(call: ToolCallState) -> str:
    """Return what a tool call is called, whatever the agent has told of it so far."""
    return one_line(call.title or call.name or call.kind or "") or "tool call"


def content_lines(
    content: list[ToolCallContent], cwd: str, terminals: TerminalLookup = no_terminals
) -> list[Line]:
    """Return the result of a tool call as lines.

    Args:
        content: the result.
        cwd: where the session works; paths below it are shortened.
        terminals: finds the commands that it refers to, for their output.
    """
    lines: list[Line] = []
    for item in content:
        match item:
            case Content(content=block):
                text = block_text(block).rstrip("\n").split("\n")
                lines += [
                    Line(line, "result") for line in limit_lines(text, MAX_RESULT_LINES, LAST_RESULT_LINES)
                ]
            case Diff():
                lines += diff_lines(item, cwd)
            case Terminal(terminal_id=id):
                lines += terminal_lines(id, terminals(id))
            case unknown:
                lines.append(Line(f"[result of unknown type {one_line(unknown.tag or '')!r}]", "result"))
    return lines


def terminal_lines(terminal_id: str, terminal: workspace.Terminal | None) -> list[Line]:
    """Return the output of a command, bounded, and how it ended; the id of one that does not run here."""
    if terminal is None:
        return [Line(f"[terminal {one_line(terminal_id)}]", "result")]
    status = terminal.exit_status
    if status is None:
        end = "(still running)"
    elif status.signal is not None:
        end = f"(ended by {one_line(status.signal)})"
    else:
        end = f"(exit code {status.exit_code})" if status.exit_code else ""
    lines = [as_overwritten(line) for line in terminal.output.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    shown = limit_lines(lines, MAX_RESULT_LINES, LAST_RESULT_LINES)
    if terminal.truncated:
        shown.insert(0, "… earlier output is gone")
    if end or not shown:
        shown.append(end or "(no output)")
    return [Line(line, "result") for line in shown]


def as_overwritten(line: str) -> str:
    """Return what is left of a line of output: a carriage return goes back to its beginning."""
    return clean(line.rstrip("\r").rpartition("\r")[2])


def question_lines(call: ToolCallState, cwd: str) -> list[Line]:
    """Return what somebody has to see before permitting a tool call: its change of files, or its command."""
    return [*command_lines(call), *content_lines(call.content, cwd)]


def command_lines(call: ToolCallState) -> list[Line]:
    """Return the command that a tool call is to run, as far as its input and not its title says so."""
    given: Any = call.raw_input
    command: Any = cast("dict[str, Any]", given).get("command") if isinstance(given, dict) else None
    if isinstance(command, list):
        words = cast("list[object]", command)
        command = shlex.join([word for word in words if isinstance(word, str)])
    if not isinstance(command, str) or not command or one_line(command) in call_title(call):
        return []
    lines = limit_lines(clean(command).rstrip("\n").split("\n"), MAX_RESULT_LINES, LAST_RESULT_LINES)
    return [Line(f"{'$' if n == 0 else ' '} {line}", "result") for n, line in enumerate(lines)]


def diff_lines(diff: Diff, cwd: str) -> list[Line]:
    """Return a change of a file as lines of a unified diff, its path relative to `cwd` where it is below."""
    path = one_line(shorten_path(diff.path, cwd))
    old = [] if diff.old_text is None else clean(diff.old_text).split("\n")
    new = clean(diff.new_text).split("\n")
    what = "new file" if diff.old_text is None else "changed"
    head = Line(f"{path} ({what})", "path")
    if len(old) + len(new) > MAX_COMPARED_LINES:
        return [head, Line(f"{plural(len(old), 'line')} before, {plural(len(new), 'line')} after", "result")]
    # A last newline is no empty line.
    old, new = (lines[:-1] if lines and not lines[-1] else lines for lines in (old, new))
    changes = list(difflib.unified_diff(old, new, n=3, lineterm=""))[2:]  # without the names
    shown = limit_lines(changes, MAX_DIFF_LINES)
    return [head, *(Line(line, _DIFF_STYLES.get(line[:1], "result")) for line in shown)]


_DIFF_STYLES: Final = {"+": "added", "-": "removed", "@": "place"}


def shorten_path(path: str, cwd: str) -> str:
    """Return a path relative to a directory if it is below it."""
    below = path.startswith(cwd.rstrip(os.sep) + os.sep)
    return os.path.relpath(path, cwd) if below else path


def usage_words(usage: UsageUpdate) -> str:
    """Say how full the context is, and what it has cost."""
    words = f"context {usage.used:,} of {usage.size:,} tokens"
    if usage.size:
        share = usage.used / usage.size
        words += " (<1%)" if 0 < share < 0.01 else f" ({share:.0%})"
    if usage.cost is not None:
        words += f", {usage.cost.amount:.4g} {one_line(usage.cost.currency)}"
    return words

"""A turn as text for people: what is shown, in which order and spacing. How is an `Output`'s matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from trio_acp import (
    ConnectedAgent,
    Decision,
    PermissionRequest,
    Reject,
    Selected,
    Session,
    ToolCallState,
    Turn,
)
from trio_acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionUpdate,
    ContentChunk,
    CurrentModeUpdate,
    Notice,
    Plan,
    PlanEntry,
    SessionUpdate,
    StopReason,
    Terminal,
    ToolCall,
    ToolCallStatus,
    ToolCallUpdate,
    UnknownVariant,
)

from ._content import (
    Line,
    TerminalLookup,
    as_overwritten,
    block_text,
    call_title,
    command_lines,
    content_lines,
    no_terminals,
    usage_words,
)
from ._text import clean, one_line

__all__ = ["Output", "Screen"]

MAX_TAIL: Final = 2000
"""Characters of a command's newest line that are kept: more than a terminal is wide."""

MAX_TAILS: Final = 64
"""Commands whose newest line is kept; those that have been silent longest are forgotten."""

_FINISHED: Final = (ToolCallStatus.COMPLETED, ToolCallStatus.FAILED)


class Output(Protocol):
    """Writes styled text. Styles are names of what a text is; see `_rich` for all of them."""

    @property
    def to_terminal(self) -> bool:
        """A person sees it at once."""
        ...

    @property
    def shows_activity(self) -> bool:
        """It has a place for what is going on, so that only what is done needs lines."""
        ...

    def mark(self, status: str) -> str:
        """Return a sign or word for the status of a tool call or plan entry."""
        ...

    def write(self, text: str, style: str) -> None:
        """Write text that may hold newlines, and does not end with one unless it says so."""
        ...

    def activity(self, titles: Sequence[str]) -> None:
        """Show what is going on, until something is written or other titles come."""
        ...

    def close(self) -> None:
        """Leave the terminal in order."""
        ...


@final
class Screen:
    """Shows a turn through an `Output`.

    Args:
        output: what writes.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._cwd = ""
        self._calls: dict[str, ToolCallState] = {}
        self._shown: dict[str, list[Line]] = {}
        """Lines of each call's content that have been shown, so as not to show them twice."""
        self._terminals: TerminalLookup = no_terminals
        self._tails: dict[str, str] = {}
        """The newest line of each command, those that have written last at the end."""
        self._activity_shown = False
        """What is going on can be seen, below all that was written."""
        self._plan: list[tuple[str, str]] = []
        self._paragraph: tuple[str, str | None] | None = None
        """Kind and message id of the text that the next chunk may continue."""
        self._last = ""
        """The kind of what was written last."""
        self._newlines = 2
        """With how many newlines the text so far ends; at its beginning there is no need for any."""

    @property
    def shows_questions(self) -> bool:
        """Questions can be seen where they are asked."""
        return self._output.to_terminal

    # What happens --------------------------------------------------------------------------------------

    def waiting(self, what: str) -> None:
        """Show for what, until something comes."""
        self._output.activity([one_line(what)])

    def start(self, agent: ConnectedAgent, session: Session, terminals: TerminalLookup) -> None:
        """Take note of where the session works, and of how its commands are found."""
        self._cwd = session.cwd
        self._terminals = terminals

    def update(self, update: SessionUpdate) -> None:
        """Show an update. What is about the session rather than the turn is left out."""
        match update:
            case AgentMessageChunk():
                self._chunk("text", update)
            case AgentThoughtChunk():
                self._chunk("thought", update)
            case ToolCall() | ToolCallUpdate():
                self._tool_call(update)
            case Plan(entries=entries):
                self._show_plan(entries)
            case CurrentModeUpdate(current_mode_id=mode):
                self._remark(f"mode: {one_line(mode)}")
            case Notice(severity=severity, title=title, description=description):
                more = f": {one_line(description)}" if description else ""
                self._remark(f"{one_line(severity)}: {one_line(title)}{more}", "warning")
            case CompactionUpdate(status=status):
                self._remark(f"compaction of the context: {one_line(status).replace('_', ' ')}")
            case UnknownVariant(tag=tag):
                self._remark(f"an update of a kind that is not known here: {one_line(tag or '')!r}")
            case _:
                pass

    def terminal_output(self, terminal_id: str, text: str) -> None:
        """Show the newest line of a command beside what is going on, where there is a place for that."""
        if not self._output.shows_activity:
            return
        # The last line is what comes behind the last newline, unless nothing does.
        written = (self._tails.pop(terminal_id, "") + text)[-MAX_TAIL:].rstrip("\n").rpartition("\n")[2]
        ended = "\n" if text.endswith("\n") else ""
        self._tails[terminal_id] = written + ended
        while len(self._tails) > MAX_TAILS:
            del self._tails[next(iter(self._tails))]
        if self._activity_shown:
            self._output.activity(self._activities())

    def question(self, request: PermissionRequest) -> None:
        """Show what the agent asks permission for, whole."""
        call = request.tool_call
        self._calls[call.tool_call_id] = call
        self._output.activity(())
        self._begin("question")
        self._line(Line(f"The agent asks: {call_title(call)}", "question"))
        for line in command_lines(call):
            self._line(line, "    ")
        self._show_content(call)

    def answered(self, request: PermissionRequest, decision: Decision) -> None:
        """Show what was answered."""
        match decision:
            case Selected(option_id=id):
                option = request.option(id)
            case Reject():
                option = request.first_reject()
            case _:
                option = None
        words = "cancelled" if option is None else f"{one_line(option.name)} ({kind_words(option.kind)})"
        self._begin("question")
        self._line(Line(f"Answer: {words}", "remark"))
        self._show_activity()

    def cancelling(self) -> None:
        """Say that the end is on its way."""
        self._remark("cancelling; press Ctrl-C again to leave at once", "warning")

    def end(self, turn: Turn) -> None:
        """Say how the turn ended, and how full the context is."""
        self._output.activity(())
        style = "remark"
        if turn.abandoned:
            words, style = "cancelled; the agent did not end the turn in time", "warning"
        elif turn.stop_reason == StopReason.END_TURN:
            words = "end of turn"
        elif turn.stop_reason == StopReason.CANCELLED:
            words, style = "cancelled", "warning"
        else:
            words, style = (
                f"the agent stopped: {one_line(str(turn.stop_reason)).replace('_', ' ')}",
                "warning",
            )
        if turn.usage is not None:
            words += f"; {usage_words(turn.usage)}"
        self._begin("end")
        self._line(Line(words, style))

    def failed(self, error: BaseException, message: str) -> None:
        """End the line; stderr says the rest."""
        self._output.activity(())
        self._end_line()

    def close(self) -> None:
        """End the line, so that a prompt of the shell starts on one of its own."""
        self._output.activity(())
        self._end_line()
        self._output.close()

    # Paragraphs ----------------------------------------------------------------------------------------

    def _write(self, text: str, style: str) -> None:
        self._activity_shown = False
        self._output.write(text, style)
        bare = text.rstrip("\n")
        self._newlines = (self._newlines if not bare else 0) + len(text) - len(bare)

    def _line(self, line: Line, indent: str = "") -> None:
        self._write(f"{indent}{line.text}\n", line.style)

    def _end_line(self) -> None:
        if self._newlines == 0:
            self._write("\n", "text")

    def _begin(self, kind: str) -> None:
        """Begin a paragraph: after an empty line, unless it goes on with what the one before was."""
        wanted = 1 if kind == self._last else 2
        self._write_newlines(wanted - self._newlines)
        self._last = kind
        self._paragraph = None

    def _write_newlines(self, count: int) -> None:
        if count > 0:
            self._write("\n" * count, "text")

    def _remark(self, text: str, style: str = "remark") -> None:
        self._begin("remark")
        self._line(Line(text, style))
        self._show_activity()

    def _chunk(self, kind: str, chunk: ContentChunk) -> None:
        text = block_text(chunk.content)
        if self._paragraph != (kind, chunk.message_id):
            text = text.lstrip("\n")
            if not text:
                return  # nothing but the space before a message, which we make ourselves
            self._last = ""  # two messages have an empty line between them, also when they are of one kind
            self._begin(kind)
            self._paragraph = (kind, chunk.message_id)
        self._write(text, kind)

    # Tool calls ----------------------------------------------------------------------------------------

    def _tool_call(self, update: ToolCall | ToolCallUpdate) -> None:
        call = self._calls.get(update.tool_call_id)
        if call is None:
            call = self._calls[update.tool_call_id] = ToolCallState(update.tool_call_id)
        before = call.status
        call.merge(update)
        if call.status != before and (call.status in _FINISHED or not self._output.shows_activity):
            self._show_call(call)
        elif before in _FINISHED and update.content is not None:
            # A result that comes late: some agents finish a call first.
            self._begin("tool")
            self._show_content(call)
        self._show_activity()

    def _show_call(self, call: ToolCallState) -> None:
        self._begin("tool")
        status = str(call.status)
        self._write(f"{self._output.mark(status)} ", status)
        self._write(call_title(call), "title")
        self._write("\n", "text")
        if call.status in _FINISHED:
            self._show_content(call)

    def _show_content(self, call: ToolCallState) -> None:
        lines = content_lines(call.content, self._cwd, self._terminals)
        seen = self._shown.get(call.tool_call_id, [])
        self._shown[call.tool_call_id] = lines
        new = lines[len(seen) :] if lines[: len(seen)] == seen else lines
        for line in new:
            self._line(line, "    ")

    def _show_activity(self) -> None:
        going_on = self._activities()
        if going_on and self._output.shows_activity:
            # It needs a line of its own, below what has been said so far.
            self._end_line()
            self._paragraph = None
        self._output.activity(going_on)
        self._activity_shown = bool(going_on)

    def _activities(self) -> list[str]:
        """What is going on: the title of each call, and the newest line of what it runs."""
        return [
            ": ".join([call_title(call), *self._newest_lines(call)])
            for call in self._calls.values()
            if call.status not in _FINISHED
        ]

    def _newest_lines(self, call: ToolCallState) -> list[str]:
        ids = [item.terminal_id for item in call.content if isinstance(item, Terminal)]
        lines = [as_overwritten(self._tails.get(id, "").rstrip("\n")) for id in ids]
        return [one_line(line) for line in lines if line.strip()]

    # The plan ------------------------------------------------------------------------------------------

    def _show_plan(self, entries: list[PlanEntry]) -> None:
        plan = [(clean(entry.content), str(entry.status)) for entry in entries]
        if plan == self._plan:
            return
        same_steps = [content for content, _ in plan] == [content for content, _ in self._plan]
        before, self._plan = self._plan, plan
        self._begin("plan")
        if not same_steps:
            self._line(Line("Plan", "title"))
        for number, (content, status) in enumerate(plan):
            # Of a plan that was shown before, only what has changed.
            if not same_steps or before[number] != (content, status):
                self._write(f"  {self._output.mark(status)} ", status)
                self._line(Line(one_line(content), "result" if status == "completed" else "text"))
        self._show_activity()


def kind_words(kind: str) -> str:
    """Return the kind of a permission option in words."""
    return one_line(kind).replace("_", " ")

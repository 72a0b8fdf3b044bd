"""Parts of the command that whole runs of it do not reach, or not in every way."""

from __future__ import annotations

import io
import os
import pathlib
import signal
import sys
import threading

import pytest
import trio

from tests.cli.terminals import agent
from trio_acp import (
    Cancelled,
    Decision,
    PermissionRequest,
    Reject,
    Selected,
    ToolCallState,
    connect_acp,
)
from trio_acp.agent import AgentApp, AgentSession
from trio_acp.cli import _main, main
from trio_acp.cli._ask import NoTerminal, TerminalAsker, understand
from trio_acp.cli._inspect import agent_lines, auth_method_lines, session_lines
from trio_acp.cli._interrupts import Interrupts
from trio_acp.cli._json import JsonLines
from trio_acp.cli._plain import PlainOutput
from trio_acp.cli._screen import Screen
from trio_acp.schema import (
    AgentMessageChunk,
    AuthMethod,
    AuthMethodAgent,
    AuthMethodTerminal,
    InitializeResponse,
    PermissionOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallUpdate,
    UnknownVariant,
)


def request(*options: tuple[str, str]) -> PermissionRequest:
    return PermissionRequest(
        "s1",
        ToolCallState("c1", title="Do it"),
        {"toolCallId": "c1"},
        [PermissionOption(id, id.title(), kind) for id, kind in options],
    )


USUAL = request(("always", "allow_always"), ("once", "allow_once"), ("no", "reject_once"))


# What answers mean -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ("1\n", Selected("always")),
        (" 3 \n", Selected("no")),
        ("y\n", Selected("once")),
        ("YES\n", Selected("once")),
        ("n\n", Reject()),
        ("No\n", Reject()),
        ("\n", Reject()),
        ("", Reject()),
        ("0\n", None),
        ("4\n", None),
        ("-1\n", None),
        ("¹\n", None),
        ("9" * 5000, None),
        ("maybe\n", None),
    ],
)
def test_an_answer_means_what_it_says_or_nothing(answer: str, decision: Decision | None) -> None:
    """P1: only what was offered; yes is the least consent there is."""
    assert understand(answer, USUAL) == decision


def test_yes_means_nothing_where_no_option_is_consent() -> None:
    """P2."""
    assert understand("y\n", request(("odd", "allow_sometimes"))) is None


async def test_a_terminal_that_is_none_is_nobody_to_ask(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "nothing"):
        with pytest.raises(NoTerminal):
            await TerminalAsker(str(tmp_path / name)).ask(USUAL, cwd="/", show_request=True)


async def test_a_cancelled_question_leaves_no_descriptor(tmp_path: pathlib.Path) -> None:
    """The thread ends by itself, soon: it was told to, and nobody waited for it."""
    master, slave = os.openpty()
    name = os.ttyname(slave)
    threads = threading.active_count()
    try:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_ask_quietly, name)
                await trio.lowlevel.wait_readable(master)
                scope.cancel()
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            scope.cancel()
            await TerminalAsker(name).ask(USUAL, cwd="/", show_request=False)
        assert scope.cancelled_caught
        with trio.fail_after(20):
            while True:
                if not _opened(name, slave):
                    break
                await trio.lowlevel.checkpoint()
    finally:
        os.close(master)
        os.close(slave)
    assert threading.active_count() <= threads + 1


async def _ask_quietly(name: str) -> None:
    await TerminalAsker(name).ask(USUAL, cwd="/", show_request=False)


def _opened(name: str, but: int) -> bool:
    """Tell whether this process has a file open, other than by one descriptor."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if int(number) != but and os.readlink(f"/proc/self/fd/{number}") == name:
                return True
        except OSError:
            continue  # the descriptor of the listing itself
    return False


# Ctrl-C ------------------------------------------------------------------------------------------------


def test_where_trio_does_not_mind_ctrl_c_nothing_is_changed() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert trio.run(_enter_interrupts) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_is_changed() -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(trio.run(_enter_interrupts)))
    thread.start()
    thread.join(20)
    assert found == [signal.getsignal(signal.SIGINT)]


async def _enter_interrupts() -> object:
    with Interrupts(lambda: True):
        await trio.lowlevel.checkpoint()
        return signal.getsignal(signal.SIGINT)


# Displays ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "chosen", "words"),
    [
        (Selected("once"), '"once"', "Once (allow once)"),
        (Selected("never offered"), '"never offered"', "cancelled"),
        (Reject(), '"no"', "No (reject once)"),
        (Cancelled(), "null", "cancelled"),
    ],
)
def test_each_decision_is_told(decision: Decision, chosen: str, words: str) -> None:
    out = io.StringIO()
    JsonLines(out).answered(USUAL, decision)
    assert f'"optionId":{chosen}' in out.getvalue()
    out = io.StringIO()
    Screen(PlainOutput(out, to_terminal=False)).answered(USUAL, decision)
    assert out.getvalue() == f"Answer: {words}\n"


def test_a_question_shows_the_command_that_it_is_about() -> None:
    out = io.StringIO()
    call = ToolCallState("c1", title="Run a command", raw_input={"command": ["rm", "-r", "my files"]})
    asked = PermissionRequest("s1", call, {"toolCallId": "c1"}, USUAL.options)
    Screen(PlainOutput(out, to_terminal=False)).question(asked)
    assert out.getvalue() == "The agent asks: Run a command\n    $ rm -r 'my files'\n"


def test_a_tool_call_in_the_middle_of_a_line_gets_a_line_of_its_own() -> None:
    """With a place for what goes on, as with rich: it must not overwrite the text."""
    output = _Recorder()
    screen = Screen(output)
    screen.update(AgentMessageChunk(TextContent("let me see"), message_id="m"))
    screen.update(ToolCall("1", "Look"))
    screen.update(AgentMessageChunk(TextContent("done"), message_id="m"))
    assert output.text == "let me see\n<Look>\ndone"
    screen.close()
    assert output.text.endswith("done\n.")


def test_the_newest_line_of_a_command_is_beside_the_call_that_it_belongs_to() -> None:
    output = _Recorder()
    screen = Screen(output)
    screen.terminal_output("t1", "too early to be of any call\n")
    screen.update(ToolCall("1", "Test", content=[Terminal("t1"), Terminal("t2")]))
    assert output.taken() == "<Test: too early to be of any call>"
    screen.terminal_output("t1", "1 %")
    screen.terminal_output("t1", "\r2 %")
    screen.terminal_output("other", "x")
    screen.terminal_output("t2", "a\nb \x1b[1mbold\x1b[0m\n\n")
    assert output.taken() == "<Test: 1 %><Test: 2 %><Test: 2 %><Test: 2 %: b bold>"
    # Not in the middle of a text, nor while a question is open.
    screen.update(AgentMessageChunk(TextContent("well")))
    screen.terminal_output("t2", "c\n")
    asked = PermissionRequest("s1", ToolCallState("2", title="Ask"), {}, USUAL.options)
    screen.question(asked)
    screen.terminal_output("t2", "d\n")
    assert output.taken() == "well\n\nThe agent asks: Ask\n"
    screen.answered(asked, Cancelled())
    assert output.taken() == "Answer: cancelled\n<Test: 2 %: d><Ask>"
    screen.update(ToolCallUpdate("1", status="completed"))
    assert output.taken().startswith("\ncompleted Test\n    [terminal t1]\n    [terminal t2]\n<Ask>")


def test_the_newest_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_acp.cli._screen.MAX_TAILS", 2)
    monkeypatch.setattr("trio_acp.cli._screen.MAX_TAIL", 3)
    output = _Recorder()
    screen = Screen(output)
    for id in ("a", "b", "a", "c"):
        screen.terminal_output(id, f"12345{id}")
    screen.update(ToolCall("1", "Test", content=[Terminal("a"), Terminal("b"), Terminal("c")]))
    assert output.text == "<Test: 45a: 45c>"


def test_without_a_place_for_it_nothing_is_shown_of_a_command_that_runs() -> None:
    out = io.StringIO()
    screen = Screen(PlainOutput(out, to_terminal=False))
    screen.update(ToolCall("1", "Test", content=[Terminal("t")], status="in_progress"))
    screen.terminal_output("t", "line\n")
    JsonLines(out).terminal_output("t", "line\n")
    assert out.getvalue() == "[in progress] Test\n"


class _Recorder:
    """An output with a place for what goes on."""

    to_terminal = True
    shows_activity = True

    def __init__(self) -> None:
        self.text = ""

    def mark(self, status: str) -> str:
        return status

    def write(self, text: str, style: str) -> None:
        self.text += text

    def taken(self) -> str:
        text, self.text = self.text, ""
        return text

    def activity(self, titles: object) -> None:
        self.text += "".join(f"<{title}>" for title in titles)  # type: ignore[attr-defined]

    def close(self) -> None:
        self.text += "."


# Inspect -----------------------------------------------------------------------------------------------


def test_auth_methods_of_each_kind_have_lines() -> None:
    """U1, U2: what is to be run in a terminal can be copied."""
    methods: list[AuthMethod] = [
        AuthMethodAgent("key", "A key"),
        AuthMethodTerminal("login", "Log in", "in a browser", ["login", "--now please"], {"MODE": "a b"}),
        UnknownVariant("palm", {"type": "palm"}),
    ]
    assert list(auth_method_lines(methods, ["agent", "--acp"])) == [
        "Auth methods:",
        "  key (A key)",
        "  login (Log in): in a browser",
        "    run in a terminal: 'MODE=a b' agent --acp login '--now please'",
        "  of unknown type 'palm'",
    ]


async def test_options_in_groups_and_of_unknown_type_have_lines() -> None:
    """S7, I3, W8."""
    app = AgentApp("grouped", "1")
    choices = [SessionConfigSelectOption("a", "A"), SessionConfigSelectOption("b", "B")]

    @app.on_initialize
    async def initialize(response: InitializeResponse) -> None:
        await trio.lowlevel.checkpoint()
        response.agent_capabilities.extra = {"telepathy": {"range": "short"}}
        response.agent_info = None

    @app.on_new_session
    async def new_session(session: AgentSession[None]) -> None:
        await trio.lowlevel.checkpoint()
        session.config_options = [
            SessionConfigSelect("model", "Model", "b", [SessionConfigSelectGroup("g", "Group", choices)]),
            UnknownVariant("dial", {"type": "dial", "id": "dial", "name": "Dial"}),
        ]

    @app.on_prompt
    async def prompt() -> None:
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        connected = await connect_acp(nursery, app.connect_in_memory(nursery))
        lines = list(agent_lines(connected))
        assert lines[0] == "Agent: unnamed"
        assert lines[-1] == '  telepathy: {"range": "short"}'
        session = await connected.new_session()
        assert list(session_lines(session.state)) == [
            "Modes: none",
            "Config options:",
            '  model = "b" (Model)',
            "    - a (A)",
            "    * b (B)",
            "  of unknown type 'dial'",
        ]
        await connected.aclose()


# Errors ------------------------------------------------------------------------------------------------


def test_unexpected_errors_and_groups_of_errors_are_short_messages_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*args: object) -> int:
        await trio.lowlevel.checkpoint()
        raise ExceptionGroup("several", [ExceptionGroup("more", [errors.pop(0)])])

    errors: list[Exception] = [ValueError("odd"), OSError(28, "No space left on device")]
    monkeypatch.setattr(_main, "run_inspect", run)
    monkeypatch.setattr(_main, "run_prompt", run)
    assert main(["inspect", "--agent", "x"]) == 1
    assert capsys.readouterr().err == "trio-acp: ValueError: odd\n"
    assert main(["prompt", "hi"]) == 1
    assert capsys.readouterr().err == "trio-acp: [Errno 28] No space left on device\n"


def test_stdout_may_be_anything_that_takes_text(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["prompt", *agent(), "--cwd", str(tmp_path), "hello"]) == 0
    assert out.getvalue() == "you said hello\n\nend of turn\n"


def test_ctrl_c_is_told_to_readers_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*args: object) -> int:
        await trio.lowlevel.checkpoint()
        raise KeyboardInterrupt

    monkeypatch.setattr(_main, "run_prompt", run)
    assert main(["prompt", "--json", "hi"]) == 130
    captured = capsys.readouterr()
    assert '"error":"KeyboardInterrupt","message":"interrupted"' in captured.out
    assert captured.err == "trio-acp: interrupted\n"

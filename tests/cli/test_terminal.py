"""``trio-acp prompt`` in a terminal: colours, questions, and Ctrl-C."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
import trio

from tests.cli.terminals import PATIENCE, TerminalCommand, agent, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


async def test_text_thoughts_tool_calls_and_plan_are_told_apart_by_colours(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    async with TerminalCommand("prompt", "list the files", cwd=tmp_path) as command:
        await command.expect("\x1b[2;3m")  # dimmed
        await command.expect("▸")
        await command.expect("✓")
        await command.expect("- a.txt")
        await command.expect("end of turn")
        assert await command.status() == 0
        assert "\x1b[?25l" not in command.screen  # the cursor is not left hidden


async def test_everything_that_an_agent_sends_is_shown_without_acting_on_the_terminal(
    tmp_path: pathlib.Path,
) -> None:
    async with TerminalCommand("prompt", *agent(), "everything", cwd=tmp_path) as command:
        await command.expect("end of turn; context 1,500 of 2,000 tokens (75%), 0.25 EUR")
        assert await command.status() == 0
    for forbidden in ("\x1b]0;", "\x9b", "\u202e", "\x1b[31mred"):
        assert forbidden not in command.screen


async def test_the_newest_line_of_a_command_is_seen_while_it_runs(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import trio\nfrom trio_acp.agent import *\napp = AgentApp('small', '1')\n"
        "@app.on_prompt\nasync def prompt(ctx):\n"
        "    async with ctx.tool_call('Count', kind='execute') as call:\n"
        "        await call.execute(shell=ctx.text)\n"
        "trio.run(app.serve_stdio)\n"
    )
    go = tmp_path / "go"
    text = f"echo first; echo second; until [ -e {go} ]; do sleep 0.1; done; echo third"
    arguments = ("prompt", "--agent", f"{sys.executable} {program}", "--terminal", text)
    async with TerminalCommand(*arguments, cwd=tmp_path) as command:
        await command.expect("Count: second")
        go.touch()
        await command.expect("✓")
        for line in ("first", "second", "third", "end of turn"):
            await command.expect(line)
        assert await command.status() == 0


async def test_asks_at_the_terminal_and_does_what_is_answered(tmp_path: pathlib.Path) -> None:
    async with TerminalCommand("prompt", "write a.txt: hello", cwd=tmp_path) as command:
        await command.expect("The agent asks: Write a.txt")
        await command.expect("+hello")
        await command.expect("1) Allow (allow once)")
        await command.expect("or press Enter to reject: ")
        assert not (tmp_path / "a.txt").exists()
        command.type("what?\r")
        await command.expect("a number from 1 to 4: ")
        command.type("1\r")
        await command.expect("Answer: Allow (allow once)")
        assert await command.status() == 0
    assert (tmp_path / "a.txt").read_text() == "hello\n"


@pytest.mark.parametrize("answer", ["\r", "n\r", "\x04"])
async def test_no_answer_is_a_rejection(tmp_path: pathlib.Path, answer: str) -> None:
    async with TerminalCommand("prompt", "write a.txt: hello", cwd=tmp_path) as command:
        await command.expect("or press Enter to reject: ")
        command.type(answer)
        await command.expect("Answer: Reject (reject once)")
        assert await command.status() == 0
    assert not (tmp_path / "a.txt").exists()


async def test_what_was_typed_before_the_question_is_no_answer_to_it(tmp_path: pathlib.Path) -> None:
    async with TerminalCommand("prompt", "write a.txt: hello", cwd=tmp_path) as command:
        command.type("y\r")
        await command.expect("or press Enter to reject: ")
        command.type("n\r")
        await command.expect("Answer: Reject")
        assert await command.status() == 0
    assert not (tmp_path / "a.txt").exists()


async def test_questions_come_one_by_one_after_what_was_said_before_them(tmp_path: pathlib.Path) -> None:
    """P3: also when an update in between was dropped because it fits no schema."""
    async with TerminalCommand("prompt", *agent(), "mumble and ask", cwd=tmp_path) as command:
        await command.expect("before the question")
        await command.expect("The agent asks: ")
        await command.expect("or press Enter to reject: ")
        assert "The agent asks" not in command.screen
        command.type("y\r")
        await command.expect("The agent asks: ")
        await command.expect("or press Enter to reject: ")
        command.type("n\r")
        await command.expect("end of turn")
        assert await command.status() == 0


async def test_a_withdrawn_question_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    """X4: the agent takes its question back while nobody has answered."""
    async with TerminalCommand("prompt", *agent(), "withdraw", cwd=tmp_path) as command:
        await command.expect("or press Enter to reject: ")
        await command.expect("Answer: cancelled")
        await command.expect("withdrawn")
        assert await command.status() == 0


async def test_with_json_the_question_is_whole_on_the_terminal(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "out.jsonl").open("w+") as out:
        async with TerminalCommand(
            "prompt", "--json", "write a.txt: hello", cwd=tmp_path, stdout=out.fileno()
        ) as command:
            await command.expect("The agent asks: Write a.txt")
            await command.expect("a.txt (new file)")
            await command.expect("+hello")
            await command.expect("or press Enter to reject: ")
            command.type("y\r")
            assert await command.status() == 0
        out.seek(0)
        assert '"type":"permission_answer"' in out.read()
    assert (tmp_path / "a.txt").read_text() == "hello\n"


# Ctrl-C ------------------------------------------------------------------------------------------------


async def test_ctrl_c_cancels_the_turn_and_still_prints_its_end(tmp_path: pathlib.Path) -> None:
    """X1, X2."""
    async with TerminalCommand("prompt", "slow 600", cwd=tmp_path) as command:
        await command.expect("1 ")
        command.type("\x03")
        await command.expect("cancelling; press Ctrl-C again to leave at once")
        await command.expect("cancelled")
        assert await command.status() == 130


async def test_ctrl_c_at_a_question_answers_it_cancelled(tmp_path: pathlib.Path) -> None:
    """X1: the thread that reads the answer is not waited for."""
    async with TerminalCommand("prompt", "write a.txt: hello", cwd=tmp_path) as command:
        await command.expect("or press Enter to reject: ")
        command.type("\x03")
        await command.expect("Answer: cancelled")
        await command.expect("cancelled")
        assert await command.status() == 130
    assert not (tmp_path / "a.txt").exists()


async def test_ctrl_c_twice_leaves_also_with_an_agent_that_ignores_everything(tmp_path: pathlib.Path) -> None:
    async with TerminalCommand("prompt", *agent("--stubborn"), "stubborn", cwd=tmp_path) as command:
        await command.expect("I will not stop")
        command.type("\x03")
        await command.expect("again to leave at once")
        command.type("\x03")
        await command.expect("trio-acp: interrupted")
        assert await command.status() == 130


async def test_closing_the_terminal_leaves_no_agent_behind(tmp_path: pathlib.Path) -> None:
    """Not even one that ignores the end of its input, SIGTERM, and the cancellation of its turn."""
    async with TerminalCommand("prompt", *agent("--stubborn"), "stubborn", cwd=tmp_path) as command:
        await command.expect("my number is ")
        await command.expect(".")
        pid = int(command.before.rpartition(" ")[2].rstrip("."))
        command.hang_up()
        assert await command.status() == 130
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_an_agent_that_does_not_end_a_cancelled_turn_is_not_waited_for_for_ever(
    tmp_path: pathlib.Path,
) -> None:
    async with TerminalCommand("prompt", *agent(), "stubborn", cwd=tmp_path) as command:
        await command.expect("I will not stop")
        command.type("\x03")
        await command.expect("cancelled; the agent did not end the turn in time")
        assert await command.status() == 130


async def test_ctrl_c_before_the_turn_leaves(tmp_path: pathlib.Path) -> None:
    async with TerminalCommand("prompt", *agent("--late"), "hello", cwd=tmp_path) as command:
        await command.expect("waiting for the session")
        command.type("\x03")
        await command.expect("trio-acp: interrupted")
        assert await command.status() == 130


async def test_ctrl_c_leaves_inspect(tmp_path: pathlib.Path) -> None:
    tell = tmp_path / "tell"
    os.mkfifo(tell)
    async with TerminalCommand("inspect", *agent("--late", f"--tell={tell}"), cwd=tmp_path) as command:
        with trio.fail_after(PATIENCE):
            assert await trio.to_thread.run_sync(tell.read_text) == "asked for a session"
        command.type("\x03")
        await command.expect("trio-acp: interrupted")
        assert await command.status() == 130


# Without colours ---------------------------------------------------------------------------------------


async def test_without_rich_it_works_plain_and_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text("import sys; sys.modules['rich'] = None\n")
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path / 'broken'}{os.pathsep}{env['PYTHONPATH']}"
    async with TerminalCommand("prompt", "write a.txt: hello", cwd=tmp_path, env=env) as command:
        await command.expect("no colours without rich; to have them, pip install 'trio-acp[cli]'")
        await command.expect("The agent asks: Write a.txt")
        await command.expect("or press Enter to reject: ")
        command.type("2\r")
        await command.expect("Answer: Reject")
        assert await command.status() == 0


async def test_a_dumb_terminal_gets_plain_text(tmp_path: pathlib.Path) -> None:
    async with TerminalCommand("prompt", "help", cwd=tmp_path, env=environment(TERM="dumb")) as command:
        await command.expect("end of turn")
        assert await command.status() == 0
    assert "\x1b" not in command.screen

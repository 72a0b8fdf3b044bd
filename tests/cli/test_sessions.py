"""Saved sessions, modes, options, files and terminals from the command line (S2, S3, S7, F1, F2)."""

from __future__ import annotations

import json
import pathlib
import shlex
import sys
import textwrap

import pytest

from tests.cli.terminals import run_command


def demo(folder: pathlib.Path) -> tuple[str, str]:
    """Return the arguments for a demo agent that saves its sessions."""
    store = folder.parent / f"{folder.name}-store"
    return "--agent", f"{sys.executable} -m trio_acp.demo --pace 0 --store {shlex.quote(str(store))}"


def script(folder: pathlib.Path, body: str) -> tuple[str, str]:
    """Return the arguments for an agent of a test's own."""
    path = folder / "agent.py"
    head = "import trio\nfrom trio_acp.agent import *\napp = AgentApp('small', '1')\n"
    tail = "\ntrio.run(app.serve_stdio)\n"
    path.write_text(head + textwrap.dedent(body) + tail)
    return "--agent", f"{sys.executable} {shlex.quote(str(path))}"


async def test_sessions_are_listed_gone_on_with_and_deleted(tmp_path: pathlib.Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    agent = demo(tmp_path)
    done = await run_command("sessions", *agent, cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no saved sessions\n", "")
    for folder in (there, here):
        done = await run_command("prompt", *agent, "/title In " + folder.name, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")
    done = await run_command("sessions", *agent, cwd=here)
    lines = sorted((line.split("  ") for line in done.stdout.splitlines()), key=lambda line: line[2])
    assert [line[2:] for line in lines] == [[str(here), "In here"], [str(there), "In there"]]
    id = lines[0][0]
    done = await run_command("sessions", *agent, "--here", cwd=here)
    assert done.stdout == "  ".join(lines[0]) + "\n"

    choices = ("--mode", "auto", "--set", "detail=full", "--set", "thoughts=off")
    done = await run_command("prompt", *agent, "--resume", id, *choices, "/status", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("mode: auto", "detail: full", "thoughts: off"):
        assert words in done.stdout, done.stdout
    done = await run_command("prompt", *agent, "--resume", id, "--set", "thoughts=maybe", "x", cwd=here)
    assert (done.returncode, done.stderr) == (
        1,
        "trio-acp: config option 'thoughts' takes True or False, not 'maybe'\n",
    )

    done = await run_command("sessions", *agent, "--delete", id, "--delete", lines[1][0], cwd=here)
    assert done.stdout == f"deleted {id}\ndeleted {lines[1][0]}\n"
    done = await run_command("prompt", *agent, "--resume", id, "x", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    assert "session" in done.stderr


async def test_a_session_is_loaded_where_the_agent_cannot_resume_it(tmp_path: pathlib.Path) -> None:
    agent = script(
        tmp_path,
        """
        @app.on_load_session
        async def load(session):
            await session.send_message("old")

        @app.on_prompt
        async def prompt(ctx):
            await ctx.send_message("new")
        """,
    )
    done = await run_command("prompt", *agent, "--resume", "s", "x", cwd=tmp_path)
    # What is replayed is not shown as if it were new.
    assert done.stdout == "new\n\nend of turn\n"
    assert done.stderr == "trio-acp: the agent has told 1 message of the session again\n"


async def test_an_agent_that_can_do_neither_is_not_given_another_session(tmp_path: pathlib.Path) -> None:
    agent = script(tmp_path, "@app.on_prompt\nasync def prompt(ctx): ...\n")
    done = await run_command("prompt", *agent, "--resume", "s", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "sessionCapabilities.resume" in done.stderr
    for more in ((), ("--delete", "s")):
        done = await run_command("sessions", *agent, *more, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "sessionCapabilities" in done.stderr


@pytest.mark.parametrize("offered", [False, True])
async def test_files_and_terminals_are_offered_when_asked_for(tmp_path: pathlib.Path, offered: bool) -> None:
    agent = script(
        tmp_path,
        """
        @app.on_prompt
        async def prompt(ctx):
            try:
                await ctx.write_file("new/hello.txt", "hi\\n")
                result = await ctx.execute("cat new/hello.txt")
                await ctx.send_message(result.output)
            except Exception as error:
                await ctx.send_message(type(error).__name__)
        """,
    )
    options = ("--files", "--terminal") if offered else ()
    done = await run_command("prompt", *agent, *options, "x", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == ("hi\n" if offered else "CapabilityError\n") + "\nend of turn\n"
    assert (tmp_path / "new" / "hello.txt").exists() is offered


RUNS = """
    @app.on_prompt
    async def prompt(ctx):
        async with ctx.tool_call("Count", kind="execute") as call:
            await call.execute(shell=ctx.text)
"""


async def test_the_output_of_a_command_is_shown_when_its_call_ends(tmp_path: pathlib.Path) -> None:
    """F2: also though the agent has released the terminal by then."""
    agent = script(tmp_path, RUNS)
    done = await run_command("prompt", *agent, "--terminal", "seq 20; exit 3", cwd=tmp_path)
    shown = [*map(str, range(1, 9)), "… 8 more lines", *map(str, range(17, 21)), "(exit code 3)"]
    assert done.stdout == (
        "[pending] Count\n[in progress] Count\n[completed] Count\n"
        + "".join(f"    {line}\n" for line in shown)
        + "\nend of turn\n"
    )


async def test_json_lines_tell_of_a_command_what_the_agent_does(tmp_path: pathlib.Path) -> None:
    agent = script(tmp_path, RUNS)
    done = await run_command("prompt", *agent, "--terminal", "--json", "seq 20", cwd=tmp_path)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["type"] for event in events} == {"session", "update", "end"}
    contents = [event["update"]["content"] for event in events if "content" in event.get("update", {})]
    assert [[item["type"] for item in content] for content in contents] == [["terminal"]]


@pytest.mark.parametrize("text", ["detail", "=full", ""])
async def test_an_option_without_a_value_is_a_usage_error(tmp_path: pathlib.Path, text: str) -> None:
    done = await run_command("prompt", "--set", text, "x", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not OPTION=VALUE" in done.stderr

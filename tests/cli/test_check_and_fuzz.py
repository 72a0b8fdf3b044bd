"""``trio-acp check`` and ``trio-acp fuzz``: reports for people and programs, failures that can be kept."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from functools import partial

import pytest
import trio

from tests.cli.terminals import environment, run_command

TINY = shlex.join([sys.executable, "-S", str(pathlib.Path(__file__).with_name("tiny_agent.py"))])


SMALL = pathlib.Path(__file__).parents[1] / "conformance" / "small_agent.py"


def small(*mistakes: str) -> str:
    """The command line of an agent that does all that is asked for, but for its mistakes."""
    return shlex.join([sys.executable, "-I", "-S", str(SMALL), *mistakes])


async def test_a_good_agent_passes_and_the_report_says_so_twice(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    only = [word for each in ("W3", "U", "X2-cancelling") for word in ("--only", each)]
    done = await run_command(
        "check", "--agent", small(), "--prompt-slow", "slow", *only, "--json", str(report), cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines() == [
        "Wire (W)",
        "  ok    W3-ids-come-back",
        "  ok    W3-null-is-an-id",
        "  ok    W3-other-ids-are-refused",
        "Logging in (U)",
        "  ok    U1-ways-to-log-in",
        "  n/a   U1-logging-in: no way to log in is known that needs nobody's help",
        "  ok    U2-logging-in-at-a-terminal",
        "  n/a   U3-sessions-before-a-login: the agent makes sessions without a login",
        "  n/a   U3-logging-out: the agent does not advertise auth.logout",
        "Cancellation (X)",
        "  ok    X2-cancelling",
        "",
        "6 passed, 0 failed, 0 weak, 3 not applicable",
    ]
    kept = json.loads(report.read_text())
    assert kept["passed"] is True
    assert kept["counts"] == {"passed": 6, "failed": 0, "weak": 0, "notApplicable": 3}
    assert [each["name"] for each in kept["results"]][-1] == "X2-cancelling"
    assert kept["results"][0]["transcript"]


async def test_a_mistake_is_told_and_counts_if_the_protocol_demands_it(tmp_path: pathlib.Path) -> None:
    arguments = ["--agent", small("ids-are-strings", "no-null-ids"), "--only", "W3", "--patience", "2"]
    done = await run_command("check", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "  FAIL  W3-ids-come-back: Ids come back with their exact type" in done.stdout
    assert "          no answer to _conformance/no_such_method within 2 s" in done.stdout
    weak = ["--agent", small("no-blank-lines"), "--only", "W1-blank-lines", "--patience", "20"]
    done = await run_command("check", *weak, cwd=tmp_path)
    assert done.returncode == 0
    assert "  weak  W1-blank-lines: Blank lines are skipped\n" in done.stdout
    assert done.stdout.endswith("0 passed, 0 failed, 1 weak, 0 not applicable\n")
    assert (await run_command("check", *weak, "--strict", cwd=tmp_path)).returncode == 1


async def test_the_checks_are_listed_without_an_agent(tmp_path: pathlib.Path) -> None:
    done = await run_command("check", "--list", "--only", "I4", "--only", "I2-its-introduction", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    subject, first, *rest = done.stdout.splitlines()
    assert subject == "Introduction (I)"
    assert first.startswith("  I2-its-introduction: What the agent says about itself")
    assert all(line.endswith(" (not demanded)") for line in rest)
    assert len(rest) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --agent"),
        (["--agent", "true", "--only", "Z9"], "there is no check 'Z9'"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    tmp_path: pathlib.Path, arguments: list[str], message: str
) -> None:
    done = await run_command("check", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


async def test_names_of_files_in_the_command_belong_to_where_it_was_given(tmp_path: pathlib.Path) -> None:
    (tmp_path / "agent.py").write_bytes(SMALL.read_bytes())
    (tmp_path / "run").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (tmp_path / "run").chmod(0o755)
    done = await run_command("check", "--agent", "./run agent.py", "--only", "S1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("command", ["check", "fuzz"])
async def test_no_agent_is_left_when_the_command_is_terminated(tmp_path: pathlib.Path, command: str) -> None:
    note = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid"
    # It ends neither with its input nor when it is asked to.
    agent = shlex.join(["sh", "-c", f"trap '' TERM; {note}; exec sleep 600"])
    arguments = [sys.executable, "-m", "trio_acp.cli", command, "--agent", agent]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(trio.run_process, arguments, env=environment(), stderr=subprocess.DEVNULL, check=False)
        )
        while not (tmp_path / "pid").exists():  # noqa: ASYNC110 - another process makes it
            await trio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_fuzzing_a_good_agent_says_what_was_tried(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    done = await run_command(
        "fuzz", "--agent", TINY, "--seconds", "1", "--seed", "7", "--json", str(report), cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith(", seed 7: nothing broke\n")
    kept = json.loads(report.read_text())
    assert (kept["passed"], kept["seed"], kept["failure"]) == (True, 7, None)


async def test_a_failure_is_small_is_kept_and_is_found_again(tmp_path: pathlib.Path) -> None:
    bad = f"{TINY} bad"
    done = await run_command("fuzz", "--agent", bad, "--seconds", "20", "--failure", "f.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "W4: the agent ended the connection" in done.stdout
    assert done.stdout.endswith("kept in f.json; play it again with --replay f.json\n")
    assert len(json.loads((tmp_path / "f.json").read_text())["steps"]) == 1
    again = await run_command("fuzz", "--agent", bad, "--replay", "f.json", "--seed", "1", cwd=tmp_path)
    assert again.returncode == 1
    assert "broken after 1 program, seed 1\n" in again.stdout
    assert "kept in" not in again.stdout
    known = await run_command("fuzz", "--agent", bad, "--replay", "f.json", "--ignore", "W4", cwd=tmp_path)
    assert known.returncode == 0
    fixed = await run_command("fuzz", "--agent", TINY, "--replay", "f.json", cwd=tmp_path)
    assert fixed.returncode == 0


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("option", ["--json", "--failure"])
async def test_a_failure_is_told_though_its_file_cannot_be_written(
    tmp_path: pathlib.Path, option: str
) -> None:
    done = await run_command(
        "fuzz", "--agent", f"{TINY} bad", "--seconds", "20", option, "/dev/full", cwd=tmp_path
    )
    assert done.returncode == 1
    assert "W4: the agent ended the connection" in done.stdout
    assert "No space left" in done.stderr


@pytest.mark.parametrize("command", ["check", "fuzz"])
async def test_an_agent_that_cannot_be_started_is_told_shortly(tmp_path: pathlib.Path, command: str) -> None:
    done = await run_command(command, "--agent", "/no/such/agent", cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "/no/such/agent" in done.stderr


@pytest.mark.parametrize("content", [b"{}", b"no JSON", b"\xff"])
async def test_a_file_that_is_no_failure_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "f.json").write_bytes(content)
    done = await run_command("fuzz", "--agent", TINY, "--replay", "f.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "this is no failure that `trio-acp fuzz` has written" in done.stderr

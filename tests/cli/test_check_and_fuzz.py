"""``trio-acp check`` and ``trio-acp fuzz``: reports for people and programs, failures that can be kept."""

from __future__ import annotations

import json
import pathlib
import shlex
import sys

import pytest

from tests.cli.terminals import run_command

TINY = shlex.join([sys.executable, "-S", str(pathlib.Path(__file__).with_name("tiny_agent.py"))])


async def test_a_good_agent_passes_and_the_report_says_so_twice(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    done = await run_command(
        "check", "--agent", TINY, "--json", str(report), "--patience", "20", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *lines, summary = done.stdout.splitlines()
    assert summary == f"{len(lines) - 2} passed, 0 failed, 2 skipped"
    assert "skip S3   sessions are listed: the agent does not offer sessionCapabilities.list" in lines
    kept = json.loads(report.read_text())
    assert [each["outcome"][:2] for each in kept["results"]] == [
        line[:2].lower().replace("ok", "pa") for line in lines
    ]


async def test_a_bad_agent_fails_the_check_that_it_fails(tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.py"
    # It stays until its input ends: its line is then read before anything is written to it.
    bad.write_text("import sys\nprint('Welcome!', flush=True)\nsys.stdin.read()")
    done = await run_command("check", "--agent", shlex.join([sys.executable, "-S", str(bad)]), cwd=tmp_path)
    assert done.returncode == 1
    assert "FAIL I2   initialize is answered with the version that was asked for: " in done.stdout
    assert "0 passed, " in done.stdout


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
    fixed = await run_command("fuzz", "--agent", TINY, "--replay", "f.json", cwd=tmp_path)
    assert fixed.returncode == 0


@pytest.mark.parametrize("command", ["check", "fuzz"])
async def test_an_agent_that_cannot_be_started_is_told_shortly(tmp_path: pathlib.Path, command: str) -> None:
    done = await run_command(command, "--agent", "/no/such/agent", cwd=tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "/no/such/agent" in done.stderr


async def test_a_file_that_is_no_failure_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "f.json").write_text("{}")
    done = await run_command("fuzz", "--agent", TINY, "--replay", "f.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "this is no failure that `trio-acp fuzz` has written" in done.stderr

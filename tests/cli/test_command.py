"""``trio-acp`` without a terminal: plain text, JSON lines, exit status, messages."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest
import trio

from tests.cli.terminals import PATIENCE, agent, environment, run_command

# Prompt: plain -----------------------------------------------------------------------------------------


async def test_without_agent_the_demo_agent_answers_in_plain_text(tmp_path: pathlib.Path) -> None:
    """The first command that anybody tries."""
    (tmp_path / "a.txt").write_text("hello\n")
    done = await run_command("prompt", "list the files", cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "I should look into the session's directory.",
        "",
        "Plan",
        "  [in progress] look into the directory",
        "  [pending] tell what is there",
        "",
        "[pending] List the files",
        "[in progress] List the files",
        "[completed] List the files",
        "",
        "  [completed] look into the directory",
        "  [in progress] tell what is there",
        "",
        f"There is 1 entry in `{tmp_path}`:",
        "",
        "- a.txt",
        "",
        "  [completed] tell what is there",
        "",
        "end of turn; context 11 of 100,000 tokens (<1%)",
    ]
    assert (done.returncode, done.stderr) == (0, "")


async def test_files_of_the_directory_do_not_get_in_the_way_of_the_demo_agent(tmp_path: pathlib.Path) -> None:
    for name in ("trio", "random", "trio_acp"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported from the working directory')\n")
    env = environment()
    done = await trio.run_process(
        [sys.executable, "-P", "-m", "trio_acp.cli", "prompt", "help"],
        cwd=tmp_path,
        env=env,
        capture_stdout=True,
    )
    assert b"I am a demo agent" in done.stdout


async def test_each_kind_of_update_is_shown_once_and_harmless(tmp_path: pathlib.Path) -> None:
    """W8, T4, S8: unknown variants have a form as well."""
    done = await run_command("prompt", *agent(), "everything", cwd=tmp_path)
    assert done.stdout == (
        "thinking ared b\ufffd2Jc\u240dd\ufffde\u2421\n"
        "\n"
        "spoken[image: image/png]\n"
        "\n"
        "[pending] ared b\ufffd2Jc\u240dd\ufffde\u2421\n"
        "[completed] ared b\ufffd2Jc\u240dd\ufffde\u2421\n"
        "    a result\n"
        "    [terminal t1]\n"
        "    [result of unknown type 'hologram']\n"
        "    a late result\n"
        "\n"
        "mode: code\n"
        "warning: careful: it is hot\n"
        "info: by the way\n"
        "compaction of the context: in progress\n"
        "an update of a kind that is not known here: 'hologram_update'\n"
        "\n"
        "Plan\n"
        "  [in progress] win\n"
        "  [dreamt] win\n"
        "\n"
        "end of turn; context 1,500 of 2,000 tokens (75%), 0.25 EUR\n"
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "status", "last_line"),
    [
        ("hello", 0, "end of turn"),
        ("max_tokens", 1, "the agent stopped: max tokens"),
        ("cancelled", 130, "cancelled"),
    ],
)
async def test_the_exit_status_tells_how_the_turn_ended(
    tmp_path: pathlib.Path, text: str, status: int, last_line: str
) -> None:
    """T3."""
    done = await run_command("prompt", *agent(), text, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == last_line
    assert done.returncode == status


async def test_runs_in_the_directory_that_is_given(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    done = await run_command("prompt", "--cwd", "sub", "--permission", "allow", "run pwd", cwd=tmp_path)
    assert f"    {tmp_path / 'sub'}\n" in done.stdout


# Prompt: permission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "answer", "written"),
    [("allow", "Allow (allow once)", True), ("reject", "Reject (reject once)", False)],
)
async def test_a_policy_answers_without_asking(
    tmp_path: pathlib.Path, policy: str, answer: str, written: bool
) -> None:
    done = await run_command("prompt", "--permission", policy, "write a.txt: hi", cwd=tmp_path)
    assert (
        f"The agent asks: Write a.txt\n    a.txt (new file)\n    @@ -0,0 +1 @@\n    +hi\nAnswer: {answer}\n"
        in (done.stdout)
    )
    assert (tmp_path / "a.txt").exists() is written
    assert done.returncode == 0


@pytest.mark.parametrize("policy", ["allow", "reject"])
async def test_what_no_option_says_is_answered_cancelled(tmp_path: pathlib.Path, policy: str) -> None:
    """P2: an option of unknown kind is neither consent nor refusal."""
    done = await run_command("prompt", *agent(), "--permission", policy, "unknown options", cwd=tmp_path)
    assert "Answer: cancelled" in done.stdout
    assert "allowed: False" in done.stdout


async def test_ask_without_a_terminal_rejects_and_says_why(tmp_path: pathlib.Path) -> None:
    done = await run_command("prompt", "write a.txt: hi", cwd=tmp_path)
    assert "no terminal to ask on" in done.stderr
    assert "Answer: Reject (reject once)" in done.stdout
    assert not (tmp_path / "a.txt").exists()


# Prompt: JSON ------------------------------------------------------------------------------------------


async def events(*arguments: str, cwd: pathlib.Path) -> tuple[list[dict[str, Any]], int, str]:
    done = await run_command("prompt", "--json", *arguments, cwd=cwd)
    assert done.stdout.isascii()
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


async def test_json_is_one_event_a_line(tmp_path: pathlib.Path) -> None:
    found, status, stderr = await events("--permission", "allow", "write ä.txt: ü", cwd=tmp_path)
    assert (status, stderr) == (0, "")
    first, *middle, last = found
    assert first["type"] == "session"
    assert first["cwd"] == str(tmp_path)
    assert first["agent"]["name"] == "trio-acp-demo"
    assert {event["sessionId"] for event in found} == {first["sessionId"]}
    asked = [event for event in middle if event["type"] == "permission_request"]
    assert [event["toolCall"]["title"] for event in asked] == ["Write ä.txt"]
    assert [option["kind"] for option in asked[0]["options"]][:2] == ["allow_once", "reject_once"]
    answers = [event for event in middle if event["type"] == "permission_answer"]
    assert [answer["optionId"] for answer in answers] == [asked[0]["options"][0]["optionId"]]
    updates = [event["update"]["sessionUpdate"] for event in middle if event["type"] == "update"]
    assert {"agent_thought_chunk", "tool_call", "tool_call_update"} <= set(updates)
    assert last == {
        "type": "end",
        "sessionId": first["sessionId"],
        "stopReason": "end_turn",
        "abandoned": False,
        "text": "I have written `ä.txt`.",
        "usage": {"sessionUpdate": "usage_update", "used": 7, "size": 100000},
    }


async def test_json_keeps_what_the_agent_sent(tmp_path: pathlib.Path) -> None:
    """W8."""
    found, _, _ = await events(*agent(), "everything", cwd=tmp_path)
    updates = [event["update"] for event in found if event["type"] == "update"]
    assert {"sessionUpdate": "hologram_update", "light": 1} in updates
    assert any("\x1b" in update.get("title", "") for update in updates)  # escaped on the line only


@pytest.mark.parametrize("policy", ["allow", "reject"])
async def test_json_tells_of_a_question_that_got_no_answer(tmp_path: pathlib.Path, policy: str) -> None:
    found, _, _ = await events("--permission", policy, *agent(), "unknown options", cwd=tmp_path)
    assert [event["optionId"] for event in found if event["type"] == "permission_answer"] == [None]


async def test_json_tells_of_a_rejection(tmp_path: pathlib.Path) -> None:
    found, _, _ = await events("--permission", "reject", "write a.txt: hi", cwd=tmp_path)
    (asked,) = (event for event in found if event["type"] == "permission_request")
    (answer,) = (event for event in found if event["type"] == "permission_answer")
    chosen = next(option for option in asked["options"] if option["optionId"] == answer["optionId"])
    assert chosen["kind"] == "reject_once"


async def test_json_ends_with_an_error_where_there_is_no_end_of_turn(tmp_path: pathlib.Path) -> None:
    found, status, stderr = await events(*agent(), "exit", cwd=tmp_path)
    assert status == 1
    assert found[-1]["type"] == "error"
    assert found[-1]["error"] == "AgentExited"
    assert found[-1]["message"] in stderr
    found, status, _ = await events("--agent", "no-such-agent", "hello", cwd=tmp_path)
    assert (found[0]["sessionId"], found[0]["error"], status) == (None, "AgentStartError", 1)


async def test_a_signal_to_the_command_cancels_the_turn(tmp_path: pathlib.Path) -> None:
    """X1: what `kill -INT` does to it; with JSON the events go on to the end."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "trio_acp.cli", "prompt", "--json", "slow 600"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    seen = b""
    signalled = False
    with trio.fail_after(PATIENCE):
        async for data in process.stdout:
            seen += data
            if b"agent_message_chunk" in seen and not signalled:
                process.send_signal(signal.SIGINT)
                signalled = True
        assert await process.wait() == 130
    await process.stdout.aclose()
    types = [json.loads(line)["type"] for line in seen.splitlines()]
    assert types[-1] == "end"
    assert "cancelling" in types
    assert json.loads(seen.splitlines()[-1])["stopReason"] == "cancelled"


# Errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--agent", "no-such-agent --acp", "hi"],
            "trio-acp: the agent's program 'no-such-agent' was not found",
        ),
        ([*agent(), "exit"], "my last words"),
        ([*agent(), "fail"], "trio-acp: out of luck"),
        (
            [*agent("--locked"), "hi"],
            "log in with the agent's own program first; `trio-acp inspect --agent",
        ),
        (
            ["--startup-timeout", "0.1", "--agent", "sleep 600", "hi"],
            "did not answer initialize within 0.1 s",
        ),
    ],
)
async def test_an_error_is_a_short_message_and_status_1(
    tmp_path: pathlib.Path, arguments: list[str], message: str
) -> None:
    done = await run_command("prompt", *arguments, cwd=tmp_path)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.returncode == 1


async def test_what_is_no_agent_is_called_so_without_a_flood(tmp_path: pathlib.Path) -> None:
    """W4."""
    script = "for n in range(9): print('no', 'JSON', n)"
    done = await run_command("prompt", "--agent", f'{sys.executable} -c "{script}"', "hi", cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert [line for line in lines if "warning: the agent printed a line" in line] == lines[:5]
    assert "does not speak ACP" in lines[5]
    assert lines[-1] == "trio-acp: and 4 more warnings"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["help"], b""), (["--json", "--agent", "no-such-agent", "x"], b"was not found")],
)
async def test_a_reader_that_goes_away_ends_it_quietly(
    tmp_path: pathlib.Path, arguments: list[str], message: bytes
) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        with trio.fail_after(PATIENCE):
            done = await trio.run_process(
                [sys.executable, "-m", "trio_acp.cli", "prompt", *arguments],
                cwd=tmp_path,
                env=environment(),
                stdout=write,
                capture_stderr=True,
                check=False,
            )
    finally:
        os.close(write)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == (1 if message else 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device without room")
async def test_a_full_disk_is_an_error(tmp_path: pathlib.Path) -> None:
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            f"{sys.executable} -m trio_acp.cli prompt hello > /dev/full",
            shell=True,
            cwd=tmp_path,
            env=environment(),
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"trio-acp: [Errno 28] No space left on device\n"


async def test_what_cannot_be_encoded_does_not_end_it(tmp_path: pathlib.Path) -> None:
    env = environment(PYTHONIOENCODING="ascii")
    done = await run_command("prompt", *agent(), "grüß dich", cwd=tmp_path, env=env)
    assert "you said gr?? dich" in done.stdout
    assert done.returncode == 0


# Inspect -----------------------------------------------------------------------------------------------


async def test_inspect_shows_all_that_an_agent_offers(tmp_path: pathlib.Path) -> None:
    demo = f"{sys.executable} -m trio_acp.demo"
    done = await run_command("inspect", "--agent", demo, cwd=tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Agent: Demo agent trio-acp-demo ")
    assert lines[1] == "Protocol version: 1"
    for line in (
        "  loadSession: yes",
        "  promptCapabilities.image: no",
        "  sessionCapabilities.close: yes",
        "Auth methods: none",
        "  * ask (Ask): asks before it changes anything",
        "  - read-only (Read only): changes nothing",
        '  detail = "brief" (Detail): what lists of files hold',
        "    * brief (Brief)",
        "  thoughts = true (Thoughts): whether it thinks aloud",
    ):
        assert line in lines
    assert done.returncode == 0


async def test_inspect_shows_auth_methods_where_no_session_can_be_had(tmp_path: pathlib.Path) -> None:
    """U3."""
    done = await run_command("inspect", *agent("--locked"), cwd=tmp_path)
    assert "Auth methods:\n  key (A key): from your drawer\n" in done.stdout
    assert done.stdout.endswith("not known before you have logged in\n")
    assert done.returncode == 0


async def test_inspect_of_an_agent_that_offers_little(tmp_path: pathlib.Path) -> None:
    """S3: a session is closed only where that is offered."""
    done = await run_command("inspect", *agent(), cwd=tmp_path)
    assert done.stdout.endswith("Modes:\n  * code (Code)\n  - talk (Talk)\nConfig options: none\n")
    assert (done.returncode, done.stderr) == (0, "")


async def test_inspect_tells_of_an_error(tmp_path: pathlib.Path) -> None:
    done = await run_command("inspect", "--agent", "no-such-agent", cwd=tmp_path)
    assert "was not found" in done.stderr
    assert done.returncode == 1

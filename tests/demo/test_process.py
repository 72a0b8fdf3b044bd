"""The demo agent as a program of its own: arguments, and sessions that outlive it."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest
import trio

from tests.demo.clients import DemoAgent, say
from trio_acp import AcpOptions, __version__, open_acp
from trio_acp.agent import FileSessionStore
from trio_acp.demo import create_app, main

ROOT = os.path.abspath(f"{__file__}/../../..")

OPTIONS = {"PYTHONPATH": ROOT}


async def test_a_turn_with_its_process(tmp_path: pathlib.Path) -> None:
    options = AcpOptions(
        command=sys.executable, args=["-m", "trio_acp.demo", "--pace", "0"], cwd=tmp_path, env=OPTIONS
    )
    async with open_acp(options) as agent:
        assert agent.info is not None
        assert (agent.info.name, agent.info.version) == ("trio-acp-demo", __version__)
        session = await agent.new_session()
        turn = await say(session, "run echo hello")
        assert turn.text == "It ended with exit code 0 and wrote 1 line."


async def test_what_a_command_prints_stays_out_of_the_protocol(tmp_path: pathlib.Path) -> None:
    """W2: its commands get neither the protocol's input nor its output."""
    options = AcpOptions(
        command=sys.executable, args=["-m", "trio_acp.demo", "--pace", "0"], cwd=tmp_path, env=OPTIONS
    )
    async with open_acp(options) as agent:
        turn = await say(await agent.new_session(), "run cat; echo junk; ls -l /proc/self/fd >/dev/null")
        assert turn.text == "It ended with exit code 0 and wrote 1 line."
        assert agent.statistics().junk_lines == 0


async def test_sessions_outlive_the_program_in_a_store(tmp_path: pathlib.Path) -> None:
    """S2, S3: made by one program, with everything that was said, and deleted by another."""
    (tmp_path / "store").mkdir()
    store = tmp_path / "store"
    options = AcpOptions(
        command=sys.executable,
        args=["-m", "trio_acp.demo", "--pace", "0", "--store", str(store)],
        cwd=tmp_path,
        env=OPTIONS,
    )
    async with open_acp(options) as agent:
        session = await agent.new_session()
        await session.set_mode("auto")
        await say(session, "think")
    loaded = await FileSessionStore(store).load(session.id)
    assert loaded is not None
    record, updates = loaded
    assert (record.title, record.mode_id, record.cwd) == ("think", "auto", str(tmp_path))
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds[0] == "user_message_chunk"
    assert {"agent_thought_chunk", "agent_message_chunk"} <= set(kinds)


async def test_the_modes_are_there_again_in_a_session_of_a_store(tmp_path: pathlib.Path) -> None:
    """S2, S7."""
    store = FileSessionStore(tmp_path / "store")
    async with DemoAgent(store=store) as agent:
        assert agent.capabilities.load_session
        offered = agent.capabilities.session_capabilities
        assert None not in (offered.list, offered.resume, offered.close, offered.delete)
        session = await agent.new_session(tmp_path)
        await session.close()


def test_it_says_what_it_is_to_somebody_at_a_terminal(tmp_path: pathlib.Path) -> None:
    master, slave = os.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "trio_acp.demo"],
            cwd=tmp_path,
            env={**os.environ, **OPTIONS},
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            assert b"This is an agent" in process.stderr.readline()
            os.write(master, b"\x04")
            assert process.wait(20) == 0
    finally:
        os.close(master)
        os.close(slave)


def test_ctrl_c_ends_it_without_a_traceback(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "trio_acp.demo"],
        cwd=tmp_path,
        env={**os.environ, **OPTIONS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"no JSON\n")
        process.stdin.flush()
        assert b"-32700" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize(("closed", "name"), [("<&-", "stdin"), (">&-", "stdout")])
def test_without_a_client_it_says_so(tmp_path: pathlib.Path, closed: str, name: str) -> None:
    """By then the number of the descriptor belongs to something else, of Trio's own."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m trio_acp.demo {closed}', sys.executable],
        cwd=tmp_path,
        env={**os.environ, **OPTIONS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == f"trio_acp.demo: {name} is closed, so that there is no client to serve\n".encode()


@pytest.mark.parametrize("pace", ["fast", "-1", "61", "nan"])
def test_a_pace_that_makes_no_sense_is_status_2(pace: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--pace", pace])
    assert caught.value.code == 2
    assert "is not a number of seconds from 0 to 60" in capsys.readouterr().err


def test_the_version_is_the_library_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert __version__ in capsys.readouterr().out


async def test_the_app_can_be_made_without_any_argument() -> None:
    async with trio.open_nursery() as nursery:
        stream = create_app().connect_in_memory(nursery)
        await stream.aclose()

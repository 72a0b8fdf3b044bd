"""What clients that are in use were seen to do to the demo agent, played by a scripted one."""

from __future__ import annotations

import pathlib
from typing import Any

from tests.agent.scripted import HOLD, ScriptedClient, WireError, connected
from trio_acp.agent import FileSessionStore
from trio_acp.demo import create_app

OFFERS: dict[str, Any] = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def last_status(client: ScriptedClient) -> Any:
    return client.updates("tool_call", "tool_call_update")[-1]["status"]


async def test_a_client_denies_the_reading_of_files_with_an_internal_error(tmp_path: pathlib.Path) -> None:
    """W10: its policy denies everything; the agent says so, asks for nothing more, and writes nothing."""
    async with connected(create_app(pace=0), OFFERS) as client:
        session = await client.new_session(str(tmp_path))
        client.on["fs/read_text_file"] = lambda params: WireError(-32603, "Internal error")
        assert await client.prompt(session, "write a.txt: hello") == {"stopReason": "end_turn"}
        assert "the client did not read `a.txt`: Internal error" in client.said()
        assert not client.got("session/request_permission")


async def test_a_client_answers_cancelled_without_cancelling_because_nobody_is_there(
    tmp_path: pathlib.Path,
) -> None:
    """P1: that is no permission, and no cancelled turn either."""
    async with connected(create_app(pace=0), OFFERS) as client:
        session = await client.new_session(str(tmp_path))
        client.on["fs/read_text_file"] = lambda params: WireError(-32002, "Resource not found", {"uri": "x"})
        client.on["session/request_permission"] = lambda params: CANCELLED
        assert await client.prompt(session, "write a.txt: hello") == {"stopReason": "end_turn"}
        assert last_status(client) == "failed"
        assert "You did not allow it" in client.said()


async def test_a_client_ends_the_command_of_a_cancelled_turn_and_answers_what_was_withdrawn(
    tmp_path: pathlib.Path,
) -> None:
    """X4, X5, F4: a late result, with null and a signal, is dropped; the terminal is released once."""
    async with connected(create_app(pace=0), OFFERS) as client:
        session = await client.new_session(str(tmp_path))
        client.on |= {
            "session/request_permission": lambda params: ALLOW,
            "terminal/create": lambda params: {"terminalId": "921654f4"},
            "terminal/wait_for_exit": lambda params: HOLD,
            "terminal/release": lambda params: HOLD,
        }
        turn = await client.start_prompt(session, "run sleep 30")
        waiting = await client.wait_for("terminal/wait_for_exit")
        await client.cancel(session)
        release = await client.wait_for("terminal/release")
        await client.reply(waiting, {"exitCode": None, "signal": "SIGTERM"})
        await client.reply(release, {})
        assert await client.answer(turn) == {"stopReason": "cancelled"}
        assert client.withdrawn() == [waiting["id"]]
        assert await client.prompt(session, "think") == {"stopReason": "end_turn"}
        assert len(client.got("terminal/release")) == 1


async def test_a_client_resumes_with_every_prompt_and_chooses_again_what_it_had_chosen(
    tmp_path: pathlib.Path,
) -> None:
    """S2, S7: a new process for each prompt; the mode, which it does not set again, is the store's."""
    store = FileSessionStore(tmp_path / "store")
    where = {"cwd": str(tmp_path), "mcpServers": []}
    async with connected(create_app(store, pace=0), OFFERS) as client:
        session = await client.new_session(str(tmp_path))
        await client.call("session/set_mode", sessionId=session, modeId="read-only")
        await client.call("session/set_config_option", sessionId=session, configId="detail", value="full")
    for count in (1, 2):
        async with connected(create_app(store, pace=0), OFFERS) as client:
            client.on["fs/read_text_file"] = lambda params: WireError(-32002, "Resource not found")
            told = await client.call("session/resume", sessionId=session, **where)
            assert told["modes"]["currentModeId"] == "read-only"
            again = await client.call(
                "session/set_config_option", sessionId=session, configId="detail", value="full"
            )
            chosen = {option["id"]: option["currentValue"] for option in again["configOptions"]}
            assert chosen == {"mode": "read-only", "detail": "full"}
            assert not client.updates("user_message_chunk", "agent_message_chunk")
            assert await client.prompt(session, f"write {count}.txt: x") == {"stopReason": "end_turn"}
            assert "This session is read-only" in client.said()

"""The demo agent, driven by clients that were built with the official SDKs; each test with each of them."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.interop.driving import SdkClient, Step
from trio_acp import __version__

pytestmark = pytest.mark.interop

ALL = ("read", "write", "terminal", "form", "boolean")


def new(cwd: pathlib.Path, name: str = "s") -> dict[str, Any]:
    return {"do": "new", "as": name, "cwd": str(cwd)}


def prompt(text: str, name: str = "s", **more: Any) -> dict[str, Any]:
    return {"do": "prompt", "session": name, "text": text, **more}


def session(do: str, name: str = "s", **more: Any) -> dict[str, Any]:
    return {"do": do, "session": name, **more}


def in_order(parts: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(part in rest for part in parts)


def ended(step: Step, reason: str = "end_turn") -> bool:
    return step.code is None and step.result["stopReason"] == reason


async def test_introductions_and_help(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """I1, I2, S1, S7, T2: what the agent says of itself, a session's choices, an answer that streams."""
    hello, (made, helped) = await sdk_client.drive(new(tmp_path), prompt("help"), offers=ALL)
    assert hello["protocolVersion"] == 1
    assert (hello["agentInfo"]["name"], hello["agentInfo"]["version"]) == ("trio-acp-demo", __version__)
    assert hello["agentCapabilities"]["loadSession"] is True
    offered = hello["agentCapabilities"]["sessionCapabilities"]
    assert {"list", "resume", "close", "delete"} <= offered.keys()
    assert [mode["id"] for mode in made.result["modes"]["availableModes"]] == ["ask", "auto", "read-only"]
    assert [option["id"] for option in made.result["configOptions"]] == ["mode", "detail", "thoughts"]
    assert ended(helped)
    assert helped.text.startswith("I am a demo agent")
    assert len(helped.of_kind("agent_message_chunk")) > 10
    # The commands come behind the answer that reveals the session.
    (commands,) = helped.of_kind("available_commands_update") or made.of_kind("available_commands_update")
    assert [command["name"] for command in commands["availableCommands"]] == ["status", "title"]
    (usage,) = helped.of_kind("usage_update")
    assert usage["used"] > 0
    (information,) = helped.of_kind("session_info_update")
    assert information["title"] == "help"


async def test_a_list_of_files(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """T4, S8: a plan, a tool call, a message, and a thought before them."""
    (tmp_path / "notes.txt").write_text("milk\n")
    _, (_, listed) = await sdk_client.drive(new(tmp_path), prompt("list the files"))
    assert ended(listed)
    assert "notes.txt" in listed.text
    assert listed.joined("agent_thought_chunk")
    assert listed.statuses[-1] == "completed"
    assert [[entry["status"] for entry in plan["entries"]] for plan in listed.of_kind("plan")] == [
        ["in_progress", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]


@pytest.mark.parametrize("offers", [("read",), ()], ids=["client", "own"])
async def test_a_file_is_read_where_it_is_offered(
    sdk_client: SdkClient, offers: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """I3, F1: through the client if that reads files, by itself else."""
    (tmp_path / "notes.txt").write_text("on disk\n")
    _, (_, read, missing) = await sdk_client.drive(
        new(tmp_path),
        prompt("read notes.txt"),
        prompt("read missing.txt"),
        offers=offers,
        files={"notes.txt": "in the editor\n"},
    )
    assert ended(read)
    assert ended(missing)
    assert "there is no `missing.txt`" in missing.text
    assert missing.statuses[-1] == "failed"
    if offers:
        assert "in the editor" in read.text
        assert read.requests == [("read", {"path": str(tmp_path / "notes.txt")})]
    else:
        assert "on disk" in read.text
        assert read.requests == []


@pytest.mark.parametrize("offers", [("read", "write"), ()], ids=["client", "own"])
@pytest.mark.parametrize("permission", ["allow_once", "allow_always", "reject_once", "nothing", "hold"])
async def test_a_file_is_written_only_with_permission(
    sdk_client: SdkClient, offers: tuple[str, ...], permission: str, tmp_path: pathlib.Path
) -> None:
    """P1, P2, F1, X2: allowed, rejected, answered `cancelled`, and asked while the turn is cancelled."""
    (tmp_path / "notes.txt").write_text("old\n")
    _, (_, wrote, again) = await sdk_client.drive(
        new(tmp_path),
        prompt("write notes.txt: new"),
        prompt("think"),
        offers=offers,
        permission=permission,
        files={"notes.txt": "old\n"},
    )
    assert wrote.asked.count("permission") == 1
    (asked,) = [params for name, params in wrote.requests if name == "permission"]
    assert {"allow_once", "reject_once"} <= set(asked["kinds"])
    (call,) = wrote.of_kind("tool_call")
    assert call["toolCallId"] == asked["call"]
    assert call["content"][0] | {"_meta": None} == {
        "type": "diff",
        "path": str(tmp_path / "notes.txt"),
        "oldText": "old\n",
        "newText": "new\n",
        "_meta": None,
    }
    allowed = permission.startswith("allow")
    written = [params for name, params in wrote.requests if name == "write"]
    assert written == (
        [{"path": str(tmp_path / "notes.txt"), "content": "new\n"}] if allowed and offers else []
    )
    assert (tmp_path / "notes.txt").read_text() == ("new\n" if allowed and not offers else "old\n")
    assert wrote.statuses[-1] == ("completed" if allowed else "failed")
    assert ended(wrote, "cancelled" if permission == "hold" else "end_turn")
    assert ended(again), "the session is warm"


@pytest.mark.parametrize("offers", [("terminal",), ()], ids=["client", "own"])
async def test_a_command_runs_where_it_is_offered(
    sdk_client: SdkClient, offers: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """F2 to F4: in a terminal of the client, which is released once, or by itself; and one that fails."""
    _, (_, ran, failed) = await sdk_client.drive(
        new(tmp_path), prompt("run echo hello; pwd"), prompt("run exit 3"), offers=offers
    )
    assert ended(ran)
    assert ended(failed)
    assert ran.text == "It ended with exit code 0 and wrote 2 lines."
    assert failed.text == "It ended with exit code 3 and wrote 0 lines."
    assert (ran.statuses[-1], failed.statuses[-1]) == ("completed", "failed")
    for step in (ran, failed):
        assert step.asked[0] == "permission"
        assert step.asked.count("terminal/create") == step.asked.count("terminal/release") == len(offers)
    if offers:
        assert in_order(["terminal/create", "terminal/output", "terminal/release"], ran.asked)
        shown = [update for update in ran.updates if "terminal" in str(update.get("content"))]
        assert shown, "the tool call shows the terminal"
        (created,) = [params for name, params in ran.requests if name == "terminal/create"]
        assert created["cwd"] == str(tmp_path)
    else:
        assert any("hello" in str(update.get("content")) for update in ran.of_kind("tool_call_update"))


@pytest.mark.parametrize(
    ("text", "offers", "when"),
    [
        ("slow 600", (), "agent_message_chunk"),
        ("run sleep 600", (), "tool_call_update"),
        ("run sleep 600", ("terminal",), "tool_call_update"),  # while the terminal is being made
        ("run sleep 600", ("terminal",), "terminal/wait_for_exit"),
    ],
)
async def test_a_turn_is_cancelled_while_it_works(
    sdk_client: SdkClient, text: str, offers: tuple[str, ...], when: str, tmp_path: pathlib.Path
) -> None:
    """X1, X2, F4: the answer is `cancelled`, terminals are released once, and the session is warm."""
    _, (_, cancelled, again) = await sdk_client.drive(
        new(tmp_path), prompt(text, cancel_at=when), prompt("run echo again"), offers=offers
    )
    assert ended(cancelled, "cancelled")
    assert cancelled.statuses[-1:] in ([], ["failed"])
    assert ended(again)
    assert again.text == "It ended with exit code 0 and wrote 1 line."
    # A terminal whose making was under way is released as soon as it is known, behind the answer that is.
    asked = cancelled.asked + again.asked
    assert asked.count("terminal/create") == asked.count("terminal/release")
    assert again.asked.count("terminal/release") >= len(offers)


@pytest.mark.parametrize(
    ("permission", "text"), [("allow_once", "You chose"), ("nothing", "You did not choose anything.")]
)
async def test_a_choice(sdk_client: SdkClient, permission: str, text: str, tmp_path: pathlib.Path) -> None:
    """P1, P2: asked as a permission is."""
    _, (_, chose) = await sdk_client.drive(new(tmp_path), prompt("choose"), permission=permission)
    assert ended(chose)
    assert chose.text.startswith(text)
    assert chose.asked == ["permission"]


@pytest.mark.parametrize("form", [{"name": "Ada", "format": "XML", "copies": 2, "urgent": True}, None])
async def test_a_form(sdk_client: SdkClient, form: dict[str, Any] | None, tmp_path: pathlib.Path) -> None:
    """E1, E2: accepted, and declined."""
    _, (_, filled) = await sdk_client.drive(new(tmp_path), prompt("form"), offers=("form",), form=form)
    assert ended(filled)
    assert filled.asked == ["elicitation"]
    requested = filled.requests[0][1]["schema"]
    assert requested["required"] == ["name"]
    assert set(requested["properties"]) == {"name", "format", "copies", "urgent"}
    if form is None:
        assert filled.text == "You did not fill in the form."
    else:
        assert "- name: Ada" in filled.text
        assert "- copies: 2" in filled.text


async def test_no_form_where_none_is_offered(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """I3, E1."""
    _, (_, filled) = await sdk_client.drive(new(tmp_path), prompt("form"))
    assert ended(filled)
    assert filled.asked == []
    assert filled.text == "Your client does not show forms."


async def test_plans_and_thoughts(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """S8, T5: each plan replaces the one before; thoughts are no messages."""
    _, (_, planned, thought) = await sdk_client.drive(new(tmp_path), prompt("plan"), prompt("think"))
    assert ended(planned)
    assert ended(thought)
    assert [entry["status"] for entry in planned.of_kind("plan")[-1]["entries"]] == ["completed"] * 3
    assert "First I think of something." in thought.joined("agent_thought_chunk")
    assert thought.text == "I have thought about it."


async def test_modes_and_config_options(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """S7: a mode that asks nothing, one that changes nothing, the same as a config option, and others."""
    (tmp_path / "notes.txt").write_text("milk\n")
    _, (_, auto, wrote, read_only, refused, full, listed, quiet, silent, bad) = await sdk_client.drive(
        new(tmp_path),
        session("mode", mode="auto"),
        prompt("write a.txt: x"),
        session("config", option="mode", value="read-only"),
        prompt("write b.txt: x"),
        session("config", option="detail", value="full"),
        prompt("list the files"),
        session("config", option="thoughts", value=False),
        prompt("read notes.txt"),
        session("mode", mode="no such mode"),
        offers=("boolean",),
    )
    assert auto.code is None
    assert wrote.asked == []
    assert (tmp_path / "a.txt").read_text() == "x\n"
    chosen = {option["id"]: option["currentValue"] for option in read_only.result["configOptions"]}
    assert chosen == {"mode": "read-only", "detail": "brief", "thoughts": True}
    assert "read-only" in refused.text
    assert not (tmp_path / "b.txt").exists()
    assert full.code is None
    assert "notes.txt (5 bytes)" in listed.text
    assert [option["currentValue"] for option in quiet.result["configOptions"]] == [
        "read-only",
        "full",
        False,
    ]
    assert silent.of_kind("agent_thought_chunk") == []
    assert bad.code == -32602


async def test_boolean_options_are_only_for_clients_that_know_them(
    sdk_client: SdkClient, tmp_path: pathlib.Path
) -> None:
    """S7."""
    _, (made,) = await sdk_client.drive(new(tmp_path))
    assert [option["id"] for option in made.result["configOptions"]] == ["mode", "detail"]


async def test_slash_commands(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """S8."""
    _, (_, status, title) = await sdk_client.drive(
        new(tmp_path), prompt("/status"), prompt("/title Shopping  list"), offers=("read", "terminal")
    )
    assert ended(status)
    assert f"directory: `{tmp_path}`" in status.text
    assert "your client offers: fs.readTextFile, terminal" in status.text
    assert ended(title)
    assert "Shopping list" in title.text
    (information,) = title.of_kind("session_info_update")
    assert information["title"] == "Shopping list"


async def test_sessions_across_restarts(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """S2, S3: made by one process; listed, loaded, resumed, deleted by a second; a third one."""
    store = tmp_path / "store"
    _, (one, two, *_) = await sdk_client.drive(
        new(tmp_path, "one"),
        new(tmp_path, "two"),
        prompt("think", "one"),
        session("mode", "one", mode="auto"),
        prompt("help", "two"),
        store=store,
    )
    first, second = one.result["sessionId"], two.result["sessionId"]
    here = str(tmp_path)
    _, (listed, loaded, closed, not_open, resumed, went_on, deleted, twice, left) = await sdk_client.drive(
        {"do": "list"},
        session("load", first, cwd=here),
        session("close", first),
        prompt("help", first),
        session("resume", first, cwd=here),
        prompt("plan", first),
        session("delete", second),
        session("delete", second),
        {"do": "list"},
        store=store,
    )
    assert {entry["sessionId"] for entry in listed.result["sessions"]} == {first, second}
    assert {entry.get("title") for entry in listed.result["sessions"]} == {"think", "help"}
    assert loaded.joined("user_message_chunk") == "think"
    assert "First I think of something." in loaded.joined("agent_thought_chunk")
    assert loaded.text == "I have thought about it."
    assert loaded.result["modes"]["currentModeId"] == "auto"
    assert closed.code is None
    assert not_open.code == -32002
    assert resumed.code is None
    assert resumed.text == ""
    assert ended(went_on)
    assert (deleted.code, twice.code) == (None, None)
    assert [entry["sessionId"] for entry in left.result["sessions"]] == [first]
    _, (gone, there) = await sdk_client.drive(
        session("load", second, cwd=here), session("load", first, cwd=here), store=store
    )
    assert gone.code == -32002
    assert there.joined("user_message_chunk") == "thinkplan"


async def test_two_sessions_at_once(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """T1, X1: two turns run side by side; cancelling one leaves the other alone."""
    _, (one, two, both) = await sdk_client.drive(
        new(tmp_path, "one"),
        new(tmp_path, "two"),
        {
            "do": "together",
            "steps": [prompt("slow 600", "one", cancel_at="agent_message_chunk"), prompt("help", "two")],
        },
    )
    assert [answer["result"]["stopReason"] for answer in both.result] == ["cancelled", "end_turn"]
    ids = [one.result["sessionId"], two.result["sessionId"]]
    assert set(both.sessions) == set(ids)
    texts = {
        id: "".join(
            update["content"]["text"]
            for update, session in zip(both.updates, both.sessions, strict=True)
            if session == id and update["sessionUpdate"] == "agent_message_chunk"
        )
        for id in ids
    }
    assert texts[ids[0]].strip() == "1"
    assert texts[ids[1]].startswith("I am a demo agent")
    assert texts[ids[1]].endswith("`read-only` not at all.\n")


async def test_bad_requests_are_answered_and_harm_nothing(
    sdk_client: SdkClient, tmp_path: pathlib.Path
) -> None:
    """I3, I4, W4, S1, T1: each has its own error, and the session goes on."""
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("session/prompt", {"sessionId": 5, "prompt": []}, -32602),
        ("session/prompt", {"prompt": []}, -32602),
        ("session/prompt", {"sessionId": "no such session", "prompt": []}, -32002),
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/new", {"cwd": 7, "mcpServers": []}, -32602),
        ("session/load", {"cwd": str(tmp_path), "mcpServers": [], "sessionId": "no such"}, -32002),
        ("initialize", {"protocolVersion": 1}, -32600),
        ("session/no_such_method", {}, -32601),
        ("_vendor/no_such_method", {}, -32601),
        ("logout", {}, -32601),
    ]
    raw = [{"do": "raw", "method": method, "params": params} for method, params, _ in cases]
    _, (_, *answers, last) = await sdk_client.drive(new(tmp_path), *raw, prompt("think"))
    assert [answer.code for answer in answers] == [code for _, _, code in cases]
    assert ended(last)


async def test_a_prompt_during_a_turn_is_refused(sdk_client: SdkClient, tmp_path: pathlib.Path) -> None:
    """T1: and the turn goes on."""
    _, (_, both) = await sdk_client.drive(
        new(tmp_path), {"do": "together", "steps": [prompt("plan"), prompt("help")]}
    )
    first, second = both.result
    assert first["result"]["stopReason"] == "end_turn"
    assert second["error"]["code"] == -32600


async def test_a_turn_that_runs_when_the_input_ends_is_answered(
    sdk_client: SdkClient, tmp_path: pathlib.Path
) -> None:
    """X2: it is cancelled, and that can still be read; the agent exits with status 0, as every run checks."""
    _, (_, turn) = await sdk_client.drive(new(tmp_path), prompt("slow 600", leave_at="agent_message_chunk"))
    assert ended(turn, "cancelled")

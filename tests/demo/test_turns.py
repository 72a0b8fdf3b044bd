"""The demo agent as a client of it sees it, in the same process."""

from __future__ import annotations

import os
import pathlib

import pytest
import trio

from tests.demo.clients import DemoAgent, Files, Terminals, say
from trio_acp import AcpOptions, Cancelled, Decision, PermissionRequest, Reject, Selected
from trio_acp.demo import HELP
from trio_acp.schema import (
    CreateElicitationFormRequest,
    CreateElicitationResponse,
    Diff,
    ElicitationAcceptAction,
    ElicitationDeclineAction,
    SessionConfigSelect,
    StopReason,
    Terminal,
    UnknownVariant,
)


def choosing(kind: str, asked: list[PermissionRequest]) -> AcpOptions:
    async def decide(request: PermissionRequest) -> Decision:
        await trio.lowlevel.checkpoint()
        asked.append(request)
        found = next((option for option in request.options if option.kind == kind), None)
        return Cancelled() if found is None else Selected(found.option_id)

    return AcpOptions(on_permission=decide)


# Talking -----------------------------------------------------------------------------------------------


async def test_help_is_the_list_of_words(tmp_path: pathlib.Path) -> None:
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "help")
        assert turn.text == HELP
        assert turn.stop_reason == StopReason.END_TURN
        assert turn.usage is not None
        assert turn.usage.used == len(HELP.split()) + 1


async def test_anything_else_gets_a_short_answer_that_names_the_words(tmp_path: pathlib.Path) -> None:
    async with DemoAgent() as agent:
        turn = await say(await agent.new_session(tmp_path), "Sing to me!")
        assert "without a model" in turn.text
        assert "`write FILE: TEXT`" in turn.text


async def test_thinking_is_told_as_thoughts(tmp_path: pathlib.Path) -> None:
    """T5."""
    async with DemoAgent() as agent:
        turn = await say(await agent.new_session(tmp_path), "think")
        assert [message.role for message in turn.messages] == ["thought", "agent"]
        assert turn.text == "I have thought about it."


async def test_a_plan_is_worked_through(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """S8: each plan replaces the one before."""
    async with DemoAgent(pace=1) as agent:
        session = await agent.new_session(tmp_path)
        seen: list[list[str]] = []
        async with session.prompt("plan") as turn:
            async for _ in turn:
                plan = [str(entry.status) for entry in turn.plan or []]
                if plan and plan not in seen:
                    seen.append(plan)
        assert seen[0] == ["in_progress", "pending", "pending"]
        assert seen[-1] == ["completed", "completed", "completed"]


async def test_slow_streams_until_its_time_is_over(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        start = trio.current_time()
        turn = await say(session, "slow 2")
        assert trio.current_time() - start == pytest.approx(2)
        assert turn.text == "1 2 3 4 done."


async def test_slow_ends_when_it_is_cancelled(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """X2."""
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("slow 600") as turn:
            async for _ in turn:
                if turn.text:
                    turn.cancel()
        assert turn.stop_reason == StopReason.CANCELLED
        assert not turn.text.endswith("done.")
        assert (await say(session, "think")).stop_reason == StopReason.END_TURN


# Files -------------------------------------------------------------------------------------------------


async def test_lists_the_files_with_a_plan_and_a_tool_call(tmp_path: pathlib.Path) -> None:
    """T4."""
    (tmp_path / "a.txt").write_text("four")
    (tmp_path / "sub").mkdir()
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "list the files")
        assert turn.text == f"There are 2 entries in `{tmp_path}`:\n\n- a.txt\n- sub/"
        (call,) = turn.tool_calls.values()
        assert (call.title, call.kind, call.status) == ("List the files", "search", "completed")
        assert [entry.status for entry in turn.plan or []] == ["completed", "completed"]
        await session.set_config_option("detail", "full")
        assert "- a.txt (4 bytes)" in (await say(session, "list")).text


async def test_an_empty_directory_and_one_that_has_gone_are_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path / "sub")
        assert (await say(session, "list the files")).text == "There are no files here."
        (tmp_path / "sub").rmdir()
        turn = await say(session, "list the files")
        assert "I cannot list" in turn.text
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]


async def test_a_long_list_is_cut(tmp_path: pathlib.Path) -> None:
    for number in range(203):
        (tmp_path / f"{number:03}").touch()
    async with DemoAgent() as agent:
        turn = await say(await agent.new_session(tmp_path), "list the files")
        assert turn.text.startswith("There are 203 entries")
        assert turn.text.endswith("- 199\n- and 3 more")


async def test_reads_a_file_of_its_own_where_the_client_offers_none(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.md").write_text("a\n```\nb\n```")
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "read a.md")
        assert turn.text == "This is `a.md`:\n\n````\na\n```\nb\n```\n````\n"
        (call,) = turn.tool_calls.values()
        assert [location.path for location in call.locations] == [str(tmp_path / "a.md")]
        turn = await say(session, "read nothing")
        assert turn.text == "there is no `nothing`."
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]
        assert "outside" in (await say(session, "read ../a")).text


async def test_writes_after_it_was_allowed_and_shows_the_change_before(tmp_path: pathlib.Path) -> None:
    """P1."""
    asked: list[PermissionRequest] = []
    async with DemoAgent(choosing("allow_once", asked)) as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "write a.txt: one")
        assert turn.text == "I have written `a.txt`."
        turn = await say(session, "write a.txt: two")
        assert turn.text == "I have changed `a.txt`."
    assert (tmp_path / "a.txt").read_text() == "two\n"
    place = str(tmp_path / "a.txt")
    assert [request.tool_call.content for request in asked] == [
        [Diff(place, "one\n", None)],
        [Diff(place, "two\n", "one\n")],
    ]


async def test_always_is_not_asked_again(tmp_path: pathlib.Path) -> None:
    asked: list[PermissionRequest] = []
    async with DemoAgent(choosing("allow_always", asked)) as agent:
        session = await agent.new_session(tmp_path)
        await say(session, "write a.txt: one")
        await say(session, "write a.txt: two")
    assert len(asked) == 1


@pytest.mark.parametrize("kind", ["reject_once", "none of these"])
async def test_does_nothing_that_was_not_allowed(tmp_path: pathlib.Path, kind: str) -> None:
    async with DemoAgent(choosing(kind, [])) as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "write a.txt: one")
        assert "so `a.txt` is as it was" in turn.text
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]
        turn = await say(session, "run touch b.txt")
        assert "I did not run anything" in turn.text
    assert os.listdir(tmp_path) == []


async def test_what_cannot_be_written_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    asked: list[PermissionRequest] = []
    async with DemoAgent(choosing("allow_once", asked)) as agent:
        session = await agent.new_session(tmp_path)
        assert "outside" in (await say(session, "write ../a: x")).text
        assert "cannot read `sub`" in (await say(session, "write sub: x")).text
        assert asked == []
        turn = await say(session, "write no/a: x")
        assert turn.text == "there is no `no/a`."
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]


async def test_uses_the_files_of_a_client_that_offers_them(tmp_path: pathlib.Path) -> None:
    """F1."""
    files = Files(a="unsaved\n", fixed="fixed\n")
    options = AcpOptions(read_text_file=files.read, write_text_file=files.write)
    async with DemoAgent(options) as agent:
        session = await agent.new_session(tmp_path)
        assert "unsaved" in (await say(session, "read a")).text
        assert (await say(session, "read b")).text == "there is no `b`."
        assert "the client did not read `secret`: not this one" in (await say(session, "read secret")).text
        assert (await say(session, "write b: new")).text == "I have written `b`."
        turn = await say(session, "write fixed: new")
        assert "the client did not write `fixed`: not this one" in turn.text
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]
    assert files.contents == {"a": "unsaved\n", "b": "new\n", "fixed": "fixed\n"}
    assert os.listdir(tmp_path) == []


# Commands ----------------------------------------------------------------------------------------------


async def test_runs_a_command_of_its_own_where_the_client_offers_no_terminals(tmp_path: pathlib.Path) -> None:
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "run echo hello")
        assert turn.text == "It ended with exit code 0 and wrote 1 line."
        (call,) = turn.tool_calls.values()
        assert (call.kind, call.status) == ("execute", "completed")
        assert [item.content.text for item in call.content] == ["hello\n"]  # type: ignore[union-attr]
        turn = await say(session, "run kill $$")
        assert turn.text == "It was ended by SIGTERM and wrote 0 lines."
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]
        turn = await say(session, "run yes | head -c 200000")
        assert "of which the beginning is missing" in turn.text


async def test_runs_a_command_in_a_terminal_of_a_client_that_offers_them(tmp_path: pathlib.Path) -> None:
    """F2, F4: shown in the tool call, and released once."""
    terminals = Terminals()
    async with DemoAgent(AcpOptions(terminals=terminals)) as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "run echo one; echo two")
        assert turn.text == "It ended with exit code 0 and wrote 2 lines."
        (call,) = turn.tool_calls.values()
        assert call.content == [Terminal("t0")]
        turn = await say(session, "run refuse")
        assert turn.text == "The client did not run it: not this one."
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]
    assert terminals.done == [("create", "t0"), ("release", "t0")]


async def test_a_command_in_a_directory_that_has_gone_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path / "sub")
        (tmp_path / "sub").rmdir()
        turn = await say(session, "run true")
        assert turn.text == "It could not be run: No such file or directory."
        assert [call.status for call in turn.tool_calls.values()] == ["failed"]


# Questions ---------------------------------------------------------------------------------------------


async def test_lets_the_user_choose(tmp_path: pathlib.Path) -> None:
    async def second(request: PermissionRequest) -> Decision:
        await trio.lowlevel.checkpoint()
        return Selected(request.options[1].option_id)

    async with DemoAgent(AcpOptions(on_permission=second)) as agent:
        assert (await say(await agent.new_session(tmp_path), "choose")).text == "You chose XML."


async def test_no_choice_is_fine(tmp_path: pathlib.Path) -> None:
    async def none(request: PermissionRequest) -> Decision:
        await trio.lowlevel.checkpoint()
        return Reject()

    async with DemoAgent(AcpOptions(on_permission=none)) as agent:
        assert (await say(await agent.new_session(tmp_path), "choose")).text == "You did not choose anything."


@pytest.mark.parametrize(
    ("answer", "text", "status"),
    [
        (
            ElicitationAcceptAction({"name": "Ann", "copies": 2}),
            "You filled in:\n\n- name: Ann\n- copies: 2",
            "completed",
        ),
        (ElicitationAcceptAction({"copies": 2}), "The form did not work", "failed"),
        (ElicitationDeclineAction(), "You did not fill in the form.", "failed"),
    ],
)
async def test_lets_the_user_fill_in_a_form(
    tmp_path: pathlib.Path, answer: CreateElicitationResponse, text: str, status: str
) -> None:
    """E1, E2."""
    forms: list[CreateElicitationFormRequest] = []

    async def fill(request: CreateElicitationFormRequest) -> CreateElicitationResponse:
        await trio.lowlevel.checkpoint()
        forms.append(request)
        return answer

    async with DemoAgent(AcpOptions(elicit_form=fill)) as agent:
        turn = await say(await agent.new_session(tmp_path), "form")
        assert turn.text.startswith(text)
        assert [call.status for call in turn.tool_calls.values()] == [status]
    assert list(forms[0].requested_schema.properties) == ["name", "format", "copies", "urgent"]
    assert forms[0].tool_call_id is not None


async def test_a_client_without_forms_is_told_so(tmp_path: pathlib.Path) -> None:
    """I3."""
    async with DemoAgent() as agent:
        turn = await say(await agent.new_session(tmp_path), "form")
        assert turn.text == "Your client does not show forms."


# Modes, options, commands ------------------------------------------------------------------------------


async def test_a_mode_decides_whether_it_asks(tmp_path: pathlib.Path) -> None:
    """S7: as a mode and as a config option."""
    asked: list[PermissionRequest] = []
    async with DemoAgent(choosing("allow_once", asked)) as agent:
        session = await agent.new_session(tmp_path)
        await session.set_mode("auto")
        assert (await say(session, "write a.txt: one")).text == "I have written `a.txt`."
        assert (await say(session, "run true")).text.startswith("It ended with exit code 0")
        await session.set_config_option("mode", "read-only")
        assert "This session is read-only" in (await say(session, "write a.txt: two")).text
        assert "This session is read-only" in (await say(session, "run true")).text
    assert asked == []
    assert (tmp_path / "a.txt").read_text() == "one\n"


async def test_an_option_decides_whether_it_thinks_aloud(tmp_path: pathlib.Path) -> None:
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        assert [message.role for message in (await say(session, "read a")).messages] == ["thought", "agent"]
        await session.set_config_option("thoughts", False)
        assert [message.role for message in (await say(session, "read a")).messages] == ["agent"]


async def test_slash_commands_are_advertised_and_work(tmp_path: pathlib.Path) -> None:
    """S8."""
    files = Files()
    async with DemoAgent(AcpOptions(read_text_file=files.read)) as agent:
        session = await agent.new_session(tmp_path)
        turn = await say(session, "/status")
        assert turn.text == (
            f"- directory: `{tmp_path}`\n- mode: ask\n- detail: brief\n- thoughts: on\n"
            "- your client offers: fs.readTextFile\n"
        )
        assert [command.name for command in session.state.commands] == ["status", "title"]
        assert (await say(session, "/title")).text == "Tell me the title as well: `/title TEXT`"
        turn = await say(session, f"/title  My   {'long ' * 20}title")
        assert session.state.title == f"My {'long ' * 20}"[:59] + "…"
        assert f"“{session.state.title}”" in turn.text


async def test_status_of_a_client_that_offers_nothing(tmp_path: pathlib.Path) -> None:
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        await session.set_config_option("thoughts", False)
        text = (await say(session, "/status")).text
        assert "- thoughts: off\n" in text
        assert text.endswith("nothing that I could use\n")


async def test_a_session_is_called_after_its_first_prompt(tmp_path: pathlib.Path) -> None:
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        await say(session, "think\nhard")
        assert session.state.title == "think hard"
        await say(session, "help")
        assert session.state.title == "think hard"
        other = await agent.new_session(tmp_path)
        await say(other, " ")
        assert other.state.title == "Untitled"


async def test_options_have_the_mode_among_them(tmp_path: pathlib.Path) -> None:
    """S7: clients that know options need not know modes."""
    async with DemoAgent() as agent:
        session = await agent.new_session(tmp_path)
        options = [
            option for option in session.state.config_options if not isinstance(option, UnknownVariant)
        ]
        assert [option.id for option in options] == ["mode", "detail", "thoughts"]
        assert isinstance(options[0], SessionConfigSelect)
        assert options[0].category == "mode"

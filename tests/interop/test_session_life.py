"""The life of sessions with agents built with the official SDKs: list, load, resume, options, forms."""

from __future__ import annotations

import pytest
import trio

from tests.interop.peers import Peer
from trio_acp import RequestError, no_such_session, open_acp
from trio_acp.schema import (
    CreateElicitationFormRequest,
    CreateElicitationResponse,
    CreateElicitationUrlRequest,
    ElicitationAcceptAction,
    SessionConfigSelect,
)

pytestmark = pytest.mark.interop

LIMIT = 50
"""Seconds for one test: starting Node and Python on a busy machine included."""


async def test_sessions_are_listed_over_pages_loaded_and_resumed(peer: Peer) -> None:
    """S2, S3: two on a page."""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options(cwd="/")) as agent:
            sessions = [await agent.new_session() for _ in range(5)]
            for word in ("talk", "plan"):
                async with sessions[1].prompt(word):
                    pass
            listed = [(info.session_id, info.cwd) async for info in agent.list_sessions()]
            assert sorted(listed) == [(session.id, "/") for session in sessions]

            loaded = await agent.load_session(sessions[1].id)
            assert [(message.role, message.text) for message in loaded.replay.messages] == [
                ("user", "talk"),
                ("agent", "to talk"),
                ("user", "plan"),
                ("agent", "to plan"),
            ]
            assert len(loaded.updates()) == 0
            async with loaded.prompt("talk") as turn:
                pass
            assert turn.text == "Hello, wörld 🎉"

            resumed = await agent.resume_session(sessions[2].id)
            assert (resumed.id, len(resumed.replay)) == (sessions[2].id, 0)
            assert (await agent.recover_session(sessions[3].id)).how == "resumed"

            for call in (agent.load_session, agent.resume_session):
                with pytest.raises(RequestError) as caught:
                    await call("nobody's")
                assert no_such_session(caught.value)
            assert (await agent.recover_session("nobody's")).how == "replaced"
            statistics = agent.statistics()
    assert (statistics.junk_lines, statistics.updates_dropped, statistics.leniencies) == (0, 0, 0)


async def test_config_options_are_set_and_come_back_with_a_load(peer: Peer) -> None:
    """S7"""
    with trio.fail_after(LIMIT):
        async with open_acp(peer.options()) as agent:
            session = await agent.new_session()
            (option,) = await session.set_config_option("detail", "full")
            assert isinstance(option, SessionConfigSelect)
            assert option.current_value == "full"
            await session.set_mode("go")
            session = await agent.load_session(session.id)
            (option,) = session.state.config_options
            assert isinstance(option, SessionConfigSelect)
            assert option.current_value == "full"
            # The answer did not speak of modes.
            assert session.state.modes is not None
            assert session.state.modes.current_mode_id == "go"


async def test_a_form_is_filled_in(peer: Peer) -> None:
    """E1, E2"""
    seen: list[str] = []

    async def elicit(request: CreateElicitationFormRequest) -> CreateElicitationResponse:
        await trio.lowlevel.checkpoint()
        seen.extend([request.message, *(request.requested_schema.properties or {})])
        return ElicitationAcceptAction({"colour": "blue"})

    with trio.fail_after(LIMIT):
        async with open_acp(peer.options(elicit_form=elicit)) as agent:
            session = await agent.new_session()
            async with session.prompt("form") as turn:
                pass
    assert turn.text == "accept: blue"
    assert seen == ["Which?", "colour"]


async def test_an_address_is_opened_and_what_it_was_opened_for_is_over(peer: Peer) -> None:
    """E1, E3"""
    seen: list[str] = []

    async def elicit(request: CreateElicitationUrlRequest) -> CreateElicitationResponse:
        await trio.lowlevel.checkpoint()
        seen.append(request.url)
        return ElicitationAcceptAction()

    def over(request: CreateElicitationUrlRequest) -> None:
        seen.append(f"{request.elicitation_id} is over")

    with trio.fail_after(LIMIT):
        async with open_acp(peer.options(elicit_url=elicit, on_elicitation_complete=over)) as agent:
            session = await agent.new_session()
            async with session.prompt("url") as turn:
                pass
            assert agent.statistics().completions_ignored == 0
    assert turn.text == "accept"
    assert seen == ["https://example.org/login", "login is over"]

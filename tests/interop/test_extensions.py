"""Extension methods with types, called and served by the official Python SDK, which adds the underscore."""

from __future__ import annotations

import pytest
import trio

from tests.interop.driving import LIMIT, python_client
from tests.interop.extension_agent import Repeat
from tests.interop.peers import python_peer
from trio_acp import InvalidResponse, MethodNotFound, open_acp

pytestmark = pytest.mark.interop


async def test_the_sdk_calls_a_typed_method_of_the_agent_and_serves_one_to_it() -> None:
    """N1, O1, O6, W4"""

    def call(method: str, **params: object) -> dict[str, object]:
        return {"do": "extension", "method": method, "params": params}

    _, (done, misfit, unknown) = await python_client().drive(
        call("peer/repeat", word="ä", howOften=3, unknown=1),
        call("peer/repeat", word="ä", howOften="3"),
        call("peer/unknown"),
        program="extension_agent.py",
    )
    assert done.result == {"word": "ÄÄÄ", "howOften": 7}
    assert done.requests == [("peer/write", {"word": "ä", "howOften": 3})]
    assert misfit.code == -32602
    assert "_peer/repeat params: howOften: expected an integer" in misfit.message
    assert unknown.code == -32601


async def test_the_host_calls_a_method_of_the_sdk_with_types() -> None:
    """N1, O6"""
    with trio.fail_after(LIMIT):
        async with open_acp(python_peer().options()) as agent:
            answer = await agent.request("_peer/repeat", Repeat("ab", 2), result=Repeat)
            assert answer == Repeat("abab", 1)
            with pytest.raises(InvalidResponse, match="word: expected a number"):
                await agent.request("_peer/repeat", Repeat("ab", 2), result=dict[str, float])
            with pytest.raises(MethodNotFound):
                await agent.request("_peer/unknown", Repeat("ab"))

"""Permission requests in every interleaving that Hypothesis thinks of: one answer each (P1)."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client._scripted import Scene, Wire
from trio_acp import AcpOptions, Cancelled, PermissionRequest, PermissionTimeout, Reject, Selected

MOMENTS = st.integers(min_value=0, max_value=4)
"""Whole seconds, so that things often fall into one moment."""

HANDLERS = st.tuples(MOMENTS, st.sampled_from(["yes", "no", "cancelled", "raise", "shielded"]))
REQUESTS = st.lists(
    st.fixed_dictionaries(
        {
            "asked": MOMENTS,
            "withdrawn": st.none() | MOMENTS,
            "session": st.sampled_from(["s1", "s1", "s9"]),
            "handler": HANDLERS,
        }
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150)
@given(
    requests=REQUESTS,
    cancelled=st.none() | st.tuples(MOMENTS, st.sampled_from(["button", "scope", "error"])),
    answered=MOMENTS | st.just(9),
    limit=st.sampled_from([2, 3, 100]),
)
def test_each_request_gets_exactly_one_answer_in_a_legal_conversation(
    requests: list[dict[str, Any]], cancelled: tuple[int, str] | None, answered: int, limit: int
) -> None:
    """The referee sees to the rules; the end of the scene sees to it that nothing stays unanswered."""

    async def on_permission(request: PermissionRequest) -> Any:
        seconds, conduct = requests[int(request.tool_call.tool_call_id)]["handler"]
        with trio.CancelScope(shield=conduct == "shielded"):
            await trio.sleep(seconds)
        if conduct == "raise":
            raise ValueError("mine")
        return {"no": Reject(), "cancelled": Cancelled()}.get(conduct, Selected("yes"))

    async def ask(wire: Wire, number: int) -> None:
        request = requests[number]
        await trio.sleep(request["asked"])
        id = await wire.ask_permission(request["session"], toolCallId=str(number))
        if request["withdrawn"] is not None:
            await trio.sleep(request["withdrawn"])
            await wire.withdraw(id)

    async def script(wire: Wire) -> None:
        await wire.new_session()
        prompt = await wire.prompt()
        async with trio.open_nursery() as nursery:
            for number in range(len(requests)):
                nursery.start_soon(ask, wire, number)
            await trio.sleep(answered)
            await wire.end(prompt, "cancelled")

    async def main() -> None:
        options = AcpOptions(on_permission=on_permission, permission_timeout=limit)
        async with Scene(script, options) as (agent, _wire):
            session = await agent.new_session()
            try:
                async with session.prompt("x") as turn:
                    if cancelled is not None:
                        await trio.sleep(cancelled[0])
                        if cancelled[1] == "button":
                            turn.cancel()
                        elif cancelled[1] == "scope":
                            turn.cancel_scope.cancel()
                        else:
                            raise KeyError("body")
                    await turn.wait()
            except* (ValueError, KeyError, PermissionTimeout):
                pass
            await trio.sleep(200)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

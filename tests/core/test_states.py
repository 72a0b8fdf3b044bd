"""The life of a request: every state with every event, as one table says it."""

from __future__ import annotations

import itertools

import pytest

from trio_acp._core import LocalProtocolError, RequestEvent, RequestState, next_state

OPEN, CANCELLING, ANSWERED, LOST = RequestState
CANCEL, ANSWER, DISCONNECT = RequestEvent

STEPS = {
    (OPEN, CANCEL): CANCELLING,
    (OPEN, ANSWER): ANSWERED,
    (OPEN, DISCONNECT): LOST,
    (CANCELLING, CANCEL): CANCELLING,
    (CANCELLING, ANSWER): ANSWERED,
    (CANCELLING, DISCONNECT): LOST,
    (ANSWERED, CANCEL): ANSWERED,
    (ANSWERED, ANSWER): None,
    (ANSWERED, DISCONNECT): ANSWERED,
    (LOST, CANCEL): LOST,
    (LOST, ANSWER): LOST,
    (LOST, DISCONNECT): LOST,
}


def test_every_pair_of_state_and_event_is_decided() -> None:
    assert set(STEPS) == set(itertools.product(RequestState, RequestEvent))


@pytest.mark.parametrize(("state", "event"), STEPS, ids=lambda value: value.name)
def test_x4_w11_a_request_goes_where_the_table_says(state: RequestState, event: RequestEvent) -> None:
    expected = STEPS[state, event]
    if expected is None:
        with pytest.raises(LocalProtocolError, match="answer each request once"):
            next_state(state, event)
    else:
        assert next_state(state, event) is expected


@pytest.mark.parametrize("end", [ANSWERED, LOST])
def test_an_end_is_an_end(end: RequestState) -> None:
    assert {STEPS[end, event] for event in RequestEvent} <= {end, None}

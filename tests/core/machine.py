"""Two connections, joined: what either of them may do, and what must hold after every step.

The same bookkeeping judges both ends, as the same table judges both directions. The wire is perfect here,
apart from junk between the lines; the fuzzers have one that is not.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trio_acp._core import (
    CANCEL_REQUEST,
    CancelRequested,
    Connection,
    ConnectionFailed,
    EndOfInput,
    InboundRequest,
    InvalidResponse,
    JunkLine,
    LateResponse,
    LocalProtocolError,
    MessageDropped,
    MessageRefused,
    NotificationReceived,
    OutboundRequest,
    RequestError,
    RequestReceived,
    RequestState,
    ResponseReceived,
)

__all__ = ["End", "TwoConnections"]

SIDES = st.sampled_from([0, 1])
INDEXES = st.integers(0, 1000)
JUNK = st.sampled_from(
    [b"banner\n", b"\n", b"\r\n", b"[]\n", b"\xff\xfe\n", b"[" * 1100 + b"\n", b'{"id":"?","result":1}\n']
)


class End:
    """One end: its connection, and a record of all that its requests came to.

    Args:
        wire_is_faithful: what arrives is what was sent, so that it may be checked.
        options: go to `Connection`.
    """

    def __init__(self, *, wire_is_faithful: bool = True, **options: Any) -> None:
        self.wire_is_faithful = wire_is_faithful
        self.core = Connection(max_junk_lines=None, **options)
        self.asked: list[OutboundRequest] = []
        self.outcomes: dict[int, list[str]] = {}
        self.gave_up: set[int] = set()
        self.serving: list[InboundRequest] = []
        self.cancelled: list[InboundRequest] = []
        self.notified: list[int] = []
        self.over = False

    def came_to(self, request: OutboundRequest, outcome: str) -> None:
        self.outcomes[request.id].append(outcome)

    def take(self, data: bytes, send: Any) -> None:
        """Receive, and do at once what the core says has to be done at once."""
        for event in self.core.receive(data):
            match event:
                case RequestReceived():
                    assert not self.wire_is_faithful or event.params["n"] == event.request.id
                    self.serving.append(event.request)
                case NotificationReceived():
                    if self.wire_is_faithful:
                        self.notified.append(event.params["n"])
                case ResponseReceived():
                    assert event.request.id not in self.gave_up
                    kind = "result" if event.error is None else type(event.error).__name__
                    assert not self.wire_is_faithful or not isinstance(event.error, InvalidResponse)
                    self.came_to(event.request, kind)
                case LateResponse():
                    assert event.request.id in self.gave_up
                    self.came_to(event.request, "late")
                case CancelRequested():
                    assert event.request in self.serving
                    assert all(each is not event.request for each in self.cancelled), "withdrawn twice"
                    self.cancelled.append(event.request)
                case MessageRefused():
                    send(event.reply)
                case JunkLine():
                    if event.reply is not None:
                        send(event.reply)
                case MessageDropped():
                    pass
                case EndOfInput() | ConnectionFailed():
                    self.lose(event.lost)

    def lose(self, lost: list[OutboundRequest]) -> None:
        self.over = True
        for request in lost:
            self.came_to(request, "lost")


class TwoConnections(RuleBasedStateMachine):
    """Requests, answers, errors, cancellations, surrenders, junk and a disconnection at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = [End(), End(answer_junk=True)]
        self.wires: list[deque[bytes]] = [deque(), deque()]
        """What each end has sent and the other has not received."""
        self.number = 0

    # The wire; the fuzzers replace it by a worse one.

    def send(self, side: int, frame: bytes) -> None:
        if not self.ends[side].over:
            self.wires[side].append(frame)

    def deliver(self, side: int, data: bytes) -> None:
        """Hand bytes to an end, with its replies going back."""
        self.ends[side].take(data, lambda reply: self.send(side, reply))

    # What may happen.

    @initialize()
    def begin(self) -> None:
        assert self.ends[0].core.messages_received == 0

    @rule(side=SIDES)
    def ask(self, side: int) -> None:
        end = self.ends[side]
        if end.over:
            try:
                end.core.request("m", {})
            except LocalProtocolError:
                return
            raise AssertionError("a request was opened after the end")
        request, frame = end.core.request("m", {"n": len(end.asked) + 1})
        assert request.id == len(end.asked) + 1
        end.asked.append(request)
        end.outcomes[request.id] = []
        self.send(side, frame)

    @rule(side=SIDES)
    def notify(self, side: int) -> None:
        self.number += 1
        self.send(side, self.ends[side].core.notification("n", {"n": self.number}))

    @precondition(lambda self: any(end.serving for end in self.ends))
    @rule(side=SIDES, index=INDEXES, error=st.booleans())
    def answer(self, side: int, index: int, error: bool) -> None:
        end = self.ends[side]
        if not end.serving:
            return
        request = end.serving.pop(index % len(end.serving))
        if error:
            frame = end.core.refuse(request, RequestError(-32800, "cancelled"))
        else:
            frame = end.core.answer(request, {"n": request.id})
        assert end.over or request.state is RequestState.ANSWERED
        self.send(side, frame)
        if not end.over:
            try:
                end.core.answer(request, None)
            except LocalProtocolError:
                return
            raise AssertionError("a request was answered twice")

    @rule(side=SIDES, index=INDEXES)
    def give_up(self, side: int, index: int) -> None:
        end = self.ends[side]
        if not end.asked:
            return
        request = end.asked[index % len(end.asked)]
        was_open = request.state is RequestState.OPEN
        frame = end.core.give_up(request)
        assert (frame is not None) == was_open
        if frame is not None:
            assert CANCEL_REQUEST.encode() in frame
            end.gave_up.add(request.id)
            self.send(side, frame)

    @rule(side=SIDES, junk=JUNK)
    def junk(self, side: int, junk: bytes) -> None:
        self.send(side, junk)

    @rule(side=SIDES, count=st.integers(1, 5), cut=st.integers(1, 1000))
    def move(self, side: int, count: int, cut: int) -> None:
        """Some frames that this end has sent reach the other, in two chunks."""
        wire = self.wires[side]
        data = b"".join(wire.popleft() for _ in range(min(count, len(wire))))
        for part in (data[: cut % (len(data) + 1)], data[cut % (len(data) + 1) :]):
            if part:
                self.deliver(1 - side, part)

    @rule(side=SIDES, hard=st.booleans())
    def disconnect(self, side: int, hard: bool) -> None:
        """An end goes: what it has sent still arrives, unless it goes hard."""
        end, other = self.ends[side], self.ends[1 - side]
        end.lose(end.core.disconnect())
        data = b"" if hard else b"".join(self.wires[side])
        self.wires[side].clear()
        if data:
            self.deliver(1 - side, data)
        self.deliver(1 - side, b"")
        self.wires[1 - side].clear()
        assert end.over
        assert other.over

    # What must always hold.

    @invariant()
    def the_books_agree(self) -> None:
        for end in self.ends:
            open_ids = {request.id for request in end.core.open_outbound}
            for request in end.asked:
                outcomes = end.outcomes[request.id]
                assert len(outcomes) <= 1, f"request {request.id} ended more than once: {outcomes}"
                is_open = request.state is RequestState.OPEN
                assert is_open == (request.id in open_ids)
                if is_open or (request.state is RequestState.CANCELLING):
                    assert outcomes == []
                elif request.id not in end.gave_up:
                    assert len(outcomes) == 1, "a request ended and nobody was told"
            serving = [request for request in end.serving if request.state is not RequestState.LOST]
            assert {id(request) for request in serving} == {id(request) for request in end.core.open_inbound}
            if end.over:
                assert (end.core.open_outbound, end.core.open_inbound) == ([], [])

    def teardown(self) -> None:
        """Whatever state it is in: let the wire run dry, answer what is open, and each request has an end."""
        if not any(end.over for end in self.ends):
            self.settle()
        for side, end in enumerate(self.ends):
            end.lose(end.core.disconnect())
            self.deliver(side, b"")
            for request in end.asked:
                told = len(end.outcomes[request.id])
                assert told == 1 or (told == 0 and request.id in end.gave_up)
            assert (end.core.open_outbound, end.core.open_inbound) == ([], [])
            assert not end.core._given_up
        self.the_books_agree()

    def settle(self) -> None:
        while any(self.wires) or any(end.serving for end in self.ends):
            for side, end in enumerate(self.ends):
                while self.wires[side]:
                    self.deliver(1 - side, self.wires[side].popleft())
                while end.serving:
                    self.answer(side, 0, False)
        for end, other in (self.ends, self.ends[::-1]):
            if not end.wire_is_faithful:
                continue
            # A perfect wire loses nothing: every request was answered, in time or late.
            assert all(len(outcomes) == 1 for outcomes in end.outcomes.values())
            assert end.core.open_outbound == []
            assert not end.core._given_up
            assert other.notified == sorted(other.notified)

"""Two connections joined by a faulty wire: frames lost, doubled, swapped, cut, glued, and bytes changed.

No promise about the messages is left on such a wire, but all about the books: each request ends at most
once while the connection lives and exactly once when it ends, ids stay unique, and nothing is raised.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from fuzz.budget import budget
from tests.core.machine import End, TwoConnections

INDEXES = st.integers(0, 10_000)
SIDES = st.sampled_from([0, 1])


class FaultyWire(TwoConnections):
    """The machine of the tests, with a wire that does what wires and broken peers do."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = [End(wire_is_faithful=False), End(wire_is_faithful=False, answer_junk=True)]

    def frame(self, side: int, index: int) -> int | None:
        """The place of a frame under way, if there is any."""
        return index % len(self.wires[side]) if self.wires[side] else None

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, index=INDEXES)
    def lose_frame(self, side: int, index: int) -> None:
        at = self.frame(side, index)
        if at is not None:
            del self.wires[side][at]

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, index=INDEXES)
    def double(self, side: int, index: int) -> None:
        at = self.frame(side, index)
        if at is not None:
            self.wires[side].insert(at, self.wires[side][at])

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, one=INDEXES, other=INDEXES)
    def swap(self, side: int, one: int, other: int) -> None:
        first, second = self.frame(side, one), self.frame(side, other)
        if first is not None and second is not None:
            wire = self.wires[side]
            wire[first], wire[second] = wire[second], wire[first]

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, index=INDEXES, place=INDEXES, byte=st.integers(0, 255))
    def change_byte(self, side: int, index: int, place: int, byte: int) -> None:
        at = self.frame(side, index)
        if at is not None:
            data = bytearray(self.wires[side][at])
            data[place % len(data)] = byte
            self.wires[side][at] = bytes(data)

    @precondition(lambda self: any(self.wires))
    @rule(
        side=SIDES,
        index=INDEXES,
        digit=st.sampled_from([b"0", b"1", b"2", b"null", b'"1"', b"1.0", b"true", b"{}"]),
    )
    def change_id(self, side: int, index: int, digit: bytes) -> None:
        at = self.frame(side, index)
        if at is not None:
            before, mark, after = self.wires[side][at].partition(b'"id":')
            rest = after.partition(b",")[2]
            if mark and rest:
                self.wires[side][at] = before + mark + digit + b"," + rest

    @precondition(lambda self: any(self.wires))
    @rule(side=SIDES, index=INDEXES, place=INDEXES)
    def cut(self, side: int, index: int, place: int) -> None:
        at = self.frame(side, index)
        if at is not None:
            data = self.wires[side][at]
            self.wires[side][at] = data[: 1 + place % len(data)]

    @rule(side=SIDES, noise=st.binary(min_size=1, max_size=30))
    def noise(self, side: int, noise: bytes) -> None:
        self.send(side, noise)


def test_the_books_are_kept_on_a_faulty_wire() -> None:
    run_state_machine_as_test(FaultyWire, settings=budget())


def test_the_books_agree_on_a_perfect_wire() -> None:
    run_state_machine_as_test(TwoConnections, settings=budget())

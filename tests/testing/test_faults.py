"""Streams that spoil what arrives: each does what it says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from trio_acp.testing import (
    NOISE_LINES,
    CoalescedStream,
    CorruptedStream,
    DuplicatedStream,
    FaultyStream,
    FragmentedStream,
    LineFaultStream,
    MemoryStream,
    NoisyStream,
    ReorderedStream,
    StalledStream,
    TruncatedStream,
    open_memory_pair,
)

LINES = [b"%d" % number * 3 for number in range(9)]
DATA = b"".join(line + b"\n" for line in LINES)


async def all_of(stream: trio.abc.Stream, max_bytes: int | None = None) -> list[bytes]:
    pieces: list[bytes] = []
    with trio.fail_after(3600):
        while data := await stream.receive_some(max_bytes):
            pieces.append(bytes(data))
    return pieces


async def spoiled(
    wrap: Callable[[MemoryStream], FaultyStream], data: bytes = DATA, max_bytes: int | None = None
) -> list[bytes]:
    """What arrives through a wrapper of what was sent whole."""
    near, far = open_memory_pair()
    await near.send_all(data)
    near.close()
    return await all_of(wrap(far), max_bytes)


async def test_what_is_sent_goes_through_and_the_end_too() -> None:
    near, far = open_memory_pair()
    stream = FaultyStream(near)
    await stream.wait_send_all_might_not_block()
    await stream.send_all(b"a")
    await stream.send_eof()
    assert await all_of(far) == [b"a"]
    await far.send_all(b"b")
    assert await stream.receive_some() == b"b"
    await stream.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await far.send_all(b"c")


async def test_a_stream_that_has_no_half_to_close_is_closed() -> None:
    class Whole(trio.abc.Stream):
        closed = False

        async def send_all(self, data: Any) -> None: ...
        async def wait_send_all_might_not_block(self) -> None: ...
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            return b""

        async def aclose(self) -> None:
            self.closed = True

    whole = Whole()
    await FaultyStream(whole).send_eof()
    assert whole.closed


@pytest.mark.parametrize("max_bytes", [None, 2])
async def test_fragments_have_the_sizes_that_were_asked_for(max_bytes: int | None) -> None:
    pieces = await spoiled(lambda far: FragmentedStream(far, [1, 3]), b"abcdefgh", max_bytes)
    assert pieces == (
        [b"a", b"bcd", b"e", b"fgh"] if max_bytes is None else [b"a", b"bc", b"d", b"ef", b"g", b"h"]
    )
    with pytest.raises(ValueError, match="sizes"):
        FragmentedStream(open_memory_pair()[0], [])


@pytest.mark.parametrize("ended", [True, False])
async def test_what_comes_within_the_time_is_one_piece(autojump_clock: Any, ended: bool) -> None:
    near, far = open_memory_pair()
    stream = CoalescedStream(far, seconds=1)

    async def send() -> None:
        for data in (b"a", b"b", b"c"):
            await near.send_all(data)
            await trio.sleep(0.4)
        if ended:
            near.close()
        await trio.sleep(5)
        if not ended:
            near.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        assert await all_of(stream, 2) == [b"ab", b"c"]


@pytest.mark.parametrize("max_bytes", [None, 2])
async def test_a_stall_lasts_its_time_and_loses_nothing(autojump_clock: Any, max_bytes: int | None) -> None:
    start = trio.current_time()
    pieces = await spoiled(lambda far: StalledStream(far, 5, 100), b"abcdefgh", max_bytes)
    assert b"".join(pieces) == b"abcdefgh"
    assert pieces[0] == (b"abcde" if max_bytes is None else b"ab")
    assert trio.current_time() - start == pytest.approx(100)


@pytest.mark.parametrize("max_bytes", [None, 2])
async def test_the_end_comes_after_so_many_bytes(max_bytes: int | None) -> None:
    pieces = await spoiled(lambda far: TruncatedStream(far, 5), b"abcdefgh", max_bytes)
    assert b"".join(pieces) == b"abcde"
    with pytest.raises(trio.BrokenResourceError):
        await spoiled(lambda far: TruncatedStream(far, 0, broken=True))


def lines_of(pieces: list[bytes]) -> list[bytes]:
    return b"".join(pieces).split(b"\n")[:-1]


async def test_noise_comes_between_the_messages_and_costs_none() -> None:
    lines = lines_of(await spoiled(lambda far: NoisyStream(far, seed=1)))
    assert [line for line in lines if line in LINES] == LINES
    assert 0 < len(lines) - len(LINES) < len(LINES)
    assert {line for line in lines if line not in LINES} <= set(NOISE_LINES)


async def test_duplicates_follow_each_other() -> None:
    lines = lines_of(await spoiled(lambda far: DuplicatedStream(far, seed=1)))
    assert list(dict.fromkeys(lines)) == LINES
    assert len(LINES) < len(lines) < 2 * len(LINES)
    assert lines == sorted(lines)


async def test_the_order_changes_and_nothing_else() -> None:
    lines = lines_of(await spoiled(lambda far: ReorderedStream(far, seed=1)))
    assert lines != LINES
    assert sorted(lines) == LINES


async def test_corruption_changes_bytes_and_no_newlines() -> None:
    lines = lines_of(await spoiled(lambda far: CorruptedStream(far, seed=1), DATA + b"\n"))
    assert [len(line) for line in lines] == [*map(len, LINES), 0]
    changed = sum(one != other for one, other in zip(lines, LINES, strict=False))
    assert 0 < changed < len(LINES)


async def test_half_a_line_at_the_end_stays_half_and_small_reads_are_served() -> None:
    pieces = await spoiled(LineFaultStream, b"abc\nde", 2)
    assert pieces == [b"ab", b"c\n", b"de"]


async def test_faults_are_repeatable_and_add_up() -> None:
    def wrap(far: MemoryStream) -> FaultyStream:
        return NoisyStream(FragmentedStream(far, [7]), seed=5)

    assert await spoiled(wrap) == await spoiled(wrap)

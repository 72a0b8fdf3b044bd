"""How much output is kept, and how it is cut (F2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trio_acp.workspace._output import OutputBuffer

PIECES = st.lists(st.text("aé€😀\n", max_size=12), max_size=12)


def fed(limit: int, *pieces: bytes) -> OutputBuffer:
    buffer = OutputBuffer(limit)
    for piece in pieces:
        buffer.feed(piece)
        assert buffer.size <= limit
    return buffer


@given(PIECES, st.integers(0, 40), st.data())
def test_what_is_kept_is_the_longest_end_of_the_text_that_fits(
    pieces: list[str], limit: int, data: st.DataObject
) -> None:
    """F2: the newest bytes, cut between characters, truncated exactly when bytes are gone."""
    whole = "".join(pieces)
    encoded = whole.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=8)))
    chunks = [encoded[a:b] for a, b in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    text, truncated = fed(limit, *chunks).text(ended=True)
    naive = next(whole[start:] for start in range(len(whole) + 1) if len(whole[start:].encode()) <= limit)
    assert text == naive
    assert truncated == (text != whole)


@given(st.text("aé€😀", max_size=20), st.integers(0, 80))
def test_a_character_that_has_not_come_whole_is_left_out_until_it_has(whole: str, at: int) -> None:
    encoded = whole.encode()
    buffer = fed(1000, encoded[:at])
    text, truncated = buffer.text(ended=False)
    assert whole.startswith(text)
    assert len(encoded[:at]) - len(text.encode()) < 4
    assert not truncated
    buffer.feed(encoded[at:])
    assert buffer.text(ended=False) == (whole, False)


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(0, 60))
def test_any_bytes_give_a_text_within_the_limit(chunks: list[bytes], limit: int) -> None:
    """Replacement characters are longer than the bytes that they stand for."""
    buffer = fed(limit, *chunks)
    whole = b"".join(chunks)
    text, truncated = buffer.text(ended=True)
    assert len(text.encode()) <= limit
    assert truncated == (len(whole) > limit or len(whole.decode("utf-8", "replace").encode()) > limit)
    if not truncated:
        assert text == whole.decode("utf-8", "replace")
    assert buffer.text(ended=True) == (text, truncated)


def test_a_limit_of_nothing_keeps_nothing() -> None:
    assert fed(0).text(ended=True) == ("", False)
    assert fed(0, b"x").text(ended=True) == ("", True)
    assert fed(1, "é".encode()).text(ended=True) == ("", True)


def test_many_small_pieces_take_no_more_than_the_limit() -> None:
    buffer = OutputBuffer(1000)
    for _ in range(100_000):
        buffer.feed(b"x")
    assert buffer.size == 1000
    assert buffer.total == 100_000
    assert len(buffer._chunks) <= 1000

"""Bytes: how a stream may be cut, and lines that nobody should send."""

from __future__ import annotations

import itertools
import json

from hypothesis import strategies as st

from trio_acp.testing._faults import NOISE_LINES

from ._wire import json_values, messages

__all__ = ["chunkings", "hostile_lines"]

MAX_CUTS = 12
"""Cuts of one stream: enough for every way in which two lines can be cut."""


@st.composite
def chunkings(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Ways to cut bytes into chunks, none of them empty; shrinks to the whole.

    Args:
        draw: given by Hypothesis.
        data: what is cut.
    """
    cuts = draw(st.lists(st.integers(1, max(len(data) - 1, 1)), max_size=MAX_CUTS, unique=True))
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if start < end]


_WRONG_PARTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "id": st.sampled_from([None, 1, "1", 1.0, True, -5, 2**64, [], {}]),
        "method": st.sampled_from(["initialize", "session/prompt", "$/cancel_request", "_x", "", 5, None]),
        "params": json_values(),
        "result": json_values(),
        "error": json_values()
        | st.fixed_dictionaries({"code": st.integers(), "message": st.text(max_size=4)}),
    },
)
"""Anything that has a part of a message's shape."""

_CLASSICS = st.sampled_from(
    [
        *NOISE_LINES,
        b"\r",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b'{"jsonrpc":"2.0","id":1,"result":NaN}',
        b'{"jsonrpc":"2.0","id":1,"result":1e999}',
        b'{"jsonrpc":"2.0","id":1,"result":"\\ud83d"}',
        b"[" * 2000,
        b'{"a":' * 2000,
        b"9" * 5000,
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","method":"a","method":"b"}',
    ]
)


@st.composite
def _spliced(draw: st.DrawFn) -> bytes:
    """A message with junk inside."""
    line = json.dumps(draw(messages())).encode()
    at = draw(st.integers(0, len(line)))
    return line[:at] + draw(st.binary(max_size=4)).replace(b"\n", b"") + line[at:]


def hostile_lines() -> st.SearchStrategy[bytes]:
    """Lines without their newline that a peer may send although it should not: junk, and almost messages."""
    return st.one_of(
        _CLASSICS,
        _WRONG_PARTS.map(lambda message: json.dumps(message).encode()),
        json_values().map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")),
        _spliced(),
    )

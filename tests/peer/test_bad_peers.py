"""Hostile input, one row each with its specified outcome (W1, W4-W6, W11).

None of it raises out of the read loop, hangs, or costs another request its answer: every row is sent
between two requests of ours and their answers, and while a request of the peer is being served.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio

from tests.peer.helpers import Rig
from trio_acp._errors import AcpError, ConnectionLost, InvalidResponse, MessageTooLarge, RemoteProtocolError

LIMIT = 10_000
"""The longest message that these peers may send."""


@attrs.frozen
class Row:
    """What a bad peer sends, and what must come of it."""

    name: str
    data: bytes
    replies: tuple[tuple[Any, int], ...] = ()
    """Id and error code of each reply of ours."""
    junk: int = 0
    notifications: int = 0
    requests: int = 0
    cancelled: int = 0
    fails: type[AcpError] | None = None
    """The connection fails with this."""
    victim: type[AcpError] | None = None
    """The first request of ours fails with this; the second one never."""


DEEP = b"[" * 1000 + b"]" * 1000
ROWS = [
    Row("a banner", b"Welcome to the agent!\nversion 1.0\n\n", junk=2),
    Row("terminal escapes", b"\x1b[2J\x1b]0;title\x07\n", junk=1),
    Row("nothing but newlines", b"\n" * 1000),
    Row("NUL bytes", b"\0" * 100 + b"\n", junk=1),
    Row("a truncated message", b'{"jsonrpc":"2.0","method":"m","par\n', junk=1),
    Row("two messages in one line", b'{"method":"m"}{"method":"n"}\n', junk=1),
    Row("a message behind other output", b'> {"jsonrpc":"2.0","method":"m"}\n', junk=1),
    Row("a message over two lines", b'{"method":\n"m"}\n', junk=2),
    Row("NaN", b'{"method":"m","params":{"n":NaN}}\n', junk=1),
    Row("a number out of range", b'{"method":"m","params":{"n":1e999}}\n', junk=1),
    Row("a banner without end", b"x\n" * 200, junk=100, fails=RemoteProtocolError),
    Row(
        "an array banner without end",
        b"[]\n" * 200,
        replies=((None, -32600),) * 100,
        fails=RemoteProtocolError,
    ),
    Row("99 lines of junk", b"x\n" * 99, junk=99),
    Row(
        "a message over the limit",
        b'{"method":"m","params":{"t":"' + b"x" * LIMIT + b'"}}\n',
        fails=MessageTooLarge,
    ),
    Row("a line without end", b"x" * (LIMIT + 1), fails=MessageTooLarge),
    Row("junk of the largest size", b"x" * LIMIT + b"\n", junk=1),
    Row(
        "nesting as deep as the fast decoder takes",
        b'{"method":"m","params":{"d":' + DEEP + b"}}\n",
        notifications=1,
    ),
    Row(
        "nesting deeper than that",
        b'{"method":"m","params":' + b'{"d":' * 1500 + b"1" + b"}" * 1500 + b"}\n",
        junk=1,
    ),
    Row("brackets only", b"[" * 9000 + b"\n", junk=1),
    Row("a deep id", b'{"id":' + DEEP + b',"method":"m"}\n', replies=((None, -32600),)),
    Row("a deep answer to nothing", b'{"id":' + DEEP + b',"result":1}\n'),
    Row("a deep error with null id", b'{"id":null,"error":' + DEEP + b"}\n"),
    Row("a deep error for us", b'{"id":1,"error":' + DEEP + b"}\n", victim=InvalidResponse),
    Row("a deep cancellation", b'{"method":"$/cancel_request","params":{"requestId":' + DEEP + b"}}\n"),
    Row("invalid UTF-8 as text", b'{"method":"m","params":{"t":"\xff\xfe"}}\n', notifications=1),
    Row("invalid UTF-8 as structure", b"\xff\xfe{\n", junk=1),
    Row("UTF-16", '{"method":"m"}\n'.encode("utf-16-le") + b"\n", junk=2),
    Row("lone surrogates", b'{"method":"m","params":{"t":"\\ud83e"}}\n', notifications=1),
    Row("a lone surrogate as id", b'{"id":"\\ud83e","method":"m"}\n', requests=1),
    Row("a split character", b'{"method":"m","params":{"t":"\xf0\x9f"}}\n', notifications=1),
    Row("a byte order mark", b'\xef\xbb\xbf{"method":"m"}\n', notifications=1),
    Row("no object", b'"hello"\n5\nnull\n', replies=((None, -32600),) * 3),
    Row("a batch", b'[{"id":3,"method":"m"},{"id":4,"method":"m"}]\n', replies=((None, -32600),)),
    Row("an empty object", b"{}\n", replies=((None, -32600),)),
    Row(
        "a request with params of the wrong shape",
        b'{"id":7,"method":"m","params":[]}\n',
        replies=((7, -32602),),
    ),
    Row("a request with a method of the wrong shape", b'{"id":7,"method":[]}\n', replies=((7, -32600),)),
    Row("a notification with params of the wrong shape", b'{"method":"m","params":[]}\n'),
    Row("a float id", b'{"id":1.5,"method":"m"}\n', replies=((None, -32600),)),
    Row("a bool id", b'{"id":true,"method":"m"}\n', replies=((None, -32600),)),
    Row("an enormous id", b'{"id":' + b"9" * 100 + b',"method":"m"}\n', replies=((None, -32600),)),
    Row(
        "an enormous id in a line that is no UTF-8",
        b'{"id":' + b"9" * 100 + b',"method":"\xff"}\n',
        replies=((None, -32600),),
    ),
    Row("the same id twice", b'{"id":7,"method":"m"}\n' * 2, requests=1, replies=((None, -32600),)),
    Row("the id of a request that is being served", b'{"id":"theirs"}\n', replies=((None, -32600),)),
    Row("unknown notifications", b'{"method":"$/what"}\n{"method":"_x/y"}\n', notifications=2),
    Row("an answer to nothing", b'{"id":99,"result":1}\n{"id":"1","result":1}\n{"id":null,"result":1}\n'),
    Row("an error for nothing", b'{"id":99,"error":{"code":1,"message":"x"}}\n'),
    Row(
        "an answer with both",
        b'{"id":1,"result":1,"error":{"code":1,"message":"x"}}\n',
        victim=InvalidResponse,
    ),
    Row("an answer with neither", b'{"id":1}\n', victim=InvalidResponse),
    Row("an error that is a string", b'{"id":1,"error":"no"}\n', victim=InvalidResponse),
    Row("an error without code", b'{"id":1,"error":{"message":"no"}}\n', victim=InvalidResponse),
    Row("cancellation of nothing", b'{"method":"$/cancel_request","params":{"requestId":99}}\n'),
    Row("cancellation without an id", b'{"method":"$/cancel_request"}\n'),
    Row("cancellation of a request of ours", b'{"method":"$/cancel_request","params":{"requestId":1}}\n'),
    Row(
        "cancellation twice",
        b'{"method":"$/cancel_request","params":{"requestId":"theirs"}}\n' * 2,
        cancelled=1,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
@pytest.mark.parametrize("size", [1, 4096])
async def test_a_bad_peer_gets_what_it_deserves_and_nobody_else_does(row: Row, size: int) -> None:
    async with Rig(max_message_bytes=LIMIT) as rig:
        cancelled: list[int] = []
        rig.send(b'{"id":"theirs","method":"theirs"}\n')
        await rig.settled()
        (theirs,) = rig.recorder.requests
        theirs.when_cancelled(lambda: cancelled.append(1))
        victim, other = rig.ask("first"), rig.ask("second")
        await rig.settled()
        ids = {m["method"]: m["id"] for m in rig.wire}
        if ids["first"] != 1:  # tasks start in any order: the row speaks of request 1
            victim, other = other, victim
        del rig.wire[:]

        for start in range(0, len(row.data), size):
            rig.send(row.data[start : start + size])
            if size > 1 or start % 100 == 0:
                await rig.settled()
        rig.send(b'{"id":1,"result":"one"}\n{"id":2,"result":"two"}\n')
        await rig.settled()

        assert victim.done.is_set()
        assert other.done.is_set()
        replies = [(m["id"], m["error"]["code"]) for m in rig.wire]
        assert replies == list(row.replies)
        assert len(rig.recorder.junk_lines) == row.junk
        assert len(rig.recorder.notifications) == row.notifications
        assert len(rig.recorder.requests) == 1 + row.requests
        assert len(cancelled) == row.cancelled
        if row.fails is not None:
            assert type(victim.error) is type(other.error) is row.fails
            assert not theirs.open
            assert [type(reason) for reason in rig.recorder.reasons] == [row.fails]
        else:
            assert type(victim.error) is (row.victim or type(None))
            assert other.result == "two"
            assert rig.peer.reason is None
            theirs.answer("served")
            await rig.settled()
            assert rig.wire[-1] == {"jsonrpc": "2.0", "id": "theirs", "result": "served"}


async def test_an_answer_twice_is_an_answer_once() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.send({"id": 1, "result": "first"}, {"id": 1, "result": "second"}, {"id": 1, "error": {}})
        await asking.done.wait()
        assert asking.result == "first"
        assert rig.peer.reason is None


async def test_an_answer_after_a_cancellation_reaches_nobody() -> None:
    async with Rig() as rig:
        cancelled, other = rig.ask("cancelled"), None
        await rig.settled()
        cancelled.scope.cancel()
        await rig.settled()
        other = rig.ask("other")
        await rig.settled()
        rig.send({"id": 1, "result": "late"}, {"id": 1, "result": "later"}, {"id": 2, "result": "fine"})
        await rig.settled()
        assert cancelled.cancelled
        assert other.result == "fine"


async def test_a_silent_peer_keeps_its_callers_waiting_as_long_as_they_like(autojump_clock: Any) -> None:
    async with Rig() as rig:
        with trio.move_on_after(10_000) as scope:
            await rig.peer.request("m", {})
        assert scope.cancelled_caught
        await rig.settled()
        assert [m["method"] for m in rig.wire] == ["m", "$/cancel_request"]


SCRIPT = b"".join(
    json.dumps(message).encode() + b"\n"
    for message in [
        {"jsonrpc": "2.0", "method": "session/update", "params": {"text": "🦊"}},
        {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}},
        {"jsonrpc": "2.0", "id": "q", "method": "ask", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "no"}},
        {"jsonrpc": "2.0", "id": 3, "result": None},
    ]
)
ENDS = [index + 1 for index, byte in enumerate(SCRIPT) if byte == ord("\n")]


@pytest.mark.parametrize("how", ["closed", "output closed"])
async def test_w11_death_at_any_byte_ends_every_request_and_costs_no_message_before_it(how: str) -> None:
    for cut in range(len(SCRIPT) + 1):
        async with Rig() as rig:
            askings = {}
            for id in (1, 2, 3):
                askings[id] = rig.ask(str(id))
                await rig.settled()
            rig.send(SCRIPT[:cut])
            if how == "closed":
                rig.far.close()
            else:
                await rig.far.send_eof()
            await rig.settled()
            # The last line counts without its newline too.
            whole = sum(end - 1 <= cut for end in ENDS)
            assert [method for method, _, _ in rig.recorder.notifications] == ["session/update"][:whole]
            assert len(rig.recorder.requests) == (whole >= 3)
            for id, needed in ((1, 2), (2, 4), (3, 5)):
                assert askings[id].done.is_set()
                assert isinstance(askings[id].error, ConnectionLost) == (whole < needed)
            assert rig.recorder.reasons == [rig.recorder.reason]
            assert rig.peer.core.open_outbound == []
            assert rig.peer.core.open_inbound == []

"""A running peer and a far end that does anything, in any order, while callers come, wait and are cancelled.

However it goes: every caller is back when the connection is over, the far end has seen whole frames only,
each of its requests was answered at most once, and the run ends without an exception.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from fuzz.budget import budget
from tests.peer.helpers import Asking, Rig
from trio_acp._errors import AcpError, RequestError
from trio_acp._peer import IncomingRequest

NUMBERS = st.integers(0, 8)
ENDINGS = st.sampled_from(["result", "error", "raise", "sleep"])
STEPS = st.one_of(
    st.tuples(st.just("ask"), NUMBERS),
    st.tuples(st.just("cancel"), NUMBERS),
    st.tuples(st.just("answer"), NUMBERS),
    st.tuples(st.just("answer with an error"), NUMBERS),
    st.tuples(st.just("notify"), NUMBERS),
    st.tuples(st.just("request"), ENDINGS),
    st.tuples(st.just("cancel request"), NUMBERS),
    st.tuples(st.just("half a message"), NUMBERS),
    st.tuples(st.just("noise"), st.binary(max_size=20)),
    st.tuples(st.just("read"), NUMBERS),
    st.tuples(st.just("wait"), NUMBERS),
    st.tuples(st.just("close output"), NUMBERS),
    st.tuples(st.just("close"), NUMBERS),
    st.tuples(st.just("begin close"), NUMBERS),
)


class FarEnd:
    """What the far end does, and our callers, one step at a time."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.askings: list[Asking] = []
        self.asked: Counter[int] = Counter()
        self.reading = False
        self.closed = False
        rig.recorder.on_request = lambda request: rig.nursery.start_soon(self.serve, request)

    async def serve(self, request: IncomingRequest) -> None:
        async def handler() -> Any:
            match request.params.get("ending"):
                case "error":
                    raise RequestError(5, "no")
                case "raise":
                    raise ValueError("secret")
                case "sleep":
                    await trio.sleep(3)
                case _:
                    pass
            return {}

        await request.serve(handler, lambda error: None)

    def send(self, *messages: Any) -> None:
        if not self.closed:
            try:
                self.rig.send(*messages)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.closed = True

    async def step(self, what: str, how: Any) -> None:
        rig = self.rig
        match what:
            case "ask":
                self.askings.append(rig.ask("m", {"text": "x" * (10 * how)}))
            case "cancel" if self.askings:
                self.askings[int(how) % len(self.askings)].scope.cancel()
            case "answer":
                self.send({"id": how, "result": how})
            case "answer with an error":
                self.send({"id": how, "error": {"code": how, "message": "no"}})
            case "notify":
                try:
                    rig.peer.notify_nowait("n", {"text": "x" * (10 * how)})
                except AcpError:
                    assert rig.peer.reason is not None
            case "request":
                number = sum(self.asked.values()) + 100
                self.asked[number] += 1
                self.send({"id": number, "method": "do", "params": {"ending": how}})
            case "cancel request":
                self.send({"method": "$/cancel_request", "params": {"requestId": 100 + how}})
            case "half a message":
                self.send(b'{"method":"m","params":{}}'[: how + 3])
            case "noise":
                self.send(how)
            case "read" if not self.reading:
                self.reading = True
                rig.read_on()
            case "wait":
                await trio.sleep(how / 2)
            case "close output" if not self.closed:
                self.closed = True
                await rig.far.send_eof()
            case "close":
                self.closed = True
                rig.far.close()
            case "begin close":
                rig.peer.begin_close()
            case _:
                pass


async def play(steps: list[tuple[str, Any]], plain: bool, limit: int) -> None:
    with trio.fail_after(10_000):
        async with Rig(limit=limit, plain=plain, reading=False, max_junk_lines=5) as rig:
            far = FarEnd(rig)
            for what, how in steps:
                await far.step(what, how)
                if what not in ("answer", "cancel", "noise"):
                    await rig.settled()
            rig.peer.stop()
            for asking in far.askings:
                await asking.done.wait()
            assert rig.peer.core.outbound_count == rig.peer.core.inbound_count == 0
            if not far.closed and not far.reading:
                rig.read_on()
            await rig.settled()
            for message in rig.wire:
                assert message["jsonrpc"] == "2.0"
            answers = Counter(
                json.dumps(m["id"]) for m in rig.wire if "method" not in m and m["id"] is not None
            )
            for id, count in answers.items():
                assert count <= max(1, far.asked[int(id)])


@budget(0.5)
@given(st.lists(STEPS, max_size=40), st.booleans(), st.sampled_from([5, 100, 2**20]))
def test_every_caller_comes_back_and_every_frame_is_whole(
    steps: list[tuple[str, Any]], plain: bool, limit: int
) -> None:
    trio.run(play, steps, plain, limit, clock=trio.testing.MockClock(autojump_threshold=0))

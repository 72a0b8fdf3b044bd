"""The read loop: order, backpressure, the tap, junk, and failures that stay where they belong."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.peer.helpers import PlainStream, Recorder, Rig
from trio_acp._errors import MessageTooLarge, RemoteProtocolError
from trio_acp._pacing import ITEMS_PER_CHECKPOINT, SECONDS_PER_CHECKPOINT, Pacer
from trio_acp._peer import Peer
from trio_acp.transports import open_memory_pair


async def test_notifications_arrive_in_wire_order_with_their_size() -> None:
    async with Rig() as rig:
        rig.send(*[{"method": str(n), "params": {"n": n}} for n in range(100)])
        await rig.settled()
        assert [(m, p) for m, p, _ in rig.recorder.notifications] == [(str(n), {"n": n}) for n in range(100)]
        rig.send(b'{"method":"m","params":{}}\n')
        await rig.settled()
        assert rig.recorder.notifications[-1] == ("m", {}, 26)


async def test_nothing_is_read_while_the_side_may_not_read() -> None:
    async with Rig(limit=100) as rig:
        rig.recorder.reading = trio.Event()
        rig.send({"method": "was being waited for"})
        await rig.settled()
        assert len(rig.recorder.notifications) == 1
        rig.send({"method": "waits in the pipe"})
        await rig.settled()
        assert len(rig.recorder.notifications) == 1
        rig.recorder.reading.set()
        await rig.settled()
        assert len(rig.recorder.notifications) == 2


async def test_d5_a_slow_handler_does_not_keep_the_loop_from_reading() -> None:
    async with Rig() as rig:
        rig.recorder.on_request = lambda request: rig.nursery.start_soon(
            request.serve, trio.sleep_forever, rig.recorder.failures.append
        )
        asking = rig.ask()
        await rig.settled()
        rig.send({"id": 1, "method": "slow"}, {"id": 1, "result": "fast"}, {"method": "after"})
        await asking.done.wait()
        assert asking.result == "fast"
        assert len(rig.recorder.notifications) == 1


async def test_a_stream_that_breaks_in_the_middle_of_a_message_is_the_end_of_the_input() -> None:
    async with Rig(plain=True) as rig:
        asking = rig.ask()
        await rig.settled()
        rig.send(b'{"method":"whole"}\n{"method":"ha')
        await rig.settled()

        await rig.near.aclose()
        await asking.done.wait()
        assert str(asking.error) == str(rig.recorder.reason)
        assert [m for m, _, _ in rig.recorder.notifications] == ["whole"]


class Shifted(PlainStream):
    """Changes bytes on their way, and hands on all attributes of the stream that it is around."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(byte - 1 for byte in await super().receive_some(max_bytes))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await super().send_all(bytes(byte + 1 for byte in data))


async def test_what_a_stream_does_around_another_one_is_done_whatever_attributes_that_has() -> None:
    near, far = open_memory_pair()
    inner: Any = near
    recorder = Recorder()
    inner.receiving_half = near
    peer = Peer(Shifted(inner), recorder)
    async with trio.open_nursery() as nursery:
        await nursery.start(peer.run)
        await far.send_all(bytes(byte + 1 for byte in b'{"method":"m"}\n'))
        peer.notify_nowait("n", {})
        await trio.testing.wait_all_tasks_blocked()
        sent = await far.receive_some()
        peer.stop()
    assert [method for method, _, _ in recorder.notifications] == ["m"]
    assert b'"method":"n"' in bytes(byte - 1 for byte in sent)


async def test_w4_junk_is_shown_to_the_side_and_kept_as_a_sample() -> None:
    async with Rig() as rig:
        rig.send(b"Welcome to the agent!\n", {"method": "m"})
        await rig.settled()
        assert [event.sample for event in rig.recorder.junk_lines] == [b"Welcome to the agent!"]
        assert rig.peer.junk_sample == b"Welcome to the agent!"
        assert len(rig.recorder.notifications) == 1
        assert rig.wire == []
        assert rig.peer.core.junk_lines == 1


async def test_w4_an_agent_answers_junk_and_goes_on() -> None:
    async with Rig(answer_junk=True, max_junk_lines=None) as rig:
        rig.send(b"junk\n", {"method": "m"})
        await rig.settled()
        assert [m["error"]["code"] for m in rig.wire] == [-32700]
        assert rig.wire[0]["id"] is None
        assert len(rig.recorder.notifications) == 1


async def test_w4_too_much_junk_fails_the_connection_with_a_sample() -> None:
    async with Rig(max_junk_lines=3) as rig:
        asking = rig.ask()
        await rig.settled()
        rig.send(b"usage: agent [options]\n" * 10)
        await asking.done.wait()
        assert isinstance(asking.error, RemoteProtocolError)
        assert "usage: agent" in str(asking.error)
        assert len(rig.recorder.junk_lines) == 3
        assert len(rig.recorder.reasons) == 1
        # Still read, and dropped: a program that goes on printing must not hang on a full pipe.
        rig.send(b"more\n" * 10, {"method": "m"})
        await rig.settled()
        assert rig.recorder.notifications == []
        rig.far.close()
        await rig.settled()
        assert len(rig.recorder.reasons) == 1


async def test_a_message_over_the_limit_fails_the_connection_and_no_message_before_it() -> None:
    async with Rig(max_message_bytes=100) as rig:
        asking = rig.ask()
        await rig.settled()
        rig.send({"method": "before"}, b"x" * 101, b"\n", {"method": "after"})
        await asking.done.wait()
        assert isinstance(asking.error, MessageTooLarge)
        assert asking.error.limit == 100
        assert [m for m, _, _ in rig.recorder.notifications] == ["before"]


# --- The tap ---

SECRET = {"env": [{"name": "TOKEN", "value": "hunter2"}], "headers": {"Authorization": "hunter2"}}


async def test_the_tap_sees_both_directions_with_secrets_masked() -> None:
    seen: list[tuple[str, Any]] = []
    async with Rig(on_wire=lambda direction, message: seen.append((direction, message))) as rig:
        rig.peer.notify_nowait("session/new", SECRET)
        rig.send({"method": "m", "params": SECRET}, b"junk hunter2\n")
        await rig.settled()
        masked = {"env": [{"name": "TOKEN", "value": "***"}], "headers": {"Authorization": "***"}}
        assert seen == [
            ("sent", {"jsonrpc": "2.0", "method": "session/new", "params": masked}),
            ("received", {"method": "m", "params": masked}),
            ("received", "(12 bytes that are not JSON)"),
        ]
        # Masked in the copy only.
        assert rig.wire[0]["params"] == SECRET
        assert rig.recorder.notifications[0][1] == SECRET


async def test_a_raw_tap_gets_the_bytes_as_they_are() -> None:
    seen: list[tuple[str, Any]] = []
    async with Rig(on_wire=lambda *args: seen.append(args), redact_wire=False) as rig:
        rig.peer.notify_nowait("n", {"env": {"A": "b"}})
        rig.send(b'{ "method": "m" }\r\n', b"junk\n")
        await rig.settled()
        assert seen == [
            ("sent", b'{"jsonrpc":"2.0","method":"n","params":{"env":{"A":"b"}}}'),
            ("received", b'{ "method": "m" }\r'),
            ("received", b"junk"),
        ]
        assert all(type(frame) is bytes for _, frame in seen)


async def test_a_tap_that_raises_is_reported_once_and_not_called_again() -> None:
    calls: list[str] = []

    def tap(direction: str, message: Any) -> None:
        calls.append(direction)
        raise ValueError("the log is full")

    async with Rig(on_wire=tap) as rig:
        rig.send({"method": "a"}, {"method": "b"}, b"junk\n")
        await rig.settled()
        rig.peer.notify_nowait("c", {})
        rig.send({"method": "d"})
        await rig.settled()
        assert calls == ["received"]
        assert [str(error) for error in rig.recorder.failures] == ["the log is full"]
        assert [m for m, _, _ in rig.recorder.notifications] == ["a", "b", "d"]
        assert [m["method"] for m in rig.wire] == ["c"]


async def test_a_tap_that_raises_while_sending_does_not_keep_the_frame() -> None:
    def tap(direction: str, message: Any) -> None:
        raise ValueError("the log is full")

    async with Rig(on_wire=tap) as rig:
        await rig.peer.notify("n", {})
        await rig.settled()
        assert [m["method"] for m in rig.wire] == ["n"]
        assert len(rig.recorder.failures) == 1


# --- Checkpoints at a price ---


async def step(pacer: Pacer) -> None:
    """What the two hot loops do at each item."""
    await trio.lowlevel.checkpoint_if_cancelled()
    if not pacer.go_on():
        await pacer.checkpoint()


async def test_a_pacer_lets_others_run_every_so_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: 0.0)
    pacer = Pacer()
    for _ in range(3):
        for _ in range(ITEMS_PER_CHECKPOINT - 1):
            with pytest.raises(AssertionError):
                with trio.testing.assert_checkpoints():
                    await step(pacer)
        with trio.testing.assert_checkpoints():
            await step(pacer)


async def test_a_pacer_lets_others_run_when_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("trio_acp._pacing.perf_counter", lambda: now)
    pacer = Pacer()
    now = SECONDS_PER_CHECKPOINT
    with trio.testing.assert_checkpoints():
        await step(pacer)
    with pytest.raises(AssertionError):
        with trio.testing.assert_checkpoints():
            await step(pacer)


async def test_every_step_of_a_pacer_can_be_cancelled() -> None:
    pacer = Pacer()
    for _ in range(2 * ITEMS_PER_CHECKPOINT):
        with trio.CancelScope() as scope:
            scope.cancel()
            await step(pacer)
        assert scope.cancelled_caught

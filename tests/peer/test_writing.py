"""The one writer: whole frames, few writes, bounded queues, and an end that is noticed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from tests.peer.helpers import Rig
from trio_acp import _outbox, _peer
from trio_acp._errors import ConnectionLost, RemoteProtocolError


def text(size: int) -> dict[str, str]:
    return {"text": "x" * size}


async def test_a_frame_goes_out_at_once_while_nothing_is_ahead_of_it() -> None:
    async with Rig(reading=False) as rig:
        rig.peer.notify_nowait("a", {})
        # No task has run since: the frame is on the wire already.
        assert rig.peer.outbox.size == 0
        assert await rig.far.receive_some() == b'{"jsonrpc":"2.0","method":"a","params":{}}\n'


async def test_what_does_not_fit_at_once_is_written_before_anything_else() -> None:
    async with Rig(limit=10, reading=False) as rig:
        rig.peer.notify_nowait("a", text(100))
        waiting = rig.peer.outbox.size
        assert waiting > 100
        rig.peer.notify_nowait("b", {})
        assert rig.peer.outbox.size > waiting
        rig.read_on()
        await rig.peer.outbox.flush()
        await rig.settled()
        assert [m["method"] for m in rig.wire] == ["a", "b"]
        assert rig.peer.outbox.size == 0


async def test_queued_frames_are_written_together() -> None:
    async with Rig(plain=True) as rig:
        for n in range(100):
            rig.peer.notify_nowait(str(n), {})
        await rig.peer.outbox.flush()
        await rig.settled()
        assert [m["method"] for m in rig.wire] == [str(n) for n in range(100)]
        assert len(rig.plain.writes) == 1


async def test_a_single_frame_is_one_write() -> None:
    async with Rig(plain=True) as rig:
        for n in range(3):
            rig.peer.notify_nowait(str(n), {})
            await rig.peer.outbox.flush()
        assert len(rig.plain.writes) == 3


async def test_writes_are_bounded_and_large_frames_are_not_copied_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_outbox, "COALESCE_BYTES", 1000)
    async with Rig(plain=True) as rig:
        for size in (2000, 400, 400, 400, 400, 2000, 10):
            rig.peer.notify_nowait("m", text(size))
        await rig.peer.outbox.flush()
        await rig.settled()
        assert [len(m["params"]["text"]) for m in rig.wire] == [2000, 400, 400, 400, 400, 2000, 10]
        frame = len(rig.peer.core.notification("m", text(0)))
        assert rig.plain.writes[0] == 2000 + frame
        assert rig.plain.writes[1] == 3 * (400 + frame)
        assert sum(rig.plain.writes) == 5610 + 7 * frame
        assert len(rig.plain.writes) == 4


@pytest.mark.parametrize("plain", [False, True])
async def test_frames_never_mix_when_callers_are_cancelled_in_the_middle(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 300)
    async with Rig(limit=7, plain=plain) as rig:
        scopes = [trio.CancelScope() for _ in range(20)]
        sent: list[list[int]] = [[] for _ in scopes]

        async def caller(number: int) -> None:
            with scopes[number]:
                for n in range(5):
                    await rig.peer.notify("n", {"from": number, "n": n, **text(number * 13)})
                    sent[number].append(n)

        async with trio.open_nursery() as nursery:
            for number in range(len(scopes)):
                nursery.start_soon(caller, number)
            for scope in scopes[::2]:
                await trio.testing.wait_all_tasks_blocked(0)
                scope.cancel()
        await rig.peer.outbox.flush()
        await rig.settled()
        assert rig.unfinished == b""
        for number, numbers in enumerate(sent):
            arrived = [m["params"]["n"] for m in rig.wire if m["params"]["from"] == number]
            assert arrived == numbers


async def test_flush_returns_at_once_when_all_is_written_and_is_a_place_to_be_cancelled() -> None:
    async with Rig() as rig:
        await rig.peer.outbox.flush()
        with trio.CancelScope() as scope:
            scope.cancel()
            await rig.peer.outbox.flush()
        assert scope.cancelled_caught


async def test_flush_waits_until_all_is_written() -> None:
    async with Rig(limit=4, reading=False) as rig:
        rig.peer.notify_nowait("m", text(50))
        flushed: list[bool] = []

        async def flush() -> None:
            await rig.peer.outbox.flush()
            flushed.append(True)

        rig.nursery.start_soon(flush)
        await rig.settled()
        assert flushed == []
        rig.read_on()
        await rig.settled()
        assert flushed == [True]


# --- A peer that does not read ---


@pytest.mark.parametrize("plain", [False, True])
async def test_callers_wait_while_the_peer_does_not_read(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 1000)
    async with Rig(limit=10, plain=plain, reading=False) as rig:
        sent = 0

        async def caller() -> None:
            nonlocal sent
            while sent < 100:
                await rig.peer.notify("n", text(50))
                sent += 1

        rig.nursery.start_soon(caller)
        asking = rig.ask()
        await rig.settled()
        assert 5 < sent < 20
        assert 1000 <= rig.peer.outbox.size < 1200
        rig.read_on()
        await rig.settled()
        assert sent == 100
        rig.send({"id": 1, "result": None})
        await asking.done.wait()
        assert asking.error is None


async def test_what_cannot_wait_goes_ahead_of_those_who_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 100)
    async with Rig(limit=10, reading=False) as rig:
        rig.peer.notify_nowait("first", text(200))
        rig.nursery.start_soon(rig.peer.notify, "waits", {})
        await rig.settled()
        rig.peer.notify_nowait("urgent", {})
        rig.read_on()
        await rig.settled()
        assert [m["method"] for m in rig.wire] == ["first", "urgent", "waits"]


async def test_a_peer_that_never_reads_is_given_up_at_the_hard_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_HARD_BYTES", 10_000)
    async with Rig(limit=10, reading=False) as rig:
        asking = rig.ask()
        await rig.settled()
        most = 0
        for _ in range(1000):
            if rig.peer.reason is not None:
                break
            rig.peer.notify_nowait("n", text(100))
            most = max(most, rig.peer.outbox.size)
        assert isinstance(rig.peer.reason, RemoteProtocolError)
        assert "does not read" in str(rig.peer.reason)
        assert most < 10_300
        await asking.done.wait()
        assert isinstance(asking.error, RemoteProtocolError)
        assert len(rig.recorder.reasons) == 1
        with pytest.raises(RemoteProtocolError):
            rig.peer.notify_nowait("n", {})
        rig.peer.notify_last("n", {})
        await rig.peer.outbox.flush()
        assert rig.peer.outbox.size == most
        # What the peer still says changes nothing.
        rig.send({"id": 1, "result": None}, {"method": "late"})
        await rig.settled()
        assert rig.recorder.notifications == []


async def test_the_hard_bound_while_reading_ends_what_was_read_together_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_HARD_BYTES", 500)
    monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 100)
    async with Rig(limit=1, reading=False, answer_junk=True, max_junk_lines=None) as rig:
        rig.send(b"junk\n" * 100)
        await rig.settled()
        assert isinstance(rig.peer.reason, RemoteProtocolError)
        assert 3 < len(rig.recorder.junk_lines) < 20


async def test_one_frame_over_the_hard_bound_is_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_HARD_BYTES", 1000)
    async with Rig(limit=100) as rig:
        rig.peer.notify_nowait("big", text(5000))
        await rig.peer.outbox.flush()
        await rig.settled()
        assert rig.peer.reason is None
        assert len(rig.wire[0]["params"]["text"]) == 5000


# --- A wire that breaks ---


@pytest.mark.parametrize("plain", [False, True])
async def test_w11_a_broken_write_is_the_end_after_a_grace(
    plain: bool, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig(plain=plain) as rig:
        asking = rig.ask()
        await rig.settled()
        if plain:
            rig.plain.broken = True
        else:

            def broken(data: bytes) -> int:
                raise trio.BrokenResourceError("broken on purpose")

            monkeypatch.setattr(rig.peer.outbox, "_send_nowait", broken)
        start = trio.current_time()
        rig.peer.notify_nowait("n", {})
        await asking.done.wait()
        assert trio.current_time() - start == pytest.approx(_peer.BROKEN_WRITE_GRACE)
        assert type(asking.error) is ConnectionLost
        assert isinstance(asking.error.__cause__, trio.BrokenResourceError)
        assert len(rig.recorder.reasons) == 1
        with pytest.raises(ConnectionLost):
            await rig.peer.request("m", {})


async def test_what_a_dying_peer_still_says_is_heard(autojump_clock: trio.testing.MockClock) -> None:
    async with Rig(plain=True) as rig:
        asking = rig.ask()
        await rig.settled()
        rig.plain.broken = True
        rig.peer.notify_nowait("n", {})
        await trio.sleep(_peer.BROKEN_WRITE_GRACE / 2)
        assert rig.peer.reason is None
        # Nothing can be written, so nothing is queued; a cancellation neither.
        other = rig.ask()
        await rig.settled()
        other.scope.cancel()
        rig.peer.notify_last("n", {})
        await rig.peer.outbox.flush()
        assert rig.peer.outbox.size == 0
        rig.send({"method": "last words"}, {"id": 1, "result": "answered"})
        await asking.done.wait()
        assert asking.result == "answered"
        assert [method for method, _, _ in rig.recorder.notifications] == ["last words"]
        rig.far.close()
        await trio.sleep(10)
        assert rig.recorder.reasons == [rig.recorder.reason]


async def test_a_peer_that_closed_both_ways_is_known_by_its_own_reason(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with Rig() as rig:
        rig.recorder.reason_known = trio.Event()
        asking = rig.ask()
        await rig.settled()
        rig.far.close()
        await rig.settled()
        rig.peer.notify_nowait("n", {})
        # Finding out takes longer than the grace for a broken write: the exact reason still wins.
        await trio.sleep(5 * _peer.BROKEN_WRITE_GRACE)
        assert not asking.done.is_set()
        rig.recorder.reason_known.set()
        await asking.done.wait()
        assert str(asking.error) == str(rig.recorder.reason)
        assert rig.recorder.reasons == [rig.recorder.reason]


async def test_frames_are_compact_json_one_a_line() -> None:
    async with Rig(reading=False) as rig:
        params: dict[str, Any] = {"a": [1, 2], "b": {"c": "two\nlines"}}
        rig.peer.notify_nowait("n", params)
        data = bytes(await rig.far.receive_some())
        assert data.count(b"\n") == 1
        assert data.endswith(b"\n")
        assert b": " not in data
        assert json.loads(data)["params"] == params


# --- What is held and written together ---


async def test_what_is_answered_as_it_is_read_is_one_write_and_the_rest_is_left_to_the_writer() -> None:
    async with Rig(limit=100, reading=False) as rig:
        rig.recorder.on_request = lambda request: request.answer(text(20))
        rig.send(*[{"id": number, "method": "m"} for number in range(10)])
        await rig.settled()
        assert rig.peer.outbox.size > 0  # the pipe is full, and the writer waits for it
        rig.read_on()
        await rig.peer.outbox.flush()
        await rig.settled()
        assert [message["id"] for message in rig.wire] == list(range(10))


async def test_who_waits_for_all_to_be_written_is_told_when_what_was_held_is() -> None:
    async with Rig() as rig:
        rig.peer.outbox.hold()
        rig.peer.notify_nowait("n", {})
        flushed: list[bool] = []

        async def flush() -> None:
            await rig.peer.outbox.flush()
            flushed.append(True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flush)
            await trio.testing.wait_all_tasks_blocked()
            assert flushed == []
            rig.peer.outbox.release()
        assert flushed == [True]

"""Calls on a connection that has ended, is ending, or belongs to somebody else (W11)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.peer.helpers import Rig, answer
from trio_acp import _outbox
from trio_acp._errors import (
    AcpError,
    ConnectionClosed,
    ConnectionLost,
    RemoteProtocolError,
)
from trio_acp._peer import Peer


async def test_w11_the_end_of_the_input_wakes_every_waiter_with_an_error_of_its_own() -> None:
    async with Rig() as rig:
        askings = [rig.ask() for _ in range(3)]
        await rig.settled()
        await rig.far.aclose()
        await rig.settled()
        errors = [asking.error for asking in askings]
        assert all(type(error) is ConnectionLost for error in errors)
        assert len({id(error) for error in errors}) == 3
        assert rig.recorder.reasons == [rig.recorder.reason]
        assert rig.peer.reason is rig.recorder.reason
        assert rig.peer.input_ended.is_set()


async def test_w11_a_cause_of_the_reason_is_kept_on_every_copy() -> None:
    async with Rig() as rig:
        rig.recorder.reason.__cause__ = cause = OSError("why")
        asking = rig.ask()
        await rig.settled()
        rig.far.close()
        await asking.done.wait()
        assert asking.error is not None
        assert asking.error.__cause__ is cause


CALLS: dict[str, Callable[[Peer], Any]] = {
    "request": lambda peer: peer.request("m", {}),
    "notify": lambda peer: peer.notify("m", {}),
    "room": lambda peer: peer.room(),
    "start_request": lambda peer: peer.start_request("m", {}, lambda result, error: None),
    "notify_nowait": lambda peer: peer.notify_nowait("m", {}),
    "check_usable": lambda peer: peer.check_usable(),
}


async def call(name: str, peer: Peer) -> None:
    made = CALLS[name](peer)
    if hasattr(made, "__await__"):
        await made


@pytest.mark.parametrize("name", CALLS)
async def test_w11_calls_after_the_peer_has_gone_say_so(name: str) -> None:
    async with Rig() as rig:
        rig.far.close()
        await rig.settled()
        with pytest.raises(ConnectionLost, match="open a new one") as caught:
            await call(name, rig.peer)
        assert caught.value is not rig.recorder.reason


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("how", ["begin_close", "stop"])
async def test_w11_calls_after_closing_say_that_we_closed(name: str, how: str) -> None:
    async with Rig() as rig:
        getattr(rig.peer, how)()
        with pytest.raises(ConnectionClosed, match="closed by this program"):
            await call(name, rig.peer)


@pytest.mark.parametrize("name", ["request", "notify", "room"])
async def test_w11_calls_while_the_reason_is_being_found_out_wait_for_it(name: str) -> None:
    async with Rig() as rig:
        rig.recorder.reason_known = trio.Event()
        rig.far.close()
        await rig.settled()
        assert rig.peer.reason is None
        errors: list[Exception] = []

        async def late_call() -> None:
            try:
                await call(name, rig.peer)
            except AcpError as error:
                errors.append(error)

        rig.nursery.start_soon(late_call)
        await rig.settled()
        assert errors == []
        rig.recorder.reason_known.set()
        await rig.settled()
        assert [str(error) for error in errors] == [str(rig.recorder.reason)]


async def test_w11_a_request_that_cannot_wait_for_the_reason_says_that_the_peer_has_gone() -> None:
    async with Rig() as rig:
        rig.recorder.reason_known = trio.Event()
        rig.far.close()
        await rig.settled()
        with pytest.raises(ConnectionLost):
            rig.peer.start_request("m", {}, lambda result, error: None)


async def test_w11_stopping_while_the_reason_is_being_found_out_still_wakes_the_waiters() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.recorder.reason_known = trio.Event()
        rig.far.close()
        await rig.settled()
        assert not asking.done.is_set()
        rig.peer.stop()
        await asking.done.wait()
        assert isinstance(asking.error, ConnectionClosed)
        assert rig.recorder.reasons == []


async def test_w11_a_request_given_up_while_the_reason_is_being_found_out_is_not_told_of_it() -> None:
    async with Rig() as rig:
        told: list[Any] = []
        request = rig.peer.start_request("m", {}, lambda result, error: told.append(error))
        other = rig.peer.start_request("m", {}, lambda result, error: told.append("other"))
        rig.recorder.reason_known = trio.Event()
        await rig.settled()
        rig.far.close()
        await rig.settled()
        rig.peer.give_up(request)
        rig.recorder.reason_known.set()
        await rig.settled()
        assert told == ["other"]
        rig.peer.give_up(other)


async def test_stopping_wakes_the_waiters_and_tells_the_dispatcher_nothing() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.peer.stop()
        rig.peer.stop()
        await asking.done.wait()
        assert isinstance(asking.error, ConnectionClosed)
        await rig.settled()
        assert rig.recorder.reasons == []


async def test_closing_lets_what_is_under_way_go_on() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.peer.begin_close()
        rig.send(answer(1, "still"))
        await asking.done.wait()
        assert asking.result == "still"


async def test_a_caller_that_waits_for_room_is_woken_by_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 10)
    async with Rig(limit=1, reading=False) as rig:
        rig.peer.notify_nowait("m", {"text": "x" * 100})
        asking = rig.ask()
        await rig.settled()
        rig.peer.begin_close()
        await asking.done.wait()
        assert isinstance(asking.error, ConnectionClosed)


async def test_the_end_while_closing_leaves_it_at_our_having_closed() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.peer.begin_close()
        rig.far.close()
        await asking.done.wait()
        assert isinstance(asking.error, ConnectionClosed)
        assert isinstance(rig.peer.reason, ConnectionClosed)
        assert rig.recorder.reasons == [rig.recorder.reason]
        with pytest.raises(ConnectionClosed):
            rig.peer.check_usable()


async def test_a_last_notification_goes_out_while_closing_and_nowhere_after_stopping() -> None:
    async with Rig() as rig:
        rig.peer.begin_close()
        rig.peer.notify_last("session/cancel", {})
        await rig.peer.outbox.flush()
        rig.peer.stop()
        rig.peer.notify_last("session/cancel", {})
        await rig.settled()
        assert [m["method"] for m in rig.wire] == ["session/cancel"]


async def test_w11_the_first_reason_stays_when_a_second_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that closed its output is found not to read either, while the first is looked into."""
    monkeypatch.setattr(_outbox, "OUTBOX_HARD_BYTES", 100)
    async with Rig(limit=1, reading=False) as rig:
        asking = rig.ask()
        rig.recorder.reason_known = trio.Event()
        await rig.settled()
        await rig.far.send_eof()
        await rig.settled()
        for _ in range(3):
            rig.peer.notify_last("n", {"text": "x" * 50})
        await asking.done.wait()
        rig.recorder.reason_known.set()
        await rig.settled()
        assert isinstance(asking.error, RemoteProtocolError)
        assert len(rig.recorder.reasons) == 1


# --- Other threads and runs ---


@pytest.mark.parametrize("name", ["start_request", "notify_nowait", "check_usable"])
async def test_calls_from_another_thread_name_the_way_back(name: str) -> None:
    async with Rig() as rig:
        with pytest.raises(RuntimeError, match=r"trio\.from_thread"):
            await trio.to_thread.run_sync(CALLS[name], rig.peer)
        await rig.settled()
        assert rig.wire == []


@pytest.mark.parametrize("state", ["idle", "full", "ending"])
@pytest.mark.parametrize("name", ["request", "notify", "room"])
async def test_calls_from_another_trio_run_name_the_way_back(
    name: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig(limit=10, reading=False) as rig:
        if state == "full":
            monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 1)
            rig.peer.notify_nowait("n", {})
        elif state == "ending":
            rig.recorder.reason_known = trio.Event()
            await rig.far.send_eof()
            await rig.settled()
        errors: list[BaseException] = []

        async def foreign() -> None:
            try:
                await call(name, rig.peer)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=trio.run, args=(foreign,))
        thread.start()
        await trio.to_thread.run_sync(thread.join)
        assert "trio.from_thread" in str(errors[0])

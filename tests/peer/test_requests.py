"""Requests of ours and their answers: results, errors, cancellation, late answers, the end."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
import trio

from tests.peer.helpers import Rig, answer
from trio_acp import _outbox
from trio_acp._errors import (
    AuthRequired,
    InvalidResponse,
    LocalProtocolError,
    RequestError,
)


async def test_a_request_goes_out_whole_and_returns_its_result() -> None:
    async with Rig() as rig:
        asking = rig.ask("session/new", {"cwd": "/"})
        await rig.settled()
        assert rig.wire == [{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/"}}]
        rig.send(answer(1, {"sessionId": "s"}))
        await asking.done.wait()
        assert asking.result == {"sessionId": "s"}
        assert rig.peer.core.open_outbound == []


async def test_w6_a_null_result_is_a_result() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.send(answer(1, None))
        await asking.done.wait()
        assert (asking.result, asking.error) == (None, None)


async def test_answers_find_their_requests_in_any_order() -> None:
    async with Rig() as rig:
        askings = [rig.ask(str(n)) for n in range(10)]
        await rig.settled()
        rig.send(*[answer(m["id"], m["method"]) for m in reversed(rig.wire)])
        await rig.settled()
        assert [asking.result for asking in askings] == [str(n) for n in range(10)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -32000, "message": "log in"}, AuthRequired),
        ({"code": 7, "message": "odd", "data": [1]}, RequestError),
    ],
)
async def test_w10_an_error_answer_is_raised_as_its_class(
    error: dict[str, Any], kind: type[RequestError]
) -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        rig.send({"jsonrpc": "2.0", "id": 1, "error": error})
        await asking.done.wait()
        assert type(asking.error) is kind
        assert isinstance(asking.error, RequestError)
        assert asking.error.to_wire() == error


async def test_w6_a_malformed_answer_fails_its_request_only() -> None:
    async with Rig() as rig:
        bad, good = rig.ask("bad"), rig.ask("good")
        await rig.settled()
        ids = {m["method"]: m["id"] for m in rig.wire}
        rig.send({"id": ids["bad"], "result": 1, "error": {}}, answer(ids["good"], "fine"))
        await rig.settled()
        assert isinstance(bad.error, InvalidResponse)
        assert good.result == "fine"
        assert rig.peer.reason is None


async def test_a_conversion_happens_in_the_read_loop_before_the_next_message() -> None:
    async with Rig() as rig:
        order: list[str] = []
        rig.recorder.on_notification = order.append

        def convert(result: Any) -> Any:
            order.append("converted")
            return [result]

        asking = rig.ask(convert=convert)
        await rig.settled()
        rig.send({"method": "before"}, answer(1, "r"), {"method": "after"})
        await asking.done.wait()
        assert asking.result == ["r"]
        assert order == ["before", "converted", "after"]


async def test_a_conversion_that_fails_is_raised_by_its_request_only() -> None:
    async with Rig() as rig:

        def convert(result: Any) -> Any:
            raise ValueError("does not fit")

        asking = rig.ask(convert=convert)
        await rig.settled()
        rig.send(answer(1, "r"), {"method": "after"})
        await asking.done.wait()
        assert isinstance(asking.error, ValueError)
        assert [method for method, _, _ in rig.recorder.notifications] == ["after"]


async def test_params_that_are_no_json_are_refused_before_anything_is_sent() -> None:
    async with Rig() as rig:
        with pytest.raises(LocalProtocolError):
            await rig.peer.request("m", object())
        with pytest.raises(LocalProtocolError):
            await rig.peer.notify("m", object())
        await rig.settled()
        assert rig.wire == []


async def test_the_owner_is_told_of_each_request_that_opens() -> None:
    async with Rig() as rig:
        opened: list[int] = []
        rig.peer.read_on = lambda: opened.append(len(rig.peer.core.open_outbound))
        rig.ask()
        await rig.settled()
        assert opened == [1]


async def test_the_owner_is_told_when_output_begins_to_queue() -> None:
    async with Rig(limit=10, reading=False) as rig:
        told: list[int] = []
        rig.peer.read_on = lambda: told.append(rig.peer.outbox.size)
        rig.peer.notify_nowait("n", {"text": "x" * 50})
        assert len(told) == 1
        assert told[0] > 50


# --- Cancellation (X4) ---


async def test_x4_a_cancelled_waiter_asks_the_peer_to_cancel_and_the_late_answer_is_dropped() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        await rig.settled()
        asking.scope.cancel()
        await rig.settled()
        assert asking.cancelled
        assert rig.wire[1:] == [{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}]
        rig.send(answer(1, "late"), {"method": "after"})
        await rig.settled()
        assert len(rig.recorder.notifications) == 1
        assert rig.peer.core.open_outbound == []


async def test_x4_cancelled_before_it_is_sent_nothing_is_sent() -> None:
    async with Rig() as rig:
        with trio.CancelScope() as scope:
            scope.cancel()
            await rig.peer.request("m", {})
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            scope.cancel()
            await rig.peer.notify("m", {})
        assert scope.cancelled_caught
        await rig.settled()
        assert rig.wire == []
        assert rig.peer.core.open_outbound == []


async def test_a_late_result_is_handed_to_whoever_must_undo_it() -> None:
    async with Rig() as rig:
        late: list[Any] = []
        asking = rig.ask("terminal/create", {}, on_late=late.append)
        await rig.settled()
        asking.scope.cancel()
        await rig.settled()
        rig.send(answer(1, {"terminalId": "t"}))
        await rig.settled()
        assert late == [{"terminalId": "t"}]


async def test_a_late_error_has_nothing_to_undo() -> None:
    async with Rig() as rig:
        late: list[Any] = []
        asking = rig.ask(on_late=late.append)
        await rig.settled()
        asking.scope.cancel()
        await rig.settled()
        rig.send({"id": 1, "error": {"code": -32800, "message": "cancelled"}})
        await rig.settled()
        assert late == []


@pytest.mark.parametrize("failing", [False, True])
async def test_a_result_that_comes_in_the_same_step_as_the_cancellation_is_late_too(failing: bool) -> None:
    """The waiter is woken by the cancellation, and the answer is there before it runs."""
    async with Rig() as rig:
        late: list[Any] = []
        asking = rig.ask(on_late=late.append)
        rig.recorder.on_notification = lambda method: asking.scope.cancel()
        await rig.settled()
        bad = {"id": 1, "error": {"code": 1, "message": "no"}}
        rig.send({"method": "cancel now"}, bad if failing else answer(1, "created"))
        await asking.done.wait()
        await rig.settled()
        assert asking.cancelled
        assert late == ([] if failing else ["created"])
        assert [m.get("method") for m in rig.wire] == ["m"]


async def test_a_result_that_comes_in_the_same_step_before_the_cancellation_is_returned() -> None:
    async with Rig() as rig:
        late: list[Any] = []
        asking = rig.ask(on_late=late.append)
        rig.recorder.on_notification = lambda method: asking.scope.cancel()
        await rig.settled()
        rig.send(answer(1, "created"), {"method": "cancel now"})
        await asking.done.wait()
        assert (asking.result, asking.cancelled, late) == ("created", False, [])


async def test_a_late_answer_without_anybody_to_take_it_in_the_same_step_is_dropped() -> None:
    async with Rig() as rig:
        asking = rig.ask()
        rig.recorder.on_notification = lambda method: asking.scope.cancel()
        await rig.settled()
        rig.send({"method": "cancel now"}, answer(1, "x"))
        await asking.done.wait()
        assert asking.cancelled


def test_ctrl_c_while_waiting_gives_the_request_up_as_a_cancellation_does() -> None:
    wire: list[Any] = []

    async def main() -> None:
        async with Rig() as rig:

            async def interrupt() -> None:
                await rig.settled()
                signal.raise_signal(signal.SIGINT)

            rig.nursery.start_soon(interrupt)
            try:
                await rig.peer.request("m", {})
            finally:
                with trio.CancelScope(shield=True):
                    await rig.settled()
                wire.extend(m["method"] for m in rig.wire)
                assert rig.peer.core.open_outbound == []

    with pytest.RaisesGroup(KeyboardInterrupt):
        trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)
    assert wire == ["m", "$/cancel_request"]


async def test_giving_up_what_is_answered_sends_nothing() -> None:
    async with Rig() as rig:
        answers: list[Any] = []
        request = rig.peer.start_request("m", {}, lambda result, error: answers.append((result, error)))
        await rig.settled()
        rig.send(answer(1, "r"))
        await rig.settled()
        rig.peer.give_up(request)
        await rig.settled()
        assert answers == [("r", None)]
        assert len(rig.wire) == 1


# --- A cancellation at every step ---


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when a task has yielded for the n-th time."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task, self._scope, self._left = task, scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def life(rig: Rig, undo: list[Any]) -> None:
    """Requests, a notification and a flush, with waiting for room in between."""
    await rig.peer.request("one", {"text": "x" * 50}, on_late=undo.append)
    await rig.peer.notify("two", {"text": "y" * 50})
    await rig.peer.outbox.flush()
    await rig.peer.request("three", {"text": "z" * 500}, on_late=undo.append)


@pytest.mark.parametrize("plain", [False, True])
async def test_a_cancellation_at_any_step_leaves_whole_frames_and_nothing_open(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outbox, "OUTBOX_SOFT_BYTES", 20)
    step, cancelled = 0, True
    calls: list[str] = []
    while cancelled:
        step += 1
        assert step < 200
        async with Rig(limit=16, plain=plain, reading=False) as rig:
            undo: list[Any] = []
            rig.peer.notify_nowait("zero", {"text": "w" * 40})
            rig.nursery.start_soon(slow_far_end, rig)
            with trio.CancelScope() as scope:
                instrument = CancelAtStep(trio.lowlevel.current_task(), scope, step)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await life(rig, undo)
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            cancelled = scope.cancelled_caught
            # It still works, and the far end has seen whole frames in a legal order.
            assert await rig.peer.request("last", {}) == "last"
            await rig.settled()
            assert rig.unfinished == b""
            methods = [m["method"] for m in rig.wire]
            calls = [m for m in methods if m != "$/cancel_request"]
            assert calls == ["zero", *["one", "two", "three"][: len(calls) - 2], "last"]
            for message in rig.wire:
                if message["method"] == "$/cancel_request":
                    sent = [m for m in rig.wire if m.get("id") == message["params"]["requestId"]]
                    assert rig.wire.index(sent[0]) < rig.wire.index(message)
            # What was withdrawn was answered all the same, so somebody can undo it.
            assert len(undo) == methods.count("$/cancel_request") <= 1
            assert rig.peer.core.open_outbound == []
    assert step > 3
    assert calls == ["zero", "one", "two", "three", "last"]


async def slow_far_end(rig: Rig) -> None:
    """Read a few bytes at a time, and answer every request with its method."""

    while data := await rig.far.receive_some(7):
        *lines, rig.unfinished = (rig.unfinished + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            rig.wire.append(message)
            if "id" in message:
                await rig.far.send_all(json.dumps(answer(message["id"], message["method"])).encode() + b"\n")


# --- The run itself ---


@pytest.mark.parametrize("plain", [False, True])
async def test_it_is_shielded_so_that_a_cancellation_from_outside_can_still_be_told(plain: bool) -> None:
    async with Rig(plain=plain) as rig:
        rig.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await rig.settled()
            rig.send({"method": "still read"})
            await rig.settled()
            assert [method for method, _, _ in rig.recorder.notifications] == ["still read"]
            rig.peer.notify_nowait("session/cancel", {"sessionId": "s"})
            await rig.peer.outbox.flush()
            assert await rig.far.receive_some() == (
                b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n'
            )


async def test_stopped_before_it_runs_it_does_not_run() -> None:
    rig = Rig()
    rig.peer.stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.peer.run)
    assert rig.recorder.notifications == []

"""Requests of the peer: each is answered exactly once, whatever becomes of its handler (W4, W10, X4)."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.peer.helpers import Rig
from trio_acp import _peer as module
from trio_acp._errors import (
    AuthRequired,
    CapabilityError,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    SchemaError,
)
from trio_acp._peer import IncomingRequest, error_for_wire

Handler = Callable[[], Awaitable[Any]]
REQUEST = {"jsonrpc": "2.0", "id": "r", "method": "do", "params": {"a": 1}}
CANCEL = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "r"}}


class Served:
    """Requests served by one handler, each in a task of a nursery that may be cancelled."""

    def __init__(self, rig: Rig, handler: Handler) -> None:
        self.failed: list[Exception] = []
        self.raised: list[BaseException] = []
        self.scope = trio.CancelScope()
        self._handler = handler
        self._rig = rig
        rig.recorder.on_request = lambda request: rig.nursery.start_soon(self._serve, request)

    async def _serve(self, request: IncomingRequest) -> None:
        with self.scope:
            try:
                await request.serve(self._handler, self.failed.append)
            except BaseException as error:
                group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
                if group.subgroup(trio.Cancelled) is not None:
                    raise
                self.raised.append(error)


async def sleep() -> None:
    await trio.sleep_forever()


def raising(error: BaseException) -> Handler:
    async def handler() -> Any:
        await trio.lowlevel.checkpoint()
        raise error

    return handler


async def answers(rig: Rig, *messages: Any) -> list[Any]:
    """What the far end has got after it sent the messages and all came to rest."""
    rig.send(*messages)
    await rig.settled()
    return rig.wire


async def test_a_request_comes_with_its_id_method_params_and_size() -> None:
    async with Rig() as rig:
        rig.send(b'{"id":5,"method":"do","params":{"a":1}}\n')
        await rig.settled()
        (request,) = rig.recorder.requests
        assert (request.id, request.method, request.params, request.size) == (5, "do", {"a": 1}, 39)
        assert request.open
        assert not request.cancelled


async def test_the_result_of_the_handler_is_the_answer() -> None:
    async def handler() -> Any:
        await trio.lowlevel.checkpoint()
        return {"content": "é"}

    async with Rig() as rig:
        served = Served(rig, handler)
        assert await answers(rig, REQUEST) == [{"jsonrpc": "2.0", "id": "r", "result": {"content": "é"}}]
        assert not rig.recorder.requests[0].open
        assert served.failed == []


SECRET = "/home/user/.secret/path"
EXCEPTIONS: list[tuple[Exception, int, str, bool]] = [
    (RequestError(-5, "mine", {"k": 1}), -5, "mine", False),
    (AuthRequired("log in"), -32000, "log in", False),
    (
        SchemaError(("path",), "expected a string, got 5", "fs/read_text_file params"),
        -32602,
        "path: expected",
        True,
    ),
    (
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), SECRET),
        -32002,
        "no such file or directory",
        True,
    ),
    (NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), SECRET), -32002, "no such file", True),
    (PermissionError(errno.EACCES, os.strerror(errno.EACCES), SECRET), -32603, "Permission denied", True),
    (OSError(SECRET), -32603, "internal error", True),
    (ValueError(SECRET), -32603, "internal error", True),
    (UnicodeDecodeError("utf-8", b"x", 0, 1, SECRET), -32603, "internal error", True),
    (ExceptionGroup(SECRET, [RequestError(-6, "in a group")]), -6, "in a group", False),
    (ExceptionGroup(SECRET, [ExceptionGroup("", [FileNotFoundError(SECRET)])]), -32002, "no such file", True),
    (CapabilityError("fs.readTextFile", SECRET), -32603, "needs fs.readTextFile", True),
    (ExceptionGroup(SECRET, [RequestError(-6, "one"), ValueError("two")]), -32603, "internal error", True),
]


@pytest.mark.parametrize(
    ("error", "code", "text", "told"), EXCEPTIONS, ids=lambda value: type(value).__name__
)
async def test_w4_an_exception_is_answered_with_its_code_and_without_secrets(
    error: Exception, code: int, text: str, told: bool
) -> None:
    async with Rig() as rig:
        served = Served(rig, raising(error))
        (answer,) = await answers(rig, REQUEST)
        assert answer["id"] == "r"
        assert answer["error"]["code"] == code
        assert text in answer["error"]["message"]
        assert SECRET not in str(answer)
        # The program learns of what the peer was not told in full.
        assert served.failed == ([error] if told else [])
        assert served.raised == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RequestError(1, "x"), RequestError),
        (SchemaError((), "x"), InvalidParams),
        (FileNotFoundError(), ResourceNotFound),
        (OSError(), InternalError),
        (KeyError(), InternalError),
    ],
)
def test_w10_exceptions_become_wire_errors_in_one_place(error: Exception, kind: type[RequestError]) -> None:
    assert type(error_for_wire(error)) is kind


# --- Cancellation ---


async def test_x4_the_peer_cancels_and_gets_32800_once() -> None:
    async with Rig() as rig:
        served = Served(rig, sleep)
        await answers(rig, REQUEST)
        assert await answers(rig, CANCEL, CANCEL) == [
            {"jsonrpc": "2.0", "id": "r", "error": {"code": -32800, "message": "the request was cancelled"}}
        ]
        assert (served.failed, served.raised) == ([], [])


async def test_x4_a_request_and_its_cancellation_in_one_read() -> None:
    async with Rig() as rig:
        Served(rig, sleep)
        (answer,) = await answers(rig, REQUEST, CANCEL)
        assert answer["error"]["code"] == -32800


async def test_x4_a_cancelled_handler_may_still_have_a_result() -> None:
    async def handler() -> Any:
        try:
            await trio.sleep_forever()
        finally:
            return {"partial": True}  # noqa: B012

    async with Rig() as rig:
        Served(rig, handler)
        await answers(rig, REQUEST)
        (answer,) = await answers(rig, CANCEL)
        assert answer["result"] == {"partial": True}


async def test_x4_an_error_on_the_way_out_of_a_cancelled_handler_is_told_to_us_and_32800_to_the_peer() -> (
    None
):
    async def handler() -> Any:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("clean-up failed")

    async with Rig() as rig:
        served = Served(rig, handler)
        await answers(rig, REQUEST)
        (answer,) = await answers(rig, CANCEL)
        assert answer["error"]["code"] == -32800
        assert [str(error) for error in served.failed] == ["clean-up failed"]


async def test_x4_a_cancellation_from_around_is_answered_32800_and_goes_on() -> None:
    async with Rig() as rig:
        served = Served(rig, sleep)
        await answers(rig, REQUEST)
        served.scope.cancel()
        await rig.settled()
        assert [m["error"]["code"] for m in rig.wire] == [-32800]
        assert served.scope.cancelled_caught


async def test_x4_cancelled_after_its_answer_nothing_more_is_sent() -> None:
    async def handler() -> Any:
        await trio.lowlevel.checkpoint()

    async with Rig() as rig:
        Served(rig, handler)
        await answers(rig, REQUEST)
        assert len(await answers(rig, CANCEL)) == 1


async def test_a_callback_for_the_cancellation_is_called_when_it_comes_or_at_once() -> None:
    async with Rig() as rig:
        calls: list[str] = []
        rig.recorder.on_request = lambda request: request.when_cancelled(lambda: calls.append("first"))
        await answers(rig, REQUEST)
        assert calls == []
        await answers(rig, CANCEL)
        assert calls == ["first"]
        (request,) = rig.recorder.requests
        assert request.cancelled
        request.when_cancelled(lambda: calls.append("second"))
        assert calls == ["first", "second"]


async def test_x4_a_cancellation_nobody_listens_to_changes_nothing() -> None:
    async with Rig() as rig:
        await answers(rig, REQUEST, CANCEL)
        (request,) = rig.recorder.requests
        request.answer("after all")
        await rig.settled()
        assert rig.wire == [{"jsonrpc": "2.0", "id": "r", "result": "after all"}]


# --- Groups, and what is not for the peer ---


async def test_an_error_beside_a_cancellation_is_the_answer_and_the_cancellation_goes_on() -> None:
    async def handler() -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            await trio.lowlevel.checkpoint()
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("real")

    async with Rig() as rig:
        served = Served(rig, handler)
        await answers(rig, REQUEST)
        served.scope.cancel()
        await rig.settled()
        assert [m["error"]["code"] for m in rig.wire] == [-32603]
        assert served.scope.cancelled_caught or served.failed
        assert len(served.failed) == 1


async def test_a_group_of_cancellations_and_an_error_is_split() -> None:
    async with Rig() as rig:
        real = ValueError("real")

        async def handler() -> Any:
            try:
                await trio.sleep_forever()
            except trio.Cancelled as cancelled:
                raise BaseExceptionGroup("both", [cancelled, real]) from None

        served = Served(rig, handler)
        await answers(rig, REQUEST)
        served.scope.cancel()
        await rig.settled()
        assert [m["error"]["code"] for m in rig.wire] == [-32603]
        assert served.scope.cancelled_caught
        (failed,) = served.failed
        assert isinstance(failed, ExceptionGroup)
        assert failed.exceptions == (real,)


async def test_a_group_of_cancellations_only_is_a_cancellation() -> None:
    async def handler() -> Any:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise BaseExceptionGroup("one", [cancelled]) from None

    async with Rig() as rig:
        served = Served(rig, handler)
        await answers(rig, REQUEST)
        served.scope.cancel()
        await rig.settled()
        assert [m["error"]["code"] for m in rig.wire] == [-32800]
        assert served.scope.cancelled_caught
        assert served.failed == []


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        BaseExceptionGroup("x", [KeyboardInterrupt(), ValueError()]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_ends_the_program_is_answered_32800_and_raised_as_it_is(error: BaseException) -> None:
    async with Rig() as rig:
        served = Served(rig, raising(error))
        (answer,) = await answers(rig, REQUEST)
        assert answer["error"]["code"] == -32800
        assert served.raised == [error]
        assert served.failed == []


# --- Answering by hand ---


async def test_a_second_answer_is_a_mistake_of_ours() -> None:
    async with Rig() as rig:
        await answers(rig, REQUEST)
        (request,) = rig.recorder.requests
        request.answer(1)
        with pytest.raises(LocalProtocolError, match="once"):
            request.answer(2)
        with pytest.raises(LocalProtocolError, match="once"):
            request.refuse(RequestError(1, "x"))
        await rig.settled()
        assert [m["result"] for m in rig.wire] == [1]


@pytest.mark.parametrize("ending", ["result", "error", "cancelled", "interrupt"])
async def test_what_a_handler_comes_to_after_its_request_was_answered_for_it_is_not_sent(ending: str) -> None:
    go = trio.Event()

    async def handler() -> Any:
        await go.wait()
        if ending == "error":
            raise ValueError("too late")
        if ending == "cancelled":
            await trio.sleep_forever()
        if ending == "interrupt":
            raise KeyboardInterrupt
        return "too late"

    async with Rig() as rig:
        served = Served(rig, handler)
        await answers(rig, REQUEST)
        rig.recorder.requests[0].answer("in time")
        go.set()
        await rig.settled()
        served.scope.cancel()
        await rig.settled()
        assert [m.get("result") for m in rig.wire] == ["in time"]
        assert len(served.failed) == (ending == "error")
        assert len(served.raised) == (ending == "interrupt")


async def test_all_open_requests_can_be_refused_at_once() -> None:
    async with Rig() as rig:
        await answers(rig, *[{**REQUEST, "id": n} for n in range(3)])
        rig.peer.refuse_open(RequestCancelled("the connection is closing"))
        await rig.settled()
        assert [(m["id"], m["error"]["code"]) for m in rig.wire] == [(n, -32800) for n in range(3)]


async def test_a_result_that_is_no_json_is_logged_and_answered_as_an_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler() -> Any:
        return {"secret": object()}

    async with Rig() as rig:
        served = Served(rig, handler)
        (answer,) = await answers(rig, REQUEST)
        assert answer["error"] == {"code": -32603, "message": "the result could not be encoded"}
        assert "the result of do cannot be sent as JSON" in caplog.text
        assert served.raised == []


async def test_an_error_that_is_no_json_is_logged_and_answered_with_its_code(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Rig() as rig:
        Served(rig, raising(RequestError(-7, "x", object())))
        (answer,) = await answers(rig, REQUEST)
        assert answer["error"] == {"code": -7, "message": "the error could not be encoded"}
        assert "the error of do cannot be sent as JSON" in caplog.text


@pytest.mark.parametrize("how", ["eof", "stop"])
async def test_w11_an_answer_after_the_end_goes_nowhere_and_is_no_mistake(how: str) -> None:
    async with Rig() as rig:
        await answers(rig, REQUEST, {**REQUEST, "id": "s"})
        first, second = rig.recorder.requests
        if how == "eof":
            await rig.far.send_eof()
        else:
            rig.peer.stop()
        await rig.settled()
        assert not first.open
        first.answer(1)
        first.answer(1)
        second.refuse(RequestError(1, "x"))
        await rig.settled()
        assert rig.wire == []


async def test_answers_given_while_closing_are_flushed() -> None:
    async with Rig(limit=8, reading=False) as rig:
        rig.nursery.start_soon(rig.far.send_all, b'{"id":1,"method":"do"}\n')
        await rig.settled()
        rig.peer.begin_close()
        rig.recorder.requests[0].answer("x" * 100)
        flushed = trio.Event()

        async def flush() -> None:
            await rig.peer.outbox.flush()
            flushed.set()

        rig.nursery.start_soon(flush)
        await rig.settled()
        assert not flushed.is_set()
        rig.read_on()
        await flushed.wait()
        await rig.settled()
        assert rig.wire[0]["result"] == "x" * 100
        assert rig.peer.outbox.size == 0


def test_the_module_names_its_public_parts() -> None:
    for name in module.__all__:
        assert hasattr(module, name)

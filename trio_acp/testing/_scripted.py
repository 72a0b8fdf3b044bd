"""A peer that does what a test says, message by message, and tolerates no mistake of the other side."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection
from typing import Any, Final, Self

import trio
import trio.testing

from trio_acp.transports import MemoryStream, open_memory_pair

from ._referee import IllegalConversation, Referee
from ._transcript import Entry, Party, Transcript, other_party

__all__ = ["DEFAULT_PATIENCE", "HOLD", "PeerError", "ScriptedPeer", "as_line"]

DEFAULT_PATIENCE: Final = 3600.0
"""Seconds that a scripted peer waits for anything: longer than any clock of the library, on a mock clock."""

HOLD: Final = object()
"""In ``replies``: leave the request open; `ScriptedPeer.reply` answers it later, or nobody does."""

READ_BYTES: Final = 1024 * 1024
"""Most bytes that a scripted peer reads at once."""


class PeerError(Exception):
    """The other side answered with an error; in ``replies``, the error to answer with.

    Args:
        code: the error's code.
        message: its text.
        data: its data; None for none.
    """

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        more = "" if self.data is None else f" {self.data!r}"
        return f"{self.code}: {self.message}{more}"

    def to_wire(self) -> dict[str, Any]:
        """Return the error object for an answer."""
        more = {} if self.data is None else {"data": self.data}
        return {"code": self.code, "message": self.message, **more}


def as_line(message: Any) -> bytes:
    """Return a message as it goes over the wire, its newline included (W1)."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class ScriptedPeer:
    """One end of a connection in the hands of a test.

    Nothing runs in the background: each ``expect…`` reads on until the message is there. Everything that the
    other side sends is judged by a `Referee`. What the script itself sends may be as illegal as it likes.

    Args:
        stream: this end of the connection; for example one of `open_memory_pair`.
        party: what this end plays.
        strict: raise `IllegalConversation` at the first message of the other side that breaks a rule.
        tolerate: tags of rules for which it does not raise.
        patience: seconds that anything is waited for, on the clock of the run.

    Attributes:
        stream: the stream.
        transcript: all that was said, in the order seen at this end.
        replies: what `wait_for_answer` and `serve_until_closed` answer to requests of the other side, by
            method: a result, a function of the parameters that returns one, a `PeerError`, or `HOLD`.
        inbox: messages that have arrived and were not expected yet.
        ended: the other side has closed its end.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        party: Party,
        *,
        strict: bool = True,
        tolerate: Collection[str] = (),
        patience: float = DEFAULT_PATIENCE,
    ) -> None:
        self.stream = stream
        self.party: Party = party
        self.transcript: Transcript = Transcript(seen_at=party)
        self.replies: dict[str, Any] = {}
        self.inbox: deque[dict[str, Any]] = deque()
        self.ended: bool = False
        self._strict = strict
        self._tolerated = frozenset(tolerate)
        self._patience = patience
        self._referee = Referee(seen_at=party)
        self._ids = 0
        self._far_end: MemoryStream | None = None

    @classmethod
    def in_memory(cls, *args: Any, **options: Any) -> Self:
        """Make a peer and the connection that it is an end of; ``far_end`` is the other one.

        Args:
            args: the arguments of the class behind its stream.
            options: its keyword arguments.
        """
        near, far = open_memory_pair()
        peer = cls(near, *args, **options)
        peer._far_end = far
        return peer

    @property
    def far_end(self) -> MemoryStream:
        """The other end of the connection, for the program under test.

        Raises:
            RuntimeError: this peer was not made by `in_memory`.
        """
        if self._far_end is None:
            raise RuntimeError("this peer was given its stream; only in_memory() knows the other end")
        return self._far_end

    # Receiving -----------------------------------------------------------------------------------------

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message of the other side, None when it has closed its end.

        Raises:
            IllegalConversation: it breaks a rule.
            trio.TooSlowError: nothing came.
        """
        with trio.fail_after(self._patience):
            while not self.inbox and not self.ended:
                self._take(await self.stream.receive_some(READ_BYTES))
        return self.inbox.popleft() if self.inbox else None

    def _take(self, data: bytes | bytearray) -> None:
        self.ended = self.ended or not data
        if data:
            for entry in self.transcript.feed(other_party(self.party), data):
                self.inbox.append(entry.message)
                self._judge(entry)

    def _judge(self, entry: Entry) -> None:
        for violation in self._referee.see(entry):
            blamed = violation.side != self.party and violation.rule not in self._tolerated
            if self._strict and blamed:
                raise IllegalConversation(violation, self.transcript)

    async def expect(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Return the next message, which has to be a call of that method.

        Args:
            method: the method.
            params: parameters that it has to have; it may have others.

        Raises:
            AssertionError: another message came, or the end.
        """
        message = await self._next(method)
        assert message.get("method") == method, f"expected {method}, got {message}"
        given: dict[str, Any] = message.get("params") or {}
        assert {key: given.get(key) for key in params} == params, f"expected {method} {params}, got {message}"
        return message

    async def expect_result(self, id: Any) -> Any:
        """Return the result in the next message, which has to answer the request with that id."""
        message = await self._answer_to(id)
        assert "result" in message, f"expected the result of {id!r}, got {message}"
        return message["result"]

    async def expect_error(self, id: Any, code: int | None = None) -> dict[str, Any]:
        """Return the error in the next message, which has to answer the request with that id.

        Args:
            id: of the request.
            code: that the error has to have; None for any.
        """
        message = await self._answer_to(id)
        assert "error" in message, f"expected an error for {id!r}, got {message}"
        error: dict[str, Any] = message["error"]
        assert code is None or error["code"] == code, f"expected the error {code} for {id!r}, got {error}"
        return error

    async def _answer_to(self, id: Any) -> dict[str, Any]:
        message = await self._next(f"an answer to {id!r}")
        fits = "method" not in message and type(message.get("id")) is type(id) and message["id"] == id
        assert fits, f"expected an answer to {id!r}, got {message}"
        return message

    async def _next(self, wanted: str) -> dict[str, Any]:
        message = await self.receive()
        assert message is not None, f"the {other_party(self.party)} closed the connection instead of {wanted}"
        return message

    async def expect_nothing(self) -> None:
        """Let everything run that can, and check that nothing more has arrived."""
        illegal: list[IllegalConversation] = []

        async def read() -> None:
            try:
                while not self.ended:
                    self._take(await self.stream.receive_some(READ_BYTES))
            except IllegalConversation as error:
                illegal.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        if illegal:
            raise illegal[0]
        assert not self.inbox, f"expected nothing, got {list(self.inbox)}"

    async def expect_close(self) -> None:
        """Wait for the other side to close its end; it may not send anything before that."""
        message = await self.receive()
        assert message is None, f"expected the end of the connection, got {message}"

    async def wait_for_answer(self, id: Any) -> Any:
        """Read on until the answer to a request comes, and return its result.

        Notifications that come before it are passed over (the transcript has them); requests are answered
        from ``replies``.

        Raises:
            PeerError: the answer is an error.
            AssertionError: a request came for which ``replies`` has nothing, or the end.
        """
        while True:
            message = await self._next(f"an answer to {id!r}")
            if "method" in message:
                await self._serve(message)
            elif type(message.get("id")) is type(id) and message["id"] == id:
                if "error" in message:
                    error = message["error"]
                    raise PeerError(error["code"], error["message"], error.get("data"))
                return message["result"]

    async def serve_until_closed(self) -> None:
        """Read until the other side closes its end; requests are answered from ``replies``."""
        while (message := await self.receive()) is not None:
            if "method" in message:
                await self._serve(message)

    async def _serve(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            return
        assert message["method"] in self.replies, f"nothing was said about answering {message}"
        reply = self.replies[message["method"]]
        if callable(reply):
            reply = reply(message.get("params") or {})
        if isinstance(reply, PeerError):
            await self.send({"jsonrpc": "2.0", "id": message["id"], "error": reply.to_wire()})
        elif reply is not HOLD:
            await self.reply(message, reply)

    # Sending -------------------------------------------------------------------------------------------

    async def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, whatever they are."""
        for entry in self.transcript.feed(self.party, data):
            self._judge(entry)
        with trio.fail_after(self._patience):
            await self.stream.send_all(data)

    async def send(self, *messages: Any) -> None:
        """Send messages as one piece."""
        await self.send_raw(b"".join(map(as_line, messages)))

    def make_request(self, method: str, params: Any, id: Any = None) -> dict[str, Any]:
        """Return a request, to be sent with `send`.

        Args:
            method: its method.
            params: its parameters.
            id: its id; None for a fresh one.
        """
        self._ids += 1
        fresh = f"{self.party[0]}{self._ids}"
        return {
            "jsonrpc": "2.0",
            "id": fresh if id is None else id,
            "method": method,
            "params": params,
        }

    async def request(self, method: str, params: Any, id: Any = None) -> Any:
        """Send a request and return its id; the answer is not waited for.

        Args:
            method: its method.
            params: its parameters.
            id: its id; None for a fresh one.
        """
        message = self.make_request(method, params, id)
        await self.send(message)
        return message["id"]

    async def call(self, method: str, params: Any) -> Any:
        """Send a request and return its result; see `wait_for_answer`.

        Args:
            method: its method.
            params: its parameters.

        Raises:
            PeerError: it was answered with an error.
        """
        return await self.wait_for_answer(await self.request(method, params))

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification.

        Args:
            method: its method.
            params: its parameters.
        """
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def reply(self, request: dict[str, Any], result: Any) -> None:
        """Answer a request of the other side.

        Args:
            request: the whole message.
            result: the result.
        """
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def reply_error(self, request: dict[str, Any], code: int, message: str = "no") -> None:
        """Answer a request of the other side with an error.

        Args:
            request: the whole message.
            code: the error's code.
            message: its text.
        """
        error = PeerError(code, message).to_wire()
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    async def withdraw(self, id: Any) -> None:
        """Take a request of this side back (X4)."""
        await self.notify("$/cancel_request", {"requestId": id})

    async def sleep(self, seconds: float) -> None:
        """Wait, on the clock of the run: no time at all under `trio.testing.MockClock` with autojump."""
        await trio.sleep(seconds)

    # The end -------------------------------------------------------------------------------------------

    async def send_eof(self) -> None:
        """Say that nothing more will be sent; receiving goes on."""
        assert isinstance(self.stream, trio.abc.HalfCloseableStream), "this stream has no half to close"
        await self.stream.send_eof()

    async def aclose(self) -> None:
        """Close this end, as the end of a process would."""
        await self.stream.aclose()

    def assert_finished(self) -> None:
        """Check that the other side left in peace: whole lines, requests answered, terminals released.

        Raises:
            IllegalConversation: something is missing.
        """
        other = other_party(self.party)
        self._referee.unfinished_line(other, self.transcript.unfinished(other))
        for violation in self._referee.finish():
            if violation.side == other:
                raise IllegalConversation(violation, self.transcript)

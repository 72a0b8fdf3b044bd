"""The agent as a model: messages in, text out, over one session that is kept warm."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, final

import trio

from trio_acp._errors import LocalProtocolError, SessionBusy, TurnCancelled

from ._session import Session
from ._turn import Turn

__all__ = ["Conversation", "Messages"]

Messages: TypeAlias = str | Sequence[tuple[str, str]]
"""The next message, or a whole history as (role, text) pairs."""

_ROLES: Final = {"system": "System", "user": "User", "assistant": "Assistant"}

_running: contextvars.ContextVar[tuple[Conversation, ...]] = contextvars.ContextVar(
    "trio_acp_generating", default=()
)
"""The conversations whose turn the current task works for: handlers run in their turn's context."""


class _Call:
    """One call of `Conversation.generate`, from its turn in the line to its end."""

    __slots__ = ("stopped", "turn")

    def __init__(self) -> None:
        self.stopped = False
        self.turn: Turn | None = None

    def stop(self) -> None:
        """End it, and its turn when it has one, now or later."""
        self.stopped = True
        if self.turn is not None:
            self.turn.cancel()

    def begin(self, turn: Turn) -> None:
        """Its turn has begun, perhaps too late."""
        self.turn = turn
        if self.stopped:
            turn.cancel()


@final
class Conversation:
    """One session and what it has seen.

    Args:
        new_session: makes a session when one is needed.
    """

    def __init__(self, new_session: Callable[[], Awaitable[Session]]) -> None:
        self._new_session = new_session
        self._lock = trio.Lock()
        self._session: Session | None = None
        self._seen: list[tuple[str, str]] = []
        self._call: _Call | None = None

    def cancel(self) -> None:
        """Stop the call that runs, if there is one."""
        if self._call is not None:
            self._call.stop()

    async def generate(self, messages: Messages) -> str:
        """See `ConnectedAgent.generate`."""
        if self in _running.get():
            session_id = "" if self._session is None else self._session.id
            raise SessionBusy(
                session_id,
                "generate was called from a handler of the turn that it would wait for; "
                "use another session for that",
            )
        history = None if isinstance(messages, str) else _checked(messages)
        async with self._lock:
            self._call = call = _Call()
            token = _running.set((*_running.get(), self))
            try:
                text = await self._answer(call, messages, history)
            finally:
                _running.reset(token)
                self._call = None
            asked = [*self._seen, ("user", messages)] if isinstance(messages, str) else list(history or ())
            self._seen = [*asked, ("assistant", text)]
            return text

    async def _answer(self, call: _Call, messages: Messages, history: list[tuple[str, str]] | None) -> str:
        prompt = await self._prepare(messages if isinstance(messages, str) else None, history)
        assert self._session is not None
        if call.stopped:
            raise TurnCancelled
        async with self._session.prompt(prompt) as turn:
            call.begin(turn)
            await turn.wait()
        if turn.cancel_requested:
            raise TurnCancelled(turn.text)
        return turn.text

    async def _prepare(self, message: str | None, history: list[tuple[str, str]] | None) -> str:
        """Have a session that the prompt fits, and return the prompt."""
        if message is not None:
            if self._session is None:
                self._session = await self._new_session()
            return message
        assert history is not None
        seen = self._seen
        news = history[len(seen) :]
        if (
            self._session is None
            or not _continues(history, seen)
            or any(role == "assistant" for role, _ in news)
        ):
            old, self._session = self._session, None
            if old is not None:
                old.discard()
            self._session = await self._new_session()
            self._seen = []
            news = history
        if all(role == "user" for role, _ in news):
            return "\n\n".join(text for _, text in news)
        return _rendered(news)


def _checked(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    history = [(role, text) for role, text in messages]
    for role, _ in history:
        if role not in _ROLES:
            raise LocalProtocolError(f"the role {role!r} is unknown; use one of {', '.join(_ROLES)}")
    if not history or history[-1][0] != "user":
        raise LocalProtocolError("the last message must be a user's: it is what the agent answers")
    return history


def _continues(history: list[tuple[str, str]], seen: list[tuple[str, str]]) -> bool:
    """True if the history begins with what the session has seen, white space around texts aside."""
    return len(history) > len(seen) and all(
        ours[0] == theirs[0] and ours[1].strip() == theirs[1].strip()
        for ours, theirs in zip(history, seen, strict=False)
    )


def _rendered(messages: list[tuple[str, str]]) -> str:
    return "\n\n".join(f"{_ROLES[role]}: {text}" for role, text in messages)

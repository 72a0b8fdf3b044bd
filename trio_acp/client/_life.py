"""The life of sessions beyond one connection: finding them, opening them again, knowing when one is gone."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, final

import trio

from trio_acp._errors import (
    AuthRequired,
    InvalidResponse,
    MethodNotFound,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
)
from trio_acp.schema import ListSessionsResponse, SessionInfo

from ._session import Session

__all__ = ["MAX_PAGES", "RecoveredSession", "Recovery", "SessionList", "no_such_session", "recover"]

MAX_PAGES: Final = 10_000
"""Pages of one list of sessions: an agent whose list does not end is not followed for ever."""

MAX_TEXT_DEPTH: Final = 4
"""Nesting of an error's data in which its words are looked for."""

MAX_ERROR_TEXT: Final = 4096
"""Characters of each text of an error in which words are looked for."""

_NO_SUCH_SESSION_CODE: Final = -32001
"""Not a code of the protocol, but one that agents use for it."""

_THING = r"(?:session|thread|conversation|rollout)"
_WORDS: Final = re.compile(
    rf"{_THING}\b[^.]{{0,200}}?\b(?:not[ _]?found|not exist|doesn't exist|unknown|no longer exists|expired)"
    rf"|\b(?:no|unknown|missing|invalid|not find|non-?existent)\s+(?:such\s+|saved\s+)?{_THING}"
    rf"|\bno\b[^.]{{0,40}}\b{_THING}\b[^.]{{0,40}}\b(?:found|exists?|with)\b"
    rf"|{_THING}_?not_?found",
    re.IGNORECASE,
)


def no_such_session(error: BaseException) -> bool:
    """Tell whether an agent says by an error that it does not have the session.

    There is no agreed code for that. Agents use -32002 (`ResourceNotFound`), -32001, -32602 or -32603, and
    say what they mean in the message or in the data; this looks at all of it. The error itself keeps code
    and data as they came.

    Args:
        error: what a call about a session has raised.
    """
    if not isinstance(error, RequestError):
        return False
    if isinstance(error, ResourceNotFound):
        return True
    if isinstance(error, (AuthRequired, MethodNotFound, RequestCancelled)):
        return False
    words = [error.message, *_texts(error.data, MAX_TEXT_DEPTH)]
    if error.code == _NO_SUCH_SESSION_CODE and any("not found" in text.lower() for text in words):
        return True
    return any(_WORDS.search(text[:MAX_ERROR_TEXT]) for text in words)


def _texts(data: Any, depth: int) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif depth and isinstance(data, dict):
        for value in cast("dict[str, Any]", data).values():
            yield from _texts(value, depth - 1)
    elif depth and isinstance(data, list):
        for value in cast("list[object]", data):
            yield from _texts(value, depth - 1)


# Finding them --------------------------------------------------------------------------------------------


@final
class SessionList:
    """The sessions that an agent has, to be iterated over; made by `ConnectedAgent.list_sessions` (S3).

    The pages are fetched as they are needed. One task may iterate at a time.

    Cancellation: the iteration can go on afterwards; nothing was skipped.

    Raises, while iterating:
        AuthRequired: the agent wants `ConnectedAgent.authenticate` first.
        RequestError: the agent refused.
        InvalidResponse: its answer does not fit the schema, or its list does not end.
        ConnectionLost, ConnectionClosed: the connection ended.
        trio.BusyResourceError: another task is iterating.
    """

    def __init__(self, fetch: Callable[[str | None], Awaitable[ListSessionsResponse]]) -> None:
        self._fetch = fetch
        self._page: list[SessionInfo] = []
        self._index = 0
        self._cursor: str | None = None
        self._cursors = set[str]()
        self._last = False
        self._busy = False

    def __aiter__(self) -> SessionList:
        return self

    async def __anext__(self) -> SessionInfo:
        """Return the next session."""
        if self._busy:
            raise trio.BusyResourceError("another task is iterating over this list")
        self._busy = True
        try:
            await trio.lowlevel.checkpoint()
            while self._index >= len(self._page):
                if self._last:
                    raise StopAsyncIteration
                self._take(await self._fetch(self._cursor))
        finally:
            self._busy = False
        info = self._page[self._index]
        self._index += 1
        return info

    def _take(self, page: ListSessionsResponse) -> None:
        cursor = page.next_cursor
        if cursor is not None:
            if cursor in self._cursors or len(self._cursors) >= MAX_PAGES:
                raise InvalidResponse("the agent's list of sessions does not end: a cursor came again")
            self._cursors.add(cursor)
        self._page, self._index, self._cursor = page.sessions, 0, cursor
        self._last = cursor is None


# Opening them again --------------------------------------------------------------------------------------

Recovery: TypeAlias = Literal["resumed", "loaded", "replaced"]
"""How a session was recovered."""


class RecoveredSession(NamedTuple):
    """What `ConnectedAgent.recover_session` did.

    Attributes:
        session: the session, to be used from now on.
        how: ``"resumed"``: the conversation goes on, nothing was replayed. ``"loaded"``: it goes on, and
            ``session.replay`` has it. ``"replaced"``: the agent does not have it any more; this is a new,
            empty session with another id.
    """

    session: Session
    how: Recovery


async def recover(
    resume: Callable[[], Awaitable[Session]] | None,
    load: Callable[[], Awaitable[Session]] | None,
    new: Callable[[], Awaitable[Session]],
    missing: Callable[[], Awaitable[bool]],
) -> RecoveredSession:
    """Try what the agent offers, the cheapest first; see `ConnectedAgent.recover_session`.

    Args:
        resume: resumes the session; None where the agent does not offer that.
        load: loads it; None where the agent does not offer that.
        new: makes another one.
        missing: tells whether the agent lists its sessions, and not this one.
    """
    ways: list[tuple[Callable[[], Awaitable[Session]] | None, Recovery]] = [
        (resume, "resumed"),
        (load, "loaded"),
    ]
    failures: list[RequestError] = []
    for attempt, how in ways:
        if attempt is None:
            continue
        try:
            return RecoveredSession(await attempt(), how)
        except RequestError as error:
            if isinstance(error, (AuthRequired, RequestCancelled)):
                raise
            # What an agent cannot resume, for whatever reason, it may be able to load.
            failures.append(error)
    # An agent that merely fails must not cost a conversation.
    if failures and not no_such_session(failures[-1]) and not await missing():
        raise failures[-1]
    return RecoveredSession(await new(), "replaced")

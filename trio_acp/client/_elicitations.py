"""Addresses that the agent had opened, until it says that what they were opened for is over (E3)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from trio_acp._errors import SchemaError
from trio_acp._peer import IncomingRequest
from trio_acp.schema import (
    CompleteElicitationNotification,
    CreateElicitationRequest,
    CreateElicitationUrlRequest,
    structure,
)

__all__ = ["MAX_OPEN_ELICITATIONS", "ElicitationHook", "Elicitations"]

logger = logging.getLogger("trio_acp.client")

MAX_OPEN_ELICITATIONS: Final = 256
"""Addresses of which it is known whether they are over; of more, the oldest is forgotten."""

ElicitationHook: TypeAlias = Callable[[CreateElicitationUrlRequest], object]
"""Is told that what an address was opened for is over, with the request that asked for it; synchronous."""


@attrs.define(eq=False)
class _Asked:
    """One address that the agent asked to be opened."""

    request: CreateElicitationUrlRequest
    over: trio.Event = attrs.field(factory=trio.Event)
    completed: bool = False


@final
class Elicitations:
    """The url elicitations of one connection, by their ids.

    They are known from the moment in which they arrive, for the agent may be faster than the person who is
    asked. One that was not accepted, was withdrawn, or whose session is no more, is forgotten: what the agent
    says of it then is stale, and ignored like an id that never was.

    Args:
        hook: is told of those that are over; None for nobody.
        failed: called with what the hook raises.
    """

    def __init__(self, hook: ElicitationHook | None, failed: Callable[[BaseException], None]) -> None:
        self.ignored: int = 0
        """Completions that were about nothing that is known here."""
        self._hook = hook
        self._failed = failed
        self._asked: dict[str, _Asked] = {}

    # In the read loop ----------------------------------------------------------------------------------

    def watch(
        self, incoming: IncomingRequest, handler: Callable[[], Awaitable[Any]]
    ) -> Callable[[], Awaitable[Any]]:
        """Take note of an ``elicitation/create``, and return its handler with the end of that note."""
        try:
            request: CreateElicitationRequest = structure(CreateElicitationRequest, incoming.params)
        except SchemaError:
            return handler  # which finds the same
        if not isinstance(request, CreateElicitationUrlRequest):
            return handler
        id = request.elicitation_id
        # An id that is used again means the newer one.
        self._forget(id)
        while len(self._asked) >= MAX_OPEN_ELICITATIONS:
            self._forget(next(iter(self._asked)))
        asked = self._asked[id] = _Asked(request)

        async def watched() -> Any:
            accepted = False
            try:
                result = await handler()
                accepted = result["action"] == "accept" and not incoming.cancelled
            finally:
                if not accepted and self._asked.get(id) is asked:
                    self._forget(id)
            return result

        return watched

    def complete(self, params: dict[str, Any]) -> None:
        """Act on ``elicitation/complete``: once for each id that is known."""
        try:
            id = structure(CompleteElicitationNotification, params).elicitation_id
        except SchemaError as mismatch:
            logger.warning("dropped a notification: %s", mismatch)
            return
        asked = self._asked.get(id)
        if asked is None or asked.completed:
            self.ignored += 1
            logger.info("ignored the completion of an elicitation that is not open: %.100r", id)
            return
        asked.completed = True
        asked.over.set()
        if self._hook is not None:
            try:
                self._hook(asked.request)
            except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
                self._failed(error)

    def end_session(self, session_id: str) -> None:
        """Forget those of a session that is no more."""
        for id in [id for id, asked in self._asked.items() if asked.request.session_id == session_id]:
            self._forget(id)

    def end(self) -> None:
        """Let go of those who wait: the agent has gone."""
        for asked in self._asked.values():
            asked.over.set()

    def _forget(self, id: str) -> None:
        asked = self._asked.pop(id, None)
        if asked is not None:
            asked.over.set()

    # For the application -------------------------------------------------------------------------------

    async def wait(self, id: str) -> bool:
        """Wait for the end of one; true if the agent told of it."""
        asked = self._asked.get(id)
        if asked is None:
            await trio.lowlevel.checkpoint()
            return False
        await asked.over.wait()
        return asked.completed

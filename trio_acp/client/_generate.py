"""The agent as a model: messages in, text or events out, over sessions that are kept warm."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, final

import trio

from trio_acp._cancellation import only_cancelled, unwrapped
from trio_acp._errors import AcpError, SessionBusy, TurnCancelled
from trio_acp._nesting import Inside, is_inside
from trio_acp.schema import ContentBlock, PromptCapabilities, TextContent

from ._events import Done, ErrorEvent, ModelEvent, ModelReply, Narrator
from ._messages import Asked, Entry, Messages, Seen, read_messages, rendered
from ._session import Session
from ._turn import Turn

__all__ = ["MAX_CONVERSATIONS", "Conversations", "GenerateStream"]

MAX_CONVERSATIONS: Final = 256
"""Conversations with an id that are kept warm; the one that was idle longest is given up first. An agent
holds a whole session for each."""


@final
class _Call:
    """One call of a conversation, from its place in the line to its end."""

    def __init__(self) -> None:
        self.stopped: bool = False
        self.turn: Turn | None = None
        self.line: trio.CancelScope = trio.CancelScope()
        """Around the wait for its turn to come."""

    def stop(self) -> None:
        """End it, and its turn when it has one, now or later."""
        self.stopped = True
        self.line.cancel()
        if self.turn is not None:
            self.turn.cancel()

    def begin(self, turn: Turn) -> None:
        """Its turn has begun, perhaps too late."""
        self.turn = turn
        if self.stopped:
            turn.cancel()


@final
class _Conversation:
    """One session and what it has seen.

    Args:
        new_session: makes a session when one is needed.
    """

    def __init__(self, new_session: Callable[[], Awaitable[Session]]) -> None:
        self._new_session = new_session
        self._lock = trio.Lock()
        self._seen = Seen()
        self._unanswered = Seen()
        """What was sent besides and not answered: it is sent again if repeated, but cannot be unsaid."""
        self._sent: list[Entry] = []
        """What the newest prompt said."""
        self.session: Session | None = None
        self.call: _Call | None = None
        self.users: int = 0
        """Calls that run or wait in line."""

    def refuse_inner_call(self) -> None:
        """Refuse a call that would wait for a turn that waits for the caller."""
        if self.call is not None and is_inside(self.call):
            raise SessionBusy(
                "" if self.session is None else self.session.id,
                "this was called from a handler of the turn that it would wait for, or from the body of its "
                "stream; use another conversation for that",
            )

    def enter(self) -> None:
        """Somebody uses it: it must not be given up. `exit` has to follow."""
        self.users += 1

    def exit(self) -> None:
        """One of its users has done with it."""
        self.users -= 1

    async def wait_in_line(self, call: _Call) -> None:
        """Wait until no other call runs; `leave` has to follow.

        Raises:
            TurnCancelled: the call was stopped.
        """
        with call.line:
            await self._lock.acquire()
            self.call = call
        if self.call is not call:
            raise TurnCancelled

    def leave(self) -> None:
        """Let the next call run."""
        self.call = None
        self._lock.release()

    async def prepare(self, asked: Asked) -> tuple[Session, list[str | ContentBlock]]:
        """Have a session that the prompt fits, and return both."""
        session = self.session
        if session is not None and session.closed:
            self._give_up()
            session = None
        news = asked.entries
        if asked.whole and session is not None:
            unseen = self._seen.news(news)
            if (
                unseen is None
                or any(role == "assistant" for role, _ in unseen)
                or not self._unanswered.begins(unseen)
            ):
                self._give_up()
                session = None
            else:
                news = unseen
        if session is None:
            session = self.session = await self._new_session()
        self._sent = news
        return session, rendered(news)

    def unanswered(self, asked: Asked) -> None:
        """The session has seen what was sent, and said nothing that counts."""
        if asked.whole:
            self._unanswered = Seen()
        self._unanswered.add(self._sent)

    def answered(self, asked: Asked, text: str) -> None:
        """The session has seen this and said that."""
        if asked.whole:
            self._seen = Seen()
        self._unanswered = Seen()
        self._seen.add(asked.entries)
        self._seen.add([("assistant", [TextContent(text)])])

    def _give_up(self) -> None:
        self._seen, self._unanswered = Seen(), Seen()
        session, self.session = self.session, None
        if session is not None and not session.closed:
            session.discard()

    def close(self) -> None:
        """Nobody comes back to it."""
        self._give_up()


@final
class Conversations:
    """The conversations of one agent, by id.

    Args:
        new_session: makes a session when one is needed.
        capabilities: what prompts may hold.
    """

    def __init__(
        self, new_session: Callable[[], Awaitable[Session]], capabilities: PromptCapabilities
    ) -> None:
        self._new_session = new_session
        self._kept: dict[str | None, _Conversation] = {}
        """The one that was used last is last."""
        self.capabilities: PromptCapabilities = capabilities

    def get(self, id: str | None) -> _Conversation:
        """Return a conversation, a new one if need be; give the oldest idle one up if there are too many."""
        conversation = self._kept.pop(id, None) or _Conversation(self._new_session)
        self._kept[id] = conversation
        idle = [key for key, kept in self._kept.items() if key not in (None, id) and not kept.users]
        for key in idle[: max(0, len(self._kept) - MAX_CONVERSATIONS)]:
            self._kept.pop(key).close()
        return conversation

    def cancel(self, id: str | None) -> None:
        """Stop the call that runs in a conversation, if there is one."""
        conversation = self._kept.get(id)
        if conversation is not None and conversation.call is not None:
            conversation.call.stop()

    async def generate(self, messages: Messages, id: str | None, cancel: trio.Event | None) -> str:
        """See `ConnectedAgent.generate`."""
        async with GenerateStream(self, messages, id, cancel) as stream:
            await stream.turn.wait()
        if stream.turn.cancel_requested:
            raise TurnCancelled(stream.turn.text)
        return stream.turn.text


@final
class _Watcher:
    """A block in which an event stops a call.

    Args:
        event: the event.
        call: the call.
    """

    def __init__(self, event: trio.Event, call: _Call) -> None:
        self._event = event
        self._call = call
        self._manager: Any = trio.open_nursery()
        self._nursery: trio.Nursery | None = None

    async def _watch(self) -> None:
        await self._event.wait()
        self._call.stop()

    async def __aenter__(self) -> None:
        nursery: trio.Nursery = await self._manager.__aenter__()
        self._nursery = nursery
        if self._event.is_set():
            self._call.stop()  # at once, so that nothing is sent
        else:
            nursery.start_soon(self._watch)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        try:
            # Not given what the block raises, so that it leaves as itself and not in a group.
            await self._manager.__aexit__(None, None, None)  # noqa: ASYNC102 - ends a task that only waits
        except BaseException as error:  # noqa: ASYNC103 - what goes on instead is real
            left = unwrapped(error)
            if exc is None or not only_cancelled(left):
                raise left from None  # noqa: ASYNC104 - the cancellation itself, where there is no more


@final
class GenerateStream:
    """The events of one reply; made by `ConnectedAgent.generate_stream`.

    Use it as an async context manager, and iterate over it::

        async with agent.generate_stream("explain this function") as events:
            async for event in events:
                ...

    The last event is a `Done` with the whole reply, or an `ErrorEvent`, after which the iteration raises
    that error. Leaving the block before the end cancels the turn; the session stays warm. What else leaves
    the block, and what cancellation does, is as for `Turn`; so are the bounds of a slow consumer.

    Raises from the iteration:
        TurnCancelled: `ConnectedAgent.cancel` was called, or the token was set.
        RequestError, ConnectionLost, ConnectionClosed: see `Turn`.
        trio.BusyResourceError: another task is iterating.
    """

    def __init__(
        self,
        conversations: Conversations,
        messages: Messages,
        id: str | None,
        cancel: trio.Event | None,
    ) -> None:
        self._conversations = conversations
        self._messages = messages
        self._id = id
        self._cancel = cancel
        self._stack: contextlib.AsyncExitStack | None = None
        self._turn: Turn | None = None
        self._narrator = Narrator()
        self._ready: deque[ModelEvent] = deque()
        self._ended = False
        self._error: AcpError | None = None

    def __repr__(self) -> str:
        return f"<GenerateStream {self._turn or 'not entered'}>"

    @property
    def turn(self) -> Turn:
        """The turn that gives the reply, for those who want to see more of it; not to be iterated over."""
        if self._turn is None:
            raise RuntimeError("enter the stream first: async with agent.generate_stream(...) as events")
        return self._turn

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> GenerateStream:
        """Wait for the conversation to be free, and send the prompt.

        Raises:
            TurnCancelled: it was stopped before it began.
            SessionBusy: called from inside the very turn that it would have to wait for.
            LocalProtocolError, CapabilityError: messages that cannot be sent; nothing was.
            Exception: what `ConnectedAgent.new_session` and `Turn` raise.
        """
        if self._stack is not None:
            raise RuntimeError("a stream can be entered once; call generate_stream again")
        self._stack = contextlib.AsyncExitStack()
        asked = read_messages(self._messages, self._conversations.capabilities)
        conversation = self._conversations.get(self._id)
        conversation.refuse_inner_call()
        call = _Call()
        async with contextlib.AsyncExitStack() as stack:
            conversation.enter()
            stack.callback(conversation.exit)
            if self._cancel is not None:
                await stack.enter_async_context(_Watcher(self._cancel, call))
            await conversation.wait_in_line(call)
            stack.callback(conversation.leave)
            inside = Inside(call)
            inside.enter()
            stack.callback(inside.leave)
            stack.enter_context(inside.of_taker())
            session, content = await conversation.prepare(asked)
            if call.stopped:
                raise TurnCancelled
            stack.callback(self._record, conversation, asked)
            self._turn = turn = await stack.enter_async_context(session.prompt(content))
            call.begin(turn)
            self._stack = stack.pop_all()
        return self

    def _record(self, conversation: _Conversation, asked: Asked) -> None:
        turn = self._turn
        if turn is None:
            return
        if turn.stop_reason is not None and not turn.cancel_requested:
            conversation.answered(asked, turn.text)
        else:
            conversation.unanswered(asked)

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        assert self._stack is not None
        if exc is None:
            self.turn.cancel()  # left early; nothing happens after the end
        # A turn's end is shielded and bounded by itself.
        return bool(await self._stack.__aexit__(exc_type, exc, traceback))  # noqa: ASYNC102

    def __aiter__(self) -> GenerateStream:
        return self

    async def __anext__(self) -> ModelEvent:
        """Return the next event. Looks for cancellation at every event.

        Raises:
            See the class.
        """
        turn = self.turn
        while not self._ready and not self._ended:
            try:
                self._ready += self._narrator.events(await anext(turn))
            except StopAsyncIteration:
                self._end(TurnCancelled(turn.text) if turn.cancel_requested else None)
            except AcpError as error:
                self._end(error)
        # Also where a failed handler has cancelled the block: its exception is the one to leave it.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._ready:
            return self._ready.popleft()
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def _end(self, error: AcpError | None) -> None:
        self._ended = True
        self._error = error
        self._ready += self._narrator.left_open()
        if error is not None:
            self._ready.append(ErrorEvent(error))
            return
        turn = self.turn
        calls, results = self._narrator.tools()
        self._ready.append(
            Done(ModelReply(turn.text, calls, results, usage=turn.usage, stop_reason=turn.stop_reason))
        )

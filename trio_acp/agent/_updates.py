"""What an agent tells its client: session updates, built once for the turn and for the session (T2, S8).

The updates of a running answer are the hot path of an agent, so the small ones are built as JSON values
directly; all others go through the converter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_acp._core import TextFrames
from trio_acp._errors import CapabilityError, LocalProtocolError, SchemaError
from trio_acp.schema import (
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    Cost,
    CurrentModeUpdate,
    Leniency,
    Notice,
    Plan,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionInfoUpdate,
    SessionUpdate,
    UnknownVariant,
    UsageUpdate,
    WireObject,
    structure_update,
    unstructure,
    unstructure_update,
)

if TYPE_CHECKING:
    from ._live import LiveSession

__all__ = ["Emitter", "UpdateSender", "check_update", "content_to_wire", "for_client", "read_update"]

CHUNKS: Final = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
"""Updates that are pieces of a message (T5)."""

CLOSES_MESSAGE: Final = frozenset({"tool_call", "tool_call_update", "plan"})
"""Updates after which text belongs to another message: people see them between the two."""

NEEDS_CAPABILITY: Final[Mapping[str, str]] = {
    "notice": "session.notices",
    "compaction_update": "session.compaction",
    "compaction_summary_chunk": "session.compaction",
}
"""The client's capability that each of these updates needs (I3)."""


def content_to_wire(content: str | ContentBlock) -> dict[str, Any]:
    """Return a content block as JSON values; a string is a block of text."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    wire: dict[str, Any] = unstructure(content, ContentBlock)
    return wire


def for_client(options: Iterable[SessionConfigOption], *, boolean: bool) -> list[SessionConfigOption]:
    """Leave out the options that a client without ``session.configOptions.boolean`` cannot show (S7)."""
    return [option for option in options if boolean or not isinstance(option, SessionConfigBoolean)]


class Emitter:
    """Sends the updates of one session, or of one turn of it, and keeps track of messages (T5)."""

    __slots__ = ("_chunk_tag", "_frames", "_message_id", "closed", "live")

    def __init__(self, live: LiveSession) -> None:
        self.live: LiveSession = live
        self.closed: str = ""
        """Why updates are refused from now on: what is told later would come after the turn's answer (X2)."""
        self._chunk_tag = ""
        self._message_id = ""
        self._frames: TextFrames | None = None
        """Makes the frames of the open message, once there was text in it."""

    def check_open(self) -> None:
        """Raise unless updates may be sent.

        Raises:
            LocalProtocolError: the turn has been answered, or the session is closed.
        """
        if self.closed:
            raise LocalProtocolError(self.closed)
        self.live.check_open()

    def new_message(self) -> None:
        """Let the next chunk begin a new message."""
        self._chunk_tag = ""

    def _go_on(self, tag: str, message_id: str | None) -> None:
        """Go on with the open message if there is one of this kind, else begin one."""
        if tag == self._chunk_tag and (message_id is None or message_id == self._message_id):
            return
        if message_id is not None and not isinstance(message_id, str):
            raise SchemaError(("messageId",), f"expected a string, got {message_id!r:.40}")
        self._message_id = self.live.new_id("msg") if message_id is None else message_id
        self._chunk_tag = tag
        self._frames = None

    async def chunk(self, tag: str, content: str | ContentBlock, message_id: str | None) -> None:
        """Send a piece of a message."""
        self._go_on(tag, message_id)
        update = {"sessionUpdate": tag, "content": content_to_wire(content), "messageId": self._message_id}
        await self.live.deliver(update, self.check_open)

    def text_at_once(self, tag: str, content: str | ContentBlock, message_id: str | None) -> bool:
        """Send a piece of a message if it is text and nothing at all has to be waited for.

        The short way of a chunk, 2.1 us and not 2.9, for callers that have just looked for cancellation.
        False: nothing was sent, and `chunk` has to be awaited.
        """
        live = self.live
        if not isinstance(content, str) or live.opening is not None or live.recorder is not None:
            return False
        if self.closed or live.closed:
            self.check_open()
        frames = self._frames
        if frames is None or tag != self._chunk_tag or message_id is not None:
            frames = self._frames_for(tag, message_id)
        return live.peer.text_at_once(frames, content)

    def _frames_for(self, tag: str, message_id: str | None) -> TextFrames:
        """Return what makes the frames of a message, the open one or a new one."""
        self._go_on(tag, message_id)
        if self._frames is None:
            self._frames = self.live.text_frames(tag).with_id(self._message_id)
        return self._frames

    async def send(self, update: dict[str, Any]) -> None:
        """Send any other update when there is room for it."""
        self._prepare(update)
        await self.live.deliver(update, self.check_open)

    def send_nowait(self, update: dict[str, Any]) -> None:
        """Send an update at once, for the paths on which nothing may wait: the end of a tool call."""
        self._prepare(update)
        self.live.deliver_nowait(update)

    def text_nowait(self, text: str) -> None:
        """Send a piece of the agent's message at once."""
        self.check_open()
        self._go_on("agent_message_chunk", None)
        self.live.deliver_nowait(
            {
                "sessionUpdate": "agent_message_chunk",
                "content": content_to_wire(text),
                "messageId": self._message_id,
            }
        )

    def check_offered(self, tag: str) -> None:
        """Raise unless an update of that kind may be sent.

        Raises:
            LocalProtocolError: see `check_open`.
            CapabilityError: the client does not advertise what it needs.
        """
        self.check_open()
        needed = NEEDS_CAPABILITY.get(tag)
        if needed is not None and not self.live.client.offers(needed):
            raise CapabilityError(f"clientCapabilities.{needed}")

    def _prepare(self, update: dict[str, Any]) -> None:
        tag = update["sessionUpdate"]
        self.check_offered(tag)
        if tag in CLOSES_MESSAGE:
            self._chunk_tag = ""


class UpdateSender:
    """The updates that can be sent about a session, in a turn or outside of one.

    All of them check for cancellation and may wait while the client does not read. Cancelled, an update
    is sent whole or not at all. They raise `trio_acp.ConnectionLost` or `trio_acp.ConnectionClosed`
    when the client has gone.
    """

    _emitter: Emitter

    async def send_message(self, content: str | ContentBlock, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's message (``agent_message_chunk``, T5).

        Pieces in a row are one message; a thought, a tool call or a plan between them ends it.

        Args:
            content: Markdown text, or any content block.
            message_id: the message that it belongs to; None for the one that goes on.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._emitter.text_at_once("agent_message_chunk", content, message_id):
            await self._emitter.chunk("agent_message_chunk", content, message_id)

    async def send_thought(self, content: str | ContentBlock, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's reasoning (``agent_thought_chunk``, T5).

        Args:
            content: Markdown text, or any content block.
            message_id: the message that it belongs to; None for the one that goes on.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if not self._emitter.text_at_once("agent_thought_chunk", content, message_id):
            await self._emitter.chunk("agent_thought_chunk", content, message_id)

    async def send_user_message(self, content: str | ContentBlock, *, message_id: str | None = None) -> None:
        """Send a piece of what the user said (``user_message_chunk``): for a replay (S2).

        Args:
            content: Markdown text, or any content block.
            message_id: the message that it belongs to; None for the one that goes on.
        """
        await self._emitter.chunk("user_message_chunk", content, message_id)

    def new_message(self) -> None:
        """Let the next text begin a new message, where nothing else separates the two."""
        self._emitter.new_message()

    async def send_plan(self, entries: Iterable[PlanEntry | str]) -> None:
        """Send the whole plan; it replaces the one before (``plan``, S8).

        Args:
            entries: what is planned. A string is a pending entry of medium priority.
        """
        plan = [
            PlanEntry(entry, PlanEntryPriority.MEDIUM, PlanEntryStatus.PENDING)
            if isinstance(entry, str)
            else entry
            for entry in entries
        ]
        await self._emitter.send(unstructure_update(Plan(plan)))

    async def send_usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """Tell how full the context is (``usage_update``, S8).

        Args:
            used: tokens in the context now.
            size: tokens that it can hold.
            cost: what the session has cost so far.
        """
        await self._emitter.send(unstructure_update(UsageUpdate(used, size, cost)))

    async def set_title(self, title: str | None) -> None:
        """Give the session a title, or take it away with None (``session_info_update``, S8)."""
        await self._emitter.send(unstructure_update(SessionInfoUpdate(title=title)))
        self._emitter.live.title = title

    async def set_commands(self, commands: Iterable[AvailableCommand]) -> None:
        """Tell all commands that there are now (``available_commands_update``, S8).

        Those registered with `AgentApp.command` are told without this.
        """
        await self._emitter.send(unstructure_update(AvailableCommandsUpdate(list(commands))))

    async def set_mode(self, mode_id: str) -> None:
        """Put the session into another mode, and tell the client (``current_mode_update``, S7).

        Raises:
            ValueError: the session has modes, and this is none of them.
        """
        live = self._emitter.live
        if live.modes is not None and mode_id not in live.mode_ids():
            raise ValueError(f"the session has no mode {mode_id!r}; it has {', '.join(live.mode_ids())}")
        await self._emitter.send(unstructure_update(CurrentModeUpdate(mode_id)))
        live.enter_mode(mode_id)

    async def set_config_options(self, options: Iterable[SessionConfigOption]) -> None:
        """Tell all config options as they are now (``config_option_update``, S7).

        Options of type boolean are left out for clients that cannot show them.
        """
        live = self._emitter.live
        all_options = list(options)
        shown = for_client(all_options, boolean=live.client.offers("session.configOptions.boolean"))
        await self._emitter.send(unstructure_update(ConfigOptionUpdate(shown)))
        live.config_options = all_options

    async def send_notice(self, severity: str, title: str, description: str | None = None) -> None:
        """Show the user something now (``notice``).

        Args:
            severity: ``"info"``, ``"warning"`` or ``"error"``, or a value of
                `trio_acp.schema.NoticeSeverity`.
            title: plain text, at least one character.
            description: more about it, plain text.

        Raises:
            CapabilityError: the client does not advertise ``session.notices``; nothing was sent.
            ValueError: the title is empty.
        """
        if not title:
            raise ValueError("a notice needs a title of at least one character")
        await self._emitter.send(unstructure_update(Notice(severity, title, description)))

    async def send_update(self, update: SessionUpdate | Mapping[str, Any]) -> None:
        """Send any session update, as a typed object or as the JSON value of ``update``.

        Raises:
            CapabilityError: the client does not advertise what this update needs; nothing was sent.
            ValueError: a JSON value without the tag ``sessionUpdate``; nothing was sent.
            SchemaError: a value that is not what its tag says; nothing was sent. Kinds that the protocol does
                not name hold what they like.
        """
        if isinstance(update, (WireObject, UnknownVariant)):
            wire: dict[str, Any] = unstructure_update(update)
        else:
            wire = dict(update)
        if not isinstance(wire.get("sessionUpdate"), str):
            raise ValueError("an update needs the tag 'sessionUpdate', a string")
        self._emitter.check_offered(wire["sessionUpdate"])
        check_update(wire)
        await self._emitter.send(wire)
        self._emitter.live.fold(wire)


def check_update(wire: dict[str, Any]) -> None:
    """Refuse an update that a strict client would refuse.

    Raises:
        SchemaError: it is not what its tag says.
    """
    report: list[Leniency] = []
    structure_update(wire, report)
    for leniency in report:
        raise SchemaError(leniency.path, leniency.reason, wire["sessionUpdate"])


def read_update(wire: dict[str, Any]) -> SessionUpdate:
    """Return an update that was recorded as JSON as its typed form."""
    return structure_update(wire)

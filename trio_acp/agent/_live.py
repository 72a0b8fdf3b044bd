"""A session as the library sees it: its facts, its turns, and the one way out for its updates."""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from trio_acp._core import TextFrames
from trio_acp._errors import LocalProtocolError
from trio_acp.schema import (
    McpServer,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionModeState,
    structure,
)

from ._store import SessionRecord, now

if TYPE_CHECKING:
    from trio_acp._peer import Peer

    from ._client import ClientLink, ConnectedClient
    from ._recording import Recorder
    from ._turns import Turn

__all__ = ["MAX_DEFERRED_UPDATES", "MAX_QUEUED_PROMPTS", "LiveSession", "select_values"]

MAX_DEFERRED_UPDATES: Final = 1000
"""Updates that wait for the answer which reveals their session: far more than commands, mode and options."""

MAX_QUEUED_PROMPTS: Final = 16
"""Prompts that wait for the turn before them; a client that sends more has lost count of its turns."""

SENT_AFTER_ANSWER: Final = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "usage_update",
        "notice",
    }
)
"""Updates about the session rather than of its conversation: while a session is loaded they wait for the
answer, since only the replay belongs before it (S2, S4)."""


class LiveSession:
    """One session on one connection, from its opening to its closing."""

    def __init__(
        self,
        session_id: str,
        link: ClientLink,
        *,
        cwd: str,
        additional_directories: list[str],
        mcp_servers: list[McpServer],
        meta: dict[str, Any] | None,
    ) -> None:
        self.id = session_id
        self.link = link
        self.client: ConnectedClient = link.client
        self.peer: Peer = link.peer
        self.cwd = cwd
        self.additional_directories = additional_directories
        self.mcp_servers = mcp_servers
        self.meta = meta
        self.state: Any = None
        self.data: dict[str, Any] = {}
        self.title: str | None = None
        self.listed_title: str | None = None
        """What stands for a title in lists while there is none."""
        self.modes: SessionModeState | None = None
        self.config_options: list[SessionConfigOption] | None = None
        self.remembered: dict[str, bool] = {}
        self.created_at: str = now()
        self.turn: Turn | None = None
        self.queue: deque[Turn] = deque()
        self.recorder: Recorder | None = None
        self.opening: str | None = None
        """``"new"``, ``"load"`` or ``"resume"`` until that request is answered."""
        self.closed = False
        self._deferred: list[dict[str, Any]] = []
        self._id_prefix = secrets.token_hex(4)
        self._last_id = 0
        self._text_frames: dict[str, TextFrames] = {}
        """What makes the frames of messages, for each of the kinds of chunks."""

    # Names and places --------------------------------------------------------------------------------

    def new_id(self, kind: str) -> str:
        """Return an id that this session has not used, in this run or an earlier one (T4)."""
        self._last_id += 1
        return f"{kind}_{self._id_prefix}_{self._last_id}"

    def text_frames(self, tag: str) -> TextFrames:
        """Return what makes the frames of pieces of messages, once it is given their id."""
        frames = self._text_frames.get(tag)
        if frames is None:
            content = {"type": "text", "text": TextFrames.HOLE}
            update = {"sessionUpdate": tag, "content": content, "messageId": TextFrames.ID}
            frames = self._text_frames[tag] = self.peer.core.text_frames(
                "session/update", {"sessionId": self.id, "update": update}
            )
        return frames

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return an absolute path; a relative one starts at the session's directory (S5).

        ``..`` is left to the system that owns the files: behind a link it is not what it looks like.
        """
        text = os.fspath(path)
        return os.path.join(self.cwd, text)

    # Turns -------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel what runs and what waits to run (X2); without effect where there is nothing (X3)."""
        for turn in list(self.queue):
            turn.cancel()
        if self.turn is not None:
            self.turn.cancel()

    # Updates -----------------------------------------------------------------------------------------

    async def deliver(self, update: dict[str, Any], check: Callable[[], None]) -> None:
        """Send an update when there is room for it, or keep it until the session's answer is sent.

        ``check`` raises when it must not be sent; asked now, and again when there is room for it.
        """
        if self.opening is not None and self._defer(update):
            await trio.lowlevel.checkpoint()
            return
        check()
        if self.recorder is not None and self.recorder.full:
            # Before, not after: a cancellation while it is saved must not hide that the update was sent.
            await self.recorder.flush()
        await self.peer.notify("session/update", {"sessionId": self.id, "update": update}, check)
        if self.recorder is not None and self.opening is None:
            self.recorder.add(update)

    def deliver_nowait(self, update: dict[str, Any]) -> None:
        """Send an update at once, or keep it until the session's answer is sent."""
        if self.opening is not None and self._defer(update):
            return
        self.check_open()
        self.peer.notify_nowait("session/update", {"sessionId": self.id, "update": update})
        if self.recorder is not None and self.opening is None:
            self.recorder.add(update)

    def check_open(self) -> None:
        """Raise `LocalProtocolError` when nothing can be told about the session any more."""
        if self.closed:
            raise LocalProtocolError(f"session {self.id!r} is closed; nothing can be told about it any more")

    def _defer(self, update: dict[str, Any]) -> bool:
        if self.opening == "load" and update["sessionUpdate"] not in SENT_AFTER_ANSWER:
            return False
        if len(self._deferred) >= MAX_DEFERRED_UPDATES:
            raise LocalProtocolError(
                f"{MAX_DEFERRED_UPDATES} updates wait for the answer that opens the session; send them later"
            )
        self._deferred.append(update)
        return True

    def opened(self, *first: dict[str, Any]) -> None:
        """Send what had to wait for the answer, which has just been queued, in order (S4)."""
        self.opening = None
        waiting, self._deferred = [*first, *self._deferred], []
        for update in waiting:
            self.deliver_nowait(update)

    def abandon_opening(self) -> None:
        """Forget what had to wait for an answer that turned out to be a refusal."""
        self.opening = None
        self._deferred.clear()

    # What updates say about the session --------------------------------------------------------------

    def fold(self, update: dict[str, Any]) -> None:
        """Keep in mind what an update that was sent as it is says about title, mode and options."""
        match update["sessionUpdate"]:
            case "session_info_update" if "title" in update:
                self.title = update["title"]
            case "current_mode_update":
                self.enter_mode(update["currentModeId"])
            case "config_option_update":
                self.config_options = structure(list[SessionConfigOption], update["configOptions"])
            case _:
                pass

    def mode_ids(self) -> list[str]:
        """Return the ids of the session's modes."""
        return [] if self.modes is None else [mode.id for mode in self.modes.available_modes]

    def enter_mode(self, mode_id: str) -> None:
        """Note the current mode."""
        if self.modes is not None:
            self.modes.current_mode_id = mode_id

    def option(self, config_id: str) -> SessionConfigSelect | SessionConfigBoolean | None:
        """Return the config option with that id."""
        for option in self.config_options or ():
            if isinstance(option, (SessionConfigSelect, SessionConfigBoolean)) and option.id == config_id:
                return option
        return None

    def mode_option(self) -> SessionConfigSelect | None:
        """Return the config option that is about modes: the same choice in its newer form."""
        for option in self.config_options or ():
            if isinstance(option, SessionConfigSelect) and option.category == "mode":
                return option
        return None

    # The record --------------------------------------------------------------------------------------

    def record(self) -> SessionRecord:
        """Return what a store keeps about the session besides its conversation."""
        return SessionRecord(
            session_id=self.id,
            cwd=self.cwd,
            additional_directories=list(self.additional_directories),
            title=self.listed_title if self.title is None else self.title,
            created_at=self.created_at,
            updated_at=now(),
            mode_id=None if self.modes is None else self.modes.current_mode_id,
            config_values={
                option.id: option.current_value
                for option in self.config_options or ()
                if isinstance(option, (SessionConfigSelect, SessionConfigBoolean))
            },
            data=self.data,
        )

    def restore(self, record: SessionRecord) -> None:
        """Take over what was kept; modes and options come later, in `restore_choices`."""
        self.title = record.title
        self.created_at = record.created_at
        self.data = record.data

    def restore_choices(self, record: SessionRecord) -> None:
        """Choose again what was chosen, where it is still on offer."""
        if record.mode_id in self.mode_ids():
            assert record.mode_id is not None
            self.enter_mode(record.mode_id)
        for config_id, value in record.config_values.items():
            option = self.option(config_id)
            if isinstance(option, SessionConfigSelect):
                if value in select_values(option):
                    option.current_value = str(value)
            elif isinstance(option, SessionConfigBoolean) and isinstance(value, bool):
                option.current_value = value


def select_values(option: SessionConfigSelect) -> list[str]:
    """Return the values that an option can have, those in groups included."""
    values: list[str] = []
    for entry in option.options:
        if isinstance(entry, SessionConfigSelectGroup):
            values.extend(choice.value for choice in entry.options)
        else:
            values.append(entry.value)
    return values

"""One session with an agent, as the application holds it."""

from __future__ import annotations

from typing import Any, final

import trio

from trio_acp._errors import LocalProtocolError, SessionBusy
from trio_acp.schema import (
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionUpdate,
    SetSessionConfigOptionResponse,
    UnknownVariant,
    unstructure,
)

from ._buffers import UpdateStream
from ._connection import ClientConnection
from ._content import PromptContent, prompt_blocks
from ._record import SessionRecord
from ._running import RunningTurn
from ._snapshots import SessionState
from ._turn import Turn

__all__ = ["Session"]


@final
class Session:
    """A conversation with an agent; made by `ConnectedAgent.new_session`.

    Sessions of one connection are independent of each other: their turns run at the same time.
    """

    def __init__(self, connection: ClientConnection, record: SessionRecord) -> None:
        self._connection = connection
        self._record = record

    def __repr__(self) -> str:
        return f"<Session {self.id!r}>"

    @property
    def id(self) -> str:
        """The agent's id of it."""
        return self._record.id

    @property
    def cwd(self) -> str:
        """Its working directory, absolute."""
        return self._record.cwd

    @property
    def state(self) -> SessionState:
        """What is known of it now: modes, config options, commands, title, usage, plan, tool calls."""
        return self._record.state

    @property
    def busy(self) -> bool:
        """A turn runs, or was abandoned and has not been answered yet."""
        return self._record.turn is not None

    @property
    def closed(self) -> bool:
        """It was closed or discarded: it takes no more prompts."""
        return self._record.closed

    def prompt(self, content: PromptContent, *, idle_timeout: float | None = None) -> Turn:
        """Return a turn that sends a prompt when it is entered (``session/prompt``, T1).

        Args:
            content: a text, a content block, or a sequence of these. Images, audio and embedded resources
                need the agent's capability.
            idle_timeout: seconds without any activity of this session after which the turn fails with
                `trio.TooSlowError`; by default the option of that name. While a handler runs for the
                agent, the clock stands still.

        Returns:
            The turn, to be entered with ``async with``; see `Turn` for what that raises.
        """
        idle = self._connection.options.idle_timeout if idle_timeout is None else idle_timeout

        async def begin() -> RunningTurn:
            return await self._begin(content, idle)

        return Turn(begin, self.id)

    async def _begin(self, content: PromptContent, idle_timeout: float) -> RunningTurn:
        connection, record = self._connection, self._record
        self._check_open()
        blocks = prompt_blocks(content, connection.capabilities.prompt_capabilities)
        params = {"sessionId": record.id, "prompt": [unstructure(block) for block in blocks]}
        previous = record.turn
        if previous is not None and previous.abandoned:
            with trio.move_on_after(connection.options.cancel_grace):
                await previous.ended.wait()
        self._check_free()
        await connection.peer.room()
        self._check_free()
        self._check_open()
        turn = RunningTurn(connection, record.id, record.line, idle_timeout)
        connection.begin_turn(record, turn, params)
        return turn

    def _check_free(self) -> None:
        turn = self._record.turn
        if turn is None:
            return
        if turn.abandoned:
            raise SessionBusy(
                self.id,
                f"session {self.id!r} still works on a turn that was cancelled and abandoned; "
                "try again later, or use a new session",
            )
        raise SessionBusy(self.id)

    def _check_open(self) -> None:
        if self._record.closed:
            raise LocalProtocolError(f"session {self.id!r} was closed; make a new one")

    def cancel(self) -> None:
        """Press the stop button of the running turn; nothing happens when there is none (X1, X3).

        Synchronous; see `Turn.cancel`.
        """
        self._connection.check_here()
        if self._record.turn is not None:
            self._record.turn.ask_cancel()

    def updates(self) -> UpdateStream[SessionUpdate]:
        """Return the stream of updates that belong to no turn, to be iterated over.

        It is the same stream at every call. It keeps a bounded number of updates, drops the oldest, and
        counts the lost; see `UpdateStream`. It never slows the connection down.
        """
        return self._record.updates

    async def set_mode(self, mode_id: str) -> None:
        """Put the session into another mode (``session/set_mode``, S7).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            mode_id: one of the ids in ``state.modes.available_modes``.

        Raises:
            LocalProtocolError: the session has no such mode; nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        self._check_open()
        modes = self.state.modes
        offered = [] if modes is None else [mode.id for mode in modes.available_modes]
        if modes is None or mode_id not in offered:
            raise LocalProtocolError(f"the session has no mode {mode_id!r}; it has {offered or 'none'}")

        def entered(result: Any) -> None:
            # Some agents tell of it by an update as well, some do not.
            modes.current_mode_id = mode_id

        params = {"sessionId": self.id, "modeId": mode_id}
        await self._connection.peer.request("session/set_mode", params, convert=entered)

    async def set_config_option(self, config_id: str, value: str | bool) -> list[SessionConfigOption]:
        """Choose a value of a config option (``session/set_config_option``, S7).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            config_id: one of the ids in ``state.config_options``.
            value: one of the option's values; a bool for a boolean option.

        Returns:
            All options as they are now; other options may have changed too.

        Raises:
            LocalProtocolError: there is no such option or value; nothing was sent.
            RequestError: the agent refused.
            InvalidResponse: its answer does not fit the schema.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        self._check_open()
        _check_choice(self.state.config_options, config_id, value)
        params: dict[str, Any] = {"sessionId": self.id, "configId": config_id, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"

        def chosen(result: Any) -> list[SessionConfigOption]:
            response: SetSessionConfigOptionResponse = self._connection.read_result(
                "session/set_config_option", SetSessionConfigOptionResponse, result
            )
            self.state.config_options = response.config_options
            return response.config_options

        options: list[SessionConfigOption] = await self._connection.peer.request(
            "session/set_config_option", params, convert=chosen
        )
        return options

    def discard(self) -> None:
        """Give the session up: have the agent free it where it can, without waiting for that."""
        self.cancel()
        self._connection.discard(self.id)

    async def close(self) -> None:
        """End the session and have the agent free what it holds for it (``session/close``, S3).

        A running turn is cancelled by it. Cancellation: withdraws the request with ``$/cancel_request``.

        Raises:
            CapabilityError: the agent does not offer it; nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        self._check_open()
        connection = self._connection
        connection.require(
            connection.capabilities.session_capabilities.close is not None, "sessionCapabilities.close"
        )
        self.cancel()

        def closed(result: Any) -> None:
            # In the read loop, so that what comes behind the answer is not taken for the session's.
            connection.forget(self.id)

        params = {"sessionId": self.id}
        await connection.peer.request("session/close", params, on_late=closed, convert=closed)


def _check_choice(options: list[SessionConfigOption], config_id: str, value: str | bool) -> None:
    known = [option for option in options if not isinstance(option, UnknownVariant)]
    option = next((option for option in known if option.id == config_id), None)
    if option is None:
        ids = [option.id for option in known]
        raise LocalProtocolError(f"the session has no config option {config_id!r}; it has {ids or 'none'}")
    if isinstance(option, SessionConfigSelect):
        values = _values(option)
        if value not in values:
            raise LocalProtocolError(f"config option {config_id!r} takes one of {values}, not {value!r}")
    elif not isinstance(value, bool):
        raise LocalProtocolError(f"config option {config_id!r} takes True or False, not {value!r}")


def _values(option: SessionConfigSelect) -> list[str]:
    values: list[str] = []
    for entry in option.options:
        if isinstance(entry, SessionConfigSelectGroup):
            values += [choice.value for choice in entry.options]
        else:
            values.append(entry.value)
    return values

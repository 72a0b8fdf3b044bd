"""One session with an agent, as the application holds it."""

from __future__ import annotations

from typing import Any, final

from trio_acp._errors import LocalProtocolError
from trio_acp.schema import (
    SessionConfigOption,
    SessionUpdate,
    SetSessionConfigOptionResponse,
    unstructure,
)

from ._buffers import UpdateStream
from ._choices import check_choice, option_to_set
from ._connection import ClientConnection
from ._content import PromptContent, prompt_blocks
from ._options import Overlap
from ._overlap import check_overlap, reach_turn
from ._record import SessionRecord, StateChanges
from ._replay import Replay
from ._running import RunningTurn
from ._snapshots import SessionState
from ._turn import Turn

__all__ = ["Session"]


@final
class Session:
    """A conversation with an agent; made by `ConnectedAgent.new_session`, ``load_session`` and their like.

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
        """What is known of it now: modes, config options, commands, title, usage, plan, messages, tool calls.

        The same object all the time; see `state_changes`.
        """
        return self._record.state

    @property
    def replay(self) -> Replay:
        """What the agent replayed when the session was loaded last (S2); empty if it never was."""
        return self._record.replay

    @property
    def closed(self) -> bool:
        """It was closed or discarded: it takes no more prompts."""
        return self._record.closed

    @property
    def busy(self) -> bool:
        """A turn, a load or a resume is under way, or was given up and has not been answered yet."""
        return self._record.busy

    def state_changes(self) -> StateChanges:
        """Return an iterator over the changes of ``state`` from now on::

            async for state in session.state_changes():
                show(state.title, state.usage)

        Each call makes a new one; see `StateChanges`.
        """
        return StateChanges(self._record)

    def prompt(
        self,
        content: PromptContent,
        *,
        idle_timeout: float | None = None,
        overlap: Overlap | None = None,
    ) -> Turn:
        """Return a turn that sends a prompt when it is entered (``session/prompt``, T1).

        Args:
            content: a text, a content block, or a sequence of these. Images, audio and embedded resources
                need the agent's capability.
            idle_timeout: seconds without any activity of this session after which the turn fails with
                `trio.TooSlowError`; by default the option of that name. While a handler runs for the
                agent, the clock stands still.
            overlap: what happens while another turn of the session runs; by default the option of that
                name. ``"reject"`` raises `SessionBusy`; ``"queue"`` waits for its end, in line with the
                others that wait; ``"cancel"`` cancels it and waits for its end.

        Returns:
            The turn, to be entered with ``async with``; see `Turn` for what that raises.

        Raises:
            ValueError: ``idle_timeout`` is not more than 0, or ``overlap`` is no such word.
        """
        idle = self._connection.options.idle_timeout if idle_timeout is None else idle_timeout
        if not idle > 0:
            raise ValueError(f"idle_timeout must be more than 0 (math.inf for no limit), not {idle!r}")
        policy = self._connection.options.overlap if overlap is None else overlap
        check_overlap(policy)

        async def begin() -> RunningTurn:
            return await self._begin(content, idle, policy)

        return Turn(begin, self.id)

    async def _begin(self, content: PromptContent, idle_timeout: float, overlap: Overlap) -> RunningTurn:
        connection, record = self._connection, self._record
        self._check_open()
        blocks = prompt_blocks(content, connection.capabilities.prompt_capabilities)
        params = {"sessionId": record.id, "prompt": [unstructure(block) for block in blocks]}

        def begin() -> RunningTurn:
            self._check_open()
            turn = RunningTurn(connection, record.id, record.line, idle_timeout)
            connection.begin_turn(record, turn, params)
            return turn

        return await reach_turn(record, connection.peer, overlap, connection.options.cancel_grace, begin)

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
        """Put the session into another mode (S7).

        Where the agent has a config option of the category "mode", that is set, as by `set_config_option`;
        else this is ``session/set_mode``. Afterwards both say the same in ``state``.

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            mode_id: one of that option's values, or of the ids in ``state.modes.available_modes``.

        Raises:
            LocalProtocolError: the session has no such mode; nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        self._check_open()
        option = option_to_set(self.state.config_options, "mode", mode_id)
        if option is not None:
            await self.set_config_option(option.id, mode_id)
            return
        modes = self.state.modes
        offered = [] if modes is None else [mode.id for mode in modes.available_modes]
        if mode_id not in offered:
            raise LocalProtocolError(f"the session has no mode {mode_id!r}; it has {offered or 'none'}")

        def entered(result: Any) -> None:
            # Some agents tell of it by an update as well, some do not.
            self.state.enter_mode(mode_id)
            self._record.changed()

        params = {"sessionId": self.id, "modeId": mode_id}
        await self._connection.peer.request("session/set_mode", params, on_late=entered, convert=entered)

    async def set_model(self, model_id: str) -> None:
        """Have the session use another model.

        Where the agent has a config option of the category "model", that is set (S7); else, for agents that
        still have ``state.models``, this is their ``session/set_model``. Afterwards both say the same in
        ``state``.

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            model_id: one of that option's values, or of the ids in ``state.models.available_models``.

        Raises:
            LocalProtocolError: the session has no such model; nothing was sent.
            RequestError: the agent refused.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        self._check_open()
        option = option_to_set(self.state.config_options, "model", model_id)
        if option is not None:
            await self.set_config_option(option.id, model_id)
            return
        models = self.state.models
        offered = [] if models is None else [model.model_id for model in models.available_models]
        if model_id not in offered:
            raise LocalProtocolError(f"the session has no model {model_id!r}; it has {offered or 'none'}")

        def used(result: Any) -> None:
            self.state.use_model(model_id)
            self._record.changed()

        params = {"sessionId": self.id, "modelId": model_id}
        await self._connection.peer.request("session/set_model", params, on_late=used, convert=used)

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
        check_choice(self.state.config_options, config_id, value)
        params: dict[str, Any] = {"sessionId": self.id, "configId": config_id, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"

        def chosen(result: Any) -> list[SessionConfigOption]:
            response: SetSessionConfigOptionResponse = self._connection.read_result(
                "session/set_config_option", SetSessionConfigOptionResponse, result
            )
            self.state.config_options = response.config_options
            self.state.chosen()
            self._record.changed()
            return response.config_options

        options: list[SessionConfigOption] = await self._connection.peer.request(
            "session/set_config_option", params, convert=chosen
        )
        return options

    def discard(self) -> None:
        """Give the session up: have the agent free it where it can, without waiting for that.

        A running turn is cancelled by it. Nothing happens if the session was closed or discarded before.
        """
        self.cancel()
        if not self._record.closed:
            self._connection.table.discard(self.id)

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
            connection.table.forget(self.id)

        params = {"sessionId": self.id}
        await connection.peer.request("session/close", params, on_late=closed, convert=closed)

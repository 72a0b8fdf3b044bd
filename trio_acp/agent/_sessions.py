"""A session as its agent sees it: `AgentSession`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from trio_acp.schema import McpServer, SessionConfigOption, SessionModeState

from ._updates import Emitter, UpdateSender

if TYPE_CHECKING:
    from ._client import ConnectedClient
    from ._live import LiveSession

__all__ = ["AgentSession"]

State = TypeVar("State")


@final
class AgentSession(UpdateSender, Generic[State]):
    """One session with one client.

    Its ``send_…`` and ``set_…`` methods tell the client about it outside of turns too. While it is
    being opened they wait for the answer that opens it (S4), except for the conversation that
    ``session/load`` replays (S2).
    """

    def __init__(self, live: LiveSession) -> None:
        self._live = live
        self._emitter = Emitter(live)

    @property
    def id(self) -> str:
        """Its id on the wire."""
        return self._live.id

    @property
    def client(self) -> ConnectedClient:
        """The client that it belongs to."""
        return self._live.client

    @property
    def cwd(self) -> str:
        """Its working directory, absolute."""
        return self._live.cwd

    @property
    def roots(self) -> list[str]:
        """All directories that bound its file access: the working directory, then the additional ones
        (S5)."""
        return [self._live.cwd, *self._live.additional_directories]

    @property
    def mcp_servers(self) -> list[McpServer]:
        """The MCP servers that the client wants to be used, as it gave them (S6)."""
        return self._live.mcp_servers

    @property
    def meta(self) -> dict[str, Any] | None:
        """The ``_meta`` of the request that opened it (W7)."""
        return self._live.meta

    @property
    def state(self) -> State:
        """Whatever the agent wants to have at hand about the session; None until it is set."""
        state: State = self._live.state
        return state

    @state.setter
    def state(self, state: State) -> None:
        self._live.state = state

    @property
    def data(self) -> dict[str, Any]:
        """JSON values that a `SessionStore` keeps with the session; saved at the end of each turn."""
        return self._live.data

    @property
    def title(self) -> str | None:
        """Its title; `set_title` changes it."""
        return self._live.title

    @property
    def modes(self) -> SessionModeState | None:
        """Its modes, for the client to choose from (S7). Set this while the session is opened; `set_mode`
        later."""
        return self._live.modes

    @modes.setter
    def modes(self, modes: SessionModeState | None) -> None:
        self._live.modes = modes

    @property
    def config_options(self) -> list[SessionConfigOption] | None:
        """Its config options (S7). Set this while the session is opened; `set_config_options` later."""
        return self._live.config_options

    @config_options.setter
    def config_options(self, options: list[SessionConfigOption] | None) -> None:
        self._live.config_options = options

    @property
    def busy(self) -> bool:
        """A turn is running in it."""
        return self._live.turn is not None

    @property
    def closed(self) -> bool:
        """It was closed or deleted; nothing can be told about it any more."""
        return self._live.closed

    def config_value(self, config_id: str) -> str | bool | None:
        """Return the current value of one of its config options, None if there is no such option."""
        option = self._live.option(config_id)
        return None if option is None else option.current_value

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return an absolute path; a relative one starts at `cwd` (S5). Links and ``..`` are left as they
        are."""
        return self._live.resolve(path)

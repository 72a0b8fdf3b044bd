"""A supervisor of agents: started when needed, watched, and started again when they have died."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, TypeAlias, final

import trio

from trio_acp._cancellation import unwrapped
from trio_acp._errors import AcpError, ConnectionClosed, LocalProtocolError, fresh_copy

from ._agent import ConnectedAgent
from ._open import open_acp
from ._options import AcpOptions
from ._outcome import choose_outcome, leave_block

__all__ = [
    "DEFAULT_MAX_AGENTS",
    "FIRST_RESTART_DELAY",
    "LAST_RESTART_DELAY",
    "STABLE_SECONDS",
    "AgentPool",
    "OpenAgent",
]

DEFAULT_MAX_AGENTS: Final = 8
"""Agents that a pool runs at a time: each of them is a tree of processes."""

FIRST_RESTART_DELAY: Final = 0.5
"""Seconds from the end of an agent, or the failure of its start, to the next start; doubled each time."""

LAST_RESTART_DELAY: Final = 60.0
"""Seconds at which that delay grows no more."""

STABLE_SECONDS: Final = 60.0
"""Seconds that an agent has to live for its end to count as the first one."""

OpenAgent: TypeAlias = Callable[[AcpOptions], AbstractAsyncContextManager[ConnectedAgent]]
"""Opens an agent for the time of a block: `open_acp`, or what does the same over a stream."""


@final
class _Life:
    """An agent of a pool, from the moment it is asked for to its end."""

    def __init__(self) -> None:
        self.agent: ConnectedAgent | None = None
        self.error: AcpError | None = None
        """Why it could not be started."""
        self.started = trio.Event()
        """It runs, or could not be started."""
        self.stop = trio.Event()
        """It is to end."""
        self.ended = trio.Event()


@final
class _Place:
    """One name of a pool, and what it has seen of the agent of that name."""

    def __init__(self) -> None:
        self.life: _Life | None = None
        self.not_before = -math.inf
        self._delay = FIRST_RESTART_DELAY

    def died(self, lived: float) -> None:
        """The agent has ended by itself, or did not start: have the next start wait."""
        if lived >= STABLE_SECONDS:
            self._delay = FIRST_RESTART_DELAY
        self.not_before = trio.current_time() + self._delay
        self._delay = min(2 * self._delay, LAST_RESTART_DELAY)


@final
class AgentPool:
    """Agents by name, each started when it is first asked for, and again when it has died.

    Use it as an async context manager::

        async with AgentPool({"fast": options, "slow": other_options}) as pool:
            agent = await pool.get("fast")
            session, how = await agent.recover_session(session_id)

    Every agent lives in a task of the pool's: the block is their nursery, and none outlives it. An agent that
    dies is reaped at once and costs nobody else anything. The next `get` starts it again, after a delay that
    doubles from `FIRST_RESTART_DELAY` to `LAST_RESTART_DELAY` seconds while it keeps dying. Its sessions are
    recovered where you ask for that, by `ConnectedAgent.recover_session`: nothing is replaced behind your
    back.

    What ``on_update`` and the other hooks of an agent raise outside of its turns leaves the pool's block, as
    it would leave that of ``open_acp``.

    Args:
        options: how to start each agent, by name.
        max_agents: agents that may run, or start, at the same time.
        open_agent: opens an agent; by default `open_acp`.

    Raises:
        ValueError: ``max_agents`` is less than 1.
    """

    def __init__(
        self,
        options: Mapping[str, AcpOptions],
        *,
        max_agents: int = DEFAULT_MAX_AGENTS,
        open_agent: OpenAgent = open_acp,
    ) -> None:
        if max_agents < 1:
            raise ValueError(f"max_agents must be at least 1, not {max_agents}")
        self._options = options
        self._max_agents = max_agents
        self._open_agent = open_agent
        self._places: dict[str, _Place] = {}
        self._scope = trio.CancelScope()
        self._manager: Any = None
        self._nursery: trio.Nursery | None = None
        self._closing = False

    def __repr__(self) -> str:
        return f"<AgentPool running {sorted(self.agents)}>"

    @property
    def agents(self) -> Mapping[str, ConnectedAgent]:
        """The agents that are alive now, by name."""
        lives = {name: place.life for name, place in self._places.items()}
        return {
            name: life.agent
            for name, life in lives.items()
            if life is not None and life.agent is not None and not life.agent.closed
        }

    async def get(self, name: str) -> ConnectedAgent:
        """Return the agent of a name, alive; start it if need be.

        However many tasks ask at the same time, one process is started. A start after a death or a failure
        waits for the end of the delay first.

        Cancellation: only the waiting ends; a start that has begun goes on, for whoever asks next.

        Args:
            name: one of the names in the options.

        Raises:
            KeyError: there is no such name.
            AgentStartError, UnsupportedProtocolVersion: the start has failed; see `open_acp`.
            LocalProtocolError: ``max_agents`` run already.
            ConnectionClosed: the pool is closing, or was not entered.
        """
        options = self._options[name]
        place = self._places.setdefault(name, _Place())
        await trio.lowlevel.checkpoint()
        while True:
            if self._nursery is None or self._closing:
                raise ConnectionClosed("the pool is not open: enter it with async with, and use it inside")
            life = place.life
            if life is None:
                if trio.current_time() < place.not_before:
                    await trio.sleep_until(place.not_before)
                    continue
                life = place.life = self._start(self._nursery, name, place, options)
            await life.started.wait()
            if life.error is not None:
                raise fresh_copy(life.error)
            assert life.agent is not None
            if not life.stop.is_set() and await life.agent.wait_ready():
                return life.agent
            await life.ended.wait()

    def _start(self, nursery: trio.Nursery, name: str, place: _Place, options: AcpOptions) -> _Life:
        running = sum(other.life is not None for other in self._places.values())
        if running >= self._max_agents:
            raise LocalProtocolError(
                f"{running} agents run in this pool already; close one with pool.close(name), "
                "or raise max_agents"
            )
        life = _Life()
        nursery.start_soon(self._live, place, life, self._open_agent(options), name=f"agent {name}")
        return life

    async def _live(
        self, place: _Place, life: _Life, block: AbstractAsyncContextManager[ConnectedAgent]
    ) -> None:
        """Be an agent's whole life."""
        born = trio.current_time()
        # Until it is known better; whoever waits must not be left without an answer.
        life.error = ConnectionClosed("the pool was closed while the agent started")
        try:
            async with block as agent:
                life.agent, life.error = agent, None
                life.started.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_when_set, life.stop, nursery.cancel_scope)
                    await agent.wait_lost()
                    nursery.cancel_scope.cancel()
            if not life.stop.is_set():
                place.died(trio.current_time() - born)
        except Exception as error:
            failure = unwrapped(error)
            if life.agent is not None or not isinstance(failure, AcpError):
                raise  # not of the library's making: a hook of the application has raised it
            life.error = failure
            place.died(0.0)
        finally:
            place.life = None
            life.started.set()
            life.ended.set()

    async def close(self, name: str) -> None:
        """End the agent of a name, if it runs, and wait for that; `get` starts it again, without a delay.

        Cancellation: only the waiting ends.

        Raises:
            KeyError: there is no such name.
        """
        self._options[name]
        await trio.lowlevel.checkpoint()
        place = self._places.get(name)
        if place is not None and place.life is not None:
            place.life.stop.set()
            await place.life.ended.wait()

    # The block -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> AgentPool:
        if self._manager is not None:
            raise RuntimeError("a pool can be entered once; make a new one")
        self._scope.__enter__()
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        assert self._nursery is not None
        self._closing = True
        # The agents are ended all at once. Their blocks are bounded, and shielded where they have to be.
        self._nursery.cancel_scope.cancel()
        crash: BaseException | None = None
        try:
            await self._manager.__aexit__(None, None, None)  # noqa: ASYNC102 - shielded and bounded in itself
        except BaseException as error:  # noqa: ASYNC103 - what it is decides what becomes of it
            crash = unwrapped(error)
        return leave_block(self._scope, exc, choose_outcome(exc, [] if crash is None else [crash]))


async def _cancel_when_set(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()

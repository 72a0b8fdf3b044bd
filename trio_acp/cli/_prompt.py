"""``trio-acp prompt``: one turn with an agent, shown as it happens."""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import attrs
import trio

from trio_acp import (
    AcpOptions,
    Cancelled,
    ConnectedAgent,
    Decision,
    PermissionRequest,
    Reject,
    Selected,
    Session,
    Turn,
    open_acp,
)
from trio_acp.schema import SessionConfigBoolean, SessionUpdate, StopReason
from trio_acp.workspace import Terminal, TerminalManager, Workspace, split_words

from ._ask import NoTerminal, TerminalAsker, least_consent
from ._content import no_terminals
from ._display import Display
from ._interrupts import Interrupts
from ._text import plural

__all__ = ["CANCELLED", "FAILED", "OK", "Policy", "PromptSettings", "run_prompt"]

OK: Final = 0
FAILED: Final = 1
CANCELLED: Final = 130
"""What shells make of a program that Ctrl-C ended."""


class Policy(enum.StrEnum):
    """Who decides permission requests."""

    ASK = "ask"
    ALLOW = "allow"
    REJECT = "reject"


@attrs.frozen
class PromptSettings:
    """What to run.

    Attributes:
        command: the agent's program and its arguments.
        cwd: the session's directory, absolute.
        text: the prompt.
        policy: who decides permission requests.
        startup_timeout: seconds from the start of the agent to its answer.
        files: let the agent read and write files of the session's directory through this program.
        terminal: let it run commands through this program.
        resume: id of a saved session to go on with, instead of a new one.
        mode: the mode to put the session into.
        options: config options to set before the prompt, by id, with the words for their values.
    """

    command: Sequence[str]
    cwd: str
    text: str
    policy: Policy
    startup_timeout: float
    files: bool = False
    terminal: bool = False
    resume: str | None = None
    mode: str | None = None
    options: Sequence[tuple[str, str]] = ()


async def run_prompt(settings: PromptSettings, display: Display, note: Callable[[str], None]) -> int:
    """Run one turn and return the exit status: 0 end of turn, 1 another end, 130 cancelled.

    Args:
        settings: what to run.
        display: shows it.
        note: tells something on stderr.

    Raises:
        AcpError: the agent could not be started, failed, or went.
        KeyboardInterrupt: Ctrl-C before or after the turn, or for the second time.
    """
    stage = _Stage(display, settings, note)
    terminals = None
    if settings.terminal:
        terminals = TerminalManager(command_line_policy=split_words, on_output=stage.output)
    options = AcpOptions(
        command=settings.command[0],
        args=settings.command[1:],
        cwd=settings.cwd,
        on_permission=stage.decide,
        permission_timeout=math.inf,
        on_update=stage.received,
        startup_timeout=settings.startup_timeout,
        files=Workspace(create_parents=True) if settings.files else None,
        terminals=terminals,
    )
    status = FAILED
    with Interrupts(stage.cancel):
        display.waiting(f"starting {os.path.basename(settings.command[0])}")
        async with open_acp(options) as agent:
            display.waiting("waiting for the session")
            session = await _open_session(agent, settings, note)
            await _choose(session, settings)
            display.start(agent, session, no_terminals if terminals is None else terminals.terminal)
            display.waiting("waiting for the agent")
            turn = session.prompt(settings.text)
            async with turn:
                stage.begin(agent, turn)
                async for update in turn:
                    await stage.show(update)
            display.end(turn)
            status = _status(turn)
    return status


async def _open_session(
    agent: ConnectedAgent, settings: PromptSettings, note: Callable[[str], None]
) -> Session:
    """Make a session, or open the saved one that is wanted: never another one in its place."""
    if settings.resume is None:
        return await agent.new_session()
    if agent.capabilities.session_capabilities.resume is not None or not agent.capabilities.load_session:
        return await agent.resume_session(settings.resume)
    session = await agent.load_session(settings.resume)
    note(f"the agent has told {plural(len(session.replay.messages), 'message')} of the session again")
    return session


async def _choose(session: Session, settings: PromptSettings) -> None:
    """Set what the user wants to have set."""
    if settings.mode is not None:
        await session.set_mode(settings.mode)
    for name, word in settings.options:
        switch = any(
            isinstance(option, SessionConfigBoolean) and option.id == name
            for option in session.state.config_options
        )
        await session.set_config_option(name, _SWITCH.get(word.lower(), word) if switch else word)


_SWITCH: Final = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
"""Words for the values of an option that is on or off."""


def _status(turn: Turn) -> int:
    if turn.abandoned or turn.stop_reason == StopReason.CANCELLED:
        return CANCELLED
    return OK if turn.stop_reason == StopReason.END_TURN else FAILED


@final
class _Stage:
    """Keeps what is shown in order: a question comes after all that came before it, and until it is answered
    nothing else is shown."""

    def __init__(self, display: Display, settings: PromptSettings, note: Callable[[str], None]) -> None:
        self._display = display
        self._settings = settings
        self._note = note
        self._asker = TerminalAsker()
        self._asking = trio.Lock()
        self._agent: ConnectedAgent | None = None
        self._turn: Turn | None = None
        self._received = 0
        self._shown = 0
        self._dropped_before = 0
        self._progress = trio.Event()

    def begin(self, agent: ConnectedAgent, turn: Turn) -> None:
        """The turn has begun; nothing of it has arrived."""
        self._agent = agent
        self._turn = turn
        self._dropped_before = agent.statistics().updates_dropped
        self._received = 0

    def received(self, params: dict[str, Any]) -> None:
        """Count an update, in the read loop."""
        if self._turn is not None and params.get("sessionId") == self._turn.session_id:
            self._received += 1

    async def show(self, update: SessionUpdate) -> None:
        """Show an update, unless a question is open: then after that."""
        if self._asking.locked():
            async with self._asking:
                pass
        self._display.update(update)
        self._shown += 1
        self._progress.set()
        self._progress = trio.Event()

    def output(self, terminal: Terminal, text: str) -> None:
        """A command has written something."""
        self._display.terminal_output(terminal.id, text)

    def cancel(self) -> bool:
        """Press the stop button, if there is a turn that it can stop."""
        turn = self._turn
        if turn is None or turn.cancel_requested or turn.stop_reason is not None:
            return False
        turn.cancel()
        self._display.cancelling()
        return True

    async def decide(self, request: PermissionRequest) -> Decision:
        """Decide a permission request as the settings say."""
        before = self._received
        while self._shown + self._dropped() < before:
            await self._progress.wait()
        async with self._asking:
            self._display.question(request)
            try:
                decision = await self._decide(request)
            except trio.Cancelled:
                self._display.answered(request, Cancelled())
                raise
            self._display.answered(request, decision)
            return decision

    def _dropped(self) -> int:
        """Updates that were received but will never be shown."""
        assert self._agent is not None
        return self._agent.statistics().updates_dropped - self._dropped_before

    async def _decide(self, request: PermissionRequest) -> Decision:
        match self._settings.policy:
            case Policy.ALLOW:
                option = least_consent(request)
                return Cancelled() if option is None else Selected(option.option_id)
            case Policy.REJECT:
                return Reject()
            case _:
                show = not self._display.shows_questions
                try:
                    return await self._asker.ask(request, cwd=self._settings.cwd, show_request=show)
                except NoTerminal:
                    self._note("there is no terminal to ask on, so it was rejected; see --permission")
                    return Reject()

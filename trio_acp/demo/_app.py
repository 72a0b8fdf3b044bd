"""The demo agent put together: what its sessions are like, and what answers which prompt."""

from __future__ import annotations

import math
import re
from typing import Any, Final, final

import trio

from trio_acp import __version__
from trio_acp.agent import AgentApp, AgentSession, MemorySessionStore, PromptContext, SessionStore
from trio_acp.schema import (
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    SessionConfigBoolean,
    SessionConfigOptionCategory,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    StopReason,
)

from ._acts import FileActs, run_command
from ._forms import choose, fill_in_form
from ._words import (
    HELP,
    Choose,
    Form,
    Help,
    ListFiles,
    MakePlan,
    Read,
    Run,
    Slow,
    Think,
    Word,
    Write,
    understand,
)

__all__ = ["DEFAULT_PACE", "create_app"]

DEFAULT_PACE: Final = 0.015
"""Seconds between two words of an answer: quick to read, and slow enough to see that it streams."""

MAX_PIECES: Final = 80
"""Pieces that one answer is sent in: long ones go faster."""

TICK: Final = 0.5
"""Seconds between two signs of life while nothing happens."""

STEP_PAUSES: Final = 15
"""A step of a plan takes as long as so many words."""

CONTEXT_SIZE: Final = 100_000
"""Words that the agent claims to be able to keep in mind."""

MAX_TITLE: Final = 60
"""Characters of a session's title."""

MODES: Final = (
    SessionMode("ask", "Ask", "asks before it changes anything"),
    SessionMode("auto", "Auto", "changes things without asking"),
    SessionMode("read-only", "Read only", "changes nothing"),
)


def create_app(store: SessionStore | None = None, *, pace: float = DEFAULT_PACE) -> AgentApp:
    """Make the demo agent.

    Args:
        store: keeps its sessions; None for one that forgets when the program ends.
        pace: seconds to wait between two words of an answer.
    """
    demo = Demo(pace)
    app = AgentApp(
        "trio-acp-demo",
        __version__,
        "Demo agent",
        store=MemorySessionStore() if store is None else store,
    )
    app.on_new_session(demo.set_up)
    app.on_load_session(demo.set_up)
    app.on_resume_session(demo.set_up)
    app.on_prompt(demo.answer)
    app.command("status", "tell how the session is set up")(demo.status)
    app.command("title", "give the session a title", "the title")(demo.title)
    return app


@final
class Demo:
    """What the demo agent does.

    Args:
        pace: seconds between two words.
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace

    async def set_up(self, session: AgentSession[Any]) -> None:
        """Give a session its modes and config options."""
        await trio.lowlevel.checkpoint()
        session.modes = SessionModeState("ask", list(MODES))
        session.config_options = [
            SessionConfigSelect(
                "mode",
                "Mode",
                "ask",
                [SessionConfigSelectOption(mode.id, mode.name, mode.description) for mode in MODES],
                category=SessionConfigOptionCategory.MODE,
            ),
            SessionConfigSelect(
                "detail",
                "Detail",
                "brief",
                [
                    SessionConfigSelectOption("brief", "Brief", "names only"),
                    SessionConfigSelectOption("full", "Full", "names and sizes"),
                ],
                "what lists of files hold",
            ),
            SessionConfigBoolean("thoughts", "Thoughts", True, "whether it thinks aloud"),
        ]

    # Slash commands ------------------------------------------------------------------------------------

    async def status(self, ctx: PromptContext, session: AgentSession[Any]) -> None:
        """Tell how the session is set up."""
        assert session.modes is not None
        offered = [
            name for name in ("fs.readTextFile", "fs.writeTextFile", "terminal", "elicitation.form")
            if ctx.client.offers(name)
        ]  # fmt: skip
        await self._say(
            ctx,
            f"- directory: `{session.cwd}`\n"
            f"- mode: {session.modes.current_mode_id}\n"
            f"- detail: {session.config_value('detail')}\n"
            f"- thoughts: {'on' if session.config_value('thoughts') else 'off'}\n"
            f"- your client offers: {', '.join(offered) or 'nothing that I could use'}\n",
        )

    async def title(self, ctx: PromptContext, arguments: str) -> str:
        """Give the session a title."""
        if not arguments.strip():
            return "Tell me the title as well: `/title TEXT`"
        title = _title_from(arguments)
        await ctx.set_title(title)
        return f"The session is called “{title}” now."

    # Prompts -------------------------------------------------------------------------------------------

    async def answer(self, ctx: PromptContext) -> StopReason:
        """Answer a prompt."""
        if ctx.session.title is None:
            await ctx.set_title(_title_from(ctx.text) or "Untitled")
        await self._do(ctx, understand(ctx.text))
        words = len(ctx.text.split()) + int(ctx.session.data.get("words", 0))
        await ctx.send_usage(min(words, CONTEXT_SIZE), CONTEXT_SIZE)
        return StopReason.END_TURN

    async def _do(self, ctx: PromptContext, word: Word) -> None:
        files = FileActs(ctx)
        match word:
            case Help():
                await self._say(ctx, HELP)
            case ListFiles():
                await self._think(ctx, "I should look into the session's directory.")
                steps = Steps(ctx, "look into the directory", "tell what is there")
                await steps.start()
                found = await files.list_files(full=ctx.session.config_value("detail") == "full")
                await steps.advance()
                await self._say(ctx, found)
                await steps.advance()
            case Read(path=path):
                await self._think(ctx, f"I should read {path}.")
                await self._say(ctx, await files.read(path))
            case Write(path=path, text=text):
                await self._think(ctx, f"I should write {path}, if I may.")
                await self._say(ctx, await files.write(path, text))
            case Run(command=command):
                await self._think(ctx, "I should run that, if I may.")
                await self._say(ctx, await run_command(ctx, command))
            case Slow(seconds=seconds):
                await self._slow(ctx, seconds)
            case Choose():
                await self._say(ctx, await choose(ctx))
            case Form():
                await self._say(ctx, await fill_in_form(ctx))
            case MakePlan():
                await self._plan(ctx)
            case Think():
                await self._think(
                    ctx, "First I think of something. Then I think of something else. ", aloud=True
                )
                await self._think(ctx, "And now I have thought enough.", aloud=True)
                await self._say(ctx, "I have thought about it.")
            case _:
                await self._say(
                    ctx,
                    f"{word.problem}. I know `help`, `list the files`, `read FILE`, `write FILE: TEXT`, "
                    "`run COMMAND`, `slow SECONDS`, `choose`, `form`, `plan` and `think`.",
                )

    async def _say(self, ctx: PromptContext, text: str) -> None:
        """Send a message in pieces, and count its words."""
        data = ctx.session.data
        data["words"] = int(data.get("words", 0)) + len(text.split())
        ctx.new_message()
        for piece in pieces(text):
            await ctx.send_message(piece)
            await trio.sleep(self._pace)

    async def _think(self, ctx: PromptContext, text: str, *, aloud: bool = False) -> None:
        """Send a thought in pieces, unless nobody wants to know."""
        if aloud or ctx.session.config_value("thoughts"):
            for piece in pieces(text):
                await ctx.send_thought(piece)
                await trio.sleep(self._pace)

    async def _slow(self, ctx: PromptContext, seconds: float) -> None:
        end = trio.current_time() + seconds
        number = 0
        while (left := end - trio.current_time()) > 0:
            number += 1
            await ctx.send_message(f"{number} ")
            await trio.sleep(min(TICK, left))
        await ctx.send_message("done.")

    async def _plan(self, ctx: PromptContext) -> None:
        steps = Steps(ctx, "think of a plan", "work through it", "be glad about it")
        await steps.start()
        for _ in range(len(steps)):
            await trio.sleep(self._pace * STEP_PAUSES)
            await steps.advance()
        await self._say(ctx, "All steps of the plan are done.")


@final
class Steps:
    """A plan whose steps are done one after the other.

    Args:
        ctx: the turn.
        contents: the steps, for people.
    """

    def __init__(self, ctx: PromptContext, *contents: str) -> None:
        self._ctx = ctx
        self._contents = contents
        self._done = 0

    def __len__(self) -> int:
        return len(self._contents)

    async def start(self) -> None:
        """Tell the plan; the first step begins."""
        await self._send()

    async def advance(self) -> None:
        """One step is done, the next begins."""
        self._done += 1
        await self._send()

    async def _send(self) -> None:
        entries: list[PlanEntry] = []
        for number, content in enumerate(self._contents):
            status = PlanEntryStatus.PENDING
            if number <= self._done:
                status = PlanEntryStatus.COMPLETED if number < self._done else PlanEntryStatus.IN_PROGRESS
            entries.append(PlanEntry(content, PlanEntryPriority.MEDIUM, status))
        await self._ctx.send_plan(entries)


def pieces(text: str) -> list[str]:
    """Return a text word by word, or in larger pieces if it is long."""
    words = re.findall(r"\s*\S+\s*?(?=\s|$)|\s+", text)
    together = math.ceil(len(words) / MAX_PIECES)
    return ["".join(words[at : at + together]) for at in range(0, len(words), together or 1)]


def _title_from(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1] + "…"

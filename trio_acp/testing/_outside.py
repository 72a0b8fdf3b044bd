"""Fuzzing an agent from outside: random steps of a client, and the fewest of them that break something.

Needs nothing but the agent: no Hypothesis, no knowledge of its code.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from ._faults import NOISE_LINES
from ._referee import IllegalConversation
from ._roles import FULL_CLIENT, ScriptedClient
from ._scripted import PeerError
from ._shapes import is_object

__all__ = [
    "FAILURE_VERSION",
    "NOT_DEMANDED",
    "Failure",
    "FuzzReport",
    "fuzz_agent",
    "make_steps",
    "play_steps",
]

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[trio.abc.Stream]]
"""Starts the agent anew and connects to it; leaving the block ends it."""

Step: TypeAlias = list[Any]
"""A name and its arguments, all of them JSON."""

FAILURE_VERSION: Final = 1
"""Of the files that a failure is kept in."""

MAX_STEPS: Final = 12
"""Steps of one program: longer ones find little more, and each costs the start of the agent."""

CAPABILITIES: Final = {key: FULL_CLIENT[key] for key in ("session", "auth")}
"""No files, no terminals, no forms: an agent that asks for them breaks I3."""

NOT_DEMANDED: Final = frozenset({"I4"})
"""Rules that the published protocol leaves to the agent: few refuse what comes before ``initialize``."""

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
"""The answer to every request for permission: chance decides nothing."""

ALIVE: Final = "_fuzz/alive"
"""A method that no agent has: any answer to it is a sign of life."""


@attrs.frozen
class Failure:
    """A program that breaks an agent.

    Attributes:
        steps: the program.
        rule: the tag of the rule that was broken.
        what: what happened, for people.
        transcript: what was said, a line for each message.
    """

    steps: list[Step]
    rule: str
    what: str
    transcript: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, as `from_json` reads them."""
        return {"acpFuzzFailure": FAILURE_VERSION, **attrs.asdict(self)}

    @classmethod
    def from_json(cls, value: Any) -> Failure:
        """Read what `to_json` made.

        Raises:
            ValueError: it is something else.
        """
        try:
            if value["acpFuzzFailure"] != FAILURE_VERSION:
                raise ValueError("this failure was written by another version")
            steps = list(value["steps"])
            if not all(map(_is_step, steps)):
                raise TypeError
            return cls(steps, value["rule"], value["what"], list(value["transcript"]))
        except (KeyError, TypeError):
            raise ValueError("this is no failure that `trio-acp fuzz` has written") from None


@attrs.frozen
class FuzzReport:
    """How fuzzing went.

    Attributes:
        programs: how many programs were run, those of the shrinking left out.
        seed: what the programs were made from.
        failure: the smallest program that breaks the agent, None if none did.
    """

    programs: int
    seed: int
    failure: Failure | None


# Making programs -----------------------------------------------------------------------------------------


def make_steps(choose: random.Random) -> list[Step]:
    """Return a random program. Most begin with an introduction, since little happens without one."""
    steps: list[Step] = [] if choose.random() < 0.1 else [["initialize"], ["new"]]
    return steps + [_make_step(choose) for _ in range(choose.randint(1, MAX_STEPS))]


def _make_step(choose: random.Random) -> Step:
    which = choose.randint(0, 3)
    kind = choose.choices(
        ("new", "prompt", "cancel", "wait", "line", "unknown", "withdraw", "answer", "mode", "initialize"),
        (3, 6, 4, 3, 6, 3, 2, 2, 1, 1),
    )[0]
    match kind:
        case "prompt" | "cancel" | "withdraw" | "mode":
            return [kind, which]
        case "wait":
            return [kind, choose.choice([0, 0.01, 0.1])]
        case "line":
            return [kind, _hostile_line(choose).decode("latin-1")]
        case "unknown":
            return [kind, choose.choice(["no/such", "_no/such", "fs/read_text_file", "$/no", ""])]
        case "answer":
            return [kind, choose.choice([None, 0, 1, "1", "never"])]
        case _:
            return [kind]


_ARGUMENTS: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("prompt", "cancel", "withdraw", "mode"), lambda value: type(value) is int),
    "wait": lambda value: type(value) in (int, float) and 0 <= value <= 1,
    "line": lambda value: type(value) is str and all(ord(character) < 256 for character in value),
    "unknown": lambda value: type(value) is str,
    "answer": lambda value: value is None or type(value) in (int, str),
}
"""What a step has behind its name; the others have nothing there."""


def _is_step(step: Any) -> bool:
    match step:
        case ["initialize" | "new"]:
            return True
        case [str(kind), argument] if kind in _ARGUMENTS:
            return _ARGUMENTS[kind](argument)
        case _:
            return False


def _hostile_line(choose: random.Random) -> bytes:
    if choose.random() < 0.4:
        return choose.choice(NOISE_LINES)
    message: dict[str, Any] = {}
    for key, values in _PARTS.items():
        if choose.random() < 0.6:
            message[key] = choose.choice(values)
    line = json.dumps(message).encode()
    if choose.random() < 0.3:
        at = choose.randrange(len(line))
        line = line[:at] + bytes([choose.choice(b'\x00\xff"{}[],:1 \\')]) + line[at + 1 :]
    return line


_PARTS: Final[dict[str, list[Any]]] = {
    "jsonrpc": ["2.0", "2.0", "1.0", 2],
    "method": ["session/new", "session/prompt", "session/cancel", "$/cancel_request", "initialize", 5, None],
    "params": [{}, [], None, 5, {"sessionId": 5}, {"requestId": []}, {"cwd": "/", "mcpServers": 5}],
    "result": [None, {}],
}


# Playing them ----------------------------------------------------------------------------------------------


class _Replies(dict[str, Any]):
    """What the client answers; what it does not know it refuses, as every peer has to (W4)."""

    def __contains__(self, method: object) -> bool:
        return True

    def __missing__(self, method: str) -> PeerError:
        return PeerError(-32601, "this client does not offer it")


@final
class _Player:
    """Plays steps over one connection."""

    def __init__(self, client: ScriptedClient, cwd: str, prompt: str) -> None:
        self.client = client
        self._cwd = cwd
        self._prompt = prompt
        self.open: list[Any] = []
        """Ids of the well-formed requests that were sent."""

    def _sessions(self) -> list[str]:
        results = [message.get("result") for message in self.client.transcript.sent_by("agent")]
        return [result["sessionId"] for result in results if is_object(result) and "sessionId" in result]

    def _session(self, which: int) -> str:
        sessions = self._sessions()
        return sessions[which % len(sessions)] if sessions else "never"

    async def step(self, step: Step) -> None:
        kind, *arguments = step
        client = self.client
        match kind:
            case "initialize":
                params = {"protocolVersion": 1, "clientCapabilities": CAPABILITIES}
                await self._ask("initialize", params, wait=True)
            case "new":
                await self._ask("session/new", {"cwd": self._cwd, "mcpServers": []}, wait=True)
            case "prompt":
                text = [{"type": "text", "text": self._prompt}]
                params = {"sessionId": self._session(arguments[0]), "prompt": text}
                await self._ask("session/prompt", params)
            case "mode":
                await self._ask(
                    "session/set_mode", {"sessionId": self._session(arguments[0]), "modeId": "never"}
                )
            case "cancel":
                await client.cancel(self._session(arguments[0]))
            case "wait":
                await client.sleep(arguments[0])
            case "line":
                await client.send_raw(arguments[0].encode("latin-1") + b"\n")
            case "unknown":
                await self._ask(arguments[0], {})
            case "withdraw":
                if self.open:
                    await client.withdraw(self.open[arguments[0] % len(self.open)])
            case _:  # "answer"
                await client.send({"jsonrpc": "2.0", "id": arguments[0], "result": {}})

    async def _ask(self, method: str, params: Any, *, wait: bool = False) -> None:
        id = await self.client.request(method, params)
        self.open.append(id)
        if wait:
            await self.answers([id])

    async def answers(self, ids: list[Any]) -> None:
        """Wait until these requests are answered, with whatever."""
        for id in ids:
            if not self._answered(id):
                try:
                    await self.client.wait_for_answer(id)
                except PeerError:
                    pass  # an answer like any other

    def _answered(self, id: Any) -> bool:
        return any(
            is_object(message) and "method" not in message and message.get("id") == id
            for message in self.client.transcript.sent_by("agent")
        )

    async def finish(self) -> None:
        """Stop all turns, and see that every request is answered and the agent alive."""
        for session in self._sessions():
            await self.client.cancel(session)
        await self._ask(ALIVE, {})
        await self.answers(self.open)


async def play_steps(
    connect: Connect,
    steps: list[Step],
    *,
    cwd: str = "/",
    prompt: str = "hello",
    seconds: float = 10.0,
    ignore: Collection[str] = NOT_DEMANDED,
) -> Failure | None:
    """Run a program against an agent that is started for it; return how that broke it, None if it did not.

    Args:
        connect: starts the agent and connects to it, as an async context manager.
        steps: the program.
        cwd: the directory for sessions, absolute.
        prompt: what turns are started with.
        seconds: that the agent has to answer everything.
        ignore: tags of rules that the agent may break.
    """
    broken: tuple[str, str] | None = None
    async with connect() as stream:
        client = ScriptedClient(stream, tolerate=ignore)
        client.replies = _Replies({"session/request_permission": CANCELLED})
        player = _Player(client, cwd, prompt)
        with trio.move_on_after(seconds) as limit:
            try:
                for step in steps:
                    await player.step(step)
                await player.finish()
            except IllegalConversation as illegal:
                broken = (illegal.violation.rule, illegal.violation.what)
            except (AssertionError, trio.BrokenResourceError, trio.ClosedResourceError):
                broken = ("W4", "the agent ended the connection")
    if limit.cancelled_caught:
        broken = ("W11", f"a request was not answered within {seconds:g} seconds")
    if broken is None or broken[0] in ignore:
        return None
    return Failure(steps, *broken, str(client.transcript).splitlines())


# Looking for a failure --------------------------------------------------------------------------------------


async def fuzz_agent(
    connect: Connect,
    *,
    seed: int,
    seconds: float,
    cwd: str = "/",
    prompt: str = "hello",
    answer_seconds: float = 10.0,
    shrink_seconds: float = 60.0,
    ignore: Collection[str] = NOT_DEMANDED,
    progress: Callable[[int], object] = lambda programs: None,
) -> FuzzReport:
    """Run random programs against an agent until one breaks it, or the time is over; make that one small.

    What counts as broken: a message that a `Referee` blames the agent for, a request without an answer, the
    end of the connection. The first program runs in any case.

    Args:
        connect: starts the agent and connects to it, as an async context manager.
        seed: makes the programs repeatable.
        seconds: no program begins after this time.
        cwd: the directory for sessions, absolute.
        prompt: what turns are started with.
        answer_seconds: that the agent has to answer everything in one program.
        shrink_seconds: for making the failing program small.
        ignore: tags of rules that the agent may break, so that what is known does not hide the rest.
        progress: called after each program with how many there have been.
    """
    choose = random.Random(seed)
    end = time.monotonic() + seconds
    programs = 0
    failure: Failure | None = None

    async def play(steps: list[Step]) -> Failure | None:
        return await play_steps(connect, steps, cwd=cwd, prompt=prompt, seconds=answer_seconds, ignore=ignore)

    while failure is None and (programs == 0 or time.monotonic() < end):
        failure = await play(make_steps(choose))
        programs += 1
        progress(programs)
    if failure is not None:
        end = time.monotonic() + shrink_seconds
        size = len(failure.steps)
        while size and time.monotonic() < end:
            smaller = await _without_some(failure, size, play, end)
            # Once nothing of this size can go, try smaller pieces.
            size = min(size, len(failure.steps)) // 2 if smaller is None else min(size, len(smaller.steps))
            failure = smaller or failure
    return FuzzReport(programs, seed, failure)


async def _without_some(failure: Failure, size: int, play: Callable[..., Any], end: float) -> Failure | None:
    """The same failure with so many steps less, if there is one."""
    for start in range(0, len(failure.steps), size):
        if time.monotonic() > end:
            return None
        steps = failure.steps[:start] + failure.steps[start + size :]
        smaller: Failure | None = await play(steps)
        if smaller is not None and smaller.rule == failure.rule:
            return smaller
    return None

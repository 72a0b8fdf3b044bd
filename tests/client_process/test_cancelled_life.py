"""A whole life with a real process, cancelled at one moment after the other."""

from __future__ import annotations

import pathlib
import signal
import sys
import time

import pytest
import trio

from tests.client_process.agents import Agents, elapsed_since
from tests.transports.agents import Lives
from trio_acp.client import AcpOptions, PermissionRequest, Selected, open_acp

AGENT = """
def turn(request):
    update("s", "working")
    send(id=0, method="session/request_permission", params={"sessionId": "s",
         "toolCall": {"toolCallId": "t", "title": "write"},
         "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]})
    permitted = cancelled = False
    while not (permitted or cancelled):
        message = receive()
        if message is None:
            sys.exit()
        permitted = message.get("id") == 0
        cancelled = message.get("method") == "session/cancel"
        if cancelled:
            receive()  # the answer to the permission request comes in every case
    if cancelled or "stay" not in json.dumps(request):
        answer(request, {"stopReason": "cancelled" if cancelled else "end_turn"})
    else:
        until_cancelled(request)
report("agent")
serve(turn)
"""


async def allow(request: PermissionRequest) -> Selected:
    option = request.first_allow()
    assert option is not None
    return Selected(option.option_id)


async def whole_life(options: AcpOptions) -> None:
    """Open, a session, a turn with permission, one that is cancelled, a third one, close."""
    async with open_acp(options) as agent:
        session = await agent.new_session()
        async with session.prompt("first") as turn:
            async for _ in turn:
                pass
        async with session.prompt("stay") as turn:
            async for _ in turn:
                if len(turn.messages) and turn.text.endswith("workingworking"):
                    turn.cancel()
        async with session.prompt("third") as turn:
            await turn.wait()


SAMPLE = 3


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when the tasks of the run have made so many steps since the test began."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self._left = step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


def check_conversation(seen: list[str]) -> None:
    """Check that what an agent has received is a legal conversation, however early it was broken off."""
    if not seen:
        return  # it was ended before it could read
    assert seen[-1] == "eof"
    assert seen.count("eof") == 1
    assert seen[0] == "initialize" or seen == ["eof"]
    assert seen.count("initialize") <= 1
    assert seen.count("session/new") <= 1
    assert seen.count("session/prompt") <= 3
    assert seen.count("session/cancel") <= seen.count("session/prompt")
    running = 0
    for what in seen:
        assert what in {
            "initialize",
            "session/new",
            "$/cancel_request",
            "session/prompt",
            "session/cancel",
            "answer",
            "eof",
        }
        running += what == "session/prompt"
        assert what not in {"session/cancel", "answer"} or running
        assert what != "session/prompt" or "session/new" in seen


async def count_steps(options: AcpOptions) -> int:
    """How many steps of tasks a life takes that nobody cancels."""
    counter = CancelAtStep(trio.CancelScope(), -1)
    trio.lowlevel.add_instrument(counter)
    try:
        await whole_life(options)
    finally:
        trio.lowlevel.remove_instrument(counter)
    return -1 - counter._left


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(SAMPLE))
async def test_a_life_cancelled_at_any_moment_ends_promptly_and_leaves_no_process(
    agents: Agents, offset: int
) -> None:
    """Each run of the test samples the steps; together they try every one."""
    async with Lives() as lives:
        options = agents.options(AGENT, lives, on_permission=allow, shutdown_grace=20, cancel_grace=20)
        with trio.fail_after(30):
            steps = await count_steps(options)
        assert agents.seen[-1] == "eof"
        assert agents.seen.count("session/prompt") == 3
        assert agents.seen.count("session/cancel") == 1
        check_conversation(agents.seen)
        assert steps > 60
        for step in range(1 + offset, steps + 10, SAMPLE):
            agents.forget()
            start = trio.current_time()
            with trio.CancelScope() as scope:
                instrument = CancelAtStep(scope, step)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await whole_life(options)
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            assert elapsed_since(start) < 10, f"cancelled at step {step}, it took that long"
            check_conversation(agents.seen)
            assert not running_scripts(agents), f"cancelled at step {step}, it left its agent running"


class InterruptAtStep(trio.abc.Instrument):
    """Presses Ctrl-C whenever the tasks of the run have made one of these numbers of steps."""

    def __init__(self, *steps: int) -> None:
        self._steps = set(steps)
        self._now = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._now += 1
        if self._now in self._steps:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(SAMPLE))
@pytest.mark.parametrize("more", [(), (1,), (8,), (1, 2, 4, 8, 16)])
def test_ctrl_c_at_any_moment_leaves_as_itself_and_leaves_no_process(
    agents: Agents, more: tuple[int, ...], offset: int
) -> None:
    """Once or more often, wherever it hits: one KeyboardInterrupt, nothing left, no wait for the graces."""
    options = agents.options(
        AGENT.replace('report("agent")', ""), on_permission=allow, shutdown_grace=20, cancel_grace=20
    )
    interrupted = 0
    # About as many steps as a life has; what comes later interrupts nothing, or the closing.
    for step in range(1 + offset, 150, 2 * SAMPLE):
        agents.forget()
        steps = [step, *(step + later for later in more)]
        start = time.monotonic()
        try:
            trio.run(whole_life, options, instruments=[InterruptAtStep(*steps)])
        except KeyboardInterrupt:
            interrupted += 1
        assert time.monotonic() - start < 10, f"interrupted at {steps}, it took that long"
        assert not running_scripts(agents), f"interrupted at {steps}, it left its agent running"
        if not more and agents.seen and agents.seen[-1] == "eof":
            check_conversation(agents.seen)
    assert interrupted > 10


def running_scripts(agents: Agents) -> list[str]:
    """The processes that run a script of this test (Linux)."""
    if sys.platform != "linux":  # pragma: no cover - there is no /proc to look at
        return []
    folder = str(agents.folder).encode()
    found: list[str] = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue  # it has just ended
        if folder in line:
            found.append(line.decode())
    return found

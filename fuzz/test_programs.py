"""Host and agent over a wire, under random programs, schedules and faults, on a clock that jumps.

The program says what the users do (prompts, buttons, cancellations, exceptions, slow reading), what the agent
does in each turn, and how long a decision takes. Trio's own choice of the next task is Hypothesis's too.
However it goes: nothing waits for ever, both transcripts are legal to their end, and no text is lost or ends
up in another turn.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from fuzz.budget import budget
from trio_acp import (
    AcpError,
    AcpOptions,
    ConnectedAgent,
    LocalProtocolError,
    PermissionRequest,
    Reject,
    RequestError,
    Selected,
    connect_acp,
)
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import ReadTextFileRequest
from trio_acp.testing import (
    CoalescedStream,
    FragmentedStream,
    ScriptedAgent,
    Transcript,
    assert_conversation_legal,
    open_memory_pair,
)

TIMES = st.sampled_from([0, 0, 1, 2, 3])
ACTIONS = st.lists(
    st.one_of(
        st.just(["say"]),
        st.just(["say"]),
        st.tuples(st.just("sleep"), TIMES).map(list),
        st.just(["ask"]),
        st.just(["read", "/a"]),
        st.just(["read", "/broken"]),
        st.just(["raise"]),
    ),
    max_size=6,
)
CONDUCT = st.one_of(
    st.just(("read", 0)),
    st.tuples(st.sampled_from(["read", "wait", "button", "scope", "raise", "break"]), TIMES),
)
TURNS = st.lists(st.tuples(ACTIONS, CONDUCT), min_size=1, max_size=3)
DECISIONS = st.lists(
    st.tuples(TIMES, st.sampled_from(["yes", "no", "raise", "late", "stubborn"])), min_size=1, max_size=3
)
WIRES = st.sampled_from(["plain", "fragments", "together", "narrow"])


class Mine(Exception):
    """What users and handlers of these programs raise."""


class Stage:
    """Both ends, and what was seen at each."""

    def __init__(self, decisions: list[tuple[int, str]]) -> None:
        self.host = Transcript()
        self.agent = Transcript()
        self.decisions = itertools.cycle(decisions)
        self.received: dict[str, list[str]] = {}
        self.in_order: list[str] = []
        self.consents = 0
        """How often a handler has said yes."""
        self.said: dict[str, list[str]] = {}
        self.app = AgentApp("fuzzed", "1", on_wire=self.agent.wire_tap("agent"))
        self.app.on_prompt(self.prompt)
        self.options = AcpOptions(
            on_permission=self.decide,
            permission_timeout=5,
            on_update=self.update,
            on_wire=self.host.wire_tap("client"),
            read_text_file=self.read_file,
        )

    async def prompt(self, ctx: PromptContext) -> None:
        turn, actions = json.loads(ctx.text)
        for number, (what, *how) in enumerate(actions):
            match what:
                case "say":
                    text = f"{turn}.{'x' * number};"
                    await ctx.send_message(text)
                    self.said.setdefault(turn, []).append(text)
                case "sleep":
                    await trio.sleep(how[0])
                case "ask":
                    await ctx.ask_permission("Really?")
                case "read":
                    await self.read(ctx, how[0])
                case _:
                    raise Mine

    async def read(self, ctx: PromptContext, path: str) -> None:
        try:
            await ctx.read_file(path)
        except RequestError:
            assert path == "/broken"

    def update(self, params: dict[str, Any]) -> None:
        update: Any = params["update"]
        if hasattr(update, "keys") and "content" in update:
            text = str(params["update"]["content"]["text"])
            self.in_order.append(text)
            self.received.setdefault(text.partition(".")[0], []).append(text)

    async def read_file(self, request: ReadTextFileRequest) -> str:
        await trio.sleep(2)
        if request.path == "/broken":
            raise ValueError("s3cret")
        return "text"

    async def decide(self, request: PermissionRequest) -> Any:
        seconds, what = next(self.decisions)
        with trio.CancelScope(shield=what == "stubborn"):
            await trio.sleep(100 if what == "late" else seconds)
        if what == "raise":
            raise Mine
        if what == "no":
            return Reject()
        self.consents += 1
        return Selected((request.first_allow() or request.options[0]).option_id)

    async def user(self, agent: ConnectedAgent, name: str, turns: list[Any]) -> None:
        session = await agent.new_session()
        cancelled = 0
        for number, (actions, (conduct, seconds)) in enumerate(turns):
            turn_name = f"{name}{number}"
            turn = session.prompt(json.dumps([turn_name, actions]))
            seen: list[str] = []
            failed = False
            try:
                async with turn:
                    await self._take_part(turn, conduct, seconds, seen)
            except LocalProtocolError:
                raise  # nobody here makes that mistake
            except (Mine, AcpError, ExceptionGroup):
                failed = True
            cancelled += turn.cancel_requested
            assert all(text.startswith(f"{turn_name}.") for text in seen), (turn_name, seen)
            said = self.said.get(turn_name, [])
            if not failed and not turn.abandoned:
                assert turn.stop_reason is not None
                assert turn.cancel_requested or turn.stop_reason != "cancelled"
                assert turn.text == "".join(self.received.get(turn_name, []))
            if not failed and turn.stop_reason == "end_turn":
                assert turn.text == "".join(said), (turn.text, said)
                if conduct == "read":
                    assert seen == said, (seen, said)
        told = [message["params"] for message in self.host.sent_by("client", "session/cancel")]
        assert told.count({"sessionId": session.id}) == cancelled

    async def _take_part(self, turn: Any, conduct: str, seconds: int, seen: list[str]) -> None:
        if conduct in ("button", "scope", "raise"):
            await trio.sleep(seconds)
            if conduct == "button":
                turn.cancel()
                turn.cancel()
            elif conduct == "scope":
                turn.cancel_scope.cancel()
            else:
                raise Mine
        if conduct == "wait":
            await turn.wait()
            return
        async for update in turn:
            if getattr(update, "session_update", None) == "agent_message_chunk":
                seen.append(update.content.text)
            if conduct == "break":
                break
            await trio.sleep(seconds)

    def check_permissions(self) -> None:
        """Consent is a handler's, and a cancellation is followed by the answers of what is open (X1)."""
        asked: dict[Any, Any] = {}
        consents = 0
        due: set[Any] = set()
        for entry in self.host:
            message = entry.message
            assert "s3cret" not in str(message)
            if message.get("method") == "session/request_permission":
                asked[message["id"]] = message["params"]
            assert entry.sender == "client" or not due, "the agent had to wait for its answers"
            if entry.sender == "agent":
                continue
            if message.get("method") == "session/cancel":
                session = message["params"]["sessionId"]
                due |= {id for id, params in asked.items() if params["sessionId"] == session}
            elif "method" not in message and message.get("id") in asked:
                due.discard(message["id"])
                options = asked.pop(message["id"])["options"]
                chosen = message.get("result", {}).get("outcome", {}).get("optionId")
                kinds = [option["kind"] for option in options if option["optionId"] == chosen]
                consents += any(kind.startswith("allow") for kind in kinds)
        assert consents <= self.consents


def check_refusals(host: Transcript) -> None:
    """What a host does not offer it refuses at once (W4)."""
    for entry, after in itertools.pairwise(host):
        message: Any = entry.message
        if entry.sender == "agent" and hasattr(message, "keys") and message.get("method") in NOT_OFFERED:
            assert (after.sender, after.message.get("id")) == ("client", message["id"]), after
            assert after.message["error"]["code"] in (-32601, -32800)


NOT_OFFERED = ("no/such", "fs/write_text_file", "terminal/create")


def wired(wire: str, stream: trio.abc.Stream) -> trio.abc.Stream:
    match wire:
        case "fragments":
            return FragmentedStream(stream, [1, 7, 64])
        case "together":
            return CoalescedStream(stream, 0.5)
        case _:
            return stream


async def play(users: list[list[Any]], decisions: list[tuple[int, str]], wire: str) -> None:
    stage = Stage(decisions)
    near, far = open_memory_pair(50 if wire == "narrow" else 2**20)
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.app.serve, wired(wire, far))
            agent = await connect_acp(nursery, wired(wire, near), stage.options)
            async with trio.open_nursery() as playing:
                for name, turns in zip("abc", users, strict=False):
                    playing.start_soon(stage.user, agent, name, turns)
            await agent.aclose()
    stage.check_permissions()
    for party in ("client", "agent"):
        # What one end has sent the other has received, but for what crossed the goodbye.
        pairs = zip(stage.host.sent_by(party), stage.agent.sent_by(party), strict=False)
        assert all(one == other for one, other in pairs)
    assert_conversation_legal(stage.host, finished=True)
    assert_conversation_legal(stage.agent, finished=True)


@budget(2.0)
@given(st.lists(TURNS, min_size=1, max_size=3), DECISIONS, WIRES, st.random_module())
def test_users_and_an_agent_get_along_whatever_they_do(
    users: list[list[Any]], decisions: list[tuple[int, str]], wire: str, schedule: Any
) -> None:
    trio.run(play, users, decisions, wire, clock=trio.testing.MockClock(autojump_threshold=0))


# An agent that keeps no rule ----------------------------------------------------------------------------

RUDE = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "text",
                "ask",
                "ask twice",
                "withdraw",
                "end",
                "end twice",
                "error",
                "noise",
                "nonsense",
                "late",
                "sleep",
                "request",
            ]
        ),
        st.integers(0, 3),
    ),
    max_size=10,
)


async def be_rude(agent: ScriptedAgent, steps: list[tuple[str, int]], dies: bool) -> None:
    await agent.introduce()
    await agent.new_session()
    prompt = await agent.expect("session/prompt")
    ids: list[Any] = []
    for what, number in steps:
        match what:
            case "text" | "late":
                await agent.text(f"{number};")
            case "ask":
                ids.append(await agent.ask_permission(toolCallId=f"t{number}"))
            case "ask twice":
                options = [{"optionId": "yes", "name": "Yes", "kind": "odd"}]
                ids += [await agent.ask_permission(options=options) for _ in range(2)]
            case "withdraw":
                await agent.withdraw(ids[number % len(ids)] if ids else "never")
            case "end" | "end twice":
                for _ in range(1 + (what == "end twice")):
                    await agent.end_turn(prompt, ["end_turn", "cancelled", "odd", "refusal"][number])
            case "error":
                await agent.reply_error(prompt, [-32800, -32603, -32000, 7][number])
            case "request":
                method = ["no/such", "fs/read_text_file", "fs/write_text_file", "terminal/create"][number]
                await agent.request(method, {"sessionId": "s1", "path": "/a", "content": "", "command": "x"})
            case "noise":
                await agent.send_raw([b"banner\n", b"[]\n", b"\xff\n", b'{"id":true,"result":1}\n'][number])
            case "nonsense":
                update = [{}, {"sessionUpdate": "new"}, {"sessionUpdate": "plan"}, 5][number]
                await agent.notify(
                    "session/update", {"sessionId": ["s1", "other"][number % 2], "update": update}
                )
            case _:
                await agent.sleep(number)
    if dies:
        await agent.aclose()
        return
    await agent.end_turn(prompt)
    await agent.serve_until_closed()


async def be_rude_while_it_lasts(agent: ScriptedAgent, steps: list[tuple[str, int]], dies: bool) -> None:
    try:
        await be_rude(agent, steps, dies)
    except trio.BrokenResourceError:
        pass  # the host has gone already


async def meet(steps: list[tuple[str, int]], dies: bool, conduct: str, seconds: int, decisions: Any) -> None:
    stage = Stage(decisions)
    script = ScriptedAgent.in_memory()
    script.replies["session/close"] = {}
    script.replies["session/prompt"] = {"stopReason": "end_turn"}
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(be_rude_while_it_lasts, script, steps, dies)
            agent = await connect_acp(nursery, script.far_end, stage.options)
            session = await agent.new_session()
            seen: list[str] = []
            try:
                async with session.prompt("go") as turn:
                    await stage._take_part(turn, conduct, seconds, seen)
                async with session.prompt("again") as turn:
                    await turn.wait()
            except (Mine, AcpError, ExceptionGroup):
                pass
            await agent.aclose()
    assert_conversation_legal(script.transcript, side="client")
    # What the host has read it has answered; a request may have crossed its goodbye.
    assert_conversation_legal(stage.host, side="client", finished=not dies)
    check_refusals(stage.host)
    assert seen == stage.in_order[: len(seen)]


@budget(2.0)
@given(RUDE, st.booleans(), CONDUCT, DECISIONS, st.random_module())
def test_a_host_stays_legal_with_an_agent_that_is_not(
    steps: list[tuple[str, int]], dies: bool, conduct: tuple[str, int], decisions: Any, schedule: Any
) -> None:
    trio.run(meet, steps, dies, *conduct, decisions, clock=trio.testing.MockClock(autojump_threshold=0))

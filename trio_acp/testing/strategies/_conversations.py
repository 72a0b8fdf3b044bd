"""Whole conversations: legal ones, and ones that break a known rule at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from hypothesis import strategies as st

from trio_acp.testing._roles import ALLOW_OR_REJECT, FULL_AGENT, FULL_CLIENT
from trio_acp.testing._transcript import Party, Transcript

__all__ = ["conversations", "illegal_conversations"]

Json = dict[str, Any]


@final
class _Story:
    """Tells a conversation step by step; every step is one that the protocol allows there."""

    def __init__(self, draw: st.DrawFn, client_can: Json, agent_can: Json) -> None:
        self.draw = draw
        self.transcript = Transcript()
        self.client_can = client_can
        self.agent_can = agent_can
        self.ids: dict[Party, int] = {"client": 0, "agent": 0}
        self.idle: list[str] = []
        self.turns: dict[str, Json] = {}
        self.cancelled: set[str] = set()
        self.asked: list[Json] = []
        """Open requests of the agent."""
        self.settled: set[int] = set()
        """Ids of those of them that belong to a turn that was cancelled and has ended."""
        self.terminals: list[tuple[str, str]] = []
        self.made = 0

    def say(self, sender: Party, **message: Any) -> Json:
        whole = {"jsonrpc": "2.0", **message}
        self.transcript.add(sender, whole)
        return whole

    def ask(self, sender: Party, method: str, **params: Any) -> Json:
        self.ids[sender] += 1
        return self.say(sender, id=self.ids[sender], method=method, params=params)

    def reply(self, sender: Party, request: Json, result: Any) -> None:
        self.say(sender, id=request["id"], result=result)

    def pick(self, items: list[Any]) -> Any:
        return self.draw(st.sampled_from(items))

    def begin(self) -> None:
        request = self.ask("client", "initialize", protocolVersion=1, clientCapabilities=self.client_can)
        self.reply("agent", request, {"protocolVersion": 1, "agentCapabilities": self.agent_can})

    # What may happen -----------------------------------------------------------------------------------

    def steps(self) -> list[Callable[[], None]]:
        found = [self.new_session]
        if self.idle:
            found.append(self.prompt)
        if self.idle or self.turns:
            found.append(self.update)
        if self.turns:
            found += [self.permission, self.end_turn]
            if self.turns.keys() - self.cancelled:
                found.append(self.cancel)
            if self.client_can.get("fs"):
                found.append(self.read_file)
            if self.client_can.get("terminal"):
                found.append(self.create_terminal)
        if self.asked:
            found += [self.answer, self.withdraw]
        if self.terminals:
            found.append(self.release)
        if self.agent_can.get("sessionCapabilities") and self.idle:
            found.append(self.close_session)
        return found

    def new_session(self) -> None:
        request = self.ask("client", "session/new", cwd="/proj", mcpServers=[])
        self.made += 1
        self.reply("agent", request, {"sessionId": f"s{self.made}"})
        self.idle.append(f"s{self.made}")

    def close_session(self) -> None:
        session = self.pick(self.idle)
        self.idle.remove(session)
        self.reply("agent", self.ask("client", "session/close", sessionId=session), {})

    def prompt(self) -> None:
        session = self.pick(self.idle)
        self.idle.remove(session)
        text = [{"type": "text", "text": "go"}]
        self.turns[session] = self.ask("client", "session/prompt", sessionId=session, prompt=text)

    def update(self) -> None:
        session = self.pick([*self.idle, *self.turns])
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
        self.say("agent", method="session/update", params={"sessionId": session, "update": chunk})

    def permission(self) -> None:
        session = self.pick([*self.turns])
        options = list(ALLOW_OR_REJECT)
        call = {"toolCallId": "t1"}
        request = self.ask(
            "agent", "session/request_permission", sessionId=session, toolCall=call, options=options
        )
        self.asked.append(request)

    def read_file(self) -> None:
        session = self.pick([*self.turns])
        self.asked.append(self.ask("agent", "fs/read_text_file", sessionId=session, path="/proj/a"))

    def create_terminal(self) -> None:
        session = self.pick([*self.turns])
        self.asked.append(self.ask("agent", "terminal/create", sessionId=session, command="ls"))

    def release(self) -> None:
        session, terminal = self.terminals.pop()
        request = self.ask("agent", "terminal/release", sessionId=session, terminalId=terminal)
        self.reply("client", request, {})

    def answer(self) -> None:
        self.answer_to(self.pick(self.asked))

    def answer_to(self, request: Json) -> None:
        self.asked.remove(request)
        session = request["params"]["sessionId"]
        match request["method"]:
            case "session/request_permission":
                open_ones: list[Any] = [None] if self.must_be_cancelled(request) else [None, "yes", "no"]
                option = self.pick(open_ones)
                outcome = (
                    {"outcome": "cancelled"}
                    if option is None
                    else {"outcome": "selected", "optionId": option}
                )
                self.reply("client", request, {"outcome": outcome})
            case "terminal/create":
                self.made += 1
                self.terminals.append((session, f"term{self.made}"))
                self.reply("client", request, {"terminalId": f"term{self.made}"})
            case _:
                if self.draw(st.booleans()):
                    self.reply("client", request, {"content": "text"})
                else:
                    self.say("client", id=request["id"], error={"code": -32002, "message": "no such file"})

    def must_be_cancelled(self, request: Json) -> bool:
        """Its turn was cancelled, whether that has ended or not (X1)."""
        return request["params"]["sessionId"] in self.cancelled or request["id"] in self.settled

    def withdraw(self) -> None:
        request = self.pick(self.asked)
        self.say("agent", method="$/cancel_request", params={"requestId": request["id"]})

    def cancel(self) -> None:
        session = self.pick([each for each in self.turns if each not in self.cancelled])
        self.cancelled.add(session)
        self.say("client", method="session/cancel", params={"sessionId": session})

    def end_turn(self) -> None:
        self.end_turn_of(self.pick([*self.turns]))

    def end_turn_of(self, session: str) -> None:
        reason = "end_turn"
        if session in self.cancelled:
            # What was asked in this turn stays cancelled in the next.
            self.settled |= {each["id"] for each in self.asked if each["params"]["sessionId"] == session}
            self.cancelled.remove(session)
            reason = "cancelled"
        self.reply("agent", self.turns.pop(session), {"stopReason": reason})
        self.idle.append(session)

    def settle(self) -> None:
        """Bring it to an end in peace."""
        for session in list(self.turns):
            self.end_turn_of(session)
        for request in list(self.asked):
            self.answer_to(request)
        while self.terminals:
            self.release()


@st.composite
def _stories(draw: st.DrawFn, max_steps: int) -> _Story:
    client_can = draw(st.sampled_from([FULL_CLIENT, {}]))
    agent_can = draw(st.sampled_from([FULL_AGENT, {}]))
    story = _Story(draw, client_can, agent_can)
    story.begin()
    for _ in range(draw(st.integers(0, max_steps))):
        story.pick(story.steps())()
    return story


@st.composite
def conversations(draw: st.DrawFn, *, max_steps: int = 15, finished: bool = True) -> Transcript:
    """Legal conversations between a client and an agent.

    Args:
        draw: given by Hypothesis.
        max_steps: things that happen between the introduction and the end.
        finished: bring everything to an end that is open.
    """
    story = draw(_stories(max_steps))
    if finished:
        story.settle()
    return story.transcript


# Breaking a rule ------------------------------------------------------------------------------------------


def _prompt_twice(story: _Story) -> None:
    story.new_session()
    session = story.idle[-1]
    for _ in range(2):
        story.ask("client", "session/prompt", sessionId=session, prompt=[])


def _cancel_twice(story: _Story) -> None:
    story.new_session()
    session = story.idle[-1]
    story.ask("client", "session/prompt", sessionId=session, prompt=[])
    for _ in range(2):
        story.say("client", method="session/cancel", params={"sessionId": session})


def _ask(story: _Story) -> Json:
    story.new_session()
    session = story.idle[-1]
    story.ask("client", "session/prompt", sessionId=session, prompt=[])
    call = {"toolCallId": "t1"}
    return story.ask(
        "agent",
        "session/request_permission",
        sessionId=session,
        toolCall=call,
        options=list(ALLOW_OR_REJECT),
    )


def _choose(story: _Story, request: Json, option: str) -> None:
    story.reply("client", request, {"outcome": {"outcome": "selected", "optionId": option}})


def _choose_unoffered(story: _Story) -> None:
    _choose(story, _ask(story), "perhaps")


def _choose_after_cancel(story: _Story) -> None:
    request = _ask(story)
    story.say("client", method="session/cancel", params={"sessionId": request["params"]["sessionId"]})
    _choose(story, request, "yes")


def _answer_twice(story: _Story) -> None:
    request = _ask(story)
    for _ in range(2):
        _choose(story, request, "yes")


def _answer_other_type(story: _Story) -> None:
    request = _ask(story)
    story.say("client", id=str(request["id"]), result={"outcome": {"outcome": "cancelled"}})


def _both(story: _Story) -> None:
    request = _ask(story)
    story.say("client", id=request["id"], result=None, error={"code": 1, "message": "no"})


def _id_again(story: _Story) -> None:
    story.ids["client"] -= 1
    story.ask("client", "session/new", cwd="/proj", mcpServers=[])


def _relative(story: _Story) -> None:
    story.ask("client", "session/new", cwd="work", mcpServers=[])


def _initialize_again(story: _Story) -> None:
    story.ask("client", "initialize", protocolVersion=1)


def _withdraw_nothing(story: _Story) -> None:
    story.say("agent", method="$/cancel_request", params={"requestId": "never"})


def _cancel_as_request(story: _Story) -> None:
    story.ask("client", "session/cancel", sessionId="s1")


def _unknown_method(story: _Story) -> None:
    story.ask("client", "session/dance")


def _unknown_session(story: _Story) -> None:
    story.ask("client", "session/prompt", sessionId="never", prompt=[])


def _unknown_auth(story: _Story) -> None:
    story.ask("client", "authenticate", methodId="never")


def _terminal_of_nobody(story: _Story) -> None:
    story.client_can = FULL_CLIENT
    story.transcript = Transcript()
    story.begin()
    request = _ask(story)
    session = request["params"]["sessionId"]
    story.ask("agent", "terminal/output", sessionId=session, terminalId="never")


def _without_capability(story: _Story) -> None:
    story.client_can = {}
    story.transcript = Transcript()
    story.begin()
    story.new_session()
    story.ask("agent", "fs/read_text_file", sessionId=story.idle[-1], path="/a")


def _missing_parameter(story: _Story) -> None:
    story.ask("client", "session/new", cwd="/proj")


def _too_early(story: _Story) -> None:
    story.transcript = Transcript()
    story.new_session()


_SPOILERS: dict[str, list[Callable[[_Story], None]]] = {
    "T1": [_prompt_twice],
    "X1": [_cancel_twice, _choose_after_cancel, _cancel_as_request],
    "P1": [_choose_unoffered],
    "W6": [_answer_twice, _answer_other_type, _both],
    "W3": [_id_again],
    "S1": [_relative],
    "S2": [_unknown_session],
    "I4": [_initialize_again],
    "I1": [_too_early],
    "I3": [_without_capability],
    "X4": [_withdraw_nothing],
    "N1": [_unknown_method],
    "U1": [_unknown_auth],
    "F3": [_terminal_of_nobody],
    "W4": [_missing_parameter],
}


@st.composite
def illegal_conversations(draw: st.DrawFn, *, max_steps: int = 8) -> tuple[Transcript, str]:
    """Conversations that are legal up to their end, where they break a rule; with the tag of that rule.

    Args:
        draw: given by Hypothesis.
        max_steps: things that happen before that.
    """
    story = draw(_stories(max_steps))
    rule = draw(st.sampled_from(sorted(_SPOILERS)))
    draw(st.sampled_from(_SPOILERS[rule]))(story)
    return story.transcript, rule

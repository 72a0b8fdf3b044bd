"""The referee: legal conversations pass, and each rule that is broken is named."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from trio_acp.testing import (
    FULL_AGENT,
    FULL_CLIENT,
    Entry,
    IllegalConversation,
    Party,
    Referee,
    Transcript,
    assert_conversation_legal,
)
from trio_acp.testing.strategies import conversations, illegal_conversations

Pair = tuple[Party, Any]


def client(**message: Any) -> Pair:
    return "client", {"jsonrpc": "2.0", **message}


def agent(**message: Any) -> Pair:
    return "agent", {"jsonrpc": "2.0", **message}


def begun(client_can: Any = FULL_CLIENT, agent_can: Any = FULL_AGENT, **more: Any) -> list[Pair]:
    """An introduction and a session ``s1``."""
    params = {"protocolVersion": 1, "clientCapabilities": client_can}
    result = {"protocolVersion": 1, "agentCapabilities": agent_can, **more}
    return [
        client(id="i", method="initialize", params=params),
        agent(id="i", result=result),
        client(id="n", method="session/new", params={"cwd": "/w", "mcpServers": []}),
        agent(id="n", result={"sessionId": "s1"}),
    ]


def prompt(id: Any = "p", session: str = "s1", *blocks: Any) -> Pair:
    return client(id=id, method="session/prompt", params={"sessionId": session, "prompt": list(blocks)})


CANCEL = client(method="session/cancel", params={"sessionId": "s1"})
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
ASK = agent(
    id=1,
    method="session/request_permission",
    params={"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": OPTIONS},
)
END = agent(id="p", result={"stopReason": "end_turn"})
MAKE = agent(id=1, method="terminal/create", params={"sessionId": "s1", "command": "ls"})
MADE = client(id=1, result={"terminalId": "t1"})


def terminal(id: int, method: str, name: str = "t1") -> Pair:
    return agent(id=id, method=f"terminal/{method}", params={"sessionId": "s1", "terminalId": name})


def selected(option: str, id: Any = 1) -> Pair:
    return client(id=id, result={"outcome": {"outcome": "selected", "optionId": option}})


def call(method: str, **params: Any) -> Pair:
    return client(id="x", method=method, params=params)


def ask(method: str, **params: Any) -> Pair:
    return agent(id="x", method=method, params={"sessionId": "s1", **params})


def rule_of(*entries: Pair, seen_at: Party | None = None, finished: bool = False) -> str:
    with pytest.raises(IllegalConversation) as caught:
        assert_conversation_legal(Transcript(entries, seen_at=seen_at), finished=finished)
    assert caught.value.violation.rule in str(caught.value)
    return caught.value.violation.rule


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(conversations(max_steps=40))
def test_a_legal_conversation_passes_wherever_it_was_seen(transcript: Transcript) -> None:
    assert_conversation_legal(transcript, finished=True)


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(conversations(max_steps=40, finished=False))
def test_a_legal_conversation_passes_as_far_as_it_has_come(transcript: Transcript) -> None:
    assert_conversation_legal(transcript, finished=False)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(illegal_conversations())
def test_the_rule_that_is_broken_is_named(spoiled: tuple[Transcript, str]) -> None:
    transcript, rule = spoiled
    entries: list[Pair] = [(entry.sender, entry.message) for entry in transcript]
    assert rule_of(*entries) == rule


TRACEBACK = "Traceback (most recent call last): secrets"

BROKEN: list[tuple[str, list[Pair]]] = [
    ("W1", [client(id=1, method="initialize", params={"protocolVersion": 1}, jsonrpc="1.0")]),
    ("W2", [("agent", None)]),
    ("W4", [("client", None)]),
    ("W4", [("client", [{}])]),
    ("W4", [client(id=1)]),
    ("W4", [client()]),
    ("W6", [*begun(), prompt(), agent(id="p")]),
    ("W4", [client(id=1, method=5)]),
    ("W4", [client(id=1, method="initialize", params=[])]),
    ("W3", [client(id=True, method="initialize", params={"protocolVersion": 1})]),
    ("W3", [client(id=1.0, result={})]),
    ("W3", [client(result={})]),
    ("W4", [*begun(), call("fs/read_text_file", sessionId="s1", path="/a")]),
    ("X1", [*begun(), call("session/cancel", sessionId="s1")]),
    ("X4", [*begun(), call("$/cancel_request", requestId=1)]),
    ("W4", [*begun(), client(method="session/prompt", params={"sessionId": "s1", "prompt": []})]),
    ("N1", [*begun(), client(method="dance")]),
    ("N1", [*begun(), client(id=5, method="$/dance")]),
    ("W6", [*begun(), prompt(), agent(id="p", error={"code": "1", "message": "no"})]),
    ("W6", [*begun(), prompt(), agent(id="p", error=None)]),
    ("W4", [*begun(), prompt(), agent(id="p", error={"code": -32603, "message": TRACEBACK})]),
    ("W6", [*begun(), prompt(), agent(id="p", result=None)]),
    ("W6", [*begun(), call("session/load", sessionId="s2", cwd="/", mcpServers=[]), agent(id="x", result=5)]),
    ("W6", [*begun(), agent(id="never", result={})]),
    ("W6", [*begun(), prompt(), END, END]),
    ("X1", [*begun(), prompt(), CANCEL, CANCEL]),
    ("I1", [agent(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": "x"}})]),
    ("I1", [agent(id=1, method="fs/read_text_file", params={"sessionId": "s1", "path": "/a"})]),
    ("I1", [client(method="session/cancel", params={"sessionId": "s1"})]),
    (
        "I4",
        [
            *begun(),
            client(id=2, method="initialize", params={"protocolVersion": 1}),
            agent(id=2, result={"protocolVersion": 1}),
        ],
    ),
    (
        "I2",
        [
            client(id=2, method="initialize", params={"protocolVersion": 1}),
            agent(id=2, result={"protocolVersion": 2}),
        ],
    ),
    ("S2", [*begun(agent_can={}), call("session/load", sessionId="s9", cwd="/", mcpServers=[])]),
    ("S2", [*begun(agent_can={}), call("session/resume", sessionId="s9", cwd="/", mcpServers=[])]),
    ("S3", [*begun(agent_can={}), call("session/list")]),
    ("S3", [*begun(agent_can={}), call("session/delete", sessionId="s9")]),
    ("S3", [*begun(agent_can={}), call("session/close", sessionId="s1")]),
    ("U3", [*begun(agent_can={}), call("logout")]),
    (
        "U2",
        [
            *begun(authMethods=[{"id": "m", "name": "M", "type": "terminal"}]),
            call("authenticate", methodId="m"),
        ],
    ),
    ("S1", [*begun(), call("session/new", cwd="/", mcpServers=[], additionalDirectories=["a"])]),
    ("S1", [*begun(agent_can={}), call("session/new", cwd="/", mcpServers=[], additionalDirectories=["/a"])]),
    (
        "S6",
        [
            *begun(agent_can={}),
            call(
                "session/new", cwd="/", mcpServers=[{"type": "http", "name": "n", "url": "u", "headers": []}]
            ),
        ],
    ),
    ("T1", [*begun(), prompt(), call("session/load", sessionId="s1", cwd="/", mcpServers=[])]),
    ("T1", [*begun(agent_can={}), prompt("p", "s1", {"type": "image", "data": "", "mimeType": "image/png"})]),
    ("S2", [*begun(), call("session/close", sessionId="s1"), agent(id="x", result={}), prompt()]),
    ("S4", [*begun(), agent(id=1, method="fs/read_text_file", params={"sessionId": "s2", "path": "/a"})]),
    (
        "E1",
        [
            *begun(client_can={}),
            ask("elicitation/create", mode="url", message="m", elicitationId="e", url="u"),
        ],
    ),
    ("F1", [*begun(), ask("fs/read_text_file", path="a")]),
    ("F1", [*begun(), ask("terminal/create", command="ls", cwd="a")]),
    ("F3", [*begun(), MAKE, MADE, terminal(2, "release"), client(id=2, result=None), terminal(3, "output")]),
    ("F4", [*begun(), MAKE, MADE, terminal(2, "release"), client(id=2, result=None), terminal(3, "release")]),
    ("X1", [*begun(), prompt(), CANCEL, ASK, selected("yes")]),
    (
        "S7",
        [
            *begun(client_can={}),
            call("session/set_config_option", sessionId="s1", configId="c", value="v"),
            agent(
                id="x",
                result={
                    "configOptions": [{"type": "boolean", "id": "c", "name": "C", "currentValue": True}, 5]
                },
            ),
        ],
    ),
    (
        "S1",
        [
            *begun(),
            client(id=9, method="session/new", params={"cwd": "/", "mcpServers": []}),
            agent(id=9, result={"sessionId": "s1"}),
        ],
    ),
]


@pytest.mark.parametrize(
    ("rule", "entries"), BROKEN, ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(BROKEN)]
)
def test_each_rule_has_a_conversation_that_breaks_it(rule: str, entries: list[Pair]) -> None:
    assert rule_of(*entries) == rule


LEGAL: list[list[Pair]] = [
    [*begun(), client(method="_own/thing"), client(method="$/future"), client(id="e", method="_own/ask")],
    [*begun(), CANCEL],  # X3
    [*begun(), prompt(), ASK, CANCEL, END, client(id=1, result={"outcome": {"outcome": "cancelled"}})],
    [
        *begun(),
        client(id="n2", method="session/new", params={"cwd": "C:\\w", "mcpServers": []}),
        agent(id=1, method="fs/read_text_file", params={"sessionId": "s2", "path": "/a"}),
    ],  # S4
    [
        *begun(),
        call("session/load", sessionId="s2", cwd="/", mcpServers=[]),
        agent(id=1, method="fs/read_text_file", params={"sessionId": "s2", "path": "/a"}),
        agent(id="x", result=None),
        prompt("p", "s2"),
    ],
    [
        *begun(),
        client(id="e", method="_own/ask"),
        agent(id="e", result=5),
        agent(id=None, error={"code": -32600, "message": "m"}),
    ],
    [
        *begun(authMethods=[{"id": "m", "name": "M"}, 5]),
        call("authenticate", methodId="m"),
        agent(id="x", result={}),
    ],
    [*begun(), prompt(), CANCEL, END],
    [
        *begun(),
        ASK,
        agent(method="$/cancel_request", params={"requestId": 1}),
        selected("yes"),
        agent(method="$/cancel_request", params={"requestId": 1}),
    ],
    [*begun(), prompt(), agent(id="p", error={"code": -32603, "message": "m"}), prompt("p2")],
    [
        *begun(),
        call("session/set_mode", sessionId="s1", modeId="m"),
        agent(id="x", error={"code": 1, "message": "m"}),
    ],
    [
        *begun(),
        MAKE,
        MADE,
        terminal(2, "output"),
        ask("elicitation/create", mode="form", message="m", requestedSchema={"properties": {}}),
    ],
]


@pytest.mark.parametrize("entries", LEGAL)
def test_what_may_cross_on_the_wire_is_no_violation(entries: list[Pair]) -> None:
    assert_conversation_legal(entries)


def test_x2_an_error_for_a_cancelled_turn_is_judged_at_the_agents_end_only() -> None:
    entries = [*begun(), prompt(), CANCEL, agent(id="p", error={"code": -32603, "message": "m"})]
    assert rule_of(*entries, seen_at="agent") == "X2"
    assert_conversation_legal(Transcript(entries, seen_at="client"))
    assert_conversation_legal(entries)


def test_x5_a_cancelled_turn_leaves_no_request_of_the_agent_behind() -> None:
    read = agent(id=1, method="fs/read_text_file", params={"sessionId": "s1", "path": "/a"})
    end = agent(id="p", result={"stopReason": "cancelled"})
    withdrawn = agent(method="$/cancel_request", params={"requestId": 1})
    assert rule_of(*begun(), prompt(), read, CANCEL, end, seen_at="agent") == "X5"
    assert_conversation_legal(Transcript([*begun(), prompt(), read, CANCEL, withdrawn, end], seen_at="agent"))


def test_w11_what_is_open_at_a_peaceful_end_is_blamed_on_who_owes_it() -> None:
    assert rule_of(*begun(), prompt(), finished=True) == "W11"
    assert rule_of(*begun(), MAKE, MADE, finished=True) == "F4"
    half = Transcript(begun())
    assert half.feed("client", b'{"jsonrpc"') == []
    with pytest.raises(IllegalConversation, match="W1: the client"):
        assert_conversation_legal(half, finished=True)


def test_w4_an_error_may_name_what_was_no_request() -> None:
    error = {"code": -32600, "message": "m"}
    for wrong in (client(id=5), client(id=5, method=6), client(id=5, method="_m", params=[])):
        assert_conversation_legal([*begun(), wrong, agent(id=5, error=error)], side="agent")
        with pytest.raises(IllegalConversation, match="W6"):
            assert_conversation_legal([*begun(), wrong, agent(id=5, result={})], side="agent")


def test_i1_an_agent_that_was_asked_too_early_may_speak() -> None:
    update = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    entries: list[Pair] = [
        client(id=1, method="session/new", params={"cwd": "/", "mcpServers": []}),
        agent(method="session/update", params={"sessionId": "s1", "update": update}),
        agent(id="a", method="_anything", params={}),
    ]
    assert_conversation_legal(entries, side="agent")
    with pytest.raises(IllegalConversation, match="I4"):
        assert_conversation_legal([*entries, agent(id=1, result={"sessionId": "s1"})], side="agent")


@pytest.mark.parametrize("line", [b'{"x": NaN}', b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"\xff{}"])
def test_w1_a_line_is_strict_json_in_utf_8(line: bytes) -> None:
    entry = Transcript().add_line("agent", line)
    assert entry is not None
    assert entry.message is None


def test_only_the_side_that_is_asked_about_is_blamed() -> None:
    entries = [*begun(), prompt(), prompt("p2")]
    assert_conversation_legal([*entries, agent(id="p2", result={"stopReason": "end_turn"})], side="agent")
    with pytest.raises(IllegalConversation) as caught:
        assert_conversation_legal(entries, side="client")
    assert caught.value.violation.index == len(entries) - 1


def test_the_error_travels_between_processes() -> None:
    with pytest.raises(IllegalConversation) as caught:
        assert_conversation_legal([client(id=1, method=5)])
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.violation, str(again)) == (caught.value.violation, str(caught.value))


def test_a_referee_tells_what_is_open() -> None:
    referee = Referee()
    for sender, message in [*begun(), prompt(), ASK]:
        assert referee.see(Entry(sender, message)) == []
    assert (referee.unanswered("agent"), referee.unanswered("client")) == (["p"], [1])
    assert [violation.side for violation in referee.finish()] == ["agent", "client"]


def test_a_transcript_takes_bytes_in_any_pieces_and_shows_itself_shortly() -> None:
    transcript = Transcript()
    first = transcript.feed("client", b'{"jsonrpc":"2.0",')
    second = transcript.feed("client", b'"method":"_m"}\n\r\n ban')
    third = transcript.feed("client", b"ner\n" + b"[" * 100_000 + b"\n")
    assert (first, [each.message for each in second]) == ([], [{"jsonrpc": "2.0", "method": "_m"}])
    assert [each.message for each in third] == [None, None]
    assert transcript.sent_by("client", "_m") == [second[0].message]
    assert transcript.sent_by("agent") == []
    assert len(transcript) == 3
    assert max(map(len, str(transcript).splitlines())) < 250
    assert Transcript([Entry("agent", 1)]).entries == [Entry("agent", 1)]


def test_a_wire_tap_fills_a_transcript_from_its_own_end() -> None:
    transcript = Transcript()
    tap = transcript.wire_tap("client")
    tap("sent", {"jsonrpc": "2.0", "method": "_m"})
    tap("received", b'{"jsonrpc":"2.0","method":"_n"}')
    tap("received", "(3 bytes that are not JSON)")
    assert transcript.seen_at == "client"
    assert [(each.sender, each.message and each.message["method"]) for each in transcript] == [
        ("client", "_m"),
        ("agent", "_n"),
        ("agent", None),
    ]

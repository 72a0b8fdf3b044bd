"""The checks themselves: an agent without a mistake passes all, and each mistake is found by its check."""

from __future__ import annotations

import os
import pathlib
import shlex
import sys

import pytest
import trio

from trio_acp import AgentStartError
from trio_acp.testing.conformance import (
    CHECKS,
    DEMO_PROMPTS,
    CheckResult,
    Outcome,
    Prompts,
    run_checks,
)
from trio_acp.testing.conformance._model import Broken
from trio_acp.testing.conformance._probe import Probe
from trio_acp.transports import AgentProcess

SMALL_AGENT = pathlib.Path(__file__).with_name("small_agent.py")

PROMPTS = Prompts(
    hello="hello",
    slow="slow",
    write="write",
    written="written.txt",
    command="command",
    read="read",
    elicit="form",
    link="link",
    login="key",
)

WITH_A_LOGIN = {
    "U1-logging-in": ["wants-a-login"],
    "U3-sessions-before-a-login": ["wants-a-login"],
    "U3-logging-out": ["wants-a-login", "logs-out"],
}
"""What the agent has to be for checks that do not apply to all agents."""

BY_NAME = {check.name: check for check in CHECKS}


async def check(
    *mistakes: str, name: str, prompts: Prompts | None = PROMPTS, limit: float = 30
) -> CheckResult:
    command = [sys.executable, "-I", "-S", str(SMALL_AGENT), *mistakes]
    (result,) = await run_checks(command, prompts=prompts, checks=[BY_NAME[name]], limit=limit)
    return result


@pytest.mark.parametrize("name", BY_NAME)
async def test_an_agent_without_a_mistake_passes(name: str) -> None:
    result = await check(*WITH_A_LOGIN.get(name, []), name=name)
    assert (result.outcome, result.message) == (Outcome.PASS, "")


MISTAKES = [
    ("no-carriage-returns", "W1-carriage-returns"),
    ("no-blank-lines", "W1-blank-lines"),
    ("takes-reads-for-lines", "W1-messages-in-pieces"),
    ("one-a-read", "W1-several-messages-at-once"),
    ("needs-an-end", "W1-last-line-without-an-end"),
    ("banner", "W2-only-messages-on-stdout"),
    ("pretty", "W2-only-messages-on-stdout"),
    ("half-a-line", "W11-ends-with-its-input"),
    ("ids-are-strings", "W3-ids-come-back"),
    ("no-null-ids", "W3-null-is-an-id"),
    ("answers-twice", "W3-ids-come-back"),
    ("any-id", "W3-other-ids-are-refused"),
    ("one-id", "P1-what-was-never-offered"),
    ("odd-ids", "P1-an-allowance"),
    ("dies-of-junk", "W4-no-json"),
    ("skips-junk", "W4-no-json"),
    ("skips-junk", "W4-no-utf-8"),
    ("dies-of-depth", "W4-depth"),
    ("skips-scalars", "W4-scalars"),
    ("batches", "W4-batches"),
    ("skips-odd-methods", "W4-methods-that-are-no-strings"),
    ("knows-all-methods", "W4-unknown-methods"),
    ("skips-misfits", "W4-params-that-do-not-fit"),
    ("nameless-fields", "W4-the-field-that-does-not-fit"),
    ("skips-odd-methods", "W4-no-message"),
    ("tracebacks", "W4-unknown-methods"),
    ("odd-errors", "W4-unknown-methods"),
    ("odd-updates", "W2-only-messages-on-stdout"),
    ("no-session-ids", "S1-sessions-are-distinct"),
    ("scalars", "W2-only-messages-on-stdout"),
    ("odd-methods", "W2-only-messages-on-stdout"),
    ("empty-messages", "W2-only-messages-on-stdout"),
    ("not-a-number", "W2-only-messages-on-stdout"),
    ("odd-request-cancel", "X4-cancelling-a-request"),
    ("odd-sessions", "W2-only-messages-on-stdout"),
    ("dies-of-params", "W4-params-that-are-no-object"),
    ("answers-notifications", "W5-unknown-notifications"),
    ("dies-of-answers", "W6-answers-to-nothing"),
    ("hangs-on-both", "W6-answers-that-say-both"),
    ("strict", "W7-meta"),
    ("strict", "W8-unknown-fields"),
    ("strict-about-capabilities", "W9-lenient-fields"),
    ("stays", "W11-ends-with-its-input"),
    ("status-3", "W11-ends-with-its-input"),
    ("status-3", "W11-ends-with-its-input-in-a-turn"),
    ("status-3", "W11-ends-with-its-input-while-it-asks"),
    ("version-2", "I2-the-version-asked-for"),
    ("speaks-all-versions", "I2-versions-of-the-future"),
    ("odd-introduction", "I2-its-introduction"),
    ("no-introduction", "I4-nothing-before-initialize"),
    ("initializes-again", "I4-initialize-once"),
    ("knows-all-methods", "I3-methods-that-are-not-advertised"),
    ("asks-for-all", "I3-nothing-unasked"),
    ("anybody", "U1-ways-to-log-in"),
    ("login-in-vain", "U1-logging-in"),
    ("odd-login", "U3-sessions-before-a-login"),
    ("no-way-to-log-in", "U3-sessions-before-a-login"),
    ("stays-logged-in", "U3-logging-out"),
    ("terminal-login", "U2-logging-in-at-a-terminal"),
    ("one-session-id", "S1-sessions-are-distinct"),
    ("relative", "S1-relative-directories"),
    ("any-directories", "S1-additional-directories"),
    ("makes-sessions-up", "S2-sessions-that-do-not-exist"),
    ("no-replay", "S2-loading-replays"),
    ("half-a-replay", "S2-loading-replays"),
    ("replays-always", "S2-resuming-does-not-replay"),
    ("lists-nothing", "S3-sessions-are-listed"),
    ("lists-for-ever", "S3-sessions-are-listed"),
    ("deletes-once", "S3-deleting-again"),
    ("deletes-nothing", "S3-deleting"),
    ("closes-nothing", "S3-closing"),
    ("closing-forgets-turns", "S3-closing-cancels"),
    ("any-mode", "S7-choices-that-do-not-exist"),
    ("odd-modes", "S7-modes"),
    ("odd-options", "S7-config-options"),
    ("sets-nothing", "S7-config-options"),
    ("boolean-for-all", "S7-boolean-options"),
    ("odd-update-sessions", "S4-updates-name-a-session"),
    ("reads-elsewhere", "S5-the-directory-of-the-session"),
    ("any-server", "S6-mcp-servers-that-cannot-be-reached"),
    ("odd-plans", "S8-what-is-told-of-a-session"),
    ("says-nothing", "T2-a-turn"),
    ("late-words", "T2-nothing-behind-the-answer"),
    ("odd-reasons", "T3-the-reason-to-stop"),
    ("cancels-all-turns", "T3-the-reason-to-stop"),
    ("one-call", "T4-tool-calls"),
    ("one-message-id", "T5-message-ids"),
    ("no-links", "T1-links"),
    ("any-content", "T1-content-that-is-excluded"),
    ("drops-prompts", "T1-a-prompt-during-a-turn"),
    ("cancels-all", "T1-two-sessions-at-once"),
    ("cancel-is-an-error", "X2-cancelling"),
    ("cancel-is-an-end", "X2-cancelling"),
    ("no-cancel", "X2-cancelling"),
    ("late-updates", "X2-cancelling"),
    ("cancels-the-future", "X2-the-next-turn"),
    ("no-cancel", "X2-cancelling-at-once"),
    ("writes-first", "X2-cancelling-while-it-asks"),
    ("dies-of-cancel", "X3-cancelling-nothing"),
    ("cancels-the-future", "X3-cancelling-nothing"),
    ("no-cancel-request", "X4-cancelling-a-request"),
    ("dies-of-unknown-withdrawals", "X4-cancelling-unknown-requests"),
    ("no-cascade", "X5-cancelling-cascades"),
    ("waits-for-answers", "X5-cancelling-cascades"),
    ("yes-is-no", "P1-an-allowance"),
    ("no-is-yes", "P1-a-rejection"),
    ("all-but-no", "P1-what-was-never-offered"),
    ("dies-of-unknown-outcomes", "P1-what-was-never-offered"),
    ("same-options", "P2-options"),
    ("no-way-to-reject", "P2-a-way-to-reject"),
    ("relative-paths", "F1-reading"),
    ("odd-paths", "F1-reading"),
    ("hangs-on-errors", "F1-files-that-cannot-be-read"),
    ("leaks-terminals", "F4-terminals-are-released"),
    ("releases-twice", "F4-terminals-are-released"),
    ("leaks-terminals", "F4-terminals-of-cancelled-turns"),
    ("hangs-on-errors", "F3-terminals-that-fail"),
    ("empty-forms", "E1-forms"),
    ("hangs-on-errors", "E2-answers-to-forms"),
    ("odd-addresses", "E3-links"),
    ("odd-completions", "E3-links"),
    ("knows-all-methods", "N1-extensions"),
]


@pytest.mark.parametrize(("mistake", "name"), MISTAKES)
async def test_a_mistake_is_found(mistake: str, name: str) -> None:
    result = await check(mistake, *WITH_A_LOGIN.get(name, []), name=name, limit=1.5)
    assert result.outcome is Outcome.FAIL
    assert result.message
    assert result.transcript


def test_each_check_finds_a_mistake() -> None:
    assert BY_NAME.keys() == {name for _, name in MISTAKES}


@pytest.mark.parametrize(
    ("mistakes", "name", "says"),
    [
        (["offers-nothing"], "S2-loading-replays", "does not advertise loadSession"),
        (["offers-nothing"], "S3-closing", "does not advertise sessionCapabilities.close"),
        (["offers-more"], "I3-methods-that-are-not-advertised", "advertises all methods"),
        (["offers-more"], "S6-mcp-servers-that-cannot-be-reached", "all kinds of MCP servers"),
        (["offers-more"], "T1-content-that-is-excluded", "content of every kind"),
        (["no-choices"], "S7-modes", "no modes"),
        (["no-choices"], "S7-config-options", "no config options"),
        (["says-nothing"], "S8-what-is-told-of-a-session", "nothing of that kind"),
        (["no-message-ids"], "T5-message-ids", "no ids"),
        (["no-tool-calls"], "T4-tool-calls", "no tool calls"),
        ([], "U1-logging-in", "'key' is none of the agent's own ways"),
        ([], "U3-sessions-before-a-login", "without a login"),
        ([], "U3-logging-out", "does not advertise auth.logout"),
        (["no-choices"], "S7-choices-that-do-not-exist", "neither modes nor config options"),
        (["reads-alone"], "F1-reading", "reads files by itself"),
        (["reads-alone"], "S5-the-directory-of-the-session", "reads files by itself"),
        (["runs-alone"], "F4-terminals-are-released", "runs commands by itself"),
        (["runs-alone"], "F4-terminals-of-cancelled-turns", "runs commands by itself"),
    ],
)
async def test_what_an_agent_does_not_offer_is_not_checked(mistakes: list[str], name: str, says: str) -> None:
    result = await check(*mistakes, name=name)
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert says in result.message


@pytest.mark.parametrize("name", ["X2-cancelling", "X2-cancelling-at-once", "I3-nothing-unasked"])
async def test_what_nobody_knows_how_to_ask_for_is_not_checked(name: str) -> None:
    result = await check(name=name, prompts=Prompts("hello"))
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert "no prompt is known" in result.message


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("T2-a-turn", "log in first"),
        ("U1-logging-in", "no way to log in is known"),
        ("P1-a-rejection", "it is not known what the agent writes"),
    ],
)
async def test_what_nobody_has_told_about_an_agent_is_not_checked(name: str, says: str) -> None:
    flags = [] if name.startswith("P") else ["wants-a-login"]
    result = await check(*flags, name=name, prompts=Prompts("hello", write="write", written=None))
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert says in result.message


@pytest.mark.parametrize(
    ("mistakes", "name"),
    [
        (["offers-more"], "S1-additional-directories"),
        (["offers-nothing"], "S2-sessions-that-do-not-exist"),
        (["groups"], "S7-config-options"),
        (["no-pages"], "S3-deleting"),
        (["offers-less"], "S2-loading-replays"),
        (["offers-less"], "S3-deleting"),
        (["no-way-to-reject"], "P1-a-rejection"),
        (["slow-is-quick"], "T1-two-sessions-at-once"),
        (["cancel-is-an-error"], "X4-cancelling-a-request"),
        (["updates-first"], "T4-tool-calls"),
        (["wants-a-login"], "T2-a-turn"),
        (["logs-out"], "U3-logging-out"),
        (["blank"], "W2-only-messages-on-stdout"),
    ],
)
async def test_other_ways_to_be_right(mistakes: list[str], name: str) -> None:
    result = await check(*mistakes, name=name)
    assert (result.outcome, result.message) == (Outcome.PASS, "")


async def test_an_agent_that_does_not_answer_is_told_so() -> None:
    result = await check("silent", name="I2-the-version-asked-for", limit=0.2)
    assert result.message == "no answer to initialize within 0.2 s"
    assert str(result).startswith("fail: I2-the-version-asked-for: The version")


async def test_a_turn_that_ends_at_once_where_it_should_go_on_is_told_so() -> None:
    result = await check("cancels-all-turns", name="X2-cancelling")
    assert (
        result.message
        == "a turn that should go on for a while was answered 'cancelled', and nothing was said"
    )


async def test_an_agent_that_cannot_be_started_is_no_failed_check() -> None:
    with pytest.raises(AgentStartError, match="/no/such/agent"):
        await run_checks(["/no/such/agent"])


async def test_a_check_of_an_agent_that_does_not_read_comes_to_an_end() -> None:
    result = await check("goes-deaf", name="W4-depth", limit=0.25)
    assert (result.outcome, result.message) == (Outcome.FAIL, "the check was not over after 3 s")


async def test_a_broken_rule_is_told_besides_what_the_check_is_about() -> None:
    result = await check("half-a-line", "status-3", name="W11-ends-with-its-input")
    assert result.message.startswith("its exit status is 3; besides, W1: half a line at the end")
    # Nobody demands the exit status, but whole lines.
    assert result.required
    result = await check("status-3", name="W11-ends-with-its-input")
    assert not result.required


async def test_an_agent_that_ends_at_once_fails() -> None:
    (result,) = await run_checks(["true"], checks=[BY_NAME["W1-messages-in-pieces"]])
    assert result.outcome is Outcome.FAIL
    assert "closed its output" in result.message


async def test_the_last_words_of_an_agent_that_ends_are_told() -> None:
    result = await check("dies-of-junk", name="W4-no-json")
    assert "; the last line on its stderr is '" in result.message


async def test_an_agent_is_started_where_nothing_else_is_or_where_it_is_told(tmp_path: pathlib.Path) -> None:
    for cwd in (None, str(tmp_path)):
        command = ["sh", "-c", "pwd >&2"]
        (result,) = await run_checks(command, cwd=cwd, checks=[BY_NAME["I2-its-introduction"]])
        where = str(tmp_path) if cwd else "acp-check-"
        assert where in result.message


async def test_no_process_is_left_of_an_agent_that_does_not_end(tmp_path: pathlib.Path) -> None:
    note = tmp_path / "pid"
    agent = shlex.join([sys.executable, "-I", "-S", str(SMALL_AGENT), "stays"])
    command = ["sh", "-c", f"echo $$ > {shlex.quote(str(note))}; exec {agent}"]
    await run_checks(command, checks=[BY_NAME["I2-its-introduction"]])
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


async def test_a_line_without_an_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_acp.testing.conformance._probe.MAX_LINE_BYTES", 10)
    result = await check("mumbles", name="I2-the-version-asked-for")
    assert result.outcome is Outcome.FAIL
    assert "closed its output" in result.message


async def test_a_flood_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_acp.testing.conformance._probe.MAX_MESSAGES", 1)
    result = await check(name="W1-messages-in-pieces")
    assert result.outcome is Outcome.FAIL
    assert "closed its output before answer to _conformance/are_you_there" in result.message
    assert "-- that is more than is read" in result.transcript


async def test_an_agent_that_has_gone_is_neither_written_to_nor_read() -> None:
    process = AgentProcess("true")
    probe = Probe(process, "/", PROMPTS, 1)
    async with trio.open_nursery() as nursery:
        await nursery.start(process.run)
        await process.aclose_gracefully()
    await probe.send({})
    assert probe.transcript == ["-> {}", "-- the agent does not read any more"]
    await probe.read()
    with pytest.raises(Broken, match="closed its output"):
        await probe.ask("initialize")


async def test_a_command_is_needed() -> None:
    with pytest.raises(ValueError, match="command is empty"):
        await run_checks([])


async def test_results_come_one_by_one_and_are_json() -> None:
    told: list[CheckResult] = []
    command = [sys.executable, "-I", "-S", str(SMALL_AGENT)]
    results = await run_checks(command, prompts=PROMPTS, checks=CHECKS[:2], on_result=told.append)
    assert results == told
    for result in results:
        told_json = result.to_json()
        assert told_json["outcome"] == "pass"
        assert told_json["name"].startswith(told_json["rule"])
        assert told_json["transcript"][0].startswith("-> ")
        assert str(result).startswith("pass: W1-")


async def test_cancelling_a_run_ends_the_agent() -> None:
    with trio.move_on_after(1) as scope:
        await check("silent", name="I2-the-version-asked-for", limit=60)
    assert scope.cancelled_caught


def test_the_words_of_the_demo_agent_are_known() -> None:
    from trio_acp.demo import HELP

    for text in (DEMO_PROMPTS.hello, DEMO_PROMPTS.elicit, "`slow ", "`write ", "`run ", "`read "):
        assert text is not None
        assert text in HELP

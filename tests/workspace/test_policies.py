"""Permission policies: who decides what, and what is never decided (P1, P2; field lessons F5 to F7, F14)."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_acp.client import Cancelled, Decision, PermissionRequest, Reject, Selected, ToolCallState
from trio_acp.schema import Diff, PermissionOption, ToolCallLocation, ToolKind
from trio_acp.workspace import (
    PermissionPolicy,
    Remember,
    _policies,
    allow_once,
    ask,
    attended,
    decide_by,
    first_of,
    on_kinds,
    on_title,
    plan_mode,
    read_only,
    reject,
    unattended,
    under,
    what_was_asked,
)

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


def asking(*kinds: str, session: str = "s1", **call: Any) -> PermissionRequest:
    """Return a request that offers an option of each kind; its id is its kind."""
    options = [PermissionOption(kind, kind.title(), kind) for kind in kinds or KINDS]
    return PermissionRequest(session, ToolCallState("t", **call), {}, options)


def never(request: PermissionRequest) -> Any:
    raise AssertionError("nobody is to be asked")


def human(*decisions: Decision) -> tuple[PermissionPolicy, list[PermissionRequest]]:
    """Return a policy that decides like that, one after the other, and what it was asked."""
    asked: list[PermissionRequest] = []

    async def decide(request: PermissionRequest) -> Decision:
        asked.append(request)
        return decisions[len(asked) - 1]

    return decide, asked


async def mine(request: PermissionRequest) -> Decision:
    return Selected("mine")


@pytest.mark.parametrize(
    ("kinds", "allowed", "rejected"),
    [
        (KINDS, Selected("allow_once"), Selected("reject_once")),
        (KINDS[::-1], Selected("allow_once"), Selected("reject_once")),
        (("allow_always", "reject_once"), Selected("reject_once"), Selected("reject_once")),
        (("allow_always",), Cancelled(), Cancelled()),
        (("allow_once", "reject_always"), Selected("allow_once"), Cancelled()),
        (("allow", "allow_session", "deny"), Cancelled(), Cancelled()),
        (("unknown",), Cancelled(), Cancelled()),
    ],
)
async def test_once_is_all_that_a_policy_decides_and_only_by_kinds_that_are_known(
    kinds: tuple[str, ...], allowed: Decision, rejected: Decision
) -> None:
    """F5, F6, F7."""
    assert await allow_once()(asking(*kinds)) == allowed
    assert await reject()(asking(*kinds)) == rejected


async def test_the_reason_tells_the_audit_why() -> None:
    decision = await allow_once("because")(asking())
    assert decision is not None
    assert decision.reason == "because"
    decision = await allow_once("because")(asking("allow_always", "reject_once"))
    assert decision is not None
    assert decision.reason == "because, but it can only be allowed always"
    decision = await reject("why not")(asking("allow_once"))
    assert decision is not None
    assert decision.reason == "why not"


OPTIONS = st.lists(st.sampled_from([*KINDS, "allow", "deny", "ALLOW_ONCE", ""]), min_size=1, max_size=6)
CALL_KINDS = st.sampled_from([None, *ToolKind, "teleport"])


@given(OPTIONS, CALL_KINDS)
async def test_what_nobody_attends_is_never_decided_always_nor_by_an_unknown_kind(
    kinds: list[str], kind: str | None
) -> None:
    """F6: and a rejection never turns out to allow."""
    options = [PermissionOption(f"{number}", kind, kind) for number, kind in enumerate(kinds)]
    request = PermissionRequest("s1", ToolCallState("t", kind=kind), {}, options)
    reads = kind in ("read", "search", "think")
    for handler, may_allow in ((unattended(), reads), (decide_by(plan_mode(), reject()), False)):
        decision = await handler(request)
        if isinstance(decision, Selected):
            option = request.option(decision.option_id)
            assert option is not None
            assert option.kind in ("allow_once", "reject_once")
            assert option.kind == "reject_once" or may_allow
        else:
            assert isinstance(decision, Cancelled)


async def test_the_first_policy_that_decides_has_decided() -> None:
    later, asked = human(Selected("later"))

    async def not_mine(request: PermissionRequest) -> Decision | None:
        return None

    assert await first_of(not_mine, mine, later)(asking()) == Selected("mine")
    assert asked == []
    assert await first_of(not_mine, later)(asking()) == Selected("later")
    assert await first_of(not_mine)(asking()) is None
    assert await first_of()(asking()) is None


async def test_what_no_policy_decides_is_rejected() -> None:
    decision = await decide_by()(asking())
    assert (decision, decision.reason) == (Selected("reject_once"), "no policy")
    assert await decide_by(otherwise=first_of())(asking()) == Selected("reject_once")
    assert await decide_by(mine)(asking()) == Selected("mine")
    assert await decide_by(otherwise=mine)(asking()) == Selected("mine")


async def test_a_policy_for_kinds_knows_no_others() -> None:
    policy = on_kinds([ToolKind.EDIT, "teleport"], mine)
    for kind in ("edit", ToolKind.EDIT, "teleport"):
        assert await policy(asking(kind=kind)) == Selected("mine")
    for other in (None, "delete", ToolKind.READ):
        assert await policy(asking(kind=other)) is None
    assert await on_kinds("edit", mine)(asking(kind="edit")) == Selected("mine")
    assert await on_kinds("edit", mine)(asking(kind="e")) is None


@pytest.mark.parametrize(
    ("pattern", "title", "matches"),
    [
        ("git status", "git status", True),
        ("git status", "git status; rm -rf .", False),
        ("git *", "git status; rm -rf .", True),
        ("git *", "legit x", False),
        ("Git *", "git status", False),
        ("*", "two\nlines", True),
        ("[ab]?", "bx", True),
        (re.compile("run .*"), "run\nx", False),
        (re.compile("run .*"), "run x", True),
        (re.compile("run"), "run x", False),
    ],
)
async def test_a_title_has_to_match_as_a_whole(pattern: Any, title: str, matches: bool) -> None:
    assert (await on_title(pattern, mine)(asking(title=title)) is not None) == matches


async def test_a_policy_for_directories_wants_all_files_beneath_them(tmp_path: pathlib.Path) -> None:
    root, other = tmp_path / "root", tmp_path / "root-other"
    for directory in (root, other):
        directory.mkdir()
    (root / "out").symlink_to(other)
    inside = [str(root / "a"), str(root / "b/../c"), str(root)]
    outside = [
        str(other / "a"),
        str(root / "../root-other/a"),
        str(root / "out/a"),
        "a",
        "/",
        str(root) + "/\0",
    ]
    for roots in (root, str(root), [root], ["/nowhere", str(root)]):
        policy = under(roots, mine)
        locations = [ToolCallLocation(path) for path in inside]
        diff = Diff(inside[0], "new")
        assert await policy(asking(locations=locations, content=[diff])) == Selected("mine")
        for path in outside:
            assert await policy(asking(locations=[*locations, ToolCallLocation(path)])) is None, path
            assert await policy(asking(locations=locations, content=[Diff(path, "new")])) is None, path
        assert await policy(asking()) is None, "who names no file is not beneath"


async def test_a_policy_may_be_for_what_only_reads() -> None:
    assert await read_only()(asking(kind=ToolKind.READ)) == Selected("allow_once")
    assert await read_only(mine)(asking(kind=ToolKind.SEARCH)) == Selected("mine")
    for kind in (ToolKind.EDIT, ToolKind.FETCH, ToolKind.OTHER, None):
        assert await read_only()(asking(kind=kind)) is None


async def test_plan_mode_rejects_everything_but_looking() -> None:
    handler = decide_by(plan_mode(), otherwise=mine)
    for kind in ("read", "search", "think"):
        assert await handler(asking(kind=kind)) == Selected("mine")
    for other in ("edit", "delete", "move", "execute", "fetch", "switch_mode", "other", "teleport", None):
        decision = await handler(asking(kind=other))
        assert (decision, decision.reason) == (Selected("reject_once"), "plan mode")


async def test_unattended_policies_of_ones_own_go_first() -> None:
    handler = unattended(on_kinds(["edit"], allow_once("edits are fine")))
    assert (await handler(asking(kind="edit"))).reason == "edits are fine"
    assert await handler(asking(kind="read")) == Selected("allow_once")
    decision = await handler(asking(kind="execute"))
    assert (decision, decision.reason) == (Selected("reject_once"), "unattended")


# --- Memory -------------------------------------------------------------------------------------------


async def test_a_human_who_said_always_is_not_asked_again_for_the_same() -> None:
    """F14: also where the options come with other ids, or without "always"."""
    decide, asked = human(Selected("allow_always"), Selected("reject_always"), Selected("allow_once"))
    handler = attended(decide)  # type: ignore[arg-type]
    allowed: dict[str, Any] = {"title": "run", "raw_input": {"command": ["ls"], "b": 1}}
    rejected: dict[str, Any] = {"title": "run", "raw_input": {"command": ["rm"]}}
    assert await handler(asking(**allowed)) == Selected("allow_always")
    assert await handler(asking(**rejected)) == Selected("reject_always")
    again = await handler(asking(title="run", raw_input={"b": 1, "command": ["ls"]}))
    assert (again, again.reason) == (Selected("allow_once"), "remembered")
    assert await handler(asking(*KINDS[1:], **allowed)) == Selected("allow_always")
    assert await handler(asking(**rejected)) == Selected("reject_once")
    assert await handler(asking("allow_once", "reject_always", **rejected)) == Selected("reject_always")
    assert await handler(asking("allow_once", "allow_always", **rejected)) == Cancelled()
    assert len(asked) == 2
    assert await handler(asking("reject_once", "allow", **allowed)) == Selected("allow_once"), (
        "asked: no way to allow"
    )
    assert len(asked) == 3


async def test_what_was_said_once_is_asked_again() -> None:
    for decision in (
        Selected("allow_once"),
        Selected("reject_once"),
        Reject(),
        Cancelled(),
        Selected("nonsense"),
    ):
        decide, asked = human(decision, decision)
        policy = Remember(ask(decide))  # type: ignore[arg-type]
        for _ in range(2):
            assert await policy(asking(raw_input=1)) == decision
        assert len(asked) == 2


CALLS: list[dict[str, Any]] = [
    {"title": "run", "raw_input": {"command": "ls"}},
    {"title": "run", "raw_input": {"command": "ls -l"}},
    {"title": "Run", "raw_input": {"command": "ls"}},
    {"title": "run", "raw_input": {"command": "ls"}, "kind": ToolKind.EXECUTE},
    {"title": "run", "raw_input": {"command": "ls"}, "name": "shell"},
    {"title": "edit", "locations": [ToolCallLocation("/a")]},
    {"title": "edit", "locations": [ToolCallLocation("/a", 3)]},
    {"title": "edit", "locations": [ToolCallLocation("/b")]},
    {"title": "edit", "content": [Diff("/a", "new")]},
    {"title": "edit", "content": [Diff("/a", "other")]},
    {"title": "edit", "content": [Diff("/a", "new", "old")]},
]


async def test_always_is_meant_for_exactly_what_was_asked_and_for_one_session() -> None:
    questions = [asking(**call) for call in CALLS]
    assert len({what_was_asked(question) for question in questions}) == len(CALLS)
    decide, asked = human(*[Selected("allow_always")] * (len(CALLS) + 1))
    policy = Remember(decide)
    for _ in range(2):
        for call in CALLS:
            await policy(asking(**call))
    assert len(asked) == len(CALLS)
    await policy(asking(session="s2", **CALLS[0]))
    assert len(asked) == len(CALLS) + 1


async def test_a_question_that_could_mean_anything_is_not_remembered() -> None:
    assert what_was_asked(asking(title="May I?", kind=ToolKind.OTHER)) is None
    decide, asked = human(*[Selected("allow_always")] * 2)
    policy = Remember(decide)
    for _ in range(2):
        await policy(asking(title="May I?"))
    assert len(asked) == 2


async def test_what_is_remembered_is_bounded_and_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_policies, "MAX_REMEMBERED", 2)
    decide, asked = human(*[Selected("reject_always")] * 20)
    policy = Remember(decide, key=lambda request: request.tool_call.title)

    async def times_asked(*titles: str, session: str = "s1") -> int:
        before = len(asked)
        for title in titles:
            await policy(asking(title=title, session=session))
        return len(asked) - before

    assert await times_asked("a", "b", "a", "c") == 3, "c drives out b, which was used less recently"
    assert await times_asked("a", "c") == 0
    assert await times_asked("b") == 1
    assert await times_asked("x", session="s2") == 1
    policy.forget("s1")
    assert await times_asked("x", session="s2") == 0
    assert await times_asked("b") == 1
    policy.forget()
    assert await times_asked("b") == 1


async def test_a_policy_that_does_not_decide_leaves_nothing_to_remember() -> None:
    assert await Remember(first_of())(asking(raw_input=1)) is None

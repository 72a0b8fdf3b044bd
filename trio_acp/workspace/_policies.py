"""Permission policies: small rules that decide what they know, in order, next to a human (P1, P2).

A policy sees the agent's own words: kind, title and locations are claims of the agent, not facts. A policy
that allows by them trusts the agent to describe its tools truthfully.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable
from typing import Final, TypeAlias, final

import trio

from trio_acp.client import Cancelled, Decision, PermissionHandler, PermissionRequest, Selected
from trio_acp.schema import Diff, PermissionOption, PermissionOptionKind, ToolKind

__all__ = [
    "MAX_REMEMBERED",
    "READING_KINDS",
    "PermissionPolicy",
    "Remember",
    "allow_once",
    "ask",
    "attended",
    "decide_by",
    "first_of",
    "on_kinds",
    "on_title",
    "plan_mode",
    "read_only",
    "reject",
    "unattended",
    "under",
    "what_was_asked",
]

MAX_REMEMBERED: Final = 1024
"""Decisions "always" that are remembered, the newest; older questions are asked again."""

PermissionPolicy: TypeAlias = Callable[[PermissionRequest], Awaitable[Decision | None]]
"""Decides a permission request, or returns None: it is not one that this policy knows."""

READING_KINDS: Final = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK})
"""Kinds of tools that change nothing. Fetching is none of them: an address can carry secrets away."""


def _option(request: PermissionRequest, *kinds: PermissionOptionKind) -> PermissionOption | None:
    """Return the first option of the first of these kinds that is offered. Unknown kinds are never taken."""
    return next((option for kind in kinds for option in request.options if option.kind == kind), None)


# What to decide ----------------------------------------------------------------------------------------


def allow_once(reason: str = "policy: allowed") -> PermissionPolicy:
    """Allow, this time only: never an option that allows "always", nor one of an unknown kind.

    Where the agent offers no such option, what it asks is rejected, and the reason says so.

    Args:
        reason: what the audit hook is told.
    """

    async def decide(request: PermissionRequest) -> Decision:  # noqa: ASYNC124 - the shape that callers expect
        option = _option(request, PermissionOptionKind.ALLOW_ONCE)
        if option is None:
            return _rejection(request, f"{reason}, but it can only be allowed always")
        return Selected(option.option_id, reason=reason)

    return decide


def reject(reason: str = "policy: rejected") -> PermissionPolicy:
    """Reject, this time only; ``cancelled`` is answered where there is no such option.

    Args:
        reason: what the audit hook is told.
    """

    async def decide(request: PermissionRequest) -> Decision:  # noqa: ASYNC124 - the shape that callers expect
        return _rejection(request, reason)

    return decide


def _rejection(request: PermissionRequest, reason: str) -> Decision:
    option = _option(request, PermissionOptionKind.REJECT_ONCE)
    # `Reject` would take an option "always" as well, which nobody but a human should.
    return Cancelled(reason=reason) if option is None else Selected(option.option_id, reason=reason)


def ask(handler: PermissionHandler) -> PermissionPolicy:
    """Leave the decision to a handler, usually a human.

    Args:
        handler: decides.
    """

    async def decide(request: PermissionRequest) -> Decision:
        decision = handler(request)
        return await decision if isinstance(decision, Awaitable) else decision

    return decide


# When to decide ----------------------------------------------------------------------------------------


def first_of(*policies: PermissionPolicy) -> PermissionPolicy:
    """Ask policies one after the other; the first that decides has decided.

    Args:
        policies: in order.
    """

    async def decide(request: PermissionRequest) -> Decision | None:
        for policy in policies:
            decision = await policy(request)
            if decision is not None:
                return decision
        return None

    return decide


def on_kinds(kinds: Iterable[ToolKind | str], policy: PermissionPolicy) -> PermissionPolicy:
    """Apply a policy to tools of some kinds. A tool whose kind the agent does not tell is of no kind.

    Args:
        kinds: the kinds, such as ``ToolKind.EDIT`` or ``"edit"``.
        policy: decides about them.
    """
    wanted = frozenset([kinds] if isinstance(kinds, str) else kinds)

    async def decide(request: PermissionRequest) -> Decision | None:
        kind = request.tool_call.kind
        return await policy(request) if kind is not None and kind in wanted else None

    return decide


def on_title(pattern: str | re.Pattern[str], policy: PermissionPolicy) -> PermissionPolicy:
    """Apply a policy to tool calls by their title, the whole of which has to match.

    A title is what the agent shows to people; to allow by it is to trust its wording. ``"git status*"``
    also matches ``git status; rm -rf .``.

    Args:
        pattern: a pattern as in a shell (``*``, ``?``, ``[…]``), where upper and lower case differ; or a
            compiled regular expression.
        policy: decides about them.
    """
    compiled = re.compile(fnmatch.translate(pattern)) if isinstance(pattern, str) else pattern

    async def decide(request: PermissionRequest) -> Decision | None:
        return await policy(request) if compiled.fullmatch(request.tool_call.title) else None

    return decide


def under(
    roots: str | os.PathLike[str] | Collection[str | os.PathLike[str]], policy: PermissionPolicy
) -> PermissionPolicy:
    """Apply a policy to tool calls all of whose files lie beneath some directories, links resolved.

    The files are those that the agent names as locations and in diffs. A call that names none, or one by
    a relative path, is none of them.

    Args:
        roots: one directory, or several.
        policy: decides about them.
    """
    several = [roots] if isinstance(roots, (str, os.PathLike)) else list(roots)
    places = [os.path.realpath(root) for root in several]

    async def decide(request: PermissionRequest) -> Decision | None:
        call = request.tool_call
        paths = [location.path for location in call.locations]
        paths += [content.path for content in call.content if isinstance(content, Diff)]
        inside = bool(paths) and await trio.to_thread.run_sync(_all_beneath, paths, places)
        return await policy(request) if inside else None

    return decide


def _all_beneath(paths: list[str], places: list[str]) -> bool:
    for path in paths:
        if not os.path.isabs(path) or "\0" in path:
            return False
        real = os.path.realpath(path)
        if not any(os.path.commonpath([real, place]) == place for place in places):
            return False
    return True


# Ready-made --------------------------------------------------------------------------------------------


def read_only(policy: PermissionPolicy | None = None) -> PermissionPolicy:
    """Apply a policy to tools that change nothing (`READING_KINDS`).

    Args:
        policy: decides about them; by default they are allowed once.
    """
    return on_kinds(READING_KINDS, allow_once("policy: only reads") if policy is None else policy)


def plan_mode() -> PermissionPolicy:
    """Let the agent look and think, and nothing else: whatever is not of a reading kind is rejected.

    Tools whose kind is not told or not known are rejected too. What only reads is left to the next policy.
    """

    async def decide(request: PermissionRequest) -> Decision | None:  # noqa: ASYNC124 - the shape that callers expect
        if request.tool_call.kind in READING_KINDS:
            return None
        return _rejection(request, "plan mode")

    return decide


def unattended(*policies: PermissionPolicy) -> Callable[[PermissionRequest], Awaitable[Decision]]:
    """Decide where nobody can be asked: what only reads is allowed, everything else rejected.

    Nothing is decided "always", and no option of an unknown kind is taken: that holds for this default, and
    for your policies as far as they use `allow_once` and `reject`.

    Args:
        policies: are asked before.
    """
    return decide_by(*policies, read_only(), otherwise=reject("unattended"))


def attended(
    handler: PermissionHandler, *policies: PermissionPolicy
) -> Callable[[PermissionRequest], Awaitable[Decision]]:
    """Decide where somebody can be asked: policies first, then what was decided "always", then the human.

    Args:
        handler: asks the human.
        policies: are asked before.
    """
    return decide_by(*policies, otherwise=Remember(ask(handler)))


def decide_by(
    *policies: PermissionPolicy, otherwise: PermissionPolicy | None = None
) -> Callable[[PermissionRequest], Awaitable[Decision]]:
    """Make a handler for ``AcpOptions(on_permission=…)`` of policies.

    Args:
        policies: in order; the first that decides has decided.
        otherwise: is asked last. What no policy decides is rejected, once.
    """
    last = reject("no policy") if otherwise is None else otherwise
    whole = first_of(*policies, last, reject("no policy"))

    async def handler(request: PermissionRequest) -> Decision:
        decision = await whole(request)
        assert decision is not None
        return decision

    return handler


# Memory ------------------------------------------------------------------------------------------------


def what_was_asked(request: PermissionRequest) -> Hashable:
    """Return what makes two questions the same: the tool, its input, and the files and changes named.

    None where the agent tells so little that anything could be meant; such answers are not remembered.

    Args:
        request: the question.
    """
    call = request.tool_call
    raw = None if call.raw_input is None else json.dumps(call.raw_input, sort_keys=True)
    files = tuple((location.path, location.line) for location in call.locations)
    changes = tuple(
        (content.path, content.old_text, content.new_text)
        for content in call.content
        if isinstance(content, Diff)
    )
    if raw is None and not files and not changes:
        return None
    return (call.name, call.kind, call.title, raw, files, changes)


@final
class Remember:
    """A policy that remembers the human's "always", for agents that ask again all the same.

    Only what another policy has selected of the kinds ``allow_always`` and ``reject_always`` is remembered,
    for its session, and for exactly what was asked. Asked again, the same is decided: an allowed call by
    the option to allow once where there is one, a rejected one by one that rejects, never the other way
    round. Session ids are unique on one connection only: use one of these for each connection.

    Args:
        policy: decides what is not remembered.
        key: what makes two questions the same; None is not remembered. Use a coarser one with care.
    """

    def __init__(
        self, policy: PermissionPolicy, *, key: Callable[[PermissionRequest], Hashable] = what_was_asked
    ) -> None:
        self._policy = policy
        self._key = key
        self._remembered: OrderedDict[tuple[str, Hashable], bool] = OrderedDict()

    async def __call__(self, request: PermissionRequest) -> Decision | None:
        """Decide as before, or have it decided."""
        what = self._key(request)
        entry = (request.session_id, what)
        if what is not None and entry in self._remembered:
            self._remembered.move_to_end(entry)
            option = (
                _option(request, PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS)
                if self._remembered[entry]
                else _option(request, PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS)
            )
            if option is not None:
                return Selected(option.option_id, reason="remembered")
            if not self._remembered[entry]:
                return Cancelled(reason="remembered")
        decision = await self._policy(request)
        if what is not None and isinstance(decision, Selected):
            chosen = request.option(decision.option_id)
            if chosen is not None and chosen.kind in _ALWAYS:
                self._remembered[entry] = _ALWAYS[chosen.kind]
                self._remembered.move_to_end(entry)
                if len(self._remembered) > MAX_REMEMBERED:
                    self._remembered.popitem(last=False)
        return decision

    def forget(self, session_id: str | None = None) -> None:
        """Forget what was decided, in one session or in all.

        Args:
            session_id: the session; None for all.
        """
        for entry in [entry for entry in self._remembered if session_id in (None, entry[0])]:
            del self._remembered[entry]


_ALWAYS: Final[dict[str, bool]] = {
    PermissionOptionKind.ALLOW_ALWAYS: True,
    PermissionOptionKind.REJECT_ALWAYS: False,
}

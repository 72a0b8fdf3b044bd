"""What a check is, and what can come of it."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeGuard

import attrs

if TYPE_CHECKING:
    from ._probe import Probe

__all__ = [
    "Broken",
    "Check",
    "CheckResult",
    "NotApplicable",
    "Outcome",
    "Prompts",
    "Registry",
    "is_object",
    "look_up",
    "not_applicable",
    "require",
]


class Outcome(enum.Enum):
    """How a check ended."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


class Broken(Exception):
    """The agent does not do what a check asks for; the message says what it did."""


class NotApplicable(Exception):
    """A check asks for what this agent does not offer; the message says what."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether some JSON is an object."""
    return isinstance(value, dict)


def look_up(objects: object, path: str) -> bool:
    """Return whether a capability is there, by its path: left out, null and false are no (I3)."""
    value: Any = objects
    for name in path.split("."):
        value = value.get(name) if is_object(value) else None
    return value is not None and value is not False


def require(condition: object, message: str) -> None:
    """Raise `Broken` unless something is so."""
    if not condition:
        raise Broken(message)


def not_applicable(message: str) -> NoReturn:
    """Give a check up because the agent does not offer what it is about."""
    raise NotApplicable(message)


@attrs.frozen
class Prompts:
    """What to say to an agent to have it do something; None where nothing is known to do it.

    Checks that need what is not known are not applicable.

    Attributes:
        hello: is answered with a message, and needs nobody's permission.
        slow: keeps it busy for a minute or more, with a message or a thought at its beginning.
        write: has it ask for permission, and then write the file `written` in the session's directory.
        written: the name of that file; None where nothing can be seen of what it has permission for.
        command: has it run a command, after it has asked for permission.
        read: has it read the file ``notes.txt`` in the session's directory.
        elicit: has it ask for something with a form.
        link: has it ask to open an address.
        login: the id of a way to log in that needs nobody's help; not said to the agent, but given to
            ``authenticate``, whenever the agent wants somebody to log in.
    """

    hello: str = "Hello"
    slow: str | None = None
    write: str | None = None
    written: str | None = "conformance.txt"
    command: str | None = None
    read: str | None = None
    elicit: str | None = None
    link: str | None = None
    login: str | None = None


CheckBody: TypeAlias = Callable[["Probe"], Awaitable[None]]


@attrs.frozen
class Check:
    """One thing that the protocol asks of an agent.

    Attributes:
        name: its name: the tag of its rule and some words, as in ``W1-blank-lines``.
        rule: the tag of the rule.
        says: what a conforming agent does, as a sentence.
        required: the published protocol demands it, or JSON-RPC does. False for what makes an agent easy to
            live with, or for one of several ways to read the protocol.
        body: finds it out.
    """

    name: str
    rule: str
    says: str
    required: bool
    body: CheckBody = attrs.field(repr=False)


@attrs.frozen
class CheckResult:
    """What came of one check.

    Attributes:
        check: the check.
        outcome: how it ended.
        message: what the agent did instead, or does not offer; empty for a pass.
        required: for a failure, whether the published protocol demands what is missing: the check may, or
            something else that the agent said on the way has broken a rule.
        transcript: what was said, ``->`` to the agent and ``<-`` from it; long messages are cut.
    """

    check: Check
    outcome: Outcome
    message: str
    required: bool
    transcript: tuple[str, ...] = attrs.field(repr=False)

    def __str__(self) -> str:
        """Say it in one line."""
        line = f"{self.outcome.value}: {self.check.name}: {self.check.says}"
        return f"{line} ({self.message})" if self.message else line

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, for reports."""
        return {
            "name": self.check.name,
            "rule": self.check.rule,
            "required": self.required,
            "says": self.check.says,
            "outcome": self.outcome.value,
            "message": self.message,
            "transcript": list(self.transcript),
        }


class Registry:
    """The checks of one module, in the order in which they are written down."""

    def __init__(self) -> None:
        self.checks: Final[list[Check]] = []

    def __call__(self, rule: str, words: str, *, required: bool = True) -> Callable[[CheckBody], CheckBody]:
        """Take a function as a check; its docstring says what a conforming agent does.

        Args:
            rule: the tag of its rule.
            words: the rest of its name.
            required: whether the published protocol demands it.
        """

        def take(body: CheckBody) -> CheckBody:
            says = (body.__doc__ or "").strip().rstrip(".")
            self.checks.append(Check(f"{rule}-{words}", rule, says, required, body))
            return body

        return take

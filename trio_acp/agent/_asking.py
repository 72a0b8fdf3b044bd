"""Questions to the user: permission, a choice, a form (P1, P2, E1, E2)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from trio_acp._errors import InternalError, InvalidResponse
from trio_acp.schema import (
    BooleanPropertySchema,
    CancelledPermissionOutcome,
    ElicitationContentValue,
    ElicitationPropertySchema,
    ElicitationSchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionRequest,
    SelectedPermissionOutcome,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    ToolCallUpdate,
)

if TYPE_CHECKING:
    from ._live import LiveSession

__all__ = ["Decision", "ask", "check_answers", "choice_options", "decide_permission"]

ONCE = (
    PermissionOption("allow-once", "Allow", PermissionOptionKind.ALLOW_ONCE),
    PermissionOption("reject-once", "Reject", PermissionOptionKind.REJECT_ONCE),
)
ALWAYS = (
    PermissionOption("allow-always", "Always allow", PermissionOptionKind.ALLOW_ALWAYS),
    PermissionOption("reject-always", "Always reject", PermissionOptionKind.REJECT_ALWAYS),
)
CONSENT = (PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS)
FOR_EVER = (PermissionOptionKind.ALLOW_ALWAYS, PermissionOptionKind.REJECT_ALWAYS)


@attrs.frozen
class Decision:
    """How a permission question ended.

    Attributes:
        allowed: the user consented.
        cancelled: nobody decided.
    """

    allowed: bool
    cancelled: bool = False


async def ask(
    live: LiveSession, subject: ToolCallUpdate, options: Sequence[PermissionOption]
) -> PermissionOption | None:
    """Ask, and return the option that was chosen, or None if the question was cancelled.

    Raises:
        InternalError: the answer is none that the protocol or the question allows.
    """
    response = await live.client.request_permission(RequestPermissionRequest(live.id, subject, list(options)))
    match response.outcome:
        case CancelledPermissionOutcome():
            return None
        case SelectedPermissionOutcome(option_id=chosen):
            return next(option for option in options if option.option_id == chosen)
        case unknown:
            raise InternalError(
                f"the client answered with an outcome {unknown.tag!r} that has no meaning here"
            )


async def decide_permission(
    live: LiveSession,
    subject: ToolCallUpdate,
    *,
    options: Sequence[PermissionOption] | None,
    remember: str | None,
) -> Decision:
    """Ask whether something may be done. Consent is what the option's kind says, and nothing else.

    Raises:
        InternalError: see `ask`.
        ValueError: no options, or two with the same id.
    """
    if remember is not None and remember in live.remembered:
        return Decision(live.remembered[remember])
    if options is None:
        options = ONCE if remember is None else (*ONCE, *ALWAYS)
    elif not options:
        raise ValueError("a permission request needs at least one option")
    elif len({option.option_id for option in options}) < len(options):
        # The answer is an id: one that stands for both could make consent of a refusal.
        raise ValueError("two options of a permission request have the same id; give each its own")
    chosen = await ask(live, subject, options)
    if chosen is None:
        return Decision(False, cancelled=True)
    allowed = chosen.kind in CONSENT
    if remember is not None and chosen.kind in FOR_EVER:
        live.remembered[remember] = allowed
    return Decision(allowed)


def choice_options(choices: Sequence[str]) -> list[PermissionOption]:
    """Return the options that put a choice into the form of a permission request.

    Raises:
        ValueError: nothing to choose from.
    """
    if not choices:
        raise ValueError("a choice needs at least one thing to choose")
    return [
        PermissionOption(f"choice-{number}", choice, PermissionOptionKind.ALLOW_ONCE)
        for number, choice in enumerate(choices, start=1)
    ]


def check_answers(
    schema: ElicitationSchema, answers: Mapping[str, ElicitationContentValue]
) -> dict[str, ElicitationContentValue]:
    """Return the answers to a form, checked against it (E2); fields that it does not have are left out.

    Raises:
        InvalidResponse: an answer does not fit; the message names the field.
    """
    for name in schema.required or ():
        if name not in answers:
            raise InvalidResponse(f"the answer to the form lacks {name!r}, which is required")
    checked: dict[str, ElicitationContentValue] = {}
    for name, field in schema.properties.items():
        if name in answers:
            misfit = _misfit(field, answers[name])
            if misfit:
                raise InvalidResponse(f"the answer to the form does not fit: {name!r} {misfit}")
            checked[name] = answers[name]
    return checked


def _misfit(field: ElicitationPropertySchema, value: ElicitationContentValue) -> str | None:
    """Say what is wrong with a value; None if nothing is. Fields of unknown type take anything."""
    match field:
        case StringPropertySchema():
            return _string_misfit(field, value)
        case BooleanPropertySchema():
            return None if isinstance(value, bool) else "is not true or false"
        case IntegerPropertySchema():
            if isinstance(value, bool) or not isinstance(value, int):
                return "is not a whole number"
            return _range_misfit(field, value)
        case NumberPropertySchema():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return "is not a number"
            return _range_misfit(field, value)
        case MultiSelectPropertySchema():
            return _selection_misfit(field, value)
        case _:
            return None


def _string_misfit(field: StringPropertySchema, value: ElicitationContentValue) -> str | None:
    if not isinstance(value, str):
        return "is not a text"
    if field.enum is not None and value not in field.enum:
        return f"is none of the values on offer: {value!r}"
    if field.one_of is not None and value not in [option.const for option in field.one_of]:
        return f"is none of the values on offer: {value!r}"
    if (
        not (field.min_length or 0)
        <= len(value)
        <= (math.inf if field.max_length is None else field.max_length)
    ):
        return f"has {len(value)} characters"
    if field.pattern is not None:
        try:
            if re.search(field.pattern, value) is None:
                return f"does not match {field.pattern!r}"
        except re.error:
            # A pattern in the wider syntax of ECMAScript: the client has checked it, we cannot.
            return None
    return None


def _range_misfit(field: IntegerPropertySchema | NumberPropertySchema, value: float) -> str | None:
    if field.minimum is not None and value < field.minimum:
        return f"is less than {field.minimum}"
    if field.maximum is not None and value > field.maximum:
        return f"is more than {field.maximum}"
    return None


def _selection_misfit(field: MultiSelectPropertySchema, value: ElicitationContentValue) -> str | None:
    if not isinstance(value, list):
        return "is not a list"
    chosen = value
    match field.items:
        case StringMultiSelectItems(enum=offered):
            unknown = [each for each in chosen if each not in offered]
        case TitledMultiSelectItems(any_of=options):
            unknown = [each for each in chosen if each not in [option.const for option in options]]
        case _:
            unknown = []
    if unknown:
        return f"holds {unknown[0]!r}, which is not on offer"
    if (
        not (field.min_items or 0)
        <= len(chosen)
        <= (math.inf if field.max_items is None else field.max_items)
    ):
        return f"holds {len(chosen)} choices"
    return None

"""Forms that an agent asks to be filled in: what they start with, and whether an answer fits (E2)."""

from __future__ import annotations

import datetime
import json
import logging
import math
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

import attrs
import trio

from trio_acp.client import ElicitFormHandler
from trio_acp.schema import (
    BooleanPropertySchema,
    CreateElicitationFormRequest,
    CreateElicitationResponse,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationContentValue,
    ElicitationDeclineAction,
    ElicitationPropertySchema,
    ElicitationSchema,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringFormat,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
)

__all__ = [
    "MAX_FORM_ATTEMPTS",
    "PATTERN_TIMEOUT",
    "FillForm",
    "FormProblem",
    "check_form",
    "form_defaults",
    "form_handler",
]

logger = logging.getLogger("trio_acp.workspace")

MAX_FORM_ATTEMPTS: Final = 20
"""Answers that do not fit after which a form is given up: a program that fills it in may never learn."""

PATTERN_TIMEOUT: Final = 1.0
"""Seconds for the match of a pattern that the agent gave: some take longer than the universe lasts."""

_EMAIL: Final = re.compile(r"[^@\s\x00-\x1f]+@[^@\s.]+(\.[^@\s.]+)*")

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)

_MATCHER: Final = (
    "import json, re, sys; pattern, text = json.load(sys.stdin); "
    "print(int(re.search(pattern, text) is not None))"
)


@attrs.frozen
class FormProblem:
    """Why an answer does not fit its form.

    Attributes:
        field: the name of the field.
        message: what is wrong, for people.
    """

    field: str
    message: str


FormContent: TypeAlias = Mapping[str, ElicitationContentValue]

FillForm: TypeAlias = Callable[
    [CreateElicitationFormRequest, "dict[str, ElicitationContentValue]", Sequence[FormProblem]],
    Awaitable["FormContent | ElicitationDeclineAction | ElicitationCancelAction"],
]
"""Lets the user fill in a form: takes the request, what the fields start with, and what was wrong with the
answer before (at first nothing); returns the fields, or that the user declined or did not choose."""


def form_handler(fill: FillForm) -> ElicitFormHandler:
    """Make a handler for ``AcpOptions(elicit_form=…)`` that sends only what fits the form.

    An answer that does not fit goes back to the user with what is wrong, at most ``MAX_FORM_ATTEMPTS`` times;
    then ``cancel`` is answered.

    Cancellation: reaches ``fill``; what it returns afterwards is not sent.

    Args:
        fill: lets the user fill in the form.
    """

    async def handler(request: CreateElicitationFormRequest) -> CreateElicitationResponse:
        schema = request.requested_schema
        content: dict[str, ElicitationContentValue] = await form_defaults(schema)
        problems: Sequence[FormProblem] = ()
        for _ in range(MAX_FORM_ATTEMPTS):
            answer = await fill(request, dict(content), problems)
            if isinstance(answer, (ElicitationDeclineAction, ElicitationCancelAction)):
                return answer
            content = dict(answer)
            problems = await check_form(schema, content)
            if not problems:
                # An answer that comes when nobody waits for it any more ends here, should `fill` be shielded.
                await trio.lowlevel.checkpoint_if_cancelled()
                return ElicitationAcceptAction(content)
        logger.warning("a form was given up: %d answers did not fit", MAX_FORM_ATTEMPTS)
        return ElicitationCancelAction()

    return handler


async def form_defaults(schema: ElicitationSchema) -> dict[str, ElicitationContentValue]:
    """Return what the fields of a form start with. A default that does not fit its own field is left out.

    Args:
        schema: the form.
    """
    found: dict[str, ElicitationContentValue] = {}
    for name, field in schema.properties.items():
        default: Any = getattr(field, "default", None)
        if default is not None and not await _problems(name, field, default):
            found[name] = list(cast("list[str]", default)) if isinstance(default, list) else default
    return found


async def check_form(schema: ElicitationSchema, content: FormContent) -> list[FormProblem]:
    """Return what is wrong with an answer to a form: nothing if it can be sent.

    Checked are required fields, types, ranges, lengths, formats, patterns and choices. Formats that are not
    known are not checked; nor are patterns that are no regular expressions, or take longer than
    ``PATTERN_TIMEOUT``, which is logged. A field that is None counts as left out.

    Args:
        schema: the form.
        content: the answer, by field name.
    """
    found: list[FormProblem] = []
    for name in schema.required or []:
        if content.get(name) is None:
            found.append(FormProblem(name, "has to be filled in"))
    for name, value in content.items():
        field = schema.properties.get(name)
        if field is None:
            found.append(FormProblem(name, "is no field of this form"))
        else:
            found += [FormProblem(name, message) for message in await _problems(name, field, value)]
    return found


async def _problems(name: str, field: ElicitationPropertySchema, value: Any) -> list[str]:
    if isinstance(field, StringPropertySchema):
        return await _string_problems(name, field, value)
    if isinstance(field, (NumberPropertySchema, IntegerPropertySchema)):
        return _number_problems(field, value)
    if isinstance(field, BooleanPropertySchema):
        return [] if isinstance(value, bool) else ["has to be yes or no"]
    if isinstance(field, MultiSelectPropertySchema):
        return _choice_problems(field, value)
    return ["is of a type that this program does not know"]


async def _string_problems(name: str, field: StringPropertySchema, value: Any) -> list[str]:
    if not isinstance(value, str):
        return ["has to be a text"]
    choices = list(field.enum or []) + [choice.const for choice in field.one_of or []]
    if (field.enum is not None or field.one_of is not None) and value not in choices:
        return ["has to be one of the choices"]
    found: list[str] = []
    if field.min_length is not None and len(value) < field.min_length:
        found.append(f"needs at least {field.min_length} characters")
    if field.max_length is not None and len(value) > field.max_length:
        found.append(f"may have at most {field.max_length} characters")
    if field.format is not None and not _has_format(field.format, value):
        found.append(f"is no {field.format}")
    if field.pattern is not None and not await _matches(name, field.pattern, value):
        found.append(f"does not match {field.pattern}")
    return found


def _has_format(format: str, value: str) -> bool:
    try:
        if format == StringFormat.EMAIL:
            return _EMAIL.fullmatch(value) is not None
        if format == StringFormat.URI:
            return bool(urlsplit(value).scheme) and not re.search(r"[\s<>\"{}|\\^`]", value)
        if format == StringFormat.DATE:
            return _DATE.fullmatch(value) is not None and bool(datetime.date.fromisoformat(value))
        if format == StringFormat.DATE_TIME:
            return _DATE_TIME.fullmatch(value) is not None and bool(
                datetime.datetime.fromisoformat(value[:19].upper())
            )
    except ValueError:
        return False
    return True


async def _matches(name: str, pattern: str, value: str) -> bool:
    """Match in a process of its own: nothing else can be stopped in the middle of a regular expression."""
    with trio.move_on_after(PATTERN_TIMEOUT) as scope:
        result = await trio.run_process(
            [sys.executable, "-IS", "-c", _MATCHER],
            stdin=json.dumps([pattern, value]).encode(),
            capture_stdout=True,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if result.returncode == 0:
            return result.stdout.strip() == b"1"
    why = "takes too long" if scope.cancelled_caught else "is no regular expression here"
    logger.warning("the pattern of the form field %r %s; it is not checked", name, why)
    return True


def _number_problems(field: NumberPropertySchema | IntegerPropertySchema, value: Any) -> list[str]:
    whole = isinstance(field, IntegerPropertySchema)
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        return ["has to be a whole number" if whole else "has to be a number"]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return ["is too large for this form"]
    if field.minimum is not None and value < field.minimum:
        return [f"has to be {field.minimum} or more"]
    if field.maximum is not None and value > field.maximum:
        return [f"has to be {field.maximum} or less"]
    return []


def _choice_problems(field: MultiSelectPropertySchema, value: Any) -> list[str]:
    chosen = cast("list[object]", value) if isinstance(value, list) else None
    if chosen is None or not all(isinstance(each, str) for each in chosen):
        return ["has to be a list of choices"]
    items = field.items
    choices: list[str]
    if isinstance(items, StringMultiSelectItems):
        choices = items.enum
    elif isinstance(items, TitledMultiSelectItems):
        choices = [choice.const for choice in items.any_of]
    else:
        return ["offers choices of a type that this program does not know"]
    if any(each not in choices for each in chosen):
        return ["has a choice that is not offered"]
    if len(set(chosen)) != len(chosen):
        return ["has a choice twice"]
    if field.min_items is not None and len(chosen) < field.min_items:
        return [f"needs at least {field.min_items} choices"]
    if field.max_items is not None and len(chosen) > field.max_items:
        return [f"may have at most {field.max_items} choices"]
    return []

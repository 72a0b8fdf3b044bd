"""What can be chosen about a session: mode, model, config options, and how these go together (S7).

Agents offer modes and models in up to three ways: as config options of a category, as ``modes``, and (older
agents) as ``models``. Where there are several they mean the same, so they are kept in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import attrs

from trio_acp._errors import LocalProtocolError
from trio_acp.schema import (
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    UnknownVariant,
)

__all__ = [
    "Category",
    "ModelChoice",
    "ModelState",
    "check_choice",
    "chosen_value",
    "option_to_set",
    "read_models",
    "with_choice",
]

Category: TypeAlias = Literal["mode", "model"]
"""What an option is about, where this library knows another way to say it."""


@attrs.frozen
class ModelChoice:
    """A model that a session can use, as agents without config options offer it.

    Attributes:
        model_id: what it is set by.
        name: what people see.
        description: more about it, for people.
    """

    model_id: str
    name: str
    description: str | None = None


@attrs.define
class ModelState:
    """The models of a session, and the one in use, as agents without config options offer them.

    This is not in the stable protocol; some agents send it beside, or instead of, a config option.

    Attributes:
        current_model_id: the model in use.
        available_models: the models there are.
    """

    current_model_id: str
    available_models: list[ModelChoice]


def read_models(extra: dict[str, Any] | None) -> ModelState | None:
    """Return the legacy ``models`` of the answer that makes a session; None where there are none that fit."""
    raw: Any = None if extra is None else extra.get("models")
    if not isinstance(raw, dict):
        return None
    models = cast("dict[str, Any]", raw)
    current: Any = models.get("currentModelId")
    available: Any = models.get("availableModels")
    if not isinstance(current, str) or not isinstance(available, list):
        return None
    items = cast("list[object]", available)
    return ModelState(current, [choice for each in items for choice in _model(each)])


def _model(raw: Any) -> list[ModelChoice]:
    if not isinstance(raw, dict):
        return []
    model = cast("dict[str, Any]", raw)
    id, name, description = model.get("modelId"), model.get("name"), model.get("description")
    if not isinstance(id, str):
        return []
    return [
        ModelChoice(
            id,
            name if isinstance(name, str) else id,
            description if isinstance(description, str) else None,
        )
    ]


def check_choice(options: Sequence[SessionConfigOption], config_id: str, value: str | bool) -> None:
    """Refuse a value that is not offered.

    Raises:
        LocalProtocolError: there is no such option or value.
    """
    known = [option for option in options if not isinstance(option, UnknownVariant)]
    option = next((option for option in known if option.id == config_id), None)
    if option is None:
        ids = [option.id for option in known]
        raise LocalProtocolError(f"the session has no config option {config_id!r}; it has {ids or 'none'}")
    if isinstance(option, SessionConfigSelect):
        values = _values(option)
        if value not in values:
            raise LocalProtocolError(f"config option {config_id!r} takes one of {values}, not {value!r}")
    elif not isinstance(value, bool):
        raise LocalProtocolError(f"config option {config_id!r} takes True or False, not {value!r}")


def option_to_set(
    options: Sequence[SessionConfigOption], category: Category, value: str
) -> SessionConfigSelect | None:
    """Return the option of a category that can have a value; None where there is no option of that category.

    Raises:
        LocalProtocolError: there are such options, and none of them can have the value.
    """
    of_category = _of_category(options, category)
    for option in of_category:
        if value in _values(option):
            return option
    if of_category:
        values = [each for option in of_category for each in _values(option)]
        raise LocalProtocolError(f"the session has no {category} {value!r}; it has {values or 'none'}")
    return None


def chosen_value(options: Sequence[SessionConfigOption], category: Category) -> str | None:
    """Return the value of the first option of a category, None where there is no such option."""
    return next((option.current_value for option in _of_category(options, category)), None)


def with_choice(
    options: list[SessionConfigOption], category: Category, value: str
) -> list[SessionConfigOption]:
    """Return options of which the first one of a category that can have a value has it.

    New objects are made: the old ones may be in the application's hands, as what an update said.
    """
    for option in _of_category(options, category):
        if value in _values(option):
            if option.current_value == value:
                return options
            chosen = attrs.evolve(option, current_value=value)
            return [chosen if each is option else each for each in options]
    return options


def _of_category(options: Sequence[SessionConfigOption], category: Category) -> list[SessionConfigSelect]:
    return [
        option
        for option in options
        if isinstance(option, SessionConfigSelect) and option.category == category
    ]


def _values(option: SessionConfigSelect) -> list[str]:
    values: list[str] = []
    for entry in option.options:
        if isinstance(entry, SessionConfigSelectGroup):
            values += [choice.value for choice in entry.options]
        else:
            values.append(entry.value)
    return values

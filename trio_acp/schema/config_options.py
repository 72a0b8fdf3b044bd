"""Config options: what the user can choose about a session (S7; protocol: Session Config Options)."""

import enum
from typing import ClassVar, Literal, TypeAlias

from attrs import define

from ._base import Lenient, LenientItems, UnknownVariant, WireObject, open_union
from .identifiers import SessionConfigGroupId, SessionConfigId, SessionConfigValueId, SessionId

__all__ = [
    "SessionConfigBoolean",
    "SessionConfigOption",
    "SessionConfigOptionCategory",
    "SessionConfigSelect",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SetSessionConfigOptionBooleanRequest",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SetSessionConfigOptionValueRequest",
]


class SessionConfigOptionCategory(enum.StrEnum):
    """What an option is about: a hint for where to show it. Names with a leading ``_`` are for own use."""

    MODE = "mode"
    MODEL = "model"
    MODEL_CONFIG = "model_config"
    THOUGHT_LEVEL = "thought_level"


@define(repr=False, eq=False)
class SessionConfigSelectOption(WireObject):
    """One value that an option can have.

    Attributes:
        value: What is sent to choose it.
        name: What people see.
        description: More about it, for people.
    """

    value: SessionConfigValueId
    name: str
    description: Lenient[str | None] = None


@define(repr=False, eq=False)
class SessionConfigSelectGroup(WireObject):
    """Values that belong together.

    Attributes:
        group: The group's id.
        name: What people see.
        options: The values in it.
    """

    group: SessionConfigGroupId
    name: str
    options: LenientItems[list[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]
"""The values to choose from, all of them in groups or none."""


@define(repr=False, eq=False)
class SessionConfigSelect(WireObject):
    """An option with one of several values.

    Attributes:
        id: What the option is set by.
        name: What people see.
        current_value: The value that is in force.
        options: The values to choose from.
        description: More about it, for people.
        category: What the option is about.
    """

    type: ClassVar[Literal["select"]] = "select"

    id: SessionConfigId
    name: str
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | str | None] = None


@define(repr=False, eq=False)
class SessionConfigBoolean(WireObject):
    """An option that is on or off; only for clients that advertise ``session.configOptions.boolean``.

    Attributes:
        id: What the option is set by.
        name: What people see.
        current_value: Whether it is on.
        description: More about it, for people.
        category: What the option is about.
    """

    type: ClassVar[Literal["boolean"]] = "boolean"

    id: SessionConfigId
    name: str
    current_value: bool
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | str | None] = None


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean | UnknownVariant
"""A config option and its current value, told apart by ``type``. Those of unknown type are to be ignored."""

open_union(SessionConfigOption, "SessionConfigOption", "type")


@define(repr=False, eq=False)
class SetSessionConfigOptionValueRequest(WireObject):
    """Parameters of ``session/set_config_option`` that choose one of several values; without a tag."""

    session_id: SessionId
    config_id: SessionConfigId
    value: SessionConfigValueId


@define(repr=False, eq=False)
class SetSessionConfigOptionBooleanRequest(WireObject):
    """Parameters of ``session/set_config_option`` that turn an option on or off."""

    type: ClassVar[Literal["boolean"]] = "boolean"

    session_id: SessionId
    config_id: SessionConfigId
    value: bool


SetSessionConfigOptionRequest: TypeAlias = (
    SetSessionConfigOptionValueRequest | SetSessionConfigOptionBooleanRequest | UnknownVariant
)
"""Parameters of ``session/set_config_option``, told apart by ``type``.

Without a type, or with an unknown one and a string for the value, it chooses one of several values.
"""

open_union(
    SetSessionConfigOptionRequest,
    "SetSessionConfigOptionRequest",
    "type",
    default=SetSessionConfigOptionValueRequest,
    unknown_as_default=True,
)


@define(repr=False, eq=False)
class SetSessionConfigOptionResponse(WireObject):
    """Result of ``session/set_config_option``: all options as they are now, since one may change others."""

    config_options: LenientItems[list[SessionConfigOption]]

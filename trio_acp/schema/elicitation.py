"""Asking the user for input: ``elicitation/…`` (E1 to E3).

A form is described by a flat JSON schema: one object with properties that are text, numbers, booleans or
choices.
"""

import enum
from typing import ClassVar, Literal, TypeAlias

from attrs import define, field

from ._base import (
    UNSET,
    AlwaysSent,
    Int64,
    Lenient,
    LenientItems,
    UInt32,
    UInt64,
    UnknownVariant,
    Unset,
    WireObject,
    new_dict,
    open_union,
)
from .identifiers import ElicitationId, SessionId, ToolCallId
from .rpc import RequestId

__all__ = [
    "BooleanPropertySchema",
    "CompleteElicitationNotification",
    "CreateElicitationFormRequest",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "CreateElicitationUrlRequest",
    "ElicitationAcceptAction",
    "ElicitationCancelAction",
    "ElicitationContentValue",
    "ElicitationDeclineAction",
    "ElicitationPropertySchema",
    "ElicitationRequestScope",
    "ElicitationSchema",
    "ElicitationSchemaType",
    "ElicitationSessionScope",
    "EnumOption",
    "IntegerPropertySchema",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NumberPropertySchema",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "TitledMultiSelectItems",
]


class StringFormat(enum.StrEnum):
    """What a text has to look like."""

    EMAIL = "email"
    URI = "uri"
    DATE = "date"
    DATE_TIME = "date-time"


@define(repr=False, eq=False)
class EnumOption(WireObject):
    """A value to choose, and what people see for it.

    Attributes:
        const: The value.
        title: What people see.
        description: More about it, for people.
    """

    const: str
    title: str
    description: Lenient[str | None] = None


@define(repr=False, eq=False)
class StringPropertySchema(WireObject):
    """A text, or one choice of several where ``enum`` or ``one_of`` is there.

    Attributes:
        title: What people see.
        description: More about it, for people.
        min_length: Characters at least.
        max_length: Characters at most.
        pattern: A regular expression that it has to match.
        format: What it has to look like.
        default: What the form starts with.
        enum: The values to choose from.
        one_of: The values to choose from, with titles.
    """

    type: ClassVar[Literal["string"]] = "string"

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    min_length: UInt32 | None = None
    max_length: UInt32 | None = None
    pattern: str | None = None
    format: StringFormat | str | None = None
    default: Lenient[str | None] = None
    enum: list[str] | None = None
    one_of: list[EnumOption] | None = None


@define(repr=False, eq=False)
class NumberPropertySchema(WireObject):
    """A number; ``minimum`` and ``maximum`` are inclusive, ``default`` is what the form starts with."""

    type: ClassVar[Literal["number"]] = "number"

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    minimum: float | None = None
    maximum: float | None = None
    default: Lenient[float | None] = None


@define(repr=False, eq=False)
class IntegerPropertySchema(WireObject):
    """A whole number; ``minimum`` and ``maximum`` are inclusive, ``default`` is what the form starts with."""

    type: ClassVar[Literal["integer"]] = "integer"

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    minimum: Int64 | None = None
    maximum: Int64 | None = None
    default: Lenient[Int64 | None] = None


@define(repr=False, eq=False)
class BooleanPropertySchema(WireObject):
    """Yes or no; ``default`` is what the form starts with."""

    type: ClassVar[Literal["boolean"]] = "boolean"

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    default: Lenient[bool | None] = None


@define(repr=False, eq=False)
class StringMultiSelectItems(WireObject):
    """The values to choose from, without titles."""

    type: ClassVar[Literal["string"]] = "string"

    enum: list[str]


@define(repr=False, eq=False)
class TitledMultiSelectItems(WireObject):
    """The values to choose from, with titles. It has no tag on the wire."""

    any_of: list[EnumOption]


MultiSelectItems: TypeAlias = StringMultiSelectItems | TitledMultiSelectItems | UnknownVariant
"""What can be chosen in a choice of several values, told apart by ``type``; none means values with titles."""

open_union(MultiSelectItems, "MultiSelectItems", "type", default=TitledMultiSelectItems)


@define(repr=False, eq=False)
class MultiSelectPropertySchema(WireObject):
    """Any number of choices.

    Attributes:
        items: What can be chosen.
        title: What people see.
        description: More about it, for people.
        min_items: Choices at least.
        max_items: Choices at most.
        default: The values that are chosen at first.
    """

    type: ClassVar[Literal["array"]] = "array"

    items: MultiSelectItems
    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    min_items: UInt64 | None = None
    max_items: UInt64 | None = None
    default: LenientItems[list[str] | None] = None


ElicitationPropertySchema: TypeAlias = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
    | UnknownVariant
)
"""One field of a form, told apart by ``type``."""

open_union(ElicitationPropertySchema, "ElicitationPropertySchema", "type")


class ElicitationSchemaType(enum.StrEnum):
    """What a form gives: always an object."""

    OBJECT = "object"


@define(repr=False, eq=False)
class ElicitationSchema(WireObject):
    """A form.

    Attributes:
        type: What it gives.
        properties: Its fields, in order, by name.
        required: Names of the fields that have to be filled in.
        title: What people see.
        description: More about it, for people.
    """

    type: AlwaysSent[Lenient[ElicitationSchemaType | str]] = ElicitationSchemaType.OBJECT
    properties: AlwaysSent[dict[str, ElicitationPropertySchema]] = field(factory=new_dict)
    required: list[str] | None = None
    title: Lenient[str | None] = None
    description: Lenient[str | None] = None


@define(repr=False, eq=False)
class ElicitationSessionScope(WireObject):
    """An elicitation belongs to a session, or to one tool call of it."""

    session_id: SessionId
    tool_call_id: Lenient[ToolCallId | None] = None


@define(repr=False, eq=False)
class ElicitationRequestScope(WireObject):
    """An elicitation belongs to a request that the client sent and that has not been answered."""

    request_id: RequestId


@define(repr=False, eq=False)
class _CreateElicitation(WireObject):
    """What both modes of elicitation have: to what they belong (E1)."""

    session_id: SessionId | None = field(default=None, kw_only=True)
    tool_call_id: Lenient[ToolCallId | None] = field(default=None, kw_only=True)
    request_id: RequestId | Unset = field(default=UNSET, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.session_id is None and self.request_id is UNSET:
            raise ValueError("expected a sessionId or a requestId")

    @property
    def scope(self) -> ElicitationSessionScope | ElicitationRequestScope:
        """To what this elicitation belongs; a session comes first where both are named."""
        if self.session_id is not None:
            return ElicitationSessionScope(self.session_id, self.tool_call_id)
        assert self.request_id is not UNSET
        return ElicitationRequestScope(self.request_id)


@define(repr=False, eq=False)
class CreateElicitationFormRequest(_CreateElicitation):
    """Parameters of ``elicitation/create`` that ask for a form to be filled in.

    One of ``session_id`` and ``request_id`` has to be there.

    Attributes:
        message: What is asked, for people.
        requested_schema: The form.
        session_id: The session that it belongs to.
        tool_call_id: The tool call of that session that it belongs to.
        request_id: The request of the client that it belongs to.

    Raises:
        ValueError: Neither ``session_id`` nor ``request_id`` was given.
    """

    mode: ClassVar[Literal["form"]] = "form"

    message: str
    requested_schema: ElicitationSchema


@define(repr=False, eq=False)
class CreateElicitationUrlRequest(_CreateElicitation):
    """Parameters of ``elicitation/create`` that send the user to a URL (E3).

    One of ``session_id`` and ``request_id`` has to be there.

    Attributes:
        message: What for, for people.
        elicitation_id: What ``elicitation/complete`` will name.
        url: Where to; show it whole, and open it only if the user agrees.
        session_id: The session that it belongs to.
        tool_call_id: The tool call of that session that it belongs to.
        request_id: The request of the client that it belongs to.

    Raises:
        ValueError: Neither ``session_id`` nor ``request_id`` was given.
    """

    mode: ClassVar[Literal["url"]] = "url"

    message: str
    elicitation_id: ElicitationId
    url: str


CreateElicitationRequest: TypeAlias = (
    CreateElicitationFormRequest | CreateElicitationUrlRequest | UnknownVariant
)
"""Parameters of ``elicitation/create``, told apart by ``mode``."""

open_union(CreateElicitationRequest, "CreateElicitationRequest", "mode")

ElicitationContentValue: TypeAlias = str | Int64 | float | bool | list[str]
"""What one field of a form was filled in with."""


@define(repr=False, eq=False)
class ElicitationAcceptAction(WireObject):
    """The user agreed; ``content`` holds what a form was filled in with, by field name."""

    action: ClassVar[Literal["accept"]] = "accept"

    content: dict[str, ElicitationContentValue] | None = None


class ElicitationDeclineAction(WireObject):
    """The user said no."""

    action: ClassVar[Literal["decline"]] = "decline"

    __slots__ = ()


class ElicitationCancelAction(WireObject):
    """The user did not choose."""

    action: ClassVar[Literal["cancel"]] = "cancel"

    __slots__ = ()


CreateElicitationResponse: TypeAlias = (
    ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction | UnknownVariant
)
"""Result of ``elicitation/create``, told apart by ``action``."""

open_union(CreateElicitationResponse, "CreateElicitationResponse", "action")


@define(repr=False, eq=False)
class CompleteElicitationNotification(WireObject):
    """Parameters of ``elicitation/complete``: what the user was sent to a URL for is over."""

    elicitation_id: ElicitationId

"""Asking the user before a tool runs: ``session/request_permission`` (P1, P2)."""

import enum
from typing import ClassVar, Literal, TypeAlias

from attrs import define

from ._base import UnknownVariant, WireObject, open_union
from .identifiers import PermissionOptionId, SessionId
from .tool_calls import ToolCallUpdate

__all__ = [
    "CancelledPermissionOutcome",
    "PermissionOption",
    "PermissionOptionKind",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "SelectedPermissionOutcome",
]


class PermissionOptionKind(enum.StrEnum):
    """What choosing an option means (P2)."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


@define(repr=False, eq=False)
class PermissionOption(WireObject):
    """One answer that the user may give.

    Attributes:
        option_id: What goes back to the agent if this is chosen.
        name: Its label.
        kind: What choosing it means; decide by this and never by the id or the label.
    """

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind | str


@define(repr=False, eq=False)
class RequestPermissionRequest(WireObject):
    """Parameters of ``session/request_permission``.

    Attributes:
        session_id: The session that the tool call belongs to.
        tool_call: The call in question, as far as the agent describes it here.
        options: The answers on offer.
    """

    session_id: SessionId
    tool_call: ToolCallUpdate
    options: list[PermissionOption]


class CancelledPermissionOutcome(WireObject):
    """Nobody chose: the turn was cancelled before an answer was given (X1)."""

    outcome: ClassVar[Literal["cancelled"]] = "cancelled"

    __slots__ = ()


@define(repr=False, eq=False)
class SelectedPermissionOutcome(WireObject):
    """One of the options was chosen."""

    outcome: ClassVar[Literal["selected"]] = "selected"

    option_id: PermissionOptionId


RequestPermissionOutcome: TypeAlias = CancelledPermissionOutcome | SelectedPermissionOutcome | UnknownVariant
"""How a permission request ended, told apart by ``outcome``."""

open_union(RequestPermissionOutcome, "RequestPermissionOutcome", "outcome")


@define(repr=False, eq=False)
class RequestPermissionResponse(WireObject):
    """Result of ``session/request_permission``."""

    outcome: RequestPermissionOutcome

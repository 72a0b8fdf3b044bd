"""A turn's beginning and end: ``session/prompt``, and ``session/cancel`` (T1 to T3, X1)."""

import enum

from attrs import define

from ._base import WireObject
from .content import ContentBlock
from .identifiers import SessionId

__all__ = ["CancelNotification", "PromptRequest", "PromptResponse", "StopReason"]


class StopReason(enum.StrEnum):
    """Why a turn ended (T3)."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"


@define(repr=False, eq=False)
class PromptRequest(WireObject):
    """Parameters of ``session/prompt``: what the user says."""

    session_id: SessionId
    prompt: list[ContentBlock]


@define(repr=False, eq=False)
class PromptResponse(WireObject):
    """Result of ``session/prompt``, given when the turn is over."""

    stop_reason: StopReason | str


@define(repr=False, eq=False)
class CancelNotification(WireObject):
    """Parameters of ``session/cancel``: end the turn that runs in this session."""

    session_id: SessionId

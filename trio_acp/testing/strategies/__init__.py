"""Hypothesis strategies for the protocol: wire types, messages, conversations, chunks, hostile lines.

Needs Hypothesis: ``pip install 'trio-acp[testing]'``.
"""

from __future__ import annotations

from ._bytes import chunkings as chunkings
from ._bytes import hostile_lines as hostile_lines
from ._conversations import conversations as conversations
from ._conversations import illegal_conversations as illegal_conversations
from ._wire import InvalidPayload as InvalidPayload
from ._wire import invalid_payloads as invalid_payloads
from ._wire import json_values as json_values
from ._wire import lenient_payloads as lenient_payloads
from ._wire import messages as messages
from ._wire import objects as objects
from ._wire import payloads as payloads

__all__ = [
    "InvalidPayload",
    "chunkings",
    "conversations",
    "hostile_lines",
    "illegal_conversations",
    "invalid_payloads",
    "json_values",
    "lenient_payloads",
    "messages",
    "objects",
    "payloads",
]

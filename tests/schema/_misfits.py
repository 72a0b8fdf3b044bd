"""What tests of decoding have in common."""

from __future__ import annotations

from typing import Any

import pytest

from trio_acp.schema import (
    SchemaError,
    structure,
)

__all__ = ["CHUNK", "error_of"]

CHUNK = {
    "sessionUpdate": "agent_message_chunk",
    "content": {"type": "text", "text": "Hello"},
    "messageId": "m1",
}


def error_of(as_type: Any, raw: object) -> str:
    with pytest.raises(SchemaError) as caught:
        structure(as_type, raw)
    return str(caught.value)

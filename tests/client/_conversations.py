"""What tests of the agent as a model have in common."""

from __future__ import annotations

from typing import Any

from tests.client._scripted import Wire
from trio_acp.client import (
    GenerateStream,
)
from trio_acp.schema import ImageContent

__all__ = [
    "IMAGE",
    "WIRE_IMAGE",
    "events_of",
    "reply",
    "wire_text",
]

IMAGE = ImageContent("aGk=", "image/png")


WIRE_IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def wire_text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


async def reply(wire: Wire, expected: str | list[Any], answer: str, session: str = "s1") -> None:
    """Expect a prompt and answer it."""
    prompt = await wire.prompt(session)
    blocks = [wire_text(expected)] if isinstance(expected, str) else expected
    assert prompt["params"]["prompt"] == blocks
    await wire.text(answer, session)
    await wire.end(prompt)


async def events_of(stream: GenerateStream) -> list[Any]:
    found: list[Any] = []
    async with stream as events:
        found += [event async for event in events]
    return found

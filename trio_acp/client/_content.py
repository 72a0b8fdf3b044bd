"""What a prompt may hold: checked against what the agent can take before anything is sent (T1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from trio_acp._errors import CapabilityError, LocalProtocolError
from trio_acp.schema import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptCapabilities,
    ResourceLink,
    TextContent,
    UnknownVariant,
)

__all__ = ["PromptContent", "prompt_blocks"]

PromptContent: TypeAlias = str | ContentBlock | Sequence[str | ContentBlock]
"""A text, a content block, or several of these."""


def prompt_blocks(content: PromptContent, capabilities: PromptCapabilities) -> list[ContentBlock]:
    """Return a prompt's content as blocks.

    Raises:
        CapabilityError: a block is of a kind that the agent did not advertise.
        LocalProtocolError: there is nothing in it, or something that is no content block.
    """
    parts = [content] if isinstance(content, str) or not isinstance(content, Sequence) else content
    if not parts:
        raise LocalProtocolError("a prompt needs at least one content block or a text")
    return [_block(part, capabilities) for part in parts]


def _block(part: str | ContentBlock, capabilities: PromptCapabilities) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(part)
    if isinstance(part, ImageContent):
        _require(capabilities.image, "image")
    elif isinstance(part, AudioContent):
        _require(capabilities.audio, "audio")
    elif isinstance(part, EmbeddedResource):
        _require(capabilities.embedded_context, "embeddedContext")
    elif not isinstance(part, (TextContent, ResourceLink, UnknownVariant)):
        raise LocalProtocolError(
            f"a prompt is made of texts and content blocks such as TextContent, not of {type(part).__name__}"
        )
    return part


def _require(supported: bool, name: str) -> None:
    if not supported:
        raise CapabilityError(
            f"promptCapabilities.{name}",
            f"the agent takes no such content in a prompt (promptCapabilities.{name}); "
            "send text or a resource link instead",
        )

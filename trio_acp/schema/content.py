"""Content blocks: what prompts, messages and tool results are made of (protocol: Content)."""

import enum
from typing import ClassVar, Literal, TypeAlias

from attrs import define

from ._base import Int64, Lenient, LenientItems, UnknownVariant, WireObject, open_union

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "ImageContent",
    "ResourceLink",
    "Role",
    "TextContent",
    "TextResourceContents",
]


class Role(enum.StrEnum):
    """Who a piece of content is meant for."""

    ASSISTANT = "assistant"
    USER = "user"


@define(repr=False, eq=False)
class Annotations(WireObject):
    """Hints on how content may be used or shown.

    Attributes:
        audience: Who it is for; None says nothing about that.
        last_modified: When it last changed, as ISO 8601 text.
        priority: How much it matters; larger is more.
    """

    audience: LenientItems[list[Role | str] | None] = None
    last_modified: Lenient[str | None] = None
    priority: Lenient[float | None] = None


@define(repr=False, eq=False)
class TextContent(WireObject):
    """Text, plain or Markdown. Every peer takes it."""

    type: ClassVar[Literal["text"]] = "text"

    text: str
    annotations: Lenient[Annotations | None] = None


@define(repr=False, eq=False)
class ImageContent(WireObject):
    """An image; in prompts only where ``promptCapabilities.image`` allows it (T1).

    Attributes:
        data: The image, base64.
        mime_type: For example ``image/png``.
        uri: Where it came from.
    """

    type: ClassVar[Literal["image"]] = "image"

    data: str
    mime_type: str
    uri: Lenient[str | None] = None
    annotations: Lenient[Annotations | None] = None


@define(repr=False, eq=False)
class AudioContent(WireObject):
    """A sound; in prompts only where ``promptCapabilities.audio`` allows it (T1).

    Attributes:
        data: The sound, base64.
        mime_type: For example ``audio/wav``.
    """

    type: ClassVar[Literal["audio"]] = "audio"

    data: str
    mime_type: str
    annotations: Lenient[Annotations | None] = None


@define(repr=False, eq=False)
class ResourceLink(WireObject):
    """A reference to something that the agent can read for itself. Every agent takes it.

    Attributes:
        name: What people call it.
        uri: Where it is.
        title: A longer name for display.
        description: What is in it.
        mime_type: Its media type, if known.
        size: Its size in bytes, if known.
    """

    type: ClassVar[Literal["resource_link"]] = "resource_link"

    name: str
    uri: str
    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    mime_type: Lenient[str | None] = None
    size: Lenient[Int64 | None] = None
    annotations: Lenient[Annotations | None] = None


@define(repr=False, eq=False)
class TextResourceContents(WireObject):
    """The text of an embedded resource."""

    text: str
    uri: str
    mime_type: Lenient[str | None] = None


@define(repr=False, eq=False)
class BlobResourceContents(WireObject):
    """The bytes of an embedded resource, base64 in ``blob``."""

    blob: str
    uri: str
    mime_type: Lenient[str | None] = None


EmbeddedResourceResource: TypeAlias = TextResourceContents | BlobResourceContents
"""What an embedded resource holds. The two are told apart by their fields."""


@define(repr=False, eq=False)
class EmbeddedResource(WireObject):
    """A resource sent whole; in prompts only where ``promptCapabilities.embeddedContext`` allows it (T1)."""

    type: ClassVar[Literal["resource"]] = "resource"

    resource: EmbeddedResourceResource
    annotations: Lenient[Annotations | None] = None


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownVariant
)
"""One piece of content, told apart by ``type``."""

open_union(ContentBlock, "ContentBlock", "type", usual="text")

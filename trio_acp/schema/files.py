"""Files read and written through the client: ``fs/…`` (F1)."""

from attrs import define

from ._base import UInt32, WireObject
from .identifiers import SessionId

__all__ = [
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
]


@define(repr=False, eq=False)
class ReadTextFileRequest(WireObject):
    """Parameters of ``fs/read_text_file``.

    Attributes:
        session_id: The session on whose behalf the file is read.
        path: The file, absolute.
        line: The first line to read, counted from 1; None starts at the beginning.
        limit: How many lines at most; None reads to the end.
    """

    session_id: SessionId
    path: str
    line: UInt32 | None = None
    limit: UInt32 | None = None


@define(repr=False, eq=False)
class ReadTextFileResponse(WireObject):
    """Result of ``fs/read_text_file``: the text, its line ends as they are in the file."""

    content: str


@define(repr=False, eq=False)
class WriteTextFileRequest(WireObject):
    """Parameters of ``fs/write_text_file``. A file that is not there is created.

    Attributes:
        session_id: The session on whose behalf the file is written.
        path: The file, absolute.
        content: Its whole new text.
    """

    session_id: SessionId
    path: str
    content: str


class WriteTextFileResponse(WireObject):
    """Result of ``fs/write_text_file``: nothing but that it was done."""

    __slots__ = ()

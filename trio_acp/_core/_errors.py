"""Errors of the protocol itself: broken rules, and the error answers of JSON-RPC (W10).

Nothing here does I/O. The names say whose fault it is: ``Local…`` is a mistake of the program that
uses this library, ``Remote…`` one of its peer.
"""

from __future__ import annotations

from typing import Any, ClassVar

from trio_acp.schema import AcpError, ErrorCode

from ._brief import brief

__all__ = [
    "AuthRequired",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResponse",
    "LocalProtocolError",
    "MessageTooLarge",
    "MethodNotFound",
    "ParseError",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "ResourceNotFound",
]


class ProtocolError(AcpError):
    """A rule of the protocol was broken. Raised as one of its two subclasses only."""


class LocalProtocolError(ProtocolError):
    """This program asked for something that the protocol forbids; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids, and it cannot be passed over."""


class InvalidResponse(RemoteProtocolError):
    """The answer to one request was malformed; only that request fails (W6)."""


class MessageTooLarge(RemoteProtocolError):
    """The peer's message is longer than ``max_message_bytes``; the connection fails.

    Attributes:
        limit: the limit in bytes that was passed.
    """

    limit: int

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"the peer sent a message of more than {limit} bytes; "
            "raise max_message_bytes if such messages are wanted"
        )


class RequestError(AcpError):
    """A request was answered with a JSON-RPC error; raise it in a handler to answer with one (W10).

    Codes with a name of their own have a subclass, whose constructor needs no ``code``. A code
    without one stays a plain ``RequestError``, whatever its value.

    Args:
        code: the JSON-RPC error code.
        message: a short sentence for people.
        data: any JSON value with details for programs; None is not sent.

    Raises:
        ValueError: the code is no integer of at most 64 bits.
    """

    code: int
    message: str
    data: Any

    _by_code: ClassVar[dict[int, type[NamedRequestError]]] = {}

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not _is_code(code):
            raise ValueError(f"a JSON-RPC error code is an integer of at most 64 bits, not {brief(code)}")
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)

    def __str__(self) -> str:
        """Give code, message and (where there are any) details in one line of bounded length."""
        text = f"{self.message} (code {int(self.code)})"
        return text if self.data is None else f"{text}: {brief(self.data)}"

    def to_wire(self) -> dict[str, Any]:
        """Return the ``error`` object of a JSON-RPC answer: code, message, and data where set."""
        wire: dict[str, Any] = {"code": int(self.code), "message": self.message}
        if self.data is not None:
            wire["data"] = self.data
        return wire

    @staticmethod
    def from_wire(code: int, message: str, data: Any = None) -> RequestError:
        """Make the most specific error for a code that a peer answered with.

        Args:
            code: any integer.
            message: the peer's message.
            data: the peer's data, None where there was none.
        """
        named = RequestError._by_code.get(code)
        return RequestError(code, message, data) if named is None else named(message, data)


def _is_code(value: Any) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**64


class NamedRequestError(RequestError):
    """Base of the errors whose code has a name; the code belongs to the class."""

    named_code: ClassVar[ErrorCode]

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(self.named_code, message, data)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Enter the class into the table that ``from_wire`` looks codes up in."""
        super().__init_subclass__(**kwargs)
        if "named_code" in cls.__dict__:
            RequestError._by_code[cls.named_code] = cls


class ParseError(NamedRequestError):
    """-32700: a line was no JSON."""

    named_code = ErrorCode.PARSE_ERROR


class InvalidRequest(NamedRequestError):
    """-32600: JSON, but no request that can be served now."""

    named_code = ErrorCode.INVALID_REQUEST


class MethodNotFound(NamedRequestError):
    """-32601: the peer does not offer that method."""

    named_code = ErrorCode.METHOD_NOT_FOUND


class InvalidParams(NamedRequestError):
    """-32602: the method exists, its parameters do not fit; the message names the field."""

    named_code = ErrorCode.INVALID_PARAMS


class InternalError(NamedRequestError):
    """-32603: the peer failed while serving the request."""

    named_code = ErrorCode.INTERNAL_ERROR


class RequestCancelled(NamedRequestError):
    """-32800: the request was cancelled before it had a result (X4)."""

    named_code = ErrorCode.REQUEST_CANCELLED


class AuthRequired(NamedRequestError):
    """-32000: authenticate first (U3)."""

    named_code = ErrorCode.AUTHENTICATION_REQUIRED


class ResourceNotFound(NamedRequestError):
    """-32002: a file, session or terminal that was named does not exist."""

    named_code = ErrorCode.RESOURCE_NOT_FOUND

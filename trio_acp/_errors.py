"""The library's error tree, whole: what the lower layers define, and what needs Trio's words.

Trio's own vocabulary is kept: *closed* means that this program closed it, *broken* that the world did.
"""

from __future__ import annotations

import copy

import trio

from ._core import AuthRequired as AuthRequired
from ._core import InternalError as InternalError
from ._core import InvalidParams as InvalidParams
from ._core import InvalidRequest as InvalidRequest
from ._core import InvalidResponse as InvalidResponse
from ._core import LocalProtocolError as LocalProtocolError
from ._core import MessageTooLarge as MessageTooLarge
from ._core import MethodNotFound as MethodNotFound
from ._core import ParseError as ParseError
from ._core import ProtocolError as ProtocolError
from ._core import RemoteProtocolError as RemoteProtocolError
from ._core import RequestCancelled as RequestCancelled
from ._core import RequestError as RequestError
from ._core import ResourceNotFound as ResourceNotFound
from .schema import AcpError as AcpError
from .schema import SchemaError as SchemaError

__all__ = [
    "AcpError",
    "AgentExited",
    "AgentStartError",
    "AuthRequired",
    "AuthenticationFailed",
    "CapabilityError",
    "ConnectionClosed",
    "ConnectionLost",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResponse",
    "LocalProtocolError",
    "MessageTooLarge",
    "MethodNotFound",
    "ParseError",
    "PermissionTimeout",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "ResourceNotFound",
    "SchemaError",
    "SessionBusy",
    "SlowConsumer",
    "TurnCancelled",
    "UnsupportedProtocolVersion",
]


class ConnectionClosed(AcpError, trio.ClosedResourceError):
    """This program has closed the connection, so that the call cannot be made or answered (W11)."""


class ConnectionLost(AcpError, trio.BrokenResourceError):
    """The peer has gone, or the way to it broke, before the call was answered (W11)."""


class AgentExited(ConnectionLost):
    """The agent's process has ended.

    Attributes:
        returncode: its exit status; negative for minus the signal that ended it (as in
            `subprocess.Popen.returncode`), None where it is not known.
        phase: what was going on: ``"spawn"``, ``"initialize"``, ``"running"`` or ``"closing"``.
        stderr: the end of what it wrote to stderr, at most 64 KiB, decoded with replacement.
    """

    returncode: int | None
    phase: str
    stderr: str

    def __init__(self, message: str, *, returncode: int | None, phase: str, stderr: str = "") -> None:
        self.returncode = returncode
        self.phase = phase
        self.stderr = stderr
        super().__init__(message + _stderr_note(stderr))


class AgentStartError(AcpError):
    """The agent could not be started, or did not become ready.

    Attributes:
        phase: how far it came: ``"spawn"`` or ``"initialize"``.
        reason: a word for programs: ``"not-found"``, ``"not-executable"``, ``"bad-cwd"``, ``"os-error"``,
            ``"exited"``, ``"not-acp"``, ``"timeout"``, ``"refused"``.
        command: the program and its arguments.
        returncode: its exit status if it has ended; negative for minus the signal.
        stderr: the end of what it wrote to stderr, at most 64 KiB, decoded with replacement.
    """

    phase: str
    reason: str
    command: tuple[str, ...]
    returncode: int | None
    stderr: str

    def __init__(
        self,
        message: str,
        *,
        phase: str,
        reason: str,
        command: tuple[str, ...] = (),
        returncode: int | None = None,
        stderr: str = "",
    ) -> None:
        self.phase = phase
        self.reason = reason
        self.command = command
        self.returncode = returncode
        self.stderr = stderr
        super().__init__(message + _stderr_note(stderr))


class UnsupportedProtocolVersion(AcpError):
    """The agent answered ``initialize`` with a version that this library does not speak (I2).

    Attributes:
        offered: the version that we asked for.
        answered: the version that the agent answered.
    """

    offered: int
    answered: int

    def __init__(self, *, offered: int, answered: int) -> None:
        self.offered = offered
        self.answered = answered
        super().__init__(
            f"the agent speaks ACP version {answered}, this library version {offered}; "
            "use a release of the agent that speaks the same version"
        )


class AuthenticationFailed(AcpError):
    """A login that was run in a terminal did not succeed (U2).

    Attributes:
        method_id: the way to log in.
        status: the exit status of the program that was run; negative for minus the signal.
    """

    method_id: str
    status: int

    def __init__(self, method_id: str, status: int) -> None:
        self.method_id = method_id
        self.status = status
        super().__init__(f"the login {method_id!r} ended with status {status}; try again, or choose another")


class CapabilityError(LocalProtocolError):
    """The peer did not advertise what this call needs; nothing was sent (I3).

    Attributes:
        capability: the wire name of what is missing, such as ``"promptCapabilities.image"``.
    """

    capability: str

    def __init__(self, capability: str, message: str | None = None) -> None:
        self.capability = capability
        super().__init__(
            message or f"the peer does not advertise {capability}; check its capabilities before this call"
        )


class PermissionTimeout(AcpError):
    """A permission request was not decided in time; it was answered ``cancelled`` and the turn ended.

    Attributes:
        title: what was to be permitted, in the agent's words, where it gave any.
        seconds: the limit that ran out.
    """

    title: str | None
    seconds: float

    def __init__(self, title: str | None, seconds: float) -> None:
        self.title = title
        self.seconds = seconds
        what = f" for {title!r}" if title else ""
        super().__init__(
            f"no decision about the permission request{what} within {seconds:g} s; "
            "raise permission_timeout (math.inf for no limit), or decide faster"
        )


class TurnCancelled(AcpError):
    """The turn behind a ``generate`` call was cancelled by a stop button or token, not by a cancel scope.

    Attributes:
        text: the reply as far as it had come.
    """

    text: str

    def __init__(self, text: str = "") -> None:
        self.text = text
        super().__init__("the turn was cancelled before it had a whole reply; the session can go on")


class SessionBusy(LocalProtocolError):
    """The session runs a turn (or a load) already; nothing was sent (T1).

    Attributes:
        session_id: the session that is busy.
    """

    session_id: str

    def __init__(self, session_id: str, message: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(
            message or f"session {session_id!r} is busy with a turn; wait for its end, or cancel it first"
        )


class SlowConsumer(AcpError):
    """The updates of a turn were not taken fast enough; the turn was cancelled, its buffer dropped.

    Attributes:
        session_id: the session whose turn it was.
        items: how many updates waited.
        size: how many bytes they had on the wire.
    """

    session_id: str
    items: int
    size: int

    def __init__(self, session_id: str, *, items: int, size: int) -> None:
        self.session_id = session_id
        self.items = items
        self.size = size
        super().__init__(
            f"{items} updates ({size} bytes) of session {session_id!r} waited to be taken; iterate the turn "
            "faster, move slow work out of the loop, or leave the loop if the updates are not wanted"
        )


def fresh_copy(error: AcpError) -> AcpError:
    """Return a copy of an error that several callers get: their tracebacks and contexts must not mix."""
    fresh = copy.copy(error)
    fresh.__context__ = fresh.__cause__ = error.__cause__
    fresh.__suppress_context__ = error.__suppress_context__
    return fresh


def _stderr_note(stderr: str) -> str:
    tail = stderr.strip()[-STDERR_IN_MESSAGE:]
    return f"\nthe end of its stderr:\n{tail}" if tail else ""


STDERR_IN_MESSAGE = 2000
"""Characters of stderr that an error's text quotes; the attribute holds all that was kept."""

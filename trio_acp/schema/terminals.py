"""Commands run by the client: ``terminal/…`` (F2, F3)."""

from attrs import define, field

from ._base import Lenient, NullAsDefault, UInt32, UInt64, WireObject, new_list
from .identifiers import SessionId, TerminalId
from .mcp import EnvVariable

__all__ = [
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
]


@define(repr=False, eq=False)
class CreateTerminalRequest(WireObject):
    """Parameters of ``terminal/create``.

    Attributes:
        session_id: The session that the terminal belongs to.
        command: The program to run, without its arguments.
        args: Its arguments.
        env: Variables on top of the client's environment.
        cwd: Where it runs, absolute; None leaves that to the client.
        output_byte_limit: How many bytes of output to keep; the newest are kept. None sets no limit.
    """

    session_id: SessionId
    command: str
    args: NullAsDefault[list[str]] = field(factory=new_list)
    env: NullAsDefault[list[EnvVariable]] = field(factory=new_list)
    cwd: str | None = None
    output_byte_limit: UInt64 | None = None


@define(repr=False, eq=False)
class CreateTerminalResponse(WireObject):
    """Result of ``terminal/create``; the command may still be running."""

    terminal_id: TerminalId


@define(repr=False, eq=False)
class TerminalOutputRequest(WireObject):
    """Parameters of ``terminal/output``."""

    session_id: SessionId
    terminal_id: TerminalId


@define(repr=False, eq=False)
class TerminalExitStatus(WireObject):
    """How a command ended.

    Attributes:
        exit_code: Its exit code; None if a signal ended it.
        signal: The signal that ended it; None if it exited.
    """

    exit_code: Lenient[UInt32 | None] = None
    signal: Lenient[str | None] = None


@define(repr=False, eq=False)
class TerminalOutputResponse(WireObject):
    """Result of ``terminal/output``.

    Attributes:
        output: What was written so far, stdout and stderr together.
        truncated: Whether older output was dropped because of the byte limit.
        exit_status: How the command ended; None while it runs.
    """

    output: str
    truncated: bool
    exit_status: Lenient[TerminalExitStatus | None] = None


@define(repr=False, eq=False)
class WaitForTerminalExitRequest(WireObject):
    """Parameters of ``terminal/wait_for_exit``."""

    session_id: SessionId
    terminal_id: TerminalId


@define(repr=False, eq=False)
class WaitForTerminalExitResponse(WireObject):
    """Result of ``terminal/wait_for_exit``, given once the command has ended.

    Attributes:
        exit_code: Its exit code; None if a signal ended it.
        signal: The signal that ended it; None if it exited.
    """

    exit_code: Lenient[UInt32 | None] = None
    signal: Lenient[str | None] = None


@define(repr=False, eq=False)
class KillTerminalRequest(WireObject):
    """Parameters of ``terminal/kill``: end the command, keep the terminal readable."""

    session_id: SessionId
    terminal_id: TerminalId


class KillTerminalResponse(WireObject):
    """Result of ``terminal/kill``: nothing but that it was done."""

    __slots__ = ()


@define(repr=False, eq=False)
class ReleaseTerminalRequest(WireObject):
    """Parameters of ``terminal/release``: end the command if it runs, and forget the terminal."""

    session_id: SessionId
    terminal_id: TerminalId


class ReleaseTerminalResponse(WireObject):
    """Result of ``terminal/release``: nothing but that it was done."""

    __slots__ = ()

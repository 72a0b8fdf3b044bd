"""What a host says about an agent before it connects: how to start it, what to offer it, what to allow."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from trio_acp._core import DEFAULT_MAX_JUNK_LINES, DEFAULT_MAX_MESSAGE_BYTES
from trio_acp._extensions import Extension, ExtensionHandler, check_extension_name
from trio_acp._peer import OnWire
from trio_acp.schema import (
    AuthCapabilities,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    CreateElicitationFormRequest,
    CreateElicitationResponse,
    CreateElicitationUrlRequest,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    Implementation,
    KillTerminalRequest,
    KillTerminalResponse,
    McpServer,
    NoticeCapabilities,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    SessionConfigOptionsCapabilities,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
)

from ._auth import AuthChooser, TerminalRunner
from ._elicitations import ElicitationHook
from ._permission import DecisionHook, PermissionHandler
from ._scope import SessionScope

__all__ = [
    "DEFAULT_CANCEL_GRACE",
    "DEFAULT_MAX_BUFFERED_BYTES",
    "DEFAULT_MAX_BUFFERED_UPDATES",
    "DEFAULT_PERMISSION_TIMEOUT",
    "DEFAULT_SHUTDOWN_GRACE",
    "DEFAULT_STALL_TIMEOUT",
    "DEFAULT_STARTUP_TIMEOUT",
    "AcpOptions",
    "ElicitFormHandler",
    "ElicitUrlHandler",
    "FileService",
    "Overlap",
    "ReadTextFileHandler",
    "ServiceLife",
    "TerminalService",
    "WriteTextFileHandler",
    "absolute_path",
]

DEFAULT_STARTUP_TIMEOUT: Final = 60.0
"""Seconds from the start of the process to its answer to ``initialize``: package runners install first."""

DEFAULT_PERMISSION_TIMEOUT: Final = 30.0
"""Seconds for a decision: long enough for somebody who looks at the screen."""

DEFAULT_CANCEL_GRACE: Final = 5.0
"""Seconds that an agent has to end a cancelled turn before the turn is abandoned."""

DEFAULT_SHUTDOWN_GRACE: Final = 2.0
"""Seconds that an agent has to exit after its stdin was closed, and again after SIGTERM."""

DEFAULT_STALL_TIMEOUT: Final = 30.0
"""Seconds that reading may pause for a consumer that takes nothing."""

DEFAULT_MAX_BUFFERED_UPDATES: Final = 65536
"""Updates of one turn that may wait to be taken; reading slows down at a sixteenth of it."""

DEFAULT_MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of updates of one turn that may wait, as they were on the wire; a sixteenth is the soft limit."""

ReadTextFileHandler: TypeAlias = Callable[[ReadTextFileRequest], Awaitable[str | ReadTextFileResponse]]
"""Returns the text of a file, or of the lines asked for (F1)."""

WriteTextFileHandler: TypeAlias = Callable[[WriteTextFileRequest], Awaitable[object]]
"""Writes a file; what it returns is not looked at (F1)."""

ElicitFormHandler: TypeAlias = Callable[[CreateElicitationFormRequest], Awaitable[CreateElicitationResponse]]
"""Asks the user to fill in a form (E1)."""

ElicitUrlHandler: TypeAlias = Callable[[CreateElicitationUrlRequest], Awaitable[CreateElicitationResponse]]
"""Asks the user to open an address (E1, E3)."""

Overlap: TypeAlias = Literal["reject", "queue", "cancel"]
"""What becomes of a prompt while another turn of its session runs (T1)."""


class FileService(Protocol):
    """Serves the agent's files, knowing the session that asks (F1, S5).

    `trio_acp.workspace.Workspace` is such a service. What a method raises is answered as an error: a
    `RequestError` as it is, an OSError by its meaning, anything else without details.
    """

    @property
    def writable(self) -> bool:
        """Whether writing is offered to agents; looked at when a connection begins."""
        ...

    async def read(self, request: ReadTextFileRequest, session: SessionScope) -> str | ReadTextFileResponse:
        """Return the text of a file, or of the lines asked for.

        Args:
            request: what is asked for.
            session: the session that asks.
        """
        ...

    async def write(self, request: WriteTextFileRequest, session: SessionScope) -> object:
        """Write a file; what it returns is not looked at.

        Args:
            request: what is to be written.
            session: the session that asks.
        """
        ...


class TerminalService(Protocol):
    """The five terminal methods that an agent may call; offer all of them or none (F2, F3).

    Each takes the typed parameters and the session that asks, and returns the typed result; sessions that
    are not open on the connection are refused before. What a method raises is answered as an error: a
    `RequestError` as it is, an OSError by its meaning, anything else without details.
    `trio_acp.workspace.TerminalManager` is such a service.
    """

    async def create(self, request: CreateTerminalRequest, session: SessionScope) -> CreateTerminalResponse:
        """Start a command and return at once; see `CreateTerminalRequest`."""
        ...

    async def output(self, request: TerminalOutputRequest, session: SessionScope) -> TerminalOutputResponse:
        """Return the output so far; see `TerminalOutputResponse`."""
        ...

    async def wait_for_exit(
        self, request: WaitForTerminalExitRequest, session: SessionScope
    ) -> WaitForTerminalExitResponse:
        """Wait for the command's end; see `WaitForTerminalExitResponse`."""
        ...

    async def kill(self, request: KillTerminalRequest, session: SessionScope) -> KillTerminalResponse | None:
        """End the command; its output stays readable; see `KillTerminalRequest`."""
        ...

    async def release(
        self, request: ReleaseTerminalRequest, session: SessionScope
    ) -> ReleaseTerminalResponse | None:
        """End the command if it runs, and forget the terminal; see `ReleaseTerminalRequest`."""
        ...


@runtime_checkable
class ServiceLife(Protocol):
    """What a file or terminal service has in addition when it owns tasks or processes."""

    async def run(self, connection: Hashable) -> None:
        """Be the parent of what the service starts for one connection.

        Runs while the connection does, in a shielded nursery of its own, and is cancelled at its end, which
        waits for it: it must come to an end in bounded time. Several connections may run one service at
        the same time. What it raises ends the block of its connection.

        Args:
            connection: what the sessions of that connection have as ``SessionScope.connection``.
        """
        ...

    async def end_session(self, session: SessionScope) -> None:
        """End what was started for a session, which was closed; what it raises is logged.

        Args:
            session: the session. It is not told of the sessions that end with their connection.
        """
        ...


def absolute_path(path: str | os.PathLike[str] | None) -> str:
    """Return a path as the protocol wants it; None means the working directory of this process (F1)."""
    return os.path.abspath(os.getcwd() if path is None else os.fspath(path))


def _positive(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be more than 0 (math.inf for no limit), not {value!r}")


def _at_least_one(instance: object, attribute: attrs.Attribute[Any], value: int) -> None:
    if not value >= 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value!r}")


@attrs.define(kw_only=True)
class AcpOptions:
    """How to reach one agent, and what it may expect from this host.

    Every handler decides what is advertised to the agent (I5): without ``read_text_file`` the agent is not
    told that it could read files through the host, and so on.

    Attributes:
        command: the agent's program: a path or a name looked up in PATH. Not used by `connect_acp`.
        args: its arguments.
        cwd: working directory of the agent's process and default of its sessions; made absolute. By
            default that of this process.
        env: variables laid over the inherited environment; None as value removes one.
        inherit_env: true to inherit all of this process's environment, false for nothing of it, or the
            names of the variables to inherit.
        on_permission: decides permission requests; see `PermissionRequest`. An async function, or a plain one
            that does not block. Without it, the first option of an allow kind is taken.
        permission_timeout: seconds for each decision; ``math.inf`` for no limit.
        permission_timeout_action: what happens then: with ``"cancel"``, ``cancelled`` is answered and the
            turn fails with `PermissionTimeout`; with ``"reject"``, the first option of a reject kind is
            answered, as for `Reject`, and the turn goes on.
        on_decision: called with a `DecidedPermission` for every permission request that was answered, by
            whom or what ever. Must not block. What it raises ends the ``open_acp`` block.
        on_update: called with the raw parameters of every ``session/update``, in the read loop, before
            anything else is done about it. Must not block. What it raises ends the turn that it belongs to,
            or the ``open_acp`` block.
        on_stderr: called with each line that the agent writes to stderr.
        on_wire: wire tap, called as ``on_wire("sent" | "received", message)`` for every message,
            in wire order.
        redact_wire: give ``on_wire`` dicts in which every env and header value is masked; if false, it gets
            the frames as bytes, secrets and all.
        files: serves the agent's files; instead of the two handlers below.
        read_text_file: serves ``fs/read_text_file``.
        write_text_file: serves ``fs/write_text_file``.
        terminals: serves the five ``terminal/…`` methods.
        elicit_form: serves form elicitations.
        elicit_url: serves url elicitations.
        on_elicitation_complete: called when the agent tells that what an address was opened for is over
            (E3), with the request that ``elicit_url`` got; once, and only for what was accepted or is still
            being asked. Must not block. What it raises ends the ``open_acp`` block.
        extensions: handlers of extension requests and notifications, by method name (N1); an `Extensions`
            for handlers with types. Names without a leading underscore are warned of.
        auth: how to log in when the agent refuses a session for want of that (U3): the id of one of its
            methods, or a handler that picks one. The call is made once more then. Without it, nothing
            logs in unasked, and `AuthRequired` says what there is to choose.
        auth_terminal: runs the agent's program for logins of the terminal kind, such as `run_in_terminal`
            (U2). Not to be confused with ``terminals``.
        auth_restart: restart the agent after a login by one of its own methods, for agents that look at
            their login only when they start.
        overlap: what becomes of a prompt while another turn of its session runs; see `Session.prompt`.
        client_info: name and version that the agent is told.
        mcp_servers: MCP servers for sessions that name none of their own.
        startup_timeout: seconds from the start of the process to its answer to ``initialize``.
        cancel_grace: seconds that a cancelled turn has to end before it is abandoned.
        shutdown_grace: seconds that the agent has to exit after its stdin was closed, and again after
            SIGTERM.
        idle_timeout: seconds without any activity of its session after which a turn fails with
            `trio.TooSlowError`; while a handler runs for the agent, that clock stands still.
        stall_timeout: seconds that reading may pause for a turn whose consumer takes nothing.
        max_buffered_updates: updates of one turn that may wait to be taken; ``math.inf`` for no limit.
        max_buffered_bytes: bytes of updates of one turn that may wait to be taken; ``math.inf`` for no limit.
        max_message_bytes: longest message accepted from the agent.
        max_junk_lines: lines in a row on the agent's stdout that are no messages, after which it is given up.
    """

    command: str | os.PathLike[str] | None = None
    args: Sequence[str] = ()
    cwd: str = attrs.field(default=None, converter=absolute_path)
    env: Mapping[str, str | None] = attrs.field(
        factory=dict[str, "str | None"], repr=lambda env: repr(list(env))
    )
    inherit_env: bool | Collection[str] = True
    on_permission: PermissionHandler | None = None
    permission_timeout: float = attrs.field(default=DEFAULT_PERMISSION_TIMEOUT, validator=_positive)
    permission_timeout_action: Literal["cancel", "reject"] = attrs.field(
        default="cancel", validator=attrs.validators.in_(("cancel", "reject"))
    )
    on_decision: DecisionHook | None = None
    on_update: Callable[[dict[str, Any]], object] | None = None
    on_stderr: Callable[[str], object] | None = None
    on_wire: OnWire | None = None
    redact_wire: bool = True
    files: FileService | None = None
    read_text_file: ReadTextFileHandler | None = None
    write_text_file: WriteTextFileHandler | None = None
    terminals: TerminalService | None = None
    elicit_form: ElicitFormHandler | None = None
    elicit_url: ElicitUrlHandler | None = None
    on_elicitation_complete: ElicitationHook | None = None
    extensions: Mapping[str, ExtensionHandler | Extension] = attrs.field(
        factory=dict[str, "ExtensionHandler | Extension"]
    )
    auth: str | AuthChooser | None = None
    auth_terminal: TerminalRunner | None = None
    auth_restart: bool = False
    overlap: Overlap = attrs.field(
        default="reject", validator=attrs.validators.in_(("reject", "queue", "cancel"))
    )
    client_info: Implementation | None = None
    mcp_servers: Sequence[McpServer] = ()
    startup_timeout: float = attrs.field(default=DEFAULT_STARTUP_TIMEOUT, validator=_positive)
    cancel_grace: float = attrs.field(default=DEFAULT_CANCEL_GRACE, validator=_positive)
    shutdown_grace: float = attrs.field(default=DEFAULT_SHUTDOWN_GRACE, validator=_positive)
    idle_timeout: float = attrs.field(default=math.inf, validator=_positive)
    stall_timeout: float = attrs.field(default=DEFAULT_STALL_TIMEOUT, validator=_positive)
    max_buffered_updates: float = attrs.field(default=DEFAULT_MAX_BUFFERED_UPDATES, validator=_positive)
    max_buffered_bytes: float = attrs.field(default=DEFAULT_MAX_BUFFERED_BYTES, validator=_positive)
    max_message_bytes: int = attrs.field(default=DEFAULT_MAX_MESSAGE_BYTES, validator=_at_least_one)
    max_junk_lines: int = attrs.field(default=DEFAULT_MAX_JUNK_LINES, validator=_at_least_one)

    def __attrs_post_init__(self) -> None:
        """Refuse mistakes that would otherwise show as puzzles later."""
        if isinstance(self.args, str):
            raise TypeError("args must be a sequence of strings, not one string: put each argument in a list")
        if self.files is not None and (self.read_text_file or self.write_text_file):
            raise ValueError("give either files or read_text_file and write_text_file, not both")
        for method in self.extensions:
            check_extension_name(method, ValueError)

    def client_capabilities(self) -> ClientCapabilities:
        """Return what is advertised to the agent: what the handlers given here can do, no more (I5)."""
        elicitation = None
        if self.elicit_form is not None or self.elicit_url is not None:
            elicitation = ElicitationCapabilities(
                form=None if self.elicit_form is None else ElicitationFormCapabilities(),
                url=None if self.elicit_url is None else ElicitationUrlCapabilities(),
            )
        return ClientCapabilities(
            fs=FileSystemCapabilities(
                read_text_file=self.files is not None or self.read_text_file is not None,
                write_text_file=(
                    self.write_text_file is not None if self.files is None else self.files.writable
                ),
            ),
            terminal=self.terminals is not None,
            auth=AuthCapabilities(terminal=self.auth_terminal is not None and self.command is not None),
            elicitation=elicitation,
            # These three need no handler: such updates reach the application like all others.
            session=ClientSessionCapabilities(
                compaction=CompactionCapabilities(),
                config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities()),
                notices=NoticeCapabilities(),
            ),
        )

"""The client of an agent: what it offers, and each of its methods with full request and response."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final, overload

import trio

from trio_acp._errors import (
    CapabilityError,
    ConnectionLost,
    InternalError,
    InvalidResponse,
    LocalProtocolError,
    SchemaError,
)
from trio_acp._extension_values import ExtensionParams, check_type, decode_result, encode_params
from trio_acp._extensions import check_extension_name
from trio_acp.schema import (
    PROTOCOL_VERSION,
    ClientCapabilities,
    CompleteElicitationNotification,
    CreateElicitationFormRequest,
    CreateElicitationRequest,
    CreateElicitationResponse,
    CreateElicitationUrlRequest,
    CreateTerminalRequest,
    CreateTerminalResponse,
    Implementation,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
    structure,
    unstructure,
)

if TYPE_CHECKING:
    from trio_acp._peer import Peer

__all__ = ["CALL_GRACE", "ClientLink", "ConnectedClient"]

T = TypeVar("T")

CALL_GRACE: Final = 5.0
"""Seconds that a clean-up call, such as a terminal's release, waits for the client when all else is
cancelled."""

GONE: Final = "the client has closed its end of the connection; no answer can come any more"


@final
class ClientLink:
    """What a connection knows about its client, and the way to it; the inside of `ConnectedClient`."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.client: ConnectedClient = ConnectedClient(self)
        self.capabilities: ClientCapabilities = ClientCapabilities()
        self.info: Implementation | None = None
        self.input_over: bool = False
        """It has closed its end: it may still read, but nothing more can come from it."""
        self._offers: dict[str, bool] = {}
        self._waiting: set[trio.CancelScope] = set()

    def introduce(self, capabilities: ClientCapabilities, info: Implementation | None) -> None:
        """Take what ``initialize`` told."""
        self.capabilities = capabilities
        self.info = info
        self._offers.clear()

    def offers(self, capability: str) -> bool:
        """Tell whether the client offers something; see `ConnectedClient.offers`."""
        known = self._offers.get(capability)
        if known is None:
            value: Any = unstructure(self.capabilities)
            for step in capability.split("."):
                value = cast("dict[str, Any]", value).get(step) if isinstance(value, dict) else None
            # A marker is an object, and an empty one counts (I3).
            known = self._offers[capability] = value is not None and value is not False
        return known

    def end_input(self) -> None:
        """Fail what waits for an answer: none can come any more."""
        self.input_over = True
        for scope in self._waiting:
            scope.cancel()

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        convert: Callable[[Any], Any] | None = None,
        on_late: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request and return its result; the way under all calls to the client."""
        if self.input_over:
            await trio.lowlevel.checkpoint()
            raise ConnectionLost(GONE)
        with trio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                return await self.peer.request(method, params, on_late, convert)
            finally:
                self._waiting.discard(scope)
        raise ConnectionLost(GONE)

    def release_nowait(self, session_id: str, terminal_id: str) -> None:
        """Give up a terminal without waiting for the answer; no-op when the client has gone."""
        if self.peer.reason is None:
            request = ReleaseTerminalRequest(session_id, terminal_id)
            self.peer.start_request("terminal/release", unstructure(request), _ignore_answer)


@final
class ConnectedClient:
    """The client at the other end of a connection.

    Every call checks first that the client offers what it needs (I3). All calls may wait for as long as the
    client does; put a cancel scope around them for a limit. Cancelling one withdraws the request with
    ``$/cancel_request`` (X5), and nothing has been sent if that comes before there was room to send.

    Common to all calls are these errors:

    * `trio_acp.CapabilityError`: the client does not offer this; nothing was sent.
    * `trio_acp.RequestError`, or one of its subclasses: the client answered with an error.
    * `trio_acp.InvalidResponse`: its answer does not fit the protocol.
    * `trio_acp.ConnectionLost`, `trio_acp.ConnectionClosed`: it has gone, or we have.
    """

    def __init__(self, link: ClientLink) -> None:
        self._link = link

    # Who it is ---------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> ClientCapabilities:
        """What it offers; nothing before ``initialize``."""
        return self._link.capabilities

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it told them."""
        return self._link.info

    @property
    def protocol_version(self) -> int:
        """The version of the protocol that is spoken."""
        return PROTOCOL_VERSION

    def offers(self, capability: str) -> bool:
        """Tell whether the client offers something.

        Args:
            capability: its wire name below ``clientCapabilities``, such as ``"fs.readTextFile"``,
                ``"terminal"``, ``"elicitation.form"``, ``"session.notices"`` or ``"auth.terminal"``.
        """
        return self._link.offers(capability)

    def require(self, capability: str) -> None:
        """Raise unless the client offers something; see `offers`.

        Raises:
            CapabilityError: it does not.
        """
        if not self.offers(capability):
            raise CapabilityError(
                f"clientCapabilities.{capability}",
                f"the client does not offer {capability}; check client.offers({capability!r}) before, "
                "and do without it",
            )

    # Files (F1) --------------------------------------------------------------------------------------

    async def read_text_file(self, request: ReadTextFileRequest) -> ReadTextFileResponse:
        """Read a text file of the client's, unsaved changes included (``fs/read_text_file``)."""
        self.require("fs.readTextFile")
        return await self._call("fs/read_text_file", request, ReadTextFileResponse)

    async def write_text_file(self, request: WriteTextFileRequest) -> WriteTextFileResponse:
        """Write a text file of the client's; it is made if it is not there (``fs/write_text_file``)."""
        self.require("fs.writeTextFile")
        return await self._call("fs/write_text_file", request, WriteTextFileResponse)

    # Permission (P1, P2) -----------------------------------------------------------------------------

    async def request_permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """Ask the user for permission (``session/request_permission``).

        Raises:
            InternalError: the answer is an option that was not offered; it is named.
        """
        response = await self._call("session/request_permission", request, RequestPermissionResponse)
        match response.outcome:
            case SelectedPermissionOutcome(option_id=chosen) if all(
                option.option_id != chosen for option in request.options
            ):
                raise InternalError(f"the client chose option {chosen!r}, which was not offered")
            case _:
                return response

    # Terminals (F2, F3) ------------------------------------------------------------------------------

    async def create_terminal(self, request: CreateTerminalRequest) -> CreateTerminalResponse:
        """Start a command in a terminal of the client's (``terminal/create``).

        The terminal is the caller's to release. If this call is cancelled and the client makes the
        terminal all the same, it is released when its id arrives (F4).
        """
        self.require("terminal")

        def release(result: Any) -> None:
            match result:
                case {"terminalId": str(terminal_id)}:
                    self._link.release_nowait(request.session_id, terminal_id)
                case _:
                    pass

        return await self._call("terminal/create", request, CreateTerminalResponse, release)

    async def terminal_output(self, request: TerminalOutputRequest) -> TerminalOutputResponse:
        """Return what a terminal's command has written so far (``terminal/output``)."""
        self.require("terminal")
        return await self._call("terminal/output", request, TerminalOutputResponse)

    async def wait_for_terminal_exit(
        self, request: WaitForTerminalExitRequest
    ) -> WaitForTerminalExitResponse:
        """Wait until a terminal's command has ended (``terminal/wait_for_exit``)."""
        self.require("terminal")
        return await self._call("terminal/wait_for_exit", request, WaitForTerminalExitResponse)

    async def kill_terminal(self, request: KillTerminalRequest) -> KillTerminalResponse:
        """End a terminal's command, and keep the terminal readable (``terminal/kill``)."""
        self.require("terminal")
        return await self._call("terminal/kill", request, KillTerminalResponse)

    async def release_terminal(self, request: ReleaseTerminalRequest) -> ReleaseTerminalResponse:
        """End a terminal's command if it runs, and give up the terminal (``terminal/release``)."""
        self.require("terminal")
        return await self._call("terminal/release", request, ReleaseTerminalResponse)

    # Elicitation (E1 to E3) --------------------------------------------------------------------------

    async def create_elicitation(self, request: CreateElicitationRequest) -> CreateElicitationResponse:
        """Ask the user for input, by a form or at a URL (``elicitation/create``)."""
        if isinstance(request, CreateElicitationFormRequest):
            self.require("elicitation.form")
        elif isinstance(request, CreateElicitationUrlRequest):
            self.require("elicitation.url")
        else:
            self.require(f"elicitation.{request.tag}")
        union: Any = CreateElicitationResponse
        response: CreateElicitationResponse = await self._call("elicitation/create", request, union)
        return response

    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Tell that what a URL was opened for is over (``elicitation/complete``, E3)."""
        self.require("elicitation.url")
        await self._link.peer.notify(
            "elicitation/complete", unstructure(CompleteElicitationNotification(elicitation_id))
        )

    # Extensions (N1) ---------------------------------------------------------------------------------

    @overload
    async def ext_request(self, method: str, params: ExtensionParams = None) -> Any: ...
    @overload
    async def ext_request(self, method: str, params: ExtensionParams = None, *, result: type[T]) -> T: ...
    async def ext_request(
        self, method: str, params: ExtensionParams = None, *, result: type[Any] | None = None
    ) -> Any:
        """Call an extension method of the client and return its result (N1).

        Cancellation: withdraws the request with ``$/cancel_request``.

        Args:
            method: its name; it travels unchanged. One without a leading underscore is warned of.
            params: its parameters; see `ExtensionParams`.
            result: type of the result, as in an `Extensions` registry; None for JSON values.

        Raises:
            LocalProtocolError: it is a method of the protocol, or the parameters are no JSON.
            RequestError: the client refused; `MethodNotFound` when it does not know the method.
            InvalidResponse: the result does not fit its type.
            TypeError: that type cannot travel; nothing was sent.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        check_extension_name(method, LocalProtocolError)
        check_type(result)
        raw = await self._link.call(method, encode_params(params))
        return decode_result(result, method, raw)

    async def ext_notification(self, method: str, params: ExtensionParams = None) -> None:
        """Send an extension notification to the client (N1). Whole or not at all, if cancelled.

        Args:
            method: its name; it travels unchanged. One without a leading underscore is warned of.
            params: its parameters; see `ExtensionParams`.

        Raises:
            LocalProtocolError: it is a method of the protocol, or the parameters are no JSON.
            ConnectionLost, ConnectionClosed: the connection ended.
        """
        check_extension_name(method, LocalProtocolError)
        await self._link.peer.notify(method, encode_params(params))

    async def _call(
        self,
        method: str,
        request: Any,
        result_type: type[T],
        on_late: Callable[[Any], None] | None = None,
    ) -> T:
        def convert(raw: Any) -> T:
            try:
                # Null is a good answer wherever nothing is required (W6).
                return structure(result_type, {} if raw is None else raw)
            except SchemaError as error:
                raise InvalidResponse(f"the client's answer to {method} does not fit: {error}") from None

        try:
            params = unstructure(request)
        except SchemaError as error:
            raise LocalProtocolError(f"this {method} request cannot be sent: {error}") from error
        result: T = await self._link.call(method, params, convert, on_late)
        return result


def _ignore_answer(result: Any, error: Exception | None) -> None:
    """Nobody waits for this answer."""

"""What the host does for the agent: routes the agent's requests to the handlers that the options name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, get_args

from trio_acp._errors import InvalidParams, ResourceNotFound
from trio_acp._extensions import as_extension, serve_extension
from trio_acp.schema import (
    CreateElicitationFormRequest,
    CreateElicitationRequest,
    CreateElicitationResponse,
    CreateElicitationUrlRequest,
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
    structure,
    unstructure,
)

from ._options import AcpOptions, ServiceLife
from ._scope import SessionScope

__all__ = ["Service", "client_services", "living_services"]

Service: TypeAlias = Callable[[dict[str, Any], SessionScope | None], Awaitable[Any]]
"""Takes the parameters of a request as JSON values and returns its result as JSON values.

The session that the parameters name comes with them, None where it is not open on this connection. What does
not fit is a `SchemaError`, which is answered with -32602.
"""


def living_services(options: AcpOptions) -> list[ServiceLife]:
    """Return the services that have tasks of their own."""
    services: list[object] = [options.files, options.terminals]
    if services[0] is services[1]:
        del services[0]  # one object that serves both has one life
    return [service for service in services if isinstance(service, ServiceLife)]


def client_services(options: AcpOptions) -> Mapping[str, Service]:
    """Return the methods that are served, by wire name: exactly those that are advertised (I5)."""
    services: dict[str, Service] = {
        method: partial(serve_extension, as_extension(handler), method)
        for method, handler in options.extensions.items()
    }
    if options.read_text_file is not None:
        services["fs/read_text_file"] = _read_text_file(_anywhere(options.read_text_file))
    if options.write_text_file is not None:
        services["fs/write_text_file"] = _typed(
            _anywhere(options.write_text_file), WriteTextFileRequest, WriteTextFileResponse, silent=True
        )
    files = options.files
    if files is not None:
        services["fs/read_text_file"] = _read_text_file(_in_session(files.read))
        if files.writable:
            services["fs/write_text_file"] = _typed(
                _in_session(files.write), WriteTextFileRequest, WriteTextFileResponse, silent=True
            )
    terminals = options.terminals
    if terminals is not None:
        services["terminal/create"] = _typed(
            _in_session(terminals.create), CreateTerminalRequest, CreateTerminalResponse
        )
        services["terminal/output"] = _typed(
            _in_session(terminals.output), TerminalOutputRequest, TerminalOutputResponse
        )
        services["terminal/wait_for_exit"] = _typed(
            _in_session(terminals.wait_for_exit), WaitForTerminalExitRequest, WaitForTerminalExitResponse
        )
        services["terminal/kill"] = _typed(
            _in_session(terminals.kill), KillTerminalRequest, KillTerminalResponse, silent=True
        )
        services["terminal/release"] = _typed(
            _in_session(terminals.release), ReleaseTerminalRequest, ReleaseTerminalResponse, silent=True
        )
    if options.elicit_form is not None or options.elicit_url is not None:
        services["elicitation/create"] = _elicitation(options)
    return services


_Handler: TypeAlias = Callable[[Any, SessionScope | None], Awaitable[object]]


def _anywhere(handler: Callable[[Any], Awaitable[object]]) -> _Handler:
    """A simple handler: it serves sessions that this connection does not know, too."""

    async def call(request: Any, scope: SessionScope | None) -> object:
        return await handler(request)

    return call


def _in_session(method: Callable[[Any, SessionScope], Awaitable[object]]) -> _Handler:
    """A method of a service: what it does is bounded by the session, so there has to be one."""

    async def call(request: Any, scope: SessionScope | None) -> object:
        if scope is None:
            raise ResourceNotFound("sessionId: this client has no such session open")
        return await method(request, scope)

    return call


def _typed(handler: _Handler, params_type: type, result_type: type, *, silent: bool = False) -> Service:
    async def serve(params: dict[str, Any], scope: SessionScope | None) -> Any:
        result = await handler(structure(params_type, params), scope)
        if silent and not isinstance(result, result_type):
            # Methods whose result says nothing may return anything; the wire wants an object.
            return {}
        return _encoded(result, result_type)

    return serve


def _encoded(result: object, *result_types: type) -> Any:
    """Encode what a handler returned. What is not of its type is the host's mistake, and told as such."""
    if not isinstance(result, result_types):
        wanted = " or ".join(each.__name__ for each in result_types)
        raise TypeError(f"the handler must return {wanted}, not {type(result).__name__}")
    return unstructure(result)


def _read_text_file(handler: _Handler) -> Service:
    async def serve(params: dict[str, Any], scope: SessionScope | None) -> Any:
        result = await handler(structure(ReadTextFileRequest, params), scope)
        return {"content": result} if isinstance(result, str) else _encoded(result, ReadTextFileResponse)

    return serve


def _elicitation(options: AcpOptions) -> Service:
    async def serve(params: dict[str, Any], scope: SessionScope | None) -> Any:
        request: CreateElicitationRequest = structure(CreateElicitationRequest, params)
        result: CreateElicitationResponse
        if isinstance(request, CreateElicitationFormRequest) and options.elicit_form is not None:
            result = await options.elicit_form(request)
        elif isinstance(request, CreateElicitationUrlRequest) and options.elicit_url is not None:
            result = await options.elicit_url(request)
        else:
            mode = params.get("mode")
            raise InvalidParams(f"elicitation/create: mode: this client does not offer {mode!r:.40}")
        return _encoded(result, *get_args(CreateElicitationResponse))

    return serve

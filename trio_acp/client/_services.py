"""What the host does for the agent: routes the agent's requests to the handlers that the options name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, get_args

from trio_acp._errors import InvalidParams
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

from ._options import AcpOptions

__all__ = ["Service", "client_services"]

Service: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes the parameters of a request as JSON values and returns its result as JSON values.

What does not fit is a `SchemaError`, which is answered with -32602.
"""


def client_services(options: AcpOptions) -> Mapping[str, Service]:
    """Return the methods that are served, by wire name: exactly those that are advertised (I5)."""
    services: dict[str, Service] = dict(options.extensions)
    if options.read_text_file is not None:
        services["fs/read_text_file"] = _read_text_file(options.read_text_file)
    if options.write_text_file is not None:
        services["fs/write_text_file"] = _typed(
            options.write_text_file, WriteTextFileRequest, WriteTextFileResponse, silent=True
        )
    terminals = options.terminals
    if terminals is not None:
        services["terminal/create"] = _typed(terminals.create, CreateTerminalRequest, CreateTerminalResponse)
        services["terminal/output"] = _typed(terminals.output, TerminalOutputRequest, TerminalOutputResponse)
        services["terminal/wait_for_exit"] = _typed(
            terminals.wait_for_exit, WaitForTerminalExitRequest, WaitForTerminalExitResponse
        )
        services["terminal/kill"] = _typed(
            terminals.kill, KillTerminalRequest, KillTerminalResponse, silent=True
        )
        services["terminal/release"] = _typed(
            terminals.release, ReleaseTerminalRequest, ReleaseTerminalResponse, silent=True
        )
    if options.elicit_form is not None or options.elicit_url is not None:
        services["elicitation/create"] = _elicitation(options)
    return services


def _typed(
    handler: Callable[[Any], Awaitable[object]], params_type: type, result_type: type, *, silent: bool = False
) -> Service:
    async def serve(params: dict[str, Any]) -> Any:
        result = await handler(structure(params_type, params))
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


def _read_text_file(
    handler: Callable[[ReadTextFileRequest], Awaitable[str | ReadTextFileResponse]],
) -> Service:
    async def serve(params: dict[str, Any]) -> Any:
        result = await handler(structure(ReadTextFileRequest, params))
        return {"content": result} if isinstance(result, str) else _encoded(result, ReadTextFileResponse)

    return serve


def _elicitation(options: AcpOptions) -> Service:
    async def serve(params: dict[str, Any]) -> Any:
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

"""Sessions from outside: opened, found, chosen for, closed and deleted (S1 to S3, S7)."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import trio

from trio_acp._errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ResourceNotFound,
    SchemaError,
)
from trio_acp.schema import (
    AvailableCommandsUpdate,
    CloseSessionRequest,
    CurrentModeUpdate,
    DeleteSessionRequest,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionInfo,
    SetSessionConfigOptionBooleanRequest,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionConfigOptionValueRequest,
    SetSessionModeRequest,
    structure,
    unstructure,
    unstructure_update,
)

from ._handlers import BoundHandler, Invocation, call, to_wire
from ._live import LiveSession, select_values
from ._recording import Recorder
from ._sessions import AgentSession
from ._store import InvalidCursor, SessionDamaged, SessionRecord
from ._updates import for_client, read_update

if TYPE_CHECKING:
    from trio_acp._peer import IncomingRequest
    from trio_acp.schema import SessionUpdate

    from ._connection import AgentConnection
    from ._spec import AppSpec

__all__ = [
    "close_session",
    "delete_session",
    "find_session",
    "list_sessions",
    "load_session",
    "new_session",
    "required_handler",
    "resume_session",
    "set_config_option",
    "set_mode",
]

MAX_LIVE_SESSIONS: Final = 10_000
"""Sessions that one client may have open; each costs some kilobytes, and is freed when it is closed."""

OpenRequest: TypeAlias = NewSessionRequest | LoadSessionRequest | ResumeSessionRequest
OpenResponse: TypeAlias = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse


def required_handler(spec: AppSpec, name: str, request: IncomingRequest) -> BoundHandler:
    """Return a handler.

    Raises:
        MethodNotFound: there is none, so that the method is not offered.
    """
    handler = spec.handlers.get(name)
    if handler is None:
        raise MethodNotFound(f"this agent does not offer {request.method}")
    return handler


def find_session(connection: AgentConnection, session_id: str) -> LiveSession:
    """Return an open session.

    Raises:
        ResourceNotFound: there is none with that id.
        InvalidRequest: it is still being opened.
    """
    if session_id in connection.opening:
        raise InvalidRequest("this session is still being opened; wait for that answer")
    live = connection.sessions.get(session_id)
    if live is None:
        raise ResourceNotFound(f"there is no open session {session_id!r}", {"sessionId": session_id})
    return live


# Opening -----------------------------------------------------------------------------------------------


def new_session(connection: AgentConnection, request: IncomingRequest) -> None:
    """Open a new session (S1): at once, unless a handler or a store has to be waited for."""
    params = structure(NewSessionRequest, request.params)
    _check_opening(connection, request.method, params)
    live = _live_session(connection, f"sess_{secrets.token_hex(12)}", params)
    live.opening = "new"
    spec = connection.spec
    handler = spec.handlers.get("on_new_session")
    if handler is None and spec.store is None:
        connection.sessions[live.id] = live
        request.answer({"sessionId": live.id})
        _opened(connection, live)
        return

    async def work() -> Any:
        result = None
        if handler is not None:
            result = await call(
                handler, Invocation(connection.client, request=params, session=AgentSession(live))
            )
        response = _take_result(live, result, NewSessionResponse)
        if isinstance(response, NewSessionResponse):
            if response.session_id in connection.sessions or response.session_id in connection.opening:
                raise InternalError(f"the session id {response.session_id!r} is in use already")
            live.id = response.session_id
        if spec.store is not None:
            live.recorder = Recorder(spec.store, live)
            await spec.store.save(live.record(), [])
        connection.sessions[live.id] = live
        return {"sessionId": live.id, **_choices_to_wire(live, response)}

    def after(succeeded: bool) -> None:
        if succeeded:
            _opened(connection, live)

    connection.serve_request(request, None, work, after)


def load_session(connection: AgentConnection, request: IncomingRequest) -> None:
    """Open a session of old, its conversation replayed before the answer (S2)."""
    _reopen(connection, request, "load", structure(LoadSessionRequest, request.params), LoadSessionResponse)


def resume_session(connection: AgentConnection, request: IncomingRequest) -> None:
    """Open a session of old without a replay (S2)."""
    _reopen(
        connection, request, "resume", structure(ResumeSessionRequest, request.params), ResumeSessionResponse
    )


def _reopen(
    connection: AgentConnection,
    request: IncomingRequest,
    how: Literal["load", "resume"],
    params: LoadSessionRequest | ResumeSessionRequest,
    response_type: type[LoadSessionResponse] | type[ResumeSessionResponse],
) -> None:
    spec = connection.spec
    name = f"on_{how}_session"
    if not spec.supports(name):
        raise MethodNotFound(f"this agent does not offer {request.method}")
    _check_opening(connection, request.method, params)
    session_id = params.session_id
    if session_id in connection.opening:
        raise InvalidRequest("this session is being opened already; wait for that answer")
    live = connection.sessions.get(session_id)
    if live is None:
        live = _live_session(connection, session_id, params)
    elif live.turn is not None:
        raise InvalidRequest("a turn is running in this session; wait for its end, or cancel it first")
    else:
        _move(live, params)
    opened = live
    opened.opening = how
    connection.opening[session_id] = opened

    async def work() -> Any:
        record, updates, transcript = await _restore(spec, opened)
        result = None
        handler = spec.handlers.get(name)
        if handler is not None:
            invocation = Invocation(
                connection.client,
                request=params,
                session=AgentSession(opened),
                transcript=transcript,
            )
            result = await call(handler, invocation)
        response = _take_result(opened, result, response_type)
        if record is not None:
            opened.restore_choices(record)
        if how == "load":
            for update in updates:
                await connection.peer.notify("session/update", {"sessionId": session_id, "update": update})
        if spec.store is not None and opened.recorder is None:
            opened.recorder = Recorder(spec.store, opened)
        connection.sessions[session_id] = opened
        return _choices_to_wire(opened, response)

    def after(succeeded: bool) -> None:
        connection.opening.pop(session_id, None)
        if succeeded:
            _opened(connection, opened)
        else:
            opened.abandon_opening()

    connection.serve_request(request, connection.lines.take(session_id), work, after)


async def _restore(
    spec: AppSpec, live: LiveSession
) -> tuple[SessionRecord | None, list[dict[str, Any]], list[SessionUpdate]]:
    """Fetch a session from the store, if there is one: its record, and its conversation raw and typed.

    Raises:
        ResourceNotFound: it is not there.
        InternalError: it is there but damaged.
    """
    if spec.store is None:
        return None, [], []
    if live.recorder is not None:
        await live.recorder.flush()
    try:
        stored = await spec.store.load(live.id)
        if stored is None:
            raise ResourceNotFound(f"there is no session {live.id!r}", {"sessionId": live.id})
        record, updates = stored
        transcript = [read_update(update) for update in updates]
    except (SessionDamaged, SchemaError) as error:
        # Not where it is: a path is nothing for a client.
        why = error.reason if isinstance(error, SessionDamaged) else str(error)
        raise InternalError(
            f"the record of session {live.id!r} is damaged and was left as it is: {why}"
        ) from error
    if live.recorder is None:
        live.restore(record)
        return record, updates, transcript
    # It is open in this very connection, and knows better than its record what has been chosen.
    return None, updates, transcript


def _check_opening(connection: AgentConnection, method: str, params: OpenRequest) -> None:
    """Check what all requests that open a session have in common (S1, S5, S6).

    Raises:
        InvalidParams: something may not be so; it is named.
        InternalError: too many sessions are open.
    """
    if not os.path.isabs(params.cwd):
        raise InvalidParams(f"{method} params: cwd: expected an absolute path, got {params.cwd!r:.200}")
    if params.additional_directories and not connection.spec.additional_directories:
        raise InvalidParams(
            f"{method} params: additionalDirectories: this agent does not take any "
            "(sessionCapabilities.additionalDirectories)"
        )
    for number, directory in enumerate(params.additional_directories):
        if not os.path.isabs(directory):
            raise InvalidParams(
                f"{method} params: additionalDirectories[{number}]: expected an absolute path, "
                f"got {directory!r:.200}"
            )
    for number, server in enumerate(params.mcp_servers):
        why_not = connection.spec.refuses_server(server)
        if why_not is not None:
            raise InvalidParams(f"{method} params: mcpServers[{number}]: {why_not}")
    if len(connection.sessions) + len(connection.opening) >= MAX_LIVE_SESSIONS:
        raise InternalError(f"{MAX_LIVE_SESSIONS} sessions are open; close some first")


def _live_session(connection: AgentConnection, session_id: str, params: OpenRequest) -> LiveSession:
    return LiveSession(
        session_id,
        connection.link,
        cwd=params.cwd,
        additional_directories=params.additional_directories,
        mcp_servers=params.mcp_servers,
        meta=params.meta,
    )


def _move(live: LiveSession, params: OpenRequest) -> None:
    """Take over what a session that is open already was opened anew with."""
    live.cwd = params.cwd
    live.additional_directories = params.additional_directories
    live.mcp_servers = params.mcp_servers
    live.meta = params.meta


def _take_result(live: LiveSession, result: Any, response_type: type[Any]) -> OpenResponse | None:
    """Take what a handler that opens a session returned.

    Raises:
        TypeError: it is not what such a handler may return.
    """
    if result is None:
        return None
    if not isinstance(result, response_type):
        raise TypeError(
            f"a handler that opens a session returned {result!r:.100}; it may return None or a "
            f"{response_type.__name__}"
        )
    response: OpenResponse = result
    if response.modes is not None:
        live.modes = response.modes
    if response.config_options is not None:
        live.config_options = response.config_options
    return response


def _choices_to_wire(live: LiveSession, response: OpenResponse | None) -> dict[str, Any]:
    """Return what the answer that opens a session says about it."""
    wire: dict[str, Any] = {}
    if live.modes is not None:
        wire["modes"] = to_wire(live.modes)
    if live.config_options is not None:
        wire["configOptions"] = _options_to_wire(live)
    if response is not None:
        rest = to_wire(response)
        wire = {**rest, **wire}
        wire.pop("sessionId", None)
    return wire


def _options_to_wire(live: LiveSession) -> list[Any]:
    boolean = live.client.offers("session.configOptions.boolean")
    shown = for_client(live.config_options or (), boolean=boolean)
    return [unstructure(option, SessionConfigOption) for option in shown]


def _opened(connection: AgentConnection, live: LiveSession) -> None:
    """Send what follows the answer that opens a session, which has just been queued (S4)."""
    commands = [command for command, _ in connection.spec.commands.values()]
    first = [unstructure_update(AvailableCommandsUpdate(commands))] if commands else []
    live.opened(*first)


# Finding -----------------------------------------------------------------------------------------------


def list_sessions(connection: AgentConnection, request: IncomingRequest) -> None:
    """Answer with one page of sessions (S3)."""
    spec = connection.spec
    if not spec.supports("on_list_sessions"):
        raise MethodNotFound(f"this agent does not offer {request.method}")
    params = structure(ListSessionsRequest, request.params)
    if params.cwd is not None and not os.path.isabs(params.cwd):
        raise InvalidParams(f"session/list params: cwd: expected an absolute path, got {params.cwd!r:.200}")
    handler = spec.handlers.get("on_list_sessions")

    async def work() -> Any:
        if handler is not None:
            result = await call(handler, Invocation(connection.client, request=params))
            if isinstance(result, ListSessionsResponse):
                return to_wire(result)
            return to_wire(ListSessionsResponse(list(result or ())))
        assert spec.store is not None
        try:
            records, cursor = await spec.store.list_sessions(params.cwd, params.cursor)
        except InvalidCursor as error:
            raise InvalidParams(f"session/list params: cursor: {error}") from error
        return to_wire(ListSessionsResponse([_info(spec, record) for record in records], cursor))

    connection.serve_request(request, None, work)


def _info(spec: AppSpec, record: SessionRecord) -> SessionInfo:
    return SessionInfo(
        record.session_id,
        record.cwd,
        record.additional_directories if spec.additional_directories else [],
        record.title,
        record.updated_at or None,
    )


# Choosing ----------------------------------------------------------------------------------------------


def set_mode(connection: AgentConnection, request: IncomingRequest) -> None:
    """Put a session into a mode that it has (S7)."""
    params = structure(SetSessionModeRequest, request.params)
    handler = connection.spec.handlers.get("on_set_mode")
    live = find_session(connection, params.session_id)
    if handler is None and live.modes is None:
        raise MethodNotFound("this session has no modes")
    if live.modes is not None and params.mode_id not in live.mode_ids():
        raise InvalidParams(f"session/set_mode params: modeId: this session has no mode {params.mode_id!r}")

    async def work() -> Any:
        result = None
        if handler is not None:
            session: AgentSession[Any] = AgentSession(live)
            result = await call(handler, Invocation(connection.client, request=params, session=session))
        live.enter_mode(params.mode_id)
        await _save(live)
        return {} if result is None else to_wire(result)

    def after(succeeded: bool) -> None:
        # The same choice in its newer form must not say otherwise.
        option = live.mode_option()
        if succeeded and option is not None and params.mode_id in select_values(option):
            option.current_value = params.mode_id
            _tell(live, {"sessionUpdate": "config_option_update", "configOptions": _options_to_wire(live)})

    connection.serve_request(request, connection.lines.take(live.id), work, after)


def set_config_option(connection: AgentConnection, request: IncomingRequest) -> None:
    """Choose a value of a session's config option, and answer with all of them (S7)."""
    params = structure(SetSessionConfigOptionRequest, request.params)
    if not isinstance(params, (SetSessionConfigOptionValueRequest, SetSessionConfigOptionBooleanRequest)):
        raise InvalidParams(f"session/set_config_option params: type: {params.tag!r} is unknown")
    handler = connection.spec.handlers.get("on_set_config_option")
    live = find_session(connection, params.session_id)
    if handler is None and live.config_options is None:
        raise MethodNotFound("this session has no config options")
    if live.config_options is not None:
        _check_option(live, params.config_id, params.value)

    async def work() -> Any:
        result = None
        if handler is not None:
            session: AgentSession[Any] = AgentSession(live)
            result = await call(handler, Invocation(connection.client, request=params, session=session))
        if isinstance(result, SetSessionConfigOptionResponse):
            live.config_options = result.config_options
        elif isinstance(result, list):
            live.config_options = result
        elif result is not None:
            raise TypeError(
                f"on_set_config_option returned {result!r:.100}; it may return None, the list of all "
                "options, or a SetSessionConfigOptionResponse"
            )
        else:
            _choose(live, params.config_id, params.value)
        await _save(live)
        response: dict[str, Any] = (
            to_wire(result) if isinstance(result, SetSessionConfigOptionResponse) else {}
        )
        return {**response, "configOptions": _options_to_wire(live)}

    def after(succeeded: bool) -> None:
        option = live.mode_option()
        if (
            succeeded
            and option is not None
            and option.id == params.config_id
            and live.modes is not None
            and option.current_value in live.mode_ids()
            and option.current_value != live.modes.current_mode_id
        ):
            live.enter_mode(option.current_value)
            _tell(live, unstructure_update(CurrentModeUpdate(option.current_value)))

    connection.serve_request(request, connection.lines.take(live.id), work, after)


def _check_option(live: LiveSession, config_id: str, value: str | bool) -> None:
    option = live.option(config_id)
    where = "session/set_config_option params"
    if option is None:
        raise InvalidParams(f"{where}: configId: this session has no option {config_id!r}")
    if isinstance(option, SessionConfigBoolean):
        if not isinstance(value, bool):
            raise InvalidParams(f"{where}: value: option {config_id!r} is on or off; send type 'boolean'")
    elif value not in select_values(option):
        raise InvalidParams(f"{where}: value: option {config_id!r} has no value {value!r}")


def _choose(live: LiveSession, config_id: str, value: str | bool) -> None:
    option = live.option(config_id)
    if isinstance(option, SessionConfigSelect):
        option.current_value = str(value)
    elif isinstance(option, SessionConfigBoolean):
        option.current_value = bool(value)


def _tell(live: LiveSession, update: dict[str, Any]) -> None:
    if not live.closed:
        live.deliver_nowait(update)


async def _save(live: LiveSession) -> None:
    if live.recorder is not None:
        await live.recorder.flush()


# Ending ------------------------------------------------------------------------------------------------


def close_session(connection: AgentConnection, request: IncomingRequest) -> None:
    """Cancel what runs in a session, and free it (S3)."""
    spec = connection.spec
    if not spec.supports("on_close_session"):
        raise MethodNotFound(f"this agent does not offer {request.method}")
    params = structure(CloseSessionRequest, request.params)
    live = find_session(connection, params.session_id)
    _end(connection, live)
    connection.leaving.append(live)

    async def work() -> Any:
        await _wait_for_turn(live)
        if live.recorder is not None:
            await live.recorder.flush()
        connection.leaving.remove(live)
        handler = spec.handlers.get("on_close_session")
        result = None
        if handler is not None:
            session: AgentSession[Any] = AgentSession(live)
            result = await call(handler, Invocation(connection.client, request=params, session=session))
        return {} if result is None else to_wire(result)

    def after(succeeded: bool) -> None:
        _free_later(connection, live)

    connection.serve_request(request, connection.lines.take(live.id), work, after)


def delete_session(connection: AgentConnection, request: IncomingRequest) -> None:
    """Forget a session; an unknown one is none already, and that is a success (S3)."""
    spec = connection.spec
    if not spec.supports("on_delete_session"):
        raise MethodNotFound(f"this agent does not offer {request.method}")
    params = structure(DeleteSessionRequest, request.params)
    if params.session_id in connection.opening:
        raise InvalidRequest("this session is still being opened; wait for that answer")
    live = connection.sessions.get(params.session_id)
    if live is not None:
        _end(connection, live)
        connection.leaving.append(live)

    async def work() -> Any:
        if live is not None:
            await _wait_for_turn(live)
            live.recorder = None
            # What it holds is freed before what it has left is deleted. A failure must not keep that.
            await connection.free_session(live)
        handler = spec.handlers.get("on_delete_session")
        result = None
        if handler is not None:
            result = await call(handler, Invocation(connection.client, request=params))
        if spec.store is not None:
            await spec.store.delete(params.session_id)
        return {} if result is None else to_wire(result)

    def after(succeeded: bool) -> None:
        if live is not None:
            _free_later(connection, live)

    connection.serve_request(request, connection.lines.take(params.session_id), work, after)


def _end(connection: AgentConnection, live: LiveSession) -> None:
    """Take a session out of use, in the read loop: what comes for it next finds it gone."""
    live.cancel()
    del connection.sessions[live.id]


def _free_later(connection: AgentConnection, live: LiveSession) -> None:
    """See to a session whose end was withdrawn before it was done: it is gone, and has to be freed."""
    if live in connection.leaving:
        connection.close_soon(live)


async def _wait_for_turn(live: LiveSession) -> None:
    """Wait for the answer of the turn that was cancelled; it comes, also if its handler goes on."""
    if live.turn is not None:
        await live.turn.wait_answered()
    await trio.lowlevel.checkpoint()
    live.closed = True

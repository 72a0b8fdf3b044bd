"""``trio-acp inspect``: what an agent says about itself."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO, cast

from trio_acp import AcpOptions, AuthRequired, ConnectedAgent, SessionState, open_acp
from trio_acp.schema import (
    AuthMethod,
    AuthMethodTerminal,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    UnknownVariant,
    unstructure,
)

from ._text import one_line

__all__ = ["agent_lines", "auth_method_lines", "run_inspect", "session_lines"]

CAPABILITIES: Final = (
    "loadSession",
    "promptCapabilities.image",
    "promptCapabilities.audio",
    "promptCapabilities.embeddedContext",
    "mcpCapabilities.http",
    "mcpCapabilities.sse",
    "sessionCapabilities.list",
    "sessionCapabilities.resume",
    "sessionCapabilities.close",
    "sessionCapabilities.delete",
    "sessionCapabilities.additionalDirectories",
    "auth.logout",
)
"""What agents of this version of the protocol can offer, by wire names."""


async def run_inspect(command: Sequence[str], cwd: str, startup_timeout: float, out: TextIO) -> None:
    """Start an agent, make a session for its modes and options, and write what it says about itself.

    Args:
        command: the agent's program and its arguments.
        cwd: the session's directory, absolute.
        startup_timeout: seconds from the start of the agent to its answer.
        out: where to write.

    Raises:
        AcpError: the agent could not be started, failed, or went.
    """
    options = AcpOptions(command=command[0], args=command[1:], cwd=cwd, startup_timeout=startup_timeout)
    lines: list[str] = []
    async with open_acp(options) as agent:
        lines += [*agent_lines(agent), *auth_method_lines(agent.auth_methods, command)]
        try:
            session = await agent.new_session()
        except AuthRequired:
            lines += ["Modes and config options: not known before you have logged in"]
        else:
            lines += session_lines(session.state)
            if agent.capabilities.session_capabilities.close is not None:
                await session.close()
    out.write("\n".join(lines) + "\n")


def agent_lines(agent: ConnectedAgent) -> Iterator[str]:
    """Say who an agent is, and what it can do."""
    info = agent.info
    name = "unnamed" if info is None else " ".join(filter(None, [info.title, info.name, info.version]))
    yield f"Agent: {one_line(name)}"
    yield f"Protocol version: {agent.protocol_version}"
    yield "Capabilities:"
    offered = dict(_leaves(unstructure(agent.capabilities), ""))
    for capability in CAPABILITIES:
        # A marker is an object, and an empty one counts (I3).
        given = offered.pop(capability, False)
        words = "no" if given is False or given is None else "yes"
        more = f" {one_line(json.dumps(given))}" if isinstance(given, dict) and given else ""
        yield f"  {capability}: {words}{more}"
    for name, value in offered.items():
        yield f"  {one_line(name)}: {one_line(json.dumps(value, ensure_ascii=False))}"


def _leaves(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Go down to what this version knows, and to what it does not know as a whole."""
    for key, inner in value.items():
        name = prefix + key
        if isinstance(inner, dict) and any(known.startswith(f"{name}.") for known in CAPABILITIES):
            yield from _leaves(cast("dict[str, Any]", inner), f"{name}.")
        else:
            yield name, inner


def auth_method_lines(methods: Sequence[AuthMethod], command: Sequence[str]) -> Iterator[str]:
    """Say how the user can log in, for each way."""
    yield "Auth methods:" if methods else "Auth methods: none"
    for method in methods:
        if isinstance(method, UnknownVariant):
            yield f"  of unknown type {one_line(method.tag or '')!r}"
            continue
        about = f": {one_line(method.description)}" if method.description else ""
        yield f"  {one_line(method.id)} ({one_line(method.name)}){about}"
        if isinstance(method, AuthMethodTerminal):
            env = [f"{name}={value}" for name, value in method.env.items()]
            yield f"    run in a terminal: {one_line(shlex.join([*env, *command, *method.args]))}"


def session_lines(state: SessionState) -> Iterator[str]:
    """Say what can be chosen in a session, and what is."""
    yield from _mode_lines(state)
    yield from _option_lines(state.config_options)


def _mode_lines(state: SessionState) -> Iterator[str]:
    if state.modes is None:
        yield "Modes: none"
        return
    yield "Modes:"
    for mode in state.modes.available_modes:
        sign = "*" if mode.id == state.modes.current_mode_id else "-"
        about = f": {one_line(mode.description)}" if mode.description else ""
        yield f"  {sign} {one_line(mode.id)} ({one_line(mode.name)}){about}"


def _option_lines(options: Sequence[SessionConfigOption]) -> Iterator[str]:
    yield "Config options:" if options else "Config options: none"
    for option in options:
        if isinstance(option, UnknownVariant):
            yield f"  of unknown type {one_line(option.tag or '')!r}"
            continue
        about = f": {one_line(option.description)}" if option.description else ""
        value = json.dumps(option.current_value, ensure_ascii=False)
        yield f"  {one_line(option.id)} = {one_line(value)} ({one_line(option.name)}){about}"
        if isinstance(option, SessionConfigSelect):
            for choice in _choices(option):
                sign = "*" if choice.value == option.current_value else "-"
                yield f"    {sign} {one_line(choice.value)} ({one_line(choice.name)})"


def _choices(option: SessionConfigSelect) -> Iterator[SessionConfigSelectOption]:
    for entry in option.options:
        if isinstance(entry, SessionConfigSelectGroup):
            yield from entry.options
        else:
            yield entry

"""Logging in when the agent asks for it: by its own methods, or in a terminal (U1 to U3)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, final

import attrs
import trio

from trio_acp._errors import AuthenticationFailed, AuthRequired, LocalProtocolError
from trio_acp.schema import AuthMethod, AuthMethodTerminal, UnknownVariant

__all__ = [
    "AuthChooser",
    "Authenticator",
    "TerminalLogin",
    "TerminalRunner",
    "find_method",
    "log_in_at_terminal",
    "run_in_terminal",
    "terminal_login",
]

T = TypeVar("T")

AuthChooser: TypeAlias = Callable[[Sequence[AuthMethod]], Awaitable[str | None]]
"""Picks the way to log in and returns its id; None to leave it. Called when the agent wants a login (U3)."""


@attrs.frozen
class TerminalLogin:
    """What has to be run, interactively, for a login of the terminal kind (U2).

    Attributes:
        method: the agent's description of it.
        command: the agent's own program with its arguments, those of the method appended.
        env: the whole environment for it, that of the method laid over the agent's. May hold secrets.
        cwd: the agent's working directory.
    """

    method: AuthMethodTerminal
    command: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(repr=False)
    cwd: str


TerminalRunner: TypeAlias = Callable[[TerminalLogin], Awaitable[int]]
"""Runs a `TerminalLogin` where the user sees it and types; returns its exit status, 0 is success (U2)."""


async def run_in_terminal(login: TerminalLogin) -> int:
    """Run a login in this program's own terminal; a `TerminalRunner` for ``AcpOptions.auth_terminal``.

    The program has this one's stdin, stdout and stderr until it exits.

    Cancellation: ends the program.

    Args:
        login: what to run.

    Returns:
        Its exit status, negative for minus the signal that ended it.

    Raises:
        OSError: it cannot be started.
    """
    result = await trio.run_process(
        [*login.command], stdin=None, env=dict(login.env), cwd=login.cwd, check=False
    )
    return result.returncode


def find_method(methods: Sequence[AuthMethod], method_id: str) -> AuthMethod:
    """Return the method of that id.

    Raises:
        LocalProtocolError: the agent offers no such method.
    """
    known = [method for method in methods if not isinstance(method, UnknownVariant)]
    for method in known:
        if method.id == method_id:
            return method
    ids = [method.id for method in known]
    raise LocalProtocolError(f"the agent offers no method {method_id!r}; it offers {ids or 'none'}")


@final
class Authenticator:
    """Logs in once for all calls that the agent refuses for want of a login.

    Args:
        choice: ``AcpOptions.auth``.
        methods: gives the agent's methods as they are now.
        log_in: logs in by one of them.
    """

    def __init__(
        self,
        choice: str | AuthChooser | None,
        methods: Callable[[], Sequence[AuthMethod]],
        log_in: Callable[[str], Awaitable[None]],
    ) -> None:
        self._choice = choice
        self._methods = methods
        self._log_in = log_in
        self._lock = trio.Lock()
        self._times = 0
        """How often a login has succeeded."""

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; if the agent asks for a login, and one was chosen, log in and make it once more."""
        times = self._times
        try:
            return await call()
        except AuthRequired as error:
            refusal = error
        async with self._lock:
            await self._log_in_after(times, refusal)
        return await call()

    async def _log_in_after(self, times: int, refusal: AuthRequired) -> None:
        if self._times != times:
            return  # several calls were refused, and another one has logged in for all of them
        await self._log_in(await self._choose(refusal))
        self._times += 1

    async def _choose(self, refusal: AuthRequired) -> str:
        choice = self._choice
        if callable(choice):
            choice = await choice(self._methods())
        if choice is None:
            raise AuthRequired(f"{refusal.message}; {_ways(self._methods())}", refusal.data) from refusal
        return choice


def _ways(methods: Sequence[AuthMethod]) -> str:
    """Say how one can log in."""
    named = [method for method in methods if not isinstance(method, UnknownVariant)]
    if not named:
        return "log in with the agent's own program, and connect again"
    ways = ", ".join(f"{method.id!r} ({method.name})" for method in named)
    return f"choose how to log in with AcpOptions.auth, or call agent.authenticate: {ways}"


def terminal_login(
    method: AuthMethodTerminal,
    command: Sequence[str | os.PathLike[str]],
    env: Mapping[str, str],
    cwd: str,
) -> TerminalLogin:
    """Put together what has to be run for a method of the terminal kind (U2)."""
    return TerminalLogin(
        method=method,
        command=(*(os.fspath(part) for part in command), *method.args),
        env={**env, **method.env},
        cwd=cwd,
    )


async def log_in_at_terminal(login: TerminalLogin, runner: TerminalRunner) -> None:
    """Run a login.

    Raises:
        AuthenticationFailed: it exited with another status than 0.
    """
    status: Any = await runner(login)
    if status != 0:
        raise AuthenticationFailed(login.method.id, status)

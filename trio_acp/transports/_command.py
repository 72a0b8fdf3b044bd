"""From a command to a file that can be started, or to an error that says what is wrong with it."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from trio_acp._errors import AgentStartError

__all__ = ["find_executable", "spawn_error"]


def find_executable(command: tuple[str, ...], *, cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the path of the program that `command` starts; blocks on the file system.

    A name without a slash is looked up in the PATH of the *agent's* environment. A relative path is
    relative to the agent's working directory, as it is when the operating system resolves it.

    Args:
        command: the program and its arguments.
        cwd: the agent's working directory, None for that of this process.
        env: the agent's whole environment.

    Raises:
        AgentStartError: `reason` is "bad-cwd", "not-found" or "not-executable".
    """
    if cwd is not None and not os.path.isdir(cwd):
        there = "is not a directory" if os.path.exists(cwd) else "does not exist"
        raise AgentStartError(
            f"the agent's working directory {cwd!r} {there}; create it or pass another cwd",
            phase="spawn",
            reason="bad-cwd",
            command=command,
        )
    if sys.platform == "win32":  # pragma: no cover - Windows
        return _find_on_windows(command, cwd, env)
    else:
        return _find_on_posix(command, cwd, env)


def _find_on_posix(command: tuple[str, ...], cwd: str | None, env: Mapping[str, str]) -> str:
    program = command[0]
    base = Path(cwd if cwd is not None else ".").absolute()
    folders = [""] if "/" in program else os.get_exec_path(env)
    unusable: Path | None = None
    for folder in folders:
        candidate = base / folder / program
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return str(candidate)
            unusable = unusable or candidate
        elif "/" in program and candidate.exists():
            unusable = candidate
    if unusable is not None:
        what = "is not executable; check its permissions" if unusable.is_file() else "is not a file"
        raise AgentStartError(
            f"the agent's program {str(unusable)!r} {what}",
            phase="spawn",
            reason="not-executable",
            command=command,
        )
    raise _not_found(command)


def _not_found(command: tuple[str, ...]) -> AgentStartError:
    program = command[0]
    where = "" if "/" in program or os.sep in program else " in the PATH of the agent's environment"
    return AgentStartError(
        f"the agent's program {program!r} was not found{where}; install it or pass the path of its file",
        phase="spawn",
        reason="not-found",
        command=command,
    )


def _find_on_windows(
    command: tuple[str, ...], cwd: str | None, env: Mapping[str, str]
) -> str:  # pragma: no cover - Windows
    path = next((value for name, value in env.items() if name.upper() == "PATH"), None)
    program = command[0]
    if cwd is not None and os.path.dirname(program):
        program = os.path.join(cwd, program)
    found = shutil.which(program, path=path)
    if found is None:
        raise _not_found(command)
    if found.lower().endswith((".bat", ".cmd")) and any(
        set(arg) & set('"%!^&|<>\r\n') for arg in command[1:]
    ):
        # Such shims run through cmd.exe, which would interpret these characters whatever the quoting.
        raise AgentStartError(
            f"the agent's program {found!r} is a batch file, and an argument holds a character that cmd.exe "
            "would interpret; start the program behind the batch file instead",
            phase="spawn",
            reason="not-executable",
            command=command,
        )
    return found


def spawn_error(error: OSError | ValueError, command: tuple[str, ...], executable: str) -> AgentStartError:
    """Say what a failure of the operating system to start `executable` means."""
    number = error.errno if isinstance(error, OSError) else None
    reason = "os-error"
    if number == errno.ENOENT:
        reason = "not-found"
        text = f"the interpreter that the first line of {executable!r} names was not found; install it"
    elif number == errno.ENOEXEC:
        reason = "not-executable"
        text = f"{executable!r} is neither a program of this machine nor a script with a `#!` line"
    elif number in (errno.EACCES, errno.EPERM):
        reason = "not-executable"
        text = f"the operating system does not permit to execute {executable!r}; check its permissions"
    else:
        text = f"the operating system could not start {executable!r}: {error}"
    return AgentStartError(text, phase="spawn", reason=reason, command=command)

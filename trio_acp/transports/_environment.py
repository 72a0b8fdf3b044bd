"""Which environment variables an agent gets: all of ours, some of them, or none."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping

__all__ = ["BASIC_VARIABLES", "build_environment"]

BASIC_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT",
    "TEMP", "TMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""What most programs need to run at all, for ``inherit_env=BASIC_VARIABLES``: no keys, no tokens."""


def build_environment(
    overlay: Mapping[str, str | None] | None = None,
    inherit: bool | Collection[str] = True,
    *,
    source: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Make the whole environment of a process to be started.

    Args:
        overlay: laid over what is inherited; a value of None removes the variable.
        inherit: True for everything this process has, False for nothing, or the names to inherit.
        source: inherit from this instead of this process's environment.

    Raises:
        ValueError: a name is empty or has `=` or a NUL in it, or a value has a NUL. The message names the
            variable and never quotes the value.
        TypeError: a name or a value is no string, or `inherit` is one string.
    """
    if isinstance(inherit, str):
        raise TypeError("inherit must be True, False or a collection of names, not one string")
    available = os.environ if source is None else source
    if inherit is True:
        result = dict(available)
    elif inherit is False:
        result = {}
    else:
        wanted = {_key(name) for name in inherit}
        result = {name: value for name, value in available.items() if _key(name) in wanted}
    for name, value in (overlay or {}).items():
        _check(name, value)
        if sys.platform == "win32":  # pragma: no cover - Windows, where the case of names means nothing
            for other in [other for other in result if _key(other) == _key(name)]:
                del result[other]
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def _key(name: str) -> str:
    return name.upper() if sys.platform == "win32" else name


def _check(name: str, value: str | None) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of an environment variable must be a str, not {type(name).__name__}")
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"{name!r} cannot be the name of an environment variable")
    if value is not None and not isinstance(value, str):
        raise TypeError(f"the environment variable {name} must be a str or None, not {type(value).__name__}")
    if value is not None and "\0" in value:
        raise ValueError(f"the value of the environment variable {name} has a NUL character in it")

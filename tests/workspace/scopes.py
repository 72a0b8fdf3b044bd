"""Requests and sessions for the tests of the workspace services."""

from __future__ import annotations

import os
from typing import Any

from trio_acp.client import SessionScope
from trio_acp.schema import ReadTextFileRequest, WriteTextFileRequest

__all__ = ["reading", "scope", "writing"]


def scope(cwd: os.PathLike[str] | str, *more: os.PathLike[str] | str, id: str = "s1") -> SessionScope:
    """Return a session with these roots."""
    return SessionScope(id, os.fspath(cwd), tuple(os.fspath(path) for path in more))


def reading(path: os.PathLike[str] | str, **lines: Any) -> ReadTextFileRequest:
    """Return a request to read a file."""
    return ReadTextFileRequest("s1", os.fspath(path), **lines)


def writing(path: os.PathLike[str] | str, content: str = "new") -> WriteTextFileRequest:
    """Return a request to write a file."""
    return WriteTextFileRequest("s1", os.fspath(path), content)

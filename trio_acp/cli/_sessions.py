"""``trio-acp sessions``: what an agent has saved, and the end of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from trio_acp import AcpOptions, open_acp
from trio_acp.schema import SessionInfo

from ._text import one_line

__all__ = ["run_sessions"]


async def run_sessions(
    command: Sequence[str],
    cwd: str,
    startup_timeout: float,
    out: TextIO,
    *,
    here: bool,
    delete: Sequence[str],
) -> None:
    """Start an agent and list its saved sessions, or delete some.

    Args:
        command: the agent's program and its arguments.
        cwd: the directory that the agent works in, absolute.
        startup_timeout: seconds from the start of the agent to its answer.
        out: where to write.
        here: list only the sessions of that directory.
        delete: ids of sessions to delete; none to list.

    Raises:
        AcpError: the agent could not be started, does not offer it, failed, or went.
    """
    options = AcpOptions(command=command[0], args=command[1:], cwd=cwd, startup_timeout=startup_timeout)
    async with open_acp(options) as agent:
        for id in delete:
            await agent.delete_session(id)
            out.write(f"deleted {one_line(id)}\n")
        if delete:
            return
        found = False
        async for info in agent.list_sessions(cwd if here else None):
            found = True
            out.write(f"{session_line(info)}\n")
        if not found:
            out.write("no saved sessions\n")


def session_line(info: SessionInfo) -> str:
    """Return a session as a line: its id first, for ``--resume``."""
    parts = [info.session_id, info.updated_at or "", info.cwd, info.title or ""]
    return "  ".join(filter(None, map(one_line, parts)))

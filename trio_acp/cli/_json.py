"""One JSON object a line for each thing that happens, for programs."""

from __future__ import annotations

import json
from typing import Any, TextIO, final

from trio_acp import ConnectedAgent, Decision, PermissionRequest, Reject, Selected, Session, Turn
from trio_acp.schema import SessionUpdate, unstructure, unstructure_update

from ._content import TerminalLookup

__all__ = ["JsonLines"]


@final
class JsonLines:
    """Writes a turn as JSON lines, in ASCII: safe in every encoding, and on every terminal.

    Each line has a ``type``: ``session``, ``update``, ``permission_request``, ``permission_answer``,
    ``cancelling``, ``end`` or ``error``. Values that come from the agent are in their wire form.

    Args:
        stream: where to.
    """

    shows_questions = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._session_id = ""

    def _event(self, type: str, **fields: Any) -> None:
        line = json.dumps(
            {"type": type, "sessionId": self._session_id or None, **fields}, separators=(",", ":")
        )
        self._stream.write(line + "\n")
        self._stream.flush()

    def waiting(self, what: str) -> None:
        """Write nothing: that is no news."""

    def start(self, agent: ConnectedAgent, session: Session, terminals: TerminalLookup) -> None:
        """Write ``session``: its id, its directory, and who the agent is."""
        self._session_id = session.id
        info = None if agent.info is None else unstructure(agent.info)
        self._event("session", cwd=session.cwd, agent=info)

    def update(self, update: SessionUpdate) -> None:
        """Write ``update``."""
        self._event("update", update=unstructure_update(update))

    def terminal_output(self, terminal_id: str, text: str) -> None:
        """Write nothing: it is the agent that tells what became of a command."""

    def question(self, request: PermissionRequest) -> None:
        """Write ``permission_request``."""
        options = [unstructure(option) for option in request.options]
        self._event("permission_request", toolCall=request.raw_tool_call, options=options)

    def answered(self, request: PermissionRequest, decision: Decision) -> None:
        """Write ``permission_answer``; ``optionId`` is null where nothing was chosen."""
        chosen = None
        if isinstance(decision, Selected):
            chosen = decision.option_id
        elif isinstance(decision, Reject):
            reject = request.first_reject()
            chosen = None if reject is None else reject.option_id
        self._event("permission_answer", toolCallId=request.tool_call.tool_call_id, optionId=chosen)

    def cancelling(self) -> None:
        """Write ``cancelling``."""
        self._event("cancelling")

    def end(self, turn: Turn) -> None:
        """Write ``end``: the stop reason, the whole text, the newest usage."""
        usage = None if turn.usage is None else unstructure_update(turn.usage)
        stop_reason = None if turn.stop_reason is None else str(turn.stop_reason)
        self._event("end", stopReason=stop_reason, abandoned=turn.abandoned, text=turn.text, usage=usage)

    def failed(self, error: BaseException, message: str) -> None:
        """Write ``error``: the class of the error, and its message."""
        self._event("error", error=type(error).__name__, message=message)

    def close(self) -> None:
        """There is nothing to put in order."""

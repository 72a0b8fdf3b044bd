"""The two kinds of scripted peers, with what each says in every conversation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, final

import trio

from ._scripted import DEFAULT_PATIENCE, ScriptedPeer

__all__ = [
    "ALLOW_OR_REJECT",
    "FULL_AGENT",
    "FULL_CLIENT",
    "ScriptedAgent",
    "ScriptedClient",
    "permission_option",
]

FULL_AGENT: Final[dict[str, Any]] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {
        "list": {},
        "delete": {},
        "resume": {},
        "close": {},
        "additionalDirectories": {},
    },
    "auth": {"logout": {}},
}
"""Capabilities of an agent that can do everything."""

FULL_CLIENT: Final[dict[str, Any]] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
}
"""Capabilities of a client that can do everything."""


def permission_option(option_id: str, kind: str) -> dict[str, str]:
    """Return one option of a permission request (P2).

    Args:
        option_id: its id, and its name.
        kind: for example ``"allow_once"``.
    """
    return {"optionId": option_id, "name": option_id.title(), "kind": kind}


ALLOW_OR_REJECT: Final = (permission_option("yes", "allow_once"), permission_option("no", "reject_once"))
"""What permission is asked for when a script names no options."""


class ScriptedAgent(ScriptedPeer):
    """An agent for tests of a host; give the other end of its stream to `connect_acp`.

    Args:
        stream: this end of the connection.
        strict: raise at the first message of the host that breaks a rule.
        tolerate: tags of rules for which it does not raise.
        patience: seconds that anything is waited for.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        strict: bool = True,
        tolerate: Collection[str] = (),
        patience: float = DEFAULT_PATIENCE,
    ) -> None:
        super().__init__(stream, "agent", strict=strict, tolerate=tolerate, patience=patience)

    async def introduce(self, capabilities: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Answer ``initialize``; return the request.

        Args:
            capabilities: what the agent offers; None for `FULL_AGENT`.
            more: other fields of the answer.
        """
        request = await self.expect("initialize")
        offered = FULL_AGENT if capabilities is None else capabilities
        await self.reply(request, {"protocolVersion": 1, "agentCapabilities": offered, **more})
        return request

    async def new_session(self, id: str = "s1", **more: Any) -> dict[str, Any]:
        """Answer ``session/new``; return the request.

        Args:
            id: the session's id.
            more: other fields of the answer.
        """
        request = await self.expect("session/new")
        await self.reply(request, {"sessionId": id, **more})
        return request

    async def prompt(self, session: str = "s1") -> dict[str, Any]:
        """Return the prompt that comes next, which has to be for that session."""
        return await self.expect("session/prompt", sessionId=session)

    async def update(self, kind: str, /, session: str = "s1", **fields: Any) -> None:
        """Send an update.

        Args:
            kind: its ``sessionUpdate`` tag.
            session: the session.
            fields: its other fields, by wire names.
        """
        await self.notify(
            "session/update", {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
        )

    async def text(self, text: str, session: str = "s1", **fields: Any) -> None:
        """Send a piece of the agent's message.

        Args:
            text: the text.
            session: the session.
            fields: other fields of the chunk, by wire names.
        """
        content = {"type": "text", "text": text}
        await self.update("agent_message_chunk", session, content=content, **fields)

    async def end_turn(self, prompt: dict[str, Any], stop_reason: str = "end_turn") -> None:
        """Answer a prompt.

        Args:
            prompt: the whole request.
            stop_reason: why the turn ends.
        """
        await self.reply(prompt, {"stopReason": stop_reason})

    async def ask_permission(
        self,
        session: str = "s1",
        options: Sequence[dict[str, str]] = ALLOW_OR_REJECT,
        **tool_call: Any,
    ) -> Any:
        """Send a permission request and return its id.

        Args:
            session: the session.
            options: what can be answered.
            tool_call: fields of the tool call, by wire names.
        """
        call = {"toolCallId": "t1", **tool_call}
        params = {"sessionId": session, "toolCall": call, "options": list(options)}
        return await self.request("session/request_permission", params)

    async def expect_decision(self, id: Any) -> str | None:
        """Return the option chosen in the next message, None if it was ``cancelled`` (P1)."""
        outcome: dict[str, Any] = (await self.expect_result(id))["outcome"]
        chosen: str | None = outcome.get("optionId")
        return chosen


@final
class ScriptedClient(ScriptedPeer):
    """A host for tests of an agent; `AgentApp.connect_in_memory` returns a stream for it.

    Args:
        stream: this end of the connection.
        strict: raise at the first message of the agent that breaks a rule.
        tolerate: tags of rules for which it does not raise.
        patience: seconds that anything is waited for.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        strict: bool = True,
        tolerate: Collection[str] = (),
        patience: float = DEFAULT_PATIENCE,
    ) -> None:
        super().__init__(stream, "client", strict=strict, tolerate=tolerate, patience=patience)

    async def initialize(self, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
        """Introduce this client and return the agent's answer.

        Args:
            capabilities: what the client offers; None for `FULL_CLIENT`.
        """
        params = {
            "protocolVersion": 1,
            "clientCapabilities": FULL_CLIENT if capabilities is None else capabilities,
            "clientInfo": {"name": "scripted-client", "version": "1"},
        }
        result: dict[str, Any] = await self.call("initialize", params)
        return result

    async def new_session(self, cwd: str = "/", **more: Any) -> str:
        """Make a session and return its id.

        Args:
            cwd: its directory, absolute.
            more: other parameters.
        """
        result = await self.call("session/new", {"cwd": cwd, "mcpServers": [], **more})
        session: str = result["sessionId"]
        return session

    async def start_prompt(self, session: str, text: str = "go") -> Any:
        """Send a prompt and return its id.

        Args:
            session: the session.
            text: the prompt.
        """
        prompt = [{"type": "text", "text": text}]
        return await self.request("session/prompt", {"sessionId": session, "prompt": prompt})

    async def prompt(self, session: str, text: str = "go") -> str:
        """Run a turn to its end and return its stop reason; ``replies`` answer the agent meanwhile.

        Args:
            session: the session.
            text: the prompt.
        """
        result = await self.wait_for_answer(await self.start_prompt(session, text))
        reason: str = result["stopReason"]
        return reason

    async def cancel(self, session: str) -> None:
        """Send ``session/cancel``; answering open permission requests is up to the script (X1)."""
        await self.notify("session/cancel", {"sessionId": session})

    def updates(self, session: str | None = None, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the updates that have arrived.

        Args:
            session: only those of this session.
            kind: only those with this ``sessionUpdate`` tag.
        """
        sent = [message["params"] for message in self.transcript.sent_by("agent", "session/update")]
        found = [each["update"] for each in sent if session is None or each["sessionId"] == session]
        return [update for update in found if kind is None or update["sessionUpdate"] == kind]

    def text(self, session: str | None = None) -> str:
        """Return the text of the agent's messages that has arrived.

        Args:
            session: only that of this session.
        """
        chunks = self.updates(session, "agent_message_chunk")
        return "".join(chunk["content"].get("text", "") for chunk in chunks)

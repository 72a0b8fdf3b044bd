"""An agent built with the official Python SDK. The words that it understands are those of `peers.py`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import acp
from acp import schema

OPTIONS = [
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
]


class Session:
    """What this agent knows of one session."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.said: list[str] = []
        self.detail = "brief"
        self.cancelled = asyncio.Event()


class Agent:
    """Answers a prompt by the method of this class that its text names."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.client: Any = None

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **rest: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=protocol_version,
            agent_info=schema.Implementation(name="python-peer", version="1"),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(), resume=schema.SessionResumeCapabilities()
                ),
            ),
        )

    async def new_session(self, cwd: str, **rest: Any) -> schema.NewSessionResponse:
        session_id = f"session-{len(self.sessions)}"
        self.sessions[session_id] = Session(cwd)
        modes = [schema.SessionMode(id="ask", name="Ask"), schema.SessionMode(id="go", name="Go")]
        return schema.NewSessionResponse(
            session_id=session_id,
            modes=schema.SessionModeState(current_mode_id="ask", available_modes=modes),
            config_options=self.options(self.sessions[session_id]),
        )

    def options(self, session: Session) -> list[Any]:
        values = [schema.SessionConfigSelectOption(value=value, name=value) for value in ("brief", "full")]
        return [
            schema.SessionConfigOptionSelect(
                id="detail", name="Detail", type="select", current_value=session.detail, options=values
            )
        ]

    async def set_config_option(
        self, config_id: str, session_id: str, value: Any, **rest: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self.sessions[session_id]
        session.detail = value
        return schema.SetSessionConfigOptionResponse(config_options=self.options(session))

    def known(self, session_id: str) -> Session:
        if session_id not in self.sessions:
            raise acp.RequestError.resource_not_found(session_id)
        return self.sessions[session_id]

    async def load_session(self, cwd: str, session_id: str, **rest: Any) -> schema.LoadSessionResponse:
        session = self.known(session_id)
        for words in session.said:
            await self.update(session_id, acp.update_user_message(acp.text_block(words)))
            await self.update(session_id, acp.update_agent_message(acp.text_block(f"to {words}")))
        return schema.LoadSessionResponse(config_options=self.options(session))

    async def resume_session(self, cwd: str, session_id: str, **rest: Any) -> schema.ResumeSessionResponse:
        return schema.ResumeSessionResponse(config_options=self.options(self.known(session_id)))

    async def list_sessions(self, cursor: str | None = None, **rest: Any) -> schema.ListSessionsResponse:
        ids = sorted(self.sessions)
        start = int(cursor or 0)
        found = [
            schema.SessionInfo(session_id=id, cwd=self.sessions[id].cwd) for id in ids[start : start + 2]
        ]
        more = start + 2 < len(ids)
        return schema.ListSessionsResponse(sessions=found, next_cursor=str(start + 2) if more else None)

    async def set_session_mode(self, mode_id: str, session_id: str, **rest: Any) -> None:
        return None

    async def cancel(self, session_id: str, **rest: Any) -> None:
        self.sessions[session_id].cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "peer/repeat":
            return {"word": params["word"] * params["howOften"]}
        raise acp.RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    async def prompt(self, prompt: list[Any], session_id: str, **rest: Any) -> schema.PromptResponse:
        session = self.sessions[session_id]
        session.cancelled.clear()
        session.said.append(prompt[0].text)
        await getattr(self, f"do_{prompt[0].text}")(session_id, session)
        return schema.PromptResponse(stop_reason="cancelled" if session.cancelled.is_set() else "end_turn")

    async def update(self, session_id: str, update: Any) -> None:
        await self.client.session_update(session_id=session_id, update=update)

    async def say(self, session_id: str, words: str) -> None:
        await self.update(session_id, acp.update_agent_message(acp.text_block(words)))

    async def do_talk(self, session_id: str, session: Session) -> None:
        await self.update(session_id, acp.update_agent_thought(acp.text_block("Let me see.")))
        await self.say(session_id, "Hello, ")
        await self.say(session_id, "wörld 🎉")

    async def do_plan(self, session_id: str, session: Session) -> None:
        statuses: Any = ("pending", "completed")
        for status in statuses:
            entries = [acp.plan_entry("Think", priority="high", status=status)]
            await self.update(session_id, acp.update_plan(entries))

    async def do_tool(self, session_id: str, session: Session) -> None:
        call = acp.start_tool_call(
            "call",
            "Write",
            kind="edit",
            status="pending",
            locations=[schema.ToolCallLocation(path="/x/file.txt", line=3)],
            raw_input={"text": "new"},
            content=[acp.tool_diff_content("/x/file.txt", "new", "old")],
        )
        await self.update(session_id, call)
        asked = schema.ToolCallUpdate(tool_call_id="call", title="Write the file", status="pending")
        answer = await self.client.request_permission(options=OPTIONS, session_id=session_id, tool_call=asked)
        outcome = answer.outcome
        chosen = outcome.option_id if outcome.outcome == "selected" else "cancelled"
        status: Any = "completed" if chosen in {"yes", "always"} else "failed"
        await self.update(session_id, acp.update_tool_call("call", status=status))
        await self.say(session_id, f"outcome: {chosen}")

    async def do_slow(self, session_id: str, session: Session) -> None:
        await self.say(session_id, "working")
        await session.cancelled.wait()
        await self.say(session_id, ", stopped")

    async def do_files(self, session_id: str, session: Session) -> None:
        read = await self.client.read_text_file(
            session_id=session_id, path=f"{session.cwd}/in.txt", line=2, limit=1
        )
        await self.client.write_text_file(
            session_id=session_id, path=f"{session.cwd}/out.txt", content=read.content.upper()
        )
        try:
            await self.client.read_text_file(session_id=session_id, path=f"{session.cwd}/missing.txt")
        except acp.RequestError as error:
            await self.say(session_id, f"missing: {error.code}")

    async def do_terminal(self, session_id: str, session: Session) -> None:
        made = await self.client.create_terminal(
            session_id=session_id, command="echo", args=["from", "here"], cwd=session.cwd
        )
        where = {"session_id": session_id, "terminal_id": made.terminal_id}
        ended = await self.client.wait_for_terminal_exit(**where)
        output = await self.client.terminal_output(**where)
        await self.client.release_terminal(**where)
        await self.say(session_id, f"{ended.exit_code}: {output.output}")

    async def do_huge(self, session_id: str, session: Session) -> None:
        await self.say(session_id, "0123456789" * 500_000)

    async def do_many(self, session_id: str, session: Session) -> None:
        for count in range(2000):
            await self.say(session_id, f"{count} ")

    async def do_unoffered(self, session_id: str, session: Session) -> None:
        try:
            await self.client.ext_method("not/offered", {})
        except acp.RequestError as error:
            await self.say(session_id, f"refused: {error.code}")

    async def do_extension(self, session_id: str, session: Session) -> None:
        answer = await self.client.ext_method("peer/echo", {"value": [1, None, "ä"]})
        await self.say(session_id, json.dumps(answer["echo"], ensure_ascii=False, separators=(",", ":")))

    async def do_form(self, session_id: str, session: Session) -> None:
        fields: Any = {"colour": {"type": "string", "enum": ["red", "blue"]}}
        answer = await self.client.create_elicitation(
            message="Which?",
            mode=schema.ElicitationFormSessionMode(
                session_id=session_id,
                requested_schema=schema.ElicitationSchema(type="object", properties=fields),
            ),
        )
        await self.say(session_id, f"{answer.action}: {answer.content['colour']}")

    async def do_url(self, session_id: str, session: Session) -> None:
        url: Any = "https://example.org/login"
        answer = await self.client.create_elicitation(
            message="Sign in",
            mode=schema.ElicitationUrlSessionMode(session_id=session_id, elicitation_id="login", url=url),
        )
        await self.client.complete_elicitation("login")
        await self.say(session_id, answer.action)

    async def do_fail(self, session_id: str, session: Session) -> None:
        raise acp.RequestError(-32000, "Authentication required: no account", {"hint": "log in"})

    async def do_crash(self, session_id: str, session: Session) -> None:
        raise RuntimeError("a bug of the agent")


if __name__ == "__main__":
    agent: Any = Agent()  # not of the SDK's base class, which wants every method of the protocol
    asyncio.run(acp.run_agent(agent, use_unstable_protocol=True))

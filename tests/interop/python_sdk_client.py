"""A client built with the official Python SDK, which does what a plan says; see `driving.py`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys
from typing import Any

import acp
from acp import schema

OFFERS: dict[str, dict[str, Any]] = {
    "read": {"fs": {"readTextFile": True}},
    "write": {"fs": {"writeTextFile": True}},
    "terminal": {"terminal": True},
    "form": {"elicitation": {"form": {}}},
    "boolean": {"session": {"configOptions": {"boolean": {}}}},
}


def to_json(value: Any) -> Any:
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return (
        value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if hasattr(value, "model_dump")
        else value
    )


class Client:
    """The client's end: it answers as the plan says, and notes everything down."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.seen: list[dict[str, Any]] = []
        self.files: dict[str, str] = plan["files"]
        self.terminals: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.plans: dict[str, dict[str, Any]] = {}
        """For each session, the step that runs in it: what to do at which update, once."""
        self.agent: Any = None
        self.process: Any = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    # What the agent asks for --------------------------------------------------------------------------

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        told = to_json(update)
        self.seen.append({"session": session_id, "update": told})
        await self.reached(told["sessionUpdate"], session_id)

    async def reached(self, what: str, session_id: str) -> None:
        step = self.plans.get(session_id, {})
        if step.get("cancel_at") == what:
            del step["cancel_at"]
            await self.agent.cancel(session_id=session_id)
        if step.get("leave_at") == what:
            del step["leave_at"]
            self.process.stdin.close()

    def note(self, method: str, **params: Any) -> None:
        self.seen.append({"request": method, "params": params})

    async def request_permission(
        self, options: list[Any], session_id: str, tool_call: Any, **rest: Any
    ) -> schema.RequestPermissionResponse:
        kinds = {option.kind: option.option_id for option in options}
        self.note("permission", kinds=sorted(kinds), call=tool_call.tool_call_id)
        wanted = self.plan["permission"]
        if wanted == "hold":
            await self.agent.cancel(session_id=session_id)
        if wanted not in kinds:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = schema.AllowedOutcome(outcome="selected", option_id=kinds[wanted])
        return schema.RequestPermissionResponse(outcome=chosen)

    async def read_text_file(self, path: str, session_id: str, **rest: Any) -> schema.ReadTextFileResponse:
        self.note("read", path=path)
        name = pathlib.Path(path).name
        if name not in self.files:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.files[name])

    async def write_text_file(self, content: str, path: str, session_id: str, **rest: Any) -> None:
        self.note("write", path=path, content=content)
        self.files[pathlib.Path(path).name] = content

    async def create_terminal(
        self,
        command: str,
        session_id: str,
        args: list[str] | None = None,
        cwd: str | None = None,
        **rest: Any,
    ) -> schema.CreateTerminalResponse:
        self.note("terminal/create", command=command, args=args, cwd=cwd)
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or ()),
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        id = f"terminal-{len(self.terminals)}"
        self.terminals[id] = process
        return schema.CreateTerminalResponse(terminal_id=id)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **rest: Any
    ) -> schema.WaitForTerminalExitResponse:
        self.note("terminal/wait_for_exit")
        await self.reached("terminal/wait_for_exit", session_id)
        status = await self.terminals[terminal_id].wait()
        return schema.WaitForTerminalExitResponse(exit_code=max(status, 0))

    async def terminal_output(
        self, session_id: str, terminal_id: str, **rest: Any
    ) -> schema.TerminalOutputResponse:
        self.note("terminal/output")
        process = self.terminals[terminal_id]
        output = await process.stdout.read() if process.returncode is not None else b""
        return schema.TerminalOutputResponse(output=output.decode(), truncated=False)

    async def kill_terminal(self, session_id: str, terminal_id: str, **rest: Any) -> None:
        self.note("terminal/kill")

    async def release_terminal(self, session_id: str, terminal_id: str, **rest: Any) -> None:
        self.note("terminal/release")
        process = self.terminals.pop(terminal_id)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def create_elicitation(self, message: str, mode: Any, **rest: Any) -> Any:
        self.note("elicitation", message=message, schema=to_json(mode.requested_schema))
        if self.plan["form"] is None:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=self.plan["form"])

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.note(method, **params)
        return {"word": params["word"].upper(), "howOften": 7, "more": None}

    # What it does -------------------------------------------------------------------------------------

    async def run(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": to_json(await getattr(self, "do_" + step["do"])(step))}
        except acp.RequestError as error:
            return {"error": {"code": error.code, "message": str(error)}}

    def session(self, step: dict[str, Any]) -> Any:
        return self.names.get(step["session"], step["session"])

    async def do_new(self, step: dict[str, Any]) -> Any:
        answer = await self.agent.new_session(cwd=step["cwd"], mcp_servers=[])
        self.names[step["as"]] = answer.session_id
        return answer

    async def do_load(self, step: dict[str, Any]) -> Any:
        return await self.agent.load_session(cwd=step["cwd"], session_id=self.session(step), mcp_servers=[])

    async def do_resume(self, step: dict[str, Any]) -> Any:
        return await self.agent.resume_session(cwd=step["cwd"], session_id=self.session(step))

    async def do_list(self, step: dict[str, Any]) -> Any:
        return await self.agent.list_sessions()

    async def do_close(self, step: dict[str, Any]) -> Any:
        return await self.agent.close_session(session_id=self.session(step))

    async def do_delete(self, step: dict[str, Any]) -> Any:
        # This SDK knows the method but has no function for it.
        return await self.agent._conn.send_request("session/delete", {"sessionId": self.session(step)})

    async def do_mode(self, step: dict[str, Any]) -> Any:
        return await self.agent.set_session_mode(mode_id=step["mode"], session_id=self.session(step))

    async def do_config(self, step: dict[str, Any]) -> Any:
        return await self.agent.set_config_option(
            config_id=step["option"], session_id=self.session(step), value=step["value"]
        )

    async def do_prompt(self, step: dict[str, Any]) -> Any:
        self.plans[self.session(step)] = step
        return await self.agent.prompt(session_id=self.session(step), prompt=[acp.text_block(step["text"])])

    async def do_together(self, step: dict[str, Any]) -> Any:
        return await asyncio.gather(*map(self.run, step["steps"]))

    async def do_extension(self, step: dict[str, Any]) -> Any:
        return await self.agent.ext_method(step["method"], step["params"])

    async def do_raw(self, step: dict[str, Any]) -> Any:
        return await self.agent._conn.send_request(step["method"], step["params"])


def capabilities(offers: list[str]) -> schema.ClientCapabilities:
    told: dict[str, Any] = {}
    for offer in offers:
        for name, value in OFFERS[offer].items():
            told[name] = {**told[name], **value} if isinstance(value, dict) and name in told else value
    return schema.ClientCapabilities.model_validate(told)


async def main() -> None:
    plan = json.load(sys.stdin)
    client: Any = Client(plan)
    done: list[dict[str, Any]] = []
    command, *args = plan["agent"]
    spawned = acp.spawn_agent_process(
        client, command, *args, env=plan["env"], transport_kwargs={"stderr": None}, use_unstable_protocol=True
    )
    async with spawned as (agent, process):
        client.process = process
        hello = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=capabilities(plan["offers"]),
            client_info=schema.Implementation(name="python-client", version="1"),
        )
        for step in plan["steps"]:
            before = len(client.seen)
            outcome = await client.run(step)
            done.append({**outcome, "seen": client.seen[before:]})
        stdin: Any = process.stdin
        stdin.close()
        status = await asyncio.wait_for(process.wait(), 20)
    print(json.dumps({"hello": to_json(hello), "steps": done, "status": status}))


if __name__ == "__main__":
    asyncio.run(main())

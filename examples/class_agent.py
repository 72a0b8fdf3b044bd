"""An agent as a class: a login, modes, a config option, a form, a command's output as it comes, an extension.

It serves stdin and stdout, or many clients at a port if one is given.
"""

import sys
from typing import Any

import trio

from trio_acp import AuthRequired
from trio_acp.agent import AgentApp, AgentSession, ConnectedClient, PromptContext
from trio_acp.schema import (
    AuthMethodAgent,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    StringPropertySchema,
    ToolKind,
)


class Counter:
    """Counts to what the user wants, in the client's terminal."""

    def __init__(self) -> None:
        self.logged_in: set[ConnectedClient] = set()

    async def on_authenticate(self, client: ConnectedClient) -> None:
        self.logged_in.add(client)

    async def on_logout(self, client: ConnectedClient) -> None:
        self.logged_in.discard(client)

    async def on_new_session(self, session: AgentSession[int], client: ConnectedClient) -> None:
        if client not in self.logged_in:
            raise AuthRequired("log in first")
        session.state = 0
        modes = [SessionMode("quiet", "Quiet"), SessionMode("loud", "Loud")]
        session.modes = SessionModeState("quiet", modes)
        steps = [SessionConfigSelectOption(value, value) for value in ("1", "2")]
        session.config_options = [SessionConfigSelect("step", "Step", "1", steps)]

    async def on_prompt(self, ctx: PromptContext, session: AgentSession[int]) -> str:
        session.state += 1
        answers = await ctx.elicit("How far?", {"end": StringPropertySchema("The last number")})
        if answers is None:
            return "Then I do not count."
        async with ctx.tool_call("Count", kind=ToolKind.EXECUTE) as call:
            command = ["seq", "1", str(session.config_value("step")), str(answers["end"])]
            async with call.terminal(*command) as terminal:
                async for text in terminal.stream_output():
                    await ctx.send_thought(text)
        assert session.modes is not None
        mark = "!" if session.modes.current_mode_id == "loud" else "."
        return f"That was count {session.state}{mark}"


app = AgentApp.from_object(
    Counter(), "counter", "1.0", auth_methods=[AuthMethodAgent("agree", "Agree to be counted")]
)


@app.on_ext_request("_counter/limits")
async def limits(params: dict[str, Any]) -> dict[str, int]:  # noqa: ASYNC124 - handlers are async
    return {"highest": 1000}


async def main() -> None:
    if len(sys.argv) == 1:
        await app.serve_stdio()
    else:
        await app.serve_listeners(await trio.open_tcp_listeners(int(sys.argv[1]), host="127.0.0.1"))


if __name__ == "__main__":
    trio.run(main)

"""An agent with bad habits, one for each word; run as a script by the tests of the command."""

from __future__ import annotations

import math
import os
import signal
import sys

import trio

sys.path.append(os.path.abspath(f"{__file__}/../../.."))

from trio_acp import AuthRequired, RequestError
from trio_acp.agent import AgentApp, AgentSession, PromptContext
from trio_acp.schema import (
    AuthMethodAgent,
    PermissionOption,
    SessionMode,
    SessionModeState,
    StopReason,
)

HOSTILE = "a\x1b[31mred\x1b[0m\x1b]0;title\x07 b\x9b2Jc\rd\u202ee\x7f\n"

EVERY_UPDATE: list[dict[str, object]] = [
    {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "an echo"}},
    {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": f"thinking {HOSTILE}"}},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "\n\n"}},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "\nspoken"}},
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "", "mimeType": "image/png"},
    },
    {"sessionUpdate": "tool_call", "toolCallId": "1", "title": HOSTILE, "kind": "read"},
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "1",
        "status": "completed",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "a result"}},
            {"type": "terminal", "terminalId": "t1"},
            {"type": "hologram"},
        ],
    },
    {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "1",
        "content": [{"type": "content", "content": {"type": "text", "text": "a late result"}}],
    },
    {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
    {"sessionUpdate": "session_info_update", "title": "a title"},
    {"sessionUpdate": "notice", "severity": "warning", "title": "careful", "description": "it is hot"},
    {"sessionUpdate": "notice", "severity": "info", "title": "by the way"},
    {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"},
    {"sessionUpdate": "hologram_update", "light": 1},
    {
        "sessionUpdate": "plan",
        "entries": [{"content": "win", "priority": "high", "status": "in_progress"}],
    },
    {
        "sessionUpdate": "plan",
        "entries": [{"content": "win", "priority": "high", "status": "in_progress"}],
    },
    {"sessionUpdate": "plan", "entries": [{"content": "win", "priority": "high", "status": "dreamt"}]},
    {
        "sessionUpdate": "usage_update",
        "used": 1500,
        "size": 2000,
        "cost": {"amount": 0.25, "currency": "EUR"},
    },
]
"""One of each kind, some of them more than once."""

app = AgentApp(
    "odd",
    "1",
    auth_methods=[AuthMethodAgent("key", "A key", "from your drawer")],
    cancel_grace=math.inf,
)


@app.on_authenticate
async def authenticate() -> None:
    await trio.lowlevel.checkpoint()


@app.on_new_session
async def new_session(session: AgentSession[None]) -> None:
    await trio.lowlevel.checkpoint()
    if "--locked" in sys.argv:
        raise AuthRequired("log in first")
    if "--late" in sys.argv:
        for argument in sys.argv:
            if argument.startswith("--tell="):
                with open(argument.removeprefix("--tell="), "w") as file:  # noqa: ASYNC230 - a pipe
                    file.write("asked for a session")
        await trio.sleep_forever()
    session.modes = SessionModeState("code", [SessionMode("code", "Code"), SessionMode("talk", "Talk")])


@app.on_prompt
async def prompt(ctx: PromptContext) -> StopReason | None:
    match ctx.text:
        case "everything":
            for update in EVERY_UPDATE:
                await ctx.send_update(update)
        case "stubborn":
            await ctx.send_message(f"I will not stop, my number is {os.getpid()}.")
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()
        case "max_tokens":
            return StopReason.MAX_TOKENS
        case "cancelled":
            return StopReason.CANCELLED
        case "fail":
            raise RequestError(-32050, "out of \x1b[5mluck")
        case "exit":
            print("my last words", file=sys.stderr, flush=True)
            os._exit(3)
        case "unknown options":
            odd = [PermissionOption("odd", "Odd", "allow_sometimes")]
            await ctx.send_message(f"allowed: {await ctx.ask_permission('do it', options=odd)}")
        case "mumble and ask":
            # Fits nothing, and is dropped; past the library, which would not send it.
            params = {"sessionId": ctx.session.id, "update": {"sessionUpdate": "plan"}}
            await ctx.client._link.peer.notify("session/update", params)
            await ctx.send_message("before the question")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, ctx, "the first")
                nursery.start_soon(ask, ctx, "the second")
        case "withdraw":
            with trio.move_on_after(0.2):
                await ctx.ask_permission("never mind")
            await ctx.send_message("withdrawn")
        case "nonsense":
            for number in range(9):
                await ctx.send_update({"sessionUpdate": "plan", "number": number})
        case other:
            await ctx.send_message(f"you said {other}")
    return None


async def ask(ctx: PromptContext, what: str) -> None:
    allowed = await ctx.ask_permission(what)
    await ctx.send_message(f"{what}: {'yes' if allowed else 'no'}")


if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
trio.run(app.serve_stdio)

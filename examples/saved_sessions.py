"""An agent whose sessions outlive it, with a slash command and something that it remembers."""

import sys
from pathlib import Path

import trio

from trio_acp.agent import AgentApp, FileSessionStore, PromptContext

directory = sys.argv[1] if len(sys.argv) > 1 else Path.home() / ".saved-sessions"
app = AgentApp("saved-sessions", "1.0", store=FileSessionStore(directory))


@app.on_prompt
async def answer(ctx: PromptContext) -> None:
    ctx.session.data["prompts"] = ctx.session.data.get("prompts", 0) + 1
    await ctx.send_message(f"This is prompt number {ctx.session.data['prompts']}.")


@app.command("title", "Name this conversation", hint="the new title")
async def title(ctx: PromptContext, arguments: str) -> str:
    await ctx.set_title(arguments or None)
    return "Done."


if __name__ == "__main__":
    trio.run(app.serve_stdio)

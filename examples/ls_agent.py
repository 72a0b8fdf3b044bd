"""An agent that looks around before it speaks, and asks before it writes; the model examples drive it."""

import trio

from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import ToolKind

app = AgentApp("ls-agent", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> str:
    await ctx.send_thought("What is there? ")
    directory = trio.Path(ctx.cwd)
    async with ctx.tool_call("ls", name="ls", kind=ToolKind.SEARCH, raw_input={"path": "."}) as call:
        names = sorted([path.name for path in await directory.iterdir()])
        await call.complete("\n".join(names))
    if ctx.text.startswith("slow"):
        await ctx.send_message("Thinking ")
        await trio.sleep_forever()
    if ctx.text.startswith("write"):
        async with ctx.tool_call("Write hello.txt", name="write", kind=ToolKind.EDIT) as call:
            if not await call.ask_permission():
                return "I may not write, so here is the plan: write hello.txt."
            await (directory / "hello.txt").write_text("hi\n")
        return "I have written hello.txt."
    return f"I see {', '.join(names)}."


if __name__ == "__main__":
    trio.run(app.serve_stdio)

"""An agent that reads files, runs commands and asks, all of it through the client and visible there."""

import trio

from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import StopReason, ToolKind

app = AgentApp("tool-agent", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> StopReason | str:
    await ctx.send_plan(["read the notes", "count them"])

    async with ctx.tool_call("Read notes.txt", kind=ToolKind.READ, locations=["notes.txt"]) as call:
        notes = await ctx.try_read_file("notes.txt")
        if notes is None:
            await call.fail("there are no notes")
            return StopReason.REFUSAL

    async with ctx.tool_call("Count the lines", kind=ToolKind.EXECUTE) as call:
        if not await call.ask_permission():
            return "You did not let me count."
        result = await call.execute("wc", "-l", "notes.txt", timeout=10)

    choice = await ctx.ask_choice("In words or in figures?", "words", "figures")
    lines = result.output.split()[0] if result.success else "unknown"
    return f"The number of lines is {lines}." if choice == "words" else lines


if __name__ == "__main__":
    trio.run(app.serve_stdio)

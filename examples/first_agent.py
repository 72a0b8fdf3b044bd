"""An agent: it repeats what it is told, louder if it may."""

import trio

from trio_acp.agent import AgentApp, PromptContext

app = AgentApp("first-agent", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> str:
    await ctx.send_thought("It is hard to hear. ")
    if await ctx.ask_permission("Shout?"):
        return ctx.text.upper()
    return ctx.text


if __name__ == "__main__":
    trio.run(app.serve_stdio)

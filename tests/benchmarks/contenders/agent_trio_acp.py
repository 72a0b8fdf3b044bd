"""This library as the agent: a turn is ten pieces of a message."""

from __future__ import annotations

import trio

from trio_acp import AgentApp, PromptContext

app = AgentApp(name="benchmark", version="1")


@app.on_prompt
async def prompt(ctx: PromptContext) -> None:
    for number in range(10):
        await ctx.send_message(f"{number:08d} ".ljust(60, "x"))


if __name__ == "__main__":
    trio.run(app.serve_stdio)

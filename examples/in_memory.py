"""A host and an agent in one program, without a process: what tests of either side need."""

import trio

from trio_acp import connect_acp
from trio_acp.agent import AgentApp, PromptContext

app = AgentApp("echo", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> None:
    await ctx.send_message(f"You said: {ctx.text}")


async def main() -> None:
    async with trio.open_nursery() as nursery:
        agent = await connect_acp(nursery, app.connect_in_memory(nursery))
        print(await agent.generate("hello"))
        await agent.aclose()


if __name__ == "__main__":
    trio.run(main)

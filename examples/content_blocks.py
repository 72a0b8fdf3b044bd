"""A host whose prompt is more than a text, and an agent that looks at its parts."""

import trio

from trio_acp import CapabilityError, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import ImageContent, ResourceLink, TextContent

app = AgentApp("looker", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> None:
    for block in ctx.prompt:
        await ctx.send_message(f"{type(block).__name__} ")


async def main() -> None:
    async with trio.open_nursery() as nursery:
        agent = await connect_acp(nursery, app.connect_in_memory(nursery))
        session = await agent.new_session()
        question = TextContent("What does this do?")
        async with session.prompt([question, ResourceLink("main.py", "file:///project/main.py")]) as turn:
            await turn.wait()
        print(turn.text)
        try:
            async with session.prompt([question, ImageContent("aGVsbG8=", "image/png")]):
                pass
        except CapabilityError as error:
            print("not sent:", error.capability)
        await agent.aclose()


if __name__ == "__main__":
    trio.run(main)

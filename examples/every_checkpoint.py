"""Cancel a whole turn at each of its checkpoints, and check what the agent saw each time."""

import trio
import trio.testing

from trio_acp import connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.testing import Transcript, assert_conversation_legal, cancel_at_every_checkpoint

transcripts: list[Transcript] = []


async def one_turn() -> None:
    transcript = Transcript()
    transcripts.append(transcript)
    app = AgentApp("echo", "1.0", on_wire=transcript.wire_tap("agent"))

    @app.on_prompt
    async def answer(ctx: PromptContext) -> None:
        if await ctx.ask_permission("Echo?"):
            await ctx.send_message(ctx.text)

    async with trio.open_nursery() as nursery:
        agent = await connect_acp(nursery, app.connect_in_memory(nursery))
        await agent.generate("hello")
        await agent.aclose()


async def main() -> None:
    count = await cancel_at_every_checkpoint(
        one_turn, check=lambda: assert_conversation_legal(transcripts[-1])
    )
    print(f"cancelled at {count} checkpoints, and legal each time")


if __name__ == "__main__":
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

"""What does my host do when the agent dies in the middle of a message? A scripted agent plays it."""

import trio

from trio_acp import ConnectionLost, connect_acp
from trio_acp.testing import ScriptedAgent, assert_conversation_legal


async def die_in_the_middle(agent: ScriptedAgent) -> None:
    await agent.introduce()
    await agent.new_session()
    await agent.prompt()
    await agent.text("I am going to")
    await agent.send_raw(b'{"jsonrpc":"2.0","method":"session/up')
    await agent.aclose()


async def main() -> None:
    script = ScriptedAgent.in_memory()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(die_in_the_middle, script)
        agent = await connect_acp(nursery, script.far_end)
        try:
            await agent.generate("hello")
        except ConnectionLost as error:
            print("the agent is gone:", error)
        await agent.aclose()
    assert_conversation_legal(script.transcript, side="client")
    print("seen:", ", ".join(message["method"] for message in script.transcript.sent_by("client")))


if __name__ == "__main__":
    trio.run(main)

"""A host with a stop button: the turn ends, the session goes on."""

import sys

import trio

from trio_acp import AcpOptions, Turn, open_acp


async def press_stop_after(seconds: float, turn: Turn) -> None:
    await trio.sleep(seconds)
    turn.cancel()


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"])
    async with open_acp(options) as agent:
        session = await agent.new_session()
        async with session.prompt("slow 60") as turn, trio.open_nursery() as nursery:
            nursery.start_soon(press_stop_after, 0.3, turn)
            async for _update in turn:
                pass  # what the agent still sends arrives here, up to its answer
        print("stopped:", turn.stop_reason)
        async with session.prompt("think") as turn:
            await turn.wait()
        print("the next turn:", turn.stop_reason)


if __name__ == "__main__":
    trio.run(main)

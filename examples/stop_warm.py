"""A stop button for a model: the reply ends, the agent and its session stay warm for the next message."""

import pathlib
import sys

import trio

from trio_acp import AcpOptions, TurnCancelled, open_acp

AGENT = pathlib.Path(__file__).with_name("ls_agent.py")


async def press_after(seconds: float, button: trio.Event) -> None:
    await trio.sleep(seconds)
    button.set()


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=[str(AGENT)])
    async with open_acp(options) as agent, trio.open_nursery() as nursery:
        button = trio.Event()
        nursery.start_soon(press_after, 0.5, button)
        try:
            await agent.generate("slow", cancel=button)
        except TurnCancelled as stopped:
            print(f"stopped after: {stopped.text!r}")
        print(await agent.generate("look"))
        print("sessions:", len(agent.sessions))


if __name__ == "__main__":
    trio.run(main)

"""A host: one prompt to an agent, and what the agent does about it as it happens."""

import sys

import trio

from trio_acp import AcpOptions, open_acp


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"])
    async with open_acp(options) as agent:
        session = await agent.new_session()
        async with session.prompt("list the files") as turn:
            async for update in turn:
                print(update)
        print(turn.stop_reason, turn.text)


if __name__ == "__main__":
    trio.run(main)

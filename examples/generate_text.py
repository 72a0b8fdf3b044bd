"""A host that wants nothing but text."""

import sys

import trio

from trio_acp import AcpOptions, open_acp


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"])
    async with open_acp(options) as agent:
        print(await agent.generate("think"))
        with trio.move_on_after(0.3):
            print(await agent.generate("slow 60"))  # cancelled; the conversation goes on
        print(await agent.generate("list the files"))


if __name__ == "__main__":
    trio.run(main)

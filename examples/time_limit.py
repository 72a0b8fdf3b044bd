"""A host with a time limit: Trio's own, around the turn."""

import sys

import trio

from trio_acp import AcpOptions, open_acp


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"])
    async with open_acp(options) as agent:
        session = await agent.new_session()
        turn = session.prompt("slow 60")
        with trio.move_on_after(0.5):
            async with turn:
                await turn.wait()
        print(f"stopped: {turn.cancel_requested}, the agent said {turn.stop_reason}")


if __name__ == "__main__":
    trio.run(main)

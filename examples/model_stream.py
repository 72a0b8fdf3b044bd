"""An agent behind a model client: its text as it comes, and the tools that it runs itself."""

import pathlib
import sys

import trio

from trio_acp import AcpOptions, open_acp
from trio_acp.model import Done, InProcessClient, TextDelta, ToolCallEvent, ToolResultEvent

AGENT = pathlib.Path(__file__).with_name("ls_agent.py")


async def main() -> None:
    async with open_acp(AcpOptions(command=sys.executable, args=[str(AGENT)])) as agent:
        client = InProcessClient(model="ls-agent", generate_stream=agent.generate_stream)
        async with client.stream("look") as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        print(text)
                    case ToolCallEvent(name=name, via=via):
                        print(f"tool_call:{name}:{via}")
                    case ToolResultEvent(name=name, via=via):
                        print(f"tool_result:{name}:{via}")
                    case Done(result=result):
                        print(f"{result.model}: {result.turns} turn, {len(result.messages)} messages")
                    case _:
                        pass


if __name__ == "__main__":
    trio.run(main)

"""A host that shows what the agent does: text, thoughts, tool calls, the plan."""

import sys

import trio

from trio_acp import AcpOptions, open_acp
from trio_acp.schema import AgentMessageChunk, AgentThoughtChunk, Plan, TextContent, ToolCall, ToolCallUpdate


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"])
    async with open_acp(options) as agent:
        session = await agent.new_session()
        async with session.prompt("list the files") as turn:
            async for update in turn:
                match update:
                    case AgentMessageChunk(content=TextContent(text=text)):
                        print(text, end="", flush=True)
                    case AgentThoughtChunk(content=TextContent(text=text)):
                        print(text, end="", flush=True)
                    case ToolCall(title=title):
                        print(f"\n[{title}]")
                    case ToolCallUpdate(tool_call_id=call_id, status=str(status)):
                        print(f"[{turn.tool_calls[call_id].title}: {status}]")
                    case Plan(entries=entries):
                        print("\nPlan:", "; ".join(f"{entry.content} ({entry.status})" for entry in entries))
                    case _:
                        pass  # there are more kinds, and there will be others


if __name__ == "__main__":
    trio.run(main)

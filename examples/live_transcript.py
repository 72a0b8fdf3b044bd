"""A live transcript of everything that the agent does, beside the plain reply."""

import pathlib
import sys
from typing import Any

import trio

from trio_acp import AcpOptions, Cancelled, Decision, PermissionRequest, Selected, open_acp

AGENT = pathlib.Path(__file__).with_name("ls_agent.py")


def record(params: dict[str, Any]) -> None:
    # In the read loop, as the agent says it: print, or put it into a queue, but do not wait here.
    update: dict[str, Any] = params["update"]
    match update:
        case {"sessionUpdate": "agent_thought_chunk", "content": {"text": text}}:
            print(f"  (thinks: {text})")
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": text}}:
            print(f"  {text}")
        case {"sessionUpdate": "tool_call" | "tool_call_update" as kind, "toolCallId": id}:
            print(f"  [{kind} {update.get('title', id)}: {update.get('status', '')}]")
        case _:
            pass  # there are more kinds, and will be others


async def allow(request: PermissionRequest) -> Decision:  # noqa: ASYNC124 - handlers are async
    option = request.first_allow()
    if option is None:
        return Cancelled()
    print(f"  picked {option.option_id}")
    return Selected(option.option_id)


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=[str(AGENT)], on_update=record, on_permission=allow)
    async with open_acp(options) as agent:
        reply = await agent.generate("write hello.txt")
        print("reply:", reply)


if __name__ == "__main__":
    trio.run(main)

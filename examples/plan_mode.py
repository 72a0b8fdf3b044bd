"""Plan mode: the agent may look, and every write is rejected, so that it can only say what it would do."""

import pathlib
import sys

import trio

from trio_acp import AcpOptions, Decision, PermissionRequest, Reject, Selected, open_acp
from trio_acp.schema import ToolKind

AGENT = pathlib.Path(__file__).with_name("ls_agent.py")
HARMLESS = (ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK)


async def only_look(request: PermissionRequest) -> Decision:  # noqa: ASYNC124 - handlers are async
    allow = request.first_allow()
    if request.tool_call.kind in HARMLESS and allow is not None:
        return Selected(allow.option_id)
    print(f"rejected: {request.tool_call.title}")
    return Reject()


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=[str(AGENT)], on_permission=only_look)
    async with open_acp(options) as agent:
        print(await agent.generate("write hello.txt"))
    print("written:", await trio.Path("hello.txt").exists())


if __name__ == "__main__":
    trio.run(main)

"""A host that sees every message, for a log or for curiosity."""

import sys
from typing import Any

import trio

from trio_acp import AcpOptions, open_acp


def show(direction: str, message: dict[str, Any] | str) -> None:
    arrow = "-->" if direction == "sent" else "<--"
    print(arrow, message if isinstance(message, str) else message.get("method", "answer"))


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"], on_wire=show)
    async with open_acp(options) as agent:
        await agent.generate("list the files")


if __name__ == "__main__":
    trio.run(main)

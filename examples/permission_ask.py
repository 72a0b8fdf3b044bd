"""A host that asks the user before the agent may do something."""

import sys
import tempfile

import trio

from trio_acp import AcpOptions, Cancelled, Decision, PermissionRequest, Reject, Selected, open_acp


async def ask_human(request: PermissionRequest) -> Decision:
    question = f"{request.tool_call.title}: allow? [y/n] "
    # In a thread, so that everything else goes on; left alone there when the turn is cancelled meanwhile.
    answer = await trio.to_thread.run_sync(input, question, abandon_on_cancel=True)
    allow = request.first_allow()
    if answer.strip().lower() != "y":
        return Reject()
    return Cancelled() if allow is None else Selected(allow.option_id)


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        options = AcpOptions(
            command=sys.executable,
            args=["-m", "trio_acp.demo"],
            on_permission=ask_human,
            permission_timeout=300,
        )
        async with open_acp(options) as agent:
            session = await agent.new_session(directory)
            async with session.prompt("write hello.txt: Hello") as turn:
                await turn.wait()
            print(turn.text)


if __name__ == "__main__":
    trio.run(main)

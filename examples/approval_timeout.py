"""A human approves, but not for ever: when nobody answers in time, the answer is no and the turn goes on."""

import pathlib
import sys

import trio

from trio_acp import AcpOptions, Decision, PermissionRequest, Reject, Selected, open_acp

AGENT = pathlib.Path(__file__).with_name("ls_agent.py")


async def ask_human(request: PermissionRequest) -> Decision:
    question = f"{request.tool_call.title}? [y/n] "
    # In a thread, so that everything else goes on; left alone there when the time is up.
    answer = await trio.to_thread.run_sync(input, question, abandon_on_cancel=True)
    allow = request.first_allow()
    if answer.strip().lower() != "y" or allow is None:
        return Reject()
    return Selected(allow.option_id)


async def nobody_there(request: PermissionRequest) -> Decision:
    await trio.sleep_forever()
    raise AssertionError


async def main() -> None:
    for human in (ask_human, nobody_there):
        options = AcpOptions(
            command=sys.executable,
            args=[str(AGENT)],
            on_permission=human,
            permission_timeout=30 if human is ask_human else 0.5,
            permission_timeout_action="reject",
        )
        async with open_acp(options) as agent:
            print(await agent.generate("write hello.txt"))


if __name__ == "__main__":
    trio.run(main)

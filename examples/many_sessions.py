"""A host with several sessions at once on one connection."""

import sys

import trio

from trio_acp import AcpOptions, ConnectedAgent, open_acp


async def ask(agent: ConnectedAgent, question: str, answers: dict[str, str]) -> None:
    session = await agent.new_session()
    async with session.prompt(question) as turn:
        await turn.wait()
    answers[question] = turn.text


async def main() -> None:
    options = AcpOptions(command=sys.executable, args=["-m", "trio_acp.demo"])
    answers: dict[str, str] = {}
    async with open_acp(options) as agent:
        async with trio.open_nursery() as nursery:
            for question in ("think", "plan", "list the files"):
                nursery.start_soon(ask, agent, question, answers)
        print(f"{len(answers)} answers from {len(agent.sessions)} sessions")


if __name__ == "__main__":
    trio.run(main)

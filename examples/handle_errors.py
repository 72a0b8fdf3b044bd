"""A host that tells apart what can go wrong with an agent."""

import sys

import trio

from trio_acp import AcpOptions, AgentStartError, AuthRequired, ConnectionLost, RequestError, open_acp


async def ask(options: AcpOptions, question: str) -> None:
    try:
        async with open_acp(options) as agent:
            print(await agent.generate(question))
    except AgentStartError as error:
        print(f"cannot start it ({error.phase}, {error.reason})")
    except AuthRequired:
        print("log in first")
    except RequestError as error:
        print(f"the agent refused: {error}")
    except ConnectionLost as error:
        print(f"the agent has gone: {error}")


async def main() -> None:
    python = sys.executable
    await ask(AcpOptions(command="no-such-agent"), "hello")
    await ask(AcpOptions(command=python, args=["-c", "print('I am no agent')"]), "hello")
    await ask(AcpOptions(command=python, args=["-m", "trio_acp.demo"]), "list the files")


if __name__ == "__main__":
    trio.run(main)

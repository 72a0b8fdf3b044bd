"""Ten agents in a nursery with one budget: three at a time, and a deadline for all of it."""

import pathlib
import sys

import trio

from trio_acp import AcpOptions, open_acp

AGENT = pathlib.Path(__file__).with_name("ls_agent.py")


async def work(number: int, budget: trio.CapacityLimiter, answers: dict[int, str]) -> None:
    options = AcpOptions(command=sys.executable, args=[str(AGENT)])
    async with budget, open_acp(options) as agent:
        answers[number] = await agent.generate("slow" if number == 9 else "look")


async def main() -> None:
    answers: dict[int, str] = {}
    budget = trio.CapacityLimiter(3)
    deadline = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    with trio.move_on_after(deadline) as scope:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(work, number, budget, answers)
    print(f"{len(answers)} answers, out of time: {scope.cancelled_caught}")


if __name__ == "__main__":
    trio.run(main)

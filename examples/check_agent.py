"""Check an agent from outside: does it do what the protocol asks for?"""

import sys

import trio

from trio_acp.testing.conformance import CHECKS, DEMO_PROMPTS, run_checks


async def main() -> None:
    command = [sys.executable, "-m", "trio_acp.demo", "--pace", "0"]
    about_ids = [check for check in CHECKS if check.rule == "W3"]
    for result in await run_checks(command, prompts=DEMO_PROMPTS, checks=about_ids):
        print(result)


if __name__ == "__main__":
    trio.run(main)

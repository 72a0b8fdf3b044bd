"""Run the fuzzers, round after round with fresh seeds, for about a given time.

The first round always runs to its end. A failure stops the run; its output names the seed that repeats it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import secrets
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
TESTS = HERE.parent / "tests"
TARGETS = [
    HERE,
    TESTS / "core" / "test_properties.py",
    # Against the protocol's JSON schema and the official SDK's models, where they are at hand.
    TESTS / "schema" / "test_generated_payloads.py",
    TESTS / "schema" / "test_official_sdk.py",
]


def main() -> int:
    """Return the exit status of the first round that failed, 0 if none did."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="no round begins after this time")
    parser.add_argument("--examples", type=int, default=200, help="examples of each fuzzer in one round")
    parser.add_argument("--seed", type=int, help="of the first round; the next ones count up from it")
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    environment = {**os.environ, "FUZZ_EXAMPLES": str(arguments.examples)}
    end = time.monotonic() + arguments.seconds
    rounds = 0
    while True:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--hypothesis-seed={seed}",
        ]
        done = subprocess.run([*command, *map(str, TARGETS)], env=environment, cwd=HERE.parent, check=False)
        rounds += 1
        if done.returncode:
            print(f"round {rounds} failed; repeat it with --seed {seed} --examples {arguments.examples}")
            return done.returncode
        if time.monotonic() >= end:
            print(f"{rounds} rounds passed, the last with seed {seed}")
            return 0
        seed += 1


if __name__ == "__main__":
    sys.exit(main())

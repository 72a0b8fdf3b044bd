"""``python -m tests.benchmarks``: measure, print the table, and write what the documentation shows."""

from __future__ import annotations

import argparse

from tests.benchmarks.run import CONTENDERS, WORKLOADS, measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is run (default 5)")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, with commas between them")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    options = parser.parse_args()
    results = measure(options.only.split(","), options.rounds, options.contenders.split(","))
    from tests.benchmarks.run import cost, ratio

    for name in options.only.split(","):
        for c in WORKLOADS[name].contenders:
            k = cost(results, name, c)
            r = ratio(results, name, c)
            print(name, c, None if k is None else round(k * 1e6, 2), None if r is None else round(r, 2))


if __name__ == "__main__":
    main()

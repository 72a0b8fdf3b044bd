"""``python -m tests.benchmarks``: measure, print the table, and write what the documentation shows."""

from __future__ import annotations

import argparse
import pathlib
import tempfile

from tests.benchmarks.report import write
from tests.benchmarks.run import CONTENDERS, WORKLOADS, measure
from tests.benchmarks.scaling import measure_lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is run")
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, with commas between them")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="the same for contenders")
    parser.add_argument("--no-scaling", action="store_true", help="leave the lines of the scaling out")
    parser.add_argument(
        "--to", type=pathlib.Path, help="directory for table and plots, such as docs/performance"
    )
    options = parser.parse_args()
    names = options.only.split(",")
    results = measure(names, options.rounds, options.contenders.split(","))
    scaling = {} if options.no_scaling else measure_lines(max(1, options.rounds // 2))
    with tempfile.TemporaryDirectory() as nowhere:
        print(write(results, names, options.rounds, scaling, options.to or pathlib.Path(nowhere)))


if __name__ == "__main__":
    main()

"""``python -m tests.benchmarks``: measure, print the table, and write what the documentation shows."""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Callable, Iterable

from tests.benchmarks.report import write
from tests.benchmarks.run import CONTENDERS, WORKLOADS, measure
from tests.benchmarks.scaling import measure_lines


def names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what reads names with commas between them, and refuses those that are not known."""
    choices = list(known)

    def read(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; choose from {', '.join(choices)}")
        return names

    return read


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is run")
    parser.add_argument(
        "--only",
        type=names_of(WORKLOADS),
        default=list(WORKLOADS),
        help="workloads, with commas between them",
    )
    parser.add_argument(
        "--contenders", type=names_of(CONTENDERS), default=list(CONTENDERS), help="the same for contenders"
    )
    parser.add_argument("--no-scaling", action="store_true", help="leave the lines of the scaling out")
    parser.add_argument(
        "--to", type=pathlib.Path, help="directory for table and plots, such as docs/performance"
    )
    options = parser.parse_args()
    results = measure(options.only, options.rounds, options.contenders)
    scaling = {} if options.no_scaling else measure_lines(max(1, options.rounds // 2))
    with tempfile.TemporaryDirectory() as nowhere:
        print(write(results, options.only, options.rounds, scaling, options.to or pathlib.Path(nowhere)))


if __name__ == "__main__":
    main()

"""The arguments of the demo agent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import trio

from trio_acp import __version__
from trio_acp.agent import FileSessionStore, MemorySessionStore

from ._app import DEFAULT_PACE, create_app

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the demo agent on stdin and stdout until stdin ends; return the exit status.

    Args:
        argv: the arguments, without the program's name; None for those of the process.

    Raises:
        SystemExit: with status 2 when the arguments make no sense, with 0 after ``--help``.
    """
    parser = argparse.ArgumentParser(
        prog="python -m trio_acp.demo",
        description="A demo agent without a model: serves the Agent Client Protocol on stdin and stdout.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--store", metavar="DIR", help="keep sessions in this directory (default: in memory)")
    parser.add_argument(
        "--pace",
        metavar="SECONDS",
        type=_pace,
        default=DEFAULT_PACE,
        help=f"pause between the words of an answer (default: {DEFAULT_PACE})",
    )
    arguments = parser.parse_args(argv)
    if sys.stdin is not None and sys.stdin.isatty():
        print(  # noqa: T201 - stdout is not served yet, and this goes to stderr
            "This is an agent: it talks JSON on stdin and stdout. Try: trio-acp prompt help", file=sys.stderr
        )
    store = MemorySessionStore() if arguments.store is None else FileSessionStore(arguments.store)
    try:
        trio.run(create_app(store, pace=arguments.pace).serve_stdio)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"trio_acp.demo: {error.strerror}", file=sys.stderr)  # noqa: T201 - nothing is served any more
        return 1
    return 0


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = -1.0
    if not 0 <= pace <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 60")
    return pace

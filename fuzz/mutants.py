"""Deliberate bugs, one at a time, and who finds them: ``python -m fuzz.mutants [NAME ...]``.

Each bug is a replacement in one file of a copy of the tree. The fuzzers run on it, then the part of the test suite
that answers for that file. A bug counts as found when a test fails, or does not come to its end in time.
Before that both have to pass on the tree as it is. The exit status is 1 when the suite misses a bug, or the
fuzzers miss more than they may.
"""

# ruff: noqa: E501 - what is replaced is quoted as it stands.
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
FUZZERS_MUST_FIND = 25
SECONDS = 240.0
"""For one run of the fuzzers, or of the part of the suite; more is a hang, and found."""

SUITE = {
    "_core": ["tests/core", "tests/peer"],
    "_outbox.py": ["tests/peer"],
    "_peer.py": ["tests/peer"],
    "_incoming.py": ["tests/peer"],
    "client": [
        "tests/client/test_turn.py",
        "tests/client/test_cancel.py",
        "tests/client/test_permission.py",
        "tests/client/test_outcome.py",
        "tests/client/test_services.py",
        "tests/client/test_snapshots.py",
    ],
    "agent": ["tests/agent"],
}
"""What answers for which part of the package."""

FUZZERS = ["fuzz", "tests/core/test_properties.py"]


class Mutant(NamedTuple):
    """A bug: what it is, where, and the replacement that makes it."""

    name: str
    file: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        "a last line without newline is lost",
        "_core/_framing.py",
        'return rest + b"\\n" if rest else None',
        "return None",
    ),
    Mutant("half a frame is forgotten", "_core/_framing.py", "if lines and held:", "if lines and held > 9:"),
    Mutant(
        "a message may be twice too long",
        "_core/_framing.py",
        "len(data) > self._max:",
        "len(data) > 2 * self._max:",
    ),
    Mutant(
        "true is taken for the id 1",
        "_core/_connection.py",
        "if id.__class__ is int:\n            request =",
        "if isinstance(id, int):\n            request =",
    ),
    Mutant(
        "a bool may be an id",
        "_core/_connection.py",
        "value.__class__ is str or value.__class__ is int",
        "isinstance(value, (str, int))",
    ),
    Mutant(
        "answers have their id as text",
        "_core/_connection.py",
        '"id": request.id, key: value',
        '"id": str(request.id), key: value',
    ),
    Mutant(
        "ids are used again",
        "_core/_connection.py",
        "self._ids = itertools.count(1)",
        "self._ids = itertools.cycle(range(1, 4))",
    ),
    Mutant(
        "what was given up is forgotten",
        "_core/_connection.py",
        "self._given_up[request.id] = request",
        "pass",
    ),
    Mutant(
        "late answers are no news",
        "_core/_connection.py",
        "late = request.state is RequestState.CANCELLING",
        "late = False",
    ),
    Mutant(
        "a request is withdrawn twice",
        "_core/_connection.py",
        "if request.state is RequestState.CANCELLING:\n            return MessageDropped",
        "if False:\n            return MessageDropped",
    ),
    Mutant(
        "a request may be answered twice",
        "_core/_state.py",
        "(RequestState.LOST, RequestEvent.CANCEL): RequestState.LOST,",
        "(RequestState.LOST, RequestEvent.CANCEL): RequestState.LOST,\n    (RequestState.ANSWERED, RequestEvent.ANSWER): RequestState.ANSWERED,",
    ),
    Mutant(
        "the end loses all but the first request",
        "_core/_connection.py",
        "lost = list(self._outbound.values())",
        "lost = list(self._outbound.values())[:1]",
    ),
    Mutant(
        "an id in use is taken again",
        "_core/_connection.py",
        "if is_request and id in self._inbound:",
        "if False:",
    ),
    Mutant(
        "result and error together are fine",
        "_core/_connection.py",
        "if result is not _MISSING and result is not None:",
        "if False:",
    ),
    Mutant(
        "junk is counted for ever",
        "_core/_connection.py",
        "        self.junk_in_a_row = 0\n        self.messages_received += 1\n        name =",
        "        self.messages_received += 1\n        name =",
    ),
    Mutant(
        "error answers are dropped",
        "_peer.py",
        "_tell(request, event.result, event.error)",
        "_tell(request, event.result, event.error) if event.error is None else None",
    ),
    Mutant(
        "a part is written twice",
        "_outbox.py",
        "frames.appendleft(memoryview(batch)[sent:])",
        "frames.appendleft(memoryview(batch))",
    ),
    Mutant(
        "frames overtake each other",
        "_outbox.py",
        "first = self._frames.popleft()",
        "first = self._frames.pop()",
    ),
    Mutant(
        "$/cancel_request is not sent",
        "_peer.py",
        "frame = self._core.give_up(request)\n",
        "self._core.give_up(request)\n        frame = None\n",
    ),
    Mutant("nobody is told of the end", "_peer.py", "self._fail_waiting(lost, self._reason)", "pass"),
    Mutant(
        "exceptions are told to the peer",
        "_incoming.py",
        'return InternalError("internal error")',
        "return InternalError(str(error))",
    ),
    Mutant(
        "a handler that fails is not answered",
        "_incoming.py",
        "if self.open:\n            # What breaks",
        "if self.cancelled:\n            # What breaks",
    ),
    Mutant(
        "session/cancel is not sent",
        "client/_running.py",
        'self.host.tell(SESSION_CANCEL, {"sessionId": self.session_id})',
        "pass",
    ),
    Mutant(
        "session/cancel is sent twice",
        "client/_running.py",
        "if self.cancel_requested or self.over.is_set():",
        "if self.over.is_set():",
    ),
    Mutant(
        "permissions stay open at a cancel",
        "client/_running.py",
        "for permission in list(self._permissions):\n            permission.cancel()\n        self._wake",
        "for permission in list(self._permissions):\n            pass\n        self._wake",
    ),
    Mutant(
        "a permission is answered twice",
        "client/_permission.py",
        "if not self.open:\n            return\n        given",
        "if False:\n            return\n        given",
    ),
    Mutant(
        "a reject is consent",
        "client/_permission.py",
        "chosen = self.request.first_reject()",
        "chosen = self.request.first_allow()",
    ),
    Mutant(
        "an option is selected that was not offered",
        "client/_permission.py",
        '"optionId": chosen.option_id',
        '"optionId": chosen.name',
    ),
    Mutant(
        "an update in five is lost",
        "client/_connection.py",
        "            if not turn.buffer.put(update, size):",
        "            if size % 5 and not turn.buffer.put(update, size):",
    ),
    Mutant(
        "an update is delivered twice",
        "client/_connection.py",
        "            if not turn.buffer.put(update, size):",
        "            if not turn.buffer.put(update, size) or not turn.buffer.put(update, size):",
    ),
    Mutant(
        "every error is a normal end",
        "client/_running.py",
        "if self.cancel_requested and isinstance(error,",
        "if isinstance(error,",
    ),
    Mutant("the buffer never ends", "client/_running.py", "        self.buffer.finish()", "        pass"),
    Mutant(
        "the grace is not shielded",
        "client/_running.py",
        "self.host.options.cancel_grace, shield=True",
        "self.host.options.cancel_grace",
    ),
    Mutant(
        "permission deadlines pass unseen",
        "client/_running.py",
        "if now >= permission.deadline:",
        "if now >= permission.deadline + 9e9:",
    ),
    Mutant(
        "unknown requests stay unanswered",
        "client/_connection.py",
        'incoming.refuse(MethodNotFound(f"this client does not offer {incoming.method}"))',
        "pass",
    ),
    Mutant(
        "a late answer ends the next turn",
        "client/_connection.py",
        "        self._live.pop(turn, None)\n",
        "        self._live.pop(turn, None)\n        turn = next(iter(self._live), turn)\n",
    ),
    Mutant(
        "a cancelled turn ends in an error",
        "agent/_turns.py",
        "        if cancelled:\n",
        "        if cancelled and error is None:\n",
    ),
    Mutant(
        "a cancelled turn ends as if it were not",
        "agent/_turns.py",
        "if not self.cancel_requested:\n                    answer = self._read(result)",
        "if True:\n                    answer = self._read(result)",
    ),
    Mutant(
        "a turn is answered twice", "agent/_turns.py", "        if self._answered:\n            return\n", ""
    ),
    Mutant(
        "a session stays busy", "agent/_turns.py", "            self.live.turn = None\n", "            pass\n"
    ),
    Mutant("a cancel does not reach the handler", "agent/_turns.py", "        self._lane.cancel()\n", ""),
]


def copy_tree(target: pathlib.Path) -> None:
    """Copy what is needed to run the tests."""
    for name in ("trio_acp", "tests", "fuzz"):
        shutil.copytree(
            ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
        )
    for name in ("pyproject.toml", "pytest_trio_acp.py"):
        shutil.copy(ROOT / name, target)


def finds(tree: pathlib.Path, paths: list[str], examples: int) -> str:
    """Run tests and say how they found a bug; empty if they did not."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *paths]
    environment = {
        **os.environ,
        "FUZZ_EXAMPLES": str(examples),
        "FUZZ_SHRINK": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # A hang is found by Trio's clocks, and by the suite's own guard; this is the last resort.
    process = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "hang"
    if process.returncode == 0:
        return ""
    failed = [
        line.split()[1]
        for line in output.splitlines()
        if line.startswith(("FAILED ", "ERROR fuzz/", "ERROR tests/"))
    ]
    return failed[0].rpartition("::")[2][:60] if failed else "error"


def part_of(mutant: Mutant) -> str:
    """Return the part of the package that a bug is in."""
    return mutant.file.partition("/")[0]


def main() -> int:
    """Try the bugs, write a table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only bugs with one of these words in their names")
    parser.add_argument("--examples", type=int, default=100, help="examples of each fuzzer (default: 100)")
    arguments = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if not arguments.names or any(name in mutant.name for name in arguments.names)
    ]
    with tempfile.TemporaryDirectory() as directory:
        tree = pathlib.Path(directory)
        copy_tree(tree)
        suites = sorted({path for mutant in chosen for path in SUITE[part_of(mutant)]})
        found = finds(tree, [*FUZZERS, *suites], arguments.examples)
        if found:
            print(f"the tree fails as it is: {found}")
            return 2
    by_fuzz = by_suite = 0
    for number, mutant in enumerate(chosen, start=1):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            tree = pathlib.Path(directory)
            copy_tree(tree)
            file = tree / "trio_acp" / mutant.file
            source = file.read_text(encoding="utf-8")
            if source.count(mutant.old) < 1:
                print(f"{number:2} {mutant.name}: its place is gone from {mutant.file}")
                return 2
            file.write_text(source.replace(mutant.old, mutant.new, 1), encoding="utf-8")
            fuzz = finds(tree, FUZZERS, arguments.examples)
            suite = finds(tree, SUITE[part_of(mutant)], arguments.examples)
        by_fuzz += bool(fuzz)
        by_suite += bool(suite)
        seconds = time.monotonic() - start
        print(
            f"{number:2} | {mutant.name} | {fuzz or 'MISSED'} | {suite or 'MISSED'} | {seconds:.0f} s",
            flush=True,
        )
    print(f"{len(chosen)} bugs: the suite found {by_suite}, the fuzzers alone {by_fuzz}")
    wanted = min(FUZZERS_MUST_FIND, len(chosen)) if not arguments.names else 0
    return 0 if by_suite == len(chosen) and by_fuzz >= wanted else 1


if __name__ == "__main__":
    sys.exit(main())

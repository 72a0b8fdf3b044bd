"""Measuring: every contender in every round, one after the other, on one core, with its peer on the other."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from typing import IO, Any, Final, TypeAlias

import attrs

from tests.benchmarks.probe import writer_command
from tests.benchmarks.workloads import W4_BYTES, digest, updates

__all__ = ["CONTENDERS", "WORKLOADS", "Results", "Sample", "Workload", "measure", "run_client"]

HERE: Final = pathlib.Path(__file__).parent
ROOT: Final = HERE.parents[1]
SDK: Final = "node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"
NODE_SDK: Final = pathlib.Path(os.environ.get("BENCHMARK_NODE", ROOT / "tests" / "interop" / "node")) / SDK

CONTENDERS: Final = ("trio_acp", "sdk", "node", "read", "split", "decode", "trio")
"""This library, the official Python SDK, the official TypeScript SDK, and the limits."""

LIMIT_SECONDS: Final = 300.0
"""A contender that takes longer hangs."""


@attrs.frozen
class Workload:
    """One kind of work.

    Attributes:
        name: W1 and so on.
        title: what it is.
        unit: what one unit of it is.
        units: how many of these are measured in one run.
        job: what the contender is told; see `writer.py` for the orders in it.
        contenders: who takes part.
        goal: how many times less CPU than the official Python SDK is the goal.
    """

    name: str
    title: str
    unit: str
    units: int
    job: dict[str, Any]
    contenders: tuple[str, ...]
    goal: float | None = None


@attrs.frozen
class Sample:
    """One run of one contender.

    Attributes:
        cpu: seconds for one unit.
        memory: bytes, how far the peak rose during the work; for imports the peak.
        complete: all updates had been delivered when the prompt returned.
        problem: why there is no result.
    """

    cpu: float = 0.0
    memory: int = 0
    complete: bool = True
    problem: str = ""


Results: TypeAlias = dict[tuple[str, str], list[Sample]]
"""Samples by workload and contender, in the order of the rounds."""

STREAMS: Final = ("trio_acp", "sdk", "node", "read", "split", "decode")


def _stream(
    name: str, title: str, work: str, count: int, *, sessions: int = 1, goal: float | None = None, **more: Any
) -> Workload:
    order = {"work": work, "count": count, "sessions": sessions, **more}
    small = {"work": work if work != "permission" else "chunks", "sessions": sessions}
    job = {
        "sessions": sessions,
        "order": order,
        "warm": {**order, "count": max(1, count // 10)} if "size" not in more else {**small, "count": 100},
        "check": {**small, "count": 400 // min(sessions, 20)},
    }
    unit = "request" if work == "permission" else "update"
    return Workload(name, title, unit, count * sessions, job, STREAMS, goal)


WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        _stream("W1", "stream of 200-byte chunks", "chunks", 20000, goal=5),
        _stream("W2", "mix of a working turn", "mix", 16000, goal=3.5),
        attrs.evolve(
            _stream("W3", "permission round trip", "permission", 3000, goal=1.4),
            contenders=("trio_acp", "sdk", "node", "decode", "trio"),
        ),
        attrs.evolve(
            _stream("W3p", "the same, decided by a plain function", "permission", 3000, plain=True),
            contenders=("trio_acp", "sdk", "node", "decode", "trio"),
        ),
        _stream("W4", "one update of 64 MiB", "chunks", 1, size=W4_BYTES),
        Workload(
            "W5",
            "agent: a turn with 10 updates",
            "turn",
            3000,
            {},
            ("trio_acp", "sdk", "node", "decode", "trio"),
            5,
        ),
        Workload("W6", "import", "import", 1, {}, ("trio_acp", "sdk", "node", "trio")),
        _stream("W7", "200 sessions at once", "chunks", 200, sessions=200, goal=4),
    )
}


# --- Where things run --------------------------------------------------------------------------------


def cores() -> tuple[int, int]:
    """Return the core for the code under test and the one for its peer."""
    available = sorted(os.sched_getaffinity(0))
    return available[0], available[-1]


CODE_CORE, PEER_CORE = cores()


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a contender."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "BENCHMARK_PEER_CORE": str(PEER_CORE),
        "BENCHMARK_NODE_SDK": str(NODE_SDK),
        "BENCHMARK_WRITER": json.dumps(writer_command()),
        **more,
    }


def on_code_core() -> None:
    """Run in the child: bind it to the core of the code under test."""
    os.sched_setaffinity(0, {CODE_CORE})


def script(kind: str, contender: str) -> list[str]:
    """Return the command of a contender.

    Raises:
        FileNotFoundError: what it needs is not installed.
    """
    if contender == "node":
        node = shutil.which("node")
        if node is None or not NODE_SDK.exists():
            raise FileNotFoundError("not installed: npm install --prefix tests/interop/node")
        return [node, str(HERE / "contenders" / f"{kind}_node.mjs")]
    name = contender if contender in ("trio_acp", "sdk", "trio") else "limit"
    return [sys.executable, str(HERE / "contenders" / f"{kind}_{name}.py")]


# --- Clients ----------------------------------------------------------------------------------------


def run_client(workload: Workload, contender: str) -> Sample:
    """Run one contender as the client, and check what it received."""
    job = dict(workload.job, limit=contender)
    asked = job["order"]["work"] == "permission"
    sessions = job["sessions"]
    job["expected"] = 0 if asked else workload.units
    job["expected_check"] = job["check"]["count"] * sessions
    done = subprocess.run(
        script("client", contender),
        env=environment(BENCHMARK_JOB=json.dumps(job)),
        preexec_fn=on_code_core,
        capture_output=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no word"]
        # Python says it in the last line, Node before a stack of calls. That the scripted agent then has
        # nobody to write to is no news.
        word = next((line for line in said if "Error: " in line and "BrokenPipe" not in line), said[-1])
        return Sample(problem=f"fails: {word.strip()[:160]}")
    result = json.loads(done.stdout.splitlines()[-1])
    if contender in ("trio_acp", "sdk", "node"):
        expected = digest(updates(job["check"]))
        wrong = [name for name in range(sessions) if result["digests"].get(f"session-{name}") != expected]
        if wrong:
            return Sample(problem=f"received something else in {len(wrong)} of {sessions} sessions")
    return Sample(
        cpu=result["cpu"] / workload.units,
        memory=max(0, result["peak"] - result["peak_before"]),
        complete=result["delivered"] == job["expected"],
    )


# --- Agents ------------------------------------------------------------------------------------------


def process_clock(pid: int) -> float:
    """Return the seconds of CPU that all threads of a process have used (Linux)."""
    return time.clock_gettime((~pid << 3) | 2)


class Agent:
    """An agent at the other end of two pipes, driven by blocking reads and writes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout
        self._last_id = 0

    def ask(self, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Send a request; return all messages up to its answer."""
        return [json.loads(line) for line in self.ask_raw(method, params)]

    def ask_raw(self, method: str, params: dict[str, Any]) -> list[bytes]:
        """Do the same without decoding."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._in.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        self._in.flush()
        lines: list[bytes] = []
        while True:
            line = self._out.readline()
            if not line:
                raise EOFError("the agent has gone")
            lines.append(line)
            if b'"method":' not in line:
                return lines


@contextlib.contextmanager
def running(command: list[str]) -> Generator[subprocess.Popen[bytes]]:
    """Start an agent; kill it at the end, if it does not end by itself."""
    process = subprocess.Popen(
        command,
        env=environment(),
        preexec_fn=on_code_core,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run_agent(workload: Workload, contender: str) -> Sample:
    """Run one contender as the agent: turns in a row, each with ten updates that are checked."""
    with running(script("agent", contender)) as process:
        agent = Agent(process)
        agent.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = agent.ask("session/new", {"cwd": "/", "mcpServers": []})[-1]["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        texts = [f"{number:08d} ".ljust(60, "x") for number in range(10)]
        for _ in range(100):
            *told, answer = agent.ask("session/prompt", prompt)
            said = [message["params"]["update"]["content"]["text"] for message in told]
            if said != texts or answer["result"]["stopReason"] != "end_turn":
                return Sample(problem="says something else")
        before = process_clock(process.pid)
        counts = [len(agent.ask_raw("session/prompt", prompt)) for _ in range(workload.units)]
        cpu = process_clock(process.pid) - before
    if set(counts) != {11}:
        return Sample(problem="says something else")
    return Sample(cpu=cpu / workload.units)


# --- Imports -----------------------------------------------------------------------------------------

_IMPORTS: Final = {"trio_acp": "from trio_acp import open_acp", "sdk": "import acp", "trio": "import trio"}
_PEAK: Final = "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"


def run_import(contender: str) -> Sample:
    """Start a process that does nothing but import what a host needs; includes the interpreter's start."""
    if contender == "node":
        node = script("client", contender)[0]
        code = (
            "await import(require('url').pathToFileURL(process.env.BENCHMARK_NODE_SDK));"
            "console.log(/VmHWM:\\s+(\\d+)/.exec(require('fs').readFileSync('/proc/self/status', 'utf8'))[1])"
        )
        command = [node, "-e", f"(async () => {{{code}}})()"]
    else:
        command = [sys.executable, "-c", f"{_IMPORTS[contender]}\n{_PEAK}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, env=environment(), preexec_fn=on_code_core, stdout=subprocess.PIPE, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(cpu=cpu, memory=int(done.stdout) * 1024)


# --- Rounds ------------------------------------------------------------------------------------------


def run_one(workload: Workload, contender: str) -> Sample:
    """Run one contender once."""
    try:
        if workload.name == "W5":
            return run_agent(workload, contender)
        if workload.name == "W6":
            return run_import(contender)
        return run_client(workload, contender)
    except FileNotFoundError as error:
        return Sample(problem=str(error))


def measure(names: Iterable[str], rounds: int, only: Iterable[str] = CONTENDERS) -> Results:
    """Run everything ``rounds`` times, interleaved: load from outside hits all contenders alike."""
    os.sched_setaffinity(0, {PEER_CORE})
    # An installed package has its bytecode beside it, as the packages of the other contenders do.
    compileall.compile_dir(ROOT / "trio_acp", quiet=2)
    results: Results = {}
    wanted = set(only)
    for round in range(rounds):
        for name in names:
            workload = WORKLOADS[name]
            for contender in workload.contenders:
                if contender in wanted:
                    sample = run_one(workload, contender)
                    results.setdefault((name, contender), []).append(sample)
                    shown = sample.problem or f"{sample.cpu * 1e6:10.2f} us {sample.memory / 2**20:7.1f} MiB"
                    print(f"round {round + 1} {name} {contender:9} {shown}", file=sys.stderr, flush=True)
    return results


def cost(results: Results, workload: str, contender: str) -> float | None:
    """Return the median cost of a unit in seconds, None where there is no result."""
    samples = results.get((workload, contender), [])
    if not samples or any(sample.problem for sample in samples):
        return None
    return statistics.median(sample.cpu for sample in samples)


def ratio(results: Results, workload: str, contender: str) -> float | None:
    """Return how many times as much a contender takes as this library: the median over the rounds."""
    ours, theirs = results.get((workload, "trio_acp"), []), results.get((workload, contender), [])
    if not ours or not theirs or any(sample.problem for sample in (*ours, *theirs)):
        return None
    return statistics.median(b.cpu / a.cpu for a, b in zip(ours, theirs, strict=True))

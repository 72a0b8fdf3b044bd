"""Every check of the project, one session each: `nox -l` lists them, `nox` runs the default ones.

`bash .ci/run` runs all of them in the order in which a mistake is cheapest to find.
"""

from __future__ import annotations

import pathlib
import shutil

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "typing", "coverage"]
nox.options.error_on_missing_interpreters = True

PYTHONS = ["3.11", "3.12", "3.13"]
PROJECT = nox.project.load_toml("pyproject.toml")
CODE = ["trio_acp", "pytest_trio_acp.py", "tests", "fuzz", "examples", "noxfile.py"]
# What ruff's ASYNC rules lack: 1xx (nurseries, checkpoints), 2xx (blocking calls), 300, 4xx (exception
# groups), 900 (async generators with scopes), 913 (a loop without a checkpoint).
# 910, 911 and 912 want a checkpoint on every path: the library bends that rule where its documents say so.
ASYNC_RULES = "ASYNC1,ASYNC2,ASYNC300,ASYNC4,ASYNC900,ASYNC913"
# Tests clean up with calls that shield themselves, block on small files, have coroutines without awaits, and
# do on purpose what a program must not do.
ASYNC_NOT_IN_TESTS = (
    "ASYNC102,ASYNC103,ASYNC104,ASYNC110,ASYNC111,ASYNC112,ASYNC113,ASYNC114,ASYNC124,ASYNC128,ASYNC2,"
    "ASYNC121,ASYNC401,ASYNC913"
)
# The handlers of an application are async functions, also where they have nothing to wait for.
ASYNC_NOT_IN_EXAMPLES = "ASYNC124"
# Our functions that report through `task_status`: ASYNC113 catches a `start_soon` of them in `__aenter__`.
STARTABLE = "run,serve"


def group(*names: str) -> list[str]:
    """The requirements of dependency groups of pyproject.toml."""
    return list(nox.project.dependency_groups(PROJECT, *names))


def existing(*paths: str) -> list[str]:
    """The given paths that are in this tree (an sdist has not all of them)."""
    return [path for path in paths if pathlib.Path(path).exists()]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The test suite on each supported Python. Arguments go to pytest, `-n auto` uses every core."""
    session.install("-e", ".[cli]", *group("test", "parallel"))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """The test suite again, with branch coverage that must be 100 %, child processes counted.

    Without the slow tests: they repeat what others show, at a scale that tracing would make unbearable.
    """
    session.install("-e", ".[cli]", *group("test", "parallel"))
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "-q", "-n", "auto", "-m", "not slow", *session.posargs)
    session.run("coverage", "combine", "-q")
    session.run("coverage", "report")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and structured-concurrency rules."""
    session.install(*group("lint"))
    session.run("ruff", "check", *existing(*CODE))
    session.run("ruff", "format", "--check", *existing(*CODE))
    session.run(
        "flake8",
        f"--select={ASYNC_RULES}",
        f"--enable={ASYNC_RULES}",
        f"--startable-in-context-manager={STARTABLE}",
        f"--per-file-ignores=tests/*:{ASYNC_NOT_IN_TESTS} examples/*:{ASYNC_NOT_IN_EXAMPLES}",
        *existing(*CODE),
    )


@nox.session
def typing(session: nox.Session) -> None:
    """mypy on three platforms, pyright, and that every public name is typed and documented for tools.

    trio-typing must not be in this environment: its stubs would shadow Trio's own types.
    """
    session.install("-e", ".[cli]", *group("test", "typing", "interop"))
    for platform in ("linux", "darwin", "win32"):
        session.run("mypy", "--platform", platform, "trio_acp", "pytest_trio_acp.py")
    session.run("mypy", *existing("tests", "fuzz", "examples"))
    session.run("pyright")
    session.run("pyright", "--verifytypes", "trio_acp", "--ignoreexternal")


@nox.session
def compat(session: nox.Session) -> None:
    """An application that has trio-typing installed can use this library."""
    session.install(".[cli]", *group("test", "compat"))
    session.run("python", "-m", "pytest", "-q", "tests/compat", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Real turns with the official SDKs as peers. The Node one is used where npm is found."""
    session.install("-e", ".[cli]", *group("test", "interop"))
    npm = shutil.which("npm")
    if npm is None:
        session.log("there is no npm here: the tests with the TypeScript SDK will be skipped")
    else:
        # Into an ignored directory, without a lock file: that would name the registry of one machine.
        session.run(npm, "install", "--prefix", "tests/interop/node", external=True)
    session.run("python", "-m", "pytest", "-q", "-m", "interop", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Random bytes against the protocol core. `nox -s fuzz -- --seconds 600` for a long run."""
    session.install("-e", ".[cli]", *group("test"))
    session.run("python", "-m", "fuzz", *(session.posargs or ["--seconds", "20"]))


@nox.session
def mutants(session: nox.Session) -> None:
    """Deliberate bugs, one at a time: the suite has to find each of them, the fuzzers most. Takes long."""
    session.install("-e", ".[cli]", *group("test"))
    session.run("python", "-m", "fuzz.mutants", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """This library beside the official SDKs. `-- --to docs/performance` renews what the page shows."""
    session.install(".[cli]", *group("interop"), "orjson")
    npm = shutil.which("npm")
    if npm is None:
        session.log("there is no npm here: the TypeScript SDK will be left out")
    else:
        session.run(npm, "install", "--prefix", "tests/interop/node", external=True)
    session.run("python", "-m", "tests.benchmarks", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, with warnings as errors."""
    session.install("-e", ".[cli]", *group("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html")

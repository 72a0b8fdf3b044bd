"""The pages of docs/ agree with the code: names, numbers, methods, snippets."""

from __future__ import annotations

import ast
import csv
import functools
import importlib
import pathlib
import re
import typing
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

import trio_acp
import trio_acp.agent
import trio_acp.client
import trio_acp.model
import trio_acp.schema
import trio_acp.testing
import trio_acp.testing.conformance
import trio_acp.testing.strategies
import trio_acp.transports
import trio_acp.workspace
from trio_acp.schema import METHODS, AgentCapabilities, ClientCapabilities, SessionUpdate, WireObject

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.rst")}


# --- Code in the pages --------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_piece_of_code_is_a_file_that_a_test_runs(page: str) -> None:
    text = PAGES[page]
    assert not re.search(r"code-block:: (?!console)", text)
    # A paragraph that ends in a double colon begins a literal block; a directive does not end so.
    literal = [line for line in text.splitlines() if line.endswith("::") and not line.startswith("..")]
    assert literal == []
    for included in re.findall(r"literalinclude:: (\S+)", text):
        target = (DOCS / page).parent / included
        assert target.resolve().parent == ROOT / "examples", f"{included} is not among the tested examples"


# --- Names --------------------------------------------------------------------------------------------


def documented_names() -> set[str]:
    """What the reference documents: by a directive of its own, or in a module that is listed whole."""
    names = set[str]()
    for page, text in PAGES.items():
        if not page.startswith("reference/"):
            continue
        names |= set(re.findall(r"^\.\. (?:auto\w+|data):: (\w+)$", text, re.MULTILINE))
        for module in re.findall(r"automodule:: (\S+)\n   :members:", text):
            names |= set(importlib.import_module(module).__all__)
    return names


@pytest.mark.parametrize(
    "module",
    [
        trio_acp,
        trio_acp.client,
        trio_acp.agent,
        trio_acp.model,
        trio_acp.schema,
        trio_acp.testing,
        trio_acp.testing.conformance,
        trio_acp.testing.strategies,
        trio_acp.transports,
        trio_acp.workspace,
    ],
)
def test_the_reference_has_every_public_name(module: Any) -> None:
    assert sorted(set(module.__all__) - documented_names() - {"__version__"}) == []


# --- Numbers ------------------------------------------------------------------------------------------

UNITS = {"": 1, "s": 1, "KiB": 1024, "MiB": 1024 * 1024}
ROOMS = {
    "_core": "core",
    "_outbox": "connection",
    "_peer": "connection",
    "_pacing": "connection",
    "_lanes": "connection",
    "_errors": "errors",
    "_extension_values": "errors",
}
"""What the page calls the private parts of the library; public packages have their own names."""
LAYERS = {"core", "connection", "errors", "schema", "transports", "client", "agent", "model", "workspace"}
"""The parts whose limits the page lists; programs on top of them have limits of their own taste."""
NOT_A_LIMIT = {"STDIN", "STDOUT", "STDERR", "VERSION", "PROTOCOL_VERSION"}


def bounds_in_the_page() -> list[dict[str, str]]:
    with open(DOCS / "bounds.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def assigned_names(source: str) -> Iterator[str]:
    """Names in capitals that are assigned at module level."""
    for node in ast.parse(source).body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Assign):
            targets = node.targets
        for target in targets:
            if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]*", target.id):
                yield target.id


@functools.cache
def numbers_in_the_library() -> dict[tuple[str, str], float]:
    """Numeric constants at module level, by where they are and their names."""
    found: dict[tuple[str, str], float] = {}
    for path in (ROOT / "trio_acp").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        room = ROOMS.get(parts[1], parts[1])
        if room not in LAYERS or parts[-1] == "_windows":
            continue
        for name in assigned_names(path.read_text(encoding="utf-8")):
            value = getattr(importlib.import_module(".".join(parts)), name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in NOT_A_LIMIT:
                found[room, name] = value
    return found


@pytest.mark.parametrize("row", bounds_in_the_page(), ids=lambda row: f"{row['Where']}-{row['Name']}")
def test_a_limit_has_the_value_that_the_page_gives(row: dict[str, str]) -> None:
    number, _, unit = row["Value"].partition(" ")
    assert float(number) * UNITS[unit] == numbers_in_the_library()[row["Where"], row["Name"]]


def test_every_limit_in_the_library_is_in_the_page() -> None:
    listed = {(row["Where"], row["Name"]) for row in bounds_in_the_page()}
    assert sorted(numbers_in_the_library().keys() - listed) == [], "add it to docs/bounds.csv"


def test_the_sums_on_the_page_are_made_of_the_limits() -> None:
    def mebibytes(room: str, name: str) -> int:
        return int(numbers_in_the_library()[room, name]) // UNITS["MiB"]

    message = 3 * mebibytes("core", "DEFAULT_MAX_MESSAGE_BYTES")
    backlog, early = mebibytes("client", "BACKLOG_BYTES"), mebibytes("client", "EARLY_BYTES")
    unread = mebibytes("connection", "OUTBOX_HARD_BYTES")
    turn = mebibytes("client", "DEFAULT_MAX_BUFFERED_BYTES")
    page = " ".join(PAGES["memory.rst"].split())
    parts = [message, backlog, early, backlog, unread]
    assert f"{' + '.join(map(str, parts))} MiB for the connection and {turn + backlog} MiB for each" in page
    assert f"bounded by {sum(parts)} + 100 × {1 + backlog} MiB" in page
    assert f"Output that the agent does not read - {unread} MiB" in page


# --- The protocol -------------------------------------------------------------------------------------

COVERAGE = PAGES["coverage.rst"]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_table_of_methods_has_every_method(method: str) -> None:
    assert f"* - ``{method}``" in COVERAGE


@pytest.mark.parametrize(
    "kind", [kind for kind in typing.get_args(SessionUpdate) if kind.__name__ != "UnknownVariant"]
)
def test_the_table_of_updates_has_every_update(kind: type[Any]) -> None:
    assert f"* - ``{kind.session_update}``\n     - `{kind.__name__}`" in COVERAGE


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def leaves(kind: type[WireObject], path: str) -> Iterator[str]:
    """The capabilities that a class of them has, as dotted wire names."""
    hints = typing.get_type_hints(kind)
    for name in [field.name for field in attrs.fields(kind) if field.name not in ("meta", "extra")]:
        parts = typing.get_args(hints[name]) or (hints[name],)
        objects = [part for part in parts if isinstance(part, type) and issubclass(part, WireObject)]
        where = f"{path}{camel(name)}"
        below = [leaf for nested in objects for leaf in leaves(nested, f"{where}.")]
        yield from below or [where]


@pytest.mark.parametrize("capability", [*leaves(ClientCapabilities, ""), *leaves(AgentCapabilities, "")])
def test_the_tables_of_capabilities_have_every_capability(capability: str) -> None:
    assert f"``{capability}``" in COVERAGE

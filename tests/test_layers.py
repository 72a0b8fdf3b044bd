"""Each layer of the package imports only from the layers above it, and from nobody's private parts."""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterator

import pytest

import trio_acp

PACKAGE = pathlib.Path(trio_acp.__file__).parent

LAYERS: list[tuple[str, ...]] = [
    ("schema",),
    ("_core",),
    ("_errors", "_peer"),
    ("transports",),
    ("client", "agent"),
    ("model",),
    ("workspace",),
    ("testing",),
    ("cli", "demo"),
]
"""From the top down. Packages of one layer do not import each other, the modules of the third one may."""

MODULES_OF_ONE_LAYER = {"_errors", "_peer"}

ALLOWED_OUTSIDE: dict[str, set[str]] = {"schema": {"attr", "attrs", "cattrs"}}
"""What else than the standard library a package may import, where that is part of the design."""

FORBIDDEN_OUTSIDE: dict[str, set[str]] = {"_core": {"trio", "outcome", "trio_typing"}}


def parts_of_the_package() -> dict[str, list[pathlib.Path]]:
    """The files of each package and module at the top of `trio_acp`."""
    parts: dict[str, list[pathlib.Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        top = path.relative_to(PACKAGE).parts[0]
        if top != "__init__.py":
            parts.setdefault(top.removesuffix(".py"), []).append(path)
    return parts


PARTS = parts_of_the_package()


def imports(path: pathlib.Path) -> Iterator[tuple[str, ...]]:
    """The absolute dotted names that a file imports, with the names that it takes from them."""
    package = ("trio_acp", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                yield (*module, alias.name)


def layer_of(part: str) -> int | None:
    """The number of a part's layer; None for a part that stands outside of the layers."""
    return next((number for number, parts in enumerate(LAYERS) if part in parts), None)


@pytest.mark.parametrize("part", [part for part in sorted(PARTS) if layer_of(part) is not None])
def test_a_layer_imports_only_from_the_layers_above_it(part: str) -> None:
    own = layer_of(part)
    assert own is not None
    for path in PARTS[part]:
        for name in imports(path):
            if name[0] != "trio_acp":
                continue
            other = name[1]
            if other == part or {part, other} <= MODULES_OF_ONE_LAYER:
                continue
            number = layer_of(other)
            if number is None:
                # A helper at the top level stands where what it uses itself stands.
                number = max((layer_of(each) or 0 for each in top_level_imports(other)), default=0)
                assert number <= own, f"{path}: {'.'.join(name)} stands on a lower layer"
            else:
                assert number < own, f"{path}: {'.'.join(name)} is not above it"


def top_level_imports(part: str) -> set[str]:
    """What a part imports from the rest of the package."""
    return {
        name[1]
        for path in PARTS.get(part, [])
        for name in imports(path)
        if name[0] == "trio_acp" and len(name) > 1 and name[1] != part
    }


@pytest.mark.parametrize("part", sorted(PARTS))
def test_nobody_imports_private_names_of_another_package(part: str) -> None:
    for path in PARTS[part]:
        for name in imports(path):
            if name[0] == "trio_acp" and len(name) > 2 and name[1] != part:
                private = [each for each in name[2:] if each.startswith("_") and not each.endswith("__")]
                assert not private, f"{path}: {'.'.join(name)} is private"


@pytest.mark.parametrize("part", sorted(ALLOWED_OUTSIDE.keys() & PARTS.keys()))
def test_a_layer_imports_only_what_the_design_allows_from_outside(part: str) -> None:
    allowed = ALLOWED_OUTSIDE[part] | sys.stdlib_module_names | {"trio_acp"}
    for path in PARTS[part]:
        for name in imports(path):
            assert name[0] in allowed, f"{path}: {'.'.join(name)}"


@pytest.mark.parametrize("part", sorted(FORBIDDEN_OUTSIDE.keys() & PARTS.keys()))
def test_a_layer_does_not_import_what_the_design_forbids(part: str) -> None:
    for path in PARTS[part]:
        for name in imports(path):
            assert name[0] not in FORBIDDEN_OUTSIDE[part], f"{path}: {'.'.join(name)}"


def test_nobody_imports_trio_typing() -> None:
    for paths in PARTS.values():
        for path in paths:
            assert all(name[0] != "trio_typing" for name in imports(path)), path


def test_the_walk_sees_imports_of_every_kind(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    inner = tmp_path / "client"
    inner.mkdir()
    file = inner / "_x.py"
    file.write_text(
        "import trio.abc\nfrom . import a\nfrom .b import c\nfrom .. import d\nfrom ..e.f import g as h\n"
        "def late():\n    from trio_acp.agent import i\n",
        encoding="utf-8",
    )
    assert set(imports(file)) == {
        ("trio", "abc"),
        ("trio_acp", "client", "a"),
        ("trio_acp", "client", "b", "c"),
        ("trio_acp", "d"),
        ("trio_acp", "e", "f", "g"),
        ("trio_acp", "agent", "i"),
    }

"""The core needs no Trio: by what it imports, and by running without it."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
import textwrap

import pytest

import trio_acp._core

CORE = pathlib.Path(trio_acp._core.__file__).parent
PACKAGE = CORE.parent
ALLOWED = {"orjson", "attrs", "__future__"} | sys.stdlib_module_names
DOES_IO = {
    "asyncio",
    "socket",
    "subprocess",
    "threading",
    "selectors",
    "os",
    "io",
    "time",
    "logging",
    "random",
}


def imported(path: pathlib.Path) -> set[str]:
    """The modules that a file imports, wherever in it; relative imports of its own package left out.

    `io.BytesIO` counts as what it is: bytes in memory, which the package cuts into lines with it.
    """
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                assert node.module is not None
                if [node.module, *(alias.name for alias in node.names)] != ["io", "BytesIO"]:
                    names.add(node.module)
            else:
                assert node.level == 1, f"{path.name} imports from above its package"
    return names


@pytest.mark.parametrize("path", sorted(CORE.glob("*.py")), ids=lambda path: path.stem)
def test_the_core_imports_the_standard_library_its_two_tools_and_the_schema_only(path: pathlib.Path) -> None:
    for name in imported(path):
        assert name.partition(".")[0] in ALLOWED or name == "trio_acp.schema"
        assert name.partition(".")[0] not in DOES_IO


def test_the_core_serves_a_connection_where_trio_cannot_be_imported() -> None:
    program = f"""
        import sys, types
        sys.modules["trio"] = None  # makes every "import trio" fail
        package = types.ModuleType("trio_acp")
        package.__path__ = [{str(PACKAGE)!r}]
        sys.modules["trio_acp"] = package
        from trio_acp._core import Connection
        core = Connection()
        request, frame = core.request("m", {{}})
        (event,) = core.receive(b'{{"id":1,"result":"answered"}}\\n')
        print(event.result, event.request is request)
        try:
            import trio
        except ImportError:
            print("no trio")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["answered True", "no trio"]


def test_all_that_the_core_exports_is_listed_and_there() -> None:
    names = trio_acp._core.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(trio_acp._core, name) is not None

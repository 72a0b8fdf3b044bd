"""Directories become links and come back while an agent reads and writes: nothing outside is touched."""

from __future__ import annotations

import os
import pathlib
import tempfile
import threading
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from fuzz.budget import budget
from trio_acp import AcpError
from trio_acp.client import SessionScope
from trio_acp.schema import ReadTextFileRequest, WriteTextFileRequest
from trio_acp.workspace import Workspace

SECRET = "s3cret"
NAMES = ["a", "a/b", "a/b/f", "f", "link", "link/f", "up", "a/up/f", "../outside/f", "a/../../outside/f"]
CALLS = st.lists(
    st.tuples(st.sampled_from(["read", "write"]), st.sampled_from(NAMES)), min_size=1, max_size=12
)
SWAPS = st.lists(st.sampled_from(["a", "a/b", "f", "link"]), min_size=1, max_size=6)


def build(base: pathlib.Path) -> pathlib.Path:
    root, outside = base / "root", base / "outside"
    for directory in (root / "a" / "b", outside / "b"):
        directory.mkdir(parents=True)
    for path in (outside / "f", outside / "b" / "f"):
        path.write_text(SECRET)
    for path in (root / "f", root / "a" / "f", root / "a" / "b" / "f"):
        path.write_text("inside")
    (root / "link").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "a" / "up").symlink_to("../../outside")
    return root


def swap(root: pathlib.Path, names: list[str], stop: threading.Event) -> None:
    """Make each of the names a link to the outside and back, until told to stop."""
    while True:
        for name in names:
            path, kept = root / name, root / f".kept-{name.replace('/', '-')}"
            try:
                os.rename(path, kept)
                os.symlink(root.parent / "outside" / ("f" if name == "f" else ""), path)
                os.unlink(path)
                os.rename(kept, path)
            except OSError:
                pass  # a directory above it is being swapped, or a write has come between
            if stop.is_set():
                return


def outside(base: pathlib.Path) -> dict[str, Any]:
    found = sorted((base / "outside").rglob("*"))
    return {str(path): path.read_text() if path.is_file() else None for path in found}


@budget(0.3)
@given(CALLS, SWAPS, st.booleans())
def test_nothing_outside_is_read_or_written_whatever_is_swapped(
    calls: list[tuple[str, str]], swaps: list[str], parents: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        base = pathlib.Path(directory).resolve()
        root = build(base)
        before = outside(base)
        stop = threading.Event()
        thread = threading.Thread(target=swap, args=(root, swaps, stop))

        async def play() -> None:
            workspace = Workspace(create_parents=parents)
            session = SessionScope("s", str(root), ())
            for what, name in calls:
                try:
                    if what == "write":
                        await workspace.write(WriteTextFileRequest("s", name, "new"), session)
                    else:
                        text = await workspace.read(ReadTextFileRequest("s", name), session)
                        assert SECRET not in str(text), name
                except AcpError:
                    pass  # refused, or gone at that moment

        thread.start()
        try:
            trio.run(play)
        finally:
            stop.set()
            thread.join()
        assert outside(base) == before

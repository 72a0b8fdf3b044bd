"""The demo agent's own files: those of the session's directory, and no others."""

from __future__ import annotations

import os
import pathlib

import pytest

from trio_acp.demo import _files
from trio_acp.demo._files import (
    Entry,
    FileMissing,
    FileProblem,
    confine,
    list_directory,
    read_text,
    write_text,
)


def test_paths_inside_are_fine_however_they_are_written(tmp_path: pathlib.Path) -> None:
    root = os.path.realpath(tmp_path)
    for path in ("a.txt", "./a.txt", "sub/../a.txt", f"{root}/a.txt"):
        assert confine(path, [str(tmp_path)]) == f"{root}/a.txt"
    assert confine(".", [str(tmp_path)]) == root


def test_other_roots_count_too(tmp_path: pathlib.Path) -> None:
    """S5."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    roots = [str(tmp_path / "one"), str(tmp_path / "two")]
    assert confine(str(tmp_path / "two" / "a"), roots) == os.path.realpath(tmp_path / "two" / "a")


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "sub/../../a", "link/passwd", "dangling", "nul\0"])
def test_paths_that_lead_outside_are_refused(tmp_path: pathlib.Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    (root / "dangling").symlink_to("/no/such/file")
    with pytest.raises(FileProblem):
        confine(path, [str(root)])


def test_a_directory_that_only_begins_like_the_root_is_outside(tmp_path: pathlib.Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root2").mkdir()
    with pytest.raises(FileProblem):
        confine("../root2/a", [str(tmp_path / "root")])


def test_reads_and_writes_text(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.txt")
    write_text(path, "longer than what comes next\n", "a.txt")
    write_text(path, "ü\r\n", "a.txt")
    assert read_text(path, "a.txt") == "ü\r\n"


def test_what_is_not_there_is_told_from_other_problems(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileMissing, match="there is no `a`"):
        read_text(str(tmp_path / "a"), "a")
    with pytest.raises(FileMissing):
        write_text(str(tmp_path / "sub" / "a"), "", "sub/a")


def test_only_regular_files_are_opened_and_none_is_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("pipe", "link", "."):
        with pytest.raises(FileProblem, match="cannot read"):
            read_text(str(tmp_path / name), name)
        with pytest.raises(FileProblem, match="cannot write"):
            write_text(str(tmp_path / name), "x", name)
    assert (tmp_path / "target").read_text() == "secret"


def test_large_files_and_binary_ones_are_not_shown(tmp_path: pathlib.Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (_files.MAX_FILE_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(FileProblem, match="larger than 256 KiB"):
        read_text(str(tmp_path / "large"), "large")
    with pytest.raises(FileProblem, match="not a text file"):
        read_text(str(tmp_path / "binary"), "binary")


def test_a_directory_is_listed_in_order_and_not_for_ever(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("four")
    (tmp_path / "a").symlink_to("nowhere")
    assert list_directory(str(tmp_path)) == ([Entry("a", None), Entry("b.txt", 4), Entry("sub/", None)], 0)
    monkeypatch.setattr(_files, "MAX_LISTED_FILES", 1)
    assert list_directory(str(tmp_path)) == ([Entry("a", None)], 2)
    with pytest.raises(FileProblem, match="No such file"):
        list_directory(str(tmp_path / "nowhere"))

"""What a workspace reads and writes, and how it says no (F1, K1, K5, K7)."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.workspace.scopes import reading, scope, writing
from trio_acp import InternalError, InvalidParams, MethodNotFound, ResourceNotFound
from trio_acp.workspace import Workspace, _files, cut_lines


async def test_a_file_is_read_exactly_as_it_is(tmp_path: pathlib.Path) -> None:
    """F1: line ends, a byte order mark and characters of every width survive."""
    text = "\ufeffone\r\ntwo\rthree\n\nmärz 😀\0end"
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert await Workspace().read(reading(tmp_path / "a.txt"), scope(tmp_path)) == text


async def test_what_was_written_is_read_back_byte_for_byte(tmp_path: pathlib.Path) -> None:
    """F1: writing creates the file and keeps line ends."""
    workspace, session = Workspace(), scope(tmp_path)
    for text in ("", "one\r\ntwo\n", "😀" * 100_000):
        await workspace.write(writing(tmp_path / "a.txt", text), session)
        assert (tmp_path / "a.txt").read_bytes() == text.encode()
        assert await workspace.read(reading("a.txt"), session) == text
    assert os.listdir(tmp_path) == ["a.txt"]


TEXTS = st.lists(st.sampled_from(["a", "bc", "\n", "\r\n", "\r", "\u2028", "\x0b", "😀"])).map("".join)


@given(TEXTS, st.integers(1, 20), st.none() | st.integers(1, 20))
def test_lines_are_what_a_naive_reference_says(text: str, first: int, limit: int | None) -> None:
    """K1: 1-based, an exact substring, empty beyond the end."""
    pieces = text.split("\n")
    lines = [piece + "\n" for piece in pieces[:-1]] + pieces[-1:]
    wanted = "".join(lines[first - 1 :] if limit is None else lines[first - 1 : first - 1 + limit])
    assert cut_lines(text, first, limit) == wanted
    assert wanted in text


async def test_line_and_limit_are_served(tmp_path: pathlib.Path) -> None:
    """F1, K1."""
    (tmp_path / "a").write_bytes(b"1\r\n2\n3")
    workspace, session = Workspace(), scope(tmp_path)
    assert await workspace.read(reading("a", line=2), session) == "2\n3"
    assert await workspace.read(reading("a", limit=1), session) == "1\r\n"
    assert await workspace.read(reading("a", line=3, limit=9), session) == "3"
    assert await workspace.read(reading("a", line=4), session) == ""
    for wrong in ({"line": 0}, {"limit": 0}):
        with pytest.raises(InvalidParams, match="counted from 1"):
            await workspace.read(reading("a", **wrong), session)


async def test_a_missing_file_or_directory_is_told_as_such(tmp_path: pathlib.Path) -> None:
    """K7: -32002."""
    (tmp_path / "file").write_text("x")
    workspace, session = Workspace(), scope(tmp_path)
    for path in ("missing", "missing/file", "file/inner"):
        with pytest.raises(ResourceNotFound):
            await workspace.read(reading(path), session)
    for path in ("missing/file", "file/inner"):
        with pytest.raises(ResourceNotFound):
            await workspace.write(writing(path), session)
    assert os.listdir(tmp_path) == ["file"]


async def test_parents_are_made_on_request_only(tmp_path: pathlib.Path) -> None:
    workspace, session = Workspace(create_parents=True), scope(tmp_path)
    await workspace.write(writing("a/b/c.txt", "x"), session)
    await workspace.write(writing("a/b/d.txt", "y"), session)
    assert (tmp_path / "a/b/c.txt").read_text() == "x"
    with pytest.raises(ResourceNotFound):
        await workspace.write(writing("new/"), session)
    with pytest.raises(ResourceNotFound):
        await workspace.read(reading("other/file"), session)
    assert os.listdir(tmp_path) == ["a"]


async def test_a_directory_is_no_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "dir").mkdir()
    workspace, session = Workspace(), scope(tmp_path)
    for path in ("dir", "dir/", "", ".", "dir/..", "dir/."):
        with pytest.raises(InternalError, match="directory"):
            await workspace.read(reading(path), session)
        with pytest.raises(InternalError, match="directory"):
            await workspace.write(writing(path), session)
    assert os.listdir(tmp_path) == ["dir"]


async def test_a_name_with_a_slash_behind_is_no_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResourceNotFound):
        await Workspace().read(reading("file/"), scope(tmp_path))


async def test_what_is_no_utf_8_is_refused_and_not_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"ok \xff")
    workspace, session = Workspace(), scope(tmp_path)
    with pytest.raises(InvalidParams, match="no text"):
        await workspace.read(reading("a"), session)
    with pytest.raises(InvalidParams, match="cannot be written"):
        await workspace.write(writing("a", "\ud800"), session)
    assert (tmp_path / "a").read_bytes() == b"ok \xff"


class Latin1:
    def decode(self, data: bytes) -> str:
        return data.decode("latin-1")

    def encode(self, text: str) -> bytes:
        return text.encode("latin-1")


async def test_a_codec_reads_and_writes_other_encodings(tmp_path: pathlib.Path) -> None:
    workspace, session = Workspace(codec=Latin1()), scope(tmp_path)
    await workspace.write(writing("a", "für"), session)
    assert (tmp_path / "a").read_bytes() == b"f\xfcr"
    assert await workspace.read(reading("a"), session) == "für"


async def test_a_file_may_have_the_limit_and_no_byte_more(tmp_path: pathlib.Path) -> None:
    """K7: explicit and settable."""
    workspace, session = Workspace(max_file_bytes=10), scope(tmp_path)
    await workspace.write(writing("a", "x" * 10), session)
    assert await workspace.read(reading("a"), session) == "x" * 10
    with pytest.raises(InternalError, match="more than 10 bytes"):
        await workspace.write(writing("a", "é" * 6), session)
    assert (tmp_path / "a").read_text() == "x" * 10
    (tmp_path / "a").write_text("x" * 11)
    with pytest.raises(InternalError, match="more than 10 bytes"):
        await workspace.read(reading("a"), session)


async def test_a_file_that_grows_while_it_is_read_does_not_pass_the_limit(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x" * 11)
    honest = os.fstat

    def before_it_grew(descriptor: int) -> os.stat_result:
        status = list(honest(descriptor))
        status[6] = 5
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", before_it_grew)
    with pytest.raises(InternalError, match="more than 10 bytes"):
        await Workspace(max_file_bytes=10).read(reading("a"), scope(tmp_path))


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755])
async def test_permission_bits_of_a_replaced_file_are_kept_and_no_others(
    tmp_path: pathlib.Path, mode: int
) -> None:
    file = tmp_path / "a"
    file.write_text("old")
    file.chmod(mode)
    await Workspace().write(writing("a", "new"), scope(tmp_path))
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o7777 == mode & 0o777


async def test_a_new_file_gets_the_permissions_of_the_umask(tmp_path: pathlib.Path) -> None:
    before = os.umask(0o027)
    try:
        await Workspace().write(writing("a", "new"), scope(tmp_path))
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


async def test_a_write_protected_file_is_not_replaced(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory would permit it; the file does not."""
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o444)
    if os.geteuid() == 0:
        honest = os.open

        def strict(path: Any, flags: int, *more: Any, **options: Any) -> int:
            # What the system says to everybody but the superuser.
            if path == "a" and flags & os.O_WRONLY:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return honest(path, flags, *more, **options)

        monkeypatch.setattr(os, "open", strict)
        monkeypatch.setattr(os, "supports_dir_fd", {strict})
    with pytest.raises(InternalError, match="Permission denied"):
        await Workspace().write(writing("a", "new"), scope(tmp_path))
    assert (tmp_path / "a").read_text() == "old"


async def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InternalError, match="No space left"):
        await Workspace().write(writing("a", "new"), scope(tmp_path))
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


async def test_a_cancelled_write_has_happened_or_has_not(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, reached, go_on = os.fsync, threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        reached.set()
        assert go_on.wait(30)
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Workspace().write, writing("a", "new"), scope(tmp_path))
        await trio.to_thread.run_sync(reached.wait, 30)
        nursery.cancel_scope.cancel()
        go_on.set()
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "new"


async def test_a_cancelled_read_does_not_wait_for_its_thread(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x")
    honest, reached, go_on, left = os.fstat, threading.Event(), threading.Event(), threading.Event()

    def slow(descriptor: int) -> os.stat_result:
        reached.set()
        assert go_on.wait(30)
        left.set()
        return honest(descriptor)

    monkeypatch.setattr(os, "fstat", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Workspace().read, reading("a"), scope(tmp_path))
        await trio.to_thread.run_sync(reached.wait, 30)
        nursery.cancel_scope.cancel()
    assert not left.is_set()
    go_on.set()
    assert await trio.to_thread.run_sync(left.wait, 30)


async def test_a_read_only_workspace_offers_no_writing_and_refuses_it(tmp_path: pathlib.Path) -> None:
    workspace = Workspace(read_only=True)
    assert not workspace.writable
    assert Workspace().writable
    with pytest.raises(MethodNotFound):
        await workspace.write(writing("a"), scope(tmp_path))
    assert os.listdir(tmp_path) == []


class Editor:
    """Unsaved buffers."""

    def __init__(self, *, takes: bool) -> None:
        self.buffers: dict[str, str] = {}
        self.takes = takes
        self.asked: list[str] = []

    async def read(self, path: str) -> str | None:
        self.asked.append(path)
        return self.buffers.get(path)

    async def write(self, path: str, text: str) -> bool:
        self.asked.append(path)
        if self.takes:
            self.buffers[path] = text
        return self.takes


async def test_an_unsaved_buffer_goes_before_the_disk(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("saved")
    (tmp_path / "link").symlink_to("a")
    editor = Editor(takes=True)
    workspace, session = Workspace(overlay=editor), scope(tmp_path)
    real = str(await trio.Path(tmp_path).resolve() / "a")
    assert await workspace.read(reading("a"), session) == "saved"
    editor.buffers[real] = "1\n2\n"
    assert await workspace.read(reading("link", line=2), session) == "2\n"
    await workspace.write(writing("link", "3\n"), session)
    assert editor.buffers == {real: "3\n"}
    assert (tmp_path / "a").read_text() == "saved"
    editor.takes = False
    await workspace.write(writing("a", "4\n"), session)
    assert (tmp_path / "a").read_text() == "4\n"
    assert set(editor.asked) == {real}


async def test_an_editor_is_not_asked_for_what_is_outside(tmp_path: pathlib.Path) -> None:
    editor = Editor(takes=True)
    workspace, session = Workspace(overlay=editor), scope(tmp_path)
    with pytest.raises(InvalidParams):
        await workspace.read(reading("/etc/passwd"), session)
    with pytest.raises(InvalidParams):
        await workspace.write(writing("/etc/passwd"), session)
    assert editor.asked == []


async def test_all_roots_of_the_session_are_open_and_relative_paths_count_from_its_cwd(
    tmp_path: pathlib.Path,
) -> None:
    """S5."""
    for name in ("cwd", "extra", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    workspace, session = Workspace(), scope(tmp_path / "cwd", tmp_path / "extra")
    assert await workspace.read(reading("f"), session) == "cwd"
    assert await workspace.read(reading("../extra/f"), session) == "extra"
    assert await workspace.read(reading(tmp_path / "extra/f"), session) == "extra"
    with pytest.raises(InvalidParams):
        await workspace.read(reading(tmp_path / "closed/f"), session)
    with pytest.raises(InvalidParams):
        await workspace.read(reading(tmp_path / "extra/f"), scope(tmp_path / "cwd"))


async def test_roots_of_its_own_stand_for_those_of_the_sessions(tmp_path: pathlib.Path) -> None:
    for name in ("cwd", "own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    workspace, session = Workspace([tmp_path / "own"]), scope(tmp_path / "cwd")
    assert await workspace.read(reading(tmp_path / "own/f"), session) == "own"
    for path in ("f", "../own/f"):  # from a directory outside, even a way in is not judged
        with pytest.raises(InvalidParams):
            await workspace.read(reading(path), session)


@pytest.mark.parametrize("roots", ["/tmp", b"/tmp", []])
def test_roots_have_to_be_a_sequence_of_directories(roots: Any) -> None:
    with pytest.raises(TypeError, match="sequence"):
        Workspace(roots)


def test_a_system_without_relative_opening_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(RuntimeError, match="confined"):
        Workspace()


async def test_the_memory_of_roots_is_bounded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "MAX_PINNED_ROOTS", 3)
    workspace = Workspace()
    for name in "abcde":
        (tmp_path / name).mkdir()
        await workspace.write(writing("f", name), scope(tmp_path / name))
    assert list(workspace._pinned) == [str(tmp_path / name) for name in "cde"]
    assert await workspace.read(reading("f"), scope(tmp_path / "a")) == "a"

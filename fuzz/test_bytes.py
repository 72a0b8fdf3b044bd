"""The target for bytes: on its corpus, on hostile lines, and for a moment under atheris if there is one."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.budget import budget
from fuzz.bytes_target import check_bytes
from trio_acp.testing.strategies import hostile_lines

CORPUS = pathlib.Path(__file__).with_name("corpus")


@pytest.mark.parametrize("seed", sorted(path.name for path in CORPUS.iterdir()))
def test_the_corpus_holds(seed: str) -> None:
    data = (CORPUS / seed).read_bytes()
    for size in range(8):
        check_bytes(bytes([size]) + data[1:])


@budget()
@given(st.integers(0, 255), st.lists(hostile_lines(), max_size=5), st.sampled_from([b"\n", b""]))
def test_hostile_lines_hold(size: int, lines: list[bytes], end: bytes) -> None:
    check_bytes(bytes([size]) + b"\n".join(lines) + end)


def test_atheris_finds_nothing_in_a_moment(tmp_path: pathlib.Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed; it is in the dependency group `bytes`")
    shutil.copytree(CORPUS, tmp_path / "corpus")
    command = [
        sys.executable,
        "-m",
        "fuzz.bytes_target",
        str(tmp_path / "corpus"),
        "-runs=2000",
        "-timeout=20",
    ]
    done = subprocess.run(
        command, cwd=CORPUS.parents[1], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]

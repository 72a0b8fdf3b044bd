"""What a command names, and what is said when it names nothing that can be started."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
from typing import Any

import pytest

from trio_acp._errors import AgentStartError
from trio_acp.transports._command import find_executable, spawn_error


def make(path: pathlib.Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_name_is_looked_up_in_the_path_of_the_agents_environment(tmp_path: pathlib.Path) -> None:
    wanted = make(tmp_path / "b" / "agent")
    env = {"PATH": f"{tmp_path}/a{os.pathsep}{tmp_path}/b"}
    assert find_executable(("agent", "arg"), cwd=None, env=env) == wanted


def test_an_executable_later_in_the_path_wins_over_a_plain_file(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "a" / "agent", mode=0o644)
    wanted = make(tmp_path / "b" / "agent")
    env = {"PATH": f"{tmp_path}/a{os.pathsep}{tmp_path}/b"}
    assert find_executable(("agent",), cwd=None, env=env) == wanted


def test_a_relative_path_is_relative_to_the_agents_directory(tmp_path: pathlib.Path) -> None:
    wanted = make(tmp_path / "bin" / "agent")
    assert find_executable(("bin/agent",), cwd=str(tmp_path), env={}) == wanted
    assert find_executable((wanted,), cwd="/", env={}) == wanted


def test_a_relative_path_without_a_directory_is_relative_to_ours(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = make(tmp_path / "agent")
    monkeypatch.chdir(tmp_path)
    assert find_executable(("./agent",), cwd=None, env={}) == wanted


def refuse(command: str, cwd: str | None = None, **env: str) -> AgentStartError:
    with pytest.raises(AgentStartError) as caught:
        find_executable((command, "acp"), cwd=cwd, env=env)
    error = caught.value
    assert error.phase == "spawn"
    assert error.command == (command, "acp")
    assert error.returncode is None
    return error


def test_a_missing_program_is_not_found(tmp_path: pathlib.Path) -> None:
    error = refuse("agent", PATH=str(tmp_path))
    assert error.reason == "not-found"
    assert "PATH" in str(error)
    error = refuse(f"{tmp_path}/agent")
    assert error.reason == "not-found"
    assert "PATH" not in str(error)
    assert refuse("", PATH=str(tmp_path)).reason == "not-found"


def test_a_file_without_permission_is_not_executable(tmp_path: pathlib.Path) -> None:
    path = make(tmp_path / "agent", mode=0o644)
    for error in (refuse(path), refuse("agent", PATH=str(tmp_path))):
        assert error.reason == "not-executable"
        assert "permissions" in str(error)
        assert path in str(error)


def test_a_directory_is_not_executable(tmp_path: pathlib.Path) -> None:
    error = refuse(str(tmp_path))
    assert error.reason == "not-executable"
    assert "is not a file" in str(error)


def test_a_missing_working_directory_is_told_from_a_missing_program(tmp_path: pathlib.Path) -> None:
    error = refuse("agent", cwd=f"{tmp_path}/missing")
    assert error.reason == "bad-cwd"
    assert "does not exist" in str(error)
    error = refuse("agent", cwd=make(tmp_path / "file"))
    assert error.reason == "bad-cwd"
    assert "is not a directory" in str(error)


@pytest.mark.parametrize(
    ("failure", "reason", "words"),
    [
        (FileNotFoundError(2, "No such file"), "not-found", "interpreter"),
        (OSError(8, "Exec format error"), "not-executable", "neither a program"),
        (PermissionError(13, "Permission denied"), "not-executable", "permit"),
        (PermissionError(1, "Not permitted"), "not-executable", "permit"),
        (OSError(7, "Argument list too long"), "os-error", "Argument list too long"),
        (ValueError("embedded null byte"), "os-error", "embedded null byte"),
    ],
)
def test_each_failure_of_the_operating_system_is_explained(failure: Any, reason: str, words: str) -> None:
    error = spawn_error(failure, ("agent", "--token=secret"), "/bin/agent")
    assert error.reason == reason
    assert words in str(error)
    assert "secret" not in str(error)
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(twin), twin.reason, twin.command) == (str(error), reason, error.command)

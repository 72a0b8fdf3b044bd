"""Which variables an agent gets."""

from __future__ import annotations

import os
from typing import Any

import pytest

from trio_acp.transports import BASIC_VARIABLES
from trio_acp.transports._environment import build_environment

OURS = {"PATH": "/bin", "HOME": "/home/me", "API_KEY": "secret"}


def test_everything_is_inherited_by_default() -> None:
    assert build_environment() == dict(os.environ)


def test_the_overlay_adds_replaces_and_removes_variables() -> None:
    result = build_environment({"HOME": "/tmp", "NEW": "", "API_KEY": None, "ABSENT": None}, source=OURS)
    assert result == {"PATH": "/bin", "HOME": "/tmp", "NEW": ""}


def test_nothing_is_inherited_by_an_exact_environment() -> None:
    assert build_environment({"ONLY": "this"}, inherit=False, source=OURS) == {"ONLY": "this"}


def test_only_named_variables_are_inherited_from_a_list() -> None:
    assert build_environment({"MORE": "1"}, inherit=["PATH", "ABSENT"], source=OURS) == {
        "PATH": "/bin",
        "MORE": "1",
    }


def test_the_basic_variables_hold_no_secrets() -> None:
    assert build_environment(inherit=BASIC_VARIABLES, source=OURS) == {"PATH": "/bin", "HOME": "/home/me"}


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_an_impossible_name_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        build_environment({name: "x"})


def test_an_impossible_value_is_refused_without_being_quoted() -> None:
    with pytest.raises(ValueError, match="KEY has a NUL") as caught:
        build_environment({"KEY": "sec\0ret"})
    assert "sec" not in str(caught.value)


@pytest.mark.parametrize(
    ("overlay", "inherit"),
    [({1: "x"}, True), ({"KEY": 5}, True), (None, "PATH")],
)
def test_wrong_types_are_refused_at_once(overlay: Any, inherit: Any) -> None:
    with pytest.raises(TypeError):
        build_environment(overlay, inherit)

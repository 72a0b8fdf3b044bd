"""What an import loads: each half of the library without the other."""

from __future__ import annotations

import subprocess
import sys

import pytest

import trio_acp


def loaded_by(code: str) -> set[str]:
    """The public parts of the library that a fresh interpreter has loaded after some code."""
    show = "import sys; print(*[name for name in sys.modules if name.startswith('trio_acp.')])"
    command = [sys.executable, "-c", f"{code}\n{show}"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    parts = {name.split(".")[1] for name in done.stdout.split()}
    return {part for part in parts if not part.startswith("_")}


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import trio_acp", {"schema"}),
        ("from trio_acp import AcpError", {"schema"}),
        ("from trio_acp import open_acp", {"schema", "client", "transports"}),
        ("from trio_acp import AgentApp", {"schema", "agent", "transports"}),
        ("import trio_acp; trio_acp.transports", {"schema", "transports"}),
    ],
)
def test_a_program_loads_the_half_of_the_library_that_it_uses(code: str, parts: set[str]) -> None:
    assert loaded_by(code) == parts


def test_a_name_that_is_loaded_late_is_the_same_each_time() -> None:
    assert vars(trio_acp)["__getattr__"]("open_acp") is trio_acp.open_acp
    assert trio_acp.client.open_acp is trio_acp.open_acp


def test_what_does_not_exist_is_said_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'open_acpp'"):
        trio_acp.open_acpp  # type: ignore[attr-defined]


def test_every_public_name_is_listed_before_it_is_loaded() -> None:
    assert set(trio_acp.__all__) <= set(dir(trio_acp))
    assert {"client", "agent", "schema"} <= set(dir(trio_acp))

"""What a log may see: names of variables and headers, never their values."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trio_acp._core import redact
from trio_acp._core._redaction import MASK, MAX_DEPTH


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            {"env": [{"name": "TOKEN", "value": "s3cret", "_meta": {"x": 1}}, "s3cret", 5]},
            {"env": [{"name": "TOKEN", "value": MASK, "_meta": MASK}, MASK, MASK]},
        ),
        ({"env": {"TOKEN": "s3cret"}}, {"env": {"TOKEN": MASK}}),
        (
            {"headers": [{"name": "Authorization", "value": "s3cret"}]},
            {"headers": [{"name": "Authorization", "value": MASK}]},
        ),
        ({"headers": {"Authorization": ["s3cret"]}}, {"headers": {"Authorization": MASK}}),
        ({"env": "s3cret"}, {"env": MASK}),
        ({"env": None}, {"env": None}),
        ({"env": [{"name": {"deep": "s3cret"}}]}, {"env": [{"name": MASK}]}),
        (
            {"a": [{"b": {"env": {"K": "s3cret"}}}, 1, "text"]},
            {"a": [{"b": {"env": {"K": MASK}}}, 1, "text"]},
        ),
        ([{"env": {"K": 1}}], [{"env": {"K": MASK}}]),
        ("env", "env"),
        (None, None),
    ],
)
def test_every_value_of_env_and_headers_is_masked_and_nothing_else(value: Any, shown: Any) -> None:
    before = copy.deepcopy(value)
    assert redact(value) == shown
    assert value == before
    assert "s3cret" not in str(redact(value))


def test_what_lies_too_deep_is_masked_whole() -> None:
    value: Any = {"env": {"K": "s3cret"}}
    for _ in range(100_000):
        value = [value]
    shown = redact(value)
    depth = 0
    while isinstance(shown, list):
        (shown,) = shown
        depth += 1
    assert depth == MAX_DEPTH
    assert shown == MASK

"""Handlers of the host that fail while the connection's end cancels them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.client._scripted import Scene, Wire
from tests.support.mixtures import fail_when_cancelled
from trio_acp import AcpOptions


async def test_a_failing_clean_up_of_an_extensions_handler_is_logged_and_not_raised(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """N1"""

    async def handler(params: dict[str, Any]) -> None:
        await fail_when_cancelled(ValueError("mine"))

    async def script(wire: Wire) -> None:
        await wire.burst({"jsonrpc": "2.0", "method": "_news", "params": {}})

    async with Scene(script, AcpOptions(extensions={"_news": handler})):
        await trio.sleep(1)
    assert "the handler of _news failed" in caplog.text
    assert "ValueError: mine" in caplog.text

"""Errors of handlers that nobody waits for: logged, whatever they come with."""

from __future__ import annotations

import logging

import pytest
import trio

from tests.support.mixtures import fail_when_cancelled
from trio_acp._cancellation import LoggedErrors, split_cancelled

logger = logging.getLogger("trio_acp.tests")


def test_an_error_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    with LoggedErrors(logger, "%s failed", "it"):
        raise ValueError("mine")
    assert "it failed" in caplog.text
    assert "ValueError: mine" in caplog.text


def test_nothing_is_logged_where_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    with LoggedErrors(logger, "it failed"):
        pass
    assert caplog.text == ""


async def test_a_cancellation_goes_on_alone_and_what_came_with_it_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with LoggedErrors(logger, "it failed"):
            await fail_when_cancelled(ValueError("mine"))
    assert scope.cancelled_caught
    assert caplog.text.count("ValueError: mine") == 1


async def test_a_cancellation_alone_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with LoggedErrors(logger, "it failed"):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert caplog.text == ""


async def test_an_interrupt_beside_a_cancellation_goes_on() -> None:
    with pytest.raises(BaseExceptionGroup) as caught, trio.CancelScope() as scope:
        scope.cancel()
        with LoggedErrors(logger, "it failed"):
            await fail_when_cancelled(KeyboardInterrupt())
    assert split_cancelled(caught.value)[0] is None
    assert caught.group_contains(KeyboardInterrupt)


def test_a_group_without_a_cancellation_is_left_whole() -> None:
    group = ExceptionGroup("mine", [ValueError()])
    cancelled, rest = split_cancelled(group)
    assert cancelled is None
    assert rest is group

"""Code that a cancellation ends with an error beside it, as nurseries make it when a clean-up fails."""

from __future__ import annotations

import trio

__all__ = ["fail_when_cancelled"]


async def fail_when_cancelled(error: BaseException) -> None:
    """Sleep until cancelled; then raise a group of cancellations and the error."""

    async def clean_up_badly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clean_up_badly)
        # From further out, so that this nursery does not absorb it.
        nursery.start_soon(trio.sleep_forever)
        await trio.sleep_forever()

"""Tell engines that callers have sent signals to instances: an idle engine would look for them 0.2 s later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sql.deliveries.hints import send_signal_hint
from sql.dsn import Dsn
from sql.hint_sender import HintSender
from sql.session import StatementRefused, StoreUnavailable

LOST_S = 0.5  # after a hint that Postgres did not take: engines find the signals by themselves


@asynccontextmanager
async def hinting(dsn: Dsn | str, *, timeout_s: float) -> AsyncIterator[HintSender]:
    """Send the hints that are wanted, during a block, beside the requests that want them."""
    sender = HintSender(dsn, send_signal_hint, of="gateway hints engines", timeout_s=timeout_s)

    async def keep_on() -> None:
        while True:
            try:
                pause_s = await sender.turn()
            except (StoreUnavailable, StatementRefused):
                pause_s = LOST_S
            await asyncio.sleep(pause_s)

    task = asyncio.create_task(keep_on(), name="hints to engines")
    try:
        yield sender
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await sender.close()

"""Tell engines that callers have sent signals to instances: an idle engine would look for them 0.2 s later."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from keepers.loops import upkeep
from sql.deliveries.hints import send_signal_hint
from sql.dsn import Dsn
from sql.hint_sender import HintSender


@asynccontextmanager
async def hinting(dsn: Dsn | str, *, timeout_s: float) -> AsyncIterator[HintSender]:
    """Send the hints that are wanted, during a block, beside the requests that want them."""
    sender = HintSender(dsn, send_signal_hint, of="gateway hints engines", timeout_s=timeout_s)
    try:
        async with upkeep("hints to engines", sender.turn):
            yield sender
    finally:
        await sender.close()

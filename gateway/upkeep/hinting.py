"""Tell engines and shards at once what callers have left for them; otherwise they find it at their next poll."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.keepers.loops import upkeep
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.hint_sender import HintSender, Send


@asynccontextmanager
async def hinting(dsn: Dsn | str, send: Send, *, to: str, timeout_s: float) -> AsyncIterator[HintSender]:
    """Send the hints that are wanted, during a block, beside the requests that want them."""
    sender = HintSender(dsn, send, of=f"gateway hints {to}", timeout_s=timeout_s)
    try:
        async with upkeep(f"hints to {to}", sender.turn):
            yield sender
    finally:
        await sender.close()

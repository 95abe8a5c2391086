"""Follow the stream of an open page of the console, and write a record that the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.support.factories import BOUND_S

CHANGED = b"event: changed"
CANCEL = "select shardclock.cancel_timer(shardclock.schedule_timer(delay => 'PT1H'))"


async def next_event(pieces: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(BOUND_S):
        async for piece in pieces:
            if CHANGED in piece:
                return piece
    return b""

"""Look for something, and for a caller that waits look again: a page of the log, a lease, the end of a run."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from starlette.requests import Request

from gateway.parts import gateway_of
from gateway.requests.callers import Caller

POLL_S = 0.1

T = TypeVar("T")


async def look_until(
    look: Callable[[], Awaitable[T | None]], request: Request, caller: Caller, *, within_s: float | None
) -> T | None:
    """Look until something is found, the time is over, the gateway stops, or the caller has gone.

    Who waits has one of the places for those that follow the log, because it asks Postgres as often.

    shape:   None: nothing was found
    errors:  Problem           there is no place
             StoreUnavailable  of `look`
    """
    found = await look()
    if found is not None or not within_s:
        return found
    gateway, clock = gateway_of(request), asyncio.get_running_loop().time
    until_s = clock() + within_s
    async with gateway.waiting_of(caller.tenant_id, gateway.stream_places):
        while (left_s := until_s - clock()) > 0 and not gateway.stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(min(POLL_S, left_s)):
                    await gateway.stopping.wait()
            # Asked before each look: what that takes would be nobody's.
            if await request.is_disconnected():
                return None
            if (found := await look()) is not None:
                return found
    return None

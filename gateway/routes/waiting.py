"""Let callers wait, each in a place that it has: for a page of the log, a lease, the end of a run or of an instance."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from starlette.requests import Request

from shardclock_server.gateway.gateway import Gateway, gateway_of
from shardclock_server.gateway.limits.places import Places
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.wait import wait_s_of

POLL_S = 0.1

T = TypeVar("T")


@asynccontextmanager
async def may_wait(gateway: Gateway, caller: Caller, wait: str | None, places: Places) -> AsyncIterator[float]:
    """Say for how long a caller may wait, and keep one of the places meanwhile: who may not wait has started nothing.

    errors:  Problem  too many wait, here or of its tenant
    """
    wait_s = wait_s_of(wait) or 0.0
    if not wait_s:
        yield 0.0
        return
    async with gateway.waiting_of(caller.tenant_id, places):
        yield wait_s


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
    gateway = gateway_of(request)
    async with gateway.waiting_of(caller.tenant_id, gateway.stream_places):
        return await look_again(look, request, within_s=within_s)


async def look_again(look: Callable[[], Awaitable[T | None]], request: Request, *, within_s: float) -> T | None:
    """Look until something is found, for a caller that has a place.

    shape:   None: nothing was found
    errors:  StoreUnavailable  of `look`
    """
    gateway, clock = gateway_of(request), asyncio.get_running_loop().time
    until_s = clock() + within_s
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

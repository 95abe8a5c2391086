"""Notify open pages of changes by server-sent events, so that `console.js` fetches the page again.

One poll of the log's end serves all viewers of a gateway (`waits/changes.py`).
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request

from shardclock_server.gateway.console.access import Viewer
from shardclock_server.gateway.console.addresses import ROOT
from shardclock_server.gateway.gateway import Gateway, gateway_of
from shardclock_server.gateway.waits.event_stream import EventStream
from shardclock_server.sql.session import StoreUnavailable

EVENT_S = 1.0  # the shortest time between two events
CHANGED = "event: changed\ndata: {}\n\n"

router = APIRouter(prefix=ROOT, include_in_schema=False)


@router.get("/live")
async def get_live(request: Request, caller: Viewer) -> EventStream:
    """Stream the event `changed` after changes: at most once a second, and at least every five seconds."""
    gateway = gateway_of(request)
    acquire_slot = partial(gateway.acquire_wait_slot, caller.tenant_id, gateway.wait_limits.ends)
    return EventStream(_events(request, gateway), acquire_slot)


async def _events(request: Request, gateway: Gateway) -> AsyncIterator[str]:
    yield "retry: 5000\n\n"
    while not gateway.stopping.is_set() and await _is_signed_in(request, gateway):
        began_s = asyncio.get_running_loop().time()
        await gateway.changes.wait()
        yield CHANGED
        await asyncio.sleep(max(0.0, began_s + EVENT_S - asyncio.get_running_loop().time()))


async def _is_signed_in(request: Request, gateway: Gateway) -> bool:
    """Check that the session is valid, because the end of a session or of its key must end the stream."""
    try:
        return await gateway.callers.viewer_of(request.headers, request.cookies) is not None
    except StoreUnavailable:
        return True  # the check is repeated before the next event of the stream

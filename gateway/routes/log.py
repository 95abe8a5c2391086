"""Read the log: a page at a time, or as it grows, by server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shardclock.log import LogRecord
from shardclock.log.async_reading import log_end
from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.log import LogAnswer, RecordAnswer
from shardclock_server.gateway.gateway import Gateway, Here, WaitPlace, gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.headers import is_head
from shardclock_server.gateway.requests.listing import PIECE_BYTES, listing
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.wait import WaitForMore, wait_s_of
from shardclock_server.sql.log.records import OwnRecords, read_own
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.sql.turns import Turns
from shardclock_server.timers.model import BIGINT_MAX

EVENTS = "text/event-stream"
READ_MAX = 500
STREAM_BYTES = 2**18  # of records, at a time: each of 200 streams may hold as much for a client that does not read
PAGES_AT_ONCE = 20  # for one that waits: then others have their turn
POLL_S = 0.1
AN_EVENT = 'id: 812\nevent: TRIGGERED\ndata: {"position":812,"intent":"TRIGGERED","timer_key":20514}\n\n'
QUIET_S = 15.0  # then a comment is sent, so that nobody between us takes the connection for dead

router = APIRouter(prefix="/v1/log", tags=["log"])


@router.get("", response_model=LogAnswer)
async def read_page(
    request: Request,
    caller: Reader,
    after: Annotated[int, Query(ge=0, le=BIGINT_MAX, description="the last answer's `next`; 0: from the start")] = 0,
    limit: Annotated[
        int, Query(ge=1, le=READ_MAX, description="how many records are read; those of other tenants are left out")
    ] = 100,
    wait: WaitForMore = None,
) -> Response:
    """Read what happened to the caller's timers, in the order in which it is read by everybody.

    A page ends when its records have 4 MiB. A page may be empty and yet not the last one: if `next` is more than
    `after`, ask again. With `wait` an empty page
    comes only when that time is over.
    """
    gateway, wait_s, position = gateway_of(request), wait_s_of(wait), after

    async def look() -> list[LogRecord] | None:
        nonlocal position
        for _ in range(PAGES_AT_ONCE if wait_s else 1):
            async with gateway.pool.session(caller.tenants) as session:
                page = await read_own(session, position, limit=limit)
            own = [record for record in page.records if caller.sees(record.tenant_id, record.target)]
            is_end, position = page.next <= position, page.next
            if own or is_end:
                return own or None
        return None

    own = await gateway.poll(look, request, caller.tenant_id, within_s=wait_s) or []
    return await listing(LogAnswer, "records", map(RecordAnswer.of, own), next=position)


@router.get("/stream", response_class=StreamingResponse, responses={200: {"content": {EVENTS: {"example": AN_EVENT}}}})
async def stream_log(
    request: Request,
    gateway: Here,
    caller: Reader,
    after: Annotated[
        int | None, Query(ge=0, le=BIGINT_MAX, description="if not given: what happens from now on")
    ] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=BIGINT_MAX, description="as a browser sends it")] = None,
) -> StreamingResponse:
    """Follow what happens to the caller's timers, by server-sent events: the id is the record's position."""
    start = after if last_event_id is None else last_event_id
    if start is None:
        async with gateway.pool.session(NO_TENANTS) as session:
            start = await log_end(session)
    take_place = partial(gateway.take_place, caller.tenant_id, gateway.stream_places)
    return _Following(_events(request, gateway, caller, start), take_place)


class _Following(StreamingResponse):
    """A stream that has a place for as long as it lasts; without one it is a problem from the start."""

    def __init__(self, events: AsyncIterator[str], take_place: Callable[[], Awaitable[WaitPlace]]) -> None:
        super().__init__(events, media_type=EVENTS, headers={"Cache-Control": "no-store"})
        self._take_place = take_place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a place, and send new records; a HEAD is answered at once, and takes none.

        errors:  Problem           there is none, here or for the tenant
                 StoreUnavailable  the tenant's limit can't be read now
        """
        if is_head(scope):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        with await self._take_place():
            await super().__call__(scope, receive, send)


async def _events(request: Request, gateway: Gateway, caller: Caller, position: int) -> AsyncIterator[str]:
    clock = asyncio.get_running_loop().time
    yield ": the log follows\n\n"
    said_at_s = clock()
    while not gateway.stopping.is_set() and await _is_known(request, gateway):
        try:
            async with gateway.pool.session(caller.tenants) as session:
                page = await read_own(session, position, limit=READ_MAX, bytes_max=STREAM_BYTES)
        except StoreUnavailable:
            page = OwnRecords([], position)
        own = [record for record in page.records if caller.sees(record.tenant_id, record.target)]
        if own:
            async for events in _written(own):
                yield events
            said_at_s = clock()
        elif clock() - said_at_s > QUIET_S:
            yield ": still there\n\n"
            said_at_s = clock()
        if page.next > position:
            position = page.next
        else:
            await asyncio.sleep(POLL_S)


async def _is_known(request: Request, gateway: Gateway) -> bool:
    """Say whether the caller's key is still good: who is revoked reads no further."""
    try:
        await gateway.callers.caller_of(request.headers)
    except Problem:
        return False
    except StoreUnavailable:
        return True  # nobody reads anything now; it is asked again
    return True


async def _written(records: Iterable[LogRecord]) -> AsyncIterator[str]:
    """Write records as events, some at once: many in one piece would keep all others waiting."""
    events, size, turns = list[str](), 0, Turns()
    for record in records:
        events.append(_event(record))
        size += len(events[-1])
        if size >= PIECE_BYTES:
            yield "".join(events)
            events, size = [], 0
        await turns.give()
    yield "".join(events)


def _event(record: LogRecord) -> str:
    answer = RecordAnswer.of(record)
    return f"id: {record.position}\nevent: {record.intent}\ndata: {answer.model_dump_json()}\n\n"

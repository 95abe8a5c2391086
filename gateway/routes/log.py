"""Read the log: by pages, or as a stream of server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shardclock.log import LogRecord
from shardclock.log.async_reading import log_end
from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.log import LogAnswer, RecordAnswer
from shardclock_server.gateway.gateway import CurrentGateway, Gateway, gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import PIECE_BYTES, listing
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.wait import WaitForMore, wait_s_of
from shardclock_server.gateway.waits.event_stream import EVENTS, EventStream
from shardclock_server.sql.log.records import OwnRecords, read_own
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.sql.yielding import Yielder
from shardclock_server.timers.model import BIGINT_MAX

READ_MAX = 500
STREAM_BYTES = 2**18  # The limit of one read; a slow client's stream holds this many bytes in memory.
PAGES_AT_ONCE = 20  # One poll of a waiting client reads at most this many pages, so that other requests are served.
POLL_S = 0.1
AN_EVENT = 'id: 812\nevent: TRIGGERED\ndata: {"position":812,"intent":"TRIGGERED","timer_key":20514}\n\n'
QUIET_S = 15.0  # after this time without events the stream sends a comment, so that no proxy closes the connection

router = APIRouter(prefix="/v1/log", tags=["log"])


@router.get("", response_model=LogAnswer)
async def read_page(
    request: Request,
    caller: Reader,
    after: Annotated[
        int, Query(ge=0, le=BIGINT_MAX, description="the `next` of the previous page; 0: the start of the log")
    ] = 0,
    limit: Annotated[
        int,
        Query(
            ge=1,
            le=READ_MAX,
            description="the number of records to read; the answer omits records of other tenants",
        ),
    ] = 100,
    wait: WaitForMore = None,
) -> Response:
    """Read the records of the caller's timers, in the same order for all readers.

    A page ends when its records reach 4 MiB. An empty page may not be the last page: if `next` is more than `after`,
    there may be more records. With `wait`, an empty page is returned only when the time is over.
    """
    gateway, wait_s, position = gateway_of(request), wait_s_of(wait), after

    async def read() -> list[LogRecord] | None:
        nonlocal position
        for _ in range(PAGES_AT_ONCE if wait_s else 1):
            async with gateway.pool.session(caller.tenants) as session:
                page = await read_own(session, position, limit=limit)
            own = [record for record in page.records if caller.sees(record.tenant_id, record.target)]
            is_end, position = page.next <= position, page.next
            if own or is_end:
                return own or None
        return None

    own = await gateway.poll(read, request, caller.tenant_id, within_s=wait_s) or []
    return await listing(LogAnswer, "records", map(RecordAnswer.of, own), next=position)


@router.get("/stream", response_class=StreamingResponse, responses={200: {"content": {EVENTS: {"example": AN_EVENT}}}})
async def stream_log(
    request: Request,
    gateway: CurrentGateway,
    caller: Reader,
    after: Annotated[
        int | None,
        Query(
            ge=0,
            le=BIGINT_MAX,
            description="the position of the last known record; by default the stream has only new records",
        ),
    ] = None,
    last_event_id: Annotated[
        int | None,
        Header(ge=0, le=BIGINT_MAX, description="the position of the last received event, as a browser sends it"),
    ] = None,
) -> StreamingResponse:
    """Follow the records of the caller's timers by server-sent events; the id of an event is the record's position."""
    start = after if last_event_id is None else last_event_id
    if start is None:
        async with gateway.pool.session(NO_TENANTS) as session:
            start = await log_end(session)
    acquire_slot = partial(gateway.acquire_wait_slot, caller.tenant_id, gateway.wait_limits.streams)
    return EventStream(_events(request, gateway, caller, start), acquire_slot)


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
    """Check that the caller's key is valid, because a revocation must end the key's streams."""
    try:
        await gateway.callers.caller_of(request.headers)
    except Problem:
        return False
    except StoreUnavailable:
        return True  # Postgres does not answer; the stream checks again later
    return True


async def _written(records: Iterable[LogRecord]) -> AsyncIterator[str]:
    """Format records as events, in pieces, because formatting many records together would block the event loop."""
    events, size, yielder = list[str](), 0, Yielder()
    for record in records:
        events.append(_event(record))
        size += len(events[-1])
        if size >= PIECE_BYTES:
            yield "".join(events)
            events, size = [], 0
        await yielder.yield_if_due()
    yield "".join(events)


def _event(record: LogRecord) -> str:
    answer = RecordAnswer.of(record)
    return f"id: {record.position}\nevent: {record.intent}\ndata: {answer.model_dump_json()}\n\n"

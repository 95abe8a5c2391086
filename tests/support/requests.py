"""Make idempotent requests, begin them, and answer them, each time in a separate transaction."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from shardclock_server.sql.idempotency.requests import Begun, IdempotentRequest, Stored, begin_requests, store_requests
from shardclock_server.sql.session import Session

CREATED = Stored(201, '{"timer_key": 7}')
OTHERWISE = Stored(200, '{"timer_key": 8}')


def request(key: str = "order-7", *, tenant_id: str = "acme", asks: str = "a timer") -> IdempotentRequest:
    return IdempotentRequest(tenant_id, key, sha256(asks.encode()).digest())


async def begin(session: Session, *requests: IdempotentRequest, now: datetime | None = None) -> list[Begun]:
    async with session.transaction() as connection:
        return await begin_requests(connection, requests, now=now)


async def answer(
    session: Session, *requests: IdempotentRequest, now: datetime | None = None, stored: Stored = CREATED
) -> None:
    async with session.transaction() as connection:
        assert await begin_requests(connection, requests, now=now) == [None] * len(requests)
        await store_requests(connection, [(it, stored) for it in requests], now=now)

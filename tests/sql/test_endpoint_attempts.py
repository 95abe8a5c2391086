"""Prove that an endpoint keeps its last attempts, that a write waits for no lock, and that reads and writes read few
rows.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from shardclock_server.sql.endpoints.attempts import KEPT_MAX, TEST_SEND, EndedAttempt, find_attempts, keep_attempts
from shardclock_server.sql.endpoints.endpoints import (
    EndpointName,
    StoredEndpoint,
    add_endpoint,
    list_endpoints,
    remove_endpoint,
)
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query, value
from tests.support.plans import counting_rows_read
from tests.support.roles import as_role

BILLING = EndpointName("default", "billing")
STORED = StoredEndpoint("default", "billing", "https://example.com/hooks", {}, ("whsec_" + 32 * "A",), {})
COUNT = "select count(*) from shardclock.endpoint_attempts"


def ended(number: int, key: EndpointName = BILLING, **more: object) -> EndedAttempt:
    """Describe an attempt; a higher number ended later."""
    age_s = 100.0 - number
    attempt = EndedAttempt(key, number, 1, time.monotonic() - age_s, 503, 0.12, "answered 503", b"busy")
    return attempt._replace(**more)  # type: ignore[arg-type]


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[Session]:
    """Open a worker's session, with the endpoint `billing` of two tenants, added long ago."""
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        for tenant in ("default", "acme"):
            assert await add_endpoint(session, replace(STORED, tenant_id=tenant))
        await query(dsn, "update shardclock.endpoints set added_at = now() - interval '1 day'")
        yield session


async def test_an_endpoint_keeps_its_last_attempts_and_its_removal_deletes_them(dsn: str, worker: Session) -> None:
    await keep_attempts(worker, [ended(number) for number in range(1, 16)])
    await keep_attempts(worker, [ended(number) for number in range(16, 31)])
    await keep_attempts(worker, [ended(1, EndpointName("acme", "billing")), ended(2, EndpointName("acme", "nobody"))])
    await keep_attempts(worker, [ended(31, status=None, failure="no answer", body=b"\xff\0")])

    found = await find_attempts(worker, BILLING)

    assert [it.timer_key for it in found] == list(range(31, 31 - KEPT_MAX, -1))
    assert (found[0].status, found[0].failure, found[0].body) == (None, "no answer", "\ufffd\ufffd")
    assert (found[1].status, found[1].duration_ms, found[1].attempt, found[1].body) == (503, 120, 1, "busy")
    assert await value(dsn, COUNT) == KEPT_MAX + 2, "the next write deletes the surplus"
    assert len(await find_attempts(worker, EndpointName("acme", "billing"))) == 1
    assert await find_attempts(worker, EndpointName("acme", "nobody")) == []
    await remove_endpoint(worker, BILLING)
    assert await value(dsn, COUNT) == 1
    assert await add_endpoint(worker, STORED)
    await keep_attempts(worker, [ended(32)])
    assert await find_attempts(worker, BILLING) == [], "that attempt was of the endpoint before"


async def test_test_sends_are_kept_beside_the_attempts_and_count_as_no_attempts(worker: Session) -> None:
    await keep_attempts(worker, [ended(number) for number in range(1, 1 + KEPT_MAX)])
    for number in range(30, 60):
        await keep_attempts(worker, [ended(number, timer_key=TEST_SEND, attempt=TEST_SEND, failure=None)])

    found = await find_attempts(worker, BILLING, limit=99)

    of_tests = [it for it in found if it.timer_key is None]
    assert [it.timer_key for it in found if it not in of_tests] == list(range(KEPT_MAX, 0, -1))
    assert {it.attempt for it in of_tests} == {None}
    assert len(of_tests) == KEPT_MAX + 1, "the next write deletes the surplus"
    (listed,) = await list_endpoints(worker, tenant_id="default", limit=10)
    assert (listed.attempts, listed.accepted) == (KEPT_MAX, 0)


async def test_a_list_of_endpoints_counts_the_accepted_attempts_of_the_present_endpoint(worker: Session) -> None:
    await keep_attempts(worker, [ended(number) for number in range(1, 11)])
    await keep_attempts(worker, [ended(number, failure=None) for number in range(11, 31)])
    await keep_attempts(worker, [ended(number) for number in range(31, 36)])
    await keep_attempts(worker, [ended(1, EndpointName("acme", "billing"), failure=None)])

    acme, default = await list_endpoints(worker, tenant_id=None, limit=10)
    assert (acme.attempts, acme.accepted) == (1, 1)
    assert (default.attempts, default.accepted) == (KEPT_MAX, 15)

    await remove_endpoint(worker, BILLING)
    assert await add_endpoint(worker, STORED)
    await keep_attempts(worker, [ended(40)])
    (again,) = await list_endpoints(worker, tenant_id="default", limit=10)
    assert (again.attempts, again.accepted) == (0, 0), "that attempt was of the endpoint before"


async def test_a_write_waits_for_no_lock_and_reads_only_its_endpoints_rows(dsn: str, worker: Session) -> None:
    others = """
        insert into shardclock.endpoint_attempts (tenant_id, name, timer_key, attempt, ended_at, duration_ms, body)
        select 'acme', 'e' || i % 100, i, 1, now(), 1, '' from generate_series(1, 2000) i
    """
    await query(dsn, others)
    await keep_attempts(worker, [ended(number) for number in range(1, 31)])
    await query(dsn, "analyze shardclock.endpoint_attempts")
    locking = await asyncpg.connect(dsn)
    try:
        async with locking.transaction():
            await locking.execute("select from shardclock.endpoints for update")
            await locking.execute("select from shardclock.endpoint_attempts where timer_key = 2 for update")
            async with worker.transaction():
                await keep_attempts(worker, [ended(31)])
                read = await worker_reads(worker)
    finally:
        await locking.close()

    assert read <= 2 * (30 + 10)
    assert [it.timer_key for it in await find_attempts(worker, BILLING, limit=3)] == [31, 30, 29]
    left = await query(dsn, "select timer_key from shardclock.endpoint_attempts where name = 'billing' order by 1")
    assert [row["timer_key"] for row in left] == [2, *range(11, 32)]


async def worker_reads(session: Session) -> int:
    """Count the rows of attempts that this transaction has read."""
    async with session.connection() as connection:
        return int(await connection.fetchval(counting_rows_read("endpoint_attempts")))

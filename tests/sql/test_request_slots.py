"""Prove that the deletion of old requests blocks no session, and that a request locks only the rows that it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import asyncpg
import pytest

from shardclock_server.sql.idempotency.requests import begin_requests, forget_requests, store_requests
from shardclock_server.sql.session import Session, StoreLocked
from tests.support.factories import BOUND_S, query, value
from tests.support.requests import CREATED, answer, begin, request
from tests.support.sql_client import session

DAY = timedelta(days=1)
TODAY = "select date_trunc('day', now(), 'UTC')"
KEYS = "select array_agg(idempotency_key order by idempotency_key) from shardclock.idempotent_requests"
# The slots that this backend has locked, and the slots of today and yesterday.
LOCKED = """
    select
        array(
            select right(c.relname, 1)::smallint
            from pg_locks l
            join pg_class c on c.oid = l.relation
            where l.pid = pg_backend_pid() and c.relname ~ '^idempotent_requests_[0-2]$'
            group by 1
            order by 1
        ) as locked,
        array(
            select s from unnest(array[
                shardclock.request_slot(now()), shardclock.request_slot(now() - interval '24 hours')
            ]) s order by 1
        ) as needed
"""
READ = """
    select sum(seq_tup_read)::integer as scanned, sum(idx_scan)::integer as probes, sum(idx_tup_fetch)::integer as rows
    from pg_stat_xact_user_tables
    where relname ~ '^idempotent_requests_[0-2]$'
"""
FILL = """
    insert into shardclock.idempotent_requests (created_at, slot, status, tenant_id, idempotency_key, fingerprint, body)
    select m, shardclock.request_slot(m), 201, 'acme', 'old-' || n, sha256(n::text::bytea), '{}'
    from generate_series(1, 40000) n
    cross join lateral (select now() - n * interval '2 seconds') as t (m)
"""


async def fill(dsn: str, text: str = FILL) -> None:
    """Write 40,000 requests. Autovacuum is off: its lock on a slot would make `forget_requests` give up."""
    for slot in range(3):
        await query(dsn, f"alter table shardclock.idempotent_requests_{slot} set (autovacuum_enabled = off)")
    await query(dsn, text)


@pytest.fixture
async def gateway(each_dsn: str) -> AsyncIterator[Session]:
    async with session(each_dsn, "gateway") as client:
        yield client


@pytest.fixture
async def today(each_dsn: str) -> datetime:
    """Return the begin of this UTC day, by Postgres's clock."""
    began: datetime = await value(each_dsn, TODAY)
    return began


async def test_only_the_day_before_yesterday_is_deleted_and_only_once(
    each_dsn: str, gateway: Session, today: datetime
) -> None:
    for name, at in {"a": today - 2 * DAY, "b": today - DAY, "c": today - timedelta(seconds=1), "d": today}.items():
        await answer(gateway, request(name), now=at)

    assert await forget_requests(gateway) == 1
    assert await value(each_dsn, KEYS) == ["b", "c", "d"]
    assert await forget_requests(gateway) == 0


async def test_answers_from_a_clock_that_was_ahead_are_kept(each_dsn: str, gateway: Session, today: datetime) -> None:
    await answer(gateway, request("old"), now=today - 2 * DAY)
    await answer(gateway, request("of-tomorrow"), now=today + DAY)

    assert await forget_requests(gateway) == 0
    assert await value(each_dsn, KEYS) == ["of-tomorrow", "old"]


async def test_days_without_a_call_are_deleted_later(each_dsn: str, gateway: Session, today: datetime) -> None:
    await answer(gateway, request("old"), now=today - 2 * DAY)
    await answer(gateway, request("older"), now=today - 5 * DAY)

    assert await forget_requests(gateway) == 1
    assert await value(each_dsn, KEYS) is None


async def test_a_request_locks_only_the_slots_of_today_and_yesterday(
    each_dsn: str, gateway: Session, today: datetime
) -> None:
    # Given a session that uses one plan for all values
    await answer(gateway, request("old"), now=today - 2 * DAY)
    await answer(gateway, request("9"))

    async with gateway.transaction() as connection, session(each_dsn, "gateway") as other:
        await connection.execute("set local plan_cache_mode = force_generic_plan")
        assert await begin_requests(connection, [request("new"), request("9")]) == [None, CREATED]
        await store_requests(connection, [(request("new"), CREATED)])

        # Then a transaction that is still open has no lock on the third table, so the table can be emptied
        row = await connection.fetchrow(LOCKED)
        assert row is not None
        assert row["locked"] == row["needed"]
        assert await forget_requests(other) == 1


async def test_a_dump_of_the_old_day_is_not_waited_for_and_blocks_no_new_request(
    each_dsn: str, gateway: Session, today: datetime
) -> None:
    await answer(gateway, request("old"), now=today - 2 * DAY)
    dump = await asyncpg.connect(each_dsn, timeout=BOUND_S)
    try:
        await dump.execute("begin")
        await dump.fetch("select from shardclock.idempotent_requests")

        with pytest.raises(StoreLocked):
            await forget_requests(gateway)
        await answer(gateway, request("new"))
        assert await begin(gateway, request("new")) == [CREATED]
    finally:
        await dump.close()

    assert await forget_requests(gateway) == 1


@pytest.mark.parametrize("analyzed", [False, True])
async def test_the_begin_of_requests_probes_an_index_for_each_request_and_scans_no_table(
    each_dsn: str, gateway: Session, *, analyzed: bool
) -> None:
    await fill(each_dsn)
    if analyzed:
        await query(each_dsn, "analyze shardclock.idempotent_requests")
    wanted = [request(f"{age}-{number}") for age in ("old", "new") for number in range(100, 120)]

    async with gateway.transaction() as connection:
        before = await connection.fetchrow(READ)
        assert len(await begin_requests(connection, wanted)) == len(wanted)
        after = await connection.fetchrow(READ)

    assert before is not None
    assert after is not None
    assert after["scanned"] == before["scanned"]
    assert after["rows"] - before["rows"] == 20, "the existing rows"
    assert after["probes"] - before["probes"] <= 4 * len(wanted), "two slots, and perhaps two descents in each"


async def test_the_deletion_reads_only_the_newest_request(each_dsn: str, gateway: Session, today: datetime) -> None:
    text = FILL.replace("now() - n *", "date_trunc('day', now(), 'UTC') - interval '25 hours' - n *")
    await fill(each_dsn, text.replace("2 seconds", "0.1 seconds"))

    async with gateway.transaction() as connection:
        before = await connection.fetchrow(READ)
        await connection.fetch("select shardclock.forget_requests()")
        after = await connection.fetchrow(READ)

    assert before is not None
    assert after is not None
    assert after["scanned"] == before["scanned"]
    assert after["rows"] - before["rows"] <= 2

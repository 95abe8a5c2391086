"""Starts that wait for an engine count against their tenant's quota, and a start does not read all waiting starts."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Literal

import asyncpg
import pytest

from shardclock.api.codes import quota
from shardclock_server.service import processes
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import (
    NO_LIMIT,
    count_usage,
    count_used,
    remaining_quotas,
    set_limits,
)
from tests.support.bpmn import model
from tests.support.factories import query, value
from tests.support.plans import counting_rows_read
from tests.support.refusals import refusing

MODEL = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
START = "select shardclock.start_process('p') from generate_series(1, $1::integer)"
KEEP = """
    select shardclock.publish_message('m', format('%s-%s', pg_backend_pid(), n), time_to_live => 'PT1H')
    from generate_series(1, $1::integer) n
"""
READ = counting_rows_read("deliveries")
USAGE = "select array_agg(resource order by resource) from shardclock.tenant_usage where resource <> 'definitions'"
NO_WAIT = {"lock_timeout": "200ms"}


@pytest.fixture
async def deployed(dsn: str) -> str:
    """Deploy a process; no engine runs."""
    async with Session(dsn, application="test") as session:
        await processes.deploy(session, MODEL, resource="p.bpmn")
    return dsn


async def limit(dsn: str, **limits: int) -> None:
    async with Session(dsn, application="test") as session:
        await set_limits(session, "default", {f"{name}_max": most for name, most in limits.items()})


async def add_waiting(dsn: str, count: int) -> None:
    """Write starts that wait for an engine."""
    await query(
        dsn,
        """
        insert into shardclock.deliveries (
            timer_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type, target, payload
        )
        select -n, now(), now(), now(), 1, n % 840, 'default', 'USER', 'process:instance', '{"kind": "begin"}'
        from generate_series(1, $1::integer) n
        """,
        count,
    )


async def waiting(dsn: str) -> int:
    return int(await value(dsn, "select count(*) from shardclock.deliveries"))


@pytest.mark.parametrize(("quota", "others"), [(3, 3), (1_000, 1_000), (1_500, 1_500), (150_000, 150_052)])
async def test_a_start_is_refused_when_as_many_wait_as_the_quota_allows(deployed: str, quota: int, others: int) -> None:
    await limit(deployed, instances=quota)
    await add_waiting(deployed, others)
    for _ in range(2):
        with pytest.raises(asyncpg.PostgresError, match=f"has a quota of {quota} instances that have not ended"):
            await query(deployed, START, 1)
    await query(deployed, "delete from shardclock.deliveries where timer_key > $1", quota - others - 2)
    await query(deployed, "update shardclock.tenant_usage set counted_at = '2020-01-01'")
    assert await waiting(deployed) < quota
    await query(deployed, START, 1)


async def test_running_instances_and_waiting_starts_count_together(deployed: str) -> None:
    await limit(deployed, instances=1_500)
    await query(
        deployed,
        """
        insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
        select -n, d.definition_key, 1, 'default', 'p', '{}'
        from shardclock.definitions d, generate_series(1, 1000) n
        """,
    )
    await add_waiting(deployed, 499)
    async with Session(deployed, application="test") as session:
        await query(deployed, "insert into shardclock.tenant_usage values ('default', 'instances')")
        await count_usage(session, age_s=0, batch=100)
        await processes.start(session, "p")
        await query(deployed, "update shardclock.tenant_usage set counted_at = '2020-01-01' where resource = 'starts'")
        with refusing(quota("instances")):
            await processes.start(session, "p")
        assert (await count_used(session, "default"))["instances"] == 1_500


async def test_a_lower_quota_holds_for_the_next_start(deployed: str) -> None:
    await limit(deployed, instances=5_000)
    await add_waiting(deployed, 1_200)
    await query(deployed, START, 1)
    assert await value(deployed, "select shardclock.has_quota_for_start('default')")
    await limit(deployed, instances=1_100)
    with pytest.raises(asyncpg.PostgresError, match="has a quota of 1100 instances"):
        await query(deployed, START, 1)


async def test_a_change_of_limits_waits_for_no_open_transaction_of_a_client(deployed: str) -> None:
    await query(deployed, START, 1)
    await query(deployed, "update shardclock.tenant_usage set counted_at = '2020-01-01'")
    client = await asyncpg.connect(deployed)
    try:
        async with client.transaction(), Session(deployed, application="test", timeout_s=2.0) as session:
            await client.fetch(START, 1)  # The statement counts the usage, and therefore locks the row with the count.
            changed = await set_limits(session, "default", {"instances_max": 1_100})
    finally:
        await client.close()
    assert changed.limits.instances_max == 1_100


async def test_starts_do_not_read_the_waiting_starts(deployed: str) -> None:
    backlog, more = 5_000, 200
    await add_waiting(deployed, backlog)
    connection = await asyncpg.connect(deployed)
    try:
        async with connection.transaction():
            await connection.fetch(START, more)
            read = await connection.fetchval(READ)
    finally:
        await connection.close()
    assert await waiting(deployed) == backlog + more
    # At most one count per second, not one count for each start, even on a slow machine.
    assert read < 10 * backlog


async def test_a_resource_without_a_limit_is_no_longer_counted(deployed: str) -> None:
    await limit(deployed, instances=1_500)
    await add_waiting(deployed, 100)
    await query(deployed, 'update shardclock.deliveries set payload = \'{"kind": "thrown"}\' where timer_key = -1')
    await query(deployed, START, 1)
    assert await value(deployed, USAGE) == ["starts"]

    await limit(deployed, instances=NO_LIMIT)
    async with Session(deployed, application="test") as session:
        assert await count_usage(session, age_s=0, batch=100) == 2

    assert await value(deployed, USAGE) is None
    await query(deployed, START, 1)
    assert await value(deployed, USAGE) is None


async def test_kept_messages_are_refused_while_no_engine_counts_messages(deployed: str) -> None:
    await limit(deployed, messages=1_500)
    await query(deployed, KEEP, 1_500)
    await query(deployed, "update shardclock.tenant_usage set counted_at = '2020-01-01'")
    with pytest.raises(asyncpg.PostgresError, match="has a quota of 1500 kept messages, and 1 more would exceed it"):
        await query(deployed, KEEP, 1)


@pytest.mark.parametrize("is_counted", [False, True], ids=["never counted", "counted long ago"])
async def test_a_start_waits_for_no_other_start_and_its_transaction_does_not_fail(
    deployed: str, is_counted: bool
) -> None:
    if is_counted:
        await query(deployed, START, 1)
        await query(deployed, "update shardclock.tenant_usage set counted_at = '2020-01-01'")
    before = await waiting(deployed)
    first = await asyncpg.connect(deployed, server_settings=NO_WAIT)
    other = await asyncpg.connect(deployed, server_settings=NO_WAIT)
    try:
        async with first.transaction():
            await first.fetch(START, 1)
            async with other.transaction(isolation="repeatable_read"):
                await other.fetch("select count(*) from shardclock.tenant_usage")
                await other.fetch(START, 1)
            await other.fetch(START, 1)
        async with other.transaction(isolation="repeatable_read"):
            await other.fetch("select count(*) from shardclock.tenant_usage")
            await first.fetch("update shardclock.tenant_usage set counted_at = '2020-01-01'")
            await other.fetch(START, 1)
    finally:
        await first.close()
        await other.close()
    assert await waiting(deployed) == before + 4


@pytest.mark.parametrize("is_counted", [False, True], ids=["never counted", "counted long ago"])
@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
@pytest.mark.parametrize("asked", [START, KEEP], ids=["starts", "messages"])
async def test_an_open_transaction_of_a_client_switches_no_quota_off(
    deployed: str, is_counted: bool, isolation: Literal["read_committed", "repeatable_read"], asked: str
) -> None:
    await limit(deployed, instances=1_100, messages=1_100)
    if is_counted:
        await query(deployed, asked, 1)
        await query(deployed, "update shardclock.tenant_usage set counted_at = '2020-01-01'")
    first = await asyncpg.connect(deployed, server_settings=NO_WAIT)
    other = await asyncpg.connect(deployed, server_settings=NO_WAIT)
    try:
        async with first.transaction():
            await first.fetch(asked, 1)
            async with other.transaction(isolation=isolation):
                await other.fetch(asked, 1_000)
            with pytest.raises(asyncpg.PostgresError, match="has a quota of 1100 "):
                async with other.transaction(isolation=isolation):
                    await other.fetch(asked, 101)
    finally:
        await first.close()
        await other.close()


@pytest.mark.parametrize("asked", [START, KEEP], ids=["starts", "messages"])
async def test_each_open_transaction_may_use_the_whole_unused_quota_and_no_more(deployed: str, asked: str) -> None:
    await limit(deployed, instances=5, messages=5)
    await query(deployed, asked, 2)
    async with AsyncExitStack() as opened:
        for _ in range(3):
            client = await asyncpg.connect(deployed)
            opened.push_async_callback(client.close)
            await opened.enter_async_context(client.transaction())
            await client.fetch(asked, 3)
            with pytest.raises(asyncpg.PostgresError, match="has a quota of 5 "):
                async with client.transaction():
                    await client.fetch(asked, 1)
    with pytest.raises(asyncpg.PostgresError, match="has a quota of 5 "):
        await query(deployed, asked, 1)
    written = (
        "select count(*) from shardclock.deliveries" if asked == START else "select count(*) from shardclock.messages"
    )
    assert await value(deployed, written) == 5 + (3 - 1) * 3


async def test_an_open_transaction_of_a_client_keeps_no_engine_from_counting(deployed: str) -> None:
    await limit(deployed, instances=1_500)
    client = await asyncpg.connect(deployed)
    try:
        async with client.transaction(), Session(deployed, application="test") as session:
            await client.fetch(START, 1)
            await remaining_quotas(session, ["default"])
            await count_usage(session, age_s=0, batch=100)
            counted_at = (await remaining_quotas(session, ["default"]))["default"]["instances"].counted_at
    finally:
        await client.close()
    assert counted_at is not None
    assert counted_at.year > 1970

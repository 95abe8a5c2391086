"""Test that one member at a time leases a record, that attempts are counted, and that a lost lease permits no write."""

from __future__ import annotations

import pytest

from shardclock.log import AsyncBatch as Batch
from shardclock.log import LeaseLost
from shardclock.log.async_groups import note_failure, open_group
from shardclock.log.async_leasing import lease_batch
from shardclock_server.sql.log.groups import drop_group, reset_group
from tests.support import sql_client
from tests.support.consumers import append, consume_leased, consume_once, group_of, member_session, until
from tests.support.consumers import consuming as at_work
from tests.support.factories import query, value
from tests.support.leases import keys, lease, session
from tests.support.roles import as_role

FAILED = "update shardclock.consumers set attempts = 2"


async def test_a_batch_is_leased_and_acknowledged_in_parts(each_dsn: str) -> None:
    await append(each_dsn, 1, 2, 3)
    async with session(each_dsn) as one, session(each_dsn) as two:
        await open_group(one, "g")
        batch = await lease(one)
        assert keys(batch) == [1, 2, 3]
        assert await lease_batch(two, "g", limit=100) is None, "it is leased"

        await batch.acknowledge(batch.records[1])
        assert [record.timer_key for record in batch.unacknowledged] == [3]
        await batch.give_back(batch.state.position, worked=False)
        assert keys(await lease(two)) == [3]


async def test_no_transaction_is_open_and_no_row_locked_during_leased_work(dsn: str) -> None:
    await append(dsn, 1)
    busy: list[int] = []

    async def work(batch: Batch) -> None:
        busy.append(
            await value(
                dsn,
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'shardclock consumer%' and xact_start is not null",
            )
        )
        await query(dsn, "select from shardclock.consumers for update nowait")

    async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work)) as tasks:
        await until(lambda: busy, *tasks)

    assert busy == [0]


async def test_an_expired_lease_goes_to_another_member_and_is_fenced(dsn: str) -> None:
    await append(dsn, 1, 2)
    async with session(dsn) as frozen, session(dsn) as other:
        await open_group(frozen, "g")
        late = await lease(frozen, lease_s=0.01)
        while (batch := await lease_batch(other, "g", limit=100)) is None:
            pass

        for move in (late.acknowledge(late.records[1]), late.renew(), late.give_back(99, worked=True)):
            with pytest.raises(LeaseLost, match="another member"):
                await move
        assert keys(batch) == [1], "one record at a time: the record that killed the last member is unknown"
        await batch.acknowledge(batch.records[0])
    group = await group_of(dsn)
    assert (group.position, group.failures) == (batch.records[0].position, 1)
    assert str(group.error).endswith("ran out")


async def test_an_expired_lease_that_no_member_took_is_still_valid(dsn: str) -> None:
    await append(dsn, 1)
    async with session(dsn) as member:
        await open_group(member, "g")
        batch = await lease(member, lease_s=0.001)
        while await value(dsn, "select leased_until > clock_timestamp() from shardclock.consumers"):
            pass
        await batch.give_back(batch.records[0].position, worked=True)

    assert (await group_of(dsn)).lag_records == 0


@pytest.mark.parametrize("ends", ["reset", "drop"])
async def test_a_reset_or_a_drop_of_a_group_ends_its_leases(dsn: str, ends: str) -> None:
    await append(dsn, 1, 2)
    async with session(dsn) as member:
        await open_group(member, "g")
        batch = await lease(member)
        async with sql_client.session(dsn, "shard") as operator:
            await (reset_group(operator, "g", position=0) if ends == "reset" else drop_group(operator, "g"))
        if ends == "drop":
            await open_group(member, "g")

        with pytest.raises(LeaseLost):
            await batch.acknowledge(batch.records[0])
        assert keys(await lease(member)) == [1, 2]


async def test_members_with_transactions_and_members_with_leases_can_not_work_at_the_same_time(dsn: str) -> None:
    await append(dsn, 1)
    async with member_session(dsn) as one, session(dsn) as other:
        await open_group(other, "g")

        async def work(*_: object) -> None:
            assert await lease_batch(other, "g", limit=1) is None

        assert await consume_once(one, "g", work) == 1
        await append(dsn, 2)
        await lease(other)
        assert await consume_once(one, "g", work) == 0


async def test_the_attempts_of_a_record_are_reset_when_it_is_acknowledged(dsn: str) -> None:
    await append(dsn, 1, 2, 3)
    async with session(dsn) as member:
        await open_group(member, "g")
        await query(dsn, FAILED)
        batch = await lease(member)
        assert (keys(batch), batch.state.attempts) == ([1], 2)

        await batch.renew()
        assert (await group_of(dsn)).attempts == 2
        await batch.acknowledge(batch.records[0])
        assert (await group_of(dsn)).attempts == 0


async def test_only_a_failed_record_waits_before_its_next_lease(dsn: str) -> None:
    await append(dsn, 1, 2)
    async with session(dsn) as member:
        await open_group(member, "g")
        batch = await lease(member, limit=1)
        await note_failure(member, batch.state, "no 1", alone=True, wait_s=30.0)
        assert await lease_batch(member, "g", limit=1) is None

        await query(dsn, "update shardclock.consumers set not_before = clock_timestamp()")
        batch = await lease(member, limit=1)
        await query(dsn, "update shardclock.consumers set not_before = clock_timestamp() + interval '30 seconds'")
        await batch.give_back(batch.records[0].position, worked=True)
        assert keys(await lease(member)) == [2]

"""Prove that measurements of the tables are right even if all processes are dead, and that estimates are close."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from shardclock_server.metrics.families import TABLE
from shardclock_server.metrics.tables import AGE_EDGES, AGES, ALL_TIME
from shardclock_server.sql.cluster.holders import SHARD, end_holders
from shardclock_server.sql.cluster.leadership import RAMP_PER_S, lead, resign, scale, set_policy, set_ramp
from shardclock_server.sql.metrics.forecast import MINUTES, read_forecast
from shardclock_server.sql.metrics.measures import (
    EVER,
    ClusterMeasures,
    DueCounts,
    count_due,
    measure_cluster,
    measure_tables,
)
from shardclock_server.sql.metrics.status import recent_of
from shardclock_server.sql.scripts import steps
from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import statement
from tests.support.factories import HolderClient, add_holder, add_timers, query, seconds, value
from tests.support.roles import OPERATOR, as_role

NOW = EVER - EVER


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(dsn, "reader"), application="test") as opened:
        yield opened


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(dsn, "shard"), application="test") as opened:
        yield opened


@pytest.fixture
async def each_session(each_dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(each_dsn, "reader"), application="test") as opened:
        yield opened


async def moment(dsn: str) -> datetime:
    """Read Postgres's clock, for tests with a stopped clock."""
    found: datetime = await value(dsn, "select now()")
    return found


# The numbers of due timers


async def test_an_empty_table_has_no_due_timers(each_session: Session) -> None:
    due = await count_due(each_session, (EVER, NOW, seconds(60)))

    assert (list(due.timers), due.estimated) == ([0, 0], False)


async def test_timers_are_counted_between_edges_without_the_later_edge(each_session: Session, each_dsn: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    for offset_s, timers in ((-3600, 1), (-0.000001, 2), (0, 4), (9.999999, 8), (10, 16), (20, 32), (3600, 64)):
        await add_timers(each_dsn, timers, f"'2030-01-01Z'::timestamptz + interval '{offset_s:f} s'")

    due = await count_due(each_session, (EVER, NOW, seconds(10), seconds(20)), now=now)

    assert (list(due.timers), due.estimated) == ([1 + 2, 4 + 8, 16], False)


async def test_the_counts_include_the_earliest_and_the_latest_possible_due_dates(session: Session, dsn: str) -> None:
    await add_timers(dsn, 2, "'0001-01-01Z'::timestamptz")
    await add_timers(dsn, 3, "'9999-12-31 23:59:59.999997Z'::timestamptz")
    await query(dsn, "select shardclock.pause_timer(min(timer_key)) from shardclock.timers")

    assert list((await count_due(session, ALL_TIME)).timers) == [5]
    assert sum((await count_due(session, AGE_EDGES)).timers) == 1, "the paused one is not overdue"


async def test_overdue_timers_are_counted_by_age(session: Session, dsn: str) -> None:
    for late_s, timers in ((0.5, 1), (5, 2), (30, 4), (300, 8), (3600, 16)):
        await add_timers(dsn, timers, f"now() - interval '{late_s} s'")

    due = await count_due(session, AGE_EDGES, now=await moment(dsn))

    assert dict(zip(AGES, due.timers, strict=True)) == {
        "under_1s": 1, "under_10s": 2, "under_1m": 4, "under_10m": 8, "over_10m": 16,
    }  # fmt: skip


KINDS = "now() + case when i % 2 = 0 then interval '30 s' else interval '90 s' end"


async def insert(dsn: str, timers: int) -> None:
    """Insert many timers in pairs: one timer of each pair is due soon, the other timer later."""
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await query(
        dsn,
        f"insert into shardclock.timers (due_date) select {KINDS} from generate_series(1, $1) i",
        timers,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("timers", "estimated"), [(160_000, False), (180_000, True)])
async def test_few_timers_are_counted_and_many_estimated(
    session: Session, dsn: str, timers: int, estimated: bool
) -> None:
    await insert(dsn, timers)

    due = await count_due(session, (NOW, seconds(60), seconds(120)))

    assert due.estimated is estimated
    assert list(due.timers) == pytest.approx([timers / 2] * 2, rel=0.01 if estimated else 0)


@pytest.mark.slow
async def test_very_many_timers_are_estimated_well_from_fewer_slots(session: Session, dsn: str) -> None:
    # The test lowers the limits in the statement, as if the table held twenty times as many rows.
    await insert(dsn, 200_000)
    text = statement("count_due").text.replace("20000", "2001")
    async with session.connection() as connection:
        rows = await connection.fetch(text, [NOW, seconds(60), seconds(120)], None, None, None, None)

    assert [row["timers"] for row in rows] == pytest.approx([100_000] * 2, rel=0.05)
    assert {row["timers"] % 84 for row in rows} == {0}, "ten slots of 840"


async def test_a_forecast_counts_each_of_the_next_fifteen_minutes(session: Session, dsn: str) -> None:
    for minute in range(MINUTES + 1):
        await add_timers(dsn, minute + 1, f"now() + interval '{minute} minutes 5 s'")
    await add_timers(dsn, 70, "now() + interval '3 minutes 31 s'")
    await add_timers(dsn, 9, "now() - interval '1 s'")

    forecast = await read_forecast(session, now=await moment(dsn))

    assert forecast.minutes == [minute + 1 + (70 if minute == 3 else 0) for minute in range(MINUTES)]
    assert forecast.peak_per_s == 7.0
    assert not forecast.estimated


# The row of the cluster's figures


async def measure(dsn: str) -> ClusterMeasures:
    async with Session(as_role(dsn, "reader"), application="test") as session:
        return await measure_cluster(session)


async def test_a_cluster_that_never_started_is_measured_with_zeros(each_session: Session) -> None:
    measured = asdict(await measure_cluster(each_session))

    assert measured.pop("wal_bytes") > 0
    assert measured == {
        "shards_wanted": 2, "shards_min": None, "shards_max": None, "target_per_s": 5000, "ramp_per_s": RAMP_PER_S,
        "leader_alive": False, "shards_alive": 0, "holders_on_hold": 0, "is_held": False, "slots_assigned": 0,
        "workers_wanted": 0, "workers_alive": 0, "paused": 0,
        "oldest_overdue_s": 0.0, "oldest_due_s": 0.0,
        "scheduled": 0, "log_records": 0, "canceled": 0, "rescheduled": 0, "pauses": 0, "resumed": 0,
        "oldest_log_writer_s": 0.0, "oldest_snapshot_s": 0.0, "log_partitions_ahead": 8,
        "schema_version": steps()[-1].version,
    }  # fmt: skip


async def test_an_operators_settings_are_measured(operator: Session, dsn: str) -> None:
    await set_policy(operator, SHARD, wanted_min=3, wanted_max=9, target_per_s=1_000)
    await set_ramp(operator, None)

    measured = await measure(dsn)

    assert (measured.shards_wanted, measured.shards_min, measured.shards_max) == (3, 3, 9)
    assert (measured.target_per_s, measured.ramp_per_s) == (1_000, None)
    await scale(operator, SHARD, 4)
    assert (await measure(dsn)).shards_min is None


async def test_a_leader_is_alive_until_its_lease_ends(operator: Session, dsn: str) -> None:
    await lead(operator, 1, cluster_id="blue", lease_s=60.0, fresh=True)
    assert (await measure(dsn)).leader_alive

    await query(dsn, "update shardclock.leadership set lease_until = now() - interval '1 ms'")
    assert not (await measure(dsn)).leader_alive

    await lead(operator, 1, cluster_id="blue", lease_s=60.0, fresh=True)
    await resign(operator, 1)
    assert not (await measure(dsn)).leader_alive


async def test_slots_are_assigned_by_shards_with_a_recent_heartbeat(dsn: str) -> None:
    for shard in range(3):
        await add_holder(dsn, 10 + shard, shard, 3)
    await add_holder(dsn, 20, None, None)
    whole = await measure(dsn)

    await query(dsn, "update shardclock.beats set seen_at = now() - interval '6 s' where holder = 10")
    silent = await measure(dsn)
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await end_holders(session, [11], why="test")
    ended = await measure(dsn)
    await query(dsn, "update shardclock.beats set seen_at = now() - interval '1 h'")
    dead = await measure(dsn)

    found = [(one.shards_alive, one.slots_assigned) for one in (whole, silent, ended, dead)]
    assert found == [(3, 840), (2, 560), (1, 280), (0, 0)]


async def test_slots_that_two_shards_keep_for_a_moment_are_counted_once(dsn: str) -> None:
    for holder, shard, of in ((1, 0, 2), (2, 1, 2), (3, 2, 3)):
        await add_holder(dsn, holder, shard, of)

    measured = await measure(dsn)

    assert (measured.shards_alive, measured.slots_assigned) == (3, 840)


@pytest.mark.parametrize(("oldest_s", "recent_s"), [(0.0, 12.0), (3_600.0, 3_612.0)])
def test_the_search_for_the_oldest_timer_covers_the_counted_range(oldest_s: float, recent_s: float) -> None:
    due = DueCounts([1, 2], estimated=False, oldest_overdue_s=oldest_s)

    assert recent_of(due, took_s=2.0) == seconds(recent_s)
    assert recent_of(replace(due, estimated=True), took_s=2.0) is None


async def test_overdue_timers_are_counted_even_if_every_shard_is_dead(dsn: str) -> None:
    await add_timers(dsn, 3, "now() - interval '1 hour' - i * interval '1 minute'")
    await add_timers(dsn, 3, "now() + interval '1 hour'")

    measured = await measure(dsn)

    assert measured.shards_alive == 0
    assert 3_780 <= measured.oldest_overdue_s < 3_840


async def test_paused_timers_are_neither_overdue_nor_fired(dsn: str) -> None:
    keys = await add_timers(dsn, 5, "now() - interval '1 hour'")
    await add_timers(dsn, 1, "'9999-12-31 23:59:59.999997Z'::timestamptz")
    for key in keys[:3]:
        await query(dsn, "select shardclock.pause_timer($1)", key)
    await query(dsn, "delete from shardclock.timers where paused_due_date is null")

    measured = await measure(dsn)

    assert (measured.paused, measured.oldest_overdue_s, measured.pauses) == (3, 0.0, 3)


async def test_keys_and_records_are_counted_as_they_are_drawn(dsn: str) -> None:
    keys = await add_timers(dsn, 7)
    await query(dsn, "select shardclock.cancel_timer($1)", keys[0])

    measured = await measure(dsn)

    assert (measured.scheduled, measured.log_records) == (7, 1)
    await query(dsn, "delete from shardclock.timers")
    assert (await measure(dsn)).scheduled == 7, "a count never falls"


async def test_written_log_grows(dsn: str) -> None:
    before = (await measure(dsn)).wal_bytes
    await add_timers(dsn, 100)

    assert (await measure(dsn)).wal_bytes > before


# Transactions that hold Postgres back


async def test_the_oldest_log_writer_and_the_oldest_snapshot_are_distinguished(dsn: str) -> None:
    (key,) = await add_timers(dsn, 1)
    async with HolderClient(dsn) as writes, HolderClient(dsn) as reads:
        await reads.begin()
        await reads.connection.execute("set transaction isolation level repeatable read")
        await reads.value("select count(*) from shardclock.timers")
        read_only = await measure(dsn)
        await writes.begin()
        await writes.value("select shardclock.schedule_timer(delay => 'PT1H')")
        assert (await measure(dsn)).oldest_log_writer_s == 0.0, "it wrote no record"
        await writes.cancel(timer_key=key)
        both = await measure(dsn)
        await writes.commit()
        await reads.rollback()

    assert read_only.oldest_log_writer_s == 0.0
    assert 0.0 < read_only.oldest_snapshot_s < both.oldest_snapshot_s < 30.0
    assert 0.0 < both.oldest_log_writer_s < both.oldest_snapshot_s
    after = await measure(dsn)
    assert (after.oldest_log_writer_s, after.oldest_snapshot_s) == (0.0, 0.0)


@pytest.mark.parametrize(("dropped", "ahead"), [([], 8), ([7], 7), ([3, 5], 3), ([0], 0)])
async def test_days_with_a_partition_are_counted_up_to_the_first_day_without_a_partition(
    each_dsn: str, dropped: list[int], ahead: int
) -> None:
    for days in dropped:
        day = await value(each_dsn, "select to_char((now() at time zone 'UTC')::date + $1::integer, 'YYYYMMDD')", days)
        await query(each_dsn, f"drop table shardclock.command_log_{day}")

    assert (await measure(each_dsn)).log_partitions_ahead == ahead


async def test_a_measurement_neither_waits_for_locks_nor_holds_locks(dsn: str) -> None:
    (key,) = await add_timers(dsn, 1)
    async with HolderClient(dsn, role=OPERATOR) as client:
        await client.begin()
        await client.value("update shardclock.scale set wanted = 5 returning 1")
        await client.value("select shardclock.cancel_timer($1)", key)

        async with asyncio.timeout(10):
            measured = await measure(dsn)

        assert measured.shards_wanted == 2


# The tables


async def test_each_table_is_measured_and_the_logs_partitions_count_as_one_table(
    each_session: Session, each_dsn: str
) -> None:
    await add_timers(each_dsn, 100)

    found = {one.table_name: one for one in await measure_tables(each_session)}

    assert TABLE.values <= found.keys()
    assert not [name for name in found if name.startswith("command_log_")]
    assert found["timers"].bytes > 0
    assert all(min(one.live_rows, one.dead_rows) >= 0 for one in found.values())


async def test_live_and_dead_rows_are_postgres_own_counts(dsn: str, session: Session) -> None:
    keys = await add_timers(dsn, 100)
    await query(dsn, "delete from shardclock.timers where timer_key <= $1", keys[29])
    await query(dsn, "select shardclock.cancel_timers(array(select timer_key from shardclock.timers limit 9))")
    await query(dsn, "select pg_stat_force_next_flush()")  # a session reports its counts only at its end, or on request
    await query(dsn, "analyze shardclock.timers, shardclock.command_log")

    found = {one.table_name: one for one in await measure_tables(session)}

    assert (found["timers"].live_rows, found["timers"].dead_rows) == (61, 39)
    assert found["command_log"].live_rows == 9

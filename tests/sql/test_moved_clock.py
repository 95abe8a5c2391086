"""Prove that a moved clock affects only its own database, and that no process serves this database by mistake."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.cluster.database import Database, wait_until_ready
from shardclock_server.cluster.testing import SteppedCluster, cluster
from shardclock_server.gateway.serving import serve
from shardclock_server.gateway.settings import CannotServe, GatewaySettings
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.stepped import SteppedShard
from shardclock_server.sql.clock.moved import ClockMoved, move, next_due, require_real_clock
from shardclock_server.sql.cluster.holders import beat
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused
from shardclock_server.timers.model import SLOTS
from tests.support import ROOT
from tests.support.factories import query, value
from tests.support.shard_pool import incarnation

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOT_MOVED = re.compile(
    r"(?<!')\b(?:current_timestamp|current_date|current_time|localtimestamp|localtime|timeofday)\b|'(?:now|today)'",
    re.IGNORECASE,
)
CLOCKS = ("now()", "pg_catalog.now()", "clock_timestamp()", "statement_timestamp()", "transaction_timestamp()")


@pytest.fixture
async def sc() -> AsyncIterator[SteppedCluster]:
    """Run a cluster with a moved clock."""
    async with cluster(now=BEGIN) as made:
        yield made


@pytest.mark.parametrize("clock", CLOCKS)
async def test_each_clock_of_the_database_shows_the_set_time(sc: SteppedCluster, clock: str) -> None:
    await sc.advance(timedelta(days=400_000, microseconds=1))

    assert await value(sc.dsn, f"select {clock}") == BEGIN + timedelta(days=400_000, microseconds=1)


async def test_a_scan_ends_after_the_rows_that_are_due_by_the_moved_clock(sc: SteppedCluster) -> None:
    async with Session(sc.dsn, application="test", plans=QUEUE_PLANS) as session, session.connection() as connection:
        plan = await connection.fetch("explain select from shardclock.timers where slot = 1 and due_date <= now()")

    (condition,) = [row[0].strip() for row in plan if "Cond" in row[0]]
    assert condition.startswith("Index Cond: ((slot = 1) AND (due_date <= (pg_sequence_last_value(")


async def test_the_slot_is_returned_if_all_due_timers_are_in_the_same_slot(sc: SteppedCluster) -> None:
    keys = [await value(sc.dsn, "select shardclock.schedule_timer(delay => 'PT0S')") for _ in range(3)]
    async with Session(sc.dsn, application="test") as session:
        several = await next_due(session)
        await query(sc.dsn, "select shardclock.cancel_timer(timer_key => $1)", keys[0])
        await query(sc.dsn, "select shardclock.cancel_timer(timer_key => $1)", keys[1])
        alone = await next_due(session)

    assert several is not None
    assert several.slot is None
    assert alone is not None
    assert (alone.timer_key, alone.slot) == (keys[2], keys[2] % SLOTS)


@pytest.mark.parametrize(
    ("until_s", "stands_at_s"), [(None, 0), (59, 0), (60, 60), (61, 60)], ids=["no-moment", "before", "at", "after"]
)
async def test_the_clock_goes_to_the_next_due_date_but_not_past_a_moment(
    sc: SteppedCluster, until_s: int | None, stands_at_s: int
) -> None:
    await value(sc.dsn, "select shardclock.schedule_timer(delay => 'PT60S')")
    until = None if until_s is None else BEGIN + timedelta(seconds=until_s)
    async with Session(sc.dsn, application="test") as session:
        due = await next_due(session, until=until)

    assert due is not None
    assert due.due_at == BEGIN + timedelta(seconds=60)
    assert await value(sc.dsn, "select now()") == BEGIN + timedelta(seconds=stands_at_s)


async def test_the_clock_does_not_go_back_to_an_overdue_timer(sc: SteppedCluster) -> None:
    await value(sc.dsn, "select shardclock.schedule_timer(delay => 'PT1S')")
    await query(sc.dsn, "select shardclock_clock.move_to($1)", BEGIN + timedelta(minutes=1))
    async with Session(sc.dsn, application="test") as session:
        due = await next_due(session, until=BEGIN + timedelta(hours=1))

    assert due is not None
    assert due.due_at == BEGIN + timedelta(seconds=1)
    assert await value(sc.dsn, "select now()") == BEGIN + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("until_s", "fire_until_s", "fired"),
    [(60, 60, 2), (61, 61, 2), (60, 59, 0), (60, None, 0), (59, 61, 0)],
    ids=["at", "after", "before", "never", "not-reached"],
)
async def test_the_timers_fire_when_the_clock_reaches_their_due_dates(
    sc: SteppedCluster, until_s: int, fire_until_s: int | None, fired: int
) -> None:
    for delay in ("PT60S", "PT60S", "PT61S"):
        await value(sc.dsn, "select shardclock.schedule_timer(delay => $1)", delay)
    fire_until = None if fire_until_s is None else BEGIN + timedelta(seconds=fire_until_s)
    async with Session(sc.dsn, application="test") as session:
        due = await next_due(session, until=BEGIN + timedelta(seconds=until_s), fire_until=fire_until)

    assert due is not None
    assert due.fired == fired
    assert await value(sc.dsn, "select count(*) from shardclock.timers") == 3 - fired
    records = await query(sc.dsn, "select recorded_at from shardclock.command_log where intent = 'TRIGGERED'")
    assert [row["recorded_at"] for row in records] == [BEGIN + timedelta(seconds=60)] * fired


async def test_if_one_of_the_due_timers_is_a_schedule_all_wait_for_the_shard(sc: SteppedCluster) -> None:
    end = BEGIN + timedelta(seconds=60)
    await value(sc.dsn, "select shardclock.schedule_timer(delay => 'PT60S')")
    await value(sc.dsn, "select shardclock.schedule_timer(schedule => 'R/PT60S')")
    await sc.advance(to=end - timedelta(seconds=1))
    async with Session(sc.dsn, application="test") as session:
        due = await next_due(session, until=end, fire_until=end)

    assert due is not None
    assert (due.due_at, due.fired) == (end, 0)
    assert await value(sc.dsn, "select count(*) from shardclock.timers") == 2


def test_our_sql_reads_no_clock_that_can_t_be_moved() -> None:
    texts = {path: path.read_text() for path in (ROOT / "sql").rglob("*.sql")}

    assert {path.name: found for path, text in texts.items() if (found := NOT_MOVED.findall(text))} == {}


async def test_a_database_of_a_cluster_has_postgres_s_own_clock(dsn: str) -> None:
    async with Session(dsn, application="test") as session:
        await require_real_clock(session)

        with pytest.raises(StatementRefused):
            await move(session, BEGIN)
    assert await value(dsn, "select now()") > BEGIN


async def test_up_refuses_a_database_whose_clock_is_moved(sc: SteppedCluster) -> None:
    with pytest.raises(ClockMoved, match=r"a test moves the clock of this database .* SHARDCLOCK_DSN"):
        await wait_until_ready(Database(Dsn(sc.dsn)), tell=lambda _: None)


async def test_a_gateway_refuses_a_database_whose_clock_is_moved(sc: SteppedCluster) -> None:
    with pytest.raises(CannotServe, match="a test moves the clock"):
        await serve(GatewaySettings(gateway_port=0), sc.dsn, tell=lambda _: None)


async def test_a_clusters_shard_on_a_moved_clock_is_on_hold_and_fires_nothing(sc: SteppedCluster) -> None:
    stranger = SteppedShard(incarnation(), ShardSettings(), sc.dsn)
    await stranger.begin()
    await query(sc.dsn, "update shardclock.holders set part = 0, part_count = 1 where holder = $1", stranger.holder)
    await query(sc.dsn, "select shardclock.schedule_timer(delay => 'PT0S')")

    await stranger.step()
    async with Session(sc.dsn, application="test") as session:
        answer = await beat(session, stranger.holder, held=0)
    await stranger.end()

    assert await value(sc.dsn, "select count(*) from shardclock.timers") == 1
    assert answer is not None
    assert (
        answer.hold_reason == "the database belongs to shardclock.testing, and the cluster has no SHARDCLOCK_IDENTITY"
    )


async def test_a_pause_that_postgres_refuses_to_end_is_the_error_of_the_advance(sc: SteppedCluster) -> None:
    await query(sc.dsn, "select shardclock.schedule_timer(delay => 'PT2H', name => 'odd')")
    await query(sc.dsn, "select shardclock.pause_timer(name => 'odd', until => now() + interval '1 hour')")
    await query(sc.dsn, "alter table shardclock.timers disable trigger check_changed_timer")
    await query(sc.dsn, "update shardclock.timers set timer_type = 'ODD'")
    await query(sc.dsn, "alter table shardclock.timers enable always trigger check_changed_timer")

    with pytest.raises(StatementRefused, match="timer_type"):
        await sc.advance("PT3H")

"""The coordinator regularly creates and drops the log's partitions; a failure does not delay its other work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from shardclock_server.coordinator import retention
from shardclock_server.coordinator.retention import Retention
from shardclock_server.sql.session import Session
from tests.support.factories import live_through, query, value
from tests.support.roles import as_role

DAY = timedelta(days=1)
RECORD = (
    "insert into shardclock.command_log"
    " (recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target)"
    " values ($1, 1, $1, $1, 1, 'TRIGGERED', 'default', 'USER', 'log')"
)


async def add_day(dsn: str, days_ago: int) -> datetime:
    """Make the partition of a past day, with a record in it."""
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - days_ago * DAY
    await query(
        as_role(dsn, "owner"),
        f"create table shardclock.command_log_{day:%Y%m%d} partition of shardclock.command_log"
        f" for values from ('{day:%Y-%m-%d}+00') to ('{day + DAY:%Y-%m-%d}+00')",
    )
    await query(dsn, RECORD, day + DAY / 2)
    await live_through(dsn, days_ago)
    return day


async def days(dsn: str) -> set[str]:
    """Name the days that have partitions, as YYYYMMDD."""
    rows = await query(dsn, "select relname from pg_class where relname ~ '^command_log_[0-9]{8}$'")
    return {row["relname"][-8:] for row in rows}


async def test_a_turn_creates_the_partitions_of_the_next_week_and_drops_old_partitions(
    dsn: str, session: Session
) -> None:
    old, older, kept = [f"{await add_day(dsn, ago):%Y%m%d}" for ago in (32, 33, 29)]
    tomorrow = f"{datetime.now(UTC) + DAY:%Y%m%d}"
    await query(dsn, f"drop table shardclock.command_log_{tomorrow}")

    await Retention(session, keep_days=30).turn()

    assert {kept, tomorrow} <= await days(dsn)
    assert not {old, older} & await days(dsn)


async def test_the_next_check_of_the_partitions_waits_for_its_time(
    dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    hourly, eager = Retention(session, keep_days=30), Retention(session, keep_days=30)
    await hourly.turn()
    monkeypatch.setattr(retention, "EVERY_S", 0.0)
    await eager.turn()
    old = f"{await add_day(dsn, 40):%Y%m%d}"

    await hourly.turn()
    assert old in await days(dsn)
    await eager.turn()
    assert old not in await days(dsn)


async def test_an_unread_day_is_kept_and_named_once(
    dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVERY_S", 0.0)
    day = f"{await add_day(dsn, 40):%Y%m%d}"
    await query(dsn, "insert into shardclock.consumers (group_name) values ('billing')")
    structlog.reset_defaults()

    with capture_logs() as logs:
        keeper = Retention(session, keep_days=30)
        for _ in range(3):
            await keeper.turn()

    assert day in await days(dsn)
    assert [(log["event"], log["group"]) for log in logs] == [("a day of the log waits for its reader", "billing")]


async def test_a_locked_log_is_retried_later_and_delays_no_session(
    dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RETRY_S", 0.0)
    monkeypatch.setattr(retention, "EVERY_S", 0.0)
    day = f"{await add_day(dsn, 40):%Y%m%d}"
    keeper = Retention(session, keep_days=30)
    async with Session(as_role(dsn, "reader"), application="test") as reader, reader.transaction() as connection:
        await connection.fetch("select from shardclock.command_log limit 1")
        await keeper.turn()
        assert day in await days(dsn)

    await keeper.turn()

    assert day not in await days(dsn)


async def test_holders_are_deleted_with_the_days_of_their_firings(dsn: str, session: Session) -> None:
    for holder, ended in ((1, "now() - interval '31 days'"), (2, "now() - interval '29 days'"), (3, "null")):
        await query(
            dsn,
            "insert into shardclock.holders (holder, cluster_id, actor_name, node_id, host, pid, ended_at, ended_why)"
            f" select $1, '', '', '', '', 1, {ended}, case when {ended} is not null then 'test' end",
            holder,
        )

    await Retention(session, keep_days=30).turn()

    assert await value(dsn, "select array_agg(holder order by holder) from shardclock.holders") == [2, 3]

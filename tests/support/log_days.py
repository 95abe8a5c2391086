"""Put records on days of the log, and find their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial

from shardclock.log import LogRecord
from shardclock.log.async_reading import read_log
from shardclock_server.sql.session import Connection, Session
from tests.support import sql_client
from tests.support.factories import live_through, query
from tests.support.roles import OPERATOR, as_role

session = partial(sql_client.session, role=OPERATOR)
RECORDS = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target
    )
    select $1::date::timestamp at time zone 'UTC' + i * interval '1 minute', $2 * 1000 + i, now(), now(), 1,
        'TRIGGERED', 'default', 'USER', 'log'
    from generate_series(1, $3) i
"""


def day_ahead(ahead: int) -> date:
    return datetime.now(UTC).date() + timedelta(days=ahead)


def days_ahead(first: int, last: int) -> list[str]:
    return [day_ahead(ahead).strftime("%Y%m%d") for ahead in range(first, last + 1)]


async def partitions(dsn: str) -> list[str]:
    text = "select inhrelid::regclass::text from pg_inherits where inhparent = 'shardclock.command_log'::regclass"
    return sorted(row[0].removeprefix("shardclock.command_log_") for row in await query(dsn, text))


async def homes(dsn: str) -> dict[str, int]:
    """Count the records in each non-empty partition."""
    text = "select tableoid::regclass::text, count(*) from shardclock.command_log group by 1 order by 1"
    return {row[0].removeprefix("shardclock.command_log_"): row[1] for row in await query(dsn, text)}


async def add_records(dsn: str, ahead: int, count: int = 3, *, partition: bool = True) -> None:
    """Write records of a past day, either into a partition of this day or into the default partition."""
    if partition:
        text = f"create table shardclock.command_log_{days_ahead(ahead, ahead)[0]} partition of shardclock.command_log"
        await query(
            as_role(dsn, "owner"),
            f"{text} for values from ('{day_ahead(ahead)} 00:00+00') to ('{day_ahead(ahead + 1)} 00:00+00')",
        )
    await query(dsn, RECORDS, day_ahead(ahead), -ahead, count)
    await live_through(dsn, -ahead)


async def lose(dsn: str, *names: str) -> None:
    for name in names:
        await query(dsn, f"drop table shardclock.command_log_{name}")


async def read_keys(reader: Session) -> list[int]:
    return [record.timer_key for record in await read_log(reader)]


async def nothing(connection: Connection, records: Sequence[LogRecord]) -> None:
    """Do nothing with the records."""

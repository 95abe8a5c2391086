"""Judge a run only from its recorded rows: S1 to S5 of docs/promises.md."""

from __future__ import annotations

from collections.abc import Collection

import asyncpg

# Each query returns the timer_keys that break a promise.
CHECKS = {
    "S1 early": """
        select timer_key from shardclock.command_log where intent = 'TRIGGERED' and recorded_at < due_date
    """,
    "S2 lost": """
        select a.timer_key
        from unnest($1::bigint[]) as a (timer_key)
        where not exists (select from shardclock.timers t where t.timer_key = a.timer_key)
            and not exists (
                select from shardclock.command_log l
                where l.timer_key = a.timer_key and l.intent in ('TRIGGERED', 'CANCELED', 'SKIPPED')
            )
    """,
    "S3 double": """
        select timer_key from shardclock.command_log where intent = 'TRIGGERED' group by timer_key having count(*) > 1
    """,
    "S3 occurrence fired twice": """
        select min(timer_key)
        from shardclock.command_log
        where intent = 'TRIGGERED' and schedule is not null
        group by tenant_id, name, occurrence
        having count(*) > 1
    """,
    "S4 fired and cancelled": """
        select timer_key
        from shardclock.command_log
        group by timer_key
        having bool_or(intent = 'TRIGGERED') and bool_or(intent = 'CANCELED')
    """,
    "S4 ended and still pending": """
        select timer_key
        from shardclock.timers t
        where exists (
            select from shardclock.command_log l
            where l.timer_key = t.timer_key and l.intent in ('TRIGGERED', 'CANCELED')
        )
    """,
    "fired at a due date that it was moved from": """
        select f.timer_key
        from shardclock.command_log f
        join (
            select distinct on (timer_key) timer_key, (detail ->> 'due_date')::timestamptz as due_date
            from shardclock.command_log
            where intent = 'RESCHEDULED'
            order by timer_key, position desc
        ) moved on moved.timer_key = f.timer_key and moved.due_date <> f.due_date
        where f.intent = 'TRIGGERED'
    """,
    "S5 occurrences out of order": """
        select timer_key
        from (
            select
                timer_key, occurrence,
                lag(occurrence) over (partition by tenant_id, name order by position) as last
            from shardclock.command_log
            where intent = 'TRIGGERED' and schedule is not null
        ) f
        where occurrence <= last
    """,
    "S5 occurrences missing without a record": """
        select timer_key
        from (
            select
                timer_key, occurrence, intent, (detail ->> 'count')::bigint as skipped,
                lead(occurrence) over (partition by tenant_id, name order by position) as following
            from shardclock.command_log
            where intent in ('TRIGGERED', 'SKIPPED') and schedule is not null
        ) f
        where following <> occurrence + coalesce(skipped, 1)
    """,
}


async def breaches(db: asyncpg.Connection, acknowledged: Collection[int]) -> dict[str, list[int]]:
    """Name each promise that the recorded rows break, with timers that show it; empty if no promise is broken.

    The caller must check that timers fired at all: an empty log breaks only S2.
    """
    found = {}
    async with db.transaction():
        # Without ANALYZE the planner expects few rows in the log, and would compare each pair of rows.
        await db.execute("set local enable_nestloop = off")
        for name, text in CHECKS.items():
            rows = await db.fetch(text, *([list(acknowledged)] if "$1" in text else []))
            if rows:
                found[name] = sorted(row[0] for row in rows)[:10]
    return found

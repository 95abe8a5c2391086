"""Fire many schedules that repeat each second."""

import asyncio
import time

from benchmarks.cases.case import LAGS, Case, Figure, Figures, NotForIt, Part, lags_of
from benchmarks.contenders import OnRay, Peer, each_peer
from benchmarks.contenders.contender import Contender

SCHEDULES = 100_000
SECONDS = 60
WARM_S = 15
PUT = """
    insert into shardclock.timers (due_date, name, schedule, anchor, anchor_occurrence, repetitions)
    select at, 'beat ' || n, 'R/PT1S', at, 1, -1
    from (
        select n, now() + interval '5 s' + n * interval '1 s' / $1::integer as at
        from generate_series(1, $1::integer) n
    ) t
"""
WHY_NOT = {
    "graphile-worker": "not measured: the smallest period of its schedules is a minute",
    "pg-boss": "not measured: the smallest period of its schedules is a minute",
    "pgqueuer": "not measured: its schedules are part of the program's code",
    "procrastinate": "not measured: its schedules are part of the program's code",
    "apscheduler": "too slow at this size: see `drain`",
}
SKIPPED = """
    select coalesce(sum((detail ->> 'count')::bigint), 0) from shardclock.command_log where intent = 'SKIPPED'
"""


async def measure(contender: Contender) -> Figures:
    """Let the schedules fire for a minute; count the firings after the first seconds."""
    if isinstance(contender, Peer):
        raise NotForIt(WHY_NOT[contender.kind.package])
    assert isinstance(contender, OnRay)
    async with contender.session() as session, session.connection(timeout_s=300) as connection:
        await connection.execute(PUT, SCHEDULES)
    await contender.start()
    began_s = time.time()
    await asyncio.sleep(SECONDS)
    fired = [it for it in await contender.firings() if began_s + WARM_S <= it.fired_s < began_s + SECONDS]
    async with contender.session() as session, session.connection(timeout_s=300) as connection:
        skipped = float(await connection.fetchval(SKIPPED))
    return {**lags_of(fired), "per_s": len(fired) / (SECONDS - WARM_S), "skipped": skipped}


CASE = Case(
    "repeat",
    "A hundred thousand schedules that repeat each second",
    f"{SCHEDULES:,} schedules of PT1S run for a minute, so 100,000 occurrences a second are due. If several"
    " occurrences of a schedule are overdue, one of them fires, and the log records the others as skipped (`missed`"
    " is `fire_once`).",
    (
        Part(
            "",
            (
                Figure("per_s", "occurrences fired a second", "cps", more_is_better=True),
                Figure("skipped", "skipped", ""),
                *LAGS,
            ),
        ),
    ),
    lambda: [OnRay(2), *each_peer()],
    measure,
)

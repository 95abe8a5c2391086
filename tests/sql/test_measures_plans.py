"""Prove that measurements read few rows, however many timers are pending, and so do not slow down claims."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shardclock_server.coordinator.scaling import Scaling
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.metrics.table_reader import TableReader
from shardclock_server.metrics.tables import AGE_EDGES, ALL_TIME
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.metrics.forecast import EDGES, read_forecast
from shardclock_server.sql.metrics.measures import EVER, count_due
from shardclock_server.sql.metrics.status import OVERDUE_EDGES
from shardclock_server.sql.session import QUEUE_PLANS, Session
from tests.support.factories import add_timers, query, value
from tests.support.plans import DUE, FAR, SLOTS, counting, prepare, window_values
from tests.support.roles import as_role

pytestmark = pytest.mark.slow
PENDING = FAR + DUE
COUNTED_BELOW = 1_000_000  # `status` counts up to this number of rows, and uses the planner's estimate for more rows.
# Sessions of commands have the planner's own settings.
PLANS: list[dict[str, str]] = [{}, {"enable_seqscan": "on", "enable_bitmapscan": "on", "plan_cache_mode": "auto"}]
SCANS = {"Index Scan", "Index Only Scan"}


@pytest.mark.parametrize("plans", PLANS, ids=["queue", "command"])
@pytest.mark.parametrize(
    "edges",
    [counting(ALL_TIME), counting(OVERDUE_EDGES, "now() + interval '3 days'")],
    ids=["all timers", "all timers are overdue"],
)
async def test_a_count_of_very_many_timers_reads_an_eighth_of_the_timers(
    many: str, plans: dict[str, str], edges: list[str]
) -> None:
    count = await prepare(many, "count_due", **plans)

    reader = await count.explain(*edges)

    assert 0 < reader.rows <= PENDING * (10 + 60) / SLOTS * 1.1
    assert plans or reader.scans <= SCANS
    await count.connection.close()


@pytest.mark.exhaustive
async def test_a_count_of_overdue_timers_reads_only_overdue_timers(many: str) -> None:
    count = await prepare(many, "count_due")

    reader = await count.explain(*counting(AGE_EDGES))

    assert DUE <= reader.rows <= DUE * (1 + 10 / SLOTS) * 1.1
    assert reader.scans <= SCANS
    await count.connection.close()


async def test_a_forecast_of_a_quiet_quarter_of_an_hour_reads_nothing(many: str) -> None:
    count = await prepare(many, "count_due")

    reader = await count.explain(*counting(EDGES))

    assert reader.rows == 0
    assert reader.scans <= SCANS
    assert reader.pages <= 6 * (SLOTS + 10) + 20, "a descent of the index for each slot"
    await count.connection.close()


async def test_a_forecast_of_a_busy_quarter_of_an_hour_reads_its_timers(many: str) -> None:
    count = await prepare(many, "count_due")
    in_a_day = "now() + interval '1 day 1 minute'"

    reader = await count.explain(*counting(EDGES, in_a_day))

    in_it = EDGES[-1].total_seconds() * 10
    assert in_it * 0.9 <= reader.rows <= in_it * 1.1
    await count.connection.close()


async def test_measuring_the_cluster_takes_two_probes_for_each_slot(many: str) -> None:
    measure = await prepare(many, "measure_cluster")

    reader = await measure.explain(*window_values())

    assert reader.rows <= SLOTS
    assert reader.scans <= SCANS
    await measure.connection.close()


@pytest.mark.parametrize("plans", PLANS)
async def test_status_also_reads_one_overdue_timer_for_each_slot(many: str, plans: dict[str, str]) -> None:
    status = await prepare(many, "read_status", **plans)
    was = await value(many, "select reltuples from pg_class where oid = 'shardclock.timers'::regclass")
    for estimate, counted in ((COUNTED_BELOW - 1, PENDING), (COUNTED_BELOW, 0)):
        await status.connection.execute(ESTIMATE, estimate)

        assert (await status.explain("null")).rows <= SLOTS + counted
        assert (await status.explain("'0 s'")).rows == counted
    await status.connection.execute(ESTIMATE, was)
    await status.connection.close()


ESTIMATE = "update pg_class set reltuples = $1 where oid = 'shardclock.timers'::regclass"


async def test_an_estimate_of_very_many_timers_is_close(many: str) -> None:
    async with Session(as_role(many, "reader"), application="test") as session:
        exact = [row[0] for row in await query(many, COUNT)]
        due = await count_due(session, (EVER, EVER - EVER, timedelta(days=1, hours=4), timedelta(days=400)))

    assert due.estimated
    assert list(due.timers) == pytest.approx(exact, rel=0.02)


COUNT = """
select count(*) from shardclock.timers
group by width_bucket(due_date, array[now(), now() + interval '1 day 4 hours'])
order by width_bucket(due_date, array[now(), now() + interval '1 day 4 hours'])
"""


async def test_a_forecast_equals_the_coming_timers(many: str) -> None:
    async with Session(as_role(many, "reader"), application="test") as session:
        now = await value(many, "select now() + interval '1 day 1 hour'")
        forecast = await read_forecast(session, now=now)

    assert not forecast.estimated
    assert forecast.minutes == pytest.approx([600] * 15, abs=1)
    assert forecast.peak_per_s == pytest.approx(10.0, rel=0.02)


@pytest.mark.exhaustive
async def test_plans_from_an_empty_table_remain_good_when_the_table_is_full(each_dsn: str) -> None:
    await query(each_dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    count, measure = await prepare(each_dsn, "count_due"), await prepare(each_dsn, "measure_cluster")
    for _ in range(7):
        await count.explain(*counting(EDGES))
        await measure.explain(*window_values())
    await add_timers(each_dsn, 20_000, "now() + interval '1 day'")
    await add_timers(each_dsn, 1_000)

    assert (await count.explain(*counting(AGE_EDGES))).rows == pytest.approx(1_000, rel=0.25)
    assert (await measure.explain(*window_values())).rows <= SLOTS
    for one in (count, measure):
        await one.connection.close()


def test_repeated_measurements_use_these_plans() -> None:
    async def ask_for_none(shards: int) -> None:
        raise AssertionError(shards)

    async def sessions() -> list[Session]:
        dsn = "postgresql://postgres:@nowhere/x"
        scaling = Scaling(
            SHARD, CoordinatorSettings(), Session(as_role(dsn, "reader"), application="test"), ask_for_none
        )
        return [TableReader(dsn)._session, scaling._session_of_readings]

    for session in asyncio.run(sessions()):
        assert QUEUE_PLANS.items() <= session._server_settings.items()

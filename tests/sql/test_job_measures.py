"""Prove the measurements of jobs: the wait of starts, the last start's delay, and the age of an overdue success."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import advance_runs
from shardclock_server.sql.metrics.deliveries import measure_deliveries
from shardclock_server.sql.metrics.jobs import JobMeasures, JobsMeasured, measure_jobs
from shardclock_server.sql.session import QUEUE_PLANS, Session
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec
from tests.support.plans import prepare
from tests.support.roles import as_role

pytestmark = pytest.mark.each_version

EVERY: dict[str, Any] = {"every_s": 900.0}
HOURLY: dict[str, Any] = {"schedule": "R/PT1H"}
FAILED, CRASHED = RunOutcome.FAILED, RunOutcome.CRASHED


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    """Yield a session like the exporter's."""
    async with Session(as_role(dsn, "reader"), application="test", plans=QUEUE_PLANS) as opened:
        yield opened


async def measured(session: Session, *, in_s: float = 0.0) -> JobsMeasured:
    async with session.connection() as connection:
        now = await connection.fetchval("select now()")
    return await measure_jobs(session, now=now + timedelta(seconds=in_s))


async def of(session: Session, name: str = "refresh", *, in_s: float = 0.0) -> JobMeasures:
    (job,) = [job for job in (await measured(session, in_s=in_s)).jobs if job.name == name]
    return job


async def age(dsn: str, column: str, by_s: float, name: str = "refresh") -> None:
    text = f"update shardclock.jobs set {column} = {column} - $1::double precision * interval '1 s' where name = $2"
    await query(dsn, text, by_s, name)


async def add_run(dsn: str, *, scheduled_s_ago: float, name: str = "refresh", **columns: Any) -> None:
    """Insert a run that began a second after it was due, and failed."""
    facts = {"outcome": "FAILED", "attempt": 1} | columns
    await query(
        dsn,
        "insert into shardclock.job_runs (timer_key, claims, job, outcome, attempt, scheduled_at, started_at, ended_at)"
        " select coalesce(max(timer_key), 0) + 1, 1, $1, $2, $3, now() - $4::double precision * interval '1 s',"
        " now() - ($4 - 1) * interval '1 s', now() - ($4 - 3) * interval '1 s' from shardclock.job_runs",
        name, facts["outcome"], facts["attempt"], scheduled_s_ago,
    )  # fmt: skip


# Waiting starts


async def test_a_start_that_is_not_fired_or_begun_waits_since_its_due_date(
    session: Session, dsn: str, shard: HolderClient
) -> None:
    await declare(dsn, job_spec(**EVERY))
    unfired = await of(session, in_s=60)
    await fire(shard)
    unbegun = await of(session, in_s=60)

    assert 60 <= unfired.waiting_s < 70
    assert (unfired.next_start_s or 0) < -59
    assert 60 <= unbegun.waiting_s < 70
    assert unbegun.next_start_s is None


async def test_a_run_without_a_process_counts_as_waiting_and_a_called_run_does_not(
    session: Session, dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(**EVERY))
    await fire(shard)
    run = await worker.one()
    starting = await of(session, in_s=60)
    await advance_runs(worker.session, worker.holder, [(run, "RUNNING", None)])
    running = await of(session, in_s=60)

    assert (starting.state, running.state) == ("STARTING", "RUNNING")
    assert 59 <= starting.waiting_s < 70
    assert running.waiting_s == 0


async def test_a_run_whose_process_never_starts_waits_since_its_start_was_due(
    session: Session, dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(**EVERY))
    await fire(shard)
    run = await worker.one()
    await query(dsn, "update shardclock.deliveries set due_date = due_date - interval '1 hour'")
    await worker.end(run, RunOutcome.INTERRUPTED, delay_s=5.0)
    given_up = await of(session)
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now()")
    await worker.one()

    assert 3_600 <= given_up.waiting_s < 3_610
    assert 3_600 <= (await of(session)).waiting_s < 3_610, "it is begun again"


async def test_a_start_is_not_late_while_it_waits_for_another_run_or_for_its_retry(
    session: Session, dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(overlap="queue", **EVERY))
    await fire(shard)
    run = await worker.one()
    await advance_runs(worker.session, worker.holder, [(run, "RUNNING", None)])
    await query(dsn, "select shardclock.run_job('refresh')")
    await fire(shard)
    behind = await of(session, in_s=60)
    await query(dsn, "delete from shardclock.deliveries where timer_key <> $1", run.timer_key)
    await worker.end(run, FAILED, delay_s=120.0)

    assert behind.waiting_s == 0
    assert (await of(session, in_s=60)).waiting_s == 0
    assert 10 <= (await of(session, in_s=130)).waiting_s < 20


async def test_a_job_that_rests_after_a_crash_is_not_late(
    session: Session, dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(**EVERY))
    await fire(shard)
    await worker.end(await worker.one(), CRASHED, delay_s=0.0)
    await query(dsn, "update shardclock.jobs set not_before = now() + interval '1 minute'")

    assert (await of(session, in_s=50)).waiting_s == 0
    assert 10 <= (await of(session, in_s=70)).waiting_s < 20


async def test_a_disabled_job_is_neither_late_nor_overdue(session: Session, dsn: str) -> None:
    await declare(dsn, job_spec(**EVERY))
    await query(dsn, "select shardclock.disable_job('refresh')")

    job = await of(session, in_s=86_400)

    assert (job.waiting_s, job.success_overdue_s, job.next_start_s) == (0, 0, None)


@pytest.mark.parametrize("rule", [EVERY, HOURLY], ids=["interval", "grid"])
async def test_a_success_is_overdue_from_the_due_time_of_a_paused_start(
    session: Session, dsn: str, rule: dict[str, Any]
) -> None:
    await declare(dsn, job_spec(**rule))
    (due,) = await query(dsn, "select extract(epoch from due_date - now())::float8 as in_s from shardclock.timers")
    await query(dsn, "select shardclock.change_system_timer('pause', name => 'job:refresh')")

    before = await of(session, in_s=due["in_s"] - 10)
    after = await of(session, in_s=due["in_s"] + 600)

    assert (before.success_overdue_s, before.next_start_s) == (0, None)
    assert 600 <= after.success_overdue_s < 610
    assert after.waiting_s == 0, "no start waits for a worker"


# The last runs


async def test_the_last_start_reports_its_delay_and_later_attempts_and_skipped_starts_do_not_count(
    session: Session, dsn: str
) -> None:
    await declare(dsn, job_spec(**EVERY))
    assert (await of(session)).start_lag_s is None
    await add_run(dsn, scheduled_s_ago=500)
    await add_run(dsn, scheduled_s_ago=400, attempt=2)
    later = "started_at = started_at + interval '9 s', ended_at = ended_at + interval '10 s'"
    await query(dsn, f"update shardclock.job_runs set {later} where attempt = 2")
    await add_run(dsn, scheduled_s_ago=300, outcome="SKIPPED")
    await query(dsn, "update shardclock.job_runs set started_at = ended_at where outcome = 'SKIPPED'")

    job = await of(session)

    assert job.start_lag_s == pytest.approx(1.0)
    assert job.last_run_s == pytest.approx(3.0), "the second attempt's"


async def test_the_present_run_is_not_counted(
    session: Session, dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(**EVERY))
    await fire(shard)
    run = await worker.one()
    going = await of(session)
    await worker.end(run, CRASHED)
    crashed = await of(session)

    assert (going.runs, going.crashes, going.consecutive_crashes) == (0, 0, 0)
    assert (crashed.runs, crashed.crashes, crashed.consecutive_crashes) == (1, 1, 1)
    assert crashed.consecutive_failures == 1


# Success


async def test_with_an_interval_a_success_is_overdue_after_the_interval(
    session: Session, dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(**EVERY))
    never = await of(session, in_s=100)
    await fire(shard)
    await worker.end(await worker.one())
    good = await of(session, in_s=899)
    overdue = await of(session, in_s=1_000)

    assert 100 <= never.success_overdue_s < 110
    assert 100 <= never.since_success_s < 110
    assert good.success_overdue_s == 0
    assert 99 <= overdue.success_overdue_s < 110
    assert 999 <= overdue.since_success_s < 1_010


async def test_on_a_grid_a_success_is_overdue_since_the_first_start_after_the_last_success(
    session: Session, dsn: str
) -> None:
    await declare(dsn, job_spec(**HOURLY))
    await query(dsn, "update shardclock.timers set due_date = now() + interval '30 min' where name = 'job:refresh'")
    await query(dsn, "update shardclock.jobs set last_success = now() - interval '10 hours'")
    await age(dsn, "changed_at", 86_400)
    assert (await of(session)).success_overdue_s == 0
    assert 300 <= (await of(session, in_s=2_100)).success_overdue_s < 310, "no shard fires it"

    await add_run(dsn, scheduled_s_ago=11 * 3_600, outcome="SUCCEEDED")
    await add_run(dsn, scheduled_s_ago=7_200)
    await add_run(dsn, scheduled_s_ago=3_600)

    assert 7_200 <= (await of(session)).success_overdue_s < 7_210


async def test_a_success_is_overdue_even_if_the_first_failure_was_deleted(session: Session, dsn: str) -> None:
    await declare(dsn, job_spec(**HOURLY))
    await age(dsn, "changed_at", 86_400)
    await query(dsn, "update shardclock.jobs set last_success = now() - interval '10 hours', consecutive_failures = 60")
    await add_run(dsn, scheduled_s_ago=60)

    assert 36_000 <= (await of(session)).success_overdue_s < 36_010


@pytest.mark.parametrize("rule", [EVERY, HOURLY], ids=["interval", "grid"])
async def test_a_job_that_was_just_enabled_is_not_overdue(session: Session, dsn: str, rule: dict[str, Any]) -> None:
    await declare(dsn, job_spec(**rule))
    await add_run(dsn, scheduled_s_ago=7_200)
    await query(dsn, "update shardclock.jobs set last_success = now() - interval '30 days'")
    await query(dsn, "select shardclock.disable_job('refresh')")
    await query(dsn, "select shardclock.enable_job('refresh')")

    assert (await of(session)).success_overdue_s < 10


async def test_a_job_that_runs_on_request_is_never_overdue(session: Session, dsn: str) -> None:
    await declare(dsn, job_spec())
    await add_run(dsn, scheduled_s_ago=7_200)

    job = await of(session, in_s=86_400)

    assert (job.success_overdue_s, job.next_start_s) == (0, None)
    assert job.since_success_s > 86_000


# All jobs


async def test_jobs_without_an_app_are_listed_last(session: Session, dsn: str) -> None:
    await declare(dsn, job_spec("a.gone", **EVERY), job_spec("b.here", max_runtime_s=60.0))
    await declare(dsn, job_spec("b.here", max_runtime_s=60.0))

    jobs = (await measured(session)).jobs

    assert [(job.name, job.state) for job in jobs] == [("b.here", "SCHEDULED"), ("a.gone", "WITHDRAWN")]
    assert [job.max_runtime_s for job in jobs] == [60, 3_600]
    assert [job.name for job in (await measure_jobs(session, most=1)).jobs] == ["b.here"]


async def test_the_tick_is_the_age_of_the_older_heartbeat_of_the_two_kinds(
    session: Session, dsn: str, shard: HolderClient
) -> None:
    assert (await measured(session)).tick_s is None, "there is no worker"
    async with JobWorker(dsn, 11):
        await query(dsn, "update shardclock.beats set seen_at = seen_at - interval '1 minute' where holder = 11")
        silent = (await measured(session)).tick_s
    assert silent is not None
    assert 60 <= silent < 70


async def test_a_job_s_deliveries_do_not_count_for_another_target(
    session: Session, dsn: str, shard: HolderClient
) -> None:
    await declare(dsn, job_spec(**EVERY))
    await fire(shard)
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 1

    assert [(it.target_name, it.deliveries) for it in await measure_deliveries(session, 50)] == [("other", 0)]


@pytest.mark.slow
async def test_a_measurement_of_many_jobs_reads_a_few_rows_for_each(dsn: str) -> None:
    await declare(dsn, *(job_spec(f"job-{number}", **EVERY) for number in range(200)))
    await query(
        dsn,
        "insert into shardclock.job_runs (timer_key, claims, job, outcome, attempt, scheduled_at, started_at, ended_at)"
        " select i * 1000 + n, 1, 'job-' || i, 'SUCCEEDED', 1, now() - n * interval '1 h', now() - n * interval '1 h',"
        " now() from generate_series(0, 199) i, generate_series(1, 100) n",
    )
    measure = await prepare(dsn, "measure_jobs")

    runs = await measure.explain("null", "2000", "null", touched=True, table="job_runs")
    timers = await measure.explain("null", "2000", "null", touched=True, table="timers")

    assert runs.rows <= 3 * 200
    assert runs.indexes == {"job_runs_by_job"}
    assert timers.rows <= 200
    assert timers.indexes == {"timers_by_name_prefix"}
    await measure.connection.close()

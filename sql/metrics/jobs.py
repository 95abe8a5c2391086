"""Measure jobs: their states, waiting starts and last runs."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

JOBS_MAX = 2_000  # the limit of measured jobs, so that a measurement stays fast


@dataclass(frozen=True, slots=True)
class JobMeasures:
    """The measurements of one job; the counts don't include the current run.

    units:   next_start_s       the time until the job's next start, negative if the start is due
             waiting_s          how long the oldest due start has waited until now for the call of its function
             start_lag_s        the delay of the last start
             last_run_s         the duration of the last run
             since_success_s    the time since the job's last success, or since its declaration
             success_overdue_s  the time since the first start that should have succeeded by now was due, even if the
                                job is paused
    """

    name: str
    state: str
    runs: int
    successes: int
    failures: int
    crashes: int
    consecutive_failures: int
    consecutive_crashes: int
    next_start_s: float | None
    waiting_s: float
    start_lag_s: float | None
    last_run_s: float | None
    since_success_s: float
    success_overdue_s: float
    max_runtime_s: float


@dataclass(frozen=True, slots=True)
class JobsMeasured:
    """The measured jobs; `tick_s` is the time since the last heartbeat of the processes that start jobs."""

    jobs: list[JobMeasures]
    tick_s: float | None


async def measure_job(session: Session, name: str) -> JobMeasures | None:
    """Measure one job; None: the job does not exist.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/measure_jobs.sql
    """
    row = await session.row("measure_jobs", names=[name], most=1, now=None)
    return JobMeasures(*row) if row else None


async def measure_jobs(
    session: Session, *, names: Collection[str] | None = None, most: int = JOBS_MAX, now: datetime | None = None
) -> JobsMeasured:
    """Measure the named jobs, or all jobs.

    shape:   at most `most` jobs, by name; withdrawn jobs come last; `tick_s` is None if no shard or no worker has slots
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/measure_jobs.sql, sql/metrics/measure_tick.sql
    """
    asked = None if names is None else list(names)
    jobs = [JobMeasures(*row) for row in await session.rows("measure_jobs", names=asked, most=most, now=now)]
    row = await session.row("measure_tick", now=now)
    return JobsMeasured(jobs, row["tick_s"] if row else None)

"""What is measured of jobs: what each does, since when a start waits, and how its last runs went."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

JOBS_MAX = 2_000  # more are not measured: a reading must not take long


@dataclass(frozen=True, slots=True)
class JobMeasures:
    """One job in numbers. What is counted is counted without the present run.

    units:   next_start_s: until its next start, negative if that is due; waiting_s: how long a start has been due whose
             function is not called yet; start_lag_s: how long after its due date the last start began; last_run_s: how
             long the last run took; since_success_s: since its last success, or since it was declared;
             success_overdue_s: how long ago the first start was due that should have succeeded since, if it is paused,
             too
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
    """All jobs, those that an app has first, by name; and how long ago what starts them gave a sign of life."""

    jobs: list[JobMeasures]
    tick_s: float | None


async def measure_job(session: Session, name: str) -> JobMeasures | None:
    """Measure one job; None: there is none of this name.

    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/measure_jobs.sql
    """
    row = await session.row("measure_jobs", name=name, most=1, now=None)
    return JobMeasures(*row) if row else None


async def measure_jobs(session: Session, *, most: int = JOBS_MAX, now: datetime | None = None) -> JobsMeasured:
    """Measure the jobs.

    shape:   `most` jobs at most; `tick_s` is None if there is not both a shard and a worker that keep slots
    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/measure_jobs.sql, sql/metrics/measure_tick.sql
    """
    jobs = [JobMeasures(*row) for row in await session.rows("measure_jobs", name=None, most=most, now=now)]
    row = await session.row("measure_tick", now=now)
    return JobsMeasured(jobs, row["tick_s"] if row else None)

"""Read the last runs of a job."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from shardclock_server.sql.session import Record, Session


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job, or a start that was skipped; `result` is JSON text.

    shape:   without `outcome` the run has not ended. `late_at` is the time at which a run ended after it had been given
             up
    """

    run_id: str
    job: str
    outcome: str | None
    attempt: int
    scheduled_at: datetime
    started_at: datetime
    running_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    reason: str | None
    traceback: str | None
    result: str | None
    progress: float | None
    message: str | None
    progressed_at: datetime | None
    log: str | None
    holder: int | None
    late_at: datetime | None
    late_outcome: str | None

    @classmethod
    def of(cls, row: Record) -> Self:
        """Return the run in a row."""
        columns = dict(row)
        timer_key, claims = columns.pop("timer_key"), columns.pop("claims")
        took = None if columns["ended_at"] is None else (columns["ended_at"] - columns["started_at"]).total_seconds()
        return cls(run_id=f"{timer_key}.{claims}", duration_s=took, **columns)


async def find_runs(
    session: Session,
    *,
    job: str | None = None,
    timer_key: int | None = None,
    claims: int | None = None,
    limit: int,
) -> list[JobRun]:
    """Read the runs of a job, or the runs of one start, newest first.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/jobs/find_runs.sql
    """
    rows = await session.rows("find_runs", job=job, timer_key=timer_key, claims=claims, limit=limit)
    return [JobRun.of(row) for row in rows]

"""List jobs page by page, and compute the delay of each job."""

from collections.abc import Mapping
from dataclasses import dataclass

from shardclock_server.service.job_check import find_delays
from shardclock_server.sql.jobs.jobs import Job, find_job_names, find_jobs
from shardclock_server.sql.metrics.jobs import JOBS_MAX
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs, by name.

    `late_s` and `waiting_s` map names of jobs to seconds: `late_s` to the job's lateness, `waiting_s` to the age of a
    due start that has not begun. `next` is the `after` of the next call, or None on the last page.
    """

    jobs: list[Job]
    late_s: Mapping[str, float]
    waiting_s: Mapping[str, float]
    next: str | None


async def page_of(
    session: Session, *, contains: str | None = None, late: bool = False, after: str | None = None, size: int
) -> JobPage:
    """Find jobs by a part of the name, and with `late` only jobs with an overdue success.

    shape:   at most `size` jobs; with `late`, only the first 2,000 jobs are measured
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    found_max = JOBS_MAX if late else size + 1
    names = await find_job_names(session, contains=contains, after=after, limit=found_max)
    delays = await find_delays(session, names if late else names[:size])
    wanted = [name for name in names if name in delays.late_s or not late]
    jobs = await find_jobs(session, names=wanted[:size])
    return JobPage(jobs, delays.late_s, delays.waiting_s, next=wanted[size - 1] if len(wanted) > size else None)

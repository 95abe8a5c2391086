"""Check whether a job does its work: for whoever asks from a script, and has no alerts."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.service.jobs import UnknownJob, find_job
from shardclock_server.service.words import span_of
from shardclock_server.sql.jobs.jobs import Job
from shardclock_server.sql.metrics.jobs import JobMeasures, measure_job
from shardclock_server.sql.session import Session
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.refusal import shortened

# What a start has for its attempts, beside the time of one run: as with the alert ShardclockJobNotSucceeding.
ATTEMPTS_S = 15 * 60


@dataclass(frozen=True, slots=True)
class JobCheck:
    """Whether a job does its work, and the facts behind that.

    shape:   `why_not` is a sentence while the job is withdrawn, disabled or paused or its success is overdue, else None
    units:   `success_overdue_s`: how long ago the first start was due that should have succeeded since
    """

    name: str
    why_not: str | None
    state: str
    last_success: datetime | None
    success_overdue_s: float
    max_runtime_s: float


async def check_job(session: Session, name: str) -> JobCheck:
    """Check a job.

    errors:  UnknownJob        there is no such job; the nearest names are told
             StoreUnavailable  no answer in time
    """
    job = await find_job(session, name)
    measured = await measure_job(session, name)
    if measured is None:
        raise UnknownJob(f"job {shortened(name)} was removed just now")
    fault = _fault_of(job, measured)
    return JobCheck(
        name,
        None if fault is None else f"job {shortened(name)} {fault}",
        job.state,
        job.last_success,
        measured.success_overdue_s,
        measured.max_runtime_s,
    )


def _fault_of(job: Job, measured: JobMeasures) -> str | None:
    """Say what keeps a job from doing its work; None: nothing does."""
    if job.withdrawn_at is not None:
        return f"is withdrawn{_since(job.withdrawn_at, 'no app has it')}"
    if job.disabled_at is not None:
        return f"is disabled{_since(job.disabled_at, job.disabled_why)}"
    if job.paused_start is not None:
        return f"is paused{_since(job.paused_at, job.paused_why)}"
    if measured.success_overdue_s > measured.max_runtime_s + ATTEMPTS_S:
        return f"should have succeeded {span_of(measured.success_overdue_s)} ago: {_last_run_of(job)}"
    return None


def _since(moment: datetime | None, why: str | None) -> str:
    since = "" if moment is None else f" since {canonical_moment(moment)}"
    return since if why is None else f"{since}: {why}"


def _last_run_of(job: Job) -> str:
    if job.last_outcome is None:
        return "it has not run yet"
    why = "" if job.last_reason is None else f", {job.last_reason}"
    return f"its last run ended as {job.last_outcome}{why}"

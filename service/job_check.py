"""Check whether a job works, for scripts on an installation without alerts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock.api.refusals.jobs import UNKNOWN_JOB
from shardclock_server.service.jobs import find_job
from shardclock_server.service.notify import FAILURES_MIN
from shardclock_server.service.wording import span_of
from shardclock_server.sql.jobs.jobs import Job, find_jobs
from shardclock_server.sql.metrics.jobs import JobMeasures, measure_job, measure_jobs
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.refusal import Refusal, shortened

STOPPED = ("DISABLED", "WITHDRAWN")
# The time limit for all attempts of a start, in addition to the duration of one run. The alert
# ShardclockJobNotSucceeding uses the same time.
ATTEMPTS_S = 15 * 60
RUNNING = ("STARTING", "RUNNING", "TERMINATING")
WAITING_S = 1.0  # a start that has just become due waits for a worker's next poll
# A long run exceeds two limits: ten usual durations, and 5 minutes. The second limit exists because the durations of
# short runs vary more.
LONG_FACTOR, LONG_S = 10.0, 5 * 60.0


@dataclass(frozen=True, slots=True)
class JobCheck:
    """The result of a check of a job, with the measured facts.

    shape:   why_not  a sentence if the job is withdrawn, disabled or paused, or if a success is overdue; None: the job
                      works
    units:   success_overdue_s  the age of the oldest start that was due since the last success
             waiting_s          the age of a due start that has not begun; None: no start waits
    """

    name: str
    why_not: str | None
    state: str
    last_success: datetime | None
    success_overdue_s: float
    max_runtime_s: float
    waiting_s: float | None


async def check_job(session: Session, name: str) -> JobCheck:
    """Check a job.

    errors:  Refusal           there is no such job; the message suggests the nearest names
             StoreUnavailable  Postgres did not answer within the timeout
    """
    job = await find_job(session, name)
    measured = await measure_job(session, name)
    if measured is None:
        raise Refusal.of(UNKNOWN_JOB, job=name, known="the job was removed just now")
    fault = _fault_of(job, measured)
    return JobCheck(
        name,
        None if fault is None else f"job {shortened(name)} {fault}",
        job.state,
        job.last_success,
        measured.success_overdue_s,
        measured.max_runtime_s,
        measured.waiting_s if _is_waiting(measured) else None,
    )


@dataclass(frozen=True, slots=True)
class LongRun:
    """A current run that lasts much longer than the job's successful runs.

    shape:   `progress` (0 to 1) and `message` are the run's last report; None: the run has not reported
    units:   `usual_s`: the median duration of the successful runs in the history
    """

    job: str
    run_id: str
    lasts_s: float
    usual_s: float
    progress: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class JobTrouble:
    """The jobs that need a person.

    `late_s` maps names to the lateness in seconds, and `failed` to the number of consecutive failed runs. A late or
    failing job is also in `long_runs` if its current run lasts too long.
    """

    late_s: Mapping[str, float]
    failed: Mapping[str, int]
    long_runs: Sequence[LongRun] = ()


@dataclass(frozen=True, slots=True)
class JobDelays:
    """The delayed jobs, by name.

    units:   late_s     the age of the oldest start that was due since the last success, if the success is overdue
             waiting_s  the age of a due start that has not begun
    """

    late_s: Mapping[str, float]
    waiting_s: Mapping[str, float]


async def find_troubled_jobs(session: Session) -> JobTrouble:
    """Find jobs with an overdue success, enabled jobs with several consecutive failed runs, and long runs.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    jobs = (await measure_jobs(session)).jobs
    late_s = _late(jobs)
    failing = [it for it in jobs if it.consecutive_failures >= FAILURES_MIN and it.state not in STOPPED]
    failed = {it.name: it.consecutive_failures for it in failing if it.name not in late_s}
    running = [it.name for it in jobs if it.state in RUNNING]
    return JobTrouble(late_s, failed, await _long_runs(session, running) if running else ())


def long_run_of(job: Job, now: datetime) -> LongRun | None:
    """Return a job's current run if it lasts longer than both limits: LONG_S, and LONG_FACTOR usual durations.

    A job without a successful run in its history has no usual duration.
    """
    if job.run_id is None or job.run_started_at is None or job.p50_s is None:
        return None
    lasts_s = (now - job.run_started_at).total_seconds()
    if lasts_s <= max(LONG_S, LONG_FACTOR * job.p50_s):
        return None
    return LongRun(job.name, job.run_id, lasts_s, job.p50_s, job.progress, job.message)


async def find_delays(session: Session, names: Collection[str]) -> JobDelays:
    """Find the named jobs with an overdue success, and the named jobs with a due start that has not begun.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    jobs = (await measure_jobs(session, names=names)).jobs
    return JobDelays(_late(jobs), {it.name: it.waiting_s for it in jobs if _is_waiting(it)})


async def late_jobs(session: Session) -> dict[str, float]:
    """Find the jobs with an overdue success.

    shape:   maps names to the age, in seconds, of the oldest start that was due since the last success
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    return _late((await measure_jobs(session, names=None)).jobs)


async def _long_runs(session: Session, names: Collection[str]) -> list[LongRun]:
    now = await read_clock(session)
    found = [long_run_of(job, now) for job in await find_jobs(session, names=names)]
    return [it for it in found if it is not None]


def _late(jobs: Iterable[JobMeasures]) -> dict[str, float]:
    return {it.name: it.success_overdue_s for it in jobs if _is_late(it)}


def _is_waiting(measured: JobMeasures) -> bool:
    return measured.waiting_s > WAITING_S and measured.state not in RUNNING


def _is_late(measured: JobMeasures) -> bool:
    return measured.success_overdue_s > measured.max_runtime_s + ATTEMPTS_S


def _fault_of(job: Job, measured: JobMeasures) -> str | None:
    """Return the reason why a job does not work; None: the job works."""
    if job.withdrawn_at is not None:
        return f"is withdrawn{_since(job.withdrawn_at, 'no app has it')}"
    if job.disabled_at is not None:
        return f"is disabled{_since(job.disabled_at, job.disabled_why)}"
    if job.paused_start is not None:
        until = "" if job.paused_until is None else f" until {canonical_moment(job.paused_until)}"
        return f"is paused{until}{_since(job.paused_at, job.paused_why)}"
    if _is_late(measured):
        return f"should have succeeded {span_of(measured.success_overdue_s)} ago: {_last_run_of(job)}"
    return None


def _since(moment: datetime | None, why: str | None) -> str:
    since = "" if moment is None else f" since {canonical_moment(moment)}"
    return since if why is None else f"{since}: {why}"


def _last_run_of(job: Job) -> str:
    if job.last_outcome is None:
        return "the job has not run yet"
    why = "" if job.last_reason is None else f", {job.last_reason}"
    return f"the last run ended as {job.last_outcome}{why}"

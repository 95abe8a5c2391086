"""Read and change jobs, for clients."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Job:
    """One job with its state, next start, last run and counters; `config` and `policy` are JSON texts.

    shape:   `next_start` is None in five cases: the job runs, waits or is disabled, no shard has computed the rule's
             first due date, or the next start is paused. If the next start is paused, `paused_start` is its time;
             `paused_at`, `paused_why` and `paused_by` are None if the log no longer has the record of the pause. The
             crash counts don't include the current run
    units:   `p50_s` and `p99_s` are durations of the successful runs in the history
    """

    name: str
    function: str
    state: str
    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int
    config: str | None
    policy: str
    next_start: datetime | None
    next_key: int | None
    paused_start: datetime | None
    paused_until: datetime | None
    paused_at: datetime | None
    paused_why: str | None
    paused_by: str | None
    waiting: int
    retry_at: datetime | None
    run_id: str | None
    run_attempt: int | None
    run_started_at: datetime | None
    cancel_why: str | None
    progress: float | None
    message: str | None
    holder: int | None
    last_start: datetime | None
    last_finish: datetime | None
    last_success: datetime | None
    last_outcome: str | None
    last_reason: str | None
    runs: int
    successes: int
    failures: int
    crashes: int
    consecutive_failures: int
    consecutive_crashes: int
    p50_s: float | None
    p99_s: float | None
    disabled_at: datetime | None
    disabled_why: str | None
    disabled_by: str | None
    withdrawn_at: datetime | None


async def find_jobs(session: Session, *, names: Collection[str] | None = None) -> list[Job]:
    """Read the named jobs, or all jobs, in the order of their names.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/jobs/find_jobs.sql
    """
    return [Job(**dict(row)) for row in await session.rows("find_jobs", names=None if names is None else list(names))]


async def find_job_names(
    session: Session, *, contains: str | None = None, after: str | None = None, limit: int
) -> list[str]:
    """Find the names of jobs, in order.

    shape:   at most `limit`, after the name `after`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/jobs/find_job_names.sql
    """
    rows = await session.rows("find_job_names", contains=contains, after=after, limit=limit)
    return [row["name"] for row in rows]


async def find_config_outlines(session: Session, functions: Collection[str]) -> dict[str, str]:
    """Read the outlines (JSON) of functions' configurations; functions without an outline or an app are left out.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/jobs/find_config_outlines.sql
    """
    rows = await session.rows("find_config_outlines", functions=list(functions))
    return {row["function"]: row["outline"] for row in rows}


async def run_job(session: Session, name: str, *, config: str | None = None) -> int:
    """Start a job now, and return the key of the start's timer; `config` is JSON text.

    errors:  StatementRefused  P0002: the job is unknown; 55000: it is disabled or withdrawn; 22023: the configuration
                               is too long
             StoreUnavailable  the outcome is unknown: a second call may start the job a second time
    source:  sql/functions/jobs/run_job.sql
    """
    return int(await session.call_one("run_job", name=name, config=config))


async def cancel_job(session: Session, name: str, *, reason: str | None = None) -> str:
    """Request the end of a job's current run; return the job's state.

    errors:  StatementRefused  P0002: the job is unknown; 22023: the reason is too long
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/cancel_job.sql
    """
    return str(await session.call_one("cancel_job", name=name, reason=reason))


async def disable_job(session: Session, name: str, *, reason: str | None = None) -> str:
    """Prevent new starts of a job, and request the end of its current run; return the job's state.

    errors:  StatementRefused  P0002: the job is unknown; 22023: the reason is too long
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/disable_job.sql
    """
    return str(await session.call_one("disable_job", name=name, reason=reason))


async def enable_job(session: Session, name: str) -> str:
    """Let a disabled job start again; return the job's state.

    errors:  StatementRefused  P0002: the job is unknown; 55000: no app has its code
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/enable_job.sql
    """
    return str(await session.call_one("enable_job", name=name))


async def configure_job(session: Session, name: str, config: str) -> str | None:
    """Set a job's configuration, and return the former configuration; both are JSON texts.

    errors:  StatementRefused  P0002: the job is unknown; 22023: the configuration is too long
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/configure_job.sql
    """
    before = await session.call_one("configure_job", name=name, config=config)
    return None if before is None else str(before)


@dataclass(frozen=True, slots=True)
class AddedJob:
    """A new job with the function of a declared job; a field that is None gets the declared job's value.

    shape:   at most one of `every` and `schedule` is set; without both, the job runs only on request; `config` is JSON
             text
    """

    name: str
    of_job: str
    every: timedelta | None = None
    schedule: str | None = None
    zone: str = "UTC"
    missed: str = "fire_once"
    overlap: str | None = None
    priority: int | None = None
    config: str | None = None


async def add_job(session: Session, added: AddedJob) -> str:
    """Add a job that runs the function of a declared job; return the new job's state.

    errors:  StatementRefused  22023: a value is wrong; 23505: the name is in use
             StoreUnavailable  the outcome is unknown: read whether the job exists
    source:  sql/functions/jobs/add_job.sql
    """
    return str(await session.call_one("add_job", **asdict(added)))


async def remove_job(session: Session, name: str) -> bool:
    """Remove a job that no app declares; return whether the job existed.

    errors:  StatementRefused  55000: an app declares the job, or the job is running
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/remove_job.sql
    """
    return bool(await session.call_one("remove_job", name=name))

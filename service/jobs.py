"""List, start, stop, configure, add and remove jobs."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

from shardclock.api.codes import invalid
from shardclock.api.refusals.jobs import JOB_WITHOUT_RUN, UNKNOWN_JOB
from shardclock_server.service.job_configs import require_fit
from shardclock_server.sql.jobs import jobs as statements
from shardclock_server.sql.jobs.jobs import AddedJob, Job
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.payload import parse_payload
from shardclock_server.timers.refusal import InvalidTimer, Refusal
from shardclock_server.timers.schedule import first_of, parse_schedule

NEAREST_MAX = 3
KNOWN_MAX = 2_000  # a refusal searches for similar names among at most this many names

T = TypeVar("T")


async def find_job(session: Session, name: str) -> Job:
    """Read one job.

    errors:  Refusal           unknown_job; the message suggests the most similar names
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await statements.find_jobs(session, names=[name])
    if not found:
        known = await statements.find_job_names(session, limit=KNOWN_MAX)
        raise Refusal.of(UNKNOWN_JOB, job=name, known=_nearest(name, known))
    return found[0]


async def run_job(session: Session, name: str, *, config: str | None = None) -> int:
    """Start a job now; return the key of the start's timer. `config` is JSON text, and applies to this run only.

    errors:  Refusal           unknown_job
             StatementRefused  job_disabled, job_withdrawn
             InvalidTimer      the configuration is not JSON, is too long, or does not fit the function
             StoreUnavailable  the outcome is unknown: a second call may start the job twice
    """
    text = None if config is None else await _fitting(session, await find_job(session, name), config)
    return await _unless_refused(session, name, statements.run_job(session, name, config=text))


async def cancel_job(session: Session, name: str, *, reason: str | None = None) -> str:
    """Request the end of a job's present run; return the job's state, TERMINATING.

    errors:  Refusal  job_without_run; and as `find_job`
    """
    state = await _unless_refused(session, name, statements.cancel_job(session, name, reason=reason))
    if state != "TERMINATING":
        raise Refusal.of(JOB_WITHOUT_RUN, job=name, state=state, members={"state": state})
    return state


async def disable_job(session: Session, name: str, *, reason: str | None = None) -> str:
    """Prevent new starts of a job, and request the end of its present run; return the job's state.

    errors:  as `find_job`
    """
    return await _unless_refused(session, name, statements.disable_job(session, name, reason=reason))


async def enable_job(session: Session, name: str) -> str:
    """Allow a disabled job to start again; return the job's state.

    errors:  Refusal           unknown_job
             StatementRefused  job_withdrawn
             StoreUnavailable  the outcome is unknown: call again
    """
    return await _unless_refused(session, name, statements.enable_job(session, name))


async def configure_job(session: Session, name: str, config: str) -> str | None:
    """Set a job's configuration, as JSON text, for the next runs; return the previous configuration.

    errors:  InvalidTimer  the configuration is not JSON, is too long, or does not fit the function
             Refusal, StoreUnavailable  as `find_job`
    """
    text = await _fitting(session, await find_job(session, name), config)
    return await _unless_refused(session, name, statements.configure_job(session, name, text))


async def add_job(session: Session, added: AddedJob) -> str:
    """Add a job that runs the function of a declared job; return its state.

    errors:  StatementRefused  job_exists, invalid_job
             Refusal           unknown_job, for `of_job`
             InvalidTimer      the configuration is not JSON, is too long, or does not fit the function
             StoreUnavailable  the outcome is unknown: find out whether the job exists
    """
    model, given = await find_job(session, added.of_job), added
    if added.config is not None:
        given = replace(added, config=await _fitting(session, model, added.config))
    if added.schedule is not None:
        # Check here whether the rule ever occurs: SQL has no calendar, and a shard would detect the fault too late.
        first_of(parse_schedule(added.schedule, added.zone), await read_clock(session))
    return await statements.add_job(session, given)


async def remove_job(session: Session, name: str) -> None:
    """Remove a job that no app declares; its records stay in the log.

    errors:  StatementRefused  job_declared, job_running
             Refusal, StoreUnavailable  as `find_job`
    """
    if not await statements.remove_job(session, name):
        await find_job(session, name)


def config_of(text: str) -> str:
    """Check a configuration, and return it as JSON text.

    errors:  InvalidTimer  the configuration is not JSON, or is too long
    """
    try:
        return parse_payload(text)
    except InvalidTimer as refusal:
        raise InvalidTimer.of(invalid("config"), why=refusal) from None


async def _fitting(session: Session, job: Job, config: str) -> str:
    """Check a configuration against the job's function, and return it as JSON text."""
    text = config_of(config)
    await require_fit(session, job.function, text)
    return text


def _nearest(name: str, known: Sequence[str]) -> str:
    """Name known jobs: the jobs with the nearest names or, if no name is near, the first jobs."""
    if not known:
        return "there are none; an app declares them"
    if near := get_close_matches(name, known, n=NEAREST_MAX):
        return f"is {' or '.join(near)} meant?"
    more = f" and {len(known) - NEAREST_MAX:,} more" if len(known) > NEAREST_MAX else ""
    return f"the jobs are {', '.join(known[:NEAREST_MAX])}{more}"


async def _unless_refused(session: Session, name: str, call: Awaitable[T]) -> T:
    try:
        async with session.transaction():  # a savepoint, so that the caller's own transaction continues after a refusal
            return await call
    except StatementRefused as error:
        if error.code is UNKNOWN_JOB:
            await find_job(session, name)  # this call raises the refusal with the nearest names
        raise

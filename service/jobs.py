"""What clients do with jobs: look at them, start and stop them, configure, add and remove them."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from typing import TypeVar

from shardclock_server.service.job_configs import require_fit
from shardclock_server.sql.jobs import jobs as statements
from shardclock_server.sql.jobs.jobs import AddedJob, Job
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.payload import parse_payload
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened
from shardclock_server.timers.schedule import first_of, parse_schedule

NEAREST_MAX = 3
CONFLICTS = ("23505", "55000")  # the states with which the functions refuse what the present state does not allow

T = TypeVar("T")


class UnknownJob(Refusal):
    """Refuse a job that is not there, in one sentence."""


class JobConflict(Refusal):
    """Refuse what a job's present state does not allow, in one sentence; nothing was changed."""


class NoRun(JobConflict):
    """Refuse to cancel a job that has no run."""

    def __init__(self, name: str, state: str) -> None:
        super().__init__(f"job {shortened(name)} has no run to cancel: it is {state}")
        self.state = state


async def list_jobs(session: Session) -> list[Job]:
    """Read all jobs, by name.

    errors:  StoreUnavailable  no answer in time
    """
    return await statements.find_jobs(session)


async def find_job(session: Session, name: str) -> Job:
    """Read one job.

    errors:  UnknownJob        there is no such job; the nearest names are told
             StoreUnavailable  no answer in time
    """
    found = await statements.find_jobs(session, name)
    if not found:
        raise UnknownJob(_unknown(name, [job.name for job in await statements.find_jobs(session)]))
    return found[0]


async def run_job(session: Session, name: str, *, config: str | None = None) -> int:
    """Start a job now; return the key of the start's timer. `config` is JSON text, for this run alone.

    errors:  UnknownJob        there is none of that name
             JobConflict       it is disabled or withdrawn
             InvalidTimer      the configuration is no JSON, too long, or not what the function takes
             StoreUnavailable  the outcome is unknown: calling again may start it twice
    """
    text = None if config is None else await _fitting(session, await find_job(session, name), config)
    return await _unless_refused(session, name, statements.run_job(session, name, config=text))


async def cancel_job(session: Session, name: str, *, reason: str | None = None) -> str:
    """Tell the present run of a job to end; return the job's state, TERMINATING.

    errors:  NoRun  nothing runs
             UnknownJob, StoreUnavailable  as `find_job`
    """
    state = await _unless_refused(session, name, statements.cancel_job(session, name, reason=reason))
    if state != "TERMINATING":
        raise NoRun(name, state)
    return state


async def disable_job(session: Session, name: str, *, reason: str | None = None) -> str:
    """Keep a job from starting, and tell its present run to end; return its state.

    errors:  as `find_job`
    """
    return await _unless_refused(session, name, statements.disable_job(session, name, reason=reason))


async def enable_job(session: Session, name: str) -> str:
    """Let a disabled job start again; return its state.

    errors:  UnknownJob        there is none of that name
             JobConflict       its code is gone
             StoreUnavailable  the outcome is unknown: call again
    """
    return await _unless_refused(session, name, statements.enable_job(session, name))


async def configure_job(session: Session, name: str, config: str) -> str | None:
    """Give a job another configuration, as JSON text; return the one before. The next run has the new one.

    errors:  InvalidTimer  the configuration is no JSON, too long, or not what the function takes
             UnknownJob, StoreUnavailable  as `find_job`
    """
    text = await _fitting(session, await find_job(session, name), config)
    return await _unless_refused(session, name, statements.configure_job(session, name, text))


async def add_job(session: Session, added: AddedJob) -> str:
    """Add a job that runs the function of a declared one; return its state.

    errors:  JobConflict       something of it is wrong, as a rule that never occurs, or its name is taken
             UnknownJob        there is no such job as `of_job`; the nearest names are told
             InvalidTimer      the configuration is no JSON, too long, or not what the function takes
             StoreUnavailable  the outcome is unknown: look whether it is there
    """
    model, given = await find_job(session, added.of_job), added
    if added.config is not None:
        given = replace(added, config=await _fitting(session, model, added.config))
    if added.schedule is not None:
        _check_occurs(added.name, added.schedule, added.zone, now=await read_clock(session))
    return await _unless_conflict(added.name, statements.add_job(session, given))


async def remove_job(session: Session, name: str) -> None:
    """Remove a job that no app declares; its records stay in the log.

    errors:  JobConflict       an app declares it, or a run of it is going
             UnknownJob, StoreUnavailable  as `find_job`
    """
    if not await _unless_conflict(name, statements.remove_job(session, name)):
        await find_job(session, name)


def config_of(text: str) -> str:
    """Check a configuration, and return it as JSON text.

    errors:  InvalidTimer  it is no JSON, or too long
    """
    try:
        return parse_payload(text)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"config {refusal}") from None


def _check_occurs(name: str, schedule: str, zone: str, *, now: datetime) -> None:
    """Refuse a rule that never occurs: SQL has no calendar, so only the shard that plans it would find out."""
    try:
        first_of(parse_schedule(schedule, zone), now)
    except InvalidTimer as refusal:
        raise JobConflict(f"job {shortened(name)} is refused: {refusal}") from None


async def _fitting(session: Session, job: Job, config: str) -> str:
    """Check a configuration by what the function of a job takes, and return it as JSON text."""
    text = config_of(config)
    await require_fit(session, job.function, text)
    return text


def _unknown(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"job {shortened(name)} is unknown: there are none; an app declares them"
    near = get_close_matches(name, known, n=NEAREST_MAX)
    if near:
        return f"job {shortened(name)} is unknown: is {' or '.join(near)} meant?"
    more = f" and {len(known) - NEAREST_MAX:,} more" if len(known) > NEAREST_MAX else ""
    return f"job {shortened(name)} is unknown: the jobs are {', '.join(known[:NEAREST_MAX])}{more}"


async def _unless_conflict(name: str, call: Awaitable[T]) -> T:
    try:
        return await call
    except StatementRefused as error:
        if not error.is_for_users and error.sqlstate not in CONFLICTS:
            raise
        # What is in conflict names the job itself.
        sentence = f"job {shortened(name)} is refused: {error}" if error.is_for_users else str(error)
        raise JobConflict(sentence) from None


async def _unless_refused(session: Session, name: str, call: Awaitable[T]) -> T:
    try:
        async with session.transaction():  # so that the caller's own, if there is one, goes on after a refusal
            return await call
    except StatementRefused as error:
        if not error.is_for_users:
            raise
        await find_job(session, name)  # who misspelled it is told the nearest names, however many there are
        raise JobConflict(str(error)) from None

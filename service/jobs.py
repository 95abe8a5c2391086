"""What clients do with jobs: look at them, start and stop them, configure, add and remove them, and read their runs."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar

from service.job_configs import require_fit
from sql.clients.history import find_timer, records_of
from sql.clients.verbs import TimerRef
from sql.deliveries.find import find_delivery
from sql.jobs import jobs as statements
from sql.jobs.declare import KEPT_RUNS
from sql.jobs.history import JobRun, find_runs
from sql.jobs.jobs import AddedJob, Job
from sql.session import Session, StatementRefused
from timers.payload import parse_payload
from timers.refusal import InvalidTimer, Refusal, shortened

FOLLOW_S = 0.2  # between two looks at a run that is followed
HISTORY_MAX = 1_000
NEAREST_MAX = 3
DROPPED = ("CANCELED", "DISCARDED")
ENDED = ("DELIVERED", "DEAD")
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

    errors:  JobConflict       something of it is wrong, or its name is taken
             UnknownJob        there is no such job as `of_job`; the nearest names are told
             InvalidTimer      the configuration is no JSON, too long, or not what the function takes
             StoreUnavailable  the outcome is unknown: look whether it is there
    """
    model, given = await find_job(session, added.of_job), added
    if added.config is not None:
        given = replace(added, config=await _fitting(session, model, added.config))
    return await _unless_conflict(added.name, statements.add_job(session, given))


async def remove_job(session: Session, name: str) -> None:
    """Remove a job that no app declares; its records stay in the log.

    errors:  JobConflict       an app declares it, or a run of it is going
             UnknownJob, StoreUnavailable  as `find_job`
    """
    if not await _unless_conflict(name, statements.remove_job(session, name)):
        await find_job(session, name)


async def history_of(session: Session, name: str, *, limit: int = 20) -> list[JobRun]:
    """Read the last runs of a job, the newest first.

    errors:  as `find_job`
    """
    runs = await find_runs(session, job=name, limit=min(limit, HISTORY_MAX))
    if not runs:
        await find_job(session, name)
    return runs


async def logs_of(session: Session, name: str, *, run_id: str | None = None) -> JobRun | None:
    """Read the run whose lines are wanted: the named one, or the newest that was not skipped; None: there is none.

    errors:  UnknownJob        there is no such job, or the run's name is none
             StoreUnavailable  no answer in time
    """
    if run_id is None:
        runs = await history_of(session, name, limit=HISTORY_MAX)
        return next((run for run in runs if run.outcome != "SKIPPED"), None)
    timer_key, claims = run_of(run_id)
    found = await find_runs(session, job=name, timer_key=timer_key, claims=claims, limit=1)
    if not found:
        await find_job(session, name)
    return next(iter(found), None)


async def follow_run(
    session: Session,
    timer_key: int,
    *,
    within_s: float | None = None,
    told: Callable[[JobRun], None] = lambda _: None,
) -> JobRun | None:
    """Wait until a start is over, and return its last run; call `told` with each run that is new or has changed.

    A start whose run failed and is tried again is not over.

    shape:   None: the start was not over `within_s`
    errors:  UnknownJob        the start was dropped before it ran: its job was removed, or somebody cancelled it
             StoreUnavailable  no answer in time
    """
    deadline_s = float("inf") if within_s is None else time.monotonic() + within_s
    seen: JobRun | None = None
    while time.monotonic() < deadline_s:
        newest, is_over = await last_run(session, timer_key)
        if newest is not None and newest != seen:
            seen = newest
            told(newest)
        if is_over:
            return newest
        await asyncio.sleep(FOLLOW_S)
    return None


async def last_run(session: Session, timer_key: int) -> tuple[JobRun | None, bool]:
    """Find the last run of a start, None if it has none yet, and say whether the start is over.

    errors:  UnknownJob        the start was dropped before it ran: its job was removed, or somebody cancelled it; or
                               it is over, and its runs are forgotten
             StoreUnavailable  no answer in time
    """
    newest = await _newest_run(session, timer_key)
    if newest is None:
        end = await _end_without_run(session, timer_key)
        if end is None:
            return None, False
        newest = await _newest_run(session, timer_key)  # it may have run between the two questions
        if newest is None:
            raise UnknownJob(end)
    if newest.outcome is None or not await _is_over(session, timer_key):
        return newest, False
    # Once more: it may have had another run since, and has none from now on.
    return await _newest_run(session, timer_key) or newest, True


def config_of(text: str) -> str:
    """Check a configuration, and return it as JSON text.

    errors:  InvalidTimer  it is no JSON, or too long
    """
    try:
        return parse_payload(text)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"config {refusal}") from None


def run_of(run_id: str) -> tuple[int, int]:
    """Read a run's name, TIMER_KEY.CLAIMS.

    errors:  UnknownJob  it is none
    """
    key, point, claims = run_id.partition(".")
    if not (point and key.isdecimal() and claims.isdecimal() and len(key) < 19 and len(claims) < 10):
        raise UnknownJob(f"run {shortened(run_id)} is none: write it as the history of its job does, such as 4711.2")
    return int(key), int(claims)


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
    return f"job {shortened(name)} is unknown: there are {', '.join(known[:NEAREST_MAX])}{more}"


async def _end_without_run(session: Session, timer_key: int) -> str | None:
    """Say how a start ended that has no run; None: it may still have one.

    errors:  UnknownJob  there is no such start
    """
    if await find_timer(session, TimerRef(timer_key)) is None:
        raise UnknownJob(f"there is no start {timer_key} of a job")
    for record in await records_of(session, TimerRef(timer_key)):
        if record.intent in DROPPED:
            why = json.loads(record.detail or "{}").get("reason") or "somebody cancelled it"
            return f"the start was dropped before it ran: {why}"
        if record.intent in ENDED:
            return f"the start is over, and its runs are forgotten: of each job {KEPT_RUNS} are kept"
    return None


async def _newest_run(session: Session, timer_key: int) -> JobRun | None:
    return next(iter(await find_runs(session, timer_key=timer_key, limit=1)), None)


async def _is_over(session: Session, timer_key: int) -> bool:
    """Say whether a start that has run has no delivery any more."""
    return await find_delivery(session, timer_key) is None


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

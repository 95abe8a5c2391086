"""The runs of jobs: read the last ones, and follow a start to its end."""

import asyncio
import time
from collections.abc import Callable

from shardclock_server.service.jobs import UnknownJob, find_job
from shardclock_server.sql.clients.history import find_timer, records_of
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.jobs.declare import KEPT_RUNS
from shardclock_server.sql.jobs.history import JobRun, find_runs
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import shortened

FOLLOW_S = 0.2  # between two looks at a run that is followed
HISTORY_MAX = 1_000
TARGET_OF_JOB = "job:"  # and the job's name: what a start's timer has for its target
DROPPED = ("CANCELED", "DISCARDED")
ENDED = ("DELIVERED", "DEAD")


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
    name: str,
    timer_key: int,
    *,
    within_s: float | None = None,
    told: Callable[[JobRun], None] = lambda _: None,
) -> JobRun | None:
    """Wait until a start of a job is over, and return its last run. A run that is new or has changed is `told`.

    A start whose run failed and is tried again is not over.

    shape:   None: the start was not over `within_s`
    errors:  UnknownJob        the start was dropped before it ran: its job was removed, or somebody cancelled it
             StoreUnavailable  no answer in time
    """
    deadline_s = float("inf") if within_s is None else time.monotonic() + within_s
    seen: JobRun | None = None
    while time.monotonic() < deadline_s:
        newest, is_over = await last_run(session, name, timer_key)
        if newest is not None and newest != seen:
            seen = newest
            told(newest)
        if is_over:
            return newest
        await asyncio.sleep(FOLLOW_S)
    return None


async def last_run(session: Session, name: str, timer_key: int) -> tuple[JobRun | None, bool]:
    """Find the last run of a job's start, and say whether the start is over. Without a run yet it is None.

    errors:  UnknownJob        the job has no such start; or the start was dropped before it ran: its job was removed,
                               or somebody cancelled it; or it is over, and its runs are forgotten
             StoreUnavailable  no answer in time
    """
    newest = await _newest_run(session, name, timer_key)
    if newest is None:
        end = await _end_without_run(session, name, timer_key)
        if end is None:
            return None, False
        newest = await _newest_run(session, name, timer_key)  # it may have run between the two questions
        if newest is None:
            raise UnknownJob(end)
    if newest.outcome is None or not await _is_over(session, timer_key):
        return newest, False
    # Once more: it may have had another run since, and has none from now on.
    return await _newest_run(session, name, timer_key) or newest, True


def run_of(run_id: str) -> tuple[int, int]:
    """Read a run's name, TIMER_KEY.CLAIMS.

    errors:  UnknownJob  it is none
    """
    key, point, claims = run_id.partition(".")
    if not (point and key.isdecimal() and claims.isdecimal() and len(key) < 19 and len(claims) < 10):
        raise UnknownJob(f"run {shortened(run_id)} is none: write it as the history of its job does, such as 4711.2")
    return int(key), int(claims)


async def _end_without_run(session: Session, name: str, timer_key: int) -> str | None:
    """Say how a start ended that has no run; None: it may still have one.

    errors:  UnknownJob  the job has no such start
    """
    timer = await find_timer(session, TimerRef(timer_key))
    if timer is None or timer.target != f"{TARGET_OF_JOB}{name}":
        raise UnknownJob(f"timer {timer_key} is no start of job {shortened(name)}")
    for record in await records_of(session, TimerRef(timer_key)):
        if record.intent in DROPPED:
            why = (record.detail or {}).get("reason") or "somebody cancelled it"
            return f"the start was dropped before it ran: {why}"
        if record.intent in ENDED:
            return f"the start is over, and its runs are forgotten: of each job {KEPT_RUNS} are kept"
    return None


async def _newest_run(session: Session, name: str, timer_key: int) -> JobRun | None:
    return next(iter(await find_runs(session, job=name, timer_key=timer_key, limit=1)), None)


async def _is_over(session: Session, timer_key: int) -> bool:
    """Say whether a start that has run has no delivery any more."""
    return await find_delivery(session, timer_key) is None

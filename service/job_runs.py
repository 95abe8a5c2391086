"""Read the last runs of jobs, and follow a start to its end."""

import asyncio
import time
from collections.abc import Callable

from shardclock.api.refusals.jobs import RUNS_FORGOTTEN, START_DROPPED, UNKNOWN_RUN, UNKNOWN_START
from shardclock_server.service.jobs import find_job
from shardclock_server.sql.clients.history import find_timer, records_of
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.jobs.declare import KEPT_RUNS, TARGET_OF_JOB
from shardclock_server.sql.jobs.history import JobRun, find_runs
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

FOLLOW_S = 0.2  # the pause between two polls of a followed run
HISTORY_MAX = 1_000
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
    """Read a run with its last log lines: the named run, or the newest run that was not skipped; None: there is no run.

    errors:  Refusal           unknown_job, unknown_run
             StoreUnavailable  Postgres did not answer within the timeout
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
    on_change: Callable[[JobRun], None] = lambda _: None,
) -> JobRun | None:
    """Wait until a start of a job has ended, and return its last run; pass each new or changed run to `on_change`.

    If the runs of a start fail, the start ends with its last attempt.

    shape:   None: the start has not ended within `within_s`
    errors:  Refusal           start_dropped: the job was removed, or the start was cancelled
             StoreUnavailable  Postgres did not answer within the timeout
    """
    deadline_s = float("inf") if within_s is None else time.monotonic() + within_s
    seen: JobRun | None = None
    while time.monotonic() < deadline_s:
        newest, is_over = await last_run(session, name, timer_key)
        if newest is not None and newest != seen:
            seen = newest
            on_change(newest)
        if is_over:
            return newest
        await asyncio.sleep(FOLLOW_S)
    return None


async def last_run(session: Session, name: str, timer_key: int) -> tuple[JobRun | None, bool]:
    """Return the last run of a job's start (None before the first run), and whether the start has ended.

    errors:  Refusal           unknown_start, start_dropped, runs_forgotten
             StoreUnavailable  Postgres did not answer within the timeout
    """
    newest = await _newest_run(session, name, timer_key)
    if newest is None:
        end = await _end_without_run(session, name, timer_key)
        if end is None:
            return None, False
        newest = await _newest_run(session, name, timer_key)  # the start may have run since the first read
        if newest is None:
            raise end
    if newest.outcome is None or not await _is_over(session, timer_key):
        return newest, False
    # Read the run again, because the start may have had another run since the first read. No run follows now, because
    # the start has ended.
    return await _newest_run(session, name, timer_key) or newest, True


def run_of(run_id: str) -> tuple[int, int]:
    """Parse a run's name, TIMER_KEY.CLAIMS.

    errors:  Refusal  unknown_run
    """
    key, point, claims = run_id.partition(".")
    if not (point and key.isdecimal() and claims.isdecimal() and len(key) < 19 and len(claims) < 10):
        raise Refusal.of(UNKNOWN_RUN, run=run_id)
    return int(key), int(claims)


async def _end_without_run(session: Session, name: str, timer_key: int) -> Refusal | None:
    """Return the refusal of a start that ended without a run; None: the start may still run.

    errors:  Refusal  unknown_start
    """
    timer = await find_timer(session, TimerRef(timer_key))
    if timer is None or timer.target != f"{TARGET_OF_JOB}{name}":
        raise Refusal.of(UNKNOWN_START, timer_key=timer_key, job=name)
    for record in await records_of(session, TimerRef(timer_key)):
        if record.intent in DROPPED:
            why = (record.detail or {}).get("reason") or "it was cancelled"
            return Refusal.of(START_DROPPED, why=why)
        if record.intent in ENDED:
            return Refusal.of(RUNS_FORGOTTEN, kept=KEPT_RUNS)
    return None


async def _newest_run(session: Session, name: str, timer_key: int) -> JobRun | None:
    return next(iter(await find_runs(session, job=name, timer_key=timer_key, limit=1)), None)


async def _is_over(session: Session, timer_key: int) -> bool:
    """Return whether a start has ended; a start that has had a run keeps its delivery until its end."""
    return await find_delivery(session, timer_key) is None

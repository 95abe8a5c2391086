"""A followed start of a job returns all its runs, and the wait ends if the start can't run any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from shardclock.api.refusals.jobs import RUNS_FORGOTTEN, START_DROPPED, UNKNOWN_START
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.service.job_runs import follow_run, history_of, last_run, logs_of
from shardclock_server.service.jobs import run_job
from shardclock_server.sql.clients.history import TimerState, find_timer
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timers
from shardclock_server.sql.deliveries.find import DeliveryState, find_delivery
from shardclock_server.sql.jobs.history import JobRun, find_runs
from shardclock_server.sql.jobs.runs import RunProgress, report_runs
from shardclock_server.sql.session import Session
from tests.support.factories import HolderClient, add_timers, query
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec
from tests.support.refusals import refusing


async def test_a_start_is_followed_through_all_attempts_to_its_end(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh", config='{"city": "Rome"}')
    told: list[JobRun] = []
    following = asyncio.create_task(follow_run(session, "refresh", key, on_change=told.append))
    await fire(shard)
    run = await worker.one()
    assert json.loads(run.config or "") == {"city": "Rome"}
    await worker.end(run, RunOutcome.FAILED, delay_s=0.0, reason="ValueError: no")
    again = await worker.one()
    await report_runs(worker.session, [RunProgress(again, 0.5, "half way", "a line")])
    assert not following.done()
    await worker.end(again, result="3")

    ended = await asyncio.wait_for(following, 10)

    assert ended is not None
    assert (ended.run_id, ended.outcome, ended.result, ended.progress) == (again.run_id, "SUCCEEDED", "3", 0.5)
    assert told[-1] == ended
    assert [(it.outcome, it.attempt) for it in await history_of(session, "refresh")] == [
        ("SUCCEEDED", 2), ("FAILED", 1)
    ]  # fmt: skip
    first, last = await logs_of(session, "refresh", run_id=run.run_id), await logs_of(session, "refresh")
    assert first is not None
    assert last is not None
    assert (first.reason, last.log) == ("ValueError: no", "a line")


async def test_a_start_that_ends_between_two_reads_returns_its_last_run(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")
    await fire(shard)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=0.0, reason="ValueError: no")

    async def asked_late(session: Session, timer_key: int) -> DeliveryState | None:
        await worker.end(await worker.one())
        return await find_delivery(session, timer_key)

    monkeypatch.setattr("shardclock_server.service.job_runs.find_delivery", asked_late)
    run, is_over = await last_run(session, "refresh", key)

    assert run is not None
    assert (run.outcome, is_over) == ("SUCCEEDED", True)


async def test_the_wait_for_a_start_ends_if_its_runs_are_not_kept(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")
    await fire(shard)
    run = await worker.one()

    async def asked_late(session: Session, which: TimerRef) -> TimerState | None:
        await worker.end(run)
        return await find_timer(session, which)

    with monkeypatch.context() as patch:
        patch.setattr("shardclock_server.service.job_runs.find_timer", asked_late)
        patch.setattr("shardclock_server.service.job_runs.find_runs", first_none(find_runs))
        ended, is_over = await last_run(session, "refresh", key)
    assert ended is not None
    assert (ended.outcome, is_over) == ("SUCCEEDED", True), "it has run between two questions"

    await query(dsn, "delete from shardclock.job_runs")
    with refusing(RUNS_FORGOTTEN):
        await last_run(session, "refresh", key)


def first_none(find: Callable[..., Awaitable[list[JobRun]]]) -> Callable[..., Awaitable[list[JobRun]]]:
    """Wrap `find` so that its first call finds no run."""
    asked = count()

    async def found(session: Session, **which: Any) -> list[JobRun]:
        return [] if next(asked) == 0 else await find(session, **which)

    return found


async def test_the_wait_for_a_start_that_no_worker_claims_ends_after_its_timeout(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")

    assert await follow_run(session, "refresh", key, within_s=0.05) is None


async def test_the_wait_for_a_dropped_start_ends_with_the_reason(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")
    await query(dsn, "delete from shardclock.jobs")
    await fire(shard)
    assert (await worker.begin()).dropped == 1

    with refusing(START_DROPPED, match="there is no such job"):
        await asyncio.wait_for(follow_run(session, "refresh", key), 10)


async def test_a_timer_that_is_not_a_start_of_the_job_is_refused_in_every_state(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(), job_spec("other"))
    theirs, dropped = await run_job(session, "other"), await run_job(session, "other")
    [plain] = await add_timers(dsn, 1)
    [cancelled] = await add_timers(dsn, 1, "now() + interval '1 hour'")
    await cancel_timers(session, [cancelled, dropped], reason="the customer paid")
    await fire(shard)
    await worker.end(await worker.one())

    for key in (theirs, dropped, plain, cancelled, 99_999):
        with refusing(UNKNOWN_START):
            await last_run(session, "refresh", key)

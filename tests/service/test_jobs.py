"""Clients see jobs as they are, follow a run to its end, and are refused in one sentence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from jobs.states import RunOutcome
from service.explain import explain
from service.jobs import (
    JobConflict,
    NoRun,
    UnknownJob,
    add_job,
    cancel_job,
    configure_job,
    disable_job,
    enable_job,
    find_job,
    follow_run,
    history_of,
    last_run,
    list_jobs,
    logs_of,
    run_job,
)
from service.story import gather
from shardclock.outline import outline_of
from sql.clients.history import TimerState, find_timer
from sql.clients.verbs import TimerRef
from sql.deliveries.find import DeliveryState, find_delivery
from sql.jobs.history import JobRun, find_runs
from sql.jobs.jobs import AddedJob
from sql.jobs.runs import SaidOfRun, report_runs
from sql.session import Session
from tests.support.factories import HolderClient, add_holder, query
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec
from tests.support.sql_client import session as opened
from timers.refusal import InvalidTimer


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    """Give a client's session: a scheduler may do all that a client does with jobs."""
    async with opened(dsn) as client:
        yield client


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    """Give a holder that keeps all slots."""
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as hand:
        yield hand


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    """Give a worker that keeps all slots."""
    async with JobWorker(dsn, 11) as hand:
        yield hand


async def test_jobs_are_listed_with_what_they_do_and_did(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    assert await list_jobs(session) == []
    await declare(dsn, job_spec(every_s=60.0), job_spec("nightly", schedule="0 3 * * *", priority=1))
    await fire(shard)
    run = await worker.one()

    busy, nightly = sorted(await list_jobs(session), key=lambda job: job.name != "refresh")

    assert (busy.name, busy.state, busy.run_id, busy.run_attempt) == ("refresh", "STARTING", run.run_id, 1)
    assert (nightly.name, nightly.state, nightly.schedule, nightly.priority) == (
        "nightly", "SCHEDULED", "0 3 * * *", 1
    )  # fmt: skip
    await worker.end(run)
    done = await find_job(session, "refresh")
    assert (done.p50_s is not None, done.p99_s is not None) == (True, True)


async def test_a_run_is_followed_through_its_attempts_to_the_end_of_its_start(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh", config='{"city": "Rome"}')
    told: list[JobRun] = []
    following = asyncio.create_task(follow_run(session, key, told=told.append))
    await fire(shard)
    run = await worker.one()
    assert json.loads(run.config or "") == {"city": "Rome"}
    await worker.end(run, RunOutcome.FAILED, delay_s=0.0, reason="ValueError: no")
    again = await worker.one()
    await report_runs(worker.session, [SaidOfRun(again, 0.5, "half way", "a line")])
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


async def test_a_start_that_ends_between_two_questions_is_told_by_its_last_run(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")
    await fire(shard)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=0.0, reason="ValueError: no")

    async def asked_late(session: Session, timer_key: int) -> DeliveryState | None:
        await worker.end(await worker.one())
        return await find_delivery(session, timer_key)

    monkeypatch.setattr("service.jobs.find_delivery", asked_late)
    run, is_over = await last_run(session, key)

    assert run is not None
    assert (run.outcome, is_over) == ("SUCCEEDED", True)


async def test_a_start_whose_run_is_forgotten_is_not_waited_for_for_ever(
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
        patch.setattr("service.jobs.find_timer", asked_late)
        patch.setattr("service.jobs.find_runs", first_none(find_runs))
        ended, is_over = await last_run(session, key)
    assert ended is not None
    assert (ended.outcome, is_over) == ("SUCCEEDED", True), "it has run between two questions"

    await query(dsn, "delete from shardclock.job_runs")
    with pytest.raises(UnknownJob, match="the start is over, and its runs are forgotten: of each job 100 are kept"):
        await last_run(session, key)


def first_none(find: Callable[..., Awaitable[list[JobRun]]]) -> Callable[..., Awaitable[list[JobRun]]]:
    """Find nothing at the first question."""
    asked = count()

    async def found(session: Session, **which: Any) -> list[JobRun]:
        return [] if next(asked) == 0 else await find(session, **which)

    return found


async def test_a_start_that_no_worker_takes_is_not_waited_for_for_ever(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")

    assert await follow_run(session, key, within_s=0.05) is None


async def test_nobody_waits_for_a_start_that_was_dropped(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    key = await run_job(session, "refresh")
    await query(dsn, "delete from shardclock.jobs")
    await fire(shard)
    assert (await worker.begin()).dropped == 1

    with pytest.raises(UnknownJob, match="the start was dropped before it ran: there is no such job"):
        await asyncio.wait_for(follow_run(session, key), 10)


async def test_the_verbs_change_a_job_and_say_what_it_does_now(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec(every_s=60.0, config='{"city": "Rome"}'))

    with pytest.raises(NoRun, match="job 'refresh' has no run to cancel: it is SCHEDULED"):
        await cancel_job(session, "refresh")
    assert await disable_job(session, "refresh", reason="too slow") == "DISABLED"
    assert await enable_job(session, "refresh") == "SCHEDULED"
    assert json.loads(await configure_job(session, "refresh", '{"city": "Bonn"}') or "") == {"city": "Rome"}
    assert json.loads((await find_job(session, "refresh")).config or "") == {"city": "Bonn"}
    assert await logs_of(session, "refresh") is None


async def test_explain_tells_what_became_of_a_start(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    run = await worker.one()
    assert "in hand" in await why_of(session, run.timer_key)
    await worker.end(run, RunOutcome.FAILED, reason="ValueError: no")

    said = await why_of(session, run.timer_key)

    assert "; given up: job:refresh at " in said
    assert said.endswith(", at attempt 1: ValueError: no")
    job = await find_job(session, "refresh")
    assert job.next_key is not None
    assert "nothing was due then: the next date is " in await why_of(session, job.next_key)


async def why_of(session: Session, timer_key: int) -> str:
    """Ask why a timer did or didn't fire, about now."""
    async with session.connection() as connection:
        now = await connection.fetchval("select clock_timestamp()")
    story = await gather(session, TimerRef(timer_key), now, now, identity="", silent_s=5.0)
    return explain(story, now).why


async def test_what_can_not_be_is_refused_in_one_sentence(dsn: str, session: Session) -> None:
    with pytest.raises(UnknownJob, match=r"job 'refrsh' is unknown"):
        await find_job(session, "refrsh")
    with pytest.raises(UnknownJob, match="there are none; an app declares them"):
        await run_job(session, "refrsh")
    await declare(dsn, job_spec())
    for verb in (cancel_job, disable_job, enable_job, run_job):
        with pytest.raises(UnknownJob, match="job 'refrsh' is unknown: is refresh meant"):
            await verb(session, "refrsh")
    await disable_job(session, "refresh", reason="too slow")
    with pytest.raises(JobConflict, match=r"was disabled at .* \(too slow\): enable it"):
        await run_job(session, "refresh")
    with pytest.raises(InvalidTimer, match=r"config '\{' is not JSON"):
        await configure_job(session, "refresh", "{")
    with pytest.raises(UnknownJob, match="run '7' is none"):
        await logs_of(session, "refresh", run_id="7")


class City(BaseModel):
    city: str


OUTLINE = outline_of(TypeAdapter(City))


async def test_a_config_that_the_function_can_not_take_is_refused_before_it_is_written(
    dsn: str, session: Session
) -> None:
    await declare(dsn, job_spec(every_s=60.0, config='{"city": "Rome"}', config_outline=OUTLINE), job_spec("any"))
    why = "config does not fit what 'app:refresh' takes: city"

    with pytest.raises(InvalidTimer, match=f"{why}: Input should be a valid string"):
        await configure_job(session, "refresh", '{"city": 5}')
    with pytest.raises(InvalidTimer, match=f"{why}: Field required"):
        await run_job(session, "refresh", config="{}")
    with pytest.raises(InvalidTimer, match=f"{why}: Field required"):
        await add_job(session, AddedJob("refresh-eu", "refresh", config="{}"))
    with pytest.raises(UnknownJob, match="job 'refesh' is unknown: is refresh meant"):
        await add_job(session, AddedJob("refresh-eu", "refesh", config="{}"))

    assert [(job.name, job.config, job.waiting) for job in await list_jobs(session)] == [
        ("any", None, 0), ("refresh", '{"city": "Rome"}', 0)
    ]  # fmt: skip
    await configure_job(session, "any", '{"city": 5}')
    await configure_job(session, "refresh", '{"city": "Bonn"}')
    assert await add_job(session, AddedJob("refresh-eu", "refresh", config='{"city": "Bonn"}')) == "SCHEDULED"


async def test_the_app_s_last_word_says_what_a_function_takes(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec(config_outline=OUTLINE))
    assert await declare(dsn, job_spec()) == {"refresh": ["config_outline"]}
    await configure_job(session, "refresh", "5")

    assert await declare(dsn, job_spec(config_outline=OUTLINE)) == {"refresh": ["config_outline"]}
    assert await declare(dsn, job_spec(config_outline=OUTLINE)) == {}
    assert (await find_job(session, "refresh")).config == "5", "what an operator gave stays"
    with pytest.raises(InvalidTimer, match="takes: Input should be an object"):
        await configure_job(session, "refresh", "5")

    await declare(dsn)
    await configure_job(session, "refresh", "6")
    assert (await find_job(session, "refresh")).config == "6", "nobody knows what it takes"

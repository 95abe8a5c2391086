"""Clients see the state of jobs, and a refusal is one sentence."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, TypeAdapter

from shardclock.api.codes import invalid
from shardclock.api.refusals.jobs import JOB_DISABLED, JOB_WITHOUT_RUN, UNKNOWN_JOB, UNKNOWN_RUN
from shardclock.outline import outline_of
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.service.explain import explain
from shardclock_server.service.job_runs import logs_of
from shardclock_server.service.jobs import (
    add_job,
    cancel_job,
    configure_job,
    disable_job,
    enable_job,
    find_job,
    run_job,
)
from shardclock_server.service.timeline import read_timeline
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.jobs.jobs import AddedJob, find_jobs
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import HolderClient
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec
from tests.support.refusals import refusing


async def test_jobs_are_listed_with_their_state_and_their_last_runs(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    assert await find_jobs(session) == []
    await declare(dsn, job_spec(every_s=60.0), job_spec("nightly", schedule="0 3 * * *", priority=1))
    await fire(shard)
    run = await worker.one()

    busy, nightly = sorted(await find_jobs(session), key=lambda job: job.name != "refresh")

    assert (busy.name, busy.state, busy.run_id, busy.run_attempt) == ("refresh", "STARTING", run.run_id, 1)
    assert (nightly.name, nightly.state, nightly.schedule, nightly.priority) == (
        "nightly", "SCHEDULED", "0 3 * * *", 1
    )  # fmt: skip
    await worker.end(run)
    done = await find_job(session, "refresh")
    assert (done.p50_s is not None, done.p99_s is not None) == (True, True)


async def test_each_verb_changes_the_job_and_returns_its_state(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec(every_s=60.0, config='{"city": "Rome"}'))

    with refusing(JOB_WITHOUT_RUN):
        await cancel_job(session, "refresh")
    assert await disable_job(session, "refresh", reason="too slow") == "DISABLED"
    assert await enable_job(session, "refresh") == "SCHEDULED"
    assert json.loads(await configure_job(session, "refresh", '{"city": "Bonn"}') or "") == {"city": "Rome"}
    assert json.loads((await find_job(session, "refresh")).config or "") == {"city": "Bonn"}
    assert await logs_of(session, "refresh") is None


async def test_explain_reports_the_end_of_a_start(
    dsn: str, session: Session, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    run = await worker.one()
    assert "has claimed the delivery" in await why_of(session, run.timer_key)
    await worker.end(run, RunOutcome.FAILED, reason="ValueError: no")

    said = await why_of(session, run.timer_key)

    assert "; given up: job:refresh at " in said
    assert said.endswith(", at attempt 1: ValueError: no")
    job = await find_job(session, "refresh")
    assert job.next_key is not None
    assert "nothing was due then: the next date is " in await why_of(session, job.next_key)


async def why_of(session: Session, timer_key: int) -> str:
    """Explain a timer at the present moment."""
    async with session.connection() as connection:
        now = await connection.fetchval("select clock_timestamp()")
    timeline = await read_timeline(session, TimerRef(timer_key), now, now, identity="", silent_s=5.0)
    return explain(timeline, now).why


async def test_an_impossible_request_is_refused_in_one_sentence(dsn: str, session: Session) -> None:
    with refusing(UNKNOWN_JOB):
        await find_job(session, "refrsh")
    with refusing(UNKNOWN_JOB, match="there are none; an app declares them"):
        await run_job(session, "refrsh")
    await declare(dsn, job_spec())
    for verb in (cancel_job, disable_job, enable_job, run_job):
        with refusing(UNKNOWN_JOB, match="is refresh meant"):
            await verb(session, "refrsh")
    await disable_job(session, "refresh", reason="too slow")
    with refusing(JOB_DISABLED, match="too slow"):
        await run_job(session, "refresh")
    with refusing(invalid("config"), match="is not JSON"):
        await configure_job(session, "refresh", "{")
    with refusing(UNKNOWN_RUN):
        await logs_of(session, "refresh", run_id="7")


class City(BaseModel):
    city: str


OUTLINE = outline_of(TypeAdapter(City))


async def test_a_config_that_does_not_fit_the_function_is_refused_before_the_write(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec(every_s=60.0, config='{"city": "Rome"}', config_outline=OUTLINE), job_spec("any"))
    why = "config does not fit the argument of 'app:refresh': city"

    with pytest.raises(InvalidTimer, match=f"{why}: Input should be a valid string"):
        await configure_job(session, "refresh", '{"city": 5}')
    with pytest.raises(InvalidTimer, match="cty: no such field; the only field is city"):
        await configure_job(session, "refresh", '{"city": "Bonn", "cty": "Rome"}')
    with pytest.raises(InvalidTimer, match=f"{why}: Field required"):
        await run_job(session, "refresh", config="{}")
    with pytest.raises(InvalidTimer, match=f"{why}: Field required"):
        await add_job(session, AddedJob("refresh-eu", "refresh", config="{}"))
    with refusing(UNKNOWN_JOB, match="is refresh meant"):
        await add_job(session, AddedJob("refresh-eu", "refesh", config="{}"))

    assert [(job.name, job.config, job.waiting) for job in await find_jobs(session)] == [
        ("any", None, 0), ("refresh", '{"city": "Rome"}', 0)
    ]  # fmt: skip
    await configure_job(session, "any", '{"city": 5}')
    await configure_job(session, "refresh", '{"city": "Bonn"}')
    assert await add_job(session, AddedJob("refresh-eu", "refresh", config='{"city": "Bonn"}')) == "SCHEDULED"


async def test_a_config_is_checked_against_the_app_s_newest_declaration(dsn: str, session: Session) -> None:
    await declare(dsn, job_spec(config_outline=OUTLINE))
    assert await declare(dsn, job_spec()) == {"refresh": ["config_outline"]}
    await configure_job(session, "refresh", "5")

    assert await declare(dsn, job_spec(config_outline=OUTLINE)) == {"refresh": ["config_outline"]}
    assert await declare(dsn, job_spec(config_outline=OUTLINE)) == {}
    assert (await find_job(session, "refresh")).config == "5", "what an operator gave stays"
    with pytest.raises(InvalidTimer, match="Input should be an object"):
        await configure_job(session, "refresh", "5")

    await declare(dsn)
    await configure_job(session, "refresh", "6")
    assert (await find_job(session, "refresh")).config == "6", "nobody knows what it takes"

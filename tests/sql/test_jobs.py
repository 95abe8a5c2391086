"""Prove that each run of a job is marked before it begins, ended once, and followed by a new start or attempt."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from shardclock_server.jobs.next_attempt import RunEnding
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.jobs.runs import EndedRun, How, record_late_runs
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import (
    LEASE_S,
    JobWorker,
    declare,
    fire,
    is_whole,
    job_of,
    last_detail,
    outcomes,
    runs_of,
    said_of,
)
from tests.support.jobs import job_spec

pytestmark = pytest.mark.each_version

RUN_NOW = "select shardclock.run_job($1, $2)"


async def start(dsn: str, shard: HolderClient, name: str = "refresh", config: str | None = None) -> int:
    """Start a job on request; return the key of its start."""
    key: int = await value(dsn, RUN_NOW, name, config)
    await fire(shard)
    return key


async def test_a_run_is_marked_and_counted_before_it_begins(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(every_s=60.0, config='{"city": "Berlin"}', max_retries=5))
    assert await fire(shard) == 1

    run = await worker.one()

    assert (run.job, run.attempt, run.claims, run.run_claims, run.crashed) == ("refresh", 1, 1, 1, False)
    assert json.loads(run.config or "") == {"city": "Berlin"}
    assert json.loads(run.policy)["max_retries"] == 5
    (row,) = await query(dsn, "select * from shardclock.jobs")
    assert (row["state"], row["crashes"], row["consecutive_crashes"], row["runs"]) == ("STARTING", 1, 1, 1)
    assert (row["run_timer_key"], row["run_claims"], row["run_holder"]) == (run.timer_key, 1, 11)
    job = await job_of(dsn)
    assert (job.crashes, job.run_id, job.holder) == (0, run.run_id, 11), "the present run is not a crash yet"
    (kept,) = await runs_of(dsn)
    assert (kept.run_id, kept.outcome, kept.attempt, kept.holder) == (run.run_id, None, 1, 11)
    assert await said_of(dsn) == ["SCHEDULED", "TRIGGERED", "STARTING"]
    assert (await worker.begin()).runs == [], "it has begun"
    assert await is_whole(dsn) == []


async def test_the_end_removes_the_mark_and_schedules_the_next_start_an_interval_later(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()

    assert await worker.end(run, result='{"rows": 3}', log="a line", progress=1.0, message="all") == How.ENDED

    job = await job_of(dsn)
    assert (job.state, job.runs, job.successes, job.failures, job.crashes) == ("SCHEDULED", 1, 1, 0, 0)
    assert (job.last_outcome, job.last_success, job.run_id) == ("SUCCEEDED", job.last_finish, None)
    assert job.last_finish is not None
    assert job.next_start == job.last_finish + timedelta(seconds=60)
    (kept,) = await runs_of(dsn)
    assert (kept.outcome, kept.result, kept.log) == ("SUCCEEDED", '{"rows": 3}', "a line")
    assert (kept.progress, kept.message) == (1.0, "all")
    assert await said_of(dsn) == ["SCHEDULED", "TRIGGERED", "STARTING", "DELIVERED", "SCHEDULED"]
    assert await last_detail(dsn, "DELIVERED") == {
        "run": run.run_id, "attempt": 1, "ms": 500, "result": {"rows": 3}
    }  # fmt: skip
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 0
    assert await worker.end(run) == How.LOST, "sent again, it changes nothing"
    assert (await job_of(dsn)).runs == 1
    assert await is_whole(dsn) == []


async def test_a_failed_run_is_tried_again_and_the_next_start_comes_after_the_last_try(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    run = await worker.one()

    assert (
        await worker.end(run, RunOutcome.FAILED, delay_s=30.0, reason="ValueError: no", traceback="in f") == How.ENDED
    )
    job = await job_of(dsn)
    assert (job.state, job.next_start, job.failures, job.consecutive_failures) == ("SCHEDULED", None, 1, 1)
    assert job.last_finish is not None
    assert job.retry_at == job.last_finish + timedelta(seconds=30)
    assert (await worker.begin()).runs == []
    await worker.wait(31.0)
    again = await worker.one()
    assert (again.timer_key, again.claims, again.attempt) == (run.timer_key, 2, 2)
    assert await worker.end(again, RunOutcome.FAILED, reason="ValueError: no (attempt 2 of 2)") == How.ENDED

    job = await job_of(dsn)
    assert job.last_finish is not None
    assert job.next_start == job.last_finish + timedelta(hours=1)
    assert (job.failures, job.consecutive_failures, job.successes) == (2, 2, 0)
    assert [(it.outcome, it.attempt, it.reason) for it in await runs_of(dsn)] == [
        ("FAILED", 1, "ValueError: no"), ("FAILED", 2, "ValueError: no (attempt 2 of 2)")
    ]  # fmt: skip
    assert (await said_of(dsn))[-2:] == ["DEAD", "SCHEDULED"]
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 0
    assert await is_whole(dsn) == []


async def test_a_run_whose_worker_died_is_found_counted_and_waits_for_the_old_lease(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    assert (await another.begin()).runs == [], "it is in hand"
    await end_holders(another.session, [worker.holder], why="dead")

    found = await another.one()

    assert (found.timer_key, found.claims, found.run_claims, found.crashed) == (run.timer_key, 2, 1, True)
    assert LEASE_S - 5 < found.lease_left.total_seconds() <= LEASE_S
    assert (await job_of(dsn)).state == "STARTING", "it is not ended yet"
    assert await another.end(found, RunOutcome.CRASHED, delay_s=20.0, reason="its worker was lost") == How.ENDED
    job = await job_of(dsn)
    assert (job.state, job.crashes, job.consecutive_crashes, job.consecutive_failures) == ("SCHEDULED", 1, 1, 1)
    assert await outcomes(dsn) == {"CRASHED": 1}
    assert (await another.begin()).runs == []
    await another.wait(21.0)
    again = await another.one()
    assert (again.attempt, again.crashed) == (2, False)
    assert await another.end(again) == How.ENDED
    job = await job_of(dsn)
    assert (job.crashes, job.consecutive_crashes, job.successes, job.runs) == (1, 0, 1, 2)
    assert await is_whole(dsn) == []


async def test_the_late_end_of_a_run_that_was_given_up_changes_nothing_and_is_recorded_as_late(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    await another.wait(LEASE_S + 1)
    found = await another.one()

    assert await worker.end(run) == How.LOST, "its delivery is another worker's already"
    await another.end(found, RunOutcome.CRASHED, delay_s=0.0)
    again = await another.one()
    before = await query(dsn, "select * from shardclock.jobs")
    assert await worker.end(run) == How.LOST
    late = [EndedRun(run, RunEnding(RunOutcome.SUCCEEDED))]
    assert await record_late_runs(worker.session, late) == {run.claim}

    assert await query(dsn, "select * from shardclock.jobs") == before
    first, second = await runs_of(dsn)
    assert (first.outcome, first.late_outcome) == ("CRASHED", "SUCCEEDED")
    assert first.late_at is not None
    assert (second.run_id, second.outcome) == (again.run_id, None)
    assert await another.end(again) == How.ENDED
    late = [EndedRun(again, RunEnding(RunOutcome.SUCCEEDED))]
    assert await record_late_runs(another.session, late) == frozenset(), "an answer that was lost is not late"


async def test_a_crash_is_counted_once_even_if_the_worker_that_finds_it_dies_too(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    await worker.one()
    await another.wait(LEASE_S + 1)
    await another.one()
    await another.wait(LEASE_S + 1)

    found = await another.one()

    assert (found.claims, found.run_claims, found.attempt) == (3, 1, 1)
    assert await another.end(found, RunOutcome.CRASHED) == How.ENDED
    assert ((await job_of(dsn)).crashes, await outcomes(dsn)) == (1, {"CRASHED": 1})


async def test_after_a_crash_a_job_pauses_before_any_start(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(every_s=0.1, overlap="queue"))
    await fire(shard)
    await worker.wait(0.0)
    await worker.end(await worker.one(), RunOutcome.CRASHED, rest_s=5.0)
    await start(dsn, shard)
    assert (await worker.begin()).runs == []
    await worker.wait(4.9)
    assert (await worker.begin()).runs == []

    await worker.wait(0.2)

    assert (await worker.one()).crashed is False


async def test_an_interrupted_run_does_not_count_and_is_due_at_once(
    dsn: str, shard: HolderClient, worker: JobWorker, another: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()

    assert await worker.end(run, RunOutcome.INTERRUPTED, delay_s=0.0) == How.ENDED

    job = await job_of(dsn)
    assert (job.crashes, job.consecutive_crashes, job.failures, job.successes) == (0, 0, 0, 0)
    again = await another.one()
    assert (again.attempt, again.claims) == (1, 2)


@pytest.mark.parametrize(
    ("overlap", "waiting", "skipped", "follows"), [("skip", 0, 2, None), ("queue", 2, 0, 0), ("replace", 1, 1, 1)]
)
async def test_a_job_has_one_run_at_a_time_and_its_overlap_decides_about_other_starts(
    dsn: str, shard: HolderClient, *, overlap: str, waiting: int, skipped: int, follows: int | None
) -> None:
    await declare(dsn, job_spec(overlap=overlap))
    first = await start(dsn, shard)
    async with JobWorker(dsn, 11) as worker, JobWorker(dsn, 12) as another:
        run = await worker.one()
        others = [await start(dsn, shard), await start(dsn, shard)]

        begun = [*(await another.begin()).runs, *(await worker.begin()).runs]

        assert begun == []
        job = await job_of(dsn)
        assert (job.waiting, run.timer_key) == (waiting, first)
        assert job.state == ("TERMINATING" if overlap == "replace" else "STARTING")
        assert (await outcomes(dsn))["SKIPPED"] == skipped
        await worker.end(run, RunOutcome.CANCELED)
        following = [it.timer_key for it in (await another.begin()).runs]
        assert following == ([] if follows is None else [others[follows]])
    assert await is_whole(dsn) == []


async def test_the_starts_in_a_queue_are_bounded(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(overlap="queue"))
    await start(dsn, shard)
    await worker.one()
    await query(dsn, "select shardclock.run_job('refresh') from generate_series(1, 130)")
    await fire(shard)

    dropped = (await worker.begin()).dropped

    assert (dropped, (await job_of(dsn)).waiting) == (30, 100)


async def test_if_slots_are_scarce_jobs_with_the_lowest_priority_number_start_first(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    names = {"third": 3, "first": 1, "fourth": 4, "second": 2}
    await declare(dsn, *(job_spec(name, priority=priority) for name, priority in names.items()))
    for name in ("fourth", "third", "second", "first"):
        await start(dsn, shard, name)

    assert {run.job for run in (await worker.begin(places=2)).runs} == {"first", "second"}
    assert (await worker.begin(places=0)).runs == []
    assert [run.job for run in (await worker.begin(places=1)).runs] == ["third"]


async def test_a_start_s_payload_is_the_configuration_of_its_run(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(config='{"region": "eu"}'))
    await start(dsn, shard, config='{"region": "us"}')
    run = await worker.one()
    assert json.loads(run.config or "") == {"region": "us"}
    await worker.end(run)

    await start(dsn, shard)

    assert json.loads((await worker.one()).config or "") == {"region": "eu"}


async def test_no_attempt_is_later_than_the_next_start(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    await worker.end(run)
    key = await start(dsn, shard)
    manual = await worker.one()

    assert await worker.end(manual, RunOutcome.FAILED, delay_s=120.0, reason="no") == How.ENDED

    assert await value(dsn, "select count(*) from shardclock.deliveries") == 0, "the start in 60 s is the next attempt"
    assert (await said_of(dsn))[-2:] == ["DEAD", "SCHEDULED"]
    assert manual.timer_key == key
    soon = await start(dsn, shard)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=10.0, reason="no")
    assert await value(dsn, "select timer_key from shardclock.deliveries") == soon


async def test_if_a_job_is_disabled_during_a_run_no_run_follows(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    assert await value(dsn, "select shardclock.disable_job('refresh', 'too slow')") == "TERMINATING"

    assert await worker.end(run, RunOutcome.FAILED, delay_s=1.0, reason="no") == How.ENDED

    job = await job_of(dsn)
    assert (job.state, job.next_start, job.retry_at, job.disabled_why) == ("DISABLED", None, None, "too slow")
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 0
    assert (await said_of(dsn))[-3:] == ["TERMINATING", "DEAD", "DISABLED"]
    assert await is_whole(dsn) == []


async def test_a_disabled_job_has_no_next_attempt_until_it_is_enabled(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    await worker.end(await worker.one(), RunOutcome.FAILED, delay_s=30.0, reason="no")
    retry_at = (await job_of(dsn)).retry_at
    assert retry_at is not None

    await value(dsn, "select shardclock.disable_job('refresh', 'too slow')")
    assert (await job_of(dsn)).retry_at is None

    await value(dsn, "select shardclock.enable_job('refresh')")
    assert (await job_of(dsn)).retry_at == retry_at


async def test_starts_of_a_job_that_is_disabled_or_unknown_are_dropped(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("gone"))
    await start(dsn, shard, "gone")
    await query(dsn, "delete from shardclock.jobs where name = 'gone'")
    await query(dsn, "select shardclock.disable_job('refresh')")

    begun = await worker.begin()

    assert (begun.runs, begun.dropped) == ([], 2)
    assert await value(dsn, "select count(*) from shardclock.deliveries") == 0
    rows = await query(dsn, "select detail from shardclock.command_log where intent = 'DISCARDED'")
    assert sorted(json.loads(row["detail"])["reason"] for row in rows) == [
        "the job is disabled", "there is no such job"
    ]  # fmt: skip


async def test_a_client_s_open_transaction_delays_only_its_own_job(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("other", every_s=60.0))
    await fire(shard)
    await client.begin()
    await client.value("select shardclock.configure_job('refresh', '{}')")

    (run,) = (await worker.begin()).runs
    assert run.job == "other"
    await client.rollback()
    mine = await worker.one()
    assert mine.job == "refresh"
    await client.begin()
    await client.value("select shardclock.configure_job('refresh', '{}')")

    assert await worker.end(mine) == How.LOCKED
    assert await worker.end(run) == How.ENDED
    await client.commit()
    assert await worker.end(mine) == How.ENDED


async def test_a_locked_start_that_must_not_run_delays_no_other_start(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("other", every_s=60.0))
    await fire(shard)
    await query(dsn, "update shardclock.jobs set state = 'DISABLED', disabled_at = now() where name = 'refresh'")
    await client.begin()
    await client.value("select 1 from shardclock.deliveries where target = 'job:refresh' for update")

    begun = await worker.begin()

    assert ([run.job for run in begun.runs], begun.dropped) == (["other"], 0)
    await client.rollback()
    assert (await worker.begin()).dropped == 1

"""A worker executes the runs of its jobs, ends runs on request, and leaves no state behind."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from typing import Any

import asyncpg
import pytest

import shardclock_server.jobs.next_attempt
import shardclock_server.workers.runs.outcome_writer
from shardclock import Completed, Failed, ReportSnapshot, RunOrder
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.jobs.runs import How, end_runs
from shardclock_server.workers.machine import Machine
from shardclock_server.workers.settings import WorkerSettings
from tests.support.factories import BOUND_S, HolderClient, query, value
from tests.support.job_runs import declare, fire, is_whole, job_of, outcomes, runs_of, said_of
from tests.support.jobs import job_spec
from tests.support.runs import FakeRunProcess, RunProcesses, running_jobs
from tests.support.waiting import eventually

ONE_PLACE = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02, run_places=1)


async def is_in(dsn: str, state: str, name: str = "refresh") -> bool:
    return (await job_of(dsn, name)).state == state


async def has_ended(dsn: str, runs: int, name: str = "refresh") -> bool:
    counts = await outcomes(dsn, name)
    return counts["going"] == 0 and sum(counts.values()) >= runs


async def test_a_job_runs_and_its_next_start_is_an_interval_later(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses(lambda order: Completed({"attempt": order.attempt}))
    spec = job_spec(every_s=3_600.0, config='{"city": "Rome"}')
    await declare(dsn, spec)
    await fire(shard)

    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: has_ended(dsn, 1))

    (order,) = processes.orders
    assert json.loads(order.config or "") == {"city": "Rome"}
    job = await job_of(dsn)
    assert (job.state, job.runs, job.successes, job.crashes, job.last_outcome) == ("SCHEDULED", 1, 1, 0, "SUCCEEDED")
    assert job.next_start is not None
    assert await said_of(dsn) == [
        "SCHEDULED", "TRIGGERED", "STARTING", "RUNNING", "DELIVERED", "SCHEDULED"
    ]  # fmt: skip
    (run,) = await runs_of(dsn)
    assert (run.result, run.running_at is not None) == ('{"attempt": 1}', True)
    assert await is_whole(dsn) == []


async def test_a_run_that_fails_is_tried_again_in_the_same_process(dsn: str, shard: HolderClient) -> None:
    def fails_twice(order: RunOrder) -> Completed | Failed:
        return Completed() if order.attempt == 3 else Failed(f"ValueError: {order.attempt}", "error", "in f")

    processes = RunProcesses(fails_twice)
    spec = job_spec(every_s=3_600.0, retry_period_s=0.1)
    await declare(dsn, spec)
    await fire(shard)

    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: has_ended(dsn, 3))

    assert len(processes.started) == 1
    assert await outcomes(dsn) == {"FAILED": 2, "SUCCEEDED": 1}
    job = await job_of(dsn)
    assert (job.failures, job.consecutive_failures, job.runs) == (2, 0, 3)


async def test_the_death_of_a_process_is_a_crash_and_the_next_run_gets_another_process(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.jobs.next_attempt, "CRASH_WAIT_S", 0.3)
    processes = RunProcesses(gate=asyncio.Event())
    spec = job_spec(every_s=0.1, max_retries=0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: is_in(dsn, "RUNNING"))
        assert (await job_of(dsn)).crashes == 0
        processes.started[0][1].kill()
        await eventually(lambda: has_ended(dsn, 1))

        job = await job_of(dsn)
        assert (job.crashes, job.consecutive_crashes, job.last_outcome) == (1, 1, "CRASHED")
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: _fires(shard))
        await eventually(lambda: has_ended(dsn, 2))

    assert (await outcomes(dsn))["SUCCEEDED"] >= 1
    job = await job_of(dsn)
    assert (job.crashes, job.consecutive_crashes) == (1, 0)
    assert len(processes.started) == 2


async def test_a_disable_ends_the_present_run_before_its_lease_ends(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses(gate=asyncio.Event())
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: is_in(dsn, "RUNNING"))

        assert await value(dsn, "select shardclock.disable_job('refresh', 'too slow')") == "TERMINATING"
        await eventually(lambda: is_in(dsn, "DISABLED"), within_s=10.0)  # the worker's lease lasts 20 s

    (run,) = await runs_of(dsn)
    assert (run.outcome, run.reason) == ("CANCELED", "disabled: too slow; it ended on request")
    assert await said_of(dsn) == [
        "SCHEDULED", "TRIGGERED", "STARTING", "RUNNING", "TERMINATING", "DISCARDED", "DISABLED"
    ]  # fmt: skip


async def test_a_later_start_replaces_the_present_run(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses(gate=asyncio.Event())
    spec = job_spec(overlap="replace")
    await declare(dsn, spec)
    async with running_jobs(dsn, processes, [spec], ONE_PLACE):
        for start in (1, 2):
            await query(dsn, "select shardclock.run_job('refresh')")
            await fire(shard)
            await eventually(partial(_has_made, processes, start))
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: has_ended(dsn, 2))

    assert [run.outcome for run in await runs_of(dsn)] == ["CANCELED", "SUCCEEDED"]


async def test_a_run_at_a_drain_is_cancelled_and_made_again_by_the_next_worker(dsn: str, shard: HolderClient) -> None:
    going, next_ones = RunProcesses(gate=asyncio.Event(), heeds=False), RunProcesses()
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, going, [spec]):
        await eventually(lambda: is_in(dsn, "RUNNING"))

    assert going.started[0][1].told.is_set()
    assert going.started[0][1].killed
    async with running_jobs(dsn, next_ones, [spec]):
        await eventually(lambda: has_ended(dsn, 2))
    assert await outcomes(dsn) == {"INTERRUPTED": 1, "SUCCEEDED": 1}
    job = await job_of(dsn)
    assert (job.crashes, job.failures, next_ones.orders[0].attempt) == (0, 0, 1)


async def test_a_worker_that_was_declared_dead_kills_its_run_and_the_next_counts_the_crash(
    dsn: str, shard: HolderClient
) -> None:
    going, next_ones = RunProcesses(gate=asyncio.Event(), heeds=False), RunProcesses()
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, going, [spec]) as worker:
        await eventually(lambda: is_in(dsn, "RUNNING"))
        async with HolderClient(dsn, holder=1) as hand:
            await query(dsn, "update shardclock.deliveries set claimed_by = 99, claims = claims + 1")
            await end_holders(hand.session, [worker.holder], why="dead")
        await eventually(lambda: going.started[0][1].killed)

    await query(dsn, "update shardclock.deliveries set claimed_by = null, claimed_until = null")
    async with running_jobs(dsn, next_ones, [spec]):
        await eventually(lambda: _crashed(dsn))
    assert next_ones.orders == []


async def test_a_run_that_another_worker_has_ended_leaves_no_state(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses(gate=asyncio.Event())
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec]) as worker:
        await eventually(lambda: is_in(dsn, "RUNNING"))
        await query(dsn, "update shardclock.jobs set run_claims = run_claims + 1")

        await eventually(lambda: processes.started[0][1].killed)
        await eventually(lambda: not worker.runs._table.live)

        assert not worker.runs._table._called_s


async def test_the_report_of_a_run_is_shown_while_it_runs(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses(gate=asyncio.Event())
    spec = job_spec(every_s=60.0)
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec]):
        await eventually(lambda: is_in(dsn, "RUNNING"))
        processes.started[0][1].seen = ReportSnapshot(0.25, "epoch 1", report_count=1, lines=1, log="begins")

        await eventually(lambda: _says(dsn, 0.25, "epoch 1"))

        assert (await runs_of(dsn))[0].log == "begins"


async def test_an_invalid_policy_fails_only_its_own_job(dsn: str, shard: HolderClient) -> None:
    specs = [job_spec("bad", every_s=60.0), job_spec("good", every_s=60.0)]
    await declare(dsn, *specs)
    await query(dsn, "update shardclock.jobs set policy = '{\"grace_s\": \"long\"}' where name = 'bad'")
    await fire(shard)

    async with running_jobs(dsn, RunProcesses(), specs):
        await eventually(lambda: has_ended(dsn, 1, "good"))
        await eventually(lambda: has_ended(dsn, 1, "bad"))

    (run,) = await runs_of(dsn, "bad")
    assert run.outcome == "FAILED"
    assert (run.reason or "").startswith("policy is refused: grace_s 'long' is refused: it must be a number from 0")


async def test_a_worker_without_the_code_of_a_job_does_not_claim_the_job(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("new", every_s=60.0))
    await fire(shard)

    async with running_jobs(dsn, RunProcesses(), [job_spec(every_s=60.0)]):
        await eventually(lambda: has_ended(dsn, 1, "new"))

    (run,) = await runs_of(dsn, "new")
    assert (run.outcome, run.reason) == (RunOutcome.INTERRUPTED, "this worker's app does not have the job's code")
    assert (await job_of(dsn, "new")).failures == 0


async def test_a_job_that_is_added_with_gpus_at_run_time_waits_where_no_gpus_are_given_out(
    dsn: str, shard: HolderClient
) -> None:
    specs = [job_spec(every_s=60.0), job_spec("trains", every_s=60.0)]
    await declare(dsn, *specs)
    await query(dsn, "update shardclock.jobs set policy = '{\"num_gpus\": 1}' where name = 'trains'")
    await fire(shard)

    async with running_jobs(dsn, RunProcesses(), specs, machine=Machine(cpus=2, memory_mib=1_024)):
        await eventually(lambda: has_ended(dsn, 1))

    assert await runs_of(dsn, "trains") == []
    assert (await query(dsn, "select claims from shardclock.deliveries where target = 'job:trains'"))[0]["claims"] == 0


def _has_made(processes: RunProcesses, runs: int) -> bool:
    return len(processes.orders) == runs


async def _fires(shard: HolderClient) -> bool:
    return await fire(shard) > 0


async def _crashed(dsn: str) -> bool:
    return (await outcomes(dsn))["CRASHED"] == 1


async def _says(dsn: str, progress: float, message: str) -> bool:
    job = await job_of(dsn)
    return (job.progress, job.message) == (progress, message)


async def test_while_its_job_is_locked_the_end_of_a_run_waits_and_its_lease_is_renewed(
    dsn: str, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[How] = []

    async def end(*given: Any) -> dict[Claim, How]:
        how = await end_runs(*given)
        asked.extend(how.values())
        return how

    monkeypatch.setattr(shardclock_server.workers.runs.outcome_writer, "end_runs", end)
    spec, gate = job_spec(every_s=3_600.0), asyncio.Event()
    await declare(dsn, spec)
    await fire(shard)
    lasting = WorkerSettings(delivery_poll_s=0.05, heartbeat_s=0.02, run_lease_s=5.0)
    async with running_jobs(dsn, RunProcesses(gate=gate), [spec], lasting):
        await eventually(lambda: is_in(dsn, "RUNNING"))
        connection = await asyncpg.connect(dsn)
        lock = connection.transaction()
        await lock.start()
        await connection.execute("select from shardclock.jobs for update")
        gate.set()
        until = await value(dsn, "select claimed_until from shardclock.deliveries")
        began_s = time.monotonic()
        renewed = "select claimed_until > $1::timestamptz + interval '1 second' from shardclock.deliveries"
        await eventually(lambda: value(dsn, renewed, until), within_s=BOUND_S)
        assert len(asked) <= 2 + (time.monotonic() - began_s) / 0.05, "it asks at each poll, and not all the time"
        await lock.rollback()
        await connection.close()
        await eventually(lambda: has_ended(dsn, 1))

    assert await outcomes(dsn) == {"SUCCEEDED": 1}
    assert set(asked) == {How.LOCKED, How.ENDED}


async def test_a_run_with_a_locked_delivery_continues_and_other_leases_are_renewed(
    dsn: str, shard: HolderClient
) -> None:
    processes = RunProcesses(gate=asyncio.Event(), heeds=False)
    specs = [job_spec("locked", every_s=3_600.0), job_spec("other", every_s=3_600.0)]
    await declare(dsn, *specs)
    await fire(shard)
    lasting = WorkerSettings(delivery_poll_s=0.05, heartbeat_s=0.02, run_lease_s=5.0)
    ends = "select claimed_until from shardclock.deliveries where target = 'job:' || $1"
    async with running_jobs(dsn, processes, specs, lasting):
        await eventually(lambda: is_in(dsn, "RUNNING", "locked"))
        await eventually(lambda: is_in(dsn, "RUNNING", "other"))
        connection = await asyncpg.connect(dsn)
        lock = connection.transaction()
        await lock.start()
        await connection.execute("select from shardclock.deliveries where target = 'job:locked' for update")
        before = [await value(dsn, ends, spec.name) for spec in specs]
        renewed = f"select ({ends}) > $2::timestamptz"
        await eventually(lambda: value(dsn, renewed, "other", before[1]))
        assert await value(dsn, ends, "locked") == before[0]
        await lock.rollback()
        await connection.close()
        await eventually(lambda: value(dsn, renewed, "locked", before[0]))
        assert not any(process.killed for _, process in processes.started)
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: has_ended(dsn, 1, "locked"))
        await eventually(lambda: has_ended(dsn, 1, "other"))

    assert await outcomes(dsn, "locked") == await outcomes(dsn, "other") == {"SUCCEEDED": 1}


async def test_a_run_is_not_shown_as_called_if_its_process_had_ended(dsn: str, shard: HolderClient) -> None:
    spec = job_spec(every_s=3_600.0, max_retries=0)
    await declare(dsn, spec)
    await fire(shard)

    async with running_jobs(dsn, lambda _: FakeRunProcess(is_closed=True), [spec]):
        await eventually(lambda: has_ended(dsn, 1))

    (run,) = await runs_of(dsn)
    assert (run.outcome, run.running_at) == ("CRASHED", None)

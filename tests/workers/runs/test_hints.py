"""Prove that hints of other deliveries cost no look for starts of jobs, and that a start begins with its hint."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import shardclock_server.workers.runs.runner
from shardclock_server.sql.deliveries.hints import DELIVERIES, JOBS, send_delivery_hint
from shardclock_server.sql.hints import HintListener
from shardclock_server.sql.jobs.runs import begin_runs
from shardclock_server.workers.settings import WorkerSettings
from tests.support.deliveries import add_deliveries, deliver
from tests.support.factories import HolderClient, query
from tests.support.job_runs import declare, fire, job_of
from tests.support.jobs import job_spec
from tests.support.plans import prepare
from tests.support.runs import RunProcesses, running_jobs
from tests.support.waiting import eventually

HINTS = 20
# Only hints wake this worker.
NO_POLLS = WorkerSettings(delivery_poll_s=600.0, heartbeat_s=0.02)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep a mark for each look for starts of jobs."""
    made: list[str] = []

    async def counted(*args: Any, **values: Any) -> Any:
        made.append("look")
        return await begin_runs(*args, **values)

    monkeypatch.setattr(shardclock_server.workers.runs.runner, "begin_runs", counted)
    return made


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """Keep what the worker has heard."""
    said: list[frozenset[str]] = []
    forget = HintListener.forget

    def kept(self: HintListener) -> frozenset[str]:
        if now := forget(self):
            said.append(now)
        return now

    monkeypatch.setattr(HintListener, "forget", kept)
    return said


async def test_hints_of_other_deliveries_cost_no_look_and_a_start_begins_with_its_hint(
    dsn: str, shard: HolderClient, looks: list[str], heard: list[frozenset[str]]
) -> None:
    processes = RunProcesses()
    spec = job_spec(every_s=3_600.0)
    async with running_jobs(dsn, processes, [spec], NO_POLLS) as worker:
        await eventually(lambda: worker._heartbeat.began and worker.deliveries._hints._on is not None)
        for number in range(HINTS):
            await deliver(shard)
            await send_delivery_hint(shard.session)
            await eventually(partial(_has_heard, heard, number + 1))
        assert set(heard) == {frozenset([""])}
        assert looks == []

        await declare(dsn, spec)
        await fire(shard)
        await send_delivery_hint(shard.session)
        await eventually(lambda: _has_succeeded(dsn))

    assert heard[-1] == frozenset([JOBS])
    assert len(looks) == 1, "that it is called, and that it ends, is no reason to look"
    assert len(processes.orders) == 1


async def test_a_start_that_waits_for_its_job_s_run_begins_with_its_end(
    dsn: str, shard: HolderClient, looks: list[str], heard: list[frozenset[str]]
) -> None:
    processes = RunProcesses(gate=asyncio.Event(), heeds=False)
    spec = job_spec(every_s=3_600.0, overlap="queue")
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec], NO_POLLS) as worker:
        await eventually(lambda: worker._heartbeat.began and worker.deliveries._hints._on is not None)
        await send_delivery_hint(shard.session)
        await eventually(lambda: len(processes.orders) == 1)
        await query(dsn, "select shardclock.run_job('refresh', null)")
        await fire(shard)
        await send_delivery_hint(shard.session)
        await eventually(lambda: len(looks) == 2)

        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(processes.orders) == 2)

    assert heard[-1] == frozenset([JOBS])


async def test_a_start_that_nobody_can_begin_yet_costs_few_looks_however_many_hints_there_are(
    dsn: str, shard: HolderClient, looks: list[str], heard: list[frozenset[str]]
) -> None:
    spec = job_spec(every_s=3_600.0)
    await declare(dsn, spec)
    await query(dsn, "update shardclock.jobs set not_before = now() + interval '1 hour'")
    await fire(shard)
    async with running_jobs(dsn, RunProcesses(), [spec], NO_POLLS) as worker:
        await eventually(lambda: worker._heartbeat.began and worker.deliveries._hints._on is not None)
        for number in range(3 * HINTS):
            await send_delivery_hint(shard.session)
            await eventually(partial(_has_heard, heard, number + 1))

    assert frozenset([JOBS]) in heard
    assert 1 <= len(looks) <= 15, "each look in vain doubles the pause before the next one"


async def test_a_hint_reads_no_more_of_the_deliveries_than_the_runs_that_are_going(
    dsn: str, shard: HolderClient
) -> None:
    await declare(dsn, job_spec())
    await add_deliveries(dsn, 4, "job:refresh", claimed_by="7", claimed_until="now() + interval '1 minute'")
    await add_deliveries(dsn, 5_000, "job:refresh", next_attempt_at="now() - interval '1 ms'")
    hint = await prepare(dsn, "send_delivery_hint")

    reading = await hint.explain(touched=True, table="deliveries")
    await hint.connection.close()

    assert reading.rows <= 5
    assert DELIVERIES == "shardclock_deliveries"


def _has_heard(heard: list[frozenset[str]], hints: int) -> bool:
    return len(heard) >= hints


async def _has_succeeded(dsn: str) -> bool:
    return (await job_of(dsn)).successes == 1

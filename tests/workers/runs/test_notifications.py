"""Notifications of other deliveries cause no poll for starts of jobs; the notification of a start causes a poll."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import shardclock_server.workers.runs.runner
from shardclock_server.sql.deliveries.notifications import DELIVERIES, JOBS, notify_of_deliveries
from shardclock_server.sql.jobs.runs import begin_runs
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.workers.settings import WorkerSettings
from tests.support.deliveries import add_deliveries, deliver
from tests.support.factories import HolderClient, query
from tests.support.job_runs import declare, fire, job_of
from tests.support.jobs import job_spec
from tests.support.plans import prepare
from tests.support.runs import RunProcesses, running_jobs
from tests.support.waiting import eventually

NOTIFICATIONS = 20
# Only notifications wake this worker.
NO_POLLS = WorkerSettings(delivery_poll_s=600.0, heartbeat_s=0.02)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record each poll for starts of jobs."""
    made: list[str] = []

    async def counted(*args: Any, **values: Any) -> Any:
        made.append("look")
        return await begin_runs(*args, **values)

    monkeypatch.setattr(shardclock_server.workers.runs.runner, "begin_runs", counted)
    return made


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    said: list[frozenset[str]] = []
    forget = NotificationListener.forget

    def kept(self: NotificationListener) -> frozenset[str]:
        if now := forget(self):
            said.append(now)
        return now

    monkeypatch.setattr(NotificationListener, "forget", kept)
    return said


async def test_notifications_of_other_deliveries_cost_no_poll_and_a_start_begins_with_its_own(
    dsn: str, shard: HolderClient, looks: list[str], heard: list[frozenset[str]]
) -> None:
    processes = RunProcesses()
    spec = job_spec(every_s=3_600.0)
    async with running_jobs(dsn, processes, [spec], NO_POLLS) as worker:
        await eventually(lambda: worker._heartbeat.began and worker.deliveries._notifications._on is not None)
        for number in range(NOTIFICATIONS):
            await deliver(shard)
            await notify_of_deliveries(shard.session)
            await eventually(partial(_has_heard, heard, number + 1))
        assert set(heard) == {frozenset([""])}
        assert looks == []

        await declare(dsn, spec)
        await fire(shard)
        await notify_of_deliveries(shard.session)
        await eventually(lambda: _has_succeeded(dsn))

    assert heard[-1] == frozenset([JOBS])
    assert len(looks) == 1, "the call and the end of a run cause no poll"
    assert len(processes.orders) == 1


async def test_a_start_that_waits_for_its_job_s_run_begins_with_its_end(
    dsn: str, shard: HolderClient, looks: list[str], heard: list[frozenset[str]]
) -> None:
    processes = RunProcesses(gate=asyncio.Event(), heeds=False)
    spec = job_spec(every_s=3_600.0, overlap="queue")
    await declare(dsn, spec)
    await fire(shard)
    async with running_jobs(dsn, processes, [spec], NO_POLLS) as worker:
        await eventually(lambda: worker._heartbeat.began and worker.deliveries._notifications._on is not None)
        await notify_of_deliveries(shard.session)
        await eventually(lambda: len(processes.orders) == 1)
        await query(dsn, "select shardclock.run_job('refresh', null)")
        await fire(shard)
        await notify_of_deliveries(shard.session)
        await eventually(lambda: len(looks) == 2)

        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(processes.orders) == 2)

    assert heard[-1] == frozenset([JOBS])


async def test_a_blocked_start_costs_few_polls_with_any_number_of_notifications(
    dsn: str, shard: HolderClient, looks: list[str], heard: list[frozenset[str]]
) -> None:
    spec = job_spec(every_s=3_600.0)
    await declare(dsn, spec)
    await query(dsn, "update shardclock.jobs set not_before = now() + interval '1 hour'")
    await fire(shard)
    async with running_jobs(dsn, RunProcesses(), [spec], NO_POLLS) as worker:
        await eventually(lambda: worker._heartbeat.began and worker.deliveries._notifications._on is not None)
        for number in range(3 * NOTIFICATIONS):
            await notify_of_deliveries(shard.session)
            await eventually(partial(_has_heard, heard, number + 1))

    assert frozenset([JOBS]) in heard
    assert 1 <= len(looks) <= 15, "each poll without a result doubles the pause"


async def test_a_notification_reads_only_the_deliveries_of_present_runs(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, job_spec())
    await add_deliveries(dsn, 4, "job:refresh", claimed_by="7", claimed_until="now() + interval '1 minute'")
    await add_deliveries(dsn, 5_000, "job:refresh", next_attempt_at="now() - interval '1 ms'")
    notification = await prepare(dsn, "notify_of_deliveries")

    reading = await notification.explain(touched=True, table="deliveries")
    await notification.connection.close()

    assert reading.rows <= 5
    assert DELIVERIES == "shardclock_deliveries"


def _has_heard(heard: list[frozenset[str]], notifications: int) -> bool:
    return len(heard) >= notifications


async def _has_succeeded(dsn: str) -> bool:
    return (await job_of(dsn)).successes == 1

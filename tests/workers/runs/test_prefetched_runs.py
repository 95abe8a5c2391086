"""One statement starts many short runs, and no short run waits for a long run."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

import shardclock_server.workers.runs.live
import shardclock_server.workers.runs.prefetch
import shardclock_server.workers.runs.runner
from shardclock import Completed, RunOrder
from shardclock_server.sql.jobs.runs import Begun, begin_runs
from shardclock_server.workers.settings import WorkerSettings
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import declare, fire, is_whole
from tests.support.jobs import job_spec
from tests.support.runs import RunProcesses, running_jobs
from tests.support.waiting import eventually

ONE_PLACE = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02, run_places=1)
TWO_PLACES = ONE_PLACE.model_copy(update={"run_places": 2})
SPECS = [job_spec(f"job{number}", every_s=3_600.0) for number in range(30)]


@pytest.fixture(autouse=True)
def _every_run_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHORT_RUN_S", "COUNTED_S"):  # each run is short, even on a slow machine
        monkeypatch.setattr(shardclock_server.workers.runs.prefetch, name, 60.0)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 60.0)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of runs that each successful statement started."""
    counts: list[int] = []

    async def begin(*args: Any, **kwargs: Any) -> Begun:
        answer = await begin_runs(*args, **kwargs)
        counts.extend([len(answer.runs)] if answer.runs else [])
        return answer

    monkeypatch.setattr(shardclock_server.workers.runs.runner, "begin_runs", begin)
    return counts


def the_eleventh_lasts() -> tuple[RunProcesses, asyncio.Event]:
    """Return processes and a gate; the gate closes after ten runs, and further runs wait for it."""
    gate, ended = asyncio.Event(), count(1)
    gate.set()

    def plays(_: RunOrder) -> Completed:
        if next(ended) == 10:
            gate.clear()
        return Completed()

    processes = RunProcesses(plays, gate=gate)
    return processes, gate


@pytest.mark.usefixtures("_patient")
async def test_short_runs_begin_before_their_slots_are_free(dsn: str, shard: HolderClient, begun: list[int]) -> None:
    processes = RunProcesses()
    await declare(dsn, *SPECS)
    await fire(shard)

    async with running_jobs(dsn, processes, SPECS, ONE_PLACE):
        await eventually(lambda: _ended(dsn, successes=30))

    assert begun[0] == 1, "the durations of the runs are not known yet"
    assert max(begun) > 4
    assert len(begun) < 15
    assert len(processes.started) == 1, "processes are still made one at a time"
    assert sorted(order.job for order in processes.orders) == sorted(spec.name for spec in SPECS)
    assert await is_whole(dsn) == []


async def test_prefetched_runs_that_wait_for_a_long_run_are_released_and_run_later(
    dsn: str, shard: HolderClient
) -> None:
    processes, gate = the_eleventh_lasts()
    await declare(dsn, *SPECS)
    await fire(shard)
    due = await query(dsn, "select target, next_attempt_at from shardclock.deliveries")

    async with running_jobs(dsn, processes, SPECS, ONE_PLACE) as worker:
        await eventually(lambda: len(processes.orders) == 11)
        await eventually(lambda: _has_put_back(dsn))
        await eventually(lambda: len(worker.runs) == 1)
        left = await query(dsn, "select target, next_attempt_at from shardclock.deliveries where claimed_by is null")
        assert {*left} <= {*due}, "they keep their turn"
        gate.set()
        await eventually(lambda: _ended(dsn, successes=30))

    first_attempts = "select count(*) from shardclock.job_runs where outcome = 'SUCCEEDED' and attempt = 1"
    assert await value(dsn, first_attempts) == 30
    assert sorted(order.job for order in processes.orders) == sorted(spec.name for spec in SPECS), "each called once"
    assert await is_whole(dsn) == []


@pytest.mark.usefixtures("_patient")
async def test_a_short_run_does_not_wait_for_a_long_run_while_a_slot_is_free(dsn: str, shard: HolderClient) -> None:
    processes, gate = the_eleventh_lasts()
    await declare(dsn, *SPECS)
    await fire(shard)

    async with running_jobs(dsn, processes, SPECS, TWO_PLACES):
        await eventually(lambda: _two_wait(dsn, processes, gate))
        gate.set()
        await eventually(lambda: _ended(dsn, successes=30))


@pytest.mark.usefixtures("_patient")
async def test_a_leaving_worker_releases_its_prefetched_runs(dsn: str, shard: HolderClient) -> None:
    processes, _ = the_eleventh_lasts()
    await declare(dsn, *SPECS)
    await fire(shard)

    async with running_jobs(dsn, processes, SPECS, ONE_PLACE):
        await eventually(lambda: _has_runs_ahead(dsn))

    reasons = await query(dsn, "select distinct reason from shardclock.job_runs where outcome = 'INTERRUPTED'")
    assert "the worker stopped; the run had not begun" in {row["reason"] for row in reasons}
    assert len(processes.orders) == 11
    rest = await value(dsn, "select count(*) from shardclock.deliveries where claimed_by is null")
    assert rest == 30 - await value(dsn, "select sum(successes) from shardclock.jobs")
    assert await is_whole(dsn) == []


@pytest.mark.usefixtures("_patient")
async def test_the_most_urgent_of_several_begun_runs_is_made_first(dsn: str, shard: HolderClient) -> None:
    processes = RunProcesses()
    specs = [job_spec(f"job{number}", every_s=3_600.0, priority=1 + number % 4) for number in reversed(range(12))]
    await declare(dsn, *specs)
    await fire(shard)

    async with running_jobs(dsn, processes, specs, ONE_PLACE):
        await eventually(lambda: _ended(dsn, successes=12))

    priorities = [next(it.priority for it in specs if it.name == order.job) for order in processes.orders]
    assert priorities == sorted(priorities)


async def _ended(dsn: str, *, successes: int) -> bool:
    return bool(await value(dsn, "select sum(successes) from shardclock.jobs") == successes)


async def _two_wait(dsn: str, processes: RunProcesses, gate: asyncio.Event) -> bool:
    """Return whether both places have a run that waits for the gate."""
    return not gate.is_set() and await _ended(dsn, successes=len(processes.orders) - 2)


async def _has_runs_ahead(dsn: str) -> bool:
    """Return whether ten runs have succeeded, the eleventh runs, and the worker has claimed more starts."""
    claimed = "select count(*) from shardclock.deliveries where claimed_by is not null"
    return await _ended(dsn, successes=10) and await value(dsn, claimed) > 1


async def _has_put_back(dsn: str) -> bool:
    rows = await query(dsn, "select reason from shardclock.job_runs where outcome = 'INTERRUPTED'")
    return "no process was free within 0.1 s" in {row["reason"] for row in rows}

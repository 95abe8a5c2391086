"""Runs that don't fit on any node, and runs with a failed start, don't block other runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.settings import WorkerSettings
from tests.support.factories import HolderClient, query
from tests.support.job_runs import declare, fire, job_of, outcomes
from tests.support.jobs import job_spec
from tests.support.runs import FakeRunProcess, RunProcesses, running_jobs
from tests.support.waiting import eventually

ONE_PLACE = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02, run_places=1)
TWO_PLACES = WorkerSettings(delivery_poll_s=0.01, heartbeat_s=0.02, run_places=2)


async def test_jobs_that_wait_for_a_node_do_not_use_the_slots_of_other_jobs(dsn: str, shard: HolderClient) -> None:
    on_gpus = [job_spec(f"train{n}", every_s=3_600.0, priority=1, num_gpus=8.0) for n in range(3)]
    plain = job_spec(every_s=3_600.0, priority=4)
    await declare(dsn, *on_gpus, plain)
    await fire(shard)

    async def has_run() -> bool:
        return (await outcomes(dsn))["SUCCEEDED"] == 1

    processes = RunProcesses(fits=lambda needs: not needs.num_gpus)
    async with running_jobs(dsn, processes, [*on_gpus, plain], ONE_PLACE):
        await eventually(has_run)
        states = [(await job_of(dsn, spec.name)).state for spec in on_gpus]

    assert [order.job for order in processes.orders] == ["refresh"]
    assert sorted(states) == ["SCHEDULED", "SCHEDULED", "STARTING"], (
        "the number of waiting runs is limited by the places"
    )


async def test_one_job_without_a_node_waits_in_a_slot_and_the_other_jobs_without_a_node_are_deferred(
    dsn: str, shard: HolderClient
) -> None:
    on_gpus = [job_spec(f"train{n}", every_s=3_600.0, priority=1, num_gpus=8.0) for n in range(4)]
    in_memory = job_spec(every_s=3_600.0, priority=4, memory_mib=100)
    await declare(dsn, *on_gpus, in_memory)
    await fire(shard)

    async def have_ended() -> bool:
        counts = [await outcomes(dsn, spec.name) for spec in (*on_gpus, in_memory)]
        return sum(count["INTERRUPTED"] for count in counts) == 3 and counts[-1]["SUCCEEDED"] == 1

    processes = RunProcesses(fits=lambda needs: not needs.num_gpus)
    async with running_jobs(dsn, processes, [*on_gpus, in_memory], TWO_PLACES, has_node=processes.fits):
        await eventually(have_ended)
        jobs = [await job_of(dsn, spec.name) for spec in on_gpus]

    assert sorted(it.state for it in jobs) == ["SCHEDULED", "SCHEDULED", "SCHEDULED", "STARTING"]
    assert [needs.num_gpus for needs, _ in processes.started] == [8.0, None], (
        "the worker makes no request to Ray for a waiting run"
    )
    (reason,) = {it.last_reason for it in jobs if it.state == "SCHEDULED"}
    assert reason == "no node has 8 GPUs, and another run waits for a node"


async def test_after_a_node_has_come_for_a_waiting_job_the_next_one_waits(dsn: str, shard: HolderClient) -> None:
    first, second = (job_spec(f"train{n}", every_s=3_600.0, priority=n + 1, num_gpus=8.0) for n in range(2))
    await declare(dsn, first)
    await fire(shard)
    processes = RunProcesses(gate=asyncio.Event())
    async with running_jobs(dsn, processes, [first, second], TWO_PLACES, has_node=lambda _: False):
        await eventually(lambda: len(processes.orders) == 1)
        await declare(dsn, first, second)
        await fire(shard)
        await eventually(lambda: len(processes.started) == 2)


async def test_after_a_refusal_of_ray_another_run_can_wait_for_a_node(dsn: str, shard: HolderClient) -> None:
    spec = job_spec(every_s=3_600.0, num_gpus=8.0)
    await declare(dsn, spec)
    await fire(shard)
    asked: list[RunResources] = []

    def start(needs: RunResources) -> FakeRunProcess:
        asked.append(needs)
        if len(asked) == 1:
            raise ValueError("Ray is starting")
        return FakeRunProcess()

    async def is_put_back() -> bool:
        return (await outcomes(dsn))["INTERRUPTED"] == 1

    async with running_jobs(dsn, start, [spec], TWO_PLACES, has_node=lambda _: False):
        await eventually(is_put_back)
        await query(dsn, "update shardclock.deliveries set next_attempt_at = now()")
        await eventually(lambda: len(asked) == 2)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({}, True),
        ({"num_cpus": 4.0}, True),
        ({"num_cpus": 4.5}, False),
        ({"num_gpus": 1.0}, False),
        ({"num_cpus": 1.0, "memory_mib": 1024}, True),
        ({"memory_mib": 1025}, False),
    ],
)
def test_a_node_fits_if_it_has_all_resources(asked: dict[str, Any], fits: bool) -> None:
    assert RunResources(**asked).fit({"CPU": 4.0, "memory": 1024.0 * 2**20, "node:192.0.2.1": 1.0}) is fits


async def test_a_process_that_can_not_be_started_interrupts_only_its_own_run(dsn: str, shard: HolderClient) -> None:
    refused = [job_spec(f"train{n}", every_s=3_600.0, priority=1, num_gpus=8.0, max_retries=0) for n in range(2)]
    plain = job_spec(every_s=3_600.0, priority=4)
    await declare(dsn, *refused, plain)
    await fire(shard)

    def start(needs: RunResources) -> FakeRunProcess:
        if needs.num_gpus:
            raise ValueError("8 GPUs are not possible here")
        return FakeRunProcess()

    async def have_ended() -> bool:
        counts = [await outcomes(dsn, spec.name) for spec in (*refused, plain)]
        return all(count["INTERRUPTED"] for count in counts[:2]) and counts[2]["SUCCEEDED"] == 1

    async with running_jobs(dsn, start, [*refused, plain]):
        await eventually(have_ended)

    jobs = [await job_of(dsn, spec.name) for spec in refused]
    assert [(it.crashes, it.failures) for it in jobs] == [(0, 0), (0, 0)]
    assert "8 GPUs are not possible here" in str(jobs[0].last_reason)

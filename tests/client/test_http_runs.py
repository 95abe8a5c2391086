"""Test that a client which starts a job over HTTP gets the outcome of the run as soon as the run ends."""

from __future__ import annotations

import asyncio

import pytest

from shardclock import AsyncClient
from shardclock.http import NotFound
from shardclock_server.jobs.states import RunOutcome
from tests.support.factories import BOUND_S, HolderClient, add_holder
from tests.support.gateways import Api
from tests.support.job_runs import JobWorker, declare, fire
from tests.support.jobs import job_spec
from tests.support.waiting import eventually


async def test_a_client_waits_for_the_run_of_a_job(dsn: str, gateway: Api, client: AsyncClient) -> None:
    await declare(dsn, job_spec(every_s=3600.0))
    await add_holder(dsn, 1)
    start = await client.run_job("refresh")
    assert await client.wait_for_run("refresh", start, within="PT0.1S") is None
    waits = asyncio.create_task(client.wait_for_run("refresh", start, within="PT30S"))
    await eventually(lambda: gateway.gateway.wait_limits.streams.in_use == 1)

    async with HolderClient(dsn, holder=1) as shard, JobWorker(dsn, 11) as worker:
        await fire(shard)
        for _ in range(2):  # besides the requested start, the job's first scheduled start was due
            await worker.end(await worker.one(), RunOutcome.SUCCEEDED)

    run = await asyncio.wait_for(waits, BOUND_S)
    assert run is not None
    assert (run.job, run.outcome, run.run_id.partition(".")[0]) == ("refresh", "SUCCEEDED", str(start))
    with pytest.raises(NotFound, match="timer 99999 is no start of job 'refresh'"):
        await client.wait_for_run("refresh", 99999, within="PT0.1S")

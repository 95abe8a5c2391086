"""Test one delivery over HTTP: shown, retried and cancelled by its owner, for a timer or a service task."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from fastapi import FastAPI

from shardclock_server.cluster.testing import SteppedCluster, cluster
from tests.support.bpmn import job, model
from tests.support.deliveries import dead, deliver, failed, serving_worker
from tests.support.factories import HolderClient, add_holder
from tests.support.gateways import Api

PACK = model(f'<startEvent id="s"/>{job("pack")}<endEvent id="e"/>', connected="s>pack pack>e")
EVE = {"Shardclock_Tenant": "eve"}


@pytest.fixture
async def served() -> AsyncIterator[tuple[SteppedCluster, Api]]:
    """Run a cluster with a clock that the test moves, and a process with a service task for an external worker."""
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        await api.deploy(PACK)
        await api.post("/v1/processes/p/start", {})
        await sc.advance("PT0S")
        yield sc, api


async def test_the_delivery_of_a_service_task_can_be_shown_retried_and_cancelled(
    served: tuple[SteppedCluster, Api],
) -> None:
    sc, api = served
    taking = {"type": "pack", "lease": "PT1M", "worker": "packer-3"}
    (task,) = (await api.post("/v1/service-tasks/activate", taking)).json["tasks"]
    path = f"/v1/deliveries/{task['task_key']}"
    shown = (await api.get(path)).json
    assert (shown["worker"], shown["claimed_until"]) == ("packer-3", task["claimed_until"])

    (await api.post(f"{path}/retry")).assert_problem("too_late", 409, "has claimed the delivery")
    failing = {"claim": task["claim"], "reason": "no box", "retries": 3, "retry_after": "PT1H"}
    assert (await api.post(f"/v1/service-tasks/{task['task_key']}/fail", failing)).status == 200
    for verb in ("retry", "cancel"):
        other = await api.post(f"{path}/{verb}", **EVE)
        other.assert_problem("not_found", 404, f"timer {task['task_key']} has no delivery")
    assert (await api.post(f"{path}/retry")).json["state"] == "DUE"
    (await api.post(f"{path}/cancel")).assert_problem("conflict", 409, "belongs to instance")
    await sc.advance("PT1M")
    (again,) = (await api.post("/v1/service-tasks/activate", {"type": "pack", "lease": "PT1M"})).json["tasks"]
    await api.post(f"/v1/service-tasks/{again['task_key']}/complete", {"claim": again["claim"]})
    (await api.post(f"{path}/retry")).assert_problem("too_late", 409, "DELIVERED already")
    (await api.post(f"{path}/retry", **EVE)).assert_problem("not_found", 404)
    late = await api.post(f"/v1/service-tasks/{task['task_key']}/complete", {"claim": task["claim"]})
    late.assert_problem("conflict", 409, "was completed already")
    assert late.json["state"] == "COMPLETED_BEFORE"


async def test_a_pending_delivery_is_shown_as_in_the_list(dsn: str, api: Api) -> None:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard, serving_worker(dsn) as worker:
        (key,) = await deliver(shard)
        waiting = (await api.get(f"/v1/deliveries/{key}")).json
        await worker.settle(*map(failed, await worker.take()))
        shown = (await api.get(f"/v1/deliveries/{key}")).json
        (listed,) = (await api.get("/v1/deliveries")).json["deliveries"]
        (await api.get(f"/v1/deliveries/{key}", **EVE)).assert_problem("not_found", 404)
        await api.post(f"/v1/deliveries/{key}/retry")
        await worker.settle(*map(dead, await worker.take()))

    assert (waiting["state"], waiting["failed_attempts"], waiting["last_error"]) == ("WAITING", 0, None)
    assert shown == listed
    assert shown["last_error"]
    (await api.get(f"/v1/deliveries/{key}")).assert_problem("not_found", 404, "is a dead letter")
    (await api.post(f"/v1/deliveries/{key}/retry")).assert_problem("too_late", 409, "given up already")

"""Test that a refused change of an instance is answered with the instance's state."""

from __future__ import annotations

from datetime import datetime

from tests.support.bpmn import model
from tests.support.factories import query, value
from tests.support.gateways import Api
from tests.support.instances import write_instance

MODEL = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
VERBS = {
    "variables": ({"variables": {"a": 1}}, "its variables can't be set"),
    "move": ({"terminated": [3]}, "none of its tokens can be moved"),
    "resolve": ({"token": 3}, "it has no incident"),
}


async def write(dsn: str, api: Api, outcome: str | None) -> None:
    """Write instance 101, running or ended."""
    deployed = await api.deploy(MODEL)
    await write_instance(dsn, deployed.json["processes"][0]["definition_key"], MODEL, outcome=outcome)


async def test_a_change_of_an_ended_instance_is_refused_with_its_state(dsn: str, api: Api) -> None:
    await write(dsn, api, "COMPLETED")
    for verb, (body, in_vain) in VERBS.items():
        refused = await api.post(f"/v1/instances/101/{verb}", body)
        refused.assert_problem("conflict", 409, f"instance 101 has ended, it is COMPLETED: {in_vain}")
        assert refused.json["state"] == "COMPLETED"
        other = await api.post(f"/v1/instances/101/{verb}", body, Shardclock_Tenant="other")
        other.assert_problem("not_found", 404, "instance 101 is unknown")
        (await api.post(f"/v1/instances/7/{verb}", body)).assert_problem("not_found", 404, "instance 7 is unknown")


async def test_an_unknown_incident_of_a_running_instance_is_not_found(dsn: str, api: Api) -> None:
    await write(dsn, api, None)
    none = await api.post("/v1/instances/101/resolve", {"token": 3})
    none.assert_problem("not_found", 404, "instance 101 has no incident at token 3")


async def test_a_service_task_is_shown_with_the_fields_that_workers_get(dsn: str, api: Api) -> None:
    await write(dsn, api, None)
    await query(
        dsn,
        "insert into shardclock.deliveries (timer_key, process_instance_key, element_instance_key, next_attempt_at,"
        " due_date, created_at, occurrence, slot, tenant_id, timer_type, target, target_element_id)"
        " values (9, 101, 4, now(), now(), now(), 1, 101, 'default', 'SERVICE_TASK', 'order.pack', 'pack')",
    )
    (shown,) = (await api.get("/v1/instances/101")).json["service_tasks"]
    created_at = await value(dsn, "select created_at from shardclock.deliveries where timer_key = 9")
    assert datetime.fromisoformat(shown.pop("since")) == created_at
    assert [shown] == [
        {
            "task_key": 9, "token": 4, "node_id": "pack", "type": "order.pack", "failed_attempts": 0, "worker": None,
            "claimed_until": None,
        }
    ]  # fmt: skip

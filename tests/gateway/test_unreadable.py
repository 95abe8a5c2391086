"""Test that a row which no client can read does not hide the other rows of its response."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI

from shardclock_server.cluster.testing import cluster
from tests.support.bpmn import job, model
from tests.support.factories import query
from tests.support.gateways import Api, canceled

UNREADABLE = {"unreadable": "it is nested deeper than 100 levels; flatten it"}
# These rows were written before a limit existed, or by an operator in SQL.
POISONS = {
    "300 deep": "(repeat('[', 300) || repeat(']', 300))::jsonb",
    "980 deep": "(repeat('[', 980) || repeat(']', 980))::jsonb",
    "3,000 deep": "(repeat('[', 3000) || repeat(']', 3000))::jsonb",
    "a number of 5,000 digits": "('1' || repeat('0', 5000))::jsonb",
}
# The log refuses changes of a record, so a trigger writes the bad payload at the insert.
POISONED = """
create function public.poisoned() returns trigger language plpgsql as $$
begin
    new.payload := {poison};
    new.detail := {poison};
    return new;
end $$
"""
POISONING = """
create trigger poisoning before insert on shardclock.command_log
for each row when (new.name = 'a') execute function public.poisoned()
"""


def assert_unreadable(found: Any) -> None:
    assert found == UNREADABLE or found["unreadable"].startswith("the document can't be read: ")


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
async def test_an_unreadable_payload_is_replaced_by_the_reason(dsn: str, api: Api, poison: str) -> None:
    await query(dsn, POISONED.format(poison=poison))
    await query(dsn, POISONING)
    await canceled(api, "a", "b")

    first, second = (await api.get("/v1/log?after=0")).json["records"]
    assert_unreadable(first["payload"])
    assert_unreadable(first["detail"])
    assert (first["name"], second["name"], second["payload"]) == ("a", "b", None)

    leased = await api.post("/v1/consumers/g/lease", {})
    assert [record["name"] for record in leased.json["records"]] == ["a", "b"], leased.json


@pytest.mark.parametrize("kind", ["300 deep", "a number of 5,000 digits"])
async def test_an_unreadable_service_task_becomes_an_incident_and_the_others_are_leased(kind: str) -> None:
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        await api.deploy(model('<startEvent id="s"/>' + job("pack"), connected="s>pack"))
        keys = [(await api.post("/v1/processes/p/start", {})).json["instance_key"] for _ in range(2)]
        await sc.advance("PT0S")
        await query(
            sc.dsn,
            f"update shardclock.deliveries set payload = jsonb_build_object('a', {POISONS[kind]})"
            " where timer_type = 'SERVICE_TASK' and process_instance_key = $1",
            keys[0],
        )

        taken = (await api.post("/v1/service-tasks/activate", {"type": "pack"})).json["tasks"]
        assert [task["instance_key"] for task in taken] == keys[1:]
        await sc.advance("PT0S")
        shown = (await api.get(f"/v1/instances/{keys[0]}")).json
        (incident,) = shown["incident_list"]
        assert incident["sentence"].startswith("a program can't read its variables: ")


async def test_an_instance_with_a_too_deep_state_is_shown_and_listed() -> None:
    async with cluster() as sc, aiohttp.ClientSession() as http:
        api = Api(http, sc.url, FastAPI())
        user = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
        await api.deploy(user)
        key = (await api.post("/v1/processes/p/start", {"variables": {"a": "DEEP"}})).json["instance_key"]
        await sc.advance("PT0S")
        for levels in (300, 980, 5_000):
            deep = "[" * levels + "]" * levels
            changed = await query(
                sc.dsn,
                "update shardclock.instances set state = regexp_replace(state, '\"a\":[^}]*', '\"a\":' || $2)"
                " where instance_key = $1 returning state",
                key,
                deep,
            )
            assert deep in changed[0]["state"]
            assert (await api.get(f"/v1/instances/{key}")).json["variables"] == UNREADABLE
            (task,) = (await api.get("/v1/tasks")).json["tasks"]
            assert (await api.get(f"/v1/tasks/{task['task_key']}")).json["variables"] == UNREADABLE


async def test_each_body_with_too_deep_variables_or_payload_is_refused(api: Api) -> None:
    named, claimed = '"name": "n", ', '"claim": 1, '
    for levels in (101, 3_000):
        deep = '{"a":' * levels + "1" + "}" * levels
        for path, field, more in (
            ("/v1/timers", "payload", '"delay": "PT1H", '),
            ("/v1/processes/p/start", "variables", ""),
            ("/v1/instances/7/variables", "variables", ""),
            ("/v1/messages", "variables", named),
            ("/v1/signals", "variables", named),
            ("/v1/tasks/7/complete", "variables", ""),
            ("/v1/service-tasks/7/complete", "variables", claimed),
            ("/v1/service-tasks/7/throw", "variables", claimed + '"code": "E", '),
        ):
            done = await api.post(path, f'{{{more}"{field}": {deep}}}'.encode())
            assert done.status in (400, 422), (path, done.json)
            assert "is nested deeper than 100 levels; flatten it" in done.json["detail"]

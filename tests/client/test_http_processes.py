"""Test the client's methods for processes, with a real gateway, on a cluster with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from shardclock import AsyncClient
from shardclock.http import Conflict, NotFound, OtherRequest, Refused
from shardclock_server.cluster.testing import SteppedCluster, cluster
from tests.support.bpmn import SHARED, job, model
from tests.support.bpmn_cluster import APP
from tests.support.factories import query, value

CATCH = '<intermediateCatchEvent id="m1"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
STOP = '<intermediateCatchEvent id="g1"><signalEventDefinition signalRef="g"/></intermediateCatchEvent>'
START = '<startEvent id="s"/>'
USER = (
    '<userTask id="u" name="Approve"><extensionElements>'
    '<zeebe:assignmentDefinition candidateGroups="bosses" candidateUsers="ann, bob"/></extensionElements></userTask>'
)


@pytest.fixture
async def sc() -> AsyncIterator[SteppedCluster]:
    """Run a cluster with a handler that charges a card."""
    async with cluster(APP) as made:
        yield made


@pytest.fixture
async def client(sc: SteppedCluster) -> AsyncIterator[AsyncClient]:
    """Open a client of the cluster's gateway."""
    async with AsyncClient(sc.url) as made:
        yield made


async def test_a_process_is_deployed_started_and_gets_messages_and_signals(
    sc: SteppedCluster, client: AsyncClient
) -> None:
    text = model(START + CATCH + STOP, connected="s>m1 m1>g1", beside=SHARED)
    (deployed,) = await client.processes.deploy(text, resource="p.bpmn")
    (again,) = await client.processes.deploy(text.decode(), resource="p.bpmn")
    assert ((deployed.version, deployed.is_new), (again.version, again.is_new)) == ((1, True), (1, False))
    assert [one.process_id for one in await client.processes.definitions(all_versions=True)] == ["p"]

    started = await client.processes.start("p", {"order": "42"}, version=1)
    key = started.instance_key
    assert started.state == "STARTING"
    await sc.advance("PT0S")
    assert [one.instance_key async for one in client.processes.list(process_id="p", state="RUNNING")] == [key]
    await client.processes.set_variables(key, {"a": 1})
    await sc.advance("PT0S")
    shown = await client.processes.show(key)
    assert (shown.variables, [it["name"] for it in shown.subscriptions]) == ({"order": "42", "a": 1}, ["paid"])

    assert await client.processes.publish_message("paid", correlation="42", variables={"b": 2}, keep="PT1H") == (key,)
    await sc.advance("PT0S")
    assert await client.processes.throw_signal("stop") == (key,)
    await sc.advance("PT0S")
    ended = await client.processes.wait_for_end(key, within="PT5S")
    assert (ended.state, ended.result) == ("COMPLETED", {"order": "42", "a": 1, "b": 2})
    kinds = [said["kind"] async for step in client.processes.history(key) for said in step.signals]
    assert kinds == ["begin", "variables", "happened", "happened"]
    with pytest.raises(Conflict, match="has ended, it is COMPLETED"):
        await client.processes.cancel(key)
    with pytest.raises(NotFound):
        await client.processes.cancel(key + 1_000)

    assert await client.processes.model(deployed.definition_key) == text
    with pytest.raises(NotFound, match="definition 7 is unknown"):
        await client.processes.model(7)
    await client.processes.delete(deployed.definition_key)
    assert await client.processes.definitions() == ()
    with pytest.raises(NotFound):
        await client.processes.delete(deployed.definition_key)


async def test_a_wait_for_an_instance_ends_after_its_timeout(sc: SteppedCluster, client: AsyncClient) -> None:
    await client.processes.deploy(model(START + USER, connected="s>u"))
    key = (await client.processes.start("p", wait="PT0.1S")).instance_key
    await sc.advance("PT0S")
    assert (await client.processes.wait_for_end(key, within="PT0.1S")).state == "RUNNING"
    await client.processes.move(key, begun=("u",))
    await sc.advance("PT0S")
    assert len([task async for task in client.tasks.list(instance_key=key)]) == 2
    await client.processes.cancel(key)
    await sc.advance("PT0S")
    assert (await client.processes.show(key)).state == "CANCELED"
    await client.processes.cancel(key)  # the instance is cancelled already


async def test_a_task_is_claimed_given_back_and_completed(sc: SteppedCluster, client: AsyncClient) -> None:
    await client.processes.deploy(model(START + USER, connected="s>u"))
    key = (await client.processes.start("p", business_key="order-42")).instance_key
    await sc.advance("PT0S")

    async def listed(**chosen: Any) -> list[Any]:
        return [one async for one in client.tasks.list(**chosen)]

    (task,) = await listed(group="bosses")
    assert (task.name, task.instance_key, task.business_key) == ("Approve", key, "order-42")
    for chosen in (
        {"group": ["none", "bosses"]}, {"for_user": "ann"}, {"business_key": "order-42"},
        {"user": "bob", "unassigned": True},
    ):  # fmt: skip
        assert await listed(**chosen) == [task]
    assert await listed(for_user="eve", group=["none"]) == await listed(user="eve") == []

    assert (await client.tasks.claim(task.task_key, "ann")).state == "ASSIGNED"
    with pytest.raises(Refused, match="exclude each other"):
        await listed(assignee="ann", unassigned=True)
    with pytest.raises(Conflict, match="is assigned to 'ann'") as taken:
        await client.tasks.claim(task.task_key, "bob")
    assert taken.value.members["assignee"] == "ann"
    assert (await client.tasks.give_back(task.task_key)).state == "CREATED"
    await client.tasks.claim(task.task_key, "bob")
    assert [one.assignee for one in await listed(assignee="bob")] == ["bob"]
    shown = await client.tasks.show(task.task_key)
    assert (shown.state, shown.variables, shown.candidate_users) == ("ASSIGNED", {}, ("ann", "bob"))
    assert [act.detail.get("assignee") for act in shown.acts] == [None, "ann", None, "bob"]
    assert (await client.tasks.complete(task.task_key, {"approved": True}, assignee="bob")).state == "COMPLETED"
    with pytest.raises(Conflict, match="was completed already"):
        await client.tasks.complete(task.task_key)
    with pytest.raises(NotFound):
        await client.tasks.show(task.task_key + 1_000)
    await sc.advance("PT0S")
    assert (await client.processes.show(key)).result == {"approved": True}


async def test_the_instances_of_a_business_key_are_cancelled(sc: SteppedCluster, client: AsyncClient) -> None:
    await client.processes.deploy(model(START + CATCH, connected="s>m1", beside=SHARED))
    keys = [(await client.processes.start("p", {"order": "42"}, business_key="o")).instance_key for _ in range(3)]
    listed = [(one.instance_key, one.state) async for one in client.processes.list(business_key="o")]
    assert listed == [(key, "STARTING") for key in keys[::-1]]
    assert (await client.processes.cancel_many("o", process_id="p", limit=1, dry_run=True)).more
    assert (await client.processes.cancel_many("o")).instance_keys == tuple(keys[::-1])
    await sc.advance("PT0S")
    assert {one.state async for one in client.processes.list(business_key="o")} == {"CANCELED"}
    assert (await client.processes.cancel_many("o")).instance_keys == ()


async def test_a_program_leases_and_answers_service_tasks(sc: SteppedCluster, client: AsyncClient) -> None:
    (deployed,) = await client.processes.deploy(model(START + job("pack"), connected="s>pack"))
    assert deployed.undeclared == ("pack",)
    keys = [(await client.processes.start("p", {"n": n})).instance_key for n in range(3)]
    await sc.advance("PT0S")
    answered = await client.tasks.activate("pack", most=5, lease="PT30S", worker="packer-3")
    taken = {task.variables["n"]: task for task in answered}
    one = taken[0]
    assert (one.type, one.process_id, one.version, one.business_key) == ("pack", "p", 1, None)
    assert (one.attempts_left, one.headers, one.claimed_until is not None) == (3, {}, True)
    assert await client.tasks.activate("pack") == ()
    assert (await client.tasks.extend(taken[0], "PT2M")).state == "EXTENDED"
    assert (await client.tasks.complete_service_task(taken[0], {"packed": True})).state == "COMPLETED"
    assert (await client.tasks.fail_service_task(taken[1], "no box is left", retries=1)).state == "RETRIED"
    assert (await client.tasks.throw_error(taken[2], "E7", reason="why")).state == "DISCARDED"
    (retried,) = await client.tasks.activate("pack")
    assert (retried.claim, retried.failed_attempts, retried.attempts_left) == (2, 1, 1)
    with pytest.raises(Conflict) as lost:
        await client.tasks.extend(taken[1])
    assert (lost.value.code, lost.value.state) == ("service_task_taken", "TAKEN")
    with pytest.raises(NotFound, match="is unknown under this claim"):
        await client.tasks.complete_service_task(retried.model_copy(update={"claim": 3}))
    assert (await client.tasks.fail_service_task(retried, "no box is left")).state == "DEAD"
    await sc.advance("PT0S")
    assert (await client.processes.show(keys[0])).result == {"n": 0, "packed": True}
    of = {found.instance_key: found.sentence for found in await client.processes.incidents(process_id="p", version=1)}
    assert of[keys[1]] == "no box is left"
    assert "E7" in of[keys[2]]


async def test_incidents_are_found_and_resolved(sc: SteppedCluster, client: AsyncClient) -> None:
    await client.processes.deploy(model(START + job("charge"), connected="s>charge"))
    keys = [(await client.processes.start("p", {"fails": True})).instance_key for _ in range(3)]
    await sc.advance("PT0S")
    first = next(one for one in await client.processes.incidents() if one.instance_key == keys[0])
    for key in keys:
        await client.processes.set_variables(key, {"fails": False})
    await client.processes.resolve(keys[0], first.token)
    await sc.advance("PT0S")
    would = await client.processes.resolve_many(containing="card is expired", dry_run=True)
    assert (len(would.tokens), would.more) == (2, False)
    assert len(await client.processes.incidents(containing="EXPIRED", limit=1)) == 1
    done = await client.processes.resolve_many(process_id="p", limit=1)
    assert (done.message, done.more) == ("1 incident resolved", True)
    await client.processes.resolve_many(every=True)
    await sc.advance("PT0S")
    assert [(await client.processes.show(key)).state for key in keys] == ["COMPLETED"] * 3
    with pytest.raises(Conflict, match=r"has ended, it is COMPLETED: it has no incident$"):
        await client.processes.resolve(keys[0], first.token)


async def test_a_repeated_call_with_the_same_key_is_done_once(sc: SteppedCluster, client: AsyncClient) -> None:
    await client.processes.deploy(model(START + job("pack"), connected="s>pack"))
    one, two = [await client.processes.start("p", {"n": 1}, idempotency_key="order-1") for _ in range(2)]
    assert one.instance_key == two.instance_key
    with pytest.raises(OtherRequest):
        await client.processes.start("p", {"n": 2}, idempotency_key="order-1")
    await sc.advance("PT0S")
    first, again = [await client.tasks.activate("pack", idempotency_key="take-1") for _ in range(2)]
    assert first == again
    assert len(first) == 1
    assert await value(sc.dsn, "select count(*) from shardclock.instances") == 1


async def test_an_empty_lease_of_service_tasks_is_not_stored_for_its_key(
    sc: SteppedCluster, client: AsyncClient
) -> None:
    await client.processes.deploy(model(START + job("pack"), connected="s>pack"))
    assert await client.tasks.activate("pack", idempotency_key="take-1") == ()
    await client.processes.start("p", {"n": 1})
    await sc.advance("PT0S")
    assert len(await client.tasks.activate("pack", idempotency_key="take-1")) == 1
    kept = "select count(*) from shardclock.idempotent_requests where idempotency_key = 'take-1'"
    assert await value(sc.dsn, kept) == 1


async def test_a_start_with_a_lost_answer_is_retried_and_starts_one_instance(
    sc: SteppedCluster, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.processes.deploy(model(START, connected=""))
    http = client._sender._http
    send = http.request
    lost: list[object] = []

    async def losing(*given: object, **named: object) -> object:
        answer = await send(*given, **named)  # type: ignore[arg-type]
        if not lost:
            lost.append(answer)
            raise httpx2.ReadError("the connection was lost")
        return answer

    monkeypatch.setattr(http, "request", losing)
    started = await client.processes.start("p")
    await sc.advance("PT0S")
    assert len(lost) == 1
    rows = await query(sc.dsn, "select instance_key from shardclock.instances")
    assert [row["instance_key"] for row in rows] == [started.instance_key]

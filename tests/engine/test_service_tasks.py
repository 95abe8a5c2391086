"""A program claims service tasks and answers them."""

from __future__ import annotations

import pytest

from shardclock.api.codes import invalid
from shardclock_server.cluster.testing.keepers import IDENTITY
from shardclock_server.sql.cluster.holders import ENGINE
from shardclock_server.sql.cluster.identity import hold, release
from shardclock_server.sql.deliveries.claim import DeliveryScan, claim_deliveries
from shardclock_server.sql.deliveries.verbs import retry_deliveries, retry_delivery
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.service_tasks import (
    TakenTask,
    activate_service_tasks,
    complete_service_task,
    extend_service_task,
    fail_service_task,
    throw_service_task_error,
)
from shardclock_server.sql.processes.signals import read_due_signals
from shardclock_server.sql.session import StatementRefused
from tests.support.bpmn import SHARED, boundary, job
from tests.support.bpmn_cluster import APP, Processes, running
from tests.support.deliveries import add_worker
from tests.support.factories import add_holder
from tests.support.refusals import refusing

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'


async def take(it: Processes, *, most: int = 10, tenant_id: str = "default") -> list[TakenTask]:
    return await activate_service_tasks(it.session, "pack", most=most, lease_s=30.0, tenant_id=tenant_id)


async def test_a_service_task_is_taken_by_one_program_and_completed_once() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        key = await it.start(order=42)
        assert await take(it, tenant_id="other") == []
        (task,) = await take(it)
        assert (task.instance_key, task.node_id, task.variables) == (key, "pack", {"order": 42})
        assert await take(it) == []
        assert (
            await complete_service_task(it.session, task.task_key, task.claim, variables={"packed": True})
            == "COMPLETED"
        )
        assert await complete_service_task(it.session, task.task_key, task.claim, variables={}) == "COMPLETED_BEFORE"
        await it.settle()
        assert (await it.see(key)).result == {"order": 42, "packed": True}


async def test_an_extended_lease_keeps_the_task_from_other_programs() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        (task,) = await take(it)
        await it.advance("PT29S")
        assert await extend_service_task(it.session, task.task_key, task.claim, lease_s=60.0) == "EXTENDED"
        (leased,) = await it.query("select claimed_until, next_attempt_at from shardclock.deliveries")
        assert leased["next_attempt_at"] == leased["claimed_until"], "no worker claims it either"
        await it.advance("PT59S")
        assert await take(it) == []
        assert await extend_service_task(it.session, task.task_key, task.claim, lease_s=1.0) == "EXTENDED"
        await it.advance("PT2S")
        (again,) = await take(it)
        assert again.claim == task.claim + 1


async def test_an_ended_lease_is_extended_unless_another_program_has_the_task() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        (task,) = await take(it)
        for lease_s in (0.5, 86_401.0):
            with pytest.raises(StatementRefused, match="is refused: give a second to a day"):
                await extend_service_task(it.session, task.task_key, task.claim, lease_s=lease_s)
        await it.advance("PT31S")
        assert await extend_service_task(it.session, task.task_key, task.claim, lease_s=30.0) == "EXTENDED"
        assert await take(it) == []
        await it.advance("PT31S")
        (another,) = await take(it)
        assert await extend_service_task(it.session, task.task_key, task.claim, lease_s=30.0) == "TAKEN"
        assert (
            await extend_service_task(it.session, task.task_key, another.claim, lease_s=30.0, tenant_id="other")
            == "NOT_FOUND"
        )
        assert await complete_service_task(it.session, task.task_key, another.claim, variables={}) == "COMPLETED"
        assert await extend_service_task(it.session, task.task_key, another.claim, lease_s=30.0) == "COMPLETED_BEFORE"


async def test_during_a_hold_no_program_gets_a_task_and_no_instance_continues() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        key = await it.start()
        (task,) = await take(it)
        await add_holder(it.cluster.dsn, 88, role=ENGINE)
        await hold(it.session, "prices are wrong")

        # The program answers the task that it has claimed, and the instance waits.
        assert await complete_service_task(it.session, task.task_key, task.claim, variables={}) == "COMPLETED"
        assert (await read_due_signals(it.session, 88, batch=10)).signals == []
        await instances.start_process(it.session, "p", variables={}, tenant_id="default")
        assert await take(it) == []

        assert await release(it.session, IDENTITY)
        await it.settle()
        assert await it.state(key) == "COMPLETED"
        assert len(await take(it)) == 1


async def test_no_worker_takes_a_task_that_a_program_has_taken() -> None:
    """An app may add a handler with the task's type; the program's lease is longer than a worker's lease."""
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        (task,) = await take(it)
        await add_worker(it.cluster.dsn, 77)
        (leased,) = await it.query("select now() as now, claimed_until, next_attempt_at from shardclock.deliveries")
        assert leased["next_attempt_at"] == leased["claimed_until"] > leased["now"]
        scan = DeliveryScan(["pack"], 10, webhooks=0, places={"pack": 10})
        claimed = await claim_deliveries(it.session, 77, scan, lease_s=10.0, now=leased["now"])
        assert claimed.claimed == []
        assert await complete_service_task(it.session, task.task_key, task.claim, variables={}) == "COMPLETED"


async def test_a_taken_task_can_t_be_made_due() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        (task,) = await take(it)
        assert await retry_deliveries(it.session, [task.task_key]) == []
        assert await retry_delivery(it.session, task.task_key) == "IN_HAND"
        (leased,) = await it.query("select claimed_until, next_attempt_at from shardclock.deliveries")
        assert leased["next_attempt_at"] == leased["claimed_until"]
        await fail_service_task(it.session, task.task_key, task.claim, reason="no box", retries=1, retry_after_s=300.0)
        assert await retry_deliveries(it.session, [task.task_key]) == [task.task_key]
        assert [again.task_key for again in await take(it)] == [task.task_key]


async def test_a_failing_task_has_retries_and_then_an_incident() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        key = await it.start()
        (task,) = await take(it)
        assert await fail_service_task(it.session, task.task_key, 99, reason="not mine", retries=1) == "NOT_FOUND"
        for too_long_s in (-1.0, 400 * 86_400.0):
            with pytest.raises(StatementRefused, match="is not between 0 and a year"):
                await fail_service_task(
                    it.session, task.task_key, task.claim, reason="no box", retries=1, retry_after_s=too_long_s
                )
        failed = await fail_service_task(
            it.session, task.task_key, task.claim, reason="no box", retries=1, retry_after_s=300.0
        )
        assert failed == "RETRIED"
        assert await take(it) == []
        await it.advance("PT5M")
        (again,) = await take(it)
        assert again.failed_attempts == 1
        assert await fail_service_task(it.session, again.task_key, again.claim, reason="still no box") == "DEAD"
        await it.settle()
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == "still no box"


async def test_an_error_is_caught_by_its_code() -> None:
    mapping = '<zeebe:ioMapping><zeebe:output source="=why" target="why"/></zeebe:ioMapping>'
    event = f'<extensionElements>{mapping}</extensionElements><errorEventDefinition errorRef="x"/>'
    caught = boundary("b", "pack", event) + '<endEvent id="o"/>'
    async with running() as it:
        await it.deploy(START + job("pack") + caught + END, connected="s>pack pack>e b>o", beside=SHARED)
        key = await it.start()
        (task,) = await take(it)
        with refusing(invalid("code")):
            await throw_service_task_error(it.session, task.task_key, task.claim, code="", variables={})
        thrown = await throw_service_task_error(it.session, task.task_key, task.claim, code="E1", variables={"why": 1})
        assert thrown == "DISCARDED"
        await it.settle()
        assert "o+" in await it.history(key)
        assert (await it.see(key)).result == {"why": 1}


@pytest.mark.parametrize(("retries", "attempts"), [(None, 20), ("3", 3), ("0", 1), ("=n + 2", 4)])
async def test_the_model_s_retries_decide_how_often_a_handler_is_called(retries: str | None, attempts: int) -> None:
    async with running(APP) as it:
        await it.deploy(START + job("flaky", retries=retries) + END, connected="s>flaky flaky>e")
        key = await it.start(n=2)
        await it.advance("P1D")
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"].endswith(f"the line is busy (attempt {attempts} of {attempts})")

        # Resolving an incident gives the task the same number of attempts again.
        assert await instances.resolve_incident(it.session, key, incident["token"])
        await it.advance("P1D")
        (again,) = (await it.see(key)).waits["incident_list"]
        assert again["sentence"] == incident["sentence"]


async def test_an_invalid_result_is_an_incident_after_its_attempts() -> None:
    async with running(APP) as it:
        await it.deploy(START + job("bill") + END, connected="s>bill bill>e")
        key = await it.start()
        await it.advance("P1D")
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == (
            "the result can't become variables: it has a value of type Decimal at 'amount', which JSON can't express;"
            " give a text or a number (attempt 2 of 2)"
        )


async def test_retries_that_are_not_a_number_cause_an_incident() -> None:
    async with running(APP) as it:
        await it.deploy(START + job("flaky", retries="=n") + END, connected="s>flaky flaky>e")
        key = await it.start(n="many")
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == (
            "the task's retries are 'many', not a number from 0 to 1,000 (the variable 'n' of the process p is a text)"
        )

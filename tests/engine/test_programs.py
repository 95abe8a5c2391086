"""Service tasks that programs claim: the fields, the results of answers, and the name of the program."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.service import processes
from shardclock_server.service.deliveries import holder_name
from shardclock_server.sql.deliveries.find import DeliveryFilter, DeliveryState, find_deliveries, find_delivery
from shardclock_server.sql.processes.service_tasks import (
    TakenTask,
    activate_service_tasks,
    complete_service_task,
    extend_service_task,
    fail_service_task,
    throw_service_task_error,
)
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.bpmn import boundary, job
from tests.support.bpmn_cluster import NOW, Processes, running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
LATE = "<timerEventDefinition><timeDuration>PT1M</timeDuration></timerEventDefinition>"
HEADERS = (
    '<extensionElements><zeebe:taskDefinition type="pack"/><zeebe:taskHeaders>'
    '<zeebe:header key="box" value="large"/><zeebe:header key="order" value="any"/>'
    "</zeebe:taskHeaders></extensionElements>"
)


async def take(it: Processes, task_type: str = "pack", *, worker: str | None = None) -> TakenTask:
    (task,) = await activate_service_tasks(
        it.session, task_type, most=10, lease_s=30.0, tenant_id="default", worker=worker
    )
    return task


async def answer(it: Processes, task: TakenTask, *, claim: int | None = None, tenant_id: str | None = None) -> set[str]:
    """Send each kind of answer to a task; return the results."""
    which = it.session, task.task_key, task.claim if claim is None else claim
    return {
        await complete_service_task(*which, variables={}, tenant_id=tenant_id),
        await extend_service_task(*which, lease_s=30.0, tenant_id=tenant_id),
        await fail_service_task(*which, reason="no box", tenant_id=tenant_id),
        await fail_service_task(*which, reason="no box", retries=2, tenant_id=tenant_id),
        await throw_service_task_error(*which, code="E1", variables={}, tenant_id=tenant_id),
    }


async def fail(it: Processes, *, retries: int | None = None) -> tuple[int, str]:
    """Claim the task, and report a failure; return the task's remaining attempts, and the result of the report."""
    task = await take(it)
    return task.attempts_left, await fail_service_task(
        it.session, task.task_key, task.claim, reason="no box", retries=retries
    )


async def test_a_program_has_three_attempts_by_default() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        key = await it.start()
        assert [await fail(it) for _ in range(3)] == [(3, "RETRIED"), (2, "RETRIED"), (1, "DEAD")]
        await it.settle()
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == "no box"


async def test_the_retries_of_a_program_s_answer_hold_until_its_next_answer() -> None:
    async with running() as it:
        await it.deploy(START + job("pack", retries="2") + END, connected="s>pack pack>e")
        await it.start()
        assert await fail(it, retries=4) == (2, "RETRIED")
        assert [await fail(it), await fail(it)] == [(4, "RETRIED"), (3, "RETRIED")]
        assert [await fail(it, retries=1), await fail(it)] == [(2, "RETRIED"), (1, "DEAD")]


async def test_a_program_may_allow_more_attempts_than_can_be_counted() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        assert await fail(it, retries=2**31 - 1) == (3, "RETRIED")
        assert (await take(it)).attempts_left == 2**31 - 2


async def test_a_program_has_one_attempt_after_any_number_of_failures() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        await it.query("update shardclock.deliveries set failed_attempts = 7")
        assert await fail(it) == (1, "DEAD")


async def test_a_taken_task_has_its_type_its_instance_and_its_process() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.deploy(START + f'<serviceTask id="n">{HEADERS}</serviceTask>' + END, connected="s>n n>e")
        key = await processes.start(it.session, "p", variables={"order": 42}, business_key="order-42")
        await it.settle()
        task = await take(it)
        assert (task.instance_key, task.process_id, task.version, task.business_key) == (key, "p", 2, "order-42")
        assert (task.type, task.node_id, task.attempts_left) == ("pack", "n", 3)
        assert task.headers == {"box": "large", "order": "any"}
        assert task.variables == {"box": "large", "order": 42}, "as handlers get them: the variable wins"
        (leased,) = await it.query("select claimed_until from shardclock.deliveries")
        assert leased["claimed_until"] == task.claimed_until
        assert task.claimed_until - timedelta(seconds=29) > NOW


async def test_tasks_with_large_variables_are_taken_in_smaller_batches() -> None:
    # Given twelve tasks with 1,000,000 bytes of variables each
    items = '<multiInstanceLoopCharacteristics><extensionElements><zeebe:loopCharacteristics inputCollection="=items"/>'
    each = f"{items}</extensionElements></multiInstanceLoopCharacteristics>"
    task = f'<serviceTask id="t">{HEADERS}{each}</serviceTask>'
    async with running() as it:
        await it.deploy(START + task, connected="s>t")
        await it.start(big="x" * 1_000_000, items=list(range(12)))

        # When a program asks for a hundred tasks, then it gets 8 MiB and one more task. The next call gets the
        # remaining tasks
        counts = []
        while taken := await activate_service_tasks(it.session, "pack", most=100, lease_s=30.0, tenant_id="default"):
            counts.append(len(taken))
        assert counts == [9, 3]


async def test_a_task_without_stored_headers_has_them_in_its_variables() -> None:
    async with running() as it:
        await it.deploy(START + f'<serviceTask id="n">{HEADERS}</serviceTask>' + END, connected="s>n n>e")
        await it.start()
        await it.query("update shardclock.deliveries set headers = null")
        task = await take(it)
        assert (task.headers, task.business_key, task.variables) == ({}, None, {"box": "large", "order": "any"})


async def test_an_answer_to_a_task_that_another_program_has_taken_is_refused() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        await it.start()
        first = await take(it)
        await it.advance("PT31S")
        second = await take(it)
        assert await answer(it, first) == {"TAKEN"}
        assert await answer(it, first, tenant_id="other") == {"NOT_FOUND"}
        assert await answer(it, second, claim=9) == await answer(it, second, claim=0) == {"NOT_FOUND"}
        assert await complete_service_task(it.session, second.task_key, second.claim, variables={}) == "COMPLETED"
        assert await answer(it, first) == {"COMPLETED_BEFORE"}, "whoever did it"


async def test_a_repeated_answer_returns_the_first_result() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        for _ in range(3):
            await it.start()
        completed, given_up, thrown = await activate_service_tasks(
            it.session, "pack", most=3, lease_s=30.0, tenant_id="default"
        )
        await complete_service_task(it.session, completed.task_key, completed.claim, variables={})
        assert await answer(it, completed) == {"COMPLETED_BEFORE"}
        await fail_service_task(it.session, given_up.task_key, given_up.claim, reason="no box", retries=1)
        assert await answer(it, given_up) == {"RETRIED_BEFORE"}
        again = await take(it)
        assert await answer(it, given_up) == {"TAKEN"}
        await fail_service_task(it.session, again.task_key, again.claim, reason="no box", retries=0)
        assert await answer(it, again) == {"DEAD_BEFORE"}
        await throw_service_task_error(it.session, thrown.task_key, thrown.claim, code="E1", variables={})
        assert await answer(it, thrown) == {"DISCARDED_BEFORE"}
        assert await answer(it, thrown, tenant_id="other") == {"NOT_FOUND"}


@pytest.mark.parametrize("how", ["cancelled", "interrupted"])
async def test_an_answer_to_an_ended_task_returns_its_end(how: str) -> None:
    async with running() as it:
        late = boundary("b", "pack", LATE) + '<endEvent id="l"/>'
        await it.deploy(START + job("pack") + late + END, connected="s>pack pack>e b>l")
        key = await it.start()
        task = await take(it)
        if how == "cancelled":
            await it.query("select shardclock.cancel_instance($1)", key)
        await it.advance("PT1M")
        assert await answer(it, task) == {"CANCELED"}
        (end,) = await it.query("select intent, detail from shardclock.command_log where timer_key = $1", task.task_key)
        assert (end["intent"], end["detail"]) == ("DISCARDED", '{"reason": "its token waits no more"}')


async def test_a_taken_task_shows_the_worker_name_of_its_program() -> None:
    async with running() as it:
        await it.deploy(START + job("pack") + END, connected="s>pack pack>e")
        key = await it.start()

        async def shown() -> DeliveryState:
            (listed,) = await find_deliveries(it.session, DeliveryFilter(), limit=10)
            found = await find_delivery(it.session, listed.timer_key)
            assert found is not None
            (waits,) = (await it.see(key)).waits["service_tasks"]
            assert listed.holder is found.holder is None, "no live holder has the task"
            assert listed.worker == found.worker == waits["worker"]
            assert listed.claimed_until == found.claimed_until
            assert (found.claimed_until is None) == (waits["claimed_until"] is None) == (found.state == "WAITING")
            return found

        assert (await shown()).worker is None
        task = await take(it, worker="packer-3")
        assert holder_name(await shown()) == "program packer-3"
        await fail_service_task(it.session, task.task_key, task.claim, reason="no box", retries=5)
        given_back = await shown()
        assert (given_back.worker, '"worker": "packer-3"' in (given_back.failures or "")) == (None, True)
        await take(it)
        assert holder_name(await shown()) == "a program"
        await it.advance("PT31S")
        task = await take(it, worker="packer-4")
        await complete_service_task(it.session, task.task_key, task.claim, variables={})
        (end,) = await it.query(
            "select detail->>'worker' as worker from shardclock.command_log where intent = 'DELIVERED'"
        )
        assert end["worker"] == "packer-4"


@pytest.mark.shared_database
@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"most": 0}, "most 0 is refused: take 1 to 1000"),
        ({"most": 1001}, "most 1001 is refused: take 1 to 1000"),
        ({"worker": ""}, "worker '' is refused: give 1 to 100 characters"),
        ({"worker": 101 * "a"}, f"worker '{60 * 'a'}"),
    ],
)
async def test_an_invalid_number_of_tasks_or_worker_name_is_refused(
    dsn: str, asked: dict[str, Any], sentence: str
) -> None:
    async with Session(dsn, application="test") as session:
        with pytest.raises(StatementRefused, match=sentence):
            await activate_service_tasks(session, "pack", **({"most": 1} | asked), lease_s=30.0, tenant_id="default")

"""Each model from the tests of other engines is refused at its deployment, or runs to its end."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from shardclock_server.bpmn.model import InvalidModel
from shardclock_server.service import processes
from shardclock_server.sql.processes import tasks
from tests.support.bpmn_cluster import NOW, Processes, running
from tests.support.bpmn_models import Play
from tests.support.other_models import MODELS, REFUSED, names

pytestmark = pytest.mark.skipif(not MODELS.exists(), reason=f"{MODELS} is not here")
RUN = {"06_", "32_", "36_", "60_", "66_"}


async def deploy(it: Processes, prefix: str) -> None:
    (name,) = [name for name in names() if name.startswith(prefix)]
    await processes.deploy(it.session, (MODELS / name).read_bytes(), resource=name)


async def open_tasks(it: Processes) -> Counter[str]:
    return Counter(task.node_id for task in await tasks.find_tasks(it.session))


async def complete_all(it: Processes, node_id: str) -> None:
    play = Play(it)
    for _ in range((await open_tasks(it))[node_id]):
        await play.move(f"complete {node_id}")


async def test_each_model_has_a_test_or_is_refused() -> None:
    assert {name[:3] for name in names()} == RUN | REFUSED.keys()


@pytest.mark.parametrize("name", [name for name in names() if name[:3] in REFUSED])
async def test_an_unsupported_model_of_another_engine_is_refused_and_leaves_no_rows(name: str) -> None:
    async with running() as it:
        with pytest.raises(InvalidModel) as refused:
            await processes.deploy(it.session, (MODELS / name).read_bytes(), resource=name)
        sentences = "; ".join(str(problem) for problem in refused.value.problems)
        assert [word for word in REFUSED[name[:3]] if word not in sentences] == []
        for table in ("definitions", "timers", "subscriptions"):
            assert await it.query(f"select 1 from shardclock.{table}") == [], table


@pytest.mark.parametrize("answered", [True, False])
async def test_a_document_is_requested_each_day_until_it_comes_or_the_week_is_over(answered: bool) -> None:
    async with running() as it:
        await deploy(it, "06_")
        play = Play(it)
        key = await it.start("requestDocument_en", documentReferenceId="D-1")
        await play.move("do email")
        for _ in range(3 if answered else 6):
            await it.advance("P1D")
            assert "SendTask_SendReminderEmail- EndEvent_ReminderSent+" in await play.move("do email")
        if answered:
            await play.move("message MESSAGE_documentReceived D-1")
        else:
            await it.advance("P1D")
            await play.move("complete UserTask_CallCustomer")
        assert await it.state(key) == "COMPLETED"
        end = "EndEvent_GotDocument+" if answered else "EndEvent_TalkedToCustomer+"
        assert end in await it.history(key)
        await it.advance("P7D")
        assert (await it.history(key)).count("SendTask_SendReminderEmail+") == (3 if answered else 6)


async def test_each_of_several_start_timers_begins_instances() -> None:
    async with running() as it:
        await deploy(it, "32_")
        await it.advance("PT1M")
        # R2/PT10S, R3/PT5S, R1/PT15S, and an endless cron of 20 seconds.
        names_of = {task.node_id: task.name for task in await tasks.find_tasks(it.session)}
        begun = {names_of[node_id]: count for node_id, count in (await open_tasks(it)).items()}
        assert begun == {"Task A": 2, "Task B": 3, "Task C": 1, "Task D": 3}
        for _ in range(2):  # complete the present tasks, and the tasks that follow
            for node_id in await open_tasks(it):
                await complete_all(it, node_id)
        assert [await it.state(key) for key in await Play(it).instances()] == ["COMPLETED"] * 9
        assert len(await it.query("select 1 from shardclock.timers")) == 1


async def test_tasks_are_added_by_event_sub_processes_at_two_levels() -> None:
    async with running() as it:
        await deploy(it, "36_")
        key = await it.start("startingAdditionalTasks")
        await complete_all(it, "task1")
        await it.advance("P7D")
        assert await open_tasks(it) == {"subTask1": 1, "additionalTask": 3, "additionalSubTask": 3}
        for node_id in ("additionalSubTask", "subTask1", "task2", "additionalTask"):
            assert await it.state(key) == "RUNNING"
            await complete_all(it, node_id)
        assert await it.state(key) == "COMPLETED"


async def test_a_cron_adds_tasks_while_the_first_one_waits() -> None:
    async with running() as it:
        await deploy(it, "60_")
        key = await it.start("process")
        await it.advance("PT10M")
        assert await open_tasks(it) == {"userTask": 1, "userTask2": 2}
        await complete_all(it, "userTask2")
        await complete_all(it, "userTask")
        assert await it.state(key) == "COMPLETED"
        assert await it.query("select 1 from shardclock.timers") == []


async def test_a_date_that_is_missing_is_an_incident_until_it_is_set() -> None:
    async with running() as it:
        await deploy(it, "66_")
        await it.advance("PT10H")
        (key,) = await Play(it).instances()
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"].startswith("the time of catch-date is null, not a text (")
        assert "the process" in incident["sentence"]

        play, due = Play(it), (NOW + timedelta(hours=11)).isoformat()
        await play.move(f'set {{"environment": {{"variables": {{"catchDate": "{due}", "dueDate": "{due}"}}}}}}')
        await play.move("resolve catch-date")
        await it.advance("PT1H")
        (task,) = await tasks.find_tasks(it.session)
        assert task.due_date == NOW + timedelta(hours=11)
        await complete_all(it, "user-due")
        assert await it.state(key) == "COMPLETED"
        await it.advance("P7D")
        assert len(await play.instances()) == 3

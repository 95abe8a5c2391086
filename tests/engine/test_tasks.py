"""Clients can read how a task or an instance ended, until its row is deleted."""

from __future__ import annotations

from shardclock_server.service.processes import local_variables_of
from shardclock_server.service.tasks import variables_of
from shardclock_server.sql.processes import instances, tasks
from tests.support.bpmn import SHARED
from tests.support.bpmn_cluster import Processes, running

START, END, USER = '<startEvent id="s"/>', '<endEvent id="e"/>', '<userTask id="u" name="Approve"/>'
CALLED = '<zeebe:calledElement processId="child"/>'
CALL = f'<callActivity id="c"><extensionElements>{CALLED}</extensionElements></callActivity>'
THROW = '<endEvent id="t"><errorEventDefinition errorRef="x"/></endEvent>'
CATCH = '<boundaryEvent id="b" attachedToRef="c"><errorEventDefinition errorRef="x"/></boundaryEvent>'


async def waiting(it: Processes) -> tasks.FoundTask:
    await it.deploy(START + USER + END, connected="s>u u>e")
    await it.start()
    (task,) = await tasks.find_tasks(it.session)
    return task


async def find(it: Processes, task_key: int) -> tasks.WholeTask:
    found = await tasks.find_task(it.session, task_key)
    assert found is not None
    return found


async def test_a_repeated_completion_returns_completed_before_in_any_state_of_the_instance() -> None:
    async with running() as it:
        key = (await waiting(it)).task_key
        answers = [await tasks.complete_task(it.session, key, variables={"n": n}) for n in range(2)]
        await it.settle()
        assert await tasks.find_tasks(it.session) == []
        answers.append(await tasks.complete_task(it.session, key, variables={"n": 2}))
        others = await tasks.complete_task(it.session, key, variables={}, tenant_id="other")
        never = await tasks.complete_task(it.session, key + 1_000, variables={})
        (ended,) = await instances.find_instances(it.session)
        assert (await it.see(ended.instance_key)).result == {"n": 0}
    assert answers == ["COMPLETED", "COMPLETED_BEFORE", "COMPLETED_BEFORE"]
    assert (others, never) == ("NOT_FOUND", "NOT_FOUND")


async def test_a_task_of_a_cancelled_instance_is_cancelled() -> None:
    async with running() as it:
        task = await waiting(it)
        sent = [await instances.cancel_instance(it.session, task.instance_key) for _ in range(2)]
        await it.settle()
        assert await tasks.complete_task(it.session, task.task_key, variables={}) == "CANCELED"
        assert await instances.cancel_instance(it.session, task.instance_key) == "CANCELED"
        assert await instances.cancel_instance(it.session, task.instance_key, tenant_id="other") == "NOT_FOUND"
    assert sent == ["SENT", "SENT"], "until an engine has taken it"


async def test_a_cancellation_of_an_ended_instance_returns_its_end() -> None:
    async with running() as it:
        await it.deploy(START + THROW, connected="s>t", beside=SHARED, process_id="child")
        await it.deploy(START + CALL + CATCH + END, connected="s>c c>e b>e", beside=SHARED)
        key = await it.start()
        (child,) = [one for one in await instances.find_instances(it.session) if one.parent_key == key]
        assert await instances.cancel_instance(it.session, child.instance_key) == "ERROR"
        assert await instances.cancel_instance(it.session, key) == "COMPLETED"
        assert await instances.cancel_instance(it.session, key + 1_000) == "NOT_FOUND"


async def test_a_task_shows_its_variables_and_its_history() -> None:
    mapping = '<zeebe:ioMapping><zeebe:input source="=item * 10" target="price"/></zeebe:ioMapping>'
    each = (
        '<multiInstanceLoopCharacteristics isSequential="false"><extensionElements>'
        '<zeebe:loopCharacteristics inputCollection="=items" inputElement="item"/>'
        "</extensionElements></multiInstanceLoopCharacteristics>"
    )
    priced = f'<userTask id="u" name="Price"><extensionElements>{mapping}</extensionElements>{each}</userTask>'
    async with running() as it:
        await it.deploy(START + priced + END, connected="s>u u>e")
        await it.start(items=[1, 2], item="of the process", order=42)
        keys = [task.task_key for task in await tasks.find_tasks(it.session)]
        first, second = [await find(it, key) for key in keys]

        seen = [variables_of(task) for task in (first, second)]
        assert seen == [{"items": [1, 2], "item": n, "price": 10 * n, "order": 42, "loopCounter": n} for n in (1, 2)]
        assert (first.state, first.node_id, first.name, first.assignee) == ("CREATED", "u", "Price", None)
        assert [(act.act, act.actor) for act in first.acts] == [("CREATED", "engine")]

        await tasks.claim_task(it.session, keys[0], assignee="ann")
        assert ((await find(it, keys[0])).state, (await find(it, keys[1])).state) == ("ASSIGNED", "CREATED")
        await tasks.complete_task(it.session, keys[0], variables={})
        assert (await find(it, keys[0])).state == "COMPLETED"


async def test_the_end_of_a_task_is_shown_until_its_instance_is_deleted() -> None:
    async with running() as it:
        key = (await waiting(it)).task_key
        await tasks.claim_task(it.session, key, assignee="ann")
        opened = await find(it, key)
        await tasks.complete_task(it.session, key, variables={})
        await it.settle()
        done = await find(it, key)
        assert (done.state, done.assignee, done.node_id, done.process_id) == ("COMPLETED", "ann", "u", "p")
        assert (done.instance_key, variables_of(done), done.name) == (opened.instance_key, None, "Approve")
        assert abs((done.created_at - opened.created_at).total_seconds()) < 60
        assert [(act.act, act.detail) for act in done.acts] == [
            ("CREATED", {"node": "u", "name": "Approve"}),
            ("ASSIGNED", {"assignee": "ann"}),
            ("COMPLETED", {"assignee": "ann"}),
        ]
        assert await tasks.find_task(it.session, key, tenant_id="other") is None

        canceled = (await waiting(it)).task_key
        await instances.cancel_instance(it.session, (await find(it, canceled)).instance_key)
        await it.settle()
        assert (await find(it, canceled)).state == "CANCELED"

        await it.query("delete from shardclock.task_acts")
        assert await tasks.find_task(it.session, key) is None


async def test_an_ended_task_still_shows_its_fields() -> None:
    given = (
        '<zeebe:assignmentDefinition candidateGroups="sales, support" candidateUsers="ann"/>'
        '<zeebe:taskSchedule dueDate="2026-03-02T09:00:00Z"/><zeebe:formDefinition formKey="approval"/>'
    )
    full = f'<userTask id="u" name="Approve"><extensionElements>{given}</extensionElements></userTask>'
    kept = ("node_id", "name", "candidate_groups", "candidate_users", "due_date", "form_key")
    async with running() as it:
        await it.deploy(START + full + '<userTask id="v"/>' + END, connected="s>u u>v v>e")
        await it.start()
        for node, details in (("u", 6), ("v", 2)):
            (task,) = await tasks.find_tasks(it.session)
            assert (task.node_id, bool(task.candidate_groups)) == (node, node == "u")
            await tasks.complete_task(it.session, task.task_key, variables={})
            await it.settle()
            ended = await find(it, task.task_key)
            assert ended.state == "COMPLETED"
            assert [getattr(ended, name) for name in kept] == [getattr(task, name) for name in kept]
            assert len(ended.acts[0].detail) == details, "no row is written for a missing task"


async def test_a_task_without_stored_details_shows_no_details() -> None:
    async with running() as it:
        key = (await waiting(it)).task_key
        await it.query('update shardclock.task_acts set detail = \'{"node": "u"}\'')
        await tasks.complete_task(it.session, key, variables={})
        await it.settle()
        old = await find(it, key)
    assert (old.node_id, old.name, old.candidate_groups, old.candidate_users) == ("u", None, None, None)


async def test_an_instance_shows_the_variables_of_each_token() -> None:
    mapping = '<zeebe:ioMapping><zeebe:input source="=order + 1" target="next"/></zeebe:ioMapping>'
    task = f'<userTask id="u"><extensionElements>{mapping}</extensionElements></userTask>'
    async with running() as it:
        await it.deploy('<startEvent id="s"/>' + task, connected="s>u")
        found = await it.see(await it.start(order=1))
        (local,) = local_variables_of(found)
        assert (local["node_id"], local["variables"]) == ("u", {"next": 2})
        assert local["token"] == found.waits["tasks"][0]["token"]

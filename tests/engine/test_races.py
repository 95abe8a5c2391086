"""If engines, shards and clients work on the same rows at the same time, no signal is lost or processed twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from shardclock_server.service.processes import deploy
from shardclock_server.sql.clock.moved import move
from shardclock_server.sql.processes import instances, tasks
from tests.support.bpmn import SHARED, boundary, job, model, timer
from tests.support.bpmn_cluster import NOW, holding, running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
CALL = (
    '<callActivity id="c"><extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
    "</callActivity>"
)
CATCH = '<intermediateCatchEvent id="m1"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'


async def test_a_schedule_that_was_locked_at_its_end_is_closed_later() -> None:
    cycle = boundary("b", "u", timer("timeCycle", "R/PT10M"), interrupts=False)
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + cycle + END + '<userTask id="w"/>', connected="s>u u>w")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        # The test locks the timer's row, like a firing.
        async with holding(it, "select 1 from shardclock.timers for update"):
            assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
            await it.engine.step()
            assert len(await it.query("select 1 from shardclock.timers")) == 1
        await it.advance("PT1S")
        assert await it.query("select 1 from shardclock.timers") == []
        assert await it.state(key) == "RUNNING"


async def test_a_schedule_of_an_ended_instance_is_closed_later() -> None:
    cycle = boundary("b", "u", timer("timeCycle", "R/PT10M"), interrupts=False)
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + cycle + END, connected="s>u u>e")
        key = await it.start()
        async with holding(it, "select 1 from shardclock.timers for update"):
            assert await instances.cancel_instance(it.session, key) == "SENT"
            await it.engine.step()
        await it.advance("PT1S")
        assert await it.query("select 1 from shardclock.timers") == []


async def test_a_client_s_open_transaction_delays_no_other_instance() -> None:
    interrupted = boundary("b", "u", timer("timeDuration", "PT1H")) + END + '<endEvent id="o"/>'
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + interrupted, connected="s>u u>e b>o")
        first, second = await it.start(), await it.start()
        of = {task.instance_key: task.task_key for task in await tasks.find_tasks(it.session)}
        async with holding(it, "select shardclock.complete_task($1)", of[first]):
            await move(it.session, NOW + timedelta(hours=1))
            await it.shard.step()
            async with asyncio.timeout(2.0):
                await it.engine.step()
            assert [await it.state(key) for key in (first, second)] == ["COMPLETED", "COMPLETED"]
        # The completion was rolled back. The ended instance's task stays open until an engine tries again to close it.
        assert [task.instance_key for task in await tasks.find_tasks(it.session)] == [first]
        await it.advance("PT1H1S")
        assert await tasks.find_tasks(it.session) == []


async def test_a_kept_message_is_found_after_its_engine_has_died() -> None:
    async with running() as it:
        await it.deploy(START + CATCH + END, connected="s>m1 m1>e", beside=SHARED)
        key = await it.start(order="42")
        await it.query(
            "insert into shardclock.messages (message_key, expires_at, tenant_id, name, correlation, variables)"
            " values (1, now() + interval '1 hour', 'default', 'paid', '42', '{}')"
        )
        await it.engine.maintenance_turn()
        await it.settle()
        assert await it.state(key) == "COMPLETED"
        assert (await it.query("select correlated from shardclock.messages"))[0]["correlated"] == ["p"]


async def test_two_messages_reach_two_tokens_of_one_process_and_each_token_gets_one() -> None:
    async with running() as it:
        await it.deploy(START + CATCH + END, connected="s>m1 m1>e", beside=SHARED)
        keys = [await it.start(order="42"), await it.start(order="42")]
        publish = "select shardclock.publish_message('paid', '42', jsonb_build_object('n', $1::integer))"
        reached = [(await it.query(publish, n))[0]["publish_message"] for n in (1, 2)]
        assert sorted(reached) == keys
        await it.settle()
        results = [(await it.see(key)).result or {} for key in keys]
        assert sorted(result["n"] for result in results) == [1, 2]


async def test_a_thrown_signal_reaches_a_wait_that_began_in_the_same_step() -> None:
    catch = '<intermediateCatchEvent id="g1"><signalEventDefinition signalRef="g"/></intermediateCatchEvent>'
    thrower = '<intermediateThrowEvent id="t"><signalEventDefinition signalRef="g"/></intermediateThrowEvent>'
    async with running() as it:
        await it.deploy(START + catch + thrower + END, connected="s>g1 s>t g1>e", beside=SHARED)
        key = await it.start()
        assert await it.state(key) == "COMPLETED"


async def test_a_child_that_has_not_begun_ends_with_its_call() -> None:
    interrupted = boundary("b", "c", timer("timeDuration", "PT1H")) + END + '<userTask id="w"/>'
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>', connected="s>u", process_id="child")
        await it.deploy(START + CALL + interrupted, connected="s>c c>e b>w")
        key = await it.start()
        (child,) = await instances.find_instances(it.session, process_id="child")
        assert child.parent_key == key
        # A second parent is interrupted before its child starts.
        second = (await it.query("select shardclock.start_process('p') as key"))[0]["key"]
        await it.engine._runners[0].turn()
        await it.query("update shardclock.timers set due_date = now() where process_instance_key = $1", second)
        await it.shard.step()
        await it.query(
            "update shardclock.deliveries set next_attempt_at = now() + interval '1 s' where name is not null"
        )
        await it.engine.step()
        await it.advance("PT1M")
        assert await it.state(second) == "RUNNING"
        assert len(await instances.find_instances(it.session, process_id="child")) == 1


async def test_a_call_of_a_process_that_can_t_begin_is_an_incident() -> None:
    """The called process has only a message start event."""
    child = '<startEvent id="s"><messageEventDefinition messageRef="n"/></startEvent>' + END
    call = '<extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
    call = f'<callActivity id="c">{call}</callActivity>'
    async with running() as it:
        await it.deploy(child, connected="s>e", beside='<message id="n" name="new"/>', process_id="child")
        await it.deploy(START + call + END, connected="s>c c>e")
        key = await it.start()
        await it.advance("PT1M")
        assert await it.state(key) == "RUNNING"
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == "the called process can't begin: child has no start event without a trigger"

        # After the correction the call is repeated; no dead letter is left that could start a second child.
        assert await it.query("select timer_key from shardclock.dead_letters") == []
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e", process_id="child")
        assert await instances.resolve_incident(it.session, key, incident["token"], tenant_id="default")
        await it.settle()
        assert [one.state for one in await instances.find_instances(it.session, process_id="child")] == ["RUNNING"]


async def test_a_token_of_the_process_can_t_be_moved_and_a_job_is_not_a_handler() -> None:
    async with running() as it:
        await it.deploy(START + job("job:nightly"), connected="s>job:nightly")
        key = await it.start()
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"].startswith("the task's type 'job:nightly' names no handler")
        assert await instances.move_tokens(it.session, key, terminated=[1])
        await it.settle()
        assert await it.stale(key) == ["moved"]
        assert await it.state(key) == "RUNNING"


async def test_an_unreadable_model_stops_no_other_model() -> None:
    async with running() as it:
        bad = await it.deploy(START + '<userTask id="u"/>', connected="s>u")
        await it.query("update shardclock.definitions set model = 'no model' where definition_key = $1", bad)
        await it.deploy(START + END, connected="s>e", process_id="good")
        await it.query("select shardclock.start_process('p')")
        good = await it.start("good")
        assert await it.state(good) == "COMPLETED"
        await it.advance("PT1M")
        assert await it.query("select 1 from shardclock.dead_letters") == [], "a newer engine may read it"
        (left,) = await it.query("select failures -> -1 ->> 'reason' as reason from shardclock.deliveries")
        assert left["reason"] == f"this release refuses the model of the definition {bad}"


async def test_invalid_json_in_a_signal_stops_no_other_instance() -> None:
    async with running() as it:
        await it.deploy(START + END, connected="s>e")
        deep = "(repeat('[', 5000) || repeat(']', 5000))::jsonb"
        key = await it.start()
        # The row is written in SQL without the API's checks. An operator can do the same.
        said = f"""select shardclock.send_signal(null, 'default', jsonb_build_object(
            'kind', 'begin', 'definition', i.definition_key, 'variables', jsonb_build_object('a', {deep})))
            from shardclock.instances i where i.instance_key = $1"""
        await it.query(said, key)
        good = await it.start()
        assert await it.state(good) == "COMPLETED"
        await it.advance("PT1M")
        assert len(await it.query("select 1 from shardclock.dead_letters")) == 1


async def test_a_deployment_of_a_file_with_two_processes_is_atomic() -> None:
    two = model(START, process_id="one").replace(b"</definitions>", b"") + (
        b'<process id="two" isExecutable="true"><startEvent id="t"/></process></definitions>'
    )
    async with running() as it:
        deployed = await deploy(it.session, two, resource="two.bpmn")
        assert [(one.process_id, one.version, one.is_new) for one in deployed] == [("one", 1, True), ("two", 1, True)]

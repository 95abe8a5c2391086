"""Signals to instances: messages and signals of BPMN, including late and unreadable signals."""

from __future__ import annotations

import pytest

from shardclock_server.engine.advance import advance_by
from shardclock_server.service import processes
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.processes.apply import apply_steps
from shardclock_server.sql.processes.signals import read_due_signals
from tests.support.bpmn import SHARED, job
from tests.support.bpmn_cluster import running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'


async def test_a_message_reaches_only_the_instance_that_waits() -> None:
    catch = '<intermediateCatchEvent id="m1"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    async with running() as it:
        await it.deploy(START + catch + END, connected="s>m1 m1>e", beside=SHARED)
        mine, other = await it.start(order="42"), await it.start(order="43")

        async def publish(key: str) -> list[int]:
            said = {"paid": True}
            return await instances.publish_message(
                it.session, "paid", correlation=key, variables=said, tenant_id="default"
            )

        assert await publish("44") == []
        assert await publish("42") == [mine]
        assert await publish("42") == []
        await it.settle()
        assert (await it.see(mine)).result == {"order": "42", "paid": True}
        assert (await it.see(other)).found.state == "RUNNING"
        assert len(await it.query("select 1 from shardclock.subscriptions")) == 1


async def test_a_message_is_kept_for_a_later_wait() -> None:
    catch = '<intermediateCatchEvent id="m1"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    async with running() as it:
        await it.deploy(START + catch + END, connected="s>m1 m1>e", beside=SHARED)
        for key, kept_s in (("1", 60.0), ("2", 600.0)):
            assert (
                await instances.publish_message(
                    it.session, "paid", correlation=key, variables={}, tenant_id="default", time_to_live_s=kept_s
                )
                == []
            )
        await it.advance("PT2M")
        late, found = await it.start(order="1"), await it.start(order="2")
        assert (await it.see(late)).found.state == "RUNNING"
        assert (await it.see(found)).found.state == "COMPLETED"


async def test_a_signal_reaches_all_instances_that_wait() -> None:
    catch = '<intermediateCatchEvent id="g1"><signalEventDefinition signalRef="g"/></intermediateCatchEvent>'
    thrower = '<intermediateThrowEvent id="t"><signalEventDefinition signalRef="g"/></intermediateThrowEvent>'
    async with running() as it:
        await it.deploy(START + catch + END, connected="s>g1 g1>e", beside=SHARED)
        waiting = [await it.start(), await it.start()]
        await it.deploy(START + thrower, connected="s>t", beside=SHARED, process_id="q")
        await it.start("q")
        assert [(await it.see(key)).found.state for key in waiting] == ["COMPLETED", "COMPLETED"]


async def test_a_signal_to_an_ended_instance_is_recorded_as_stale() -> None:
    async with running() as it:
        await it.deploy(START + END, connected="s>e")
        key = await it.start()
        await it.query("select shardclock.send_signal($1, 'default', '{\"kind\": \"cancel\"}')", key)
        await it.settle()
        assert await it.query("select 1 from shardclock.deliveries") == []
        log = await it.query("select intent from shardclock.command_log where process_instance_key = $1", key)
        assert [row["intent"] for row in log] == ["STALE"]


async def test_an_unreadable_signal_becomes_a_dead_letter_and_delays_no_other_signal() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        bad, good = await it.start(), await it.start()
        await it.query("select shardclock.send_signal($1, 'default', $2, 1)", bad, '{"kind": "failed"}')
        of = {task.instance_key: task.task_key for task in await tasks.find_tasks(it.session)}
        assert await tasks.complete_task(it.session, of[good], variables={}) == "COMPLETED"
        await it.advance("PT1M")
        assert [await it.state(key) for key in (bad, good)] == ["RUNNING", "COMPLETED"]
        (dead,) = await it.query("select timer_key, reason, failed_attempts from shardclock.dead_letters")
        assert dead["reason"] == "a signal of the kind 'failed' lacks 'reason'"
        assert dead["failed_attempts"] == 5
        (incident,) = (await it.see(bad)).waits["incident_list"]
        assert f"dead-letters redrive {dead['timer_key']}" in incident["sentence"]

        # After a correction and a redrive the incident is removed; the end of the instance removes all other incidents.
        await it.query(
            "update shardclock.dead_letters set payload = $1", '{"kind": "variables", "variables": {"a": 1}}'
        )
        await it.query("select shardclock.redrive_dead_letters($1)", [dead["timer_key"]])
        await it.settle()
        assert (await it.see(bad)).waits["incident_list"] == []
        assert await tasks.complete_task(it.session, of[bad], variables={}) == "COMPLETED"
        await it.settle()
        assert (await it.see(bad)).result == {"a": 1}


async def test_a_faulty_signal_does_not_make_other_signals_dead_letters() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        key = await it.start()
        assert await instances.set_variables(it.session, key, {"first": 1})
        await it.query("select shardclock.send_signal($1, 'default', $2, 1)", key, '{"kind": "failed"}')
        assert await instances.set_variables(it.session, key, {"last": 1})
        await it.advance("PT1M")
        assert processes.variables_of(await it.see(key)) == {"first": 1, "last": 1}
        (dead,) = await it.query("select payload from shardclock.dead_letters")
        assert dead["payload"] == '{"kind": "failed"}'


async def test_a_client_can_t_cancel_the_service_task_of_an_instance() -> None:
    async with running() as it:
        await it.deploy(START + job("nobody"), connected="s>nobody")
        key = await it.start()
        (waiting,) = (await it.see(key)).waits["service_tasks"]
        with pytest.raises(Exception, match=f"belongs to instance {key}: cancel the instance"):
            await it.query("select shardclock.cancel_delivery($1)", waiting["task_key"])


async def test_a_state_over_the_limit_is_an_incident() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        key = await it.start()
        for name in ("a", "b"):
            assert await instances.set_variables(it.session, key, {name: "x" * 700_000})
        await it.advance("PT1M")
        found = await it.see(key)
        assert found.found.state == "RUNNING"
        (incident,) = found.waits["incident_list"]
        assert "bytes of state; the limit is 1,048,576" in incident["sentence"]


async def test_an_instance_that_another_engine_has_advanced_is_not_written_twice() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
        # Another engine has read the same signal, but this engine writes its step first.
        taken = (await read_due_signals(it.session, it.engine.holder, batch=10)).signals
        definition_key = taken[0].definition_key
        assert definition_key is not None
        late = advance_by(
            taken, it.engine._runners[0]._definitions.get(definition_key, "default"), definition_key
        ).writes()
        await it.engine.step()
        assert (await apply_steps(it.session, 1, late)).written == []
        assert (await it.history(key)).count("u-") == 1
        assert await it.state(key) == "COMPLETED"

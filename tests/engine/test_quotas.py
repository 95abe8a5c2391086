"""Instances, tasks, messages, definitions and timers of instances count against the quotas of their tenant."""

from __future__ import annotations

import asyncpg
import pytest

from shardclock.api.codes import quota
from shardclock_server.service import processes
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.tenant_limits.tenant_limits import count_usage, set_limits
from tests.support.bpmn import boundary, job, timer
from tests.support.bpmn_cluster import Processes, running
from tests.support.refusals import refusing

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
MANY = (
    '<multiInstanceLoopCharacteristics><extensionElements><zeebe:loopCharacteristics inputCollection="=1..n"/>'
    "</extensionElements></multiInstanceLoopCharacteristics>"
).replace("=1..n", "=for i in 1..n return i")
HOUR = timer("timeDuration", "PT1H")
WAITS = f'{START}<subProcess id="p1">{MANY}<startEvent id="ps"/>'
WAITS += f'<intermediateCatchEvent id="c">{HOUR}</intermediateCatchEvent>'
WAITS += '<sequenceFlow id="pf" sourceRef="ps" targetRef="c"/></subProcess>'


async def limit(it: Processes, **limits: int) -> None:
    await set_limits(it.session, "default", {f"{name}_max": most for name, most in limits.items()})


async def rows(it: Processes, table: str) -> int:
    (row,) = await it.query(f"select count(*) from shardclock.{table}")
    return int(row["count"])


async def pass_time(it: Processes) -> None:
    """Make the deferred signals due, and count the usage."""
    for _ in range(8):
        await count_usage(it.session, age_s=0, batch=100)
        await it.advance("PT1M")


async def incident_of(it: Processes, key: int) -> str:
    (incident,) = (await it.see(key)).waits["incident_list"]
    return str(incident["sentence"])


async def test_a_start_over_the_quota_of_timers_waits_and_then_continues() -> None:
    async with running() as it:
        await limit(it, timers=10)
        await it.deploy(WAITS, connected="s>p1")
        small, large = await it.start(n=8), await it.start(n=1_000)
        assert await rows(it, "timers") == 8
        assert "has a quota of 10 pending timers" in await incident_of(it, large)

        await limit(it, timers=2_000)
        await pass_time(it)
        assert await rows(it, "timers") == 1_008
        assert (await it.see(large)).waits["incident_list"] == []
        assert len((await it.see(small)).waits["timers"]) == 8


async def test_a_running_instance_over_a_quota_has_an_incident_until_it_fits() -> None:
    async with running() as it:
        await limit(it, tasks=2)
        task = f'<userTask id="u">{MANY}</userTask>'
        await it.deploy(START + job("work") + task, connected="s>work work>u")
        key, other = await it.start(n=3), await it.start(n=2)
        for taken in await processes_of(it, "work", 2):
            await instances_complete(it, taken)
        await it.settle()

        assert await rows(it, "tasks") == 2
        sentence = await incident_of(it, key)
        assert sentence.startswith(
            "tenant 'default' has a quota of 2 open tasks, and 3 more would exceed it: complete some, or"
        )
        assert (await it.see(other)).waits["incident_list"] == []

        await limit(it, tasks=5)
        assert await instances.resolve_incident(it.session, key, (await it.see(key)).waits["incident_list"][0]["token"])
        await it.settle()
        assert await rows(it, "tasks") == 5
        assert (await it.see(key)).waits["incident_list"] == []


async def processes_of(it: Processes, task_type: str, most: int) -> list[tuple[int, int]]:
    taken = await it.query("select task_key, claim from shardclock.activate_service_tasks($1, $2)", task_type, most)
    assert len(taken) == most
    return [(row["task_key"], row["claim"]) for row in taken]


async def instances_complete(it: Processes, taken: tuple[int, int]) -> None:
    await it.query("select shardclock.complete_service_task($1, $2, '{}')", *taken)


async def test_an_instance_continues_to_its_end_while_the_quota_is_full() -> None:
    async with running() as it:
        await limit(it, timers=1, tasks=1, instances=1)
        first = f'<userTask id="a"/>{boundary("b", "a", HOUR)}<userTask id="c"/>{boundary("d", "c", HOUR)}'
        await it.deploy(START + first + END, connected="s>a a>c b>e c>e d>e")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        await tasks.complete_task(it.session, task.task_key, variables={})
        await it.settle()
        assert (await it.see(key)).waits["incident_list"] == []
        await it.advance("PT1H")
        assert await it.state(key) == "COMPLETED"


BEGUN_BY = {
    "a message": (
        '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>',
        "select shardclock.publish_message('paid') from generate_series(1, 4)",
    ),
    "a signal": (
        '<startEvent id="s"><signalEventDefinition signalRef="g"/></startEvent>',
        "select shardclock.throw_signal('stop') from generate_series(1, 4)",
    ),
    "a timer": (f'<startEvent id="s">{timer("timeCycle", "R4/PT1M")}</startEvent>', "select 1"),
}


@pytest.mark.parametrize("by", BEGUN_BY)
async def test_instances_that_events_start_begin_up_to_the_quota(by: str) -> None:
    start, act = BEGUN_BY[by]
    async with running() as it:
        await limit(it, instances=2)
        beside = '<message id="m" name="paid"/><signal id="g" name="stop"/>'
        await it.deploy(start + '<userTask id="u"/>', connected="s>u", beside=beside)
        await it.query(act)
        await pass_time(it)
        assert await rows(it, "instances") == 2
        assert await it.query("select 1 from shardclock.dead_letters") == []

        await limit(it, instances=10)
        await pass_time(it)
        assert await rows(it, "instances") == 4


async def test_a_start_is_refused_at_a_full_quota_and_its_sentence_names_the_way_out() -> None:
    async with running() as it:
        await limit(it, instances=2)
        await it.deploy(START + '<userTask id="u"/>', connected="s>u")
        started = [await processes.start(it.session, "p", idempotency_key=f"k{number}") for number in range(2)]
        for _ in range(2):  # the start is accepted, and its instance starts later
            with refusing(quota("instances")) as refused:
                await processes.start(it.session, "p")
            assert str(refused.value) == (
                "tenant 'default' has a quota of 2 instances that have not ended, and 1 more would exceed it: cancel"
                " some, or wait until some have ended, or ask the operator of the cluster for a higher quota"
                " (shardclock tenants set)"
            )
            assert await processes.start(it.session, "p", idempotency_key="k1") == started[1]
            await it.settle()
        await instances.cancel_instance(it.session, started[0])
        await it.settle()
        await processes.start(it.session, "p")


async def test_messages_and_definitions_are_refused_at_a_full_quota() -> None:
    async with running() as it:
        await limit(it, messages=2, definitions=2, timers=3)
        keep = "select shardclock.publish_message('m', $1, time_to_live => 'PT1H')"
        for name in ("a", "b"):
            await it.query(keep, name)
        with pytest.raises(asyncpg.PostgresError, match="has a quota of 2 kept messages, and 1 more"):
            await it.query(keep, "c")

        first = await it.deploy(START)
        starts = f'<startEvent id="s">{timer("timeCycle", "R/PT1H")}</startEvent>'
        with refusing(quota("timers"), match="quota of 3 pending timers, and 4 more"):
            await it.deploy("".join(starts.replace('"s"', f'"s{n}"') for n in range(4)), process_id="q")
        await it.deploy(START, process_id="q")
        with refusing(quota("definitions")):
            await it.deploy(START, process_id="r")
        await it.query("select shardclock.delete_definition($1)", first)
        await it.deploy(START, process_id="r")


@pytest.mark.parametrize("most", [3, 2_000])
async def test_a_new_version_needs_quota_only_for_the_start_timers_that_it_adds(most: int) -> None:
    starts = f'<startEvent id="s">{timer("timeCycle", "R/PT1H")}</startEvent>'

    async def deploy(it: Processes, *nodes: str) -> None:
        await it.deploy("".join(starts.replace('"s"', f'"{node}"') for node in nodes))

    async with running() as it:
        await deploy(it, "a", "b", "c")
        await it.query(
            "insert into shardclock.timers (due_date) select now() + interval '1 day' from generate_series(4, $1)", most
        )
        await limit(it, timers=most)
        await it.query("insert into shardclock.tenant_usage values ('default', 'timers') on conflict do nothing")
        await count_usage(it.session, age_s=0, batch=100)

        await deploy(it, "a", "b", "d")
        with refusing(quota("timers"), match=f"quota of {most} pending timers, and 1 more"):
            await deploy(it, "a", "b", "c", "d")
        await deploy(it, "a")
        assert await rows(it, "timers") == most - 2


async def test_a_large_quota_is_enforced_by_an_engines_counts() -> None:
    async with running() as it:
        await limit(it, tasks=1_500)
        task = f'<userTask id="u">{MANY}</userTask>'
        await it.deploy(START + task, connected="s>u")
        for _ in range(3):
            await it.start(n=700)
            await count_usage(it.session, age_s=0, batch=100)
        await pass_time(it)
        assert 1_400 <= await rows(it, "tasks") <= 1_500, "two instances, and the tasks of the third that still fit"
        (used,) = await it.query("select used from shardclock.tenant_usage where resource = 'tasks'")
        assert 1_400 <= used["used"] <= 1_500


async def test_instances_that_ended_before_a_count_use_up_no_quota() -> None:
    async with running() as it:
        await limit(it, instances=1_001)
        wait = f'<intermediateCatchEvent id="c">{timer("timeDuration", "PT1M")}</intermediateCatchEvent>'
        await it.deploy(START + wait + END, connected="s>c c>e")
        for _ in range(3):
            await it.query("select shardclock.start_process('p') from generate_series(1, 400)")
            await it.settle()
            await it.advance("PT1M")
            await count_usage(it.session, age_s=0, batch=100)

        assert await rows(it, "instances where ended_at is not null") == 1_200

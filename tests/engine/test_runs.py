"""Processes on real Postgres, with the statements of production and a clock that the test moves."""

from __future__ import annotations

from datetime import datetime, timedelta
from unittest import mock

import pytest

from shardclock.api.codes import invalid
from shardclock.api.refusals.processes import PROCESS_WITHOUT_START, START_KEY_USED, UNKNOWN_PROCESS, UNKNOWN_VERSION
from shardclock_server.cluster.families import REPORTED
from shardclock_server.cluster.testing import stepping
from shardclock_server.engine.stats import report_of as engine_report
from shardclock_server.metrics.report import decode, encode
from shardclock_server.service import processes
from shardclock_server.shards.stats import ShardGauges
from shardclock_server.shards.stats import report_of as shard_report
from shardclock_server.sql.clock.moved import NextDue, move, next_due
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.processes.definitions import delete_definition
from shardclock_server.sql.session import Session
from tests.support.bpmn import SHARED, boundary, job, timer
from tests.support.bpmn_cluster import APP, NOW, running
from tests.support.refusals import refusing

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
CALL = (
    '<callActivity id="c"><extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
    "</callActivity>"
)
HOUR = timer("timeDuration", "PT1H")


async def test_an_instance_waits_for_its_timer_and_ends() -> None:
    catch = f'<intermediateCatchEvent id="t">{timer("timeDuration", "PT15M")}</intermediateCatchEvent>'
    async with running() as it:
        await it.deploy(START + catch + END, connected="s>t t>e")
        key = await it.start(order=42)
        found = await it.see(key)
        assert found.found.state == "RUNNING"
        (waiting,) = found.waits["timers"]
        assert datetime.fromisoformat(waiting["due_date"]) == NOW + timedelta(minutes=15)

        await it.advance("PT14M59S")
        assert await it.state(key) == "RUNNING"
        await it.advance("PT1S")
        found = await it.see(key)
        assert found.found.state == "COMPLETED"
        assert found.found.ended_at == NOW + timedelta(minutes=15)
        assert found.result == {"order": 42}
        assert found.state is None
        assert await it.history(key) == ["p+", "s+", "s-", "t+", "t-", "e+", "e-", "p-"]


async def test_a_handler_s_result_of_a_service_task_becomes_variables() -> None:
    async with running(APP) as it:
        await it.deploy(START + job("charge") + END, connected="s>charge charge>e")
        key = await it.start(amount=7)
        assert (await it.see(key)).result == {"amount": 7, "charged": 7}


async def test_a_dead_service_task_is_an_incident_and_the_instance_continues_after_the_resolution() -> None:
    async with running(APP) as it:
        await it.deploy(START + job("charge") + END, connected="s>charge charge>e")
        key = await it.start(fails=True)
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == "the card is expired"
        assert await it.query("select 1 from shardclock.dead_letters") == []

        assert await instances.set_variables(it.session, key, {"fails": False})
        assert await instances.resolve_incident(it.session, key, incident["token"])
        await it.settle()
        assert await it.state(key) == "COMPLETED"
        assert not await instances.resolve_incident(it.session, key, incident["token"])


async def test_an_error_that_a_handler_throws_is_caught_by_its_code() -> None:
    mapping = '<zeebe:ioMapping><zeebe:output source="=missing" target="missing"/></zeebe:ioMapping>'
    event = f'<extensionElements>{mapping}</extensionElements><errorEventDefinition errorRef="x"/>'
    caught = boundary("b", "charge", event) + '<endEvent id="o"/>'
    async with running(APP) as it:
        await it.deploy(START + job("charge") + caught + END, connected="s>charge charge>e b>o", beside=SHARED)
        caught_key, other_key = await it.start(throws="E1"), await it.start(throws="E2")
        assert "o+" in await it.history(caught_key)
        assert ((await it.see(caught_key)).result or {})["missing"] == 12
        (incident,) = (await it.see(other_key)).waits["incident_list"]
        assert "E2" in incident["sentence"]


async def test_a_user_task_is_claimed_and_completed_once() -> None:
    assigned = (
        '<userTask id="u" name="Approve"><extensionElements>'
        '<zeebe:assignmentDefinition candidateGroups="bosses"/></extensionElements></userTask>'
    )
    async with running() as it:
        await it.deploy(START + assigned + END, connected="s>u u>e")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session, tasks.TaskFilter(candidate_groups=["bosses"]))
        assert (task.name, task.instance_key) == ("Approve", key)
        assert await tasks.claim_task(it.session, task.task_key, assignee="ann") == "ASSIGNED"
        assert await tasks.claim_task(it.session, task.task_key, assignee="bob") == "TAKEN"
        assert await tasks.complete_task(it.session, task.task_key, variables={"approved": True}) == "COMPLETED"
        assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED_BEFORE"
        await it.settle()
        assert (await it.see(key)).result == {"approved": True}
        acts = await it.query("select act from shardclock.task_acts order by act_id")
        assert [row["act"] for row in acts] == ["CREATED", "ASSIGNED", "COMPLETED"]


@pytest.mark.parametrize("first", ["timer", "completion"])
async def test_only_the_first_of_timer_and_completion_is_effective_and_the_second_is_stale(first: str) -> None:
    elements = START + '<userTask id="u"/>' + boundary("b", "u", HOUR) + END + '<endEvent id="o"/>'
    async with running() as it:
        await it.deploy(elements, connected="s>u u>e b>o")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        # Both signals are stored before an engine polls.
        due, just_before = NOW + timedelta(hours=1), NOW + timedelta(minutes=59)
        if first == "timer":
            await move(it.session, due)
            await it.shard.step()
            assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
        else:
            await move(it.session, just_before)
            assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
            await move(it.session, due)
            await it.shard.step()
        await it.engine.step()
        assert await it.state(key) == "COMPLETED"
        ended = await it.history(key)
        assert ("o+" in ended, "e+" in ended) == ((True, False) if first == "timer" else (False, True))
        assert await it.stale(key) == ["completed" if first == "timer" else "fired"]


async def test_a_token_has_no_rows_for_its_closed_waits() -> None:
    elements = START + job("charge") + boundary("b", "charge", HOUR) + END + '<endEvent id="o"/>'
    async with running(APP) as it:
        await it.deploy(elements, connected="s>charge charge>e b>o")
        key = await it.start()
        assert await it.state(key) == "COMPLETED"
        assert await it.query("select 1 from shardclock.timers") == []
        log = await it.query("select intent from shardclock.command_log where timer_type = 'BOUNDARY'")
        assert [row["intent"] for row in log] == ["CANCELED"]


async def test_an_open_service_task_ends_when_its_timer_interrupts_it() -> None:
    elements = START + job("nobody") + boundary("b", "nobody", HOUR) + END + '<endEvent id="o"/>'
    async with running() as it:
        await it.deploy(elements, connected="s>nobody nobody>e b>o")
        key = await it.start()
        assert len((await it.see(key)).waits["service_tasks"]) == 1
        await it.advance("PT1H")
        assert await it.state(key) == "COMPLETED"
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_a_new_version_replaces_the_start_timer_and_its_deletion_restores_the_old_start_timer() -> None:
    def starting(cycle: str) -> str:
        return f'<startEvent id="s">{timer("timeCycle", cycle)}</startEvent>'

    async with running() as it:
        first = await it.deploy(starting("R/PT1H") + END, connected="s>e")
        assert first == await it.deploy(starting("R/PT1H") + END, connected="s>e")
        await it.advance("PT2H")
        assert len(await instances.find_instances(it.session)) == 2
        second = await it.deploy(starting("R/P1D") + END, connected="s>e")
        await it.advance("PT23H")
        assert len(await instances.find_instances(it.session)) == 2
        assert await delete_definition(it.session, second)
        assert not await delete_definition(it.session, second)
        await it.advance("PT1H")
        found = await instances.find_instances(it.session)
        assert [one.version for one in found] == [1, 1, 1]


async def test_a_called_process_returns_its_result() -> None:
    script = (
        '<scriptTask id="x"><extensionElements><zeebe:script expression="=order + 1" resultVariable="next"/>'
        "</extensionElements></scriptTask>"
    )
    async with running() as it:
        await it.deploy(START + CALL + END, connected="s>c c>e")
        key = await it.start(order=41)
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"] == 'the process "child" is not deployed; deploy it, and resolve this'

        await it.deploy(START + script, connected="s>x", process_id="child")
        assert await instances.resolve_incident(it.session, key, incident["token"])
        await it.settle()
        assert (await it.see(key)).result == {"order": 41, "next": 42}


async def test_an_instance_shows_its_called_instance() -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>', connected="s>u", process_id="child")
        await it.deploy(START + CALL + END, connected="s>c c>e")
        key = await it.start()
        (called,) = (await it.see(key)).waits["called"]
        child = await it.see(called["instance_key"])
        assert (child.found.parent_key, called["process_id"]) == (key, "child")
        (task,) = child.waits["tasks"]
        assert await tasks.complete_task(it.session, task["task_key"], variables={}) == "COMPLETED"
        await it.settle()
        assert (await it.see(key)).waits["called"] == []


async def test_a_cancellation_also_ends_called_processes() -> None:
    wait = f'<intermediateCatchEvent id="t">{HOUR}</intermediateCatchEvent><userTask id="u"/>'
    async with running() as it:
        await it.deploy(START + wait, connected="s>t s>u", process_id="child")
        await it.deploy(START + CALL + job("nobody") + END, connected="s>c s>nobody c>e")
        key = await it.start()
        assert len(await instances.find_instances(it.session, state="RUNNING")) == 2
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await it.settle()
        states = [one.state for one in await instances.find_instances(it.session)]
        assert states == ["CANCELED", "CANCELED"]
        assert len(await instances.find_instances(it.session, state="CANCELED")) == 2
        assert await instances.find_instances(it.session, state="COMPLETED") == []
        for table in ("timers", "deliveries", "tasks", "subscriptions", "incidents"):
            assert await it.query(f"select 1 from shardclock.{table}") == [], table
        assert await instances.cancel_instance(it.session, key) == "CANCELED"


async def test_variables_must_be_an_object_and_the_process_must_exist() -> None:
    async with running() as it:
        with refusing(UNKNOWN_PROCESS, match="none is deployed"):
            await processes.start(it.session, "p")
        await it.deploy(START, connected="")
        with refusing(UNKNOWN_PROCESS, match="process 'x' is unknown: the processes are p"):
            await processes.start(it.session, "x")
        with refusing(UNKNOWN_VERSION):
            await processes.start(it.session, "p", version=3)
        with refusing(invalid("variables"), match=r"variables have \d+ bytes: the limit is 1048576"):
            await processes.start(it.session, "p", variables={"a": "x" * 1_100_000})


async def test_a_process_with_a_message_start_event_can_t_be_started_by_a_client() -> None:
    by_message = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>'
    by_timer = f'<startEvent id="t">{timer("timeDate", "2026-03-02T08:00:00Z")}</startEvent>'
    async with running() as it:
        await it.deploy(by_message + by_timer + END, connected="s>e t>e", beside='<message id="m" name="paid"/>')
        with refusing(PROCESS_WITHOUT_START, match="it begins by its timer or the message 'paid'"):
            await it.start()
        assert await instances.find_instances(it.session) == []
        (key,) = await instances.publish_message(it.session, "paid", correlation="", variables={}, tenant_id="default")
        await it.settle()
        assert await it.state(key) == "COMPLETED"
        await it.advance("P1D")
        assert [found.state for found in await instances.find_instances(it.session)] == ["COMPLETED"] * 2


async def test_a_repeated_start_with_the_same_key_starts_one_instance() -> None:
    async with running() as it:
        await it.deploy(START + END, connected="s>e")
        await it.deploy(START + END, connected="s>e", process_id="other")
        first, second = [await processes.start(it.session, "p", idempotency_key="order-42") for _ in range(2)]
        assert first == second
        await it.settle()
        assert first == await processes.start(it.session, "p", idempotency_key="order-42")
        with refusing(START_KEY_USED, match="has started the process 'p'"):
            await processes.start(it.session, "other", idempotency_key="order-42")
        await it.advance("P2D")
        await it.engine.maintenance_turn()
        assert first != await processes.start(it.session, "p", idempotency_key="order-42")


async def only_found(session: Session, *, until: datetime, **_: object) -> NextDue | None:
    """Find the next due row, and leave its firing to the shard."""
    return await next_due(session, until=until)


async def test_a_shard_s_metrics_have_the_kind_process_for_its_timers() -> None:
    catch = f'<intermediateCatchEvent id="t">{HOUR}</intermediateCatchEvent>'
    async with running() as it:
        it.shard.measures_lags = True  # by default a step measures no lags
        await it.deploy(START + catch + END, connected="s>t t>e")
        await it.start()
        with mock.patch.object(stepping, "next_due", only_found):
            await it.advance("PT1H")
        report = shard_report("0" * 16, it.shard.stats, ShardGauges(0, 1, 0, 0.0, 0.0))
        told = decode(encode(report), REPORTED)
        assert ("process", "INTERMEDIATE", "ahead") in [it.labels for it in told.histograms]
        told = decode(encode(engine_report("1" * 16, it.engine.stats)), REPORTED)
        counted = {sample.name: sample.value for sample in told.samples if not sample.labels}
        assert counted["instances_begun"] == 1

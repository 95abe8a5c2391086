"""The change that makes an event true also writes the event: for jobs, incidents, holds, takeovers and schedules."""

from __future__ import annotations

from typing import Any

import pytest

from shardclock_server.shards.firing import planning_of
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.endpoints.endpoints import EndpointName, disable_gone_endpoint
from shardclock_server.sql.firing.fire import pause_faulty
from shardclock_server.sql.notify.events import OPERATOR_KINDS, TENANT_KINDS, ObservedEvent, note_events
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import BOUND_S, HolderClient, add_holder, query
from tests.support.operator_events import bodies, events, send, subscribe
from tests.support.roles import as_role
from tests.support.sql_client import schedule

pytestmark = pytest.mark.each_version

START = """
    insert into shardclock.dead_letters (timer_key, due_date, created_at, fired_at, occurrence, claims,
        failed_attempts, slot, tenant_id, timer_type, target, reason, process_instance_key)
    values ($1, now(), now(), now(), 1, 10, 10, 0, 'acme', 'USER', 'process:instance', 'no engine could', $2)
"""
INSTANCE = """
    insert into shardclock.instances (instance_key, definition_key, root_key, version, tenant_id, process_id, state)
    values (7, 1, 7, 1, 'acme', 'order', '{}')
"""
JOB = """
    insert into shardclock.jobs (name, function, every_s, policy) values ('refresh', 'app:refresh', 60, '{}')
"""


async def only(dsn: str, *, tenant_id: str = "default") -> dict[str, Any]:
    assert await send(dsn) == 1
    (body,) = await bodies(dsn, tenant_id=tenant_id)
    return body


async def test_a_job_s_failures_in_a_row_are_an_event_from_the_chosen_number_on(dsn: str) -> None:
    await subscribe(dsn, "job.failed", failures_min=2)
    await query(dsn, JOB)
    failed = """
        update shardclock.jobs
        set consecutive_failures = consecutive_failures + 1, last_outcome = 'FAILED', last_reason = 'no route'
    """

    await query(dsn, failed)
    assert await send(dsn) == 0
    await query(dsn, "update shardclock.jobs set consecutive_failures = 0, last_outcome = 'SUCCEEDED'")
    assert await events(dsn) == []
    await query(dsn, failed)
    await query(dsn, failed)

    body = await only(dsn)
    assert body["text"] == "job refresh failed, 2 times in a row: no route"
    assert body["data"] == {
        "job": "refresh", "failures": 2, "outcome": "FAILED", "reason": "no route", "tenant_id": "default",
        "subject": "refresh", "others": 0,
    }  # fmt: skip


async def test_an_incident_is_an_event_of_its_instance_s_tenant(dsn: str) -> None:
    await subscribe(dsn, "process.incident", tenant_id="acme")
    await subscribe(dsn, *TENANT_KINDS, tenant_id="other")
    await query(dsn, INSTANCE)
    await query(
        dsn,
        "insert into shardclock.incidents (instance_key, token, node_id, sentence)"
        " values (7, 1, 'pay', 'no variable price')",
    )

    body = await only(dsn, tenant_id="acme")
    assert body["text"] == ("instance 7 of process order has an incident at pay: no variable price [tenant acme]")
    assert (body["data"]["subject"], body["data"]["instance_key"]) == ("order", 7)


async def test_a_given_up_start_is_an_incident_and_a_given_up_signal_of_an_instance_is_a_single_event(
    dsn: str,
) -> None:
    await subscribe(dsn, *TENANT_KINDS, tenant_id="acme")

    await query(dsn, START, 1, None)
    await query(dsn, START, 2, 7)  # the engine writes an incident of instance 7, too

    assert await events(dsn) == [("process.incident", "process:instance")]


async def test_a_hold_and_its_end_are_two_events(dsn: str) -> None:
    await subscribe(dsn, "cluster.hold")

    await query(dsn, "update shardclock.identity set held_why = 'prices are wrong'")
    await query(dsn, "update shardclock.identity set held_why = null")
    await query(dsn, "update shardclock.identity set held_why = null")

    assert await send(dsn) == 2
    held, released = sorted(await bodies(dsn), key=lambda it: it["data"]["held"], reverse=True)
    assert held["text"] == "the database is on hold, and no timer fires: prices are wrong"
    assert released["text"] == "the hold has ended, and timers fire again: prices are wrong"


async def test_a_lost_holder_causes_a_takeover_event_and_a_stopped_holder_causes_no_event(dsn: str) -> None:
    await subscribe(dsn, "cluster.takeover")
    for holder in (1, 2, 3):
        await add_holder(dsn, holder)
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        await end_holders(session, [1], why="stopped")
        await end_holders(session, [2], why="drained")
        assert await events(dsn) == []
        await end_holders(session, [2, 3], why="dead")

    body = await only(dsn)
    assert (body["type"], body["data"]["role"]) == ("cluster.takeover", "shard")
    assert body["text"].startswith("the shard ")


async def test_a_schedule_that_a_shard_has_paused_is_an_event(dsn: str, shard: HolderClient) -> None:
    await subscribe(dsn, "schedule.paused")
    await schedule(shard, schedule="0 0 28 2 *", name="beat")
    await query(dsn, "update shardclock.timers set schedule = '0 0 30 2 *'")
    (timer,) = (await shard.take()).claimed
    with pytest.raises(InvalidTimer) as refused:
        planning_of(timer)

    assert await pause_faulty(shard.session, shard.holder, timer, why=str(refused.value))
    assert not await pause_faulty(shard.session, shard.holder, timer, why="again")

    body = await only(dsn)
    assert body["text"] == f"timer beat is paused, because no shard can fire it: {refused.value}"
    assert (body["data"]["subject"], body["data"]["schedule"]) == ("beat", "0 0 30 2 *")


async def test_an_endpoint_that_answers_410_is_an_event_for_the_other_endpoints(dsn: str) -> None:
    await subscribe(dsn, "endpoint.disabled")
    gone = await subscribe(dsn, "endpoint.disabled", name="gone")
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        assert await disable_gone_endpoint(
            session, EndpointName(*gone), url="https://example.com/ops", why="answered 410 Gone"
        )

    assert (await only(dsn))["text"] == "endpoint webhook:gone is disabled: answered 410 Gone"


async def test_a_lasting_state_is_recorded_at_most_once_in_five_minutes_and_only_with_a_subscription(dsn: str) -> None:
    lag = ObservedEvent("cluster.lag", "lag", "timers fire late: by a minute", {"reason": "by a minute"})
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        await note_events(session, [lag])
        assert await events(dsn) == []

        await subscribe(dsn, *OPERATOR_KINDS)
        await note_events(session, [lag])
        body = await only(dsn)
        assert (body["text"], body["data"]["others"]) == ("timers fire late: by a minute", 0)
        await note_events(session, [lag])
        assert await events(dsn) == []

        await query(dsn, "update shardclock.event_throttles set sent_at = sent_at - interval '5 minutes'")
        await note_events(session, [lag])
        assert await send(dsn) == 1

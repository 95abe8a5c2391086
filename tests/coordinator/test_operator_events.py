"""The leading coordinator converts events to deliveries once a second; a failure does not delay its other work."""

from __future__ import annotations

import pytest
import structlog
from structlog.testing import capture_logs

from shardclock_server.coordinator import operator_events
from shardclock_server.coordinator.operator_events import OperatorEvents
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import register_holder
from shardclock_server.sql.session import Session
from tests.support.deliveries import bury
from tests.support.factories import add_timers, query
from tests.support.fake_fleet import FakeFleet, incarnation, reconciler_of
from tests.support.operator_events import bodies, events, send, subscribe
from tests.support.waiting import eventually

LATE_JOB = """
    insert into shardclock.jobs (name, function, every_s, policy, declared_at, changed_at)
    values ('refresh', 'app:refresh', 60, '{"max_runtime_s": 60}', now() - interval '1 day', now() - interval '1 day')
"""


async def test_only_the_coordinator_that_leads_sends_events(dsn: str, session: Session, fleet: FakeFleet) -> None:
    first, second = reconciler_of(dsn, fleet, 1), reconciler_of(dsn, fleet, 2, "other")
    await first.turn()
    for number in (1, 2):  # events wait until the first shards have started
        await register_holder(session, incarnation(10 + number, actor_name=f"shard-{number}"))
    await subscribe(dsn, "delivery.dead", tenant_id="acme")
    await bury(dsn, 1)

    await second.turn()
    assert await bodies(dsn, tenant_id="acme") == []

    # the next turn of the events is due immediately
    first._events = OperatorEvents(first._session, CoordinatorSettings())
    await first.turn()
    assert len(await bodies(dsn, tenant_id="acme")) == 1


async def test_a_failure_is_logged_and_tried_again_later(
    dsn: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await query(dsn, "alter function shardclock.send_events rename to send_events_no_more")
    structlog.reset_defaults()

    with capture_logs() as logs:
        keeper = OperatorEvents(session, CoordinatorSettings())
        await keeper.turn()
        await keeper.turn()
    assert [it["event"] for it in logs] == ["events for operators wait"]

    await query(dsn, "alter function shardclock.send_events_no_more rename to send_events")
    monkeypatch.setattr(operator_events, "EVERY_S", 0.0)
    keeper._next_at_s = 0.0
    await keeper.turn()
    assert keeper._failures == 0


async def test_late_timers_and_late_jobs_are_observed_if_an_endpoint_subscribes_to_these_events(
    dsn: str, session: Session
) -> None:
    # Given a timer that is late, and a job that did not succeed for a day
    await add_timers(dsn, 1, "now() - interval '1 minute'", created_at="now() - interval '1 hour'")
    await query(dsn, LATE_JOB)
    keeper = OperatorEvents(session, CoordinatorSettings())
    await keeper.turn()
    assert keeper._observing is None

    # When an endpoint subscribes
    await subscribe(dsn, "cluster.lag", "job.late")
    keeper = OperatorEvents(session, CoordinatorSettings())
    await keeper.turn()
    try:
        await eventually(lambda: _has(dsn, {("cluster.lag", "lag"), ("job.late", "refresh")}))
    finally:
        await keeper.close()

    # Then the endpoint gets one event about the lag and one about the late job.
    assert await send(dsn) == 2
    texts = sorted(body["text"] for body in await bodies(dsn))
    assert texts[0].startswith("job refresh is late: a success is overdue by ")
    assert texts[1].startswith("timers fire late: the oldest overdue timer waits for ")


async def test_during_a_hold_the_lag_causes_no_event(dsn: str, session: Session) -> None:
    await add_timers(dsn, 1, "now() - interval '1 minute'", created_at="now() - interval '1 hour'")
    await query(dsn, LATE_JOB)
    await query(dsn, "update shardclock.identity set held_why = 'prices are wrong'")
    await subscribe(dsn, "cluster.lag", "job.late")
    keeper = OperatorEvents(session, CoordinatorSettings())
    await keeper.turn()
    try:
        await eventually(lambda: _has(dsn, {("job.late", "refresh")}))
    finally:
        await keeper.close()


async def _has(dsn: str, wanted: set[tuple[str, str]]) -> bool:
    found = set(await events(dsn))
    assert found <= wanted
    return found == wanted

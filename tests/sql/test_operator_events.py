"""The change that makes an event for operators true also writes the event. The coordinator sends events at a limited
rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from shardclock_server.sql.endpoints.endpoints import EndpointName, disable_endpoint, remove_endpoint
from shardclock_server.sql.notify.events import EVENTS_MAX, send_events
from shardclock_server.sql.session import Connection, Session
from tests.support.deliveries import HANDLER, WorkerClient, bury, dead, deliver, done, failed, serving_worker
from tests.support.factories import BOUND_S, HolderClient, query, value
from tests.support.operator_events import bodies, events, send, subscribe
from tests.support.roles import as_role

pytestmark = pytest.mark.each_version

DEAD, DISABLED = "delivery.dead", "endpoint.disabled"
BURY = """
    insert into shardclock.dead_letters (timer_key, due_date, created_at, fired_at, occurrence, claims,
        failed_attempts, slot, tenant_id, timer_type, target, reason)
    values ($1, now(), now(), now(), 1, 10, 10, 0, 'default', 'USER', $2, 'it raised')
"""

TURN_S = 5.0  # a coordinator's timeout
ADD_SUBJECTS = """
    insert into shardclock.operator_events (tenant_id, kind, subject, sentence)
    select 'default', 'delivery.dead', 'target ' || n, 'it was given up' from generate_series(1, $1::integer) n
"""


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    async with serving_worker(dsn) as hand:
        yield hand


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        yield session


async def test_a_dead_letter_is_sent_to_the_subscribed_endpoint_with_a_text_and_fields(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await subscribe(dsn, DEAD)
    (key,) = await deliver(shard, name="'order-42'")
    await worker.settle(*map(dead, await worker.take()))

    assert await send(dsn) == 1

    (body,) = await bodies(dsn)
    assert body["type"] == DEAD
    assert body["text"] == f"the delivery of timer {key} (order-42) to {HANDLER} was given up: it raised too often"
    assert datetime.fromisoformat(body["timestamp"]).tzinfo == UTC
    assert body["data"] == {
        "timer_key": key, "name": "order-42", "target": HANDLER, "reason": "it raised too often",
        "tenant_id": "default", "subject": HANDLER, "others": 0,
    }  # fmt: skip
    assert await send(dsn) == 0


async def test_a_disabled_endpoint_is_an_event_for_all_endpoints_but_itself(dsn: str, operator: Session) -> None:
    await subscribe(dsn, DISABLED, name="ops")
    own = await subscribe(dsn, DISABLED, name="chat")

    assert await disable_endpoint(operator, own, why="it moves")
    assert not await disable_endpoint(operator, own, why="again")

    assert await send(dsn) == 1
    (body,) = await bodies(dsn, name="ops")
    assert body["text"] == "endpoint webhook:chat is disabled: it moves"
    assert await bodies(dsn, name="chat") == []


async def test_an_event_is_sent_after_its_commit_and_never_if_the_change_is_rolled_back(dsn: str) -> None:
    await subscribe(dsn, DEAD)
    connection = await asyncpg.connect(dsn)
    try:
        for key, end in ((1, "rollback"), (2, "commit")):
            await connection.execute("begin")
            await connection.execute(BURY, key, HANDLER)
            assert await send(dsn) == 0
            await connection.execute(end)
            assert await send(dsn) == (end == "commit")
    finally:
        await connection.close()


async def test_two_simultaneous_dead_letters_are_one_event_with_a_count_of_one_more(dsn: str) -> None:
    # Given two open transactions, each with a dead letter of the same target
    await subscribe(dsn, DEAD)
    one, two = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        first, second = one.transaction(), two.transaction()
        await first.start()
        await second.start()
        await one.execute(BURY, 1, HANDLER)
        await two.execute(BURY, 2, HANDLER)  # no transaction waits for the other transaction

        # When both commit before the events are sent
        await second.commit()
        await first.commit()
    finally:
        await one.close()
        await two.close()

    # Then one webhook reports both events.
    assert await send(dsn) == 1
    (body,) = await bodies(dsn)
    assert body["data"]["others"] == 1
    assert body["text"].endswith(" (and 1 more)")


async def test_two_calls_at_once_send_each_event_once(dsn: str) -> None:
    await subscribe(dsn, DEAD)
    await query(dsn, BURY, 1, HANDLER)
    other = await asyncpg.connect(dsn)
    try:
        async with other.transaction():
            assert await other.fetchval("select shardclock.send_events(interval '5 minutes', 100)") == 1
            assert await send(dsn) == 0
    finally:
        await other.close()

    assert await send(dsn) == 0
    assert len(await bodies(dsn)) == 1


async def test_events_wait_for_no_transaction_that_removes_a_subscription(dsn: str) -> None:
    """The transaction waits for the throttles of the events, so the events must not wait for the transaction."""
    await subscribe(dsn, DEAD)
    await query(dsn, BURY, 1, HANDLER)
    other = await asyncpg.connect(dsn)
    try:
        removal = other.transaction()
        await removal.start()
        await other.execute("delete from shardclock.event_subscriptions")
        assert await asyncio.wait_for(send(dsn), BOUND_S) == 0
        await removal.rollback()
    finally:
        await other.close()

    assert await send(dsn) == 1, "no event is lost"


async def test_further_events_of_a_subject_wait_five_minutes_and_are_counted(dsn: str) -> None:
    await subscribe(dsn, DEAD)
    began = datetime.now(UTC)
    await query(dsn, BURY, 1, HANDLER)
    assert await send(dsn, now=began) == 1

    # When three more dead letters of this target come, and another target has its first dead letter
    for key in (2, 3, 4):
        await query(dsn, BURY, key, HANDLER)
        await send(dsn, now=began + timedelta(minutes=key))
    await query(dsn, BURY, 5, "cart.left")
    assert await send(dsn, now=began + timedelta(minutes=4, seconds=59)) == 1

    # Then the coordinator sends the three events together when five minutes have passed, without a fourth event,
    assert await send(dsn, now=began + timedelta(minutes=5)) == 1
    assert [body["data"]["others"] for body in await bodies(dsn)] == [0, 0, 2]
    assert [body["data"]["subject"] for body in await bodies(dsn)] == [HANDLER, "cart.left", HANDLER]

    # and after five minutes without events no row is left.
    assert await send(dsn, now=began + timedelta(minutes=10)) == 0
    assert await value(dsn, "select count(*) from shardclock.event_throttles") == 0


async def test_a_clock_that_is_set_back_stops_no_event(dsn: str) -> None:
    await subscribe(dsn, DEAD)
    began = datetime.now(UTC)
    await query(dsn, BURY, 1, HANDLER)
    assert await send(dsn, now=began + timedelta(days=1)) == 1

    await query(dsn, BURY, 2, HANDLER)

    assert await send(dsn, now=began) == 1
    await query(dsn, BURY, 3, HANDLER)
    assert await send(dsn, now=began + timedelta(minutes=4)) == 0, "five minutes apart as before"


async def test_the_largest_number_of_events_for_one_call_is_sent_within_the_time_limit(dsn: str) -> None:
    await subscribe(dsn, DEAD)
    await query(dsn, ADD_SUBJECTS, EVENTS_MAX)

    async with Session(as_role(dsn, "shard"), application="test", timeout_s=TURN_S) as session:
        assert await send_events(session) == EVENTS_MAX


async def test_a_hundred_dead_letters_are_one_webhook(dsn: str) -> None:
    await subscribe(dsn, DEAD, tenant_id="acme")
    await bury(dsn, 100)

    assert await send(dsn) == 1
    (body,) = await bodies(dsn, tenant_id="acme")
    assert body["data"]["others"] == 99
    assert body["text"].endswith(" (and 99 more) [tenant acme]")


async def test_events_of_a_tenant_are_sent_only_to_its_own_endpoints(dsn: str) -> None:
    await subscribe(dsn, DEAD, tenant_id="default")
    await subscribe(dsn, DEAD, tenant_id="acme")
    await subscribe(dsn, DEAD, tenant_id="other")

    await bury(dsn, 1)

    assert await send(dsn) == 1
    assert len(await bodies(dsn, tenant_id="acme")) == 1
    assert await bodies(dsn, tenant_id="default") == await bodies(dsn, tenant_id="other") == []


async def test_an_event_that_is_given_up_is_a_dead_letter_and_no_event(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await subscribe(dsn, DEAD)
    await query(dsn, BURY, 1, HANDLER)
    await send(dsn)

    # When the endpoint never accepts the event
    (claimed,) = (await worker.scan(webhooks=5)).claimed
    await worker.settle(dead(claimed))

    # Then the event's delivery becomes an ordinary dead letter, and causes no further event.
    assert await value(dsn, "select target from shardclock.dead_letters where timer_key <> 1") == "webhook:notify/ops"
    assert await events(dsn) == []
    assert await send(dsn) == 0


async def test_a_dead_event_is_redriven_to_its_endpoint_and_discarded_with_it(
    dsn: str, worker: WorkerClient, operator: Session
) -> None:
    await subscribe(dsn, DEAD)
    await query(dsn, BURY, 1, HANDLER)
    await send(dsn)
    (claimed,) = (await worker.scan(webhooks=5)).claimed
    await worker.settle(dead(claimed))

    await query(as_role(dsn, "shard"), "select shardclock.redrive_dead_letters(array[$1::bigint])", claimed.timer_key)

    (again,) = (await worker.scan(webhooks=5)).claimed
    assert (again.timer_key, again.payload) == (claimed.timer_key, claimed.payload)
    await worker.settle(dead(again))
    assert await disable_endpoint(operator, EndpointName("default", "ops"), why="it moves")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="was disabled"):
        await query(as_role(dsn, "shard"), "select shardclock.redrive_dead_letters(array[$1::bigint])", again.timer_key)


async def test_without_a_subscription_a_firing_a_claim_and_a_settlement_touch_no_table_of_events(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    async with shard.session.transaction() as connection:
        await deliver(shard, 50)
        assert await touched(connection) == 0
    async with worker.claims.transaction() as connection:
        first, second, *rest = await worker.take()
        assert await touched(connection) == 0
    async with worker.settles.transaction() as connection:
        await worker.settle(failed(second), *map(done, rest))
        assert await touched(connection) == 0

    # Only a dead letter causes a search for a subscription, and only one search.
    async with worker.settles.transaction() as connection:
        await worker.settle(dead(first))
        assert await touched(connection) == 1


async def touched(connection: Connection) -> int:
    """Count the scans and the writes of the tables of events in this transaction."""
    text = """
        select sum(s.seq_scan + coalesce(s.idx_scan, 0) + s.n_tup_ins + s.n_tup_upd + s.n_tup_del)::integer
        from pg_stat_xact_user_tables s
        where s.relname in ('event_subscriptions', 'event_throttles', 'operator_events')
    """
    found: int = await connection.fetchval(text)
    return found


async def test_a_subscription_ends_with_its_endpoint(dsn: str, operator: Session) -> None:
    key = await subscribe(dsn, DEAD)
    await query(dsn, BURY, 1, HANDLER)
    await send(dsn)

    await remove_endpoint(operator, key)
    await query(dsn, BURY, 2, HANDLER)

    assert await events(dsn) == []
    assert await value(dsn, "select count(*) from shardclock.event_subscriptions") == 0


async def test_the_text_of_an_event_mentions_no_user_and_is_the_only_field_if_the_subscription_requests_it(
    dsn: str,
) -> None:
    await subscribe(dsn, DEAD, text_only=True)
    await query(dsn, BURY.replace("it raised", "<!channel> @here\n\t<https://evil.example|click>"), 7, HANDLER)

    await send(dsn)

    assert await bodies(dsn) == [
        {"text": f"the delivery of timer 7 to {HANDLER} was given up: ‹!channel› ＠here ‹https://evil.example|click›"}
    ]


@pytest.mark.parametrize("kinds", ["{}", "{job.lost}", "{{delivery.dead}}"])
async def test_unknown_kinds_of_events_are_refused(dsn: str, kinds: str) -> None:
    await subscribe(dsn, DEAD)
    with pytest.raises(asyncpg.CheckViolationError):
        await query(dsn, f"update shardclock.event_subscriptions set kinds = '{kinds}'")


async def test_events_of_jobs_and_of_the_cluster_belong_to_the_operators_tenant(dsn: str) -> None:
    with pytest.raises(Exception, match="kinds_are_of_the_tenant"):
        await subscribe(dsn, "cluster.lag", tenant_id="acme")

"""Prove that waiting deliveries are measured for each target, and that measuring many targets costs almost nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime

import pytest

from shardclock_server.sql.cluster.holders import WORKER, end_holders
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.metrics.deliveries import COUNTED_MAX, count_dead_letters, measure_deliveries
from shardclock_server.sql.metrics.measures import measure_cluster
from shardclock_server.sql.session import QUEUE_PLANS, Session
from tests.support.deliveries import HANDLER, WorkerClient, add_deliveries, add_worker, bury, declare, failed
from tests.support.factories import query, sql, value
from tests.support.plans import prepare
from tests.support.postgres import Server
from tests.support.roles import as_role

pytestmark = pytest.mark.each_version

CART = "cart.left"

MANY_ENDPOINTS = """
    insert into shardclock.deliveries
        (timer_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type, target)
    select 1000000 + i, now() - interval '1 s', now(), now(), 1, i % 840, 'tenant ' || i / 700, 'USER',
        'webhook:e' || i % 700
    from generate_series(0, 14 * 700 - 1) i
"""
MANY_LETTERS = """
    insert into shardclock.dead_letters (timer_key, due_date, created_at, fired_at, occurrence, claims,
        failed_attempts, slot, tenant_id, timer_type, target, reason)
    select 1000000 + i, now(), now(), now(), 1, 10, 10, i % 840, 'acme', 'USER', 'webhook:e' || i, 'answered 500'
    from generate_series(1, 700) i
"""


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    """Yield a session like the exporter's, on each version."""
    async with Session(as_role(dsn, "reader"), application="test", plans=QUEUE_PLANS) as opened:
        yield opened


async def waiting(
    session: Session, named: int = 50, *, most: int = COUNTED_MAX, now: datetime | None = None
) -> Mapping[str, int]:
    found = await measure_deliveries(session, named, most=most, now=now)
    return {it.target_name: it.deliveries for it in found}


async def oldest_s(session: Session, target: str = HANDLER) -> float:
    """Read the time since the oldest waiting delivery became due."""
    return {it.target_name: it.oldest_s for it in await measure_deliveries(session, 50)}[target]


# Waiting deliveries


async def test_a_handler_without_waiting_deliveries_also_has_a_row(session: Session, dsn: str) -> None:
    await declare(dsn, HANDLER, CART)

    assert await waiting(session) == {HANDLER: 0, CART: 0, "other": 0}
    assert await oldest_s(session) == 0.0
    assert await count_dead_letters(session, 50) == {HANDLER: 0, CART: 0, "other": 0}


async def test_a_waiting_delivery_is_due_and_not_claimed(session: Session, dsn: str) -> None:
    await declare(dsn, HANDLER)
    await add_deliveries(dsn, 7)
    await add_deliveries(dsn, 5, next_attempt_at="now() + interval '1 hour'")
    await add_worker(dsn, 11)
    async with WorkerClient(dsn, 11) as worker:
        taken = await worker.take(batch=3)
        in_hand = await waiting(session)
        await worker.settle(failed(taken[0]))
        after_a_failure = await waiting(session)

    assert (in_hand[HANDLER], after_a_failure[HANDLER]) == (4, 4), "the failed one is due in a minute"
    in_20_s = await value(dsn, "select now() + interval '20 s'")
    assert (await waiting(session, now=in_20_s))[HANDLER] == 6, "two leases have run out"


async def test_the_oldest_waiting_delivery_is_found_in_any_tenant_among_claimed_deliveries(
    session: Session, dsn: str
) -> None:
    await declare(dsn, HANDLER)
    await add_deliveries(dsn, 300, tenant_id="'tenant ' || i")
    assert 1 <= await oldest_s(session) < 60

    await add_deliveries(dsn, 1, tenant_id="'zoo'", next_attempt_at="now() - interval '1 hour'")
    in_hand = {"claimed_by": "11", "claimed_until": "now() + interval '1 hour'"}
    await add_deliveries(dsn, 1, tenant_id="'acme'", next_attempt_at="now() - interval '2 hours'", **in_hand)

    assert 3_600 <= await oldest_s(session) < 3_660
    assert (await waiting(session))[HANDLER] == 301


async def test_a_count_stops_at_the_limit(session: Session, dsn: str) -> None:
    await declare(dsn, HANDLER, CART)
    await add_deliveries(dsn, 30, tenant_id="'tenant ' || i % 7")
    await add_deliveries(dsn, 3, CART)
    await bury(dsn, 30)

    assert await waiting(session, most=20) == {HANDLER: 20, CART: 3, "other": 0}
    assert (await count_dead_letters(session, 50, most=20))[HANDLER] == 20


# Names


async def test_targets_beyond_the_limit_share_one_row(session: Session, dsn: str) -> None:
    targets = ["a.first", "b.second", "c.third"]
    await declare(dsn, *targets)
    for count, target in enumerate([*targets, "webhook:shop"], start=1):
        await add_deliveries(dsn, count, target)
        await bury(dsn, count, target)

    expected = {"a.first": 1, "b.second": 2, "other": 3 + 4}
    assert await waiting(session, 2) == expected
    assert await count_dead_letters(session, 2) == expected
    assert (await waiting(session, 2, most=5))["other"] == 5, "a limit for all of them together"


async def test_handlers_are_measured_whatever_the_number_of_endpoints_with_earlier_names(
    session: Session, dsn: str
) -> None:
    # Given more endpoints and tenants than the limits allow, and handlers with names before and after the endpoints'
    # names
    await declare(dsn, "a.first", "zebra")
    for target in ("a.first", "zebra"):
        await add_deliveries(dsn, 7, target, next_attempt_at="now() - interval '1 hour'")
        await bury(dsn, 7, target)
    await query(dsn, MANY_ENDPOINTS)
    await query(dsn, MANY_LETTERS)

    found = {it.target_name: it for it in await measure_deliveries(session, 50)}
    letters = await count_dead_letters(session, 50)

    # Then all numbers except the numbers of the endpoints are correct; the endpoints' numbers are too low
    assert {name: it.deliveries for name, it in found.items()} == {"a.first": 7, "zebra": 7, "other": 5_000}
    assert found["zebra"].oldest_s > 3_500
    assert found["other"].oldest_s < 60
    assert {name: letters[name] for name in ("a.first", "zebra")} == {"a.first": 7, "zebra": 7}
    assert 0 < letters["other"] <= 700


async def test_handlers_beyond_the_limit_and_endpoints_share_one_row(session: Session, dsn: str) -> None:
    await declare(dsn, "a.first", "b.second")
    await add_deliveries(dsn, 3, "b.second", next_attempt_at="now() - interval '1 hour'")
    await add_deliveries(dsn, 4, "webhook:shop")

    (first, other) = await measure_deliveries(session, 1, most=5)

    assert (first.target_name, first.deliveries) == ("a.first", 0)
    assert (other.target_name, other.deliveries) == ("other", 5)
    assert other.oldest_s > 3_500


async def test_a_withdrawn_handler_keeps_its_own_row_after_the_present_handlers(session: Session, dsn: str) -> None:
    await declare(dsn, "a.gone", "b.here")
    await declare(dsn, "b.here")
    await add_deliveries(dsn, 2, "a.gone")

    assert await waiting(session) == {"a.gone": 2, "b.here": 0, "other": 0}
    assert await waiting(session, 1) == {"b.here": 0, "other": 2}


async def test_a_handler_with_the_name_other_is_counted_in_the_group_other(session: Session, dsn: str) -> None:
    await declare(dsn, "other")
    await add_deliveries(dsn, 2, "other")
    await add_deliveries(dsn, 3, "webhook:shop")
    await bury(dsn, 4, "other")

    assert [(it.target_name, it.deliveries) for it in await measure_deliveries(session, 50)] == [("other", 5)]
    assert await count_dead_letters(session, 50) == {"other": 4}


# Workers


async def test_workers_are_wanted_once_an_app_has_declared_handlers(session: Session, dsn: str) -> None:
    async def workers() -> tuple[int, int]:
        measured = await measure_cluster(session)
        return measured.workers_wanted, measured.workers_alive

    assert await workers() == (0, 0)
    await declare(dsn, HANDLER)
    async with Session(as_role(dsn, "shard"), application="test") as operator:
        await scale(operator, WORKER, 3)
        assert await workers() == (3, 0)
        await add_worker(dsn, 11, 0, 2)
        await add_worker(dsn, 12, 1, 2)
        await add_worker(dsn, 13, None, None)
        assert await workers() == (3, 2), "one has no slots yet"
        await query(dsn, "update shardclock.beats set seen_at = now() - interval '6 s' where holder = 11")
        await end_holders(operator, [12], why="test")

    assert await workers() == (3, 0)
    assert (await measure_cluster(session)).shards_alive == 0, "a worker is not a shard"
    await declare(dsn)
    assert await workers() == (0, 0)


# The cost of a measurement

STUCK = 300_000


@pytest.fixture(scope="module")
def stuck_dsn(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database with 300,000 deliveries and 30,000 dead letters of one dead target."""
    with postgres(18).database(_stick) as dsn:
        yield dsn


async def _stick(dsn: str) -> None:
    for table in ("deliveries", "dead_letters"):
        await query(dsn, f"alter table shardclock.{table} set (autovacuum_enabled = off)")
    await declare(dsn, "a.dead", HANDLER)
    for _ in range(4):
        await add_deliveries(
            dsn, STUCK // 4, "a.dead", next_attempt_at="now() - interval '1 day' + i * interval '1 ms'"
        )
    await add_deliveries(dsn, 200, HANDLER)
    await bury(dsn, STUCK // 10, "a.dead")


@pytest.fixture(params=["never_analyzed", "analyzed"])
def stuck(request: pytest.FixtureRequest, stuck_dsn: str) -> str:
    """Return the DSN of this database, before and after the planner knows the tables' sizes."""
    if request.param == "analyzed":
        sql(stuck_dsn, "analyze shardclock.deliveries, shardclock.dead_letters")
    return stuck_dsn


@pytest.mark.exhaustive
@pytest.mark.parametrize("plans", [{}, {"enable_seqscan": "on", "enable_bitmapscan": "on", "plan_cache_mode": "auto"}])
async def test_many_deliveries_of_one_target_are_not_read(stuck: str, plans: dict[str, str]) -> None:
    measure = await prepare(stuck, "measure_deliveries", **plans)

    reading = await measure.explain("false", "50", str(COUNTED_MAX), "null", touched=True, table="deliveries")

    # For each target the statement reads the counted rows, the oldest row, and one or two probes.
    assert COUNTED_MAX + 200 <= reading.rows <= COUNTED_MAX + 200 + 10
    assert reading.indexes == {"deliveries_by_lane"}
    assert reading.scans <= {"Index Scan", "Index Only Scan"}
    assert reading.pages <= reading.rows
    # The search for endpoints finds the two targets.
    of_webhooks = await measure.explain("true", "50", str(COUNTED_MAX), "null", touched=True, table="deliveries")
    assert of_webhooks.rows <= 2
    await measure.connection.close()


@pytest.mark.slow
async def test_deliveries_of_other_targets_are_counted_although_many_deliveries_are_stuck(stuck: str) -> None:
    async with Session(as_role(stuck, "reader"), application="test", plans=QUEUE_PLANS) as session:
        assert await waiting(session) == {"a.dead": COUNTED_MAX, HANDLER: 200, "other": 0}
        assert await oldest_s(session, "a.dead") > 80_000


@pytest.mark.slow
async def test_dead_letters_are_counted_up_to_the_limit(stuck: str) -> None:
    count = await prepare(stuck, "count_dead_letters")

    reading = await count.explain("50", str(COUNTED_MAX), touched=True, table="dead_letters")

    assert COUNTED_MAX <= reading.rows <= COUNTED_MAX + 5
    assert reading.indexes == {"dead_letters_by_target"}
    await count.connection.close()


@pytest.mark.slow
async def test_plans_from_an_empty_table_remain_good_when_the_table_is_full(dsn: str) -> None:
    await query(dsn, "alter table shardclock.deliveries set (autovacuum_enabled = off)")
    await declare(dsn, HANDLER)
    measure = await prepare(dsn, "measure_deliveries")
    for _ in range(7):
        await measure.explain("false", "50", "100", "null", touched=True, table="deliveries")
    await add_deliveries(dsn, 20_000)

    reading = await measure.explain("false", "50", "100", "null", touched=True, table="deliveries")

    assert reading.rows <= 100 + 5
    await measure.connection.close()


@pytest.mark.slow
async def test_a_limited_number_of_tenants_is_read(dsn: str, session: Session) -> None:
    await query(dsn, "alter table shardclock.deliveries set (autovacuum_enabled = off)")
    await declare(dsn, HANDLER, CART)
    await add_deliveries(dsn, 6_000, tenant_id="'tenant ' || i")
    await add_deliveries(dsn, 3, CART, tenant_id="'tenant ' || i")

    assert await waiting(session) == {HANDLER: 5_000 - 3, CART: 3, "other": 0}

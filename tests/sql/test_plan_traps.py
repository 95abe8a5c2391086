"""Prove that Postgres chooses good plans in two difficult cases: after an outage, and on a table that was empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import asyncpg
import pytest

from shardclock_server.sql.session import QUEUE_PLANS
from tests.support.factories import HolderClient, add_holder, add_timers, query, value
from tests.support.plans import LEASE, SLOTS, VERBS, firing, prepare, taking, version_of
from tests.support.postgres import Server

# Timers left by an outage

TENANTS = 300


@pytest.fixture(scope="module", params=["never_analyzed", "analyzed"])
def outage(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database in which one tenant has 50,000 overdue timers, and each of many other tenants has
    ten.
    """
    with postgres(18).database(partial(break_down, analyze=request.param == "analyzed")) as dsn:
        yield dsn


async def break_down(dsn: str, *, analyze: bool) -> None:
    """Make equally many timers that have been overdue for an hour, that are due now, and that are due later."""
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_timers(dsn, 50_000, "now() - interval '1 hour'", tenant_id="'big'")
    await add_timers(dsn, 10 * TENANTS, "now() - interval '1 hour'", tenant_id=f"'t' || i % {TENANTS}")
    await add_timers(dsn, 840, tenant_id="'now'")
    await add_timers(dsn, 20_000, "now() + interval '1 day'", tenant_id=f"'t' || i % {TENANTS}")
    await add_holder(dsn, 1)
    if analyze:
        await query(dsn, "analyze shardclock.timers")


@pytest.mark.exhaustive
@pytest.mark.parametrize("fire_overdue", [False, True], ids=["leasing", "fusing"])
async def test_a_fair_scan_over_a_backlog_reads_its_timers_and_one_row_for_each_tenant(
    outage: str, *, fire_overdue: bool
) -> None:
    take = await prepare(outage, "claim_outage")

    reading = await take.explain(
        *taking(1, horizon="-10 s", floor="10 s", scope="outage", batch=2_010, fire_overdue=fire_overdue)
    )

    # The batch is ten timers of each of 200 tenants, and ten of the tenant with the oldest timers.
    assert reading.rows <= 200 + 3 * 2_010 + SLOTS
    assert reading.indexes == {"timers_by_slot", "timers_by_tenant", "timers_pkey"}
    assert reading.scans == {"Index Scan", "Index Only Scan"}
    await take.connection.close()


@pytest.mark.exhaustive
async def test_a_scan_with_a_lower_bound_reads_no_timer_of_an_outage(outage: str) -> None:
    take = await prepare(outage, "claim_due")

    for scope in ("own", "sweep"):
        reading = await take.explain(*taking(1, floor="10 s", scope=scope, fire_overdue=True))

        assert reading.rows <= 3 * 840
        assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    await take.connection.close()


async def test_fair_scans_give_every_tenant_the_same_share_in_turn(outage: str) -> None:
    taken_of: Counter[str] = Counter()
    after, scans = "", 0
    async with HolderClient(outage, holder=1) as shard:
        # The test's clock stays at the end of the outage. With a real clock, timers of `now` become due in a slow run.
        ended = "select max(due_date) + interval '1 second' from shardclock.timers where tenant_id = 'now'"
        shard.now = await shard.value(ended)
        await shard.begin()
        while scans == 0 or after:
            taken = await shard.take(scope="outage", horizon_s=-10, floor_s=10.0, batch=804, after_tenant=after)
            text = "select tenant_id from shardclock.timers where timer_key = any ($1)"
            keys = [timer.timer_key for timer in taken.claimed]
            taken_of.update(row["tenant_id"] for row in await shard.connection.fetch(text, keys))
            assert taken.left_by_outage == len(taken.claimed) <= 804
            assert taken.saturated
            after, scans = taken.next_tenant, scans + 1
        await shard.rollback()

    assert scans == 2
    small = [taken_of[f"t{number}"] for number in range(TENANTS)]
    assert min(small) >= 4, "a scan gives four to each of two hundred tenants"
    assert taken_of["now"] == 0
    assert taken_of.total() <= 2 * 804


# Traps


@pytest.mark.exhaustive
@pytest.mark.parametrize("emptied", [False, True], ids=["new", "emptied"])
async def test_a_plan_from_an_empty_table_remains_good_when_the_table_is_full(each_dsn: str, *, emptied: bool) -> None:
    """The planner expects ten pages for a new table, and none for a table after the firing of all its timers."""
    await query(each_dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_holder(each_dsn, 1)
    if emptied:
        await add_timers(each_dsn, 20_000, tenant_id="'t' || i % 7")
        await query(each_dsn, "delete from shardclock.timers")
        await query(each_dsn, "vacuum (analyze) shardclock.timers")
    take, fire = await prepare(each_dsn, "claim_due"), await prepare(each_dsn, "fire_due")
    take_left, take_newest = await prepare(each_dsn, "claim_outage"), await prepare(each_dsn, "claim_newest")
    await take.explain(*taking(1, fire_overdue=True))
    await take_newest.explain(*taking(1, scope="newest", fire_overdue=True))
    await take_left.explain(*taking(1, horizon="-10 s", floor="10 s", scope="outage", fire_overdue=True))
    await fire.explain(*firing([]))
    await add_timers(each_dsn, 20_000, "now() + interval '1 day'", tenant_id="'t' || i % 7")
    await add_timers(each_dsn, 1000)
    await add_timers(each_dsn, 1000, "now() - interval '1 hour'", tenant_id="'t' || i % 7")

    for fire_overdue in (False, True):
        own = await take.explain(*taking(1, fire_overdue=fire_overdue, floor="1 min"))
        assert 1000 <= own.rows <= 3 * 1000
        assert own.indexes == {"timers_by_slot", "timers_pkey"}
        newest = await take_newest.explain(*taking(1, scope="newest", fire_overdue=fire_overdue, floor="1 min"))
        assert 1000 <= newest.rows <= 3 * 1000
        assert newest.indexes == {"timers_by_slot", "timers_pkey"}
        tenants = await take_left.explain(
            *taking(1, horizon="-10 s", floor="10 s", scope="outage", fire_overdue=fire_overdue)
        )
        assert 1000 <= tenants.rows <= 4 * 1000, "some are found twice: by their slot, and by their tenant"
        assert tenants.indexes == {"timers_by_slot", "timers_by_tenant", "timers_pkey"}

    keys = await value(each_dsn, LEASE)
    reading = await fire.explain(*firing(keys, await version_of(fire.connection, keys)), touched=True)
    assert 2000 <= reading.rows <= 2010
    assert reading.indexes == {"timers_pkey"}
    for prepared in (take, take_left, take_newest, fire):
        await prepared.connection.close()


async def test_a_client_with_plans_from_an_empty_table_reads_no_more_when_it_is_full(each_dsn: str) -> None:
    """The table has one timer, which the verbs find. Without a timer the planner would choose the index in any case."""
    touched = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'timers'"
    columns = {"tenant_id": "'t' || i % 7", "name": "'n' || i", "process_instance_key": "i"}
    await query(each_dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_timers(each_dsn, 20_000, **columns)
    await query(each_dsn, "delete from shardclock.timers")
    await query(each_dsn, "vacuum shardclock.timers")
    (key,) = await add_timers(each_dsn, 1, "now() + interval '1 day'", name="'n'", process_instance_key="7")
    await query(each_dsn, "vacuum (analyze) shardclock.timers")
    connection = await asyncpg.connect(each_dsn)
    for _ in range(6):  # from the sixth call on, Postgres keeps the plan
        transaction = connection.transaction()
        await transaction.start()
        for ask in VERBS:
            await connection.execute(ask.replace("$1", str(key)))
        await transaction.rollback()
    await add_timers(each_dsn, 20_000, "now() + interval '1 day'", **columns)

    async with connection.transaction():
        for ask in VERBS:
            await connection.execute(ask.replace("$1", str(key)))
        assert await connection.fetchval(touched) < 1_000, "a scan would read twenty thousand"

    await connection.close()


PLANNERS = [
    {},
    {"enable_hashjoin": "off", "enable_mergejoin": "off"},
    {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off", "enable_sort": "off"},
    {"enable_nestloop": "off"},
    {"enable_indexscan": "off", "enable_seqscan": "on"},
    {"enable_indexscan": "off", "enable_seqscan": "off", "enable_bitmapscan": "on"},
]


@pytest.mark.slow
async def test_a_claim_never_takes_more_than_its_limit_with_any_plan(dsn: str) -> None:
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_holder(dsn, 1)
    for planner, fire_overdue in product(PLANNERS, (False, True)):
        await query(dsn, "truncate shardclock.timers")
        await add_timers(dsn, 3 * SLOTS)

        async with HolderClient(dsn, holder=1, plans=QUEUE_PLANS | planner) as shard:
            for left in (2 * SLOTS, SLOTS, 0, 0):
                taken = await shard.take(batch=SLOTS, fire_overdue=fire_overdue)
                untouched = await shard.value("select count(*) from shardclock.timers where claimed_by is null")

                assert untouched == left, planner
                assert taken.fired + len(taken.claimed) in (0, SLOTS)
                assert taken.saturated == (taken.fired + len(taken.claimed) > 0)


@pytest.mark.parametrize(
    ("name", "scope", "times"), [("claim_due", "own", 4), ("claim_newest", "newest", 3), ("claim_outage", "outage", 6)]
)
async def test_the_check_whether_a_row_is_free_costs_no_call_for_each_row(
    each_dsn: str, name: str, scope: str, times: int
) -> None:
    claim = await prepare(each_dsn, name)
    arguments = ", ".join(taking(1, scope=scope, fire_overdue=True))

    rows = await claim.connection.fetch(f"explain (verbose) execute {name} ({arguments})")

    plan = "\n".join(row[0] for row in rows)
    await claim.connection.close()
    assert plan.count("claimed_by <> ALL") == times
    assert "is_free" not in plan

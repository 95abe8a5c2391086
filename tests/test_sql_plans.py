"""Prove that a shard's statements read no more rows than they take, however many are pending."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Any

import asyncpg
import pytest

from sql.session import QUEUE_PLANS
from sql.statements import statement
from tests.postgres import Server
from tests.store import Hand, add_holder, add_timers, query

SLOTS = 840
FAR = 1_000_000
DUE = 4_200  # five in each slot
BATCH = 4_200
UNLIMITED = 8_400  # ten for each slot: more than there are


@dataclass(frozen=True)
class Reading:
    """What a statement read of `timers`, as EXPLAIN counted it."""

    rows: float
    indexes: set[str]
    scans: set[str]
    pages: int


@dataclass(frozen=True)
class Prepared:
    """One statement, prepared as a shard's session does, on a connection of its own."""

    connection: asyncpg.Connection
    name: str

    async def explain(self, *literals: str, touched: bool = False) -> Reading:
        """Run it, on due rows written anew unless they may be touched; count what it read, and undo what it did."""
        arguments = f"({', '.join(literals)})" if literals else ""
        call = f"explain (analyze, buffers, timing off, format json) execute {self.name} {arguments}"
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            if not touched:
                await self.connection.execute(REWRITE)
            plan = json.loads(await self.connection.fetchval(call))[0]["Plan"]
        finally:
            await transaction.rollback()
        nodes = [node for node in nodes_of(plan) if node.get("Relation Name") == "timers" and is_scan(node)]
        return Reading(
            rows=sum(rows_read(node) for node in nodes),
            indexes={node["Index Name"] for node in nodes if "Index Name" in node},
            scans={node["Node Type"] for node in nodes},
            pages=plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        )


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Walk a plan."""
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes_of(part)


def is_scan(node: dict[str, Any]) -> bool:
    """Tell what reads a table from what changes it, and from what was never begun."""
    return bool(node["Node Type"].endswith("Scan") and node["Actual Loops"])


def rows_read(node: dict[str, Any]) -> float:
    """Count what a scan gave and what it threw away."""
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


async def prepare(dsn: str, name: str, **plans: str) -> Prepared:
    """Open a session as a shard does, and prepare a statement."""
    connection = await asyncpg.connect(dsn, server_settings=QUEUE_PLANS | plans)
    await connection.execute(f"prepare {name} as {statement(name)}")
    return Prepared(connection, name)


def taking(
    holder: int,
    *,
    horizon: str = "2 s",
    batch: int = UNLIMITED,
    scope: str = "own",
    fuse: bool = False,
    floor: str | None = None,
    lately: tuple[str, int, int] | None = None,
) -> list[str]:
    """Write the arguments of take_due."""
    below = "null" if floor is None else f"'{floor}'"
    return [
        str(holder), f"'{horizon}'", "'10 s'", str(batch), f"'{scope}'", below, str(fuse), "'10 s'", "''", EDGES,
        "null", *lookback(lately),
    ]  # fmt: skip


def counting(edges: Sequence[timedelta], now: str = "null", *, lately: tuple[str, int, int] | None = None) -> list[str]:
    """Write the arguments of count_due."""
    spelled = ", ".join(f"interval '{edge.total_seconds()} s'" for edge in edges)
    return [f"array[{spelled}]", now, *lookback(lately)]


def lookback(lately: tuple[str, int, int] | None = None) -> list[str]:
    """Write the arguments that say how far back to look; those of measure_cluster are no others."""
    return [str(it) for it in lately or ("null", "null", "null")]


EDGES = "'{0.001 s, 0.1 s, 10 s}'::interval[]"

# A thousand timers that are due, leased to holder 9.
LEASE = """
with held as (
    update shardclock.timers set claimed_by = 9, claimed_until = now() + interval '10 s'
    where timer_key in (select timer_key from shardclock.timers where due_date < now() limit 1000)
    returning timer_key
)
select array_agg(timer_key) from held
"""


# Versions of the due timers that nobody has locked.
REWRITE = "update shardclock.timers set payload = null where due_date < now()"

MAKE_SCHEDULES = """
update shardclock.timers
set schedule = '@daily', anchor = now(), anchor_occurrence = null, repetitions = -1, name = timer_key::text
where timer_key = any ($1)
"""


def firing(keys: Sequence[int]) -> list[str]:
    """Write the arguments of fire_due: plain timers, all held by holder 9."""
    filled = "array_fill({}, array[" + str(len(keys)) + "])"
    ones, zeros, fires = filled.format("1::bigint"), filled.format("0::bigint"), filled.format("true")
    numbers, moments = filled.format("null::bigint"), filled.format("null::timestamptz")
    keys_text = f"'{{{', '.join(map(str, keys))}}}'::bigint[]"
    return ["9", keys_text, ones, fires, zeros, numbers, moments, moments, numbers, EDGES, "null"]


def planning(keys: Sequence[int]) -> list[str]:
    """Write the arguments of plan_schedules for timers held by holder 9."""
    filled = "array_fill({}, array[" + str(len(keys)) + "])"
    texts, moments = filled.format("'@daily'::text"), filled.format("now() + interval '1 h'")
    zones, ones, counts = filled.format("'UTC'::text"), filled.format("1::bigint"), filled.format("-1")
    return ["9", f"'{{{', '.join(map(str, keys))}}}'::bigint[]", texts, zones, moments, moments, ones, counts]


async def fill(dsn: str) -> None:
    """Make a million timers that are due in a day or later, and some that are overdue, never analyzed."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("alter table shardclock.timers set (autovacuum_enabled = off)")
        insert = "insert into shardclock.timers (due_date) select {} from generate_series(1, {}) i"
        await connection.execute(insert.format("now() + interval '1 day' + i * interval '0.1 second'", FAR))
        await connection.execute(insert.format("now() - i * interval '0.001 second'", DUE))
    finally:
        await connection.close()
    for shard_count in (1, 2, 7):
        await add_holder(dsn, shard_count, 0, shard_count)


@pytest.fixture(scope="module")
def filled(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a database with a million timers, which tests leave as it is."""
    server = postgres(18)
    dsn = server.clone()
    asyncio.run(fill(dsn))
    yield dsn
    server.drop(dsn)


@pytest.fixture(scope="module", params=["never_analyzed", "analyzed"])
def million(request: pytest.FixtureRequest, filled: str) -> str:
    """Name that database, before the planner knows of its size and after."""
    if request.param == "analyzed":
        asyncio.run(query(filled, "analyze shardclock.timers"))
    return filled


# Each asked of one timer: $1 is its key.
VERBS = (
    "select shardclock.reschedule_timer(timer_key => $1, delay => 'PT1H')",
    "select shardclock.reschedule_timer(name => 'n', shift => 'PT1H')",
    "select shardclock.pause_timer(name => 'n')",
    "select shardclock.resume_timer(timer_key => $1)",
    "select shardclock.run_timer(name => 'n')",
    "select shardclock.reschedule_timer(name => 'n', schedule => '0 8 * * MON')",
    "select shardclock.cancel_timer(name => 'n')",
    "select shardclock.cancel_timer(timer_key => $1)",
    "select shardclock.cancel_process_instance(7)",
)


# With a million pending


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [False, True], ids=["leasing", "fusing"])
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_reads_each_timer_it_takes_three_times_and_no_other(
    million: str, shards: int, fuse: bool
) -> None:
    take = await prepare(million, "take_due")

    reading = await take.explain(*taking(shards, fuse=fuse))

    taken = DUE / shards
    assert taken * 0.9 <= reading.rows <= 3 * taken * 1.1, "once in the walk, once to fire it, once to lease it"
    assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    assert reading.scans == {"Index Scan"}
    await take.connection.close()


@pytest.mark.slow
async def test_a_claim_looks_again_at_what_somebody_has_touched(million: str) -> None:
    take = await prepare(million, "take_due")
    await take.explain(*taking(1, fuse=True), touched=True)

    reading = await take.explain(*taking(1, fuse=True), touched=True)

    assert DUE * 3.9 <= reading.rows <= DUE * 4.1
    assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    await take.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_stops_at_its_limit_in_each_slot(million: str, shards: int) -> None:
    take = await prepare(million, "take_due")

    reading = await take.explain(*taking(shards, batch=SLOTS // shards, fuse=True))

    assert reading.rows <= 3 * (SLOTS / shards + 1)
    await take.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_that_finds_nothing_reads_nothing(million: str, shards: int) -> None:
    take = await prepare(million, "take_due")

    for arguments, slots in (
        (taking(shards, horizon="2 s", floor="0 s"), SLOTS / shards),
        (taking(shards, horizon="-1 hour"), SLOTS / shards),
        (taking(shards, horizon="-1 hour", floor="2 hours", scope="backlog"), SLOTS / shards),
        (taking(shards, horizon="-1 hour", scope="all"), SLOTS),
    ):
        reading = await take.explain(*arguments)

        assert reading.rows == 0
        assert reading.pages <= 6 * slots + 20, "a descent of the index for each slot"
    await take.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_what_is_leased_already_is_read_once_by_each_claim_and_nothing_beyond(million: str, shards: int) -> None:
    take = await prepare(million, "take_due")
    transaction = take.connection.transaction()
    await transaction.start()
    claim = (
        "update shardclock.timers set claimed_by = 9, claimed_until = now() + interval '10 s' where due_date < now()"
    )
    await take.connection.execute(claim)
    await take.connection.execute("set local enable_seqscan = off")

    reading = await take.explain(*taking(shards))

    # The known price of a horizon: what waits in memory for the next two seconds is passed over again and again.
    assert reading.rows <= DUE / shards * 1.1
    await transaction.rollback()
    await take.connection.close()


@pytest.mark.slow
async def test_a_fire_probes_the_key_of_each_timer_twice_and_touches_no_other(million: str) -> None:
    fire = await prepare(million, "fire_due")
    transaction = fire.connection.transaction()
    await transaction.start()
    keys = await fire.connection.fetchval(LEASE)

    reading = await fire.explain(*firing(keys))

    assert 2000 <= reading.rows <= 2010
    assert reading.indexes == {"timers_pkey"}
    await transaction.rollback()
    await fire.connection.close()


@pytest.mark.slow
async def test_what_a_client_asks_of_one_timer_reads_a_few_rows(million: str) -> None:
    plain = "select max(timer_key) from shardclock.timers"
    touched = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'timers'"
    connection = await asyncpg.connect(million)
    transaction = connection.transaction()
    await transaction.start()
    key = await connection.fetchval(plain)
    await connection.execute("update shardclock.timers set name = 'n' where timer_key = $1", key)
    before = await connection.fetchval(touched)

    for ask in (
        *VERBS,
        "select shardclock.schedule_timer(delay => 'PT1H', name => 'n', process_instance_key => 7)",
        "select shardclock.cancel_process_instance(7)",
        "select from shardclock.timer_history where timer_key = $1",
        "select from shardclock.timer_history where (name = 'n' and tenant_id = 'default') or timer_key = $1",
    ):
        await connection.execute(ask.replace("$1", str(key)))

    assert await connection.fetchval(touched) - before < 60
    await transaction.rollback()
    await connection.close()


@pytest.mark.slow
async def test_a_plan_probes_the_key_of_each_schedule_and_touches_no_other(million: str) -> None:
    plan = await prepare(million, "plan_schedules")
    transaction = plan.connection.transaction()
    await transaction.start()
    keys = (await plan.connection.fetchval(LEASE))[:100]
    await plan.connection.execute(MAKE_SCHEDULES, keys)

    reading = await plan.explain(*planning(keys))

    assert 100 <= reading.rows <= 110
    assert reading.indexes == {"timers_pkey"}
    await transaction.rollback()
    await plan.connection.close()


# What an outage left

TENANTS = 300


@pytest.fixture(scope="module", params=["never_analyzed", "analyzed"])
def outage(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a database in which one tenant has 50,000 overdue timers, and each of many others has ten."""
    server = postgres(18)
    dsn = server.clone()
    asyncio.run(break_down(dsn, analyze=request.param == "analyzed"))
    yield dsn
    server.drop(dsn)


async def break_down(dsn: str, *, analyze: bool) -> None:
    """Leave timers overdue for an hour, some due just now, and as many that are not due yet."""
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_timers(dsn, 50_000, "now() - interval '1 hour'", tenant_id="'big'")
    await add_timers(dsn, 10 * TENANTS, "now() - interval '1 hour'", tenant_id=f"'t' || i % {TENANTS}")
    await add_timers(dsn, 840, tenant_id="'now'")
    await add_timers(dsn, 20_000, "now() + interval '1 day'", tenant_id=f"'t' || i % {TENANTS}")
    await add_holder(dsn, 1)
    if analyze:
        await query(dsn, "analyze shardclock.timers")


@pytest.mark.parametrize("fuse", [False, True], ids=["leasing", "fusing"])
async def test_a_fair_walk_over_a_backlog_reads_what_it_takes_and_a_row_a_tenant(outage: str, *, fuse: bool) -> None:
    take = await prepare(outage, "take_due")

    reading = await take.explain(*taking(1, horizon="-10 s", floor="10 s", scope="backlog", batch=2_010, fuse=fuse))

    # Two hundred tenants and whoever is oldest have ten each.
    assert reading.rows <= 200 + 3 * 2_010 + SLOTS
    assert reading.indexes == {"timers_by_slot", "timers_by_tenant", "timers_pkey"}
    assert reading.scans == {"Index Scan", "Index Only Scan"}
    await take.connection.close()


async def test_a_walk_with_a_floor_reads_nothing_that_an_outage_left(outage: str) -> None:
    take = await prepare(outage, "take_due")

    for scope in ("own", "all"):
        reading = await take.explain(*taking(1, floor="10 s", scope=scope, fuse=True))

        assert reading.rows <= 3 * 840
        assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    await take.connection.close()


async def test_fair_walks_give_every_tenant_the_same_in_turn(outage: str) -> None:
    taken_of: Counter[str] = Counter()
    after, walks = "", 0
    async with Hand(outage, holder=1) as shard:
        await shard.begin()
        while walks == 0 or after:
            taken = await shard.take(scope="backlog", horizon_s=-10, floor_s=10.0, batch=804, after_tenant=after)
            text = "select tenant_id from shardclock.timers where timer_key = any ($1)"
            keys = [timer.timer_key for timer in taken.claimed]
            taken_of.update(row["tenant_id"] for row in await shard.connection.fetch(text, keys))
            assert taken.left_by_outage == len(taken.claimed) <= 804
            assert taken.saturated
            after, walks = taken.next_tenant, walks + 1
        await shard.rollback()

    assert walks == 2
    small = [taken_of[f"t{number}"] for number in range(TENANTS)]
    assert min(small) >= 4, "a walk gives four to each of two hundred tenants"
    assert taken_of["now"] == 0
    assert taken_of.total() <= 2 * 804


# Traps


@pytest.mark.parametrize("emptied", [False, True], ids=["new", "emptied"])
async def test_a_plan_that_was_made_on_an_empty_table_stays_right_when_it_is_full(
    each_dsn: str, *, emptied: bool
) -> None:
    """Of a new table the planner takes ten pages for granted; where all have fired it knows that there is nothing."""
    await query(each_dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_holder(each_dsn, 1)
    if emptied:
        await add_timers(each_dsn, 20_000, tenant_id="'t' || i % 7")
        await query(each_dsn, "delete from shardclock.timers")
        await query(each_dsn, "vacuum (analyze) shardclock.timers")
    take, fire = await prepare(each_dsn, "take_due"), await prepare(each_dsn, "fire_due")
    await take.explain(*taking(1, fuse=True))
    await fire.explain(*firing([]))
    await add_timers(each_dsn, 20_000, "now() + interval '1 day'", tenant_id="'t' || i % 7")
    await add_timers(each_dsn, 1000)
    await add_timers(each_dsn, 1000, "now() - interval '1 hour'", tenant_id="'t' || i % 7")

    for fuse in (False, True):
        own = await take.explain(*taking(1, fuse=fuse, floor="1 min"))
        assert 1000 <= own.rows <= 3 * 1000
        assert own.indexes == {"timers_by_slot", "timers_pkey"}
        tenants = await take.explain(*taking(1, horizon="-10 s", floor="10 s", scope="backlog", fuse=fuse))
        assert 1000 <= tenants.rows <= 4 * 1000, "some are found twice: by their slot, and by their tenant"
        assert tenants.indexes == {"timers_by_slot", "timers_by_tenant", "timers_pkey"}

    reading = await fire.explain(*firing((await query(each_dsn, LEASE))[0][0]))
    assert 2000 <= reading.rows <= 2010
    assert reading.indexes == {"timers_pkey"}
    for prepared in (take, fire):
        await prepared.connection.close()


async def test_a_client_that_asked_while_the_table_was_empty_reads_no_more_when_it_is_full(each_dsn: str) -> None:
    """Empty but for one timer, which the verbs find. Of fewer before it, the planner would choose an index anyway."""
    touched = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'timers'"
    columns = {"tenant_id": "'t' || i % 7", "name": "'n' || i", "process_instance_key": "i"}
    await query(each_dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_timers(each_dsn, 20_000, **columns)
    await query(each_dsn, "delete from shardclock.timers")
    await query(each_dsn, "vacuum shardclock.timers")
    (key,) = await add_timers(each_dsn, 1, "now() + interval '1 day'", name="'n'", process_instance_key="7")
    await query(each_dsn, "vacuum (analyze) shardclock.timers")
    connection = await asyncpg.connect(each_dsn)
    for _ in range(6):  # the sixth time, Postgres keeps the plan
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


async def test_a_claim_never_takes_more_than_its_limit_whatever_the_planner_does(dsn: str) -> None:
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_holder(dsn, 1)
    for planner, fuse in product(PLANNERS, (False, True)):
        await query(dsn, "truncate shardclock.timers")
        await add_timers(dsn, 3 * SLOTS)

        async with Hand(dsn, holder=1, plans=QUEUE_PLANS | planner) as shard:
            for left in (2 * SLOTS, SLOTS, 0, 0):
                taken = await shard.take(batch=SLOTS, fuse=fuse)
                untouched = await shard.value("select count(*) from shardclock.timers where claimed_by is null")

                assert untouched == left, planner
                assert taken.fired + len(taken.claimed) in (0, SLOTS)
                assert taken.saturated == (taken.fired + len(taken.claimed) > 0)

"""Prove that a shard's statements read only the rows that they return or change, however many timers are pending."""

from __future__ import annotations

import json
from collections.abc import Sequence

import asyncpg
import pytest

from tests.support.plans import DUE, LEASE, SLOTS, VERBS, firing, nodes_of, prepare, taking, version_of

MAKE_SCHEDULES = """
update shardclock.timers
set schedule = '@daily', anchor = now(), anchor_occurrence = null, repetitions = -1, name = timer_key::text
where timer_key = any ($1)
"""


def planning(keys: Sequence[int], version: int) -> list[str]:
    """Write the arguments of plan_schedules for timers held by holder 9."""
    filled = "array_fill({}, array[" + str(len(keys)) + "])"
    versions = filled.format(f"'{version}'::xid")
    moments = filled.format("now() + interval '1 h'")
    zones, ones, counts = filled.format("'UTC'::text"), filled.format("1::bigint"), filled.format("-1")
    return ["9", f"'{{{', '.join(map(str, keys))}}}'::bigint[]", versions, zones, moments, moments, ones, counts]


@pytest.mark.exhaustive
@pytest.mark.parametrize("fire_overdue", [False, True], ids=["leasing", "fusing"])
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_reads_only_the_claimed_timers_and_each_three_times(
    many: str, shards: int, fire_overdue: bool
) -> None:
    take = await prepare(many, "claim_due")

    reading = await take.explain(*taking(shards, fire_overdue=fire_overdue))

    taken = DUE / shards
    assert taken * 0.9 <= reading.rows <= 3 * taken * 1.1, "once in the scan, once to fire it, once to lease it"
    assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    assert reading.scans == {"Index Scan"}
    await take.connection.close()


@pytest.mark.slow
async def test_a_claim_reads_a_changed_row_again(many: str) -> None:
    take = await prepare(many, "claim_due")
    await take.explain(*taking(1, fire_overdue=True), touched=True)

    reading = await take.explain(*taking(1, fire_overdue=True), touched=True)

    assert DUE * 3.9 <= reading.rows <= DUE * 4.1
    assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    await take.connection.close()


@pytest.mark.parametrize("name", ["claim_due", "fire_due"])
async def test_the_lag_of_a_fired_timer_is_an_expression_and_not_a_table(each_dsn: str, name: str) -> None:
    prepared = await prepare(each_dsn, name)
    arguments = taking(1, fire_overdue=True) if name == "claim_due" else firing([1])

    plan = await prepared.connection.fetchval(f"explain (format json) execute {name} ({', '.join(arguments)})")

    (lags,) = (node for node in nodes_of(json.loads(plan)[0]["Plan"]) if node.get("Subplan Name") == "CTE lags")
    assert {node["Node Type"] for node in nodes_of(lags)} <= {"Aggregate", "Sort", "Nested Loop", "CTE Scan", "Result"}
    await prepared.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_stops_at_its_limit_in_each_slot(many: str, shards: int) -> None:
    take = await prepare(many, "claim_due")

    reading = await take.explain(*taking(shards, batch=SLOTS // shards, fire_overdue=True))

    assert reading.rows <= 3 * (SLOTS / shards + 1)
    await take.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("fire_overdue", [False, True], ids=["leasing", "fusing"])
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_scan_for_the_newest_timers_stops_at_its_limit_in_each_slot(
    many: str, shards: int, fire_overdue: bool
) -> None:
    take = await prepare(many, "claim_newest")
    batch = SLOTS // shards

    reading = await take.explain(*taking(shards, scope="newest", horizon="0 s", batch=batch, fire_overdue=fire_overdue))

    assert SLOTS / shards * 0.9 <= reading.rows <= 3 * (SLOTS / shards + 1)
    assert reading.indexes == {"timers_by_slot", "timers_pkey"}
    assert reading.scans == {"Index Scan"}
    await take.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_that_finds_nothing_reads_nothing(many: str, shards: int) -> None:
    take, outage = await prepare(many, "claim_due"), await prepare(many, "claim_outage")
    newest = await prepare(many, "claim_newest")

    for claim, arguments, slots in (
        (take, taking(shards, horizon="2 s", floor="0 s"), SLOTS / shards),
        (take, taking(shards, horizon="-1 hour"), SLOTS / shards),
        (outage, taking(shards, horizon="-1 hour", floor="2 hours", scope="outage"), SLOTS / shards),
        (newest, taking(shards, horizon="0 s", floor="0 s", scope="newest"), SLOTS / shards),
        (newest, taking(shards, horizon="-1 hour", scope="newest"), SLOTS / shards),
        (take, taking(shards, horizon="-1 hour", scope="sweep"), SLOTS),
    ):
        reading = await claim.explain(*arguments)

        assert reading.rows == 0
        assert reading.pages <= 6 * slots + 20, "a descent of the index for each slot"
    for prepared in (take, outage, newest):
        await prepared.connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 7])
async def test_a_claim_reads_each_leased_row_once_and_no_other_rows(many: str, shards: int) -> None:
    take = await prepare(many, "claim_due")
    transaction = take.connection.transaction()
    await transaction.start()
    claim = (
        "update shardclock.timers set claimed_by = 9, claimed_until = now() + interval '10 s' where due_date < now()"
    )
    await take.connection.execute(claim)
    await take.connection.execute("set local enable_seqscan = off")

    reading = await take.explain(*taking(shards))

    # This is the known cost of the horizon: each claim also reads the timers that are already leased.
    assert reading.rows <= DUE / shards * 1.1
    await transaction.rollback()
    await take.connection.close()


@pytest.mark.slow
async def test_a_firing_probes_the_key_of_each_timer_twice_and_reads_no_other_timer(many: str) -> None:
    fire = await prepare(many, "fire_due")
    transaction = fire.connection.transaction()
    await transaction.start()
    keys = await fire.connection.fetchval(LEASE)

    reading = await fire.explain(*firing(keys, await version_of(fire.connection, keys)), touched=True)

    assert 2000 <= reading.rows <= 2010
    assert reading.indexes == {"timers_pkey"}
    await transaction.rollback()
    await fire.connection.close()


@pytest.mark.slow
async def test_a_client_s_search_for_one_timer_reads_a_few_rows(many: str) -> None:
    plain = "select max(timer_key) from shardclock.timers"
    touched = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'timers'"
    connection = await asyncpg.connect(many)
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
async def test_a_plan_probes_the_key_of_each_schedule_twice_and_reads_no_other_schedule(many: str) -> None:
    plan = await prepare(many, "plan_schedules")
    transaction = plan.connection.transaction()
    await transaction.start()
    keys = (await plan.connection.fetchval(LEASE))[:100]
    await plan.connection.execute(MAKE_SCHEDULES, keys)

    reading = await plan.explain(*planning(keys, await version_of(plan.connection, keys)), touched=True)

    assert 200 <= reading.rows <= 210
    assert reading.indexes == {"timers_pkey"}
    await transaction.rollback()
    await plan.connection.close()

"""Prove that engines' statements read only the rows that they change or return, among many others."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from shardclock_server.sql.processes.apply import Writes, apply_steps
from shardclock_server.sql.processes.signals import LaneOrder, read_due_signals
from shardclock_server.sql.session import QUEUE_PLANS, Session
from tests.support.factories import add_holder, query
from tests.support.plans import prepare
from tests.support.process_plans import ALL_LANES, DUE, FEW, applying, fill, literals, reading, steps

# The starts of 50,000 instances are deferred; all were cancelled.
STARTS_CANCELLED = """
insert into shardclock.deliveries (
    timer_key, process_instance_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type,
    target, payload, failed_attempts
)
select
    s.kind * 10000000 + n, case when s.kind = 2 then 10000000 + n end, now() + s.due, now(), now(), 1, 0, 'default',
    'USER', 'process:instance', s.payload::jsonb, 2 - s.kind
from generate_series(1, 50000) n
cross join (
    values
        (1, interval '1 h', '{"kind": "begin", "definition": 9999999}'),
        (2, interval '-1 h', '{"kind": "cancel"}')
) s (kind, due, payload)
"""


@pytest.fixture
async def waiting(each_dsn: str) -> str:
    await fill(each_dsn)
    return each_dsn


@pytest.mark.parametrize("state", ["new", "analyzed", "emptied", "none deferred"])
async def test_a_poll_for_signals_reads_only_its_batch_however_many_signals_are_due(waiting: str, state: str) -> None:
    await add_holder(waiting, 9, role="engine")
    asked = {"holder": 9, "batch": len(FEW), "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}
    given = literals("read_due_signals", **asked, **ALL_LANES)
    if state == "analyzed":
        await query(waiting, DUE)
        await query(waiting, "analyze shardclock.deliveries, shardclock.instances")
    elif state == "emptied":  # This is the state if the engines have no backlog.
        await query(waiting, "delete from shardclock.deliveries")
        await query(waiting, "vacuum (analyze) shardclock.deliveries")
    elif state == "none deferred":
        await query(waiting, DUE)
        await query(waiting, "delete from shardclock.deliveries where failed_attempts > 0")
        await query(waiting, "vacuum (analyze) shardclock.deliveries")
    look = await prepare(waiting, "read_due_signals")
    await look.explain(*given, table="deliveries")
    if state != "analyzed":
        await query(waiting, f"{DUE} on conflict do nothing")

    rows, indexes = await reading(look, given)

    await look.connection.close()
    assert rows["deliveries"] <= 5 * len(FEW), "each, its start, and the signals that were deferred before it"
    assert rows["instances"] <= len(FEW)
    assert indexes <= {
        "deliveries_by_lane", "deliveries_of_cancellations", "deliveries_deferred", "deliveries_pkey", "instances_pkey",
        "instances_by_process",
    }  # fmt: skip


@pytest.mark.parametrize("state", ["new", "analyzed"])
async def test_a_poll_for_signals_does_not_read_another_tenants_backlog(waiting: str, state: str) -> None:
    await add_holder(waiting, 9, role="engine")
    await query(waiting, DUE)
    await query(waiting, "update shardclock.deliveries set tenant_id = 'busy' where target = 'process:instance'")
    await query(waiting, "select shardclock.send_signal(null, tenant, '{}') from unnest(array['a', 'zzz']) tenant")
    if state == "analyzed":
        await query(waiting, "analyze shardclock.deliveries, shardclock.instances")
    look = await prepare(waiting, "read_due_signals")
    asked = {"holder": 9, "batch": 12, "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}
    given = literals("read_due_signals", **asked, **ALL_LANES)

    rows, _ = await reading(look, given)
    found = await look.connection.fetch(f"execute read_due_signals ({', '.join(given)})")

    await look.connection.close()
    assert {row["tenant_id"]: None for row in found}.keys() == {"a", "busy", "zzz"}
    assert rows["deliveries"] <= 5 * 12


@pytest.mark.parametrize("state", ["new", "analyzed"])
async def test_a_poll_for_signals_reads_ten_times_its_batch_of_100000_cancellations(waiting: str, state: str) -> None:
    await add_holder(waiting, 9, 0, 2, role="engine")
    await query(waiting, "delete from shardclock.deliveries")
    await query(waiting, STARTS_CANCELLED)
    if state == "analyzed":
        await query(waiting, "analyze shardclock.deliveries, shardclock.instances")
    look = await prepare(waiting, "read_due_signals")
    asked = {"holder": 9, "batch": 12, "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}
    given = literals("read_due_signals", **asked, **ALL_LANES)

    rows, _ = await reading(look, given)
    found = await look.connection.fetch(f"execute read_due_signals ({', '.join(given)})")

    await look.connection.close()
    assert {(row["version"], row["process_id"]) for row in found} == {(None, "p")}
    assert rows["deliveries"] <= 10 * 12 * 2 + 2 * 12 + 10, (
        "cancellations and signals, with starts, and where lanes begin"
    )


@pytest.mark.parametrize("waits", ["behind a deferred signal", "for another engine", "cancelled elsewhere"])
async def test_a_poll_for_signals_reads_ten_times_its_batch_of_waiting_signals(waiting: str, waits: str) -> None:
    put_off = waits.startswith("behind")
    await add_holder(waiting, 9, 0 if put_off else 1, 1 if put_off else 2, role="engine")
    await query(waiting, "delete from shardclock.deliveries")
    signal = """'{"kind": "cancel"}'""" if waits.startswith("cancelled") else "'{}', 2"
    await query(waiting, f"select shardclock.send_signal(840, 'default', {signal}) from generate_series(1, 3000)")
    await query(waiting, f"select shardclock.send_signal(841, 'default', {signal})")
    if put_off:
        later = "next_attempt_at = now() + interval '1 h', failed_attempts = 1"
        await query(waiting, f"update shardclock.deliveries set {later} where timer_key % 3000 = 0")
    look = await prepare(waiting, "read_due_signals")
    asked = {"holder": 9, "batch": 12, "bytes": 1_000_000, "stripe": 0, "stripes": 1, "without": []}

    rows, _ = await reading(look, literals("read_due_signals", **asked, **ALL_LANES))

    await look.connection.close()
    readings = {"behind a deferred signal": 4, "for another engine": 2, "cancelled elsewhere": 3}
    assert rows["deliveries"] <= 10 * 12 * readings[waits] + 10, "each, and the signal that it waits for"
    async with Session(waiting, application="test") as engine:
        looks, lanes = 0, LaneOrder()
        while not (poll := await read_due_signals(engine, 9, batch=12, lanes=lanes)).signals:
            looks, lanes = looks + 1, LaneOrder(behind=poll.behind)
            assert poll.behind
            assert looks < 30
    assert [signal.instance_key for signal in poll.signals] == [841]


async def test_a_throw_of_a_signal_reads_only_one_of_the_signals_that_are_sent_in_parts(waiting: str) -> None:
    parts = "select shardclock.send_signal(null, 'default', jsonb_build_object('kind', 'thrown', 'name', 'm' || n % 2))"
    await query(waiting, f"{parts} from generate_series(1, 3000) n")
    await query(waiting, "update shardclock.subscriptions set kind = 'signal', name = 'm1' where instance_key = 1")
    read = "select sum(idx_tup_fetch + seq_tup_read) from pg_stat_xact_user_tables where relname = 'deliveries'"
    connection = await asyncpg.connect(waiting)

    async with connection.transaction():
        assert await connection.fetchval("select shardclock.throw_signal('m1')") == 1
        rows = await connection.fetchval(read)

    await connection.close()
    assert rows <= 2


async def test_ending_instances_read_only_their_own_rows(waiting: str) -> None:
    apply = await prepare(waiting, "apply_steps")
    closed = [{"instance_key": key, "token": token, "node_id": None} for key in FEW for token in (1, 2)]

    rows, indexes = await reading(apply, applying(steps=steps(FEW), closed=closed, signals=FEW, signal_instances=FEW))

    await apply.connection.close()
    assert all(len(FEW) <= read <= 6 * len(FEW) for read in rows.values()), "found, locked, deleted, looked for again"
    assert indexes == {
        "timers_by_token", "timers_pkey", "tasks_by_token", "subscriptions_by_instance",
        "subscriptions_pkey", "deliveries_of_service_tasks", "deliveries_of_children", "deliveries_pkey",
        "instances_by_parent", "instances_pkey", "incidents_pkey",
    }  # fmt: skip


# One instance; each of its tokens waits for a timer, a task and a message.
TOKENS = """
with t as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, tenant_id, timer_type, target, target_element_id
    )
    select 1, n, now() + interval '1 day', 'default', 'BOUNDARY', 'process:instance', 'b'
    from generate_series(10, {tokens} + 9) n
), u as (
    insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)
    select 1000000 + n, 1, n, 'default', 'p', 'u', 'u' from generate_series(10, {tokens} + 9) n
)
insert into shardclock.subscriptions (
    instance_key, token, is_once, kind, tenant_id, name, correlation, process_id, node_id
)
select 1, n, true, 'message', 'default', 'm', n::text, 'p', 'm' from generate_series(10, {tokens} + 9) n
"""


@pytest.mark.parametrize("tokens", [10, 500])
@pytest.mark.parametrize("node_id", [None, "b"], ids=["the tokens end", "their timers alone"])
async def test_the_end_of_an_instance_takes_time_in_proportion_to_its_tokens(
    waiting: str, tokens: int, node_id: str | None
) -> None:
    await query(waiting, TOKENS.format(tokens=tokens))
    apply = await prepare(waiting, "apply_steps")
    closed = [{"instance_key": 1, "token": n, "node_id": node_id} for n in range(10, tokens + 10)]

    rows, _ = await reading(apply, applying(steps=steps([1]), closed=closed, signals=[1], signal_instances=[1]))

    await apply.connection.close()
    assert rows["timers"] >= tokens
    assert all(read <= 6 * tokens + 20 for read in rows.values()), rows


# A root instance with called instances that run, that have ended, and that are about to begin.
FAMILY = """
with i as (
    insert into shardclock.instances (
        instance_key, definition_key, version, tenant_id, process_id, root_key, parent_key, parent_token, state,
        ended_at, outcome
    )
    select
        100000 * e.ended + n, 9999999, 1, 'default', 'p', 1, 1, 1, case when e.ended = 1 then '{}' end,
        case when e.ended = 2 then now() end, case when e.ended = 2 then 'COMPLETED' end
    from generate_series(1, 3000) n
    cross join generate_series(1, 2) e (ended)
)
insert into shardclock.deliveries (
    timer_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type, target, name, payload
)
select
    300000 + n, now(), now(), now(), 1, 0, 'default', 'USER', 'process:instance', 'child:1:' || n,
    '{"kind": "begin", "root": 1}'
from generate_series(1, 3000) n
"""


async def test_a_call_reads_no_more_of_a_family_than_the_limit(waiting: str) -> None:
    apply = await prepare(waiting, "apply_steps")
    child = {"instance_key": 1, "token": 9, "tenant_id": "default", "process_id": "p", "variables": {}, "depth": 1}
    step = steps([1], outcome=None, state="{}")
    arguments = applying(
        steps=step, children=[child | {"catches": [], "root_key": 1}], signals=[1], signal_instances=[1]
    )
    await query(waiting, "select setval('shardclock.timer_key_seq', 1000000)")
    await reading(apply, arguments)
    await query(waiting, FAMILY)

    rows, _ = await reading(apply, arguments)

    await apply.connection.close()
    assert 100 <= rows["instances"] <= 110
    assert 100 <= rows["deliveries"] <= 110


async def test_signals_without_a_receiver_read_only_their_own_rows(waiting: str) -> None:
    apply = await prepare(waiting, "apply_steps")

    rows, indexes = await reading(apply, applying(spent=FEW))

    await apply.connection.close()
    assert sum(rows.values()) <= 8 * len(FEW), "their own, and the signals that their tokens seem to wait for"
    assert "deliveries_of_processes" not in indexes, "it is in the order of time, and would be read whole"


async def test_signals_that_fail_read_only_their_own_rows(waiting: str) -> None:
    fail = await prepare(waiting, "defer_signals")
    failing = literals(
        "defer_signals", holder=9, timer_keys=FEW, reason="no", delay="1 s", tries_max=2, raises_incident=False
    )

    rows, indexes = await reading(fail, failing)

    await fail.connection.close()
    assert sum(rows.values()) == rows["deliveries"] <= 2 * len(FEW)
    assert indexes == {"deliveries_pkey"}


async def test_one_instance_is_found_among_many(waiting: str) -> None:
    find = await prepare(waiting, "find_instance")

    rows, _ = await reading(find, literals("find_instance", instance_key=FEW[0], tenant_id=None))

    await find.connection.close()
    assert all(1 <= read <= 2 for read in rows.values()), rows


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("find_instances", {"state": None}),
        ("find_instances_with_incident", {}),
    ],
)
async def test_a_page_of_instances_reads_no_more_than_it_shows(
    waiting: str, name: str, state: dict[str, str | None]
) -> None:
    find = await prepare(waiting, name)
    asked = {"tenant_id": None, "process_id": None, "before": None, "page_size": len(FEW), **state}

    rows, indexes = await reading(find, literals(name, **asked))

    await find.connection.close()
    assert rows["instances"] == len(FEW)
    assert indexes == {"instances_pkey", "incidents_pkey"}


async def test_a_page_of_a_rare_process_reads_no_instances_of_other_processes(waiting: str) -> None:
    await query(
        waiting,
        "insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)"
        " select 7000000 + n, 1, 1, 'default', 'rare', '{}' from generate_series(1, 5) n",
    )
    await query(waiting, "analyze shardclock.instances")
    asked = {"tenant_id": "default", "process_id": "rare", "state": None, "before": None, "page_size": 20}
    find = await prepare(waiting, "find_instances", plan_cache_mode="auto")

    rows, _ = await reading(find, literals("find_instances", **asked))

    await find.connection.close()
    assert rows["instances"] == 5


@pytest.mark.parametrize(
    "ending", [{"outcome": "COMPLETED"}, {"outcome": None, "state": "{}"}], ids=["ends", "goes on"]
)
async def test_a_plan_from_empty_tables_reads_no_additional_rows(each_dsn: str, ending: dict[str, Any]) -> None:
    apply = await prepare(each_dsn, "apply_steps")
    closed = [{"instance_key": key, "token": token, "node_id": None} for key in FEW for token in (1, 2)]
    arguments = applying(steps=steps(FEW, **ending), closed=closed, signals=FEW, signal_instances=FEW)
    await reading(apply, arguments)
    await fill(each_dsn)

    rows, _ = await reading(apply, arguments)

    await apply.connection.close()
    assert all(len(FEW) <= read <= 6 * len(FEW) for table, read in rows.items() if table != "incidents"), rows


async def test_each_statement_of_an_engine_is_planned_once(dsn: str) -> None:
    async with Session(dsn, application="test", plans=QUEUE_PLANS) as engine:
        for _ in range(3):
            await read_due_signals(engine, 9, batch=500)
            await apply_steps(engine, 9, Writes(spent=[1]))
        async with engine.connection() as connection:
            kept = await connection.fetch("select generic_plans, custom_plans from pg_prepared_statements order by 1")
    assert [tuple(row) for row in kept if row["generic_plans"] > 1] == [(3, 0), (3, 0)]


async def test_a_search_for_ended_instances_reads_only_the_given_instances(waiting: str) -> None:
    ended = await prepare(waiting, "ended_instances")

    rows, indexes = await reading(ended, literals("ended_instances", instance_keys=FEW))

    await ended.connection.close()
    assert (sum(rows.values()), indexes) == (len(FEW), {"instances_pkey"})

"""The engine sends a signal with many receivers in several parts, and limits the rows and bytes of each part."""

from __future__ import annotations

import json

import pytest

import shardclock_server.sql.processes.signals
from shardclock_server.sql.processes import instances
from tests.support.bpmn import SHARED
from tests.support.bpmn_cluster import Processes, running
from tests.support.factories import add_holder, query
from tests.support.plans import prepare

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
TRIGGER = '<signalEventDefinition signalRef="g"/>'
CATCH = f'<intermediateCatchEvent id="g1">{TRIGGER}</intermediateCatchEvent>'
BEGINS = f'<startEvent id="s">{TRIGGER}</startEvent>'
THROWS = f'<intermediateThrowEvent id="t">{TRIGGER}</intermediateThrowEvent>'
MIB = 2**20
LARGE = {"v": "x" * (MIB - 100)}
SENT = "select count(*) as n, coalesce(sum(octet_length(payload::text)), 0) as bytes from shardclock.deliveries"


async def wait(it: Processes, count: int) -> list[int]:
    await it.deploy(START + CATCH + END, connected="s>g1 g1>e", beside=SHARED)
    keys = [
        row["key"]
        for row in await it.query("select shardclock.start_process('p') as key from generate_series(1, $1)", count)
    ]
    await it.settle()
    return keys


async def completed(it: Processes) -> int:
    return len(await it.query("select from shardclock.instances where outcome = 'COMPLETED'"))


async def test_large_variables_for_many_receivers_are_written_in_parts_of_4_mib() -> None:
    async with running() as it:
        keys = await wait(it, 10)

        # When a client throws a signal with 1 MiB of variables, then the signal is written once
        assert await instances.throw_signal(it.session, "stop", variables=LARGE, tenant_id="default") == keys
        (sent,) = await it.query(SENT)
        assert sent["bytes"] < 2 * MIB

        # And no turn writes more than 4 MiB
        turns = 0
        while await completed(it) < 10:
            await it.engine._runners[0].turn()
            (sent,) = await it.query(SENT)
            assert sent["bytes"] < 6 * MIB
            turns += 1
            assert turns < 20
        assert await it.query("select 1 from shardclock.deliveries") == []
        results = await it.query("select distinct length(result ->> 'v') as n from shardclock.instances")
        assert results == [{"n": MIB - 100}]


async def test_few_receivers_get_a_signal_in_one_statement() -> None:
    async with running() as it:
        keys = await wait(it, 4)
        assert await instances.throw_signal(it.session, "stop", variables=LARGE, tenant_id="default") == keys
        assert {row["process_instance_key"] for row in await it.query("select * from shardclock.deliveries")} == set(
            keys
        )


@pytest.mark.parametrize("count", [500, 501])
async def test_more_than_500_receivers_get_a_signal_in_parts_once_each(count: int) -> None:
    async with running() as it:
        keys = await wait(it, count)
        await it.deploy(BEGINS + END, connected="s>e", process_id="begun", beside=SHARED)
        before = await completed(it)
        thrown = await instances.throw_signal(it.session, "stop", variables={"a": 1}, tenant_id="default")
        assert thrown[:count] == keys
        assert (await it.query(SENT))[0]["n"] == 1
        late = await it.start()
        await it.settle()
        assert await completed(it) - before == count + 1, "all that waited, and the instance that it began"
        assert await it.state(late) == "RUNNING", "it came to wait later"
        assert await it.query("select 1 from shardclock.deliveries") == []


@pytest.mark.parametrize("batch", [1, 500])
@pytest.mark.parametrize(("count", "size"), [(6, MIB - 100), (150, 40_000), (502, 0)])
async def test_a_later_signal_with_the_same_name_comes_after_a_signal_that_is_sent_in_parts(
    count: int, size: int, batch: int
) -> None:
    async with running() as it:
        keys = await wait(it, count)
        (turns,) = it.engine._runners
        turns._batch = turns._batch_max = batch
        for value, pad in [("first", "x" * size), ("second", ""), ("third", "x" * size)]:
            variables = {"v": value, "pad": pad}
            assert await instances.throw_signal(it.session, "stop", variables=variables, tenant_id="default") == keys
        await it.settle()
        assert await it.query("select distinct result ->> 'v' as v from shardclock.instances") == [{"v": "first"}]
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_a_signal_is_due_at_its_throw_and_does_not_wait_for_other_names_or_tenants() -> None:
    async with running() as it:
        await wait(it, 6)
        await instances.throw_signal(it.session, "stop", variables=LARGE, tenant_id="default")
        (thrown,) = await it.query("select timer_key, next_attempt_at from shardclock.deliveries")
        for tenant, name in [("default", "other"), ("other", "stop")]:
            subscribe = (
                "insert into shardclock.subscriptions "
                "(definition_key, is_once, kind, tenant_id, name, process_id, node_id) "
                "select definition_key, false, 'signal', $1, $2, 'p', 's' from shardclock.definitions limit 1"
            )
            await it.query(subscribe, tenant, name)
            assert len(await instances.throw_signal(it.session, name, variables={}, tenant_id=tenant)) == 1
        kinds = "select payload ->> 'kind' as kind from shardclock.deliveries order by timer_key"
        assert [row["kind"] for row in await it.query(kinds)] == ["thrown", "begin", "begin"]
        await shardclock_server.sql.processes.signals.spread_signal(it.session, it.engine.holder, thrown["timer_key"])
        due = "select from shardclock.deliveries where payload ->> 'kind' = 'happened' and next_attempt_at <= $1"
        assert len(await it.query(due, thrown["next_attempt_at"])) == 4


async def test_a_signal_of_an_instance_is_written_once_and_goes_to_all_subscriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shardclock_server.sql.processes.signals, "RECEIVERS_MAX", 3)
    async with running() as it:
        keys = await wait(it, 10)
        await it.deploy(START + THROWS + END, connected="s>t t>e", process_id="thrower", beside=SHARED)
        await it.query("select shardclock.start_process('thrower')")
        (runner,) = it.engine._runners
        await runner.turn()
        (thrown,) = await it.query("select payload::text from shardclock.deliveries")
        assert json.loads(thrown["payload"])["kind"] == "thrown"
        await runner.turn()
        assert (await it.query(SENT))[0]["n"] == 1 + 3
        await it.settle()
        assert {await it.state(key) for key in keys} == {"COMPLETED"}
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_only_the_unreadable_thrown_signal_is_given_up() -> None:
    async with running() as it:
        unreadable = json.dumps({"kind": "thrown", "name": "stop", "after": "?", "until": 1, "variables": {}})
        await it.query("select shardclock.send_signal(null, 'default', $1)", unreadable)
        (key,) = await wait(it, 1)
        await it.advance("PT1M")
        assert await it.state(key) == "RUNNING"
        assert len(await it.query("select 1 from shardclock.dead_letters")) == 1


@pytest.mark.parametrize("state", ["new", "emptied"])
async def test_a_part_reads_no_more_subscriptions_than_it_reaches(each_dsn: str, state: str) -> None:
    await add_holder(each_dsn, 9, role="engine")
    subscribe = """
        insert into shardclock.subscriptions (instance_key, token, is_once, kind, tenant_id, name, process_id, node_id)
        select n, 1, true, 'signal', 'default', 'go', 'p', 'g' from generate_series(1, 2000) n
    """
    if state == "emptied":
        await query(each_dsn, subscribe)
        await query(each_dsn, "delete from shardclock.subscriptions")
        await query(each_dsn, "vacuum (analyze) shardclock.subscriptions")
    spread = await prepare(each_dsn, "spread_signal")
    await query(each_dsn, subscribe)
    signal = (
        "jsonb_build_object('kind', 'thrown', 'name', 'go', 'variables', '{}'::jsonb, 'after', 0, 'until', 1e9::bigint)"
    )
    (sent,) = await query(each_dsn, f"select shardclock.send_signal(null, 'default', {signal}) as key")

    reading = await spread.explain("9", str(sent["key"]), "10", "1000", table="subscriptions")

    await spread.connection.close()
    assert (reading.rows, reading.indexes) == (10, {"subscriptions_in_order"})

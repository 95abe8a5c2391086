"""Starts that engines gave up are listed as incidents, and an application can cancel their instances."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from shardclock_server.service import processes
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.processes.incidents import IncidentFilter, find_incidents
from shardclock_server.sql.processes.instances import cancel_instance, find_instance, find_instances, set_variables
from shardclock_server.sql.session import CLIENT_PLANS, QUEUE_PLANS, Session
from tests.support.bpmn import model
from tests.support.factories import query, value
from tests.support.given_up import give_up_starts
from tests.support.plans import Prepared, arguments_of, prepare_as
from tests.support.sql_client import session as as_role
from tests.support.waiting import eventually

BURY = """
with gone as (delete from shardclock.deliveries d returning d.*)
insert into shardclock.dead_letters (
    timer_key, due_date, created_at, fired_at, occurrence, claims, failed_attempts, slot, tenant_id, timer_type, target,
    reason, payload
)
select timer_key, due_date, created_at, now(), 1, 0, 5, slot, tenant_id, timer_type, target, 'no', payload from gone
"""


async def given_up(dsn: str) -> int:
    async with Session(dsn, application="test") as session:
        await processes.deploy(session, model('<startEvent id="s"/>'), resource="p.bpmn")
        key = await processes.start(session, "p", business_key="order-42")
    await query(dsn, BURY)
    return key


async def test_a_scheduler_can_cancel_a_given_up_start(each_dsn: str) -> None:
    key = await given_up(each_dsn)
    async with as_role(each_dsn) as session:
        assert await cancel_instance(session, key) == "SENT"
        found = await find_instance(session, key)
    assert found is not None
    assert (found.found.state, found.found.business_key) == ("CANCELED", "order-42")
    (step,) = await query(each_dsn, "select signals::text from shardclock.instance_steps")
    assert '"by": "test_scheduler"' in step["signals"]


async def test_a_gateway_cancels_the_starts_of_its_tenants(each_dsn: str) -> None:
    key = await given_up(each_dsn)
    async with as_role(each_dsn, "gateway") as session:
        session.serve(frozenset({"eve"}))
        async with session.connection() as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match=f"instance {key} belongs to a tenant that"):
                await connection.fetchval("select shardclock.cancel_start($1)", key)
        assert await value(each_dsn, "select count(*) from shardclock.dead_letters") == 1
        session.serve(frozenset({"eve", "default"}))
        assert await cancel_instance(session, key) == "SENT"


async def test_one_of_two_callers_cancels_the_start_and_both_get_the_same_answer(each_dsn: str) -> None:
    key = await given_up(each_dsn)
    async with as_role(each_dsn) as one, as_role(each_dsn) as two:
        said = await asyncio.gather(cancel_instance(one, key), cancel_instance(two, key))
    assert sorted(said) == ["CANCELED", "SENT"]


async def test_a_start_that_is_given_up_between_the_two_searches_is_found(
    each_dsn: str,
) -> None:
    key = await given_up(each_dsn)

    async def waits() -> bool:
        return bool(await value(each_dsn, "select exists (select from pg_locks where not granted)"))

    async with Session(each_dsn, application="test") as first, as_role(each_dsn) as second:
        async with first.connection() as connection, connection.transaction():
            await connection.execute("lock table shardclock.dead_letters")
            late = asyncio.create_task(cancel_instance(second, key))
            await eventually(waits)
            assert await connection.fetchval("select shardclock.cancel_start($1)", key)
        assert await late == "CANCELED"


async def test_a_signal_that_is_sent_in_parts_is_not_a_start(each_dsn: str) -> None:
    # Given a signal to many instances; the signal waits for an engine, or was given up
    thrown = json.dumps({"kind": "thrown", "name": "stop", "variables": {}, "after": 0, "until": 1})
    key = await value(each_dsn, "select shardclock.send_signal(null, 'default', $1)", thrown)
    for state in ("waiting", "given up"):
        async with Session(each_dsn, application="test") as session:
            # Then no client finds an instance, and the usage does not include the signal
            assert await cancel_instance(session, key) == "NOT_FOUND", state
            assert not await set_variables(session, key, {"a": 1}), state
            assert await value(each_dsn, "select shardclock.usage_of('default', 'starts', 10)") == 0, state
            assert (await measure_processes(session)).incidents == 0, state
        await query(each_dsn, BURY)
    assert await value(each_dsn, "select timer_key from shardclock.dead_letters") == key

    # and the usage includes the start of an instance.
    await query(each_dsn, "select shardclock.send_signal(null, 'default', $1)", thrown)
    await query(
        each_dsn, """select shardclock.send_signal(null, 'default', '{"kind": "begin"}') from generate_series(1, 3)"""
    )
    counts = [await value(each_dsn, f"select shardclock.usage_of('default', 'starts', {most})") for most in (2, 3, 10)]
    assert counts == [2, 3, 3]


PAGE = 10
MANY = 3_000
WAITS = """
    with begun as (
        insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
        values (5000, 1, 1, 'default', 'p', '{}')
    )
    insert into shardclock.incidents (instance_key, token, node_id, sentence, raised_at)
    values (5000, 2, 'charge', 'the card is expired', '2031-01-01Z'::timestamptz + interval '80 s')
"""


async def planned(dsn: str, name: str, tables: str, plans: dict[str, str]) -> Prepared:
    """Prepare a statement, with many dead letters that exist before or after its plan."""
    find = await prepare_as(dsn, name, plans)
    if tables.startswith("empty"):
        await query(dsn, "vacuum analyze")
        await find.explain(*arguments_of(name, page_size=PAGE), touched=True)
    await give_up_starts(dsn, MANY)
    if tables == "analyzed":
        await query(dsn, "analyze")
    return find


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tables", ["never analyzed", "analyzed", "empty when it was planned"])
async def test_a_page_of_incidents_reads_at_most_as_many_starts_as_it_may_show(
    each_dsn: str, plans: dict[str, str], tables: str
) -> None:
    find = await planned(each_dsn, "find_incidents", tables, plans)

    for tenant_id, only_stopped, most in ((None, False, 2 * PAGE), ("other", False, PAGE), (None, True, 0)):
        asked = arguments_of(find.name, tenant_id=tenant_id, only_stopped=only_stopped, page_size=PAGE)
        reading = await find.explain(*asked, touched=True, table="dead_letters")
        assert reading.rows <= most, (tenant_id, only_stopped)
        assert reading.indexes <= {"dead_letters_of_starts_by_death"}
    await find.connection.close()


async def test_starts_and_tokens_are_listed_together_newest_first(dsn: str) -> None:
    await give_up_starts(dsn, 90)
    await query(dsn, WAITS)
    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        found = await find_incidents(session, IncidentFilter(), limit=5)
        shown = [await find_instance(session, one.instance_key) for one in found]

    assert [(one.instance_key, one.tenant_id, one.process_id, one.version) for one in found] == [
        (90, "other", "p", 1), (87, "default", "q", 4), (84, "default", "p", 1), (81, "default", "q", 4),
        (5000, "default", "p", 1),
    ]  # fmt: skip
    assert [one.signal_key for one in found] == [90, 87, 84, 81, 0]
    for one, whole in zip(found, shown, strict=True):
        assert whole is not None
        assert whole.waits["incident_list"] == [
            {
                "token": one.token, "node_id": one.node_id, "sentence": one.sentence,
                "raised_at": one.raised_at.isoformat(),
            }
        ]  # fmt: skip


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tables", ["never analyzed", "analyzed", "empty when it was planned"])
async def test_a_page_of_instances_with_incidents_reads_at_most_as_many_starts_as_it_may_show(
    each_dsn: str, plans: dict[str, str], tables: str
) -> None:
    find = await planned(each_dsn, "find_instances_with_incident", tables, plans)

    for before, tenant_id, most in ((None, None, 2 * PAGE), (900, None, 2 * PAGE), (None, "other", PAGE)):
        asked = arguments_of(find.name, before=before, tenant_id=tenant_id, page_size=PAGE)
        reading = await find.explain(*asked, touched=True, table="dead_letters")
        assert reading.rows <= most, (before, tenant_id)
        assert reading.indexes == {"dead_letters_of_starts"}
    await find.connection.close()


async def test_instances_with_incidents_are_listed_together_with_instances_that_never_began(dsn: str) -> None:
    await give_up_starts(dsn, 30)
    await query(dsn, WAITS)
    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        found = await find_instances(session, state="INCIDENT", page_size=3)
        shown = [await find_instance(session, one.instance_key) for one in found]
        after = await find_instances(session, state="INCIDENT", before=found[-1].instance_key, page_size=2)
        of_q = await find_instances(session, state="INCIDENT", process_id="q", page_size=1)
    assert [(it.instance_key, it.state) for it in found] == [(5000, "RUNNING"), (30, "STARTING"), (27, "STARTING")]
    assert found == [whole.found for whole in shown if whole is not None]
    assert [it.instance_key for it in (*after, *of_q)] == [24, 21, 27]


async def test_each_filter_applies_to_starts(dsn: str) -> None:
    await give_up_starts(dsn, 90)
    await query(dsn, WAITS)

    async def keys(*filters: Any, **others: Any) -> list[int]:
        found = await find_incidents(session, IncidentFilter(*filters), limit=3, **others)
        return [one.instance_key for one in found]

    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        assert await keys("other") == [90, 60, 30]
        assert await keys("default", "p") == [84, 5000, 78]
        assert await keys(None, None, 4) == [87, 81, 75]
        assert await keys(None, None, None, "GIVEN UP: no reason 72;") == [72]
        assert await keys(only_stopped=True) == [5000], "dead letters are redriven, and not resolved"


async def test_a_start_that_was_written_in_sql_hides_no_other_start(dsn: str) -> None:
    await give_up_starts(dsn, 6)
    await query(dsn, """update shardclock.dead_letters set payload = '{"definition": "x"}' where timer_key = 6""")
    async with Session(dsn, application="test") as session:
        assert [one.instance_key for one in await find_incidents(session, IncidentFilter(), limit=9)] == [3]


async def test_a_gateway_sees_the_starts_of_its_tenants(each_dsn: str) -> None:
    await give_up_starts(each_dsn, 90)
    async with as_role(each_dsn, "gateway") as session:
        session.serve(frozenset({"other"}))
        found = await find_incidents(session, IncidentFilter(), limit=9)
    assert [one.instance_key for one in found] == [90, 60, 30]

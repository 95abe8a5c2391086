"""An application can cancel an instance after engines gave up its start, although the application's role has no right
to write instances.
"""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from shardclock_server.service import processes
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.processes.instances import cancel_instance, find_instance, set_variables
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import query, value
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


async def test_the_schedulers_role_cancels_it(each_dsn: str) -> None:
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


async def test_one_of_two_callers_cancels_it_and_the_other_gets_that_answer(each_dsn: str) -> None:
    key = await given_up(each_dsn)
    async with as_role(each_dsn) as one, as_role(each_dsn) as two:
        said = await asyncio.gather(cancel_instance(one, key), cancel_instance(two, key))
    assert sorted(said) == ["CANCELED", "SENT"]


async def test_a_caller_between_the_search_for_the_instance_and_the_search_for_its_start_finds_it(
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
    # Given a signal to many instances that waits for an engine, or was given up
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

    # and a start beside the signal counts.
    await query(each_dsn, "select shardclock.send_signal(null, 'default', $1)", thrown)
    await query(
        each_dsn, """select shardclock.send_signal(null, 'default', '{"kind": "begin"}') from generate_series(1, 3)"""
    )
    counts = [await value(each_dsn, f"select shardclock.usage_of('default', 'starts', {most})") for most in (2, 3, 10)]
    assert counts == [2, 3, 3]

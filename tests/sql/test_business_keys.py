"""A business key is written with its start, found by its index, and deleted with its instance."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from shardclock.api.codes import invalid
from shardclock.api.refusals.processes import START_KEY_USED, UNKNOWN_PROCESS
from shardclock_server.service import processes
from shardclock_server.sql.processes.instances import find_instances
from shardclock_server.sql.processes.signals import forget_instances
from shardclock_server.sql.session import CLIENT_PLANS, QUEUE_PLANS, Session
from shardclock_server.sql.statements import statement
from tests.support.bpmn import model
from tests.support.factories import query
from tests.support.plans import Prepared
from tests.support.refusals import refusing

MODEL = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
FIND = "find_instances_by_business_key"
PAGE = 10
MANY = 3_000
# Half of the instances have unique keys. A hundred instances share one key; a hundred instances of a second
# tenant also have this key.
FILL = """
    with definition as (
        insert into shardclock.definitions (
            definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
        )
        values (1, 'default', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]')
    ), instance as (
        insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
        select n, 1, 1, case when n % 2 = 0 then 'default' else 'other' end, 'p', '{}'
        from generate_series(1, $1::integer) n
    )
    insert into shardclock.business_keys (instance_key, tenant_id, business_key)
    select
        n, case when n % 2 = 0 then 'default' else 'other' end,
        case when n % 15 = 0 then 'shared' else 'order-' || n end
    from generate_series(1, $1::integer) n
    where n % 4 < 2 or n % 15 = 0
"""


async def keys(dsn: str) -> dict[int, str]:
    rows = await query(dsn, "select instance_key, business_key from shardclock.business_keys")
    return {row["instance_key"]: row["business_key"] for row in rows}


@pytest.fixture
async def deployed(dsn: str) -> str:
    async with Session(dsn, application="test") as session:
        await processes.deploy(session, MODEL, resource="p.bpmn")
    return dsn


async def test_a_start_writes_its_business_key_and_two_starts_may_share_a_key(deployed: str) -> None:
    async with Session(deployed, application="test") as session:
        started = [await processes.start(session, "p", business_key="order-42") for _ in range(2)]
        await processes.start(session, "p")
    assert await keys(deployed) == dict.fromkeys(started, "order-42")


async def test_a_repeated_start_changes_nothing(deployed: str) -> None:
    async with Session(deployed, application="test") as session:
        first = await processes.start(session, "p", idempotency_key="k", business_key="order-42")
        again = await processes.start(session, "p", idempotency_key="k", business_key="order-42")
        says_none = await processes.start(session, "p", idempotency_key="k")
    assert (again, says_none, await keys(deployed)) == (first, first, {first: "order-42"})


async def test_an_idempotency_key_with_another_business_key_is_refused(deployed: str) -> None:
    async with Session(deployed, application="test") as session:
        first = await processes.start(session, "p", idempotency_key="k", business_key="order-42")
        await processes.start(session, "p", idempotency_key="none")
        # This is the state after the instance of the key was deleted.
        await query(deployed, "delete from shardclock.business_keys")
        said = "'k' has started an instance with the business key 'order-42': use another key"
        with refusing(START_KEY_USED, match=said):
            await processes.start(session, "p", idempotency_key="k", business_key="order-43")
        with refusing(START_KEY_USED, match="'none' has started an instance without a business key: use another key"):
            await processes.start(session, "p", idempotency_key="none", business_key="order-42")
        assert await processes.start(session, "p", idempotency_key="k", business_key="order-42") == first

        # After a day another start may use the key.
        await query(deployed, "update shardclock.process_starts set asked_at = asked_at - interval '1 day 1 second'")
        second = await processes.start(session, "p", idempotency_key="k", business_key="order-43")
        assert second != first
        assert await processes.start(session, "p", idempotency_key="k", business_key="order-43") == second


async def test_a_refused_start_leaves_no_key(deployed: str) -> None:
    async with Session(deployed, application="test") as session:
        with refusing(UNKNOWN_PROCESS):
            await processes.start(session, "none", business_key="order-42")
        for wrong in ("", 256 * "a"):
            with refusing(invalid("business_key")):
                await processes.start(session, "p", business_key=wrong)
        longest = await processes.start(session, "p", business_key=255 * "ä")
    assert await keys(deployed) == {longest: 255 * "ä"}


async def test_discarding_the_dead_letter_of_a_start_deletes_its_key(deployed: str) -> None:
    async with Session(deployed, application="test") as session:
        dead, other = [await processes.start(session, "p", business_key="order-42") for _ in range(2)]
    await query(
        deployed,
        "with gone as (delete from shardclock.deliveries d where d.timer_key = $1 returning d.*)"
        " insert into shardclock.dead_letters (timer_key, due_date, created_at, fired_at, occurrence, claims,"
        " failed_attempts, slot, tenant_id, timer_type, target, reason)"
        " select timer_key, due_date, created_at, now(), 1, 0, 5, slot, tenant_id, timer_type, target, 'no' from gone",
        dead,
    )
    assert await keys(deployed) == {dead: "order-42", other: "order-42"}, "it may be redriven"
    await query(deployed, "select shardclock.discard_dead_letters(array[$1::bigint])", dead)
    assert await keys(deployed) == {other: "order-42"}


async def test_a_key_is_deleted_with_its_instance(dsn: str) -> None:
    await query(
        dsn,
        "insert into shardclock.instances"
        " (instance_key, definition_key, version, ended_at, tenant_id, process_id, outcome)"
        " select n, 1, 1, now() - n * interval '1 day', 'default', 'p', 'COMPLETED' from generate_series(1, 9) n",
    )
    await query(
        dsn,
        "insert into shardclock.business_keys (instance_key, tenant_id, business_key)"
        " select n, 'default', 'order-' || n from generate_series(1, 9) n",
    )
    async with Session(dsn, application="test") as session:
        await forget_instances(session, kept_s=6.5 * 86_400, batch=500, parts=1_000)
    assert set(await keys(dsn)) == set(range(1, 7))


async def test_the_deletion_of_instances_also_deletes_their_business_keys(dsn: str) -> None:
    await query(dsn, FILL, 100)
    await query(dsn, "delete from shardclock.instances where instance_key > 8")
    assert set(await keys(dsn)) == {1, 4, 5, 8}


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tenant_id", [None, "other"])
@pytest.mark.parametrize("is_analyzed", [False, True])
async def test_a_page_by_business_key_reads_the_rows_of_the_key_and_the_shown_instances(
    each_dsn: str, plans: dict[str, str], tenant_id: str | None, is_analyzed: bool
) -> None:
    await query(each_dsn, FILL, MANY)
    if is_analyzed:
        await query(each_dsn, "analyze")
    connection = await asyncpg.connect(each_dsn, server_settings=plans)
    await connection.execute(f"prepare {FIND} as {statement(FIND).text}")
    find = Prepared(connection, FIND)
    for business_key, found in (("order-1", 1), ("shared", PAGE), ("none", 0)):
        values: dict[str, Any] = dict.fromkeys(statement(FIND).parameters)
        values |= {"tenant_id": tenant_id, "business_key": business_key, "page_size": PAGE}
        literals = ["null" if it is None else f"'{it}'" for it in values.values()]

        instances = await find.explain(*literals, touched=True, table="instances")
        keys = await find.explain(*literals, touched=True, table="business_keys")

        assert instances.rows == found
        assert keys.rows <= (MANY / 15 if business_key == "shared" else found), "only the instances with the key"
    await connection.close()


async def test_the_pages_of_a_key_have_all_instances_and_other_filters_apply(dsn: str) -> None:
    await query(dsn, FILL, MANY)
    async with Session(dsn, application="test", plans=CLIENT_PLANS) as session:
        of_all = await find_instances(session, business_key="shared", page_size=1_000)
        mine = await find_instances(session, business_key="shared", tenant_id="default", page_size=1_000)
        after = await find_instances(session, business_key="shared", before=of_all[9].instance_key, page_size=5)
        ended = await find_instances(session, business_key="shared", state="ENDED")
    assert [it.instance_key for it in of_all] == list(range(MANY, 0, -15))
    assert [it.instance_key for it in mine] == list(range(MANY, 0, -30))
    assert ([it.instance_key for it in after], ended) == ([it.instance_key for it in of_all[10:15]], [])
    assert {it.business_key for it in of_all} == {"shared"}

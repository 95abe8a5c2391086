"""Prove that a page of waiting instances reads a bounded number of instances, and that all instances are found."""

from __future__ import annotations

import pytest

from shardclock_server.sql.processes import waits
from shardclock_server.sql.processes.waits import InstanceFilter, find_instances_waiting
from shardclock_server.sql.session import CLIENT_PLANS, QUEUE_PLANS, Session
from tests.support.factories import query
from tests.support.plans import arguments_of, prepare_as

MANY, READ_MAX, PAGE = 3_000, 100, 10
FILL = """
    with definition as (
        insert into shardclock.definitions (
            definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
        )
        values (1, 'default', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]')
    ),
    instance as (
        insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
        select n, 1, 1, 'default', 'p', '{}' from generate_series(1, $1::integer) n
    ),
    key as (
        insert into shardclock.business_keys (instance_key, tenant_id, business_key)
        select n, 'default', 'order-' || n from generate_series(1, $1) n
    ),
    incident as (
        insert into shardclock.incidents (instance_key, token, node_id, sentence)
        select 250, 3, 'rare', 'no'
    )
    insert into shardclock.subscriptions (
        instance_key, token, is_once, kind, tenant_id, name, correlation, process_id, node_id
    )
    select n, 3, true, 'message', 'default', 'paid', 'k' || n, 'p', case when n % 250 = 0 then 'rare' else 'common' end
    from generate_series(1, $1) n
"""


@pytest.mark.parametrize("plans", [CLIENT_PLANS, QUEUE_PLANS], ids=["custom", "generic"])
@pytest.mark.parametrize("tables", ["analyzed", "empty when it was planned"])
@pytest.mark.parametrize("node_id", ["common", "rare", "nowhere"])
async def test_a_page_of_waiting_instances_reads_at_most_its_limit_of_instances(
    each_dsn: str, plans: dict[str, str], tables: str, node_id: str
) -> None:
    find = await prepare_as(each_dsn, "find_instances_waiting", plans)
    asked = arguments_of(find.name, definition_key=1, node_id=node_id, instances_max=READ_MAX, page_size=PAGE)
    if tables.startswith("empty"):
        await query(each_dsn, "vacuum analyze")
        await find.explain(*asked, touched=True)
    await query(each_dsn, FILL, MANY)
    if tables == "analyzed":
        await query(each_dsn, "analyze")

    instances = await find.explain(*asked, touched=True, table="instances")
    subscriptions = await find.explain(*asked, touched=True, table="subscriptions")

    await find.connection.close()
    assert READ_MAX <= instances.rows <= READ_MAX + PAGE
    assert "instances_running" in instances.indexes
    assert subscriptions.rows == READ_MAX


async def test_the_pages_lead_to_all_waiting_instances_and_other_filters_apply(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "INSTANCES_READ_MAX", READ_MAX)
    await query(dsn, FILL, MANY)
    rare = InstanceFilter(definition_key=1, node_id="rare")

    async def keys_of(session: Session, wanted: InstanceFilter) -> list[int]:
        found, after = list[int](), 0
        while True:
            page = await find_instances_waiting(session, wanted, after=after, page_size=PAGE)
            found += [it.found.instance_key for it in page.instances]
            if page.next is None:
                return found
            assert page.next > after, "each page goes on"
            after = page.next

    async with Session(dsn, application="test") as session:
        assert await keys_of(session, rare) == [250 * n for n in range(1, 13)]
        assert len(await keys_of(session, InstanceFilter(definition_key=1))) == MANY
        for given, keys in (
            ({"business_key": "order-500"}, [500]), ({"state": "INCIDENT"}, [250]), ({"state": "ENDED"}, []),
            ({"tenant_id": "other"}, []), ({"process_id": "q"}, []), ({"definition_key": 2}, []),
        ):  # fmt: skip
            assert await keys_of(session, InstanceFilter(**{"definition_key": 1, "node_id": "rare", **given})) == keys  # type: ignore[arg-type]

"""Prove that a search reads little more rows than it gives, by the index that is made for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg
import pytest

from shardclock_server.sql.clients.history import Filter, find_timers
from tests.support.deliveries import HANDLER, declare
from tests.support.factories import add_timers, query
from tests.support.postgres import Server
from tests.support.sql_client import session

PENDING, PAUSED, ENDED = "PENDING", "PAUSED", "ENDED"
RARE = "cart.left"
PAGE = 20
SLOTS = 840

READ = """
    select sum(s.seq_tup_read + coalesce(s.idx_tup_fetch, 0))::integer
    from pg_stat_xact_user_tables s
    where s.schemaname = 'shardclock'
"""
USED = """
    select array_agg(distinct regexp_replace(c.relname, '_[0-9]{8}', ''))
    from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind = 'i' and pg_stat_get_xact_numscans(c.oid) > 0
"""


@pytest.fixture(scope="module")
def crowded(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a database with 60,000 timers, a third of them one tenant's, and 20,000 records; tests leave it as it is."""
    server = postgres(18)
    dsn = server.clone()
    asyncio.run(fill(dsn))
    yield dsn
    server.drop(dsn)


async def fill(dsn: str) -> None:
    """Make timers of many tenants, a few of them paused, and a log of some length."""
    due = "now() + random() * interval '30 days'"
    await add_timers(dsn, 20_000, due, tenant_id="'big'", name="'order-' || i", process_instance_key="i / 10 + 1")
    await add_timers(dsn, 20_000, due, tenant_id="'tenant-' || i % 500", name="'order-' || i")
    await declare(dsn, HANDLER, RARE)
    await add_timers(dsn, 19_900, due, target=f"'{HANDLER}'")
    await add_timers(dsn, 100, due, target=f"'{RARE}'")
    some = "array(select timer_key from shardclock.timers where timer_key % 1000 = 0)"
    await query(dsn, f"select shardclock.pause_timers({some})")
    ended = await add_timers(dsn, 20_000, due, tenant_id="'tenant-' || i % 500")
    await query(dsn, "select shardclock.cancel_timers($1)", ended)
    await query(dsn, "vacuum analyze")


class Reading(NamedTuple):
    """What a page gave, what was read of timers and of the log for it, and by which indexes."""

    found: int
    rows: int
    indexes: list[str]


async def reading(
    dsn: str, state: str, wanted: Filter, page: str | int | None = None, *, function: str = "find_timers"
) -> Reading:
    """Search for one page, as any client does, on a connection that has read nothing yet."""
    arguments = {key: it for key, it in asdict(wanted).items() if it is not None}
    after = "page" if function == "find_timers" else "after_key"
    named = [f"{name} => ${number}" for number, name in enumerate(["page_size", after, "state", *arguments], 1)]
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            text = f"select from shardclock.{function}({', '.join(named)})"
            rows = await connection.fetch(text, PAGE, page, state, *arguments.values())
            return Reading(len(rows), await connection.fetchval(READ), await connection.fetchval(USED) or [])
    finally:
        await connection.close()


# What is asked for, how many there are of it on a page, how many rows may be read, and the index that leads there.
FOUND: dict[str, tuple[str, Filter, Reading]] = {
    "small_tenant": (PENDING, Filter(tenant_id="tenant-7"), Reading(PAGE, PAGE, ["timers_by_tenant"])),
    "no_tenant": (PENDING, Filter(tenant_id="nobody"), Reading(0, 0, ["timers_by_tenant"])),
    "big_tenant": (PENDING, Filter(tenant_id="big"), Reading(PAGE, PAGE, ["timers_by_tenant"])),
    "name": (PENDING, Filter("big", name_prefix="order-1234"), Reading(11, 11, ["timers_by_name_prefix"])),
    "process": (PENDING, Filter(process_instance_key=77), Reading(10, 10, ["timers_by_process_instance"])),
    "both": (PENDING, Filter("big", process_instance_key=77), Reading(10, 10, ["timers_by_process_instance"])),
    "all": (PENDING, Filter(), Reading(PAGE, SLOTS * (PAGE + 1), ["timers_by_slot"])),
    "paused_of_a_tenant": (PAUSED, Filter("big"), Reading(PAGE, PAGE, ["timers_by_tenant"])),
    "target": (PENDING, Filter(target=HANDLER), Reading(PAGE, PAGE, ["timers_by_target"])),
    "rare_target": (PENDING, Filter(target=RARE), Reading(PAGE, PAGE, ["timers_by_target"])),
    "rare_target_of_a_tenant": (PENDING, Filter("default", target=RARE), Reading(PAGE, PAGE, ["timers_by_target"])),
    "no_target": (PENDING, Filter(target="nowhere"), Reading(0, 0, ["timers_by_target"])),
    "paused_of_a_target": (PAUSED, Filter(target=HANDLER), Reading(19, 19, ["timers_by_target"])),
    "paused": (PAUSED, Filter(), Reading(PAGE, 60, ["timers_by_slot"])),
    "ended": (ENDED, Filter(), Reading(PAGE, PAGE, ["command_log_position_idx"])),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("state", "wanted", "most"), FOUND.values(), ids=FOUND)
async def test_a_page_reads_little_more_than_it_gives(crowded: str, state: str, wanted: Filter, most: Reading) -> None:
    it = await reading(crowded, state, wanted)

    assert it.found == most.found
    assert it.rows <= most.rows
    assert set(most.indexes) <= set(it.indexes)


@pytest.mark.parametrize(
    "wanted", [Filter(tenant_id="big"), Filter(target=HANDLER), Filter()], ids=["tenant", "target", "all"]
)
async def test_a_late_page_costs_what_the_first_one_does(crowded: str, wanted: Filter) -> None:
    async with session(crowded) as client:
        page = (await find_timers(client, PENDING, wanted, size=8_000)).next

    first = await reading(crowded, PENDING, wanted)
    late = await reading(crowded, PENDING, wanted, page)

    assert first.found == late.found == PAGE
    assert late.rows <= first.rows * 1.1
    assert late.indexes == first.indexes


async def test_a_due_window_reads_only_what_lies_in_it(crowded: str) -> None:
    low = datetime.now(UTC) + timedelta(days=15)
    window = Filter(tenant_id="big", due_from=low, due_before=low + timedelta(minutes=5))

    for wanted in (window, replace(window, tenant_id=None)):
        it = await reading(crowded, PENDING, wanted)

        assert it.rows == it.found


# What the keys of all are found by: a page of them reads what is asked for, if that is little.
KEYS: dict[str, tuple[str, Filter, Reading]] = {
    "small_tenant": (PENDING, Filter(tenant_id="tenant-7"), Reading(PAGE, 40, [])),
    "name": (PENDING, Filter("big", name_prefix="order-1234"), Reading(11, 11, [])),
    "process": (PENDING, Filter(process_instance_key=77), Reading(10, 10, [])),
    "rare_target": (PENDING, Filter("default", target=RARE), Reading(PAGE, 100, ["timers_by_target"])),
    "no_target": (PENDING, Filter(target="nowhere"), Reading(0, 0, ["timers_by_target"])),
    "all": (PENDING, Filter(), Reading(PAGE, PAGE + 1, ["timers_pkey"])),
    "paused": (PAUSED, Filter("big"), Reading(PAGE, 20, [])),
}


@pytest.mark.parametrize(("state", "wanted", "most"), KEYS.values(), ids=KEYS)
async def test_a_page_of_keys_reads_no_more_than_what_is_asked_for(
    crowded: str, state: str, wanted: Filter, most: Reading
) -> None:
    it = await reading(crowded, state, wanted, 0, function="find_keys")

    assert it.found == most.found
    assert it.rows <= most.rows
    assert set(most.indexes) <= set(it.indexes)

"""Prove that a search reads few more rows than it returns, by the index that is made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg
import pytest

from shardclock_server.sql.clients.search import SelectionFilter, TimerFilter, find_timers
from shardclock_server.sql.statements import statement
from tests.support.deliveries import HANDLER, declare
from tests.support.factories import add_timers, query
from tests.support.plans import INDEXES_USED, counting_rows_read
from tests.support.postgres import Server
from tests.support.sql_client import session

PENDING, PAUSED, ENDED = "PENDING", "PAUSED", "ENDED"
RARE = "cart.left"
PAGE = 20
SLOTS = 840

READ = counting_rows_read()


@pytest.fixture(scope="module")
def crowded(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database with 60,000 timers, a third of one tenant, and 20,000 records; tests must not change
    it.
    """
    with postgres(18).database(fill) as dsn:
        yield dsn


async def fill(dsn: str) -> None:
    """Make timers of many tenants, a few of them paused, and a long log."""
    due = "now() + random() * interval '30 days'"
    await add_timers(dsn, 20_000, due, tenant_id="'big'", name="'order-' || i", process_instance_key="i / 10 + 1")
    await add_timers(dsn, 20_000, due, tenant_id="'tenant-' || i % 500", name="'order-' || i")
    await declare(dsn, HANDLER, RARE)
    await add_timers(dsn, 19_900, due, target=f"'{HANDLER}'")
    await add_timers(dsn, 100, due, target=f"'{RARE}'")
    await add_timers(
        dsn, 500, due, tenant_id="'big'", name="'weekly-' || i", schedule="'R/PT1H'", repetitions="-1", anchor="now()"
    )
    some = "array(select timer_key from shardclock.timers where timer_key % 1000 = 0)"
    await query(dsn, f"select shardclock.pause_timers({some})")
    ended = await add_timers(dsn, 20_000, due, tenant_id="'tenant-' || i % 500")
    await query(dsn, "select shardclock.cancel_timers($1)", ended)
    await query(dsn, "vacuum analyze")


class PageReading(NamedTuple):
    """The rows of a page, the rows read from timers and from the log, and the used indexes."""

    found: int
    rows: int
    indexes: list[str]


async def reading(
    dsn: str,
    state: str,
    wanted: TimerFilter,
    page: str | int | None = None,
    *,
    function: str = "find_timers",
    **more: object,
) -> PageReading:
    """Search one page as any client does, on a new connection."""
    arguments = {key: it for key, it in asdict(wanted).items() if it is not None} | more
    after = "page" if function == "find_timers" else "after_key"
    named = [f"{name} => ${number}" for number, name in enumerate(["page_size", after, "state", *arguments], 1)]
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            text = f"select from shardclock.{function}({', '.join(named)})"
            rows = await connection.fetch(text, PAGE, page, state, *arguments.values())
            return PageReading(
                len(rows), await connection.fetchval(READ), await connection.fetchval(INDEXES_USED) or []
            )
    finally:
        await connection.close()


# A filter, the rows of its page, the limits of rows to read, and the index.
FOUND: dict[str, tuple[str, TimerFilter, PageReading]] = {
    "small_tenant": (PENDING, TimerFilter(tenant_id="tenant-7"), PageReading(PAGE, PAGE, ["timers_by_tenant"])),
    "no_tenant": (PENDING, TimerFilter(tenant_id="nobody"), PageReading(0, 0, ["timers_by_tenant"])),
    "big_tenant": (PENDING, TimerFilter(tenant_id="big"), PageReading(PAGE, PAGE, ["timers_by_tenant"])),
    "name": (PENDING, TimerFilter("big", name_prefix="order-1234"), PageReading(11, 11, ["timers_by_name_prefix"])),
    "process": (PENDING, TimerFilter(process_instance_key=77), PageReading(10, 10, ["timers_by_process_instance"])),
    "both": (PENDING, TimerFilter("big", process_instance_key=77), PageReading(10, 10, ["timers_by_process_instance"])),
    "all": (PENDING, TimerFilter(), PageReading(PAGE, SLOTS * (PAGE + 1), ["timers_by_slot"])),
    "paused_of_a_tenant": (PAUSED, TimerFilter("big"), PageReading(PAGE, PAGE, ["timers_by_tenant"])),
    "target": (PENDING, TimerFilter(target=HANDLER), PageReading(PAGE, PAGE, ["timers_by_target"])),
    "rare_target": (PENDING, TimerFilter(target=RARE), PageReading(PAGE, PAGE, ["timers_by_target"])),
    "rare_target_of_a_tenant": (
        PENDING,
        TimerFilter("default", target=RARE),
        PageReading(PAGE, PAGE, ["timers_by_target"]),
    ),
    "no_target": (PENDING, TimerFilter(target="nowhere"), PageReading(0, 0, ["timers_by_target"])),
    "paused_of_a_target": (PAUSED, TimerFilter(target=HANDLER), PageReading(19, 19, ["timers_by_target"])),
    "paused": (PAUSED, TimerFilter(), PageReading(PAGE, 60, ["timers_by_slot"])),
    "ended": (ENDED, TimerFilter(), PageReading(PAGE, PAGE, ["command_log_position_idx"])),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("state", "wanted", "most"), FOUND.values(), ids=FOUND)
async def test_a_page_reads_few_more_rows_than_it_returns(
    crowded: str, state: str, wanted: TimerFilter, most: PageReading
) -> None:
    it = await reading(crowded, state, wanted)

    assert it.found == most.found
    assert it.rows <= most.rows
    assert set(most.indexes) <= set(it.indexes)


@pytest.mark.parametrize(
    "wanted",
    [TimerFilter(tenant_id="big"), TimerFilter(target=HANDLER), TimerFilter()],
    ids=["tenant", "target", "all"],
)
async def test_a_late_page_costs_as_much_as_the_first_page(crowded: str, wanted: TimerFilter) -> None:
    async with session(crowded) as client:
        page = (await find_timers(client, PENDING, wanted, size=8_000)).next

    first = await reading(crowded, PENDING, wanted)
    late = await reading(crowded, PENDING, wanted, page)

    assert first.found == late.found == PAGE
    assert late.rows <= first.rows * 1.1
    assert late.indexes == first.indexes


async def test_a_window_of_due_dates_reads_only_its_rows(crowded: str) -> None:
    low = datetime.now(UTC) + timedelta(days=15)
    window = TimerFilter(tenant_id="big", due_from=low, due_before=low + timedelta(minutes=5))

    for wanted in (window, replace(window, tenant_id=None)):
        it = await reading(crowded, PENDING, wanted)

        assert it.rows == it.found


async def test_timers_by_change_read_only_their_page(crowded: str) -> None:
    """Only the paused timers of the fixture have a change by a client."""
    for state, found in ((PAUSED, PAGE), (PENDING, 0)):
        it = await reading(crowded, state, TimerFilter("big"), order_by="change")

        assert it.found == found
        assert it.rows <= PAGE + 1
        assert "timers_by_change" in it.indexes or state == PENDING


@pytest.mark.parametrize("wanted", [TimerFilter("big", only_schedules=True), TimerFilter(only_schedules=True)])
async def test_schedules_are_found_without_reading_plain_timers(crowded: str, wanted: TimerFilter) -> None:
    it = await reading(crowded, PENDING, wanted)

    assert it.found == PAGE
    assert it.rows <= 500 + PAGE
    assert "schedules_by_tenant" in it.indexes


@pytest.mark.parametrize("plan", ["force_generic_plan", "force_custom_plan"])
async def test_a_section_of_names_reads_a_limited_number_of_names_and_the_matching_timers(
    crowded: str, plan: str
) -> None:
    values = {"state": PENDING, "bytes": None, "after": "order-12", "names_max": 1_000, "page_size": PAGE}
    filters = {**asdict(TimerFilter("big", name_contains="-1234")), **values}
    del filters["name_prefix"]
    connection = await asyncpg.connect(crowded)
    try:
        async with connection.transaction():
            await connection.execute(f"set local plan_cache_mode = {plan}; set local enable_seqscan = off")
            rows = await connection.fetch(*statement("find_containing").with_values(filters))
            read, used = await connection.fetchval(READ), await connection.fetchval(INDEXES_USED)
    finally:
        await connection.close()

    assert [row["name"] for row in rows[:-1]] == ["order-1234", *(f"order-1234{digit}" for digit in range(10))]
    assert rows[-1]["page"] is not None
    assert read <= 1_000 + len(rows)
    assert used == ["timers_by_name_prefix"]


# The searches for keys: a page reads only the matching rows, if these are few.
KEYS: dict[str, tuple[str, TimerFilter, PageReading]] = {
    "small_tenant": (PENDING, TimerFilter(tenant_id="tenant-7"), PageReading(PAGE, 40, [])),
    "name": (PENDING, TimerFilter("big", name_prefix="order-1234"), PageReading(11, 11, [])),
    "process": (PENDING, TimerFilter(process_instance_key=77), PageReading(10, 10, [])),
    "rare_target": (PENDING, TimerFilter("default", target=RARE), PageReading(PAGE, 100, ["timers_by_target"])),
    "no_target": (PENDING, TimerFilter(target="nowhere"), PageReading(0, 0, ["timers_by_target"])),
    "all": (PENDING, TimerFilter(), PageReading(PAGE, PAGE + 1, ["timers_pkey"])),
    "paused": (PAUSED, TimerFilter("big"), PageReading(PAGE, 20, [])),
    "keys": (PENDING, SelectionFilter(timer_keys=(1, 2, 3)), PageReading(3, 3, ["timers_pkey"])),
}


@pytest.mark.parametrize(("state", "wanted", "most"), KEYS.values(), ids=KEYS)
async def test_a_page_of_keys_reads_only_the_matching_rows(
    crowded: str, state: str, wanted: TimerFilter, most: PageReading
) -> None:
    it = await reading(crowded, state, wanted, 0, function="find_keys")

    assert it.found == most.found
    assert it.rows <= most.rows
    assert set(most.indexes) <= set(it.indexes)


# The largest number of rows that a count may read: with many matches a small multiple of its limit, with few matches
# only the matches.
COUNTS: dict[str, tuple[str, TimerFilter, int]] = {
    "all": (PENDING, TimerFilter(), 2 * PAGE),
    "big_tenant": (PENDING, TimerFilter("big"), 2 * PAGE),
    "soon": (PENDING, TimerFilter(due_before=datetime.now(UTC) + timedelta(days=15)), 4 * PAGE),
    "small_tenant": (PENDING, TimerFilter(tenant_id="tenant-7"), 2 * PAGE),
    "name": (PENDING, TimerFilter("big", name_prefix="order-1234"), 11),
    "no_target": (PENDING, TimerFilter(target="nowhere"), 0),
    "paused": (PAUSED, TimerFilter("big"), PAGE),
}


@pytest.mark.parametrize(("state", "wanted", "most"), COUNTS.values(), ids=COUNTS)
async def test_a_count_reads_few_more_rows_than_its_limit(
    crowded: str, state: str, wanted: TimerFilter, most: int
) -> None:
    arguments = {key: it for key, it in asdict(wanted).items() if it is not None}
    named = ", ".join(f"{name} => ${number}" for number, name in enumerate(["timers_max", "state", *arguments], 1))
    connection = await asyncpg.connect(crowded)
    try:
        async with connection.transaction():
            counted = await connection.fetchval(
                f"select of_clients from shardclock.count_timers({named})", PAGE, state, *arguments.values()
            )
            read = await connection.fetchval(READ)
    finally:
        await connection.close()

    assert counted <= PAGE
    assert read <= most

"""Prove that a scan reads fired rows only in a few slots, and that all scans together find every timer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from shardclock_server.metrics.tables import AGE_EDGES, AGES, ALL_TIME
from shardclock_server.sql.claims.claim import Scope, leased_by
from shardclock_server.sql.claims.scan_window import ScanWindow
from shardclock_server.sql.metrics.measures import count_due, measure_cluster
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS
from tests.support.factories import HolderClient, add_fired_rows, add_holder, add_timers, old_snapshot, query
from tests.support.plans import counting, prepare, taking, window_values
from tests.support.roles import as_role

MANY = 20 * SLOTS
STRETCHES = [(0, 1), (17, 5), (800, 100), (839, 1), (0, SLOTS)]


def within(key: int, first: int, slots: int) -> bool:
    return (key % SLOTS - first) % SLOTS < slots


async def fired(dsn: str) -> set[int]:
    return {row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.command_log")}


@pytest.mark.parametrize("scope", ["own", "sweep"])
@pytest.mark.parametrize(("first", "slots"), STRETCHES)
async def test_a_scan_takes_long_overdue_timers_only_from_the_slots_that_it_reads_in_full(
    each_dsn: str, scope: Scope, first: int, slots: int
) -> None:
    await add_holder(each_dsn, 1)
    window = await add_timers(each_dsn, 2_000, "now() - interval '0.1 s'")
    old = await add_timers(each_dsn, 4_000, "now() - interval '1 minute'")

    async with HolderClient(each_dsn, holder=1) as shard:
        taken = await shard.take(
            scope=scope,
            horizon_s=0,
            batch=MANY,
            fire_overdue=True,
            window=ScanWindow(30.0, full_from=first, full_count=slots),
        )

    expected = {key for key in old if within(key, first, slots)}
    assert await fired(each_dsn) == expected.union(window)
    assert taken.fired == len(expected) + len(window)


async def test_a_scan_with_a_window_leaves_timers_for_which_the_ramp_has_no_room(dsn: str) -> None:
    await add_holder(dsn, 1)
    old = await add_timers(dsn, 4_000, "now() - interval '5 s'")
    await add_timers(dsn, 4_000, "now() - interval '1 minute'")

    async with HolderClient(dsn, holder=1) as shard:
        await shard.take(horizon_s=0, batch=MANY, fire_overdue=True, floor_s=10.0, window=ScanWindow(2.0, 40, 200))

    assert await fired(dsn) == {key for key in old if within(key, 40, 200)}


async def test_an_outage_scan_with_a_window_gives_tenants_no_shares(dsn: str) -> None:
    """A tenant's oldest timer comes after all of the tenant's fired rows."""
    await add_holder(dsn, 1)
    old = await add_timers(dsn, 2_000, "now() - interval '1 minute'", tenant_id="'small'")

    async with HolderClient(dsn, holder=1) as shard:
        take = partial(shard.take, scope="outage", horizon_s=-10, floor_s=10, batch=MANY, fire_overdue=True)
        window, rest = await take(window=ScanWindow(2.0, 100, 50)), await take()

    expected = sum(within(key, 100, 50) for key in old)
    assert (window.fired, rest.fired) == (expected, len(old) - expected)


async def test_while_a_holders_leases_are_free_the_window_goes_back_two_leases(dsn: str) -> None:
    """A dead shard's leased timers must not wait for their slot's turn; the shard had leased no earlier timers."""
    await add_holder(dsn, 1)
    await add_holder(dsn, 2, None, None)
    leased = {"claimed_by": "2", "claimed_until": "now() + interval '9 s'"}
    due = await add_timers(dsn, 2_000, "now() - interval '18 s'", **leased)
    await add_timers(dsn, 1_000, "now() - interval '1 minute'", **leased)
    window = ScanWindow(2.0, full_from=0, full_count=0)

    async with HolderClient(dsn, holder=1) as shard:
        before = await shard.take(horizon_s=0, batch=MANY, fire_overdue=True, window=window)
        await query(dsn, "update shardclock.holders set ended_at = now(), ended_why = 'dead' where holder = 2")
        after = await shard.take(horizon_s=0, batch=MANY, fire_overdue=True, window=window)

    assert (before.fired, after.fired) == (0, len(due))
    assert await fired(dsn) == set(due)


async def test_timers_leased_in_a_lost_answer_are_recalled_unless_they_are_late_by_a_lease(dsn: str) -> None:
    await add_holder(dsn, 1)
    soon = await add_timers(dsn, 3, "now() + interval '1 s'")
    late = await add_timers(dsn, 3, "now() - interval '5 s'")
    await add_timers(dsn, 3, "now() - interval '20 s'")

    async with HolderClient(dsn, holder=1) as shard:
        assert len((await shard.take()).claimed) == 9
        recalled = await leased_by(shard.session, 1, horizon_s=2.0, lease_s=10.0)

    assert {timer.timer_key for timer in recalled} == {*soon, *late}


@pytest.mark.parametrize(("first", "slots"), STRETCHES)
async def test_overdue_timers_are_counted_as_far_back_as_the_window_goes(dsn: str, first: int, slots: int) -> None:
    old = await add_timers(dsn, 4_000, "now() - interval '1 minute'")
    await add_timers(dsn, 2_000, "now() - interval '5 s'")
    await add_timers(dsn, 1_000, "now() + interval '1 hour'")
    window = ScanWindow(30.0, full_from=first, full_count=slots)
    expected = sum(within(key, first, slots) for key in old)

    async with Session(as_role(dsn, "reader"), application="test") as session:
        overdue = await count_due(session, AGE_EDGES, window=window)
        pending = await count_due(session, ALL_TIME, window=window)
        measured = await measure_cluster(session, window)

    assert dict(zip(AGES, overdue.timers, strict=True)) == {
        "under_1s": 0, "under_10s": 2_000, "under_1m": 0, "under_10m": expected, "over_10m": 0,
    }  # fmt: skip
    assert list(pending.timers) == [expected + 3_000]
    for found in (overdue, pending, measured):
        assert 60 < found.oldest_overdue_s < 90 if expected else 5 < found.oldest_overdue_s < 30


async def test_the_oldest_timer_is_measured_when_its_slot_is_read_in_full(dsn: str) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 minute'")

    async with Session(as_role(dsn, "reader"), application="test") as session:
        for first, slots in ((key, 1), (key - 1, 2), (key + 1, SLOTS - 1), (key - 1, 1)):
            measured = await measure_cluster(session, ScanWindow(30.0, first % SLOTS, slots))
            assert (measured.oldest_overdue_s > 0) == within(key, first, slots), (first, slots)


async def test_nothing_is_overdue_in_an_empty_table_or_among_future_timers(dsn: str) -> None:
    async with Session(as_role(dsn, "reader"), application="test") as session:
        empty = await count_due(session, ALL_TIME)
        await add_timers(dsn, 10, "now() + interval '1 hour'")
        coming = await count_due(session, ALL_TIME)

    assert (empty.oldest_overdue_s, coming.oldest_overdue_s) == (0.0, 0.0)


@pytest.fixture
async def fired_50_000(dsn: str) -> AsyncIterator[str]:
    """Yield a database with 50,000 fired rows that no vacuum can remove, because of an open snapshot."""
    await add_holder(dsn, 1)
    async with old_snapshot(dsn):
        await add_fired_rows(dsn, 50_000)
        yield dsn


@pytest.mark.parametrize("name", ["claim_due", "measure_cluster", "count_due"])
async def test_a_scan_with_a_window_does_not_read_past_every_fired_row(fired_50_000: str, name: str) -> None:
    spellings: dict[str, Callable[..., list[str]]] = {
        "claim_due": partial(taking, 1, horizon="0 s"),
        "measure_cluster": window_values,
        "count_due": partial(counting, AGE_EDGES),
    }
    spell, ask = spellings[name], await prepare(fired_50_000, name)

    all_the_way = await ask.explain(*spell())
    window = await ask.explain(*spell(window=("'2 s'", 100, 42)))

    await ask.connection.close()
    assert all_the_way.pages > 50_000, "each is looked up"
    assert window.pages < 50_000 / 20 + 8 * SLOTS, "each of a twentieth; and one or two descents for each slot"


async def test_a_recall_reads_past_no_row_that_fired_longer_ago_than_a_lease(fired_50_000: str) -> None:
    ask = await prepare(fired_50_000, "leased_by")

    recall = await ask.explain("1", "'2 s'", "'10 s'")

    await ask.connection.close()
    assert recall.pages < 4 * SLOTS


async def test_a_scan_of_one_slot_takes_no_timer_of_another(dsn: str) -> None:
    await add_holder(dsn, 1)
    keys = await add_timers(dsn, 2_000, "now() - interval '1 s'")
    async with HolderClient(dsn, 1) as shard:
        taken = await shard.take(fire_overdue=True, slot=17)

    due = {key for key in keys if key % SLOTS == 17}
    assert taken.fired == len(due) > 1
    assert await fired(dsn) == due

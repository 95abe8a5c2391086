"""Prove that a scan reads fired rows in a few slots only, and that the scans together find every timer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from metrics.tables import AGE_EDGES, AGES, FROM_EVER_ON
from sql.claims.claim import Scope, held_by
from sql.claims.scan_window import ScanWindow
from sql.metrics.measures import count_due, measure_cluster
from sql.session import Session
from tests.support.factories import HolderClient, add_fired_rows, add_holder, add_timers, old_snapshot, query
from tests.support.plans import counting, prepare, taking, window_values
from tests.support.roles import as_role
from timers.model import SLOTS

MANY = 20 * SLOTS
STRETCHES = [(0, 1), (17, 5), (800, 100), (839, 1), (0, SLOTS)]


def within(key: int, first: int, slots: int) -> bool:
    return (key % SLOTS - first) % SLOTS < slots


async def fired(dsn: str) -> set[int]:
    return {row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.command_log")}


@pytest.mark.parametrize("scope", ["own", "sweep"])
@pytest.mark.parametrize(("first", "slots"), STRETCHES)
async def test_what_fell_due_long_ago_is_taken_from_the_slots_whose_turn_it_is(
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


async def test_what_the_ramp_holds_back_is_held_back_there_too(dsn: str) -> None:
    await add_holder(dsn, 1)
    old = await add_timers(dsn, 4_000, "now() - interval '5 s'")
    await add_timers(dsn, 4_000, "now() - interval '1 minute'")

    async with HolderClient(dsn, holder=1) as shard:
        await shard.take(horizon_s=0, batch=MANY, fire_overdue=True, floor_s=10.0, window=ScanWindow(2.0, 40, 200))

    assert await fired(dsn) == {key for key in old if within(key, 40, 200)}


async def test_tenants_have_no_share_of_a_look_that_does_not_go_all_the_way(dsn: str) -> None:
    """A tenant's oldest timer is behind all of his that have fired."""
    await add_holder(dsn, 1)
    old = await add_timers(dsn, 2_000, "now() - interval '1 minute'", tenant_id="'small'")

    async with HolderClient(dsn, holder=1) as shard:
        take = partial(shard.take, scope="backlog", horizon_s=-10, floor_s=10, batch=MANY, fire_overdue=True)
        window, rest = await take(window=ScanWindow(2.0, 100, 50)), await take()

    expected = sum(within(key, 100, 50) for key in old)
    assert (window.fired, rest.fired) == (expected, len(old) - expected)


async def test_while_somebodys_leases_are_free_what_was_due_for_two_leases_is_looked_at(dsn: str) -> None:
    """What a dead shard had leased must not wait for its slot's turn: it leased nothing before that."""
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


async def test_what_a_lost_answer_leased_is_recalled_unless_it_is_late_by_a_lease(dsn: str) -> None:
    await add_holder(dsn, 1)
    soon = await add_timers(dsn, 3, "now() + interval '1 s'")
    late = await add_timers(dsn, 3, "now() - interval '5 s'")
    await add_timers(dsn, 3, "now() - interval '20 s'")

    async with HolderClient(dsn, holder=1) as shard:
        assert len((await shard.take()).claimed) == 9
        recalled = await held_by(shard.session, 1, horizon_s=2.0, lease_s=10.0)

    assert {timer.timer_key for timer in recalled} == {*soon, *late}


@pytest.mark.parametrize(("first", "slots"), STRETCHES)
async def test_what_is_overdue_is_counted_as_far_back_as_it_is_looked(dsn: str, first: int, slots: int) -> None:
    old = await add_timers(dsn, 4_000, "now() - interval '1 minute'")
    await add_timers(dsn, 2_000, "now() - interval '5 s'")
    await add_timers(dsn, 1_000, "now() + interval '1 hour'")
    look = ScanWindow(30.0, full_from=first, full_count=slots)
    expected = sum(within(key, first, slots) for key in old)

    async with Session(as_role(dsn, "reader"), application="test") as session:
        overdue = await count_due(session, AGE_EDGES, window=look)
        pending = await count_due(session, FROM_EVER_ON, window=look)
        measured = await measure_cluster(session, look)

    assert dict(zip(AGES, overdue.timers, strict=True)) == {
        "under_1s": 0, "under_10s": 2_000, "under_1m": 0, "under_10m": expected, "over_10m": 0,
    }  # fmt: skip
    assert list(pending.timers) == [expected + 3_000]
    for found in (overdue, pending, measured):
        assert 60 < found.oldest_overdue_s < 90 if expected else 5 < found.oldest_overdue_s < 30


async def test_the_oldest_is_seen_when_it_is_its_slots_turn(dsn: str) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 minute'")

    async with Session(as_role(dsn, "reader"), application="test") as session:
        for first, slots in ((key, 1), (key - 1, 2), (key + 1, SLOTS - 1), (key - 1, 1)):
            measured = await measure_cluster(session, ScanWindow(30.0, first % SLOTS, slots))
            assert (measured.oldest_overdue_s > 0) == within(key, first, slots), (first, slots)


async def test_of_an_empty_table_and_of_what_is_to_come_nothing_is_overdue(dsn: str) -> None:
    async with Session(as_role(dsn, "reader"), application="test") as session:
        empty = await count_due(session, FROM_EVER_ON)
        await add_timers(dsn, 10, "now() + interval '1 hour'")
        coming = await count_due(session, FROM_EVER_ON)

    assert (empty.oldest_overdue_s, coming.oldest_overdue_s) == (0.0, 0.0)


@pytest.fixture
async def fired_50_000(dsn: str) -> AsyncIterator[str]:
    """Give a database in which so many have fired since somebody's snapshot: no vacuum clears them away."""
    await add_holder(dsn, 1)
    async with old_snapshot(dsn):
        await add_fired_rows(dsn, 50_000)
        yield dsn


@pytest.mark.parametrize("name", ["claim_due", "measure_cluster", "count_due"])
async def test_rows_that_have_fired_and_must_stay_are_not_gone_through_each_time(fired_50_000: str, name: str) -> None:
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


async def test_a_recall_goes_through_none_that_fired_longer_ago_than_a_lease(fired_50_000: str) -> None:
    ask = await prepare(fired_50_000, "held_by")

    recall = await ask.explain("1", "'2 s'", "'10 s'")

    await ask.connection.close()
    assert recall.pages < 4 * SLOTS

"""A scan reads fired rows in only a few slots, and all scans together find every timer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.metrics.tables import AGE_EDGES, AGES, ALL_TIME
from shardclock_server.sql.claims.claim import Scope, leased_by
from shardclock_server.sql.claims.scan_window import RotatingScan, ScanWindow
from shardclock_server.sql.metrics.measures import count_due, measure_cluster
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS
from tests.support.factories import HolderClient, add_fired_rows, add_holder, add_timers, old_snapshot, query
from tests.support.plans import counting, prepare, taking, window_values
from tests.support.roles import as_role

NOW_S = 5_000.0
QUICK_S, SLOW_S = 0.01, 2.0
Outcome = Literal["quick", "slow", "refused", "stuck"]


@pytest.fixture
def rotation() -> RotatingScan:
    return RotatingScan(0.5, 2.0, long_s=0.5)


def scan(
    rotation: RotatingScan, outcome: Outcome = "quick", *, now_s: float, every_s: float | None = None
) -> int | None:
    """Make one scan; return the number of slots that the scan read from their oldest row, or None for all slots."""
    window = rotation.begin(now_s=now_s, every_s=every_s)
    end_s = now_s + (QUICK_S if outcome in {"quick", "refused"} else SLOW_S)
    if outcome in {"quick", "slow"}:
        rotation.learn(now_s=end_s)
    else:
        rotation.fail(now_s=end_s)
    return None if window is None else window.full_count


def whole(rotation: RotatingScan, outcomes: Sequence[Outcome]) -> list[int | None]:
    return [scan(rotation, outcome, now_s=NOW_S + 10 * number) for number, outcome in enumerate(outcomes)]


def test_a_slow_scan_halves_the_number_of_slots_that_the_next_scan_reads_in_full(rotation: RotatingScan) -> None:
    assert whole(rotation, ["slow", "slow", "slow", "quick"]) == [None, 420, 210, 105]


def test_after_a_stuck_scan_the_next_one_reads_an_eighth_of_the_slots_in_full(rotation: RotatingScan) -> None:
    assert whole(rotation, ["stuck", "stuck", "stuck", "stuck"]) == [None, 105, 13, 1]


def test_soon_after_a_lock_that_blocked_all_scans_the_scans_read_all_slots_in_full_again(
    rotation: RotatingScan,
) -> None:
    """A timer that is long overdue when it is written waits for its slot's turn, but not for ten scans."""
    whole(rotation, ["stuck"] * 4)

    assert whole(rotation, ["quick"] * 5) == [1, 8, 64, 512, None]


def test_a_scan_reads_as_many_slots_in_full_as_fit_in_its_time(rotation: RotatingScan) -> None:
    """A scan reads slots at the last scan's rate, but at least twice as many, because other work may have slowed that
    scan.
    """
    whole(rotation, ["stuck"])
    read = []
    for number, took_s in enumerate((0.125, 0.5, 0.51)):
        at_s = NOW_S + 10 * (number + 1)
        window = rotation.begin(now_s=at_s)
        read.append(None if window is None else window.full_count)
        rotation.learn(now_s=at_s + took_s)

    assert (*read, scan(rotation, now_s=NOW_S + 90)) == (105, 420, None, 420)


def test_a_scan_that_failed_at_once_changes_no_later_scan(rotation: RotatingScan) -> None:
    """A refusal says nothing about the speed of scans: for example, Postgres may be restarting."""
    refused: list[Outcome] = ["refused"] * 9

    assert whole(rotation, ["quick", *refused, "quick"]) == [None] * 11


def test_quick_scans_of_few_slots_do_not_raise_the_limit_of_full_slots(rotation: RotatingScan) -> None:
    whole(rotation, ["stuck", "stuck", "quick"])
    few = [scan(rotation, now_s=NOW_S + 60 + number, every_s=0.002) for number in range(9)]

    assert few == [4] * 9
    assert scan(rotation, now_s=NOW_S + 90) == 104


def test_the_window_starts_when_the_last_answered_scan_began(rotation: RotatingScan) -> None:
    scan(rotation, now_s=NOW_S)
    scan(rotation, "refused", now_s=NOW_S + 1, every_s=0.25)
    scan(rotation, "stuck", now_s=NOW_S + 2, every_s=0.25)

    assert rotation.begin(now_s=NOW_S + 5, every_s=0.25) == ScanWindow(7.0, full_from=0, full_count=52)


def test_the_window_starts_at_the_oldest_timer_that_a_scan_left_overdue(rotation: RotatingScan) -> None:
    rotation.begin(now_s=NOW_S)
    rotation.learn(now_s=NOW_S, left_s=3_600.0)

    assert rotation.begin(now_s=NOW_S + 1, every_s=0.25) == ScanWindow(3_603.0, full_from=0, full_count=420)


def test_after_a_stuck_first_scan_the_rotation_finds_timers_that_were_due_before_the_scan(
    rotation: RotatingScan,
) -> None:
    scan(rotation, "stuck", now_s=NOW_S)

    assert rotation.begin(now_s=NOW_S + 1) == ScanWindow(3.0, full_from=0, full_count=105)


def test_when_a_scan_of_one_full_slot_gets_stuck_the_window_starts_at_that_scan(rotation: RotatingScan) -> None:
    """After hours without a network, a shard must not read all timers that other shards have fired in these hours."""
    scan(rotation, now_s=NOW_S)
    for number in range(1, 4):
        scan(rotation, "stuck", now_s=NOW_S + 3_600 + 10 * number)
    assert rotation.begin(now_s=NOW_S + 3_640) == ScanWindow(3_642.0, full_from=0, full_count=1)
    rotation.fail(now_s=NOW_S + 3_643)

    assert rotation.begin(now_s=NOW_S + 3_650) == ScanWindow(12.0, full_from=0, full_count=1)


class Row(NamedTuple):
    """A timer: its slot, its due date, and the moment from which statements could see the timer."""

    slot: int
    due_s: float
    visible_s: float


def sees(window: ScanWindow | None, row: Row, now_s: float) -> bool:
    if row.visible_s > now_s or row.due_s > now_s:
        return False
    if window is None or (row.slot - window.full_from) % SLOTS < window.full_count:
        return True
    return row.due_s > now_s - window.recent_s


ROWS = st.builds(
    Row,
    slot=st.integers(0, SLOTS - 1),
    due_s=st.floats(-1_000, 30),
    visible_s=st.floats(-1_000, 30),
)
TURNS = st.lists(
    st.tuples(
        st.sampled_from(("quick", "slow", "refused", "stuck")), st.sampled_from((None, 0.002, 0.1)), st.floats(0, 3)
    ),
    max_size=30,
)


@given(rows=st.lists(ROWS, min_size=1, max_size=20), turns=TURNS)
def test_scans_find_every_timer_soon_after_any_failures(
    rows: list[Row], turns: list[tuple[Outcome, float | None, float]]
) -> None:
    rotation, now_s = RotatingScan(0.5, 2.0, long_s=0.5), 0.0
    unseen = set(rows)
    calm: list[tuple[Outcome, float | None, float]] = [("quick", 0.1, 0.1)] * 20
    for outcome, every_s, pause_s in [*turns, ("quick", 0.1, 40.0), *calm]:
        window = rotation.begin(now_s=now_s, every_s=every_s)
        if outcome in {"quick", "slow"}:
            unseen -= {row for row in unseen if sees(window, row, now_s)}
        now_s += QUICK_S if outcome in {"quick", "refused"} else SLOW_S
        (rotation.learn if outcome in {"quick", "slow"} else rotation.fail)(now_s=now_s)
        now_s += pause_s

    assert not unseen


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


async def test_a_scan_of_one_slot_claims_no_timer_of_another_slot(dsn: str) -> None:
    await add_holder(dsn, 1)
    keys = await add_timers(dsn, 2_000, "now() - interval '1 s'")
    async with HolderClient(dsn, 1) as shard:
        taken = await shard.take(fire_overdue=True, slot=17)

    due = {key for key in keys if key % SLOTS == 17}
    assert taken.fired == len(due) > 1
    assert await fired(dsn) == due

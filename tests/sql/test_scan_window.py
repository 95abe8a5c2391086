"""A scan never begins so early that it makes no progress. Together, all scans find every timer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.sql.claims.scan_window import RotatingScan, ScanWindow
from shardclock_server.timers.model import SLOTS

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


def test_soon_after_a_lock_that_blocked_all_scans_they_read_all_slots_in_full_again(rotation: RotatingScan) -> None:
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
    """Postgres may be restarting: after the restart no scan may take longer than before."""
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


def test_after_a_stuck_first_scan_the_rotation_finds_timers_due_before_it(rotation: RotatingScan) -> None:
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

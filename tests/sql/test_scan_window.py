"""A look goes as far back as it must, never so far that it doesn't come back, and finds everything in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.claims.scan_window import RotatingScan, ScanWindow
from timers.model import SLOTS

NOW_S = 5_000.0
QUICK_S, SLOW_S = 0.01, 2.0
Outcome = Literal["quick", "slow", "refused", "stuck"]


@pytest.fixture
def looks() -> RotatingScan:
    """Give rounds of half a second, of which no look has been made."""
    return RotatingScan(0.5, 2.0, long_s=0.5)


def look(looks: RotatingScan, outcome: Outcome = "quick", *, now_s: float, every_s: float | None = None) -> int | None:
    """Make one look; how many slots it took from their oldest row, None for all."""
    window = looks.begin(now_s=now_s, every_s=every_s)
    end_s = now_s + (QUICK_S if outcome in {"quick", "refused"} else SLOW_S)
    if outcome in {"quick", "slow"}:
        looks.learn(now_s=end_s)
    else:
        looks.fail(now_s=end_s)
    return None if window is None else window.full_count


def whole(looks: RotatingScan, outcomes: Sequence[Outcome]) -> list[int | None]:
    return [look(looks, outcome, now_s=NOW_S + 10 * number) for number, outcome in enumerate(outcomes)]


def test_a_look_that_took_long_is_followed_by_one_that_takes_half_as_many_slots(looks: RotatingScan) -> None:
    assert whole(looks, ["slow", "slow", "slow", "quick", "quick", "quick", "quick"]) == [
        None, 420, 210, 105, 210, 420, None,
    ]  # fmt: skip


def test_one_that_did_not_come_back_is_followed_by_one_that_takes_far_fewer(looks: RotatingScan) -> None:
    assert whole(looks, ["stuck", "stuck", "stuck", "stuck", "quick", "quick"]) == [None, 105, 13, 1, 1, 2]


def test_one_that_failed_at_once_says_nothing(looks: RotatingScan) -> None:
    """Postgres may be restarting: when it is there again, nothing is to take longer than before."""
    refused: list[Outcome] = ["refused"] * 9

    assert whole(looks, ["quick", *refused, "quick"]) == [None] * 11


def test_quick_looks_at_few_slots_say_nothing_of_many(looks: RotatingScan) -> None:
    whole(looks, ["stuck", "stuck", "quick"])
    few = [look(looks, now_s=NOW_S + 60 + number, every_s=0.002) for number in range(9)]

    assert few == [4] * 9
    assert look(looks, now_s=NOW_S + 90) == 26


def test_lately_is_since_the_last_look_that_came_back_began(looks: RotatingScan) -> None:
    look(looks, now_s=NOW_S)
    look(looks, "refused", now_s=NOW_S + 1, every_s=0.25)
    look(looks, "stuck", now_s=NOW_S + 2, every_s=0.25)

    assert looks.begin(now_s=NOW_S + 5, every_s=0.25) == ScanWindow(7.0, full_from=0, full_count=52)


def test_lately_is_since_the_oldest_that_was_left_overdue(looks: RotatingScan) -> None:
    looks.begin(now_s=NOW_S)
    looks.learn(now_s=NOW_S, left_s=3_600.0)

    assert looks.begin(now_s=NOW_S + 1, every_s=0.25) == ScanWindow(3_603.0, full_from=0, full_count=420)


def test_what_fell_due_before_a_first_look_that_got_stuck_is_left_to_the_round(looks: RotatingScan) -> None:
    look(looks, "stuck", now_s=NOW_S)

    assert looks.begin(now_s=NOW_S + 1) == ScanWindow(3.0, full_from=0, full_count=105)


def test_when_even_one_slot_is_too_many_lately_begins_anew(looks: RotatingScan) -> None:
    """A shard that was cut off for hours, while others fired, must not go through all that they have fired."""
    look(looks, now_s=NOW_S)
    for number in range(1, 4):
        look(looks, "stuck", now_s=NOW_S + 3_600 + 10 * number)
    assert looks.begin(now_s=NOW_S + 3_640) == ScanWindow(3_642.0, full_from=0, full_count=1)
    looks.fail(now_s=NOW_S + 3_643)

    assert looks.begin(now_s=NOW_S + 3_650) == ScanWindow(12.0, full_from=0, full_count=1)


class Row(NamedTuple):
    """A timer: where it is, when it is due, and when it could be seen."""

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
def test_whatever_happened_everything_is_seen_soon_after(
    rows: list[Row], turns: list[tuple[Outcome, float | None, float]]
) -> None:
    looks, now_s = RotatingScan(0.5, 2.0, long_s=0.5), 0.0
    unseen = set(rows)
    calm: list[tuple[Outcome, float | None, float]] = [("quick", 0.1, 0.1)] * 20
    for outcome, every_s, pause_s in [*turns, ("quick", 0.1, 40.0), *calm]:
        window = looks.begin(now_s=now_s, every_s=every_s)
        if outcome in {"quick", "slow"}:
            unseen -= {row for row in unseen if sees(window, row, now_s)}
        now_s += QUICK_S if outcome in {"quick", "refused"} else SLOW_S
        (looks.learn if outcome in {"quick", "slow"} else looks.fail)(now_s=now_s)
        now_s += pause_s

    assert not unseen

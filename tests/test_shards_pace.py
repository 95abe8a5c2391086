"""A claim turn takes no more than there is room for, and a backlog keeps nobody else from being on time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shards.claiming import BRISK_S, RATED_S, Pace
from shards.ramp import Ramp
from shards.settings import ShardSettings
from sql.claims import RAMP_AFTER_S, Taken, Walk
from sql.lookback import Lately

SETTINGS = ShardSettings(dsn="", poll_s=0.125, horizon_s=2.0, claim_batch=100, queue_max=1_000, sweep_s=1.0)
NOW_S = 5_000.0

AHEAD = Walk("own", 2.0, 100)
OVERDUE_ONLY = Walk("own", 0.0, 100)
UPCOMING = Walk("ahead", 2.0, 100, floor_s=0.125)
SWEEP = Walk("all", -3.0, 100)


@pytest.fixture
def pace() -> Pace:
    """Give a pace that has just swept, looked ahead one poll ago, and that no ramp holds back."""
    return Pace(SETTINGS, ramp=Ramp(per_s=None), swept_at=NOW_S, looked_at=NOW_S - 0.125)


def walks(pace: Pace, *, held: int = 0, now_s: float = NOW_S) -> list[Walk]:
    return list(pace.walks(held=held, now_s=now_s))


def turn(pace: Pace, *, now_s: float) -> list[Walk]:
    """Make a whole turn, each walk of which leaves some behind."""
    made = []
    for walk in pace.walks(held=0, now_s=now_s):
        pace.learn(walk, taken(fired=9, saturated=True), now_s=now_s)
        made.append(walk)
    return made


def taken(*, fired: int = 0, saturated: bool = False) -> Taken:
    return Taken(datetime(2026, 1, 1, tzinfo=UTC), fired, (), saturated, 0, None, "", [])


def test_takes_what_is_overdue_and_what_soon_will_be_in_one_walk(pace: Pace) -> None:
    assert walks(pace) == [AHEAD]


def test_room_for_one_whole_claim_is_enough_to_look_ahead(pace: Pace) -> None:
    assert walks(pace, held=900) == [AHEAD]
    assert walks(pace, held=901) == [OVERDUE_ONLY]


def test_a_full_queue_takes_only_what_is_overdue(pace: Pace) -> None:
    assert walks(pace, held=1_000) == [OVERDUE_ONLY]
    assert walks(pace, held=1_099) == [OVERDUE_ONLY]


def test_a_queue_that_is_over_full_by_a_claim_takes_nothing_not_even_a_sweep(pace: Pace) -> None:
    assert walks(pace, held=1_100, now_s=NOW_S + 60) == []
    assert walks(pace, held=1_099, now_s=NOW_S + 60) == [OVERDUE_ONLY, SWEEP]


def test_behind_it_looks_ahead_once_a_poll_and_takes_overdue_ones_all_the_time(pace: Pace) -> None:
    pace.behind = True

    assert turn(pace, now_s=NOW_S) == [UPCOMING, OVERDUE_ONLY]
    assert turn(pace, now_s=NOW_S + 0.0625) == [OVERDUE_ONLY]
    assert turn(pace, now_s=NOW_S + 0.125) == [UPCOMING, OVERDUE_ONLY]


def test_a_look_ahead_begins_where_the_one_before_it_began(pace: Pace) -> None:
    """What fell due between two looks would else be at the end of the backlog."""
    pace.behind = True
    turn(pace, now_s=NOW_S)

    assert turn(pace, now_s=NOW_S + 0.75) == [replace(UPCOMING, floor_s=0.75), OVERDUE_ONLY]


def test_a_look_ahead_that_failed_is_made_up_for(pace: Pace) -> None:
    pace.behind = True

    for late_s in (0.0, 0.25, 0.875):
        assert walks(pace, now_s=NOW_S + late_s)[0] == replace(UPCOMING, floor_s=0.125 + late_s)
    for walk in walks(pace, held=1_050, now_s=NOW_S + 1):
        pace.learn(walk, taken(fired=9, saturated=True), now_s=NOW_S + 1)

    assert turn(pace, now_s=NOW_S + 1.375)[0] == replace(UPCOMING, floor_s=1.5)


def test_the_first_look_ahead_begins_with_the_walk_that_found_a_backlog(pace: Pace) -> None:
    """Not earlier, or it would find nothing but the herd itself; not later, or what fell due during that walk."""
    assert turn(pace, now_s=NOW_S) == [AHEAD]

    assert turn(pace, now_s=NOW_S + 0.5) == [replace(UPCOMING, floor_s=0.5), OVERDUE_ONLY]


def test_no_look_ahead_takes_what_is_the_ramps(pace: Pace) -> None:
    pace.behind, pace.looked_at = True, NOW_S - 60

    assert walks(pace) == [replace(UPCOMING, floor_s=RAMP_AFTER_S), OVERDUE_ONLY]


def test_behind_with_a_full_queue_it_looks_ahead_for_half_a_claim_more(pace: Pace) -> None:
    """Or those who are due after a herd that filled the queue would come last of all."""
    pace.behind = True
    for held, ahead in ((950, 100), (951, 99), (1_000, 50), (1_049, 1)):
        assert walks(pace, held=held) == [replace(UPCOMING, batch=ahead), OVERDUE_ONLY]

    assert walks(pace, held=1_050) == [OVERDUE_ONLY], "what is overdue needs no room, but for this"


def test_sweeps_at_the_first_turn_and_then_at_its_interval() -> None:
    pace = Pace(SETTINGS, ramp=Ramp(per_s=None))

    assert walks(pace, now_s=NOW_S) == [AHEAD, SWEEP]
    assert walks(pace, now_s=NOW_S + 0.99) == [AHEAD]
    assert walks(pace, now_s=NOW_S + 1.0) == [AHEAD, SWEEP]
    assert walks(pace, now_s=NOW_S + 1.5) == [AHEAD]


def test_a_walk_that_learns_changes_the_next_turn_not_the_one_under_way(pace: Pace) -> None:
    under_way = pace.walks(held=0, now_s=NOW_S)
    assert next(under_way) == AHEAD

    pace.learn(AHEAD, taken(fired=50, saturated=True), now_s=NOW_S)

    assert list(under_way) == []
    assert walks(pace, now_s=NOW_S + 0.125)[1:] == [OVERDUE_ONLY]


@pytest.mark.parametrize(
    ("walk", "fired", "saturated", "behind"),
    [
        (AHEAD, 0, False, False),  # all there was
        (AHEAD, 9, False, False),  # some were overdue, and no more
        (AHEAD, 0, True, False),  # more than a claim within the horizon, none overdue
        (AHEAD, 9, True, True),  # overdue ones came first, and there may be more
        (OVERDUE_ONLY, 0, True, True),  # overdue repeats, or plain ones that go the long way
        (OVERDUE_ONLY, 9, True, True),
        (OVERDUE_ONLY, 9, False, False),  # caught up
    ],
)
def test_it_is_behind_when_a_walk_left_overdue_timers(
    pace: Pace, walk: Walk, fired: int, saturated: bool, behind: bool
) -> None:
    for before in (False, True):
        pace.behind = before

        pace.learn(walk, taken(fired=fired, saturated=saturated), now_s=NOW_S)

        assert pace.behind is behind


@pytest.mark.parametrize("walk", [UPCOMING, SWEEP, Walk("backlog", 0.0, 100, floor_s=10.0)])
def test_other_walks_say_nothing_about_its_own_backlog(pace: Pace, walk: Walk) -> None:
    for before in (False, True):
        pace.behind = before

        pace.learn(walk, taken(fired=9, saturated=not before), now_s=NOW_S)

        assert pace.behind is before


def fires(pace: Pace, per_s: int, *, since_s: float, seconds: float) -> float:
    """Let timers fire evenly for some time; when that was over."""
    parts = round(seconds / 0.1)
    for number in range(1, parts + 1):
        pace.rate(per_s // 10, now_s=since_s + number * 0.1)
    return since_s + seconds


def test_when_timers_come_fast_it_looks_often_and_leases_nothing_ahead(pace: Pace) -> None:
    pace.rate(0, now_s=NOW_S)
    assert pace.pause_s == SETTINGS.poll_s

    now_s = fires(pace, 2_100, since_s=NOW_S, seconds=RATED_S)

    assert pace.pause_s == BRISK_S
    assert walks(pace, now_s=now_s) == [OVERDUE_ONLY]


def test_it_stays_brisk_until_they_are_half_as_many(pace: Pace) -> None:
    pace.rate(0, now_s=NOW_S)
    paces = []
    now_s = NOW_S
    for per_s in (1_900, 2_100, 1_100, 900, 1_900):
        now_s = fires(pace, per_s, since_s=now_s, seconds=RATED_S)
        paces.append(pace.brisk)

    assert paces == [False, True, True, False, False]


def test_brisk_and_behind_it_looks_ahead_as_ever(pace: Pace) -> None:
    pace.rate(0, now_s=NOW_S)
    now_s = fires(pace, 5_000, since_s=NOW_S, seconds=RATED_S)
    pace.behind, pace.looked_at = True, now_s - 0.125

    assert walks(pace, now_s=now_s) == [UPCOMING, OVERDUE_ONLY]


def test_a_shard_that_has_long_fired_nothing_is_not_brisk_for_one_burst(pace: Pace) -> None:
    pace.rate(0, now_s=NOW_S)
    pace.rate(5_000, now_s=NOW_S + 60)

    assert not pace.brisk


# How far back


def calm(pace: Pace, *, now_s: float) -> list[Lately | None]:
    """Make a whole turn that leaves nothing behind; how far back each walk looked."""
    made = []
    for walk in pace.walks(held=0, now_s=now_s):
        pace.learn(walk, taken(), now_s=now_s)
        made.append(walk.lately)
    return made


def test_the_first_walk_looks_all_the_way_and_those_after_it_go_round_the_slots(pace: Pace) -> None:
    turns = [calm(pace, now_s=NOW_S + number / 8) for number in range(1, 7)]

    assert turns[0] == [None]
    assert [it[0] and it[0].first_slot for it in turns[1:]] == [0, 210, 420, 630, 0], "a quarter of half a second each"
    assert {it[0] and (it[0].within_s, it[0].slots) for it in turns[1:]} == {(2.125, 210)}


def test_a_walk_that_failed_is_made_up_for_by_the_next(pace: Pace) -> None:
    calm(pace, now_s=NOW_S)
    calm(pace, now_s=NOW_S + 0.125)
    walks(pace, now_s=NOW_S + 0.25)
    walks(pace, now_s=NOW_S + 0.5)

    assert calm(pace, now_s=NOW_S + 0.875) == [Lately(2.75, first_slot=210, slots=210)]
    assert calm(pace, now_s=NOW_S + 0.9375) == [Lately(2.0625, first_slot=420, slots=210)]


def test_behind_it_looks_all_the_way_and_lately_begins_there(pace: Pace) -> None:
    calm(pace, now_s=NOW_S)
    turn(pace, now_s=NOW_S + 0.125)
    assert pace.behind

    assert calm(pace, now_s=NOW_S + 0.5) == [None, None], "a look ahead, and a walk"
    assert calm(pace, now_s=NOW_S + 0.75) == [Lately(2.25, first_slot=210, slots=210)]


def test_who_looks_often_looks_at_few_slots_all_the_way(pace: Pace) -> None:
    calm(pace, now_s=NOW_S)
    pace.brisk = True

    assert calm(pace, now_s=NOW_S + 0.5) == [Lately(2.5, first_slot=0, slots=4)]


def test_who_looks_seldom_looks_all_the_way() -> None:
    pace = Pace(SETTINGS.model_copy(update={"poll_s": 0.5}), ramp=Ramp(per_s=None), swept_at=NOW_S)

    assert [calm(pace, now_s=NOW_S + number / 2) for number in range(2)] == [[None], [None]]


def test_sweeps_go_round_too_and_lately_is_longer_than_a_lease(pace: Pace) -> None:
    sweeps = [calm(pace, now_s=NOW_S + number)[1] for number in range(1, 12)]

    assert sweeps[0] is None
    assert sweeps[1:] == [Lately(SETTINGS.lease_s + 2 + 1, first_slot=84 * n, slots=84) for n in range(10)]


def stuck(pace: Pace, *, now_s: float) -> list[Lately | None]:
    """Make a turn in which Postgres gives no answer in time; how far back its only walk looked."""
    walk = next(pace.walks(held=0, now_s=now_s))
    pace.fail(now_s=now_s + 3)
    return [walk.lately]


@pytest.mark.parametrize("behind", [False, True])
def test_a_walk_that_gets_stuck_is_followed_by_one_that_takes_fewer_slots(pace: Pace, behind: bool) -> None:
    """Or a shard that has a backlog would never fire again while an old snapshot is held."""
    pace.behind, pace.looked_at = behind, NOW_S + 60

    assert stuck(pace, now_s=NOW_S) == [None]
    assert stuck(pace, now_s=NOW_S + 5) == [Lately(7.0, first_slot=0, slots=105)]


def test_what_an_outage_left_is_looked_for_in_fewer_slots_when_that_gets_stuck(pace: Pace) -> None:
    pace.ramp.catching_up = True
    found: dict[str, list[Lately | None]] = {}
    for number in range(3):
        for walk in pace.walks(held=0, now_s=NOW_S + 10 * number + 10):
            if walk.horizon_s == -RAMP_AFTER_S:
                found.setdefault(walk.scope, []).append(walk.lately)
                pace.fail(now_s=NOW_S + 10 * number + 13)
            else:
                pace.learn(walk, taken(), now_s=NOW_S + 10 * number + 10)

    assert {scope: [it and it.slots for it in looks] for scope, looks in found.items()} == {
        "backlog": [None, 105, 13],
        "all": [None, 105, 13],
    }


def test_a_look_ahead_belongs_to_no_round(pace: Pace) -> None:
    pace.behind = True
    ahead, *_ = walks(pace)
    turn_under_way = pace.walks(held=0, now_s=NOW_S)
    assert next(turn_under_way) == ahead == UPCOMING
    pace.fail(now_s=NOW_S + 3)

    assert walks(pace, now_s=NOW_S + 5)[-2].lately is None

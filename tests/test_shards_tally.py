"""Prove that a shard's counts agree with each other: above all, that whatever fired was late by something, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.families import LAG_EDGES_S, NO_SHARD
from metrics.report import decode, encode
from shards.tally import COUNTERS, MEASURED_OF_BACKLOG, Lateness, Present, Tally, report_of
from sql.claims import Fired, Firing, Lags, Taken, Walk
from tests.exporting import value_of
from tests.test_shards_firing import plain

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN, BACKLOG, SWEEP = Walk("own", 2.0, 100), Walk("backlog", -10.0, 100, 10.0), Walk("all", -3.0, 100)
LOOK = Walk("ahead", 2.0, 100, floor_s=0.1)
EDGES = len(LAG_EDGES_S)
QUICK = Lags("log", "USER", EDGES, 10, 0.005)
HOURS = Lags("log", "USER", 0, 10, 80_000.0)


def taken(fired: int = 0, lags: Sequence[Lags] = (), claimed: int = 0) -> Taken:
    keys = [plain(key, NOW) for key in range(1, claimed + 1)]
    return Taken(NOW, fired, lags, saturated=False, left_by_outage=0, ramp_per_s=None, next_tenant="", claimed=keys)


def counted(lateness: Lateness) -> int:
    return sum(sum(counts) for counts in lateness.counts.values())


@pytest.fixture
def lateness() -> Lateness:
    return Lateness()


@pytest.mark.parametrize(("within", "bucket"), [(EDGES, 0), (EDGES - 1, 1), (1, EDGES - 1), (0, EDGES)])
def test_a_lag_is_counted_in_the_first_bucket_that_holds_it(lateness: Lateness, within: int, bucket: int) -> None:
    lateness.learn([replace(QUICK, edges_within=within)])

    assert lateness.counts == {("log", "USER"): [0] * bucket + [10] + [0] * (EDGES - bucket)}
    assert lateness.sums_s == {("log", "USER"): 0.005}


def test_types_are_counted_apart(lateness: Lateness) -> None:
    lateness.learn([QUICK, replace(QUICK, timer_type="BOUNDARY", timers=3), QUICK])

    assert {key[1]: sum(counts) for key, counts in lateness.counts.items()} == {"USER": 20, "BOUNDARY": 3}


# Which walks are measured


def test_every_walk_of_a_shard_that_keeps_up_is_measured(lateness: Lateness) -> None:
    lateness.learn([QUICK], OWN)

    assert all(lateness.measures(OWN, behind=False) for _ in range(10))


def test_of_the_walks_over_a_backlog_the_first_and_then_some_are_measured(lateness: Lateness) -> None:
    assert lateness.measures(OWN, behind=True)
    lateness.learn([], OWN)
    assert lateness.measures(OWN, behind=True), "the first fired nothing: there is nothing to be like"
    lateness.learn([HOURS], OWN)

    measured = [lateness.measures(OWN, behind=True) for _ in range(3 * MEASURED_OF_BACKLOG)]

    assert measured == [*[False] * (MEASURED_OF_BACKLOG - 1), True] * 3


def test_each_kind_of_walk_is_measured_for_itself(lateness: Lateness) -> None:
    lateness.learn([QUICK], OWN)

    assert lateness.measures(BACKLOG, behind=True)
    lateness.learn([HOURS], BACKLOG)
    both = [(lateness.measures(OWN, behind=True), lateness.measures(BACKLOG, behind=True)) for _ in range(10)]

    assert sum(own for own, _ in both) == sum(backlog for _, backlog in both) == 10 // MEASURED_OF_BACKLOG


@pytest.mark.parametrize("walk", [SWEEP, LOOK])
def test_every_walk_that_fires_little_is_measured(lateness: Lateness, walk: Walk) -> None:
    lateness.learn([HOURS], walk)

    assert all(lateness.measures(walk, behind=True) for _ in range(10))


# What is taken to be like what


def test_a_walk_that_was_not_measured_is_like_the_last_one_that_was(lateness: Lateness) -> None:
    lateness.learn([QUICK], OWN)
    lateness.learn([replace(HOURS, timers=3, sum_s=30.0), replace(QUICK, timers=1, sum_s=0.1)], OWN)

    lateness.estimate(400, OWN)

    (counts,) = lateness.counts.values()
    assert (counts[0], counts[EDGES]) == (10 + 1 + 100, 3 + 300)
    assert lateness.sums_s["log", "USER"] == pytest.approx(0.005 + 30.1 + 400 * 30.1 / 4)


def test_a_backlog_of_hours_is_not_taken_for_what_fired_on_time_meanwhile() -> None:
    tally = Tally()
    tally.take(BACKLOG, taken(10, [HOURS]), measured=True)
    tally.take(OWN, taken(10, [QUICK]), measured=True)
    firing = Firing(plain(1, NOW))
    tally.fire([firing], Fired(NOW, NOW, frozenset([1]), [replace(QUICK, timers=1)]))

    tally.take(BACKLOG, taken(1_000), measured=False)

    (counts,) = tally.lateness.counts.values()
    assert (counts[0], counts[EDGES]) == (11, 1_010)


lags = st.builds(
    Lags,
    target=st.just("log"),
    timer_type=st.sampled_from(["USER", "BOUNDARY"]),
    edges_within=st.integers(0, EDGES),
    timers=st.integers(1, 5_000),
    sum_s=st.floats(0, 1e6),
)
walks = st.sampled_from([OWN, BACKLOG, SWEEP, LOOK])


@given(st.lists(st.tuples(walks, st.booleans(), st.lists(lags, max_size=5), st.integers(0, 5_000))))
def test_whatever_was_measured_as_many_were_late_as_fired(turns: list[tuple[Walk, bool, list[Lags], int]]) -> None:
    tally = Tally()
    for walk, behind, found, unmeasured in turns:
        measured = tally.lateness.measures(walk, behind=behind)
        fired = sum(lag.timers for lag in found) if measured else unmeasured
        tally.take(walk, taken(fired, found if measured else ()), measured=measured)

    assert counted(tally.lateness) == tally.fired
    assert min((count for counts in tally.lateness.counts.values() for count in counts), default=0) >= 0
    assert set(tally.lateness.sums_s) == set(tally.lateness.counts)


# What became of timers


def test_a_walk_adds_what_it_leased_and_fired() -> None:
    tally = Tally()

    tally.take(OWN, taken(10, [QUICK], claimed=2), measured=True)

    assert (tally.fired, tally.claimed, tally.swept) == (10, 2, 0)


def test_what_a_sweep_brought_is_swept_whether_leased_or_fired() -> None:
    tally = Tally()

    tally.take(SWEEP, taken(10, [HOURS], claimed=2), measured=True)

    assert (tally.fired, tally.claimed, tally.swept) == (10, 2, 12)


def test_of_leased_timers_those_count_that_have_gone() -> None:
    plain_one, late, missed, fenced = (plain(key, NOW - timedelta(hours=1)) for key in (1, 2, 3, 4))
    firings = [
        Firing(plain_one),
        Firing(late, skipped=5),
        Firing(missed, fires=False, skipped=7),
        Firing(fenced, skipped=100),
    ]
    tally = Tally()

    tally.fire(firings, Fired(NOW, NOW, frozenset([1, 2, 3]), [replace(QUICK, timers=2)]))

    assert (tally.fired, tally.skipped) == (2, 12)
    assert counted(tally.lateness) == tally.fired


# What is said of it


def test_a_report_says_all_of_it_and_is_accepted() -> None:
    tally = Tally(failures=Counter(claims=2), released=4)
    for number, attribute in enumerate(COUNTERS.values(), start=10):
        setattr(tally, attribute, number)
    tally.lateness.learn([QUICK, HOURS])
    present = Present(shard=5, shard_count=7, held=3, clock_offset_s=-0.25, round_trip_s=0.002)

    report = report_of("abc", tally, present)

    heard = decode(encode(report))
    assert (heard.source, heard.shard, heard.leaving) == ("abc", "5", False)
    assert [value_of(heard, name) for name in COUNTERS] == list(range(10, 10 + len(COUNTERS)))
    assert (value_of(heard, "turn_failures", "claims"), value_of(heard, "turn_failures", "fires")) == (2, 0)
    assert value_of(heard, "timers_released", "drained") == 4
    assert value_of(heard, "slots_owned") == 120
    assert (value_of(heard, "timers_held"), value_of(heard, "clock_offset_seconds")) == (3, -0.25)
    (spread,) = heard.spreads
    assert (spread.counts[0], spread.counts[-1], spread.sum) == (10, 10, 80_000.005)


@pytest.mark.parametrize(
    ("shard", "shard_count", "slots"),
    [(0, 1, 840), (0, 2, 420), (6, 7, 120), (0, 9, 94), (8, 9, 93), (839, 840, 1), (None, None, 0), (None, 4, 0)],
)
def test_a_shard_owns_every_so_many_th_slot(shard: int | None, shard_count: int | None, slots: int) -> None:
    assert Present(shard, shard_count, 0, 0.0, 0.0).slots_owned == slots


@pytest.mark.parametrize("shard_count", [1, 2, 7, 9, 11, 840])
def test_all_shards_together_own_every_slot_once(shard_count: int) -> None:
    assert sum(Present(shard, shard_count, 0, 0.0, 0.0).slots_owned for shard in range(shard_count)) == 840


def test_a_holder_without_a_shard_says_so() -> None:
    report = report_of("abc", Tally(), Present(None, None, 0, 0.0, 0.0), leaving=True)

    assert (report.shard, report.leaving) == (NO_SHARD, True)

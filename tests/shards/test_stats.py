"""A shard's counts agree with each other; each fired timer has one lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.family import NO_SHARD
from shardclock_server.metrics.report import decode, encode
from shardclock_server.shards.families import LAG_EDGES_S
from shardclock_server.shards.stats import (
    COUNTERS,
    MEASURED_OF_BACKLOG,
    LagHistograms,
    ShardGauges,
    ShardStats,
    report_of,
)
from shardclock_server.sql.claims.claim import Scan, ScanResult
from shardclock_server.sql.claims.rows import Lags
from shardclock_server.sql.firing.fire import Fired, Firing
from tests.support.exporting import value_of
from tests.support.factories import plain

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN, OUTAGE, SWEEP = Scan("own", 2.0, 100), Scan("outage", -10.0, 100, 10.0), Scan("sweep", -3.0, 100)
UPCOMING = Scan("ahead", 2.0, 100, floor_s=0.1)
EDGES = len(LAG_EDGES_S)
QUICK = Lags("log", "USER", "ahead", EDGES, 10, 0.005)
HOURS = Lags("log", "USER", "ahead", 0, 10, 80_000.0)


def taken(fired: int = 0, lags: Sequence[Lags] = (), claimed: int = 0) -> ScanResult:
    keys = [plain(key, NOW) for key in range(1, claimed + 1)]
    return ScanResult(
        NOW, fired, lags, saturated=False, left_by_outage=0, ramp_per_s=None, next_tenant="", claimed=keys
    )


def counted(lag_histograms: LagHistograms) -> int:
    return sum(sum(counts) for counts in lag_histograms.counts.values())


@pytest.fixture
def lag_histograms() -> LagHistograms:
    return LagHistograms()


@pytest.mark.parametrize(("within", "bucket"), [(EDGES, 0), (EDGES - 1, 1), (1, EDGES - 1), (0, EDGES)])
def test_a_lag_is_counted_in_the_first_bucket_with_a_bound_above_it(
    lag_histograms: LagHistograms, within: int, bucket: int
) -> None:
    lag_histograms.learn([replace(QUICK, edges_within=within)])

    assert lag_histograms.counts == {("log", "USER", "ahead"): [0] * bucket + [10] + [0] * (EDGES - bucket)}
    assert lag_histograms.sums_s == {("log", "USER", "ahead"): 0.005}


def test_types_of_timers_are_counted_separately(lag_histograms: LagHistograms) -> None:
    lag_histograms.learn([QUICK, replace(QUICK, timer_type="BOUNDARY", timers=3), QUICK])

    assert {key[1]: sum(counts) for key, counts in lag_histograms.counts.items()} == {"USER": 20, "BOUNDARY": 3}


# Which scans are measured


def test_every_scan_of_a_shard_that_keeps_up_is_measured(lag_histograms: LagHistograms) -> None:
    lag_histograms.learn([QUICK], OWN)

    assert all(lag_histograms.measures(OWN, has_backlog=False) for _ in range(10))


def test_the_first_scan_over_a_backlog_and_some_later_ones_are_measured(lag_histograms: LagHistograms) -> None:
    assert lag_histograms.measures(OWN, has_backlog=True)
    lag_histograms.learn([], OWN)
    assert lag_histograms.measures(OWN, has_backlog=True), "the first scan fired nothing, so there is no sample"
    lag_histograms.learn([HOURS], OWN)

    measured = [lag_histograms.measures(OWN, has_backlog=True) for _ in range(3 * MEASURED_OF_BACKLOG)]

    assert measured == [*[False] * (MEASURED_OF_BACKLOG - 1), True] * 3


def test_each_kind_of_scan_is_measured_separately(lag_histograms: LagHistograms) -> None:
    lag_histograms.learn([QUICK], OWN)

    assert lag_histograms.measures(OUTAGE, has_backlog=True)
    lag_histograms.learn([HOURS], OUTAGE)
    both = [
        (lag_histograms.measures(OWN, has_backlog=True), lag_histograms.measures(OUTAGE, has_backlog=True))
        for _ in range(10)
    ]

    assert sum(own for own, _ in both) == sum(backlog for _, backlog in both) == 10 // MEASURED_OF_BACKLOG


@pytest.mark.parametrize("scan", [SWEEP, UPCOMING])
def test_every_scan_that_fires_little_is_measured(lag_histograms: LagHistograms, scan: Scan) -> None:
    lag_histograms.learn([HOURS], scan)

    assert all(lag_histograms.measures(scan, has_backlog=True) for _ in range(10))


# Unmeasured scans


def test_a_scan_that_was_not_measured_is_counted_like_the_last_measured_scan(lag_histograms: LagHistograms) -> None:
    lag_histograms.learn([QUICK], OWN)
    lag_histograms.learn([replace(HOURS, timers=3, sum_s=30.0), replace(QUICK, timers=1, sum_s=0.1)], OWN)

    lag_histograms.estimate(400, OWN)

    (counts,) = lag_histograms.counts.values()
    assert (counts[0], counts[EDGES]) == (10 + 1 + 100, 3 + 300)
    assert lag_histograms.sums_s["log", "USER", "ahead"] == pytest.approx(0.005 + 30.1 + 400 * 30.1 / 4)


def test_a_backlog_of_hours_does_not_change_the_lag_of_timers_on_time() -> None:
    stats = ShardStats()
    stats.count_scan(OUTAGE, taken(10, [HOURS]), measured=True)
    stats.count_scan(OWN, taken(10, [QUICK]), measured=True)
    firing = Firing(plain(1, NOW))
    stats.count_firing([firing], Fired(NOW, NOW, frozenset([1]), [replace(QUICK, timers=1)]))

    stats.count_scan(OUTAGE, taken(1_000), measured=False)

    (counts,) = stats.lag_histograms.counts.values()
    assert (counts[0], counts[EDGES]) == (11, 1_010)


lags = st.builds(
    Lags,
    target=st.just("log"),
    timer_type=st.sampled_from(["USER", "BOUNDARY"]),
    edges_within=st.integers(0, EDGES),
    timers=st.integers(1, 5_000),
    sum_s=st.floats(0, 1e6),
)
scans = st.sampled_from([OWN, OUTAGE, SWEEP, UPCOMING])


@given(st.lists(st.tuples(scans, st.booleans(), st.lists(lags, max_size=5), st.integers(0, 5_000))))
def test_the_lag_histograms_count_all_fired_timers_despite_sampling(
    turns: list[tuple[Scan, bool, list[Lags], int]],
) -> None:
    stats = ShardStats()
    for scan, has_backlog, found, unmeasured in turns:
        measured = stats.lag_histograms.measures(scan, has_backlog=has_backlog)
        fired = sum(lag.timers for lag in found) if measured else unmeasured
        stats.count_scan(scan, taken(fired, found if measured else ()), measured=measured)

    assert counted(stats.lag_histograms) == stats.fired
    assert min((count for counts in stats.lag_histograms.counts.values() for count in counts), default=0) >= 0
    assert set(stats.lag_histograms.sums_s) == set(stats.lag_histograms.counts)


# Outcomes of timers


@pytest.mark.parametrize(
    ("scan", "result", "counted"),
    [
        (OWN, taken(10, [QUICK], claimed=2), (10, 2, 0, 0)),
        (OWN, replace(taken(10, [QUICK]), skipped=7), (10, 0, 7, 0)),
        (SWEEP, taken(10, [HOURS], claimed=2), (10, 2, 0, 12)),
    ],
    ids=["fired and leased timers", "skipped occurrences", "swept timers, whether leased or fired"],
)
def test_a_scan_is_added_to_the_counts(scan: Scan, result: ScanResult, counted: tuple[int, ...]) -> None:
    stats = ShardStats()

    stats.count_scan(scan, result, measured=True)

    assert (stats.fired, stats.claimed, stats.skipped, stats.swept) == counted


def test_only_leased_timers_whose_rows_are_deleted_are_counted() -> None:
    plain_one, late, missed, fenced = (plain(key, NOW - timedelta(hours=1)) for key in (1, 2, 3, 4))
    firings = [
        Firing(plain_one),
        Firing(late, skipped=5),
        Firing(missed, fires=False, skipped=7),
        Firing(fenced, skipped=100),
    ]
    stats = ShardStats()

    stats.count_firing(firings, Fired(NOW, NOW, frozenset([1, 2, 3]), [replace(QUICK, timers=2)]))

    assert (stats.fired, stats.skipped) == (2, 12)
    assert counted(stats.lag_histograms) == stats.fired


# The report


def test_a_report_has_all_metrics_and_is_accepted() -> None:
    stats = ShardStats(failures=Counter(claims=2), released=4)
    for number, attribute in enumerate(COUNTERS.values(), start=10):
        setattr(stats, attribute, number)
    stats.lag_histograms.learn([QUICK, HOURS])
    present = ShardGauges(shard=5, shard_count=7, held=3, clock_offset_s=-0.25, round_trip_s=0.002)

    report = report_of("abc", stats, present)

    heard = decode(encode(report), REPORTED)
    assert (heard.source, heard.shard, heard.leaving) == ("abc", "5", False)
    assert [value_of(heard, name) for name in COUNTERS] == list(range(10, 10 + len(COUNTERS)))
    assert (value_of(heard, "turn_failures", "claims"), value_of(heard, "turn_failures", "fires")) == (2, 0)
    assert value_of(heard, "timers_released", "drained") == 4
    assert value_of(heard, "slots_owned") == 120
    assert (value_of(heard, "timers_held"), value_of(heard, "clock_offset_seconds")) == (3, -0.25)
    (histogram,) = heard.histograms
    assert (histogram.counts[0], histogram.counts[-1], histogram.sum) == (10, 10, 80_000.005)


@pytest.mark.parametrize(
    ("shard", "shard_count", "slots"),
    [(0, 1, 840), (0, 2, 420), (6, 7, 120), (0, 9, 94), (8, 9, 93), (839, 840, 1), (None, None, 0), (None, 4, 0)],
)
def test_a_shard_owns_every_nth_slot(shard: int | None, shard_count: int | None, slots: int) -> None:
    assert ShardGauges(shard, shard_count, 0, 0.0, 0.0).slots_owned == slots


@pytest.mark.parametrize("shard_count", [1, 2, 7, 9, 11, 840])
def test_all_shards_together_own_every_slot_once(shard_count: int) -> None:
    assert sum(ShardGauges(shard, shard_count, 0, 0.0, 0.0).slots_owned for shard in range(shard_count)) == 840


def test_a_holder_without_a_part_is_reported_as_no_shard() -> None:
    report = report_of("abc", ShardStats(), ShardGauges(None, None, 0, 0.0, 0.0), leaving=True)

    assert (report.shard, report.leaving) == (NO_SHARD, True)

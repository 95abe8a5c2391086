"""Test that totals never fall or jump, and that only series of living sources are exported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.aggregator import NAMES_MAX, SOURCE_EXPIRES_S, SOURCES_MAX, Aggregator
from shardclock_server.metrics.family import OTHER
from shardclock_server.metrics.report import Histogram, Labels, MetricsReport, Sample

EMPTY = (0,) * 19


def report(
    source: str, shard: str = "0", *, fired: float | None = None, lags: Iterable[int] = (), leaving: bool = False
) -> MetricsReport:
    """Make a shard's report: the number of firings since its start, and the buckets of the lags."""
    counts = tuple(lags)
    return MetricsReport(
        source,
        shard,
        [] if fired is None else [Sample("timers_fired", (), fired), Sample("timers_held", (), fired / 10)],
        [Histogram("fire_lag_seconds", ("log", "USER", "ahead"), counts + EMPTY[len(counts) :], sum(counts) / 2)]
        if counts
        else [],
        leaving,
    )


def value(aggregator: Aggregator, shard: str = "0", name: str = "timers_fired") -> float | None:
    """Read one series; None if it does not exist."""
    found = {(sample.name, sample.labels): sample.value for sample in aggregator.samples()}
    return found.get((name, (shard,)))


def series(aggregator: Aggregator) -> set[tuple[str, Labels]]:
    plain = {(sample.name, sample.labels) for sample in aggregator.samples()}
    return plain | {(histogram.name, histogram.labels) for histogram in aggregator.histograms()}


@pytest.fixture
def aggregator() -> Aggregator:
    return Aggregator(REPORTED)


def test_a_total_is_the_sum_of_the_increases_of_its_sources(aggregator: Aggregator) -> None:
    aggregator.add(report("a", fired=10), now_s=0)
    aggregator.add(report("b", fired=5), now_s=0)
    aggregator.add(report("a", fired=12), now_s=1)
    aggregator.add(report("a", fired=12), now_s=2)

    assert value(aggregator) == 17
    assert len(aggregator) == 2
    assert aggregator.reports == 4


def test_a_source_with_earlier_reports_to_another_exporter_is_counted_from_its_first_report_here(
    aggregator: Aggregator,
) -> None:
    aggregator.add(report("a", fired=10, lags=[10]), now_s=0)
    aggregator.add(replace(report("older", fired=1_000_000, lags=[1_000_000]), number=77), now_s=1)
    assert value(aggregator) == 10

    aggregator.add(replace(report("older", fired=1_000_003, lags=[1_000_003]), number=78), now_s=2)
    assert value(aggregator) == 13
    assert [sum(histogram.counts) for histogram in aggregator.histograms()] == [13]


def test_a_summed_gauge_adds_up_the_workers_of_a_node(aggregator: Aggregator) -> None:
    for source, in_hand in (("a", 3), ("b", 4), ("a", 5)):
        aggregator.add(MetricsReport(source, samples=[Sample("deliveries_leased", (), in_hand)]), now_s=0)

    assert [sample.value for sample in aggregator.samples()] == [9]
    aggregator.add(MetricsReport("b", leaving=True), now_s=1)
    assert [sample.value for sample in aggregator.samples()] == [5]


def test_a_counter_without_a_shard_adds_up_all_sources(aggregator: Aggregator) -> None:
    for source in ("a", "b"):
        aggregator.add(MetricsReport(source, samples=[Sample("timers_released", ("died",), 3)]), now_s=0)

    assert [sample.value for sample in aggregator.samples()] == [6]


def test_a_holder_that_moves_to_another_shard_adds_to_the_new_shards_total(aggregator: Aggregator) -> None:
    aggregator.add(report("a", "0", fired=10, lags=[10]), now_s=0)
    aggregator.add(report("b", "1", fired=5, lags=[5]), now_s=0)
    aggregator.add(report("b", "0", fired=7, lags=[6, 1]), now_s=1)

    assert value(aggregator, "0") == 12
    assert [histogram.counts[:2] for histogram in aggregator.histograms()] == [(11, 1)]
    assert value(aggregator, "1") is None, "no source reports for that shard any more"


def test_the_total_of_a_shard_continues_through_a_handover(aggregator: Aggregator) -> None:
    aggregator.add(report("old", fired=100), now_s=0)
    aggregator.add(report("new", "none", fired=0), now_s=0)
    aggregator.add(report("new", fired=1), now_s=1)
    aggregator.add(report("old", "none", fired=102), now_s=1)
    aggregator.add(report("old", "none", fired=102, leaving=True), now_s=2)
    aggregator.add(report("new", fired=3), now_s=2)

    assert value(aggregator) == 103
    assert value(aggregator, "none") is None


def test_the_last_report_of_a_source_is_added_and_its_series_are_dropped(aggregator: Aggregator) -> None:
    aggregator.add(report("a", fired=10, lags=[10]), now_s=0)
    aggregator.add(report("b", fired=1), now_s=0)
    aggregator.add(report("a", fired=13, lags=[13], leaving=True), now_s=1)

    assert value(aggregator) == 14
    assert [*aggregator.histograms()] == [], "b has fired nothing that was measured"
    assert len(aggregator) == 1

    aggregator.add(report("b", fired=1, leaving=True), now_s=1)
    assert series(aggregator) == set()


def test_the_series_of_a_silent_source_are_dropped(aggregator: Aggregator) -> None:
    aggregator.add(report("a", "0", fired=10, lags=[1]), now_s=0)
    aggregator.add(report("b", "1", fired=5, lags=[1]), now_s=5)

    aggregator.expire(now_s=SOURCE_EXPIRES_S)
    assert len(aggregator) == 2, "not yet"

    aggregator.expire(now_s=SOURCE_EXPIRES_S + 0.1)
    assert len(aggregator) == 1
    assert {labels[0] for _, labels in series(aggregator)} == {"1"}

    aggregator.expire(now_s=SOURCE_EXPIRES_S + 5.1)
    assert series(aggregator) == set()


def test_a_restart_of_a_source_never_lowers_a_total(aggregator: Aggregator) -> None:
    # A restarted shard is a new source. If a source's counters fall, the report is accepted, and the total does not
    # fall.
    aggregator.add(report("a", fired=10, lags=[4, 6]), now_s=0)
    aggregator.add(report("again", fired=2, lags=[2]), now_s=1)
    assert value(aggregator) == 12

    aggregator.add(report("again", fired=1, lags=[0, 1]), now_s=2)

    assert value(aggregator) == 12
    assert [histogram.counts[:2] for histogram in aggregator.histograms()] == [(6, 7)]
    aggregator.add(report("again", fired=4, lags=[0, 2]), now_s=3)
    assert value(aggregator) == 15


def test_a_source_adds_only_its_increase_after_a_silence(aggregator: Aggregator) -> None:
    # The source's process was frozen. Another holder keeps the shard and its total in the meantime.
    aggregator.add(report("frozen", fired=1_000, lags=[1_000]), now_s=0)
    aggregator.add(report("replacement", fired=1), now_s=9)
    aggregator.expire(now_s=SOURCE_EXPIRES_S + 1)
    assert value(aggregator) == 1_001

    aggregator.add(report("frozen", fired=1_003, lags=[1_003], leaving=True), now_s=12)

    assert value(aggregator) == 1_004
    aggregator.add(report("frozen", fired=1_003), now_s=13)
    assert value(aggregator) == 2_007, "the first source has left: a report under its name comes from another source"


def test_a_histogram_adds_up_its_buckets_and_its_sum(aggregator: Aggregator) -> None:
    aggregator.add(report("a", lags=[1, 2]), now_s=0)
    aggregator.add(report("b", lags=[0, 0, 4]), now_s=0)
    aggregator.add(report("a", lags=[2, 2]), now_s=1)

    (histogram,) = aggregator.histograms()
    assert histogram.counts[:3] == (2, 2, 4)
    assert histogram.sum == pytest.approx(2 + 2)
    assert histogram.labels == ("0", "log", "USER", "ahead")


def test_a_gauge_has_the_value_of_the_newest_report(aggregator: Aggregator) -> None:
    aggregator.add(report("a", fired=100), now_s=0)
    aggregator.add(report("b", fired=50), now_s=1)
    assert value(aggregator, name="timers_held") == 5

    aggregator.add(report("a", fired=110), now_s=2)
    assert value(aggregator, name="timers_held") == 11


def test_a_source_beyond_the_limit_is_refused_and_the_existing_sources_are_kept(aggregator: Aggregator) -> None:
    for number in range(SOURCES_MAX):
        aggregator.add(report(str(number), fired=1), now_s=0)
    aggregator.add(report("one more", fired=1_000), now_s=0)
    aggregator.add(report("0", fired=3), now_s=0)

    assert len(aggregator) == SOURCES_MAX
    assert value(aggregator) == SOURCES_MAX + 2


def test_the_memory_of_silent_sources_is_bounded(aggregator: Aggregator) -> None:
    for number in range(3 * SOURCES_MAX):
        aggregator.add(report(str(number), fired=1), now_s=number)

        if number % SOURCES_MAX == SOURCES_MAX - 1:
            aggregator.expire(now_s=number + SOURCE_EXPIRES_S + 1)

    assert len(aggregator) == 0
    assert len(aggregator._silent) <= SOURCES_MAX


def settled(source: str, *names: str, leaving: bool = False) -> MetricsReport:
    """Make the report of a worker that has delivered once to each of these targets."""
    samples = [Sample("deliveries_settled", ("handler", name, "delivered"), 1) for name in names]
    return MetricsReport(source, samples=samples, leaving=leaving)


def names_of(aggregator: Aggregator) -> dict[str, float]:
    return {sample.labels[1]: sample.value for sample in aggregator.samples()}


def test_targets_beyond_the_limit_of_all_sources_are_counted_as_other(aggregator: Aggregator) -> None:
    names = [f"t{number}" for number in range(NAMES_MAX + 3)]
    aggregator.add(settled("a", *names[:60]), now_s=0)
    aggregator.add(settled("b", OTHER, *names[50:]), now_s=0)

    told = names_of(aggregator)

    assert told.keys() == {*names[:NAMES_MAX], OTHER}
    assert (told["t0"], told["t55"], told[OTHER]) == (1, 2, 1 + 3)


def test_a_target_without_a_source_frees_its_name_for_another_target(aggregator: Aggregator) -> None:
    aggregator.add(settled("old", *(f"t{number}" for number in range(NAMES_MAX))), now_s=0)
    aggregator.add(settled("new", "t0"), now_s=0)
    aggregator.add(settled("old", leaving=True), now_s=1)

    aggregator.add(settled("another", "late.one"), now_s=2)

    assert names_of(aggregator) == {"t0": 2, "late.one": 1}

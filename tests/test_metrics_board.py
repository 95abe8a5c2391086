"""Prove what the exporter makes of what it hears: totals that never fall or jump, and only of those that live."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from metrics.board import SILENT_S, SOURCES_MAX, Board
from metrics.report import Labels, Report, Sample, Spread

EMPTY = (0,) * 19


def report(
    source: str, shard: str = "0", *, fired: float | None = None, lags: Iterable[int] = (), leaving: bool = False
) -> Report:
    """Say what a shard has fired since its start, and in which buckets it did."""
    counts = tuple(lags)
    return Report(
        source,
        shard,
        [] if fired is None else [Sample("timers_fired", (), fired), Sample("timers_held", (), fired / 10)],
        [Spread("fire_lag_seconds", ("log", "USER"), counts + EMPTY[len(counts) :], sum(counts) / 2)] if counts else [],
        leaving,
    )


def value(board: Board, shard: str = "0", name: str = "timers_fired") -> float | None:
    """Read one series; None if there is none."""
    found = {(sample.name, sample.labels): sample.value for sample in board.samples()}
    return found.get((name, (shard,)))


def series(board: Board) -> set[tuple[str, Labels]]:
    plain = {(sample.name, sample.labels) for sample in board.samples()}
    return plain | {(spread.name, spread.labels) for spread in board.spreads()}


@pytest.fixture
def board() -> Board:
    return Board()


def test_a_total_is_what_its_sources_have_gained(board: Board) -> None:
    board.hear(report("a", fired=10), now_s=0)
    board.hear(report("b", fired=5), now_s=0)
    board.hear(report("a", fired=12), now_s=1)
    board.hear(report("a", fired=12), now_s=2)

    assert value(board) == 17
    assert len(board) == 2
    assert board.reports == 4


def test_a_source_that_had_reported_to_an_exporter_before_counts_from_now_on(board: Board) -> None:
    board.hear(report("a", fired=10, lags=[10]), now_s=0)
    board.hear(replace(report("older", fired=1_000_000, lags=[1_000_000]), number=77), now_s=1)
    assert value(board) == 10

    board.hear(replace(report("older", fired=1_000_003, lags=[1_000_003]), number=78), now_s=2)
    assert value(board) == 13
    assert [sum(spread.counts) for spread in board.spreads()] == [13]


def test_each_shard_has_its_own_total(board: Board) -> None:
    board.hear(report("a", "0", fired=10), now_s=0)
    board.hear(report("b", "1", fired=5), now_s=0)

    assert (value(board, "0"), value(board, "1")) == (10, 5)


def test_what_has_no_shard_is_added_up_over_all_sources(board: Board) -> None:
    for source in ("a", "b"):
        board.hear(Report(source, samples=[Sample("timers_released", ("died",), 3)]), now_s=0)

    assert [sample.value for sample in board.samples()] == [6]


def test_a_holder_that_changes_its_shard_adds_to_the_new_one_from_then_on(board: Board) -> None:
    board.hear(report("a", "0", fired=10, lags=[10]), now_s=0)
    board.hear(report("b", "1", fired=5, lags=[5]), now_s=0)
    board.hear(report("b", "0", fired=7, lags=[6, 1]), now_s=1)

    assert value(board, "0") == 12
    assert [spread.counts[:2] for spread in board.spreads()] == [(11, 1)]
    assert value(board, "1") is None, "nobody keeps that shard here any more"


def test_two_sources_of_one_shard_add_up_through_a_handover(board: Board) -> None:
    board.hear(report("old", fired=100), now_s=0)
    board.hear(report("new", "none", fired=0), now_s=0)
    board.hear(report("new", fired=1), now_s=1)
    board.hear(report("old", "none", fired=102), now_s=1)
    board.hear(report("old", "none", fired=102, leaving=True), now_s=2)
    board.hear(report("new", fired=3), now_s=2)

    assert value(board) == 103
    assert value(board, "none") is None


def test_the_last_words_of_a_source_that_leaves_count_and_its_series_go(board: Board) -> None:
    board.hear(report("a", fired=10, lags=[10]), now_s=0)
    board.hear(report("b", fired=1), now_s=0)
    board.hear(report("a", fired=13, lags=[13], leaving=True), now_s=1)

    assert value(board) == 14
    assert [*board.spreads()] == [], "b has fired nothing that was measured"
    assert len(board) == 1

    board.hear(report("b", fired=1, leaving=True), now_s=1)
    assert series(board) == set()


def test_a_source_that_is_silent_takes_its_series_along(board: Board) -> None:
    board.hear(report("a", "0", fired=10, lags=[1]), now_s=0)
    board.hear(report("b", "1", fired=5, lags=[1]), now_s=5)

    board.expire(now_s=SILENT_S)
    assert len(board) == 2, "not yet"

    board.expire(now_s=SILENT_S + 0.1)
    assert len(board) == 1
    assert {labels[0] for _, labels in series(board)} == {"1"}

    board.expire(now_s=SILENT_S + 5.1)
    assert series(board) == set()


def test_a_source_that_was_restarted_makes_no_total_fall(board: Board) -> None:
    # A shard that is started again is another source; one that counts anew is taken as it comes.
    board.hear(report("a", fired=10, lags=[4, 6]), now_s=0)
    board.hear(report("again", fired=2, lags=[2]), now_s=1)
    assert value(board) == 12

    board.hear(report("again", fired=1, lags=[0, 1]), now_s=2)

    assert value(board) == 12
    assert [spread.counts[:2] for spread in board.spreads()] == [(6, 7)]
    board.hear(report("again", fired=4, lags=[0, 2]), now_s=3)
    assert value(board) == 15


def test_a_source_that_comes_back_after_a_silence_adds_only_what_it_gained(board: Board) -> None:
    # Its process was frozen; another holder keeps the shard meanwhile, and with it the total.
    board.hear(report("frozen", fired=1_000, lags=[1_000]), now_s=0)
    board.hear(report("heir", fired=1), now_s=9)
    board.expire(now_s=SILENT_S + 1)
    assert value(board) == 1_001

    board.hear(report("frozen", fired=1_003, lags=[1_003], leaving=True), now_s=12)

    assert value(board) == 1_004
    board.hear(report("frozen", fired=1_003), now_s=13)
    assert value(board) == 2_007, "it had left for good: whoever has its name now is another"


def test_a_lag_is_added_up_bucket_by_bucket_with_its_sum(board: Board) -> None:
    board.hear(report("a", lags=[1, 2]), now_s=0)
    board.hear(report("b", lags=[0, 0, 4]), now_s=0)
    board.hear(report("a", lags=[2, 2]), now_s=1)

    (spread,) = board.spreads()
    assert spread.counts[:3] == (2, 2, 4)
    assert spread.sum == pytest.approx(2 + 2)
    assert spread.labels == ("0", "log", "USER")


def test_a_present_value_is_the_last_one_heard(board: Board) -> None:
    board.hear(report("a", fired=100), now_s=0)
    board.hear(report("b", fired=50), now_s=1)
    assert value(board, name="timers_held") == 5

    board.hear(report("a", fired=110), now_s=2)
    assert value(board, name="timers_held") == 11


def test_a_source_too_many_is_not_taken_in_and_the_others_are(board: Board) -> None:
    for number in range(SOURCES_MAX):
        board.hear(report(str(number), fired=1), now_s=0)
    board.hear(report("one more", fired=1_000), now_s=0)
    board.hear(report("0", fired=3), now_s=0)

    assert len(board) == SOURCES_MAX
    assert value(board) == SOURCES_MAX + 2


def test_what_is_remembered_of_the_silent_is_bounded(board: Board) -> None:
    for number in range(3 * SOURCES_MAX):
        board.hear(report(str(number), fired=1), now_s=number)

        if number % SOURCES_MAX == SOURCES_MAX - 1:
            board.expire(now_s=number + SILENT_S + 1)

    assert len(board) == 0
    assert len(board._silent) <= SOURCES_MAX

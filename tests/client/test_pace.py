"""Test that the size of a consumer's batches follows the speed of the work."""

from __future__ import annotations

import pytest

from shardclock.log.pace import RECORDS_MAX, TARGET_S, Pace


def after(each_s: float, batches: int, pace: Pace | None = None) -> tuple[Pace, list[int]]:
    """Work on some full batches, each record in `each_s` seconds."""
    pace = pace or Pace()
    sizes = []
    for _ in range(batches):
        sizes.append(pace.records)
        pace.done(pace.records, pace.records * each_s)
    return pace, sizes


@pytest.mark.parametrize("each_s", [0.00001, 0.0003, 0.004, 0.07, 0.9])
def test_a_batch_grows_until_its_work_takes_a_second(each_s: float) -> None:
    pace, sizes = after(each_s, 10)

    assert sizes[0] == 1
    assert max(size * each_s for size in sizes) <= TARGET_S * 1.01
    assert pace.records == min(RECORDS_MAX, int(TARGET_S / each_s)) or abs(pace.records * each_s - TARGET_S) < each_s


def test_slow_work_gets_one_record_per_batch() -> None:
    _, sizes = after(20.0, 5)

    assert sizes == [1] * 5


def test_a_batch_that_was_not_full_does_not_change_the_size_of_the_next_batch() -> None:
    pace, _ = after(0.004, 10)
    before = pace.records

    pace.done(3, 0.02)

    assert pace.records == before


def test_after_a_slow_batch_the_next_batch_is_smaller_even_if_the_slow_batch_was_not_full() -> None:
    pace, _ = after(0.0001, 10)

    pace.done(10, 5.0)

    assert pace.records == 2


def test_a_faulty_record_among_5000_is_isolated_after_13_failures() -> None:
    pace, _ = after(0.00001, 10)
    halved = 0
    while pace.records > 1:
        pace.failed(pace.records)
        halved += 1

    assert halved <= 13

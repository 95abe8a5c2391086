"""Test that a pause grows with each failure in a row, up to a maximum, and that many failures raise no error."""

from __future__ import annotations

import pytest

from shardclock.backoff import Backoff

BACKOFF = Backoff(0.2, 5.0)


def test_a_pause_doubles_with_each_failure_up_to_its_maximum() -> None:
    assert [BACKOFF.pause_s(failures) for failures in range(1, 8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_without_a_failure_there_is_no_pause() -> None:
    assert BACKOFF.pause_s(0) == 0.0


@pytest.mark.parametrize("failures", [1_025, 10**9])
def test_the_pause_is_defined_for_any_number_of_failures(failures: int) -> None:
    assert BACKOFF.pause_s(failures) == 5.0


def test_jitter_spreads_the_retries_of_callers_that_failed_together() -> None:
    pauses = [BACKOFF.scattered_s(3) for _ in range(100)]

    assert all(0.4 <= pause_s <= 0.8 for pause_s in pauses)
    assert len(set(pauses)) > 50

"""Test that a test with very many cases runs the same sample each time."""

from __future__ import annotations

import pytest

from tests.support.sampling import left_out


def test_few_cases_are_all_run() -> None:
    assert left_out(range(4), most=4) == []


@pytest.mark.parametrize("count", [5, 6, 100])
def test_a_sample_has_the_requested_size_and_contains_the_first_and_the_last_case(count: int) -> None:
    kept = set(range(count)) - set(left_out(range(count), most=4))
    assert len(kept) == 4
    assert {0, count - 1} <= kept

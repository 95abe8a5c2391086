"""Test that a long test with several cases runs the same case each time."""

from __future__ import annotations

import pytest

from tests.support.sampling import left_out


@pytest.mark.parametrize("count", [1, 2, 6, 100])
def test_of_several_cases_the_same_one_is_run_each_time(count: int) -> None:
    kept, again = (set(range(count)) - set(left_out("test_a", range(count))) for _ in range(2))

    assert len(kept) == 1
    assert kept == again


def test_two_tests_with_the_same_list_of_cases_run_different_cases() -> None:
    kept = {number for name in "abcdefgh" for number in {0, 1, 2} - set(left_out(name, range(3)))}

    assert kept == {0, 1, 2}

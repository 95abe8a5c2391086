"""Test the rate limit: an immediate burst, and the rate over a long time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.bucket import Bucket


def test_a_bucket_without_a_limit_is_never_empty() -> None:
    bucket = Bucket(None)
    bucket.take(0.0)
    assert (bucket.available(0.0), bucket.next_at_s(7.0)) == (float("inf"), 7.0)


def test_a_bucket_gives_the_burst_at_once_and_more_at_its_rate() -> None:
    bucket = Bucket(2.0, burst=3)
    assert bucket.available(10.0) == 3
    for _ in range(3):
        bucket.take(10.0)
    assert (bucket.available(10.0), bucket.next_at_s(10.0)) == (0, 10.5)
    assert (bucket.available(10.4), bucket.available(10.5), bucket.available(11.0), bucket.available(1_000.0)) == (
        0,
        1,
        2,
        3,
    )


def test_a_bucket_is_not_refilled_while_the_clock_does_not_move() -> None:
    bucket = Bucket(10.0, burst=1)
    bucket.take(5.0)
    assert [bucket.available(5.0) for _ in range(3)] == [0, 0, 0]


def test_an_empty_bucket_is_full_again_after_its_burst_divided_by_its_rate() -> None:
    bucket = Bucket(0.1, burst=2)
    assert bucket.refill_s(0.0) == 0
    bucket.take(5.0)
    assert (bucket.refill_s(5.0), bucket.refill_s(14.0), bucket.refill_s(15.5)) == (10, 1, 0)
    assert Bucket(None).refill_s(0.0) == 0


def test_returned_units_are_free_again_but_never_more_than_the_burst() -> None:
    bucket = Bucket(0.1, burst=2)
    bucket.take(5.0)
    bucket.refund(1)
    assert bucket.available(5.0) == 2
    bucket.refund(1)
    assert bucket.available(5.0) == 2


@given(
    st.floats(0.01, 1_000),
    st.integers(1, 50),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_a_bucket_never_gives_more_than_its_burst_and_its_rate(per_s: float, burst: int, pauses_s: list[float]) -> None:
    bucket, now_s, given_out = Bucket(per_s, burst=burst), 0.0, 0
    for pause_s in pauses_s:
        now_s += pause_s
        while bucket.available(now_s) >= 1:
            bucket.take(now_s)
            given_out += 1
        assert bucket.next_at_s(now_s) > now_s
        assert given_out <= burst + per_s * now_s + 1e-6 * given_out + 1e-6


def test_a_debt_is_bounded_and_its_forgiven_part_is_not_returned() -> None:
    bucket = Bucket(8.0, debt_s=60.0)
    bucket.take(0.0, 10_000)
    assert bucket.refill_s(0.0) == 60.0
    bucket.refund(9_992, of=10_000)
    assert bucket.refill_s(0.0) == 1.0
    slow = Bucket(0.01, debt_s=60.0)
    slow.take(0.0, 2)
    assert slow.refill_s(0.0) == 100.0, "as long as one takes, at least"


def test_a_change_of_the_rate_keeps_the_number_of_used_units() -> None:
    bucket = Bucket(2.0, burst=8)
    bucket.take(0.0, 8)
    bucket.change_rate(4.0, 1.0)

    assert (bucket.refill_s(1.0), bucket.available(1.0), bucket.available(1.5)) == (1.5, 2, 4)

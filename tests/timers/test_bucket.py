"""A bucket gives a burst at once, and its rate in the long run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.bucket import Bucket


def test_without_a_limit_there_is_always_room() -> None:
    bucket = Bucket(None)
    bucket.take(0.0)
    assert (bucket.room(0.0), bucket.next_at_s(7.0)) == (float("inf"), 7.0)


def test_a_burst_is_given_at_once_and_the_rest_at_the_rate() -> None:
    bucket = Bucket(2.0, burst=3)
    assert bucket.room(10.0) == 3
    for _ in range(3):
        bucket.take(10.0)
    assert (bucket.room(10.0), bucket.next_at_s(10.0)) == (0, 10.5)
    assert (bucket.room(10.4), bucket.room(10.5), bucket.room(11.0), bucket.room(1_000.0)) == (0, 1, 2, 3)


def test_a_clock_that_stands_gives_nothing_twice() -> None:
    bucket = Bucket(10.0, burst=1)
    bucket.take(5.0)
    assert [bucket.room(5.0) for _ in range(3)] == [0, 0, 0]


def test_it_is_full_again_when_what_was_taken_has_come_back() -> None:
    bucket = Bucket(0.1, burst=2)
    assert bucket.used_s(0.0) == 0
    bucket.take(5.0)
    assert (bucket.used_s(5.0), bucket.used_s(14.0), bucket.used_s(15.5)) == (10, 1, 0)
    assert Bucket(None).used_s(0.0) == 0


def test_what_is_put_back_can_be_taken_again_and_the_burst_stays_the_most() -> None:
    bucket = Bucket(0.1, burst=2)
    bucket.take(5.0)
    bucket.put_back(1)
    assert bucket.room(5.0) == 2
    bucket.put_back(1)
    assert bucket.room(5.0) == 2


@given(
    st.floats(0.01, 1_000),
    st.integers(1, 50),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_never_gives_more_than_the_burst_and_the_rate(per_s: float, burst: int, pauses_s: list[float]) -> None:
    bucket, now_s, given_out = Bucket(per_s, burst=burst), 0.0, 0
    for pause_s in pauses_s:
        now_s += pause_s
        while bucket.room(now_s) >= 1:
            bucket.take(now_s)
            given_out += 1
        assert bucket.next_at_s(now_s) > now_s
        assert given_out <= burst + per_s * now_s + 1e-6 * given_out + 1e-6


def test_what_is_owed_is_bounded_and_what_was_not_owed_is_not_given_back() -> None:
    bucket = Bucket(8.0, debt_s=60.0)
    bucket.take(0.0, 10_000)
    assert bucket.used_s(0.0) == 60.0
    bucket.put_back(9_992, of=10_000)
    assert bucket.used_s(0.0) == 1.0
    slow = Bucket(0.01, debt_s=60.0)
    slow.take(0.0, 2)
    assert slow.used_s(0.0) == 100.0, "as long as one takes, at least"


def test_by_another_rate_the_same_number_is_used_up() -> None:
    bucket = Bucket(2.0, burst=8)
    bucket.take(0.0, 8)
    bucket.change_rate(4.0, 1.0)

    assert (bucket.used_s(1.0), bucket.room(1.0), bucket.room(1.5)) == (1.5, 2, 4)

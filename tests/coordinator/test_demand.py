"""A load gets enough shards for its busiest moment; surplus shards are removed only after a delay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.coordinator.demand import CATCH_UP_S, ClusterLoad, GiveBack, shards_for
from shardclock_server.sql.metrics.forecast import MINUTES, STEPS_A_MINUTE, Forecast

STEPS = MINUTES * STEPS_A_MINUTE


def forecast(**steps: int) -> Forecast:
    """Make a forecast: the keys are the numbers of ten-second steps, the values the timers in a step."""
    timers = [0] * STEPS
    for number, count in steps.items():
        timers[int(number.removeprefix("s"))] = count
    return Forecast(timers, estimated=False)


def load(coming: Forecast | None = None, *, overdue: int = 0, recent_per_s: float = 0.0) -> ClusterLoad:
    return ClusterLoad(coming or forecast(), overdue, recent_per_s)


# The forecast


def test_a_minute_is_the_sum_of_its_steps() -> None:
    coming = forecast(s0=1, s5=2, s6=4, s89=8)

    assert coming.minutes == [3, 4, *[0] * 12, 8]
    assert len(coming.minutes) == MINUTES


def test_the_peak_is_the_busiest_ten_seconds() -> None:
    assert forecast(s3=50, s40=700).peak_per_s == 70.0
    assert forecast().peak_per_s == 0.0


@pytest.mark.parametrize(
    ("within_s", "peak_per_s"), [(10, 0), (30, 0), (30.1, 5), (31, 5), (400, 5), (400.1, 70), (900, 70), (0, 0)]
)
def test_only_loads_within_the_time_ahead_count(within_s: float, peak_per_s: float) -> None:
    assert forecast(s3=50, s40=700).peak_within(within_s) == peak_per_s


# The number of shards


def test_no_shard_is_needed_without_a_load() -> None:
    assert load().per_s(within_s=900) == 0.0


def test_upcoming_timers_and_recent_firings_are_one_load_and_not_added_up() -> None:
    coming = forecast(s1=1_000)

    assert load(coming, recent_per_s=40).per_s(within_s=60) == 100
    assert load(coming, recent_per_s=400).per_s(within_s=60) == 400


def test_overdue_timers_add_to_the_load() -> None:
    assert load(forecast(s1=1_000), overdue=5_000).per_s(within_s=60) == 100 + 5_000 / CATCH_UP_S


@pytest.mark.parametrize(
    ("per_s", "target_per_s", "shards"),
    [(0, 5_000, 1), (1, 5_000, 1), (5_000, 5_000, 1), (5_000.1, 5_000, 2), (10_000, 5_000, 2), (10_001, 5_000, 3),
     (0.5, 1, 1), (3, 1, 3), (1e9, 1, 1_000_000_000)],
)  # fmt: skip
def test_the_demand_is_the_least_number_of_shards_that_fire_the_load(
    per_s: float, target_per_s: int, shards: int
) -> None:
    assert shards_for(per_s, target_per_s=target_per_s) == shards


# Removing shards


def test_the_demand_is_settled_after_its_first_number() -> None:
    give_back = GiveBack(after_s=10)
    assert not give_back

    give_back.follow(1, now_s=0)

    assert give_back


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 840)), min_size=1), st.floats(0.1, 100))
def test_the_demand_is_the_largest_recent_number(turns: list[tuple[float, int]], after_s: float) -> None:
    give_back, now_s, past = GiveBack(after_s), 0.0, []
    for pause_s, number in turns:
        now_s += pause_s
        past.append((now_s, number))

        given_back = give_back.follow(number, now_s=now_s)

        assert given_back == max(number for at_s, number in past if at_s >= now_s - after_s)


def test_the_memory_of_the_demand_is_bounded_by_the_possible_numbers() -> None:
    give_back = GiveBack(after_s=1e9)
    for turn in range(10_000):
        give_back.follow(840 - turn % 840, now_s=float(turn))

    assert len(give_back._peaks) <= 840

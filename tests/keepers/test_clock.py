"""Test a shard's estimate of Postgres's time: it is a little behind Postgres's time, and never ahead of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardclock_server.keepers.clock import SAMPLES_MAX, WINDOW_S, PostgresClock, seconds_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
ROUNDING_S = 1e-6  # the error of Postgres's microseconds as a float of seconds since 1970

NO_TIME_S = 1e-5  # the least delay; below Postgres's microsecond, rounding looks like a clock that was set back
DELAYS_S = st.floats(NO_TIME_S, 3)


class SimulatedServer:
    """A server with a clock that is `offset_s` ahead of our clock, and the delays of the request and of the answer."""

    def __init__(self, offset_s: float = seconds_of(NOON)) -> None:
        self.mine_s = 1_000.0
        self.offset_s = offset_s
        self.clock = PostgresClock(lambda: self.mine_s)

    @property
    def theirs_s(self) -> float:
        return self.mine_s + self.offset_s

    def pass_time(self, seconds: float) -> None:
        self.mine_s += seconds

    def ask(self, *, there_s: float = NO_TIME_S, back_s: float = 0.0) -> None:
        sent_s = self.mine_s
        self.pass_time(there_s)
        answer = EPOCH + timedelta(seconds=self.theirs_s)
        self.pass_time(back_s)
        self.clock.observe(answer, sent_s=sent_s)

    def lateness_s(self) -> float:
        return self.theirs_s - self.clock.now_s()


@given(st.lists(st.tuples(DELAYS_S, DELAYS_S, DELAYS_S), min_size=1, max_size=60))
@example(
    [(2.0, NO_TIME_S, 0.0), (NO_TIME_S, 2.0, 0.0)]
)  # the whole delay is in one direction, so an estimate with half of the round trip would be ahead of Postgres's time
@example([(NO_TIME_S, 0.001, 11.0), (3.0, 3.0, 0.0)])
def test_the_estimate_is_never_ahead_of_postgres_with_any_split_of_the_delays(
    trips: list[tuple[float, float, float]],
) -> None:
    simulation = SimulatedServer()
    answers: list[tuple[float, float]] = []

    for there_s, back_s, idle_s in trips:
        simulation.ask(there_s=there_s, back_s=back_s)
        answers.append((simulation.mine_s, back_s))
        recent = [back for arrived_at, back in answers if arrived_at >= simulation.mine_s - WINDOW_S]
        assert -ROUNDING_S <= simulation.lateness_s() <= min(recent) + ROUNDING_S
        simulation.pass_time(idle_s)
        assert simulation.lateness_s() >= -ROUNDING_S


@given(st.lists(st.tuples(DELAYS_S, DELAYS_S, st.floats(-3_600, 3_600)), min_size=1, max_size=30))
def test_the_estimate_is_ahead_of_a_clock_that_was_set_by_no_more_than_the_round_trip(
    trips: list[tuple[float, float, float]],
) -> None:
    simulation = SimulatedServer()

    for there_s, back_s, step_s in trips:
        simulation.offset_s += step_s
        simulation.ask(there_s=there_s, back_s=back_s)
        assert simulation.lateness_s() >= -(there_s + back_s) - ROUNDING_S


def test_before_the_first_answer_of_postgres_no_timer_is_due() -> None:
    clock = PostgresClock()

    assert clock.now_s() == 0.0
    assert clock.now() == EPOCH


def test_the_tightest_answer_wins_in_any_order() -> None:
    simulation = SimulatedServer()

    for back_s in (0.5, 0.001, 0.3):
        simulation.ask(back_s=back_s)
    assert abs(simulation.lateness_s() - 0.001) < ROUNDING_S

    simulation.ask(back_s=0.0005)
    assert abs(simulation.lateness_s() - 0.0005) < ROUNDING_S


def test_an_answer_older_than_the_window_is_dropped() -> None:
    simulation = SimulatedServer()
    simulation.ask(back_s=0.001)
    simulation.pass_time(WINDOW_S - 0.1)
    simulation.ask(back_s=0.05)
    assert abs(simulation.lateness_s() - 0.001) < ROUNDING_S, "still within the window"

    simulation.pass_time(0.1)
    simulation.ask(back_s=0.08)

    assert abs(simulation.lateness_s() - 0.05) < ROUNDING_S


def test_the_only_answer_is_kept_until_the_next_answer() -> None:
    simulation = SimulatedServer()
    simulation.ask(back_s=0.01)

    simulation.pass_time(1_000 * WINDOW_S)

    assert abs(simulation.lateness_s() - 0.01) < ROUNDING_S


@pytest.mark.parametrize(("step_s", "there_s"), [(-3_600, 0.002), (3_600, NO_TIME_S)], ids=["back", "forward"])
def test_the_estimate_follows_a_clock_that_is_set_with_the_first_answer(step_s: float, there_s: float) -> None:
    simulation = SimulatedServer()
    simulation.ask(back_s=0.001)

    simulation.offset_s += step_s
    simulation.ask(there_s=there_s, back_s=0.003)

    assert abs(simulation.lateness_s() - 0.003) < ROUNDING_S


def test_time_advances_between_answers() -> None:
    simulation = SimulatedServer()
    simulation.ask()
    before = simulation.clock.now()

    simulation.pass_time(1.5)

    assert simulation.clock.now() - before == timedelta(seconds=1.5)


def test_few_of_many_answers_are_kept() -> None:
    simulation = SimulatedServer()

    for number in range(2 * SAMPLES_MAX):  # each sample is worse than the one before, so all samples are candidates
        simulation.ask(back_s=number * 1e-6)

    assert len(simulation.clock._samples) <= SAMPLES_MAX
    assert all(older[1] > newer[1] for older, newer in pairwise(simulation.clock._samples))

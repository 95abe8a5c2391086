"""Prove that a worker knows when a run's process has ended itself, even if the last look did not reach it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from shardclock_server.workers.runs.lifetime import Lifetime


@dataclass
class Clock:
    """A clock that the test moves."""

    now_s: float = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Give a clock."""
    return Clock()


def test_it_lives_until_its_lease_is_over(clock: Clock) -> None:
    life = Lifetime(120.0, clock=clock)

    assert life.rest_s == 0.0, "nothing has been called"
    assert life.grant() == 20.0
    clock.now_s = 130.0
    assert (life.left_s, life.rest_s) == (0.0, 0.0)


def test_what_is_sent_may_have_arrived_or_not_until_there_is_an_answer(clock: Clock) -> None:
    life = Lifetime(120.0, clock=clock)
    life.grant()
    life.ends_by_s = 105.0

    shorter_s = life.grant()

    assert shorter_s == 5.0
    assert life.rest_s == 20.0, "it may not have heard of it"
    clock.now_s = 101.0
    life.was_granted(shorter_s)
    assert life.rest_s == 5.0


def test_a_longer_lease_counts_from_when_it_is_sent(clock: Clock) -> None:
    life = Lifetime(120.0, clock=clock)
    life.was_granted(life.grant())
    life.lease_until_s = 140.0

    assert life.rest_s == 20.0
    life.grant()
    assert life.rest_s == 40.0

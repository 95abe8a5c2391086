"""A worker knows when a run's process must have exited, even if the last poll did not reach the process."""

from __future__ import annotations

import pytest

from shardclock_server.workers.runs.lifetime import Lifetime
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(now_s=100.0)


def test_a_process_may_live_until_its_lease_ends(clock: Clock) -> None:
    life = Lifetime(120.0, clock=clock)

    assert life.may_live_s == 0.0, "nothing has been called"
    assert life.grant() == 20.0
    clock.now_s = 130.0
    assert (life.left_s, life.may_live_s) == (0.0, 0.0)


def test_until_an_answer_a_process_may_have_the_last_grant_or_the_one_before(clock: Clock) -> None:
    life = Lifetime(120.0, clock=clock)
    life.grant()
    life.ends_by_s = 105.0

    shorter_s = life.grant()

    assert shorter_s == 5.0
    assert life.may_live_s == 20.0, "it may not have heard of it"
    clock.now_s = 101.0
    life.was_granted(shorter_s)
    assert life.may_live_s == 5.0


def test_a_longer_lease_counts_from_its_grant(clock: Clock) -> None:
    life = Lifetime(120.0, clock=clock)
    life.was_granted(life.grant())
    life.lease_until_s = 140.0

    assert life.may_live_s == 20.0
    life.grant()
    assert life.may_live_s == 40.0

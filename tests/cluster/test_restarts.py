"""A process that dies repeatedly is restarted after growing pauses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardclock.backoff import Backoff
from shardclock_server.cluster.restarts import STEADY_S, Restarts


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a clock that only the test moves."""
    now_s = 0.0

    def advance(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr("shardclock_server.cluster.restarts.time.monotonic", lambda: now_s)
    return advance


def test_a_process_that_lived_for_a_while_is_restarted_immediately_and_others_after_growing_pauses(
    wait: Callable[[float], None],
) -> None:
    restarts = Restarts(Backoff(1.0, 10.0))
    pauses_s = []
    for lived_s in (STEADY_S + 1, 1.0, 1.0, 1.0, STEADY_S + 1):
        restarts.begin()
        wait(lived_s)
        pauses_s.append(restarts.fail())
        assert restarts.is_due == (pauses_s[-1] == 0)
        wait(pauses_s[-1])
        assert restarts.is_due

    assert pauses_s == [0.0, 1.0, 2.0, 4.0, 0.0]


def test_a_process_with_a_required_rest_is_restarted_after_the_rest_or_a_longer_pause(
    wait: Callable[[float], None],
) -> None:
    restarts = Restarts(Backoff(1.0, 10.0), least_s=1.5)
    pauses_s = []
    for lived_s in (STEADY_S + 1, 1.0, 1.0):
        restarts.begin()
        wait(lived_s)
        pauses_s.append(restarts.fail())

    assert pauses_s == [1.5, 1.5, 2.0]

"""An actor counts as silent only if it sends no heartbeats while other actors do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.coordinator.heartbeat_monitor import UNSEEN_S, HeartbeatMonitor

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = FIRST + timedelta(seconds=1)
LIMIT_S = 4.0


def check(monitor: HeartbeatMonitor, at_s: float, signs: dict[str, datetime], *, age_s: float = 0.0) -> set[str]:
    """Check heartbeats of the same age once; return the names of the silent actors."""
    monitor.check(signs, dict.fromkeys(signs, age_s), now_s=at_s)
    return monitor.silent(longer_than_s=LIMIT_S)


def watch(monitor: HeartbeatMonitor, signs: dict[str, datetime], *, at_s: Sequence[float]) -> set[str]:
    """Check the same heartbeats at several moments; return the names of the actors that are silent at the last."""
    return [check(monitor, moment_s, signs) for moment_s in at_s][-1]


def test_a_shard_without_a_new_sign_of_life_for_longer_than_the_limit_is_silent() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)

    assert check(monitor, 100.0, {"one": FIRST, "other": FIRST}) == set()
    both = {"one": FIRST, "other": SECOND}
    assert watch(monitor, both, at_s=[101.0, 102.0, 103.0, 104.0]) == set()
    assert check(monitor, 104.1, both) == {"one"}
    assert monitor.silent(longer_than_s=5.0) == set()
    assert monitor.silent(longer_than_s=3.0) == {"one", "other"}, "one check may be compared with several limits"


def test_any_change_of_a_heartbeat_is_a_sign_of_life_even_if_the_new_time_is_earlier() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    watch(monitor, {"one": SECOND}, at_s=[100.0, 101.0, 102.0])

    assert watch(monitor, {"one": FIRST}, at_s=[103.0, 104.0, 105.0, 106.0, 107.0]) == set()


def test_a_silence_begins_at_the_heartbeat_and_not_at_the_check_that_found_the_heartbeat() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    watch(monitor, {"one": FIRST}, at_s=[100.0])
    check(monitor, 100.25, {"one": SECOND}, age_s=0.125)

    assert watch(monitor, {"one": SECOND}, at_s=[101.25, 102.25, 103.25, 104.125]) == set()
    assert check(monitor, 104.1875, {"one": SECOND}) == {"one"}


@pytest.mark.parametrize(("age_s", "silent_from_s"), [(3_600.0, 104.0), (-3_600.0, 104.25)])
def test_a_wrong_clock_of_postgres_moves_a_heartbeat_by_one_interval_at_most(
    age_s: float, silent_from_s: float
) -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    watch(monitor, {"one": FIRST}, at_s=[100.0])
    check(monitor, 100.25, {"one": SECOND}, age_s=age_s)

    assert watch(monitor, {"one": SECOND}, at_s=[101.25, 102.25, 103.25, silent_from_s]) == set()
    assert check(monitor, silent_from_s + 0.0625, {"one": SECOND}) == {"one"}


def test_a_heartbeat_that_is_found_after_a_pause_of_the_coordinator_counts_from_the_check() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    watch(monitor, {"one": FIRST}, at_s=[100.0])
    check(monitor, 160.0, {"one": SECOND}, age_s=59.0)

    assert monitor.silent(longer_than_s=0.0) == set()


def test_after_an_outage_each_keeper_gets_the_full_interval_and_the_time_to_reconnect() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    check(monitor, 100.0, {"one": FIRST})
    monitor.forget()

    assert watch(monitor, {"one": FIRST}, at_s=[200.0, 201.0, 202.0, 203.0, 204.0, 205.0]) == set()
    assert check(monitor, 205.1, {"one": FIRST}) == {"one"}


def test_after_an_outage_a_silence_counts_from_the_first_new_heartbeat() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    monitor.forget()
    check(monitor, 200.0, {"one": FIRST, "new": FIRST})

    assert watch(monitor, {"one": SECOND, "new": FIRST}, at_s=[200.5, 201.5, 202.5, 203.5, 204.5]) == set()
    assert check(monitor, 204.6, {"one": SECOND, "new": FIRST}) == {"one"}


def test_a_pause_of_the_coordinator_counts_as_no_silence() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    watch(monitor, {"one": FIRST, "frozen": FIRST}, at_s=[100.0, 100.5])

    assert check(monitor, 160.5, {"one": FIRST, "frozen": FIRST}) == set()
    assert monitor.silent(longer_than_s=0.5 + UNSEEN_S - 0.1) == {"one", "frozen"}, (
        "except heartbeats that it would have seen in time"
    )
    assert monitor.silent(longer_than_s=0.5 + UNSEEN_S + 0.1) == set()
    assert watch(monitor, {"one": SECOND, "frozen": FIRST}, at_s=[161.5, 162.5, 163.1]) == {"frozen"}


def test_a_shard_that_returns_under_its_old_name_has_no_earlier_silence() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    check(monitor, 100.0, {"one": FIRST})
    check(monitor, 101.0, {})

    assert check(monitor, 110.0, {"one": FIRST}) == set()


def test_the_next_silence_begins_at_the_limit_after_the_earliest_sign_of_life_of_a_keeper_that_is_not_silent() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)

    def silent_in_s(now_s: float) -> float:
        return monitor.silent_in_s(longer_than_s=LIMIT_S, now_s=now_s)

    assert silent_in_s(100.0) == math.inf
    watch(monitor, {"one": FIRST, "other": FIRST}, at_s=[100.0])
    watch(monitor, {"one": FIRST, "other": SECOND}, at_s=[101.0, 102.0, 103.0, 103.75])

    assert silent_in_s(103.75) == 0.25
    assert silent_in_s(104.25) == 0.0, "a check is due"
    assert silent_in_s(103.75 + UNSEEN_S + 0.1) == math.inf, "nothing is known without a check"
    check(monitor, 104.5, {"one": FIRST, "other": SECOND})
    assert silent_in_s(104.5) == 0.5, "one is silent already, and other is next"
    monitor.forget()
    assert silent_in_s(104.5) == math.inf


def test_a_shard_without_any_heartbeat_differs_from_a_shard_that_fell_silent() -> None:
    monitor = HeartbeatMonitor(reconnect_s=1.0)
    check(monitor, 100.0, {"one": FIRST, "other": FIRST})
    assert monitor.unheard(["one", "other"]) == {"one", "other"}

    watch(monitor, {"one": FIRST, "other": SECOND}, at_s=[100.2, 101.2, 102.2])

    assert monitor.unheard(["one", "other", "unknown"]) == {"one", "unknown"}
    monitor.forget()
    assert monitor.unheard(["other"]) == {"other"}

"""After each lapse of the lead, a cluster waits longer until it may get the lead again."""

from __future__ import annotations

from shardclock_server.coordinator.lead_lapses import Lapses


def pause_s(lapses: Lapses, now_s: float) -> float:
    """Count a loss of the lead; return the seconds until the same cluster may get the lead again."""
    lapses.count(now_s)
    return next(float(s) for s in range(1_000) if lapses.may_give(now_s + s))


def test_the_first_lapse_causes_no_pause_and_each_further_lapse_causes_a_longer_pause() -> None:
    lapses = Lapses()
    assert lapses.may_give(0.0)

    assert [pause_s(lapses, 1_000.0 * number) for number in range(1, 8)] == [0, 10, 20, 40, 80, 120, 120]


def test_after_a_long_lead_the_next_lapse_counts_as_the_first_lapse() -> None:
    lapses = Lapses()
    for number in range(3):
        lapses.count(100.0 + number)
    for now_s in (200.0, 259.0):
        lapses.learn_lead(now_s)
    assert pause_s(lapses, 259.5) == 40

    for now_s in (400.0, 430.0, 460.0):
        lapses.learn_lead(now_s)
    assert pause_s(lapses, 461.0) == 0


def test_a_lapse_of_the_lead_between_two_turns_is_counted() -> None:
    lapses = Lapses()
    lapses.learn_lead(100.0)
    lapses.count(101.0)
    lapses.learn_lead(159.0)
    lapses.learn_lead(170.0)

    assert pause_s(lapses, 171.0) == 10

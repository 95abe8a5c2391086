"""Prove that takeovers, recoveries and lags are measured from the recording, for the right timers."""

from __future__ import annotations

import pytest

from chaos.checker import judge
from chaos.orphaned_slots import promised_of, served_again_at
from chaos.run_index import index_run
from chaos.scripted.good_run import A, B, good, timer
from chaos.scripted.run import LAG_S, blank, rig_s
from chaos.takeover import lags, quantile, recoveries, takeovers

LEADER = 0x1EAD


def test_a_timer_that_a_clock_change_delayed_is_left_out_of_a_takeover() -> None:
    run = good()
    run.fault("clock", 40, 41, 5.0, detail={"offset_s": -600.0})
    run.fault("kill", 48, 48, 2.0, victims=[B])
    for key, fired_s in ((701, 48.6), (703, 48.5 + 600)):
        run.schedule(48.2, "bob", timer(key, 48.5))
        run.fire(fired_s, A + 2, key)

    assert [it.timers for it in takeovers(run.end())][-1] == 1


@pytest.mark.parametrize(("slow", "violations"), [(1, 0), (2, 2)])
def test_one_takeover_in_a_hundred_may_exceed_the_bound(slow: int, violations: int) -> None:
    run = blank(ends_s=2_100)
    run.holder(-0.5, B, 1)
    for number in range(100):
        at_s, took_s = 20.0 * number, 2.1 if number < slow else 1.0
        run.fault("freeze", at_s, at_s, 2.0, victims=[B])
        run.schedule(at_s, "bob", timer(2 * number + 1, at_s + 0.1))
        run.fire(at_s + 0.1 + took_s, B, 2 * number + 1)

    finding = next(it for it in judge(run.end()).findings if it.promise == "T1")

    assert (finding.cases, finding.violations) == (100, violations)


def test_a_takeover_includes_only_the_timers_of_the_lost_shard() -> None:
    run = good()
    run.fault("cut", 25.05, 25.1, 2.0, victims=[B])  # B and the killed shard have different slots

    assert [(it.fault.kind, it.timers) for it in takeovers(run.end())] == [("kill", 1), ("freeze", 1), ("cut", 1)]


def test_a_takeover_takes_as_long_as_the_latest_of_the_lost_shards_timers() -> None:
    found = takeovers(good().end())

    assert [(it.fault.kind, it.timers) for it in found] == [("kill", 1), ("freeze", 1)]
    assert [it.seconds for it in found] == pytest.approx([0.8, 0.8])
    assert [it.bound_s for it in found] == [2.0, 2.0]


def test_a_timer_that_another_fault_delayed_is_left_out_of_a_takeover() -> None:
    run = good()
    run.fault("lock", 25.1, 25.9, 1.0)

    assert [it.timers for it in takeovers(run.end())] == [0, 1]


@pytest.mark.parametrize(("began_s", "bound_s"), [(7.9, 2.0), (8.1, 13.0), (12.0, 13.0), (16.9, 13.0), (17.1, 2.0)])
def test_a_takeover_has_more_time_without_a_leader(began_s: float, bound_s: float) -> None:
    run = blank()
    run.holder(-0.5, B, 1)
    run.lead(9.0, LEADER)
    run.fault("freeze", 10.0, 15.0, 5.0, disturbs=False, leaderless=True)
    run.lead(17.0, LEADER)
    run.fault("kill", began_s, began_s, 2.0, victims=[A])
    run.fault("kill", began_s, began_s, None, victims=[A])
    history = run.end()

    assert list(promised_of(index_run(history)).values())[1:] == [bound_s, None]


@pytest.mark.parametrize(("killed_s", "bound_s"), [(13.9, 13.0), (14.1, 2.0)])
def test_after_a_coordinator_s_kill_a_takeover_has_more_time_until_another_leads(
    killed_s: float, bound_s: float
) -> None:
    # Given a killed coordinator that has committed its last renewal of the lead after the kill
    run = blank()
    run.holder(-0.5, B, 1)
    run.lead(9.0, LEADER)
    run.fault("kill", 10.0, 10.0, None, disturbs=False, leaderless=True)
    run.lead(10.1, LEADER)
    # When an operator removes the lead, and then another coordinator takes it
    run.lead(11.0, None)
    run.lead(14.0, LEADER + 1)
    run.fault("kill", killed_s, killed_s, 2.0, victims=[A])

    assert promised_of(index_run(run.end()))[2] == bound_s


def test_without_a_new_leader_a_takeover_has_more_time_until_the_end_of_the_run() -> None:
    run = blank()
    run.holder(-0.5, B, 1)
    run.lead(9.0, LEADER)
    run.fault("kill", 10.0, 10.0, None, disturbs=False, leaderless=True)
    run.fault("kill", 30.0, 30.0, 2.0, victims=[A])

    assert promised_of(index_run(run.end()))[2] == 13.0


@pytest.mark.parametrize(("began_s", "bound_s"), [(7.9, 2.0), (8.1, 13.0), (12.0, 13.0), (14.9, 13.0), (15.1, 2.0)])
def test_a_takeover_has_more_time_without_another_shard(began_s: float, bound_s: float) -> None:
    run = blank()
    run.fault("kill", began_s, began_s, 2.0, victims=[A])
    for at_s, holder, shard in ((-0.5, A, 0), (-0.4, B, 1), (9.0, A, None), (10.0, B, None), (15.0, 0xC, 0)):
        run.holder(at_s, holder, shard)

    assert promised_of(index_run(run.end())) == {1: bound_s}


@pytest.mark.parametrize(("began_s", "bound_s"), [(7.9, 2.0), (8.1, 4.0), (10.9, 4.0), (11.1, 2.0)])
def test_overlapping_takeovers_may_take_the_time_of_both(began_s: float, bound_s: float) -> None:
    run = blank()
    run.holder(-0.5, B, 1)
    run.fault("cut", 8.0, 11.0, 2.0, victims=[B])
    run.fault("kill", began_s, began_s, 2.0, victims=[A])

    assert promised_of(index_run(run.end()))[2] == bound_s


@pytest.mark.parametrize(("last_s", "still", "took_s"), [(11.9, False, 1.9), (12.05, False, 2.05), (11.9, True, 2.25)])
def test_a_lost_head_is_replaced_with_the_commit_that_gives_the_last_slots(
    last_s: float, still: bool, took_s: float
) -> None:
    # Given a lost head with two shards, and a test program that finds their successors after 2.25 s
    run = blank()
    for at_s, holder, part in ((-0.5, A, 0), (-0.4, B, 1)):
        run.holder(at_s, holder, part)
    detail = {"whole": True, "served": 2, "lost": [A, B]}
    run.fault("head", 10.0, 12.25, 5.0, detail=detail, whole_within_s=2.0)
    # When one successor gets slots after a second, and the other successor gets slots later
    for holder in (A, B)[: 1 if still else 2]:
        run.holder(11.0, holder, None, ended=True)
    run.holder(11.0, 0xC, 0)
    run.holder(last_s, 0xD, 1)
    history = run.end()

    # Then the measured time ends at this commit. If a lost shard still has slots, the time ends at the check of the
    # test program
    assert served_again_at(index_run(history), history.faults[0]) == pytest.approx(rig_s(10.0 + took_s))
    finding = next(it for it in judge(history).findings if it.promise == "T2")
    assert bool(finding.violations) == (took_s > 2.0)


@pytest.mark.parametrize("led", [True, False])
def test_without_a_leader_only_the_lost_shards_timers_may_be_later(led: bool) -> None:
    run = blank()
    run.holder(-0.5, A, 0)
    run.holder(-0.5, B, 1)
    run.schedule(1, "ada", timer(1, 6), timer(2, 6))
    run.fault("freeze", 5.0, 9.0, None, disturbs=False, leaderless=not led)
    run.lead(9.5, LEADER)
    run.fault("kill", 5.5, 5.5, 2.0, victims=[A])
    run.fire(14.0, B, 1)
    run.holder(14.1, B, None)
    run.fire(14.2, B, 2)
    history = run.end()

    verdict = judge(history)

    late = [line for finding in verdict.findings if finding.promise == "L1" for line in finding.shown]
    assert len(late) == (2 if led else 1), late
    assert "timer 1 " in late[0]
    assert [(it.timers, it.bound_s) for it in takeovers(history) if it.fault.victims] == [(1, 2.0 if led else 13.0)]


def test_a_timer_that_waits_for_a_takeover_without_a_leader_is_not_counted_in_the_next_takeover() -> None:
    run = blank()
    run.holder(-0.5, A, 0)
    run.schedule(1, "ada", timer(2, 12))
    run.fault("freeze", 4.0, 6.0, None, disturbs=False, leaderless=True)
    run.lead(7.0, LEADER)
    run.fault("kill", 5.0, 5.0, 2.0, victims=[A])
    run.fault("kill", 11.0, 11.0, 2.0, victims=[A])
    run.fire(16.0, B, 2)

    assert [it.timers for it in takeovers(run.end())] == [0, 0]


def test_a_recovery_is_measured_from_the_end_of_the_outage() -> None:
    (recovery,) = (it for it in recoveries(good().end()) if it.fault.kind == "store")

    assert recovery.first_s == pytest.approx(0.1)
    assert recovery.normal_s == pytest.approx(0.1)


def test_a_fault_that_ends_during_another_one_has_no_recovery() -> None:
    run = good()
    assert [it.fault.kind for it in recoveries(run.end())] == ["store"], "the head was back while the store was away"
    run.fault("lock", 17.5, 18.05, 5.0)

    assert not recoveries(run.end())


def test_lags_are_in_commit_order_and_count_from_the_commit_of_a_late_timer() -> None:
    run = blank()
    run.schedule(10, "ada", timer(2, 5))
    run.fire(10.105, A, 2)

    ((fired_s, lag_s),) = lags(run.end())

    assert fired_s == rig_s(10.105)
    assert lag_s == pytest.approx(0.1, abs=1e-6)


def test_a_punctual_timer_has_the_lag_of_its_record() -> None:
    fired_s, lag_s = lags(good().end())[0]

    assert fired_s == rig_s(2.5 + LAG_S)
    assert lag_s == pytest.approx(LAG_S, abs=1e-6)


def test_a_quantile_is_a_value_of_the_list() -> None:
    values = [float(n) for n in range(100, 0, -1)]

    assert [quantile(values, q) for q in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
